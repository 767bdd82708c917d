"""Comparisons as text and as a page: what differs first, hostile names harmless."""

import contextlib
import re

import pytest
import vl_convert

from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.comparison import (
    ComparedExperiment,
    Contrast,
    ExperimentComparison,
    Indirect,
    NotCombined,
    PooledEffect,
    StudyEffect,
    Value,
    WorldDifference,
)
from pgtrial.findings.findings import ArmFinding
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.charts.pooled import pooled_forest
from pgtrial.report.comparison.page import PARTS, render_comparison
from pgtrial.report.comparison.text import align_table, render_experiments
from pgtrial.report.comparison.words import answer_text
from support.html import Page

PATIENCE = 120_000  # ms
HOSTILE = ("</script><script>alert(1)</script>", '<img src=x onerror="alert(2)">', "a\x1b[31m\u202eb {{ 7*7 }}")
PLAIN = ("monday", "tuesday", "wednesday")
WARNING = CaveatFinding(
    code="few-experiments", severity=Severity.WARNING, text="Only 3 experiments.", hint="Repeat it."
)


def experiment(key: str, name: str) -> ComparedExperiment:
    return ComparedExperiment(
        key=key,
        folder=f"results/{name}",
        name=name,
        started=1_768_900_000.0,
        ended=1_768_903_600.0,
        is_finished=key != "B",
        method="blocks",
        blocks=6,
        control="on",
        arms=(ArmFinding(name="on", role="control", settings={}, runs_done=6, runs_invalid=0),),
        metric="pgbench.tps",
        margin=0.05,
        confidence=0.95,
        verdict=Verdict.SUPPORTED,
        reason=f"off is 2.0 times as fast as on in {name}.",
        sd_log_ratio=0.0213,
        control_values=(
            Value(metric="pgbench.tps", value=1234.0, low=1200.0, high=1270.0),
            Value(metric="pgbench.latency_p95", value=0.0042, low=None, high=None),
        ),
    )


def make_experiments(names: tuple[str, str, str] = PLAIN, *, differences: int = 3) -> ExperimentComparison:
    keys = ("A", "B", "C")
    studies = tuple(
        StudyEffect(
            experiment=key,
            arm=names[1],
            ratio=2.0 + 0.05 * place,
            low=None if place == 2 else 1.9,
            high=None if place == 2 else 2.2,
            log_error=0.02,
            blocks=6,
            decision=Decision.BETTER,
            degrees=4.0,
            left_out="its verdict is invalid" if place == 2 else "",
        )
        for place, key in enumerate(keys)
    )
    pooled = PooledEffect(
        experiments=2,
        ratio=2.02,
        low=1.95,
        high=2.1,
        confidence=0.95,
        degrees=1,
        log_error=0.01,
        p_value=0.0004,
        f=3.2,
        f_p=0.07,
        i2=0.38,
        tau=0.012,
        tau_low=0.0,
        tau_high=0.2,
        prediction_low=1.8,
        prediction_high=2.3,
        margin=0.05,
        decision=Decision.BETTER,
    )
    contrast = Contrast(
        title=f"{names[1]} against {names[0]}",
        arm={"synchronous_commit": "off"},
        control={"synchronous_commit": names[0]},
        metric="pgbench.tps",
        better="higher",
        scenario=None,
        load_level="4 clients",
        is_overall=True,
        is_claimed=True,
        studies=studies,
        pooled=pooled,
        caveats=(WARNING,),
    )
    alone = contrast.model_copy(update={"pooled": None, "studies": studies[:1], "caveats": (), "is_claimed": False})
    latency = contrast.model_copy(update={"metric": "pgbench.latency_p95", "better": "lower", "is_claimed": False})
    return ExperimentComparison(
        pgtrial_version="1",
        rule=("Only what is the same is combined.", "Names do not matter."),
        experiments=tuple(experiment(key, name) for key, name in zip(keys, names, strict=True)),
        differences=tuple(
            WorldDifference(
                group="machine",
                name=f"CPUs {number} {names[2]}",
                values={"A": "2", "B": "4", "C": names[2] * 30},
                severity=Severity.WARNING,
                why="Other CPUs.",
            )
            for number in range(differences)
        ),
        contrasts=(contrast, alone, latency),
        not_combined=(NotCombined(first="A", second="C", reasons=(f"arm: work_mem {names[0]} / 64MB",)),),
        indirect=(
            Indirect(
                title=f"{names[2]} against {names[1]}",
                metric="pgbench.tps",
                better="higher",
                scenario=None,
                experiments=(("A", "B"), ("C",)),
                ratio=0.7,
                low=0.6,
                high=0.8,
                confidence=0.95,
                p_value=0.001,
            ),
        ),
        caveats=(CaveatFinding(code="unfinished", severity=Severity.INFO, text=f"B ({names[1]}) is not finished."),),
    )


