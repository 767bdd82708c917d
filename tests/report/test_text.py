import pytest

from pgtrial.findings.caveat import caveat_in_words
from pgtrial.findings.message import message
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Verdict
from pgtrial.report.charts.forest import primary_forest
from pgtrial.report.charts.picture import blocks_chart, effect_picture
from pgtrial.report.markdown import render_summary
from pgtrial.report.text import align_columns, render_text


def test_the_verdict_comes_first(sample):
    lines = render_text(sample).splitlines()

    assert lines[0] == "✔ SUPPORTED"
    assert lines[1].startswith("  off is 2.7 times as fast as on")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_keep_to_the_width(sample, width):
    room = width if width >= 80 else 75  # a table is as wide as its figures
    assert max(map(len, render_text(sample, width=width).splitlines())) <= room


def test_columns_of_a_table_are_aligned(sample):
    lines = render_text(sample).splitlines()
    head = next(line for line in lines if line.startswith("  arm") and "metric" in line)
    rows = [line for line in lines if "throughput" in line and line.startswith("  ") and "%" in line]

    assert len(rows) == 2
    for row in rows:
        assert row.index("throughput") == head.index("metric")
        assert row.index(row.split()[-1]) == head.index("decision")


def test_effects_overall_and_by_load_level_are_there(sample):
    text = render_text(sample)

    for label in ("throughput", "latency p50", "latency p95", "latency p99", "4 clients", "16 clients"):
        assert label in text


def test_one_load_level_has_no_table_of_levels(sample):
    one = sample.experiment.model_copy(update={"levels": sample.experiment.levels[:1]})

    assert "By load level" not in render_text(sample.model_copy(update={"experiment": one}))


def test_placebo_noise_time_and_caveats_are_said(sample):
    text = " ".join(render_text(sample).split())

    assert "No difference was found where there is none" in text
    assert "a change of 3.1 % is found with 80 % probability" in text
    assert "One run of each arm: Of 6 blocks, each taken alone, 6 would have said faster" in text
    assert "warm-up 1 min 35 s" in text
    assert "! warning: The hypervisor took 4.2 % of the CPU time in one run. (run 3)" in text
    assert "→ Repeat at a quieter hour" in text


def test_an_adjusted_effect_is_said_where_there_is_one(adjusted, sample):
    assert "Covariate: At equal stolen CPU time the change would be +161 %." in " ".join(render_text(adjusted).split())
    assert "Covariate:" not in render_text(sample)


@pytest.mark.parametrize("width", range(60, 80))
def test_no_line_breaks_between_a_number_and_its_unit(sample, width):
    caveat = caveat_in_words(
        code="other-programs",
        severity=Severity.WARNING,
        text="It took 4.2 % of the CPU time, 3.5 s of 10 min.",
        hint="Leave 5 % or 1.5 GB for others, × 2.",
    )
    text = render_text(sample.model_copy(update={"caveats": (caveat,)}), width=width)

    for phrase in ("4.2 %", "3.5 s", "10 min", "5 %", "1.5 GB", "× 2"):
        assert phrase in text


def test_graver_caveats_come_first(sample):
    text = render_text(sample)

    assert text.index("warning:") < text.index("info:")


def test_an_open_question_says_what_is_needed(sample):
    changed = sample.model_copy(
        update={
            "hypothesis": sample.hypothesis.model_copy(update={"verdict": Verdict.INCONCLUSIVE}),
            "needed": sample.needed.model_copy(update={"text": message("needed.blocks", count=4)}),
        }
    )

    assert "Needed: About 4 more blocks would decide the claim." in render_text(changed)
    assert "Needed:" not in render_text(sample)


def test_an_effect_on_one_scenario_leads_the_table(sample):
    changed = sample.model_copy(update={"hypothesis": sample.hypothesis.model_copy(update={"scenario": "read"})})
    lines = render_text(changed).splitlines()
    head = next(k for k, line in enumerate(lines) if line.startswith("  arm"))

    assert "throughput of read" in lines[head + 1]
    assert "By load level: throughput of read" in lines
    assert "\nBy load level, throughput of `read`:\n" in render_summary(changed)
    for chart in (primary_forest(changed), blocks_chart(changed), effect_picture(changed)):
        assert "hange of throughput of read" in chart.text


def test_nothing_measured_is_said_in_words(minimal):
    text = render_text(minimal)

    assert "! INVALID" in text
    assert "No effect could be estimated." in text
    assert "Not finished: 0 of 3 blocks complete" in text


def test_terminal_escapes_in_names_are_written_out(hostile):
    text = render_text(hostile, width=200)

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"a\x1b[31m\u202eb" in text


def test_arms_whose_names_would_be_the_same_when_cut_are_told_apart() -> None:
    table = [
        ("arm", "metric", "change"),
        ("partitions_by_month", "throughput", "+17 %"),
        ("partitions_by_month", "latency p50", "−17 %"),
        ("partitions_by_quarter", "throughput", "+18 %"),
    ]

    lines = align_columns(table, left=(True, True, False), width=32, narrowest=8)

    assert lines == [
        "  arm        metric       change",
        "  partitions_by_month",
        "             throughput    +17 %",
        "             latency p50   −17 %",
        "  partitions_by_quarter",
        "             throughput    +18 %",
    ]