@pytest.fixture(scope="module")
def experiments() -> ExperimentComparison:
    return make_experiments()


def test_differences_come_before_effects(experiments):
    text = render_experiments(experiments)

    assert text.index("Different between them (3)") < text.index("tuesday against monday: throughput")
    assert "A: 2; B: 4" in text


def test_lines_fit_a_terminal(experiments):
    for text in (render_experiments(experiments), render_experiments(make_experiments(HOSTILE))):
        assert max(map(len, text.splitlines())) <= 110  # a single word that is longer stays whole
    words = [line for line in render_experiments(experiments).splitlines() if "wednesdaywednesday" not in line]
    assert max(map(len, words)) <= 80


def test_many_differences_are_cut_and_the_rest_is_counted():
    text = render_experiments(make_experiments(differences=20))

    assert "… and 5 more; the page and --json have all." in text


def test_the_answer_says_when_it_is_a_mean_of_different_effects(experiments):
    warning = "The experiments differ by more than their own noise explains"
    contrast = experiments.contrasts[0]
    alike = contrast.model_copy(update={"pooled": contrast.pooled.model_copy(update={"f_p": 0.4})})

    assert warning in answer_text(experiments)
    assert warning not in answer_text(experiments.model_copy(update={"contrasts": (alike,)}))


def test_few_experiments_are_headed_by_what_they_have_shown_themselves(experiments):
    """Two numbers say next to nothing about a third: an interval for all like these is wider than each."""
    contrast = experiments.contrasts[0]
    few = contrast.pooled.model_copy(
        update={"experiments": 2, "ratio": 1.02, "low": 0.62, "high": 1.6, "these_low": 0.99, "these_high": 1.05}
    )
    found = experiments.model_copy(update={"contrasts": (contrast.model_copy(update={"pooled": few}),)})
    head = (
        "+2.0 % in these 2 experiments (95 % interval −1.0 % to +5.0 %). Experiments like these, of which 2 tell "
        "little: −38.0 % to +60.0 % on average"
    )

    assert head in " ".join(answer_text(found).split())
    rows = [line.split() for line in render_experiments(found).splitlines() if line.startswith("  these 2")]
    assert [" ".join(row) for row in rows] == ["these 2 +2.0 % −1.0 % to +5.0 %"]
    many = few.model_copy(update={"experiments": 5})
    found = experiments.model_copy(update={"contrasts": (contrast.model_copy(update={"pooled": many}),)})
    assert "+2.0 % (95 % interval −38.0 % to +60.0 %) over 5 experiments" in answer_text(found)
    assert "  these" not in render_experiments(found)


def test_a_combined_effect_of_experiments_that_go_on_is_provisional(experiments):
    contrast = experiments.contrasts[0]
    pooled = contrast.pooled.model_copy(update={"provisional": True})
    first = experiments.experiments[0].model_copy(update={"provisional": True})
    found = experiments.model_copy(
        update={
            "experiments": (first, *experiments.experiments[1:]),
            "contrasts": (contrast.model_copy(update={"pooled": pooled}), *experiments.contrasts[1:]),
        }
    )

    assert ": better, provisional." in answer_text(found)
    assert "better, provisional" in render_experiments(found).split("combined", 1)[1]
    assert "supported, provisional: off is" in " ".join(render_experiments(found).split())
    page = render_comparison(found)
    assert "better, provisional</span>" in page
    assert "supported, provisional. " in page


def test_the_combined_effect_stands_with_its_heterogeneity(experiments):
    text = render_experiments(experiments)

    assert re.search(r"combined +\+102 % +\+95\.0 % to \+110 %", text)
    assert "I² = 38 %" in " ".join(text.split())
    assert "prediction interval" in " ".join(text.split())
    assert "C is not in it: its verdict is invalid." in text
    assert "! warning: Only 3 experiments." in text


def test_what_is_not_combined_and_what_is_indirect_is_said(experiments):
    text = " ".join(render_experiments(experiments).split())

    assert "A and C: arm: work_mem monday / 64MB" in text
    assert "wednesday against tuesday, throughput: −30.0 %" in text
    assert "Only what is the same is combined." in text


def test_hidden_characters_are_written_out():
    text = render_experiments(make_experiments(HOSTILE))

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"\x1b[31m" in text


def test_a_table_that_is_too_wide_cuts_its_first_column():
    lines = align_table(
        ("name", "value"), [("a very long name indeed", "17"), ("b", "1234567890")], left=("name",), width=30
    )

    assert max(map(len, lines)) <= 30
    assert "…" in lines[1]


def test_names_that_would_be_the_same_when_cut_stand_above_their_rows():
    rows = [("latency p95, 2 clients", "less than × 0.0001"), ("latency p99, 2 clients", "17"), ("b", "18")]

    lines = align_table(("", "interval"), rows, left=("",), width=30)

    assert lines == [
        "                      interval",
        "  latency p95, 2 clients",
        "            less than × 0.0001",
        "  latency p99, 2 clients",
        "                            17",
        "  b                         18",
    ]


def test_hostile_names_stay_text_on_the_page():
    plain, hostile = (Page(render_comparison(make_experiments(names))) for names in (PLAIN, HOSTILE))

    assert not any(name.startswith("on") for _, attributes in hostile.elements for name in attributes)
    assert [tag for tag, _ in hostile.elements if tag in {"script", "img"}] == [
        tag for tag, _ in plain.elements if tag in {"script", "img"}
    ]
    text = hostile.text
    assert HOSTILE[0] in text
    assert "\x1b" not in text


def test_every_section_is_in_the_navigation_and_the_page_loads_nothing(experiments):
    source = render_comparison(experiments)
    page = Page(source)
    anchors = [a["href"].removeprefix("#") for tag, a in page.elements if tag == "a" and a.get("href")]
    links = [value for _, a in page.elements for name, value in a.items() if name in {"src", "href"}]

    assert anchors == ["content", *(part.name for part in PARTS)]
    assert all(link is not None and link.startswith(("#", "data:")) for link in links)
    assert "default-src 'none'" in source


def test_differences_come_first_on_the_page_after_the_answer():
    names = [part.name for part in PARTS]

    assert names[:3] == ["answer", "differences", "effects"]


def test_nothing_to_show_is_still_a_page(experiments):
    empty = experiments.model_copy(update={"contrasts": (), "differences": (), "indirect": (), "caveats": ()})

    assert "No effect could be estimated" in render_comparison(empty)
    assert "No difference is known" in render_experiments(empty)


def test_every_chart_compiles_and_says_its_message(experiments):
    charts = [pooled_forest(experiments, one) for one in experiments.contrasts]

    for chart in charts:
        assert chart is not None
        svg = vl_convert.vegalite_to_svg({**chart.spec, "width": 600}, allowed_base_urls=[])
        assert svg.startswith("<svg")
        assert chart.title
        assert chart.text.endswith((".", "%"))


def test_the_diamond_is_as_wide_as_the_interval_of_the_combined_effect(experiments):
    chart = pooled_forest(experiments, experiments.contrasts[0])
    assert chart is not None
    shapes = [layer["data"]["values"] for layer in chart.spec["layer"] if "data" in layer]
    corners = next(values for values in shapes if "corner" in values[0])

    assert min(corner["ratio"] for corner in corners) == 1.95
    assert max(corner["ratio"] for corner in corners) == 2.1
    assert "not in the combined effect" in chart.text


@pytest.mark.browser
def test_every_chart_is_drawn_in_a_browser_without_a_complaint(chromium, tmp_path):
    path = tmp_path / "compare.html"
    path.write_text(
        render_comparison(make_experiments(HOSTILE)).replace("<details>", "<details open>"), encoding="utf-8"
    )
    complaints = []
    with contextlib.closing(chromium.new_context()) as context:
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-charts=drawn]", state="attached", timeout=PATIENCE)
        document = page.content()

    assert complaints == []
    specifications = document.count('<script type="application/json">')
    assert len(re.findall(r'<div class="plot[^>]*>\s*<svg', document)) == specifications > 0
    assert 'data-charts="drawn"' in document
