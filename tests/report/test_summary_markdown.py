import pytest
from markdown_it import MarkdownIt

from pgtrial.findings.findings import ClaimPart, Effect, Findings
from pgtrial.findings.message import say
from pgtrial.model.caveat import STOPPED_FOR_HARM
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.gate import list_cases
from pgtrial.report.markdown import render_summary
from pgtrial.report.text import render_text
from pgtrial.report.words import primary_effect

RENDERER = MarkdownIt("commonmark").enable("table").enable("strikethrough")


def test_verdict_and_reason_come_first(sample):
    lines = render_summary(sample).splitlines()

    assert lines[:5] == [
        "## ✔ synchronous-commit: supported",
        "",
        f"**{say(sample.hypothesis.reason)}**",
        "",
        "Claim: synchronous_commit = off is faster for small updates",
    ]


def test_what_was_not_tested_is_told_as_that(sample):
    asked = sample.hypothesis.model_copy(update={"verdict": Verdict.INCONCLUSIVE, "not_tested": True})
    untested = sample.model_copy(update={"hypothesis": asked})

    assert render_summary(untested).startswith("## ? synchronous-commit: not tested\n")
    assert render_text(untested).startswith("? NOT TESTED\n")


def test_effects_are_a_table_with_intervals(sample):
    lines = render_summary(sample).splitlines()
    head = next(k for k, line in enumerate(lines) if line.startswith("| arm"))
    cells = [cell.strip() for cell in lines[head + 2].strip("|").split("|")]
    claimed: Effect = next(
        e for e in sample.effects if (e.metric, e.scenario, e.load_level) == ("pgbench.tps", None, "all")
    )

    assert " ".join(lines[head].split()) == "| arm | metric | change | 95 % interval | p | decision |"
    assert cells[:2] == ["`off`", "throughput"]
    assert cells[2].startswith("+")
    assert " to " in cells[3]
    assert cells[5] == claimed.decision
    assert "Effects against `on`, margin ±3 %:" in lines


def _word_of_the_claim(findings: Findings) -> str:
    (line, *_) = (line for line in render_summary(findings).splitlines() if line.startswith("| `off`"))
    return line.strip("|").split("|")[-1].strip()


@pytest.mark.parametrize(
    ("decision", "expect", "verdict", "word"),
    [
        (Decision.EQUIVALENT, "not-worse", Verdict.INCONCLUSIVE, "inconclusive"),  # of too few blocks
        (Decision.EQUIVALENT, "not-worse", Verdict.SUPPORTED, "equivalent"),
        (Decision.INCONCLUSIVE, "not-worse", Verdict.SUPPORTED, "not worse"),
        (Decision.INCONCLUSIVE, "better", Verdict.REFUTED, "not better"),
        (Decision.BETTER, "better", Verdict.SUPPORTED, "better"),
    ],
)
def test_the_table_says_of_the_claim_what_the_verdict_does(
    sample: Findings, decision: Decision, expect: str, verdict: Verdict, word: str
) -> None:
    claimed = primary_effect(sample)
    assert claimed is not None
    changed = claimed.model_copy(update={"decision": decision})
    asked = sample.hypothesis.model_copy(update={"expect": expect, "verdict": verdict})
    effects = tuple(changed if effect == claimed else effect for effect in sample.effects)

    assert _word_of_the_claim(sample.model_copy(update={"effects": effects, "hypothesis": asked})) == word


def test_the_table_of_what_is_not_finished_does_not_decide_its_claim(sample: Findings) -> None:
    early = sample.experiment.model_copy(update={"complete": False, "blocks_complete": 3})

    assert _word_of_the_claim(sample) == "better"
    assert _word_of_the_claim(sample.model_copy(update={"experiment": early})) == "inconclusive"
    claimed = primary_effect(sample)
    assert claimed is not None
    part = ClaimPart(
        metric=claimed.metric,
        scenario=None,
        expect="better",
        margin=0.03,
        verdict=Verdict.SUPPORTED,
        reason=sample.hypothesis.reason,
    )
    asked = sample.hypothesis.model_copy(update={"parts": (part,)})
    several = sample.model_copy(update={"experiment": early, "hypothesis": asked})
    assert _word_of_the_claim(several) == "inconclusive"


def test_of_a_claim_of_several_metrics_each_effect_has_the_word_of_its_part(sample: Findings) -> None:
    claimed = primary_effect(sample)
    assert claimed is not None
    part = ClaimPart(
        metric=claimed.metric,
        scenario=None,
        expect="better",
        margin=0.03,
        verdict=Verdict.SUPPORTED,
        reason=sample.hypothesis.reason,
    )
    asked = sample.hypothesis.model_copy(update={"verdict": Verdict.INCONCLUSIVE, "parts": (part,)})

    assert _word_of_the_claim(sample.model_copy(update={"hypothesis": asked})) == "better"


def test_load_levels_have_a_table_of_their_own_where_there_are_several(sample):
    one = sample.experiment.model_copy(update={"levels": sample.experiment.levels[:1]})

    assert "By load level, throughput:" in render_summary(sample)
    assert "By load level" not in render_summary(sample.model_copy(update={"experiment": one}))


def test_grave_caveats_are_told_and_others_counted(sample):
    text = render_summary(sample)

    assert (
        "- ! **warning**: The hypervisor took 4.2 % of the CPU time in one run. "
        "*Repeat at a quieter hour, or on a dedicated host.*" in text
    )
    assert "- 1 remark more in the report" in text
    assert "Other processes" not in text


def test_an_experiment_that_is_not_finished_says_so(sample):
    early = sample.model_copy(
        update={"experiment": sample.experiment.model_copy(update={"complete": False, "blocks_complete": 3})}
    )
    text = render_summary(early)

    assert text.startswith("## ? synchronous-commit: inconclusive\n")
    assert "Not finished: 3 of 6 blocks complete; `pgtrial resume` goes on." in text


def test_one_that_a_guardrail_has_ended_is_not_said_to_go_on(sample):
    harm = sample.caveats[0].model_copy(update={"code": STOPPED_FOR_HARM})
    ended = sample.model_copy(
        update={
            "experiment": sample.experiment.model_copy(update={"complete": False, "blocks_complete": 3}),
            "caveats": (harm,),
        }
    )

    assert "Not finished: 3 of 6 blocks complete; a guardrail has ended it." in render_summary(ended)
    assert "goes on" not in render_text(ended)
    assert "a guardrail has ended it" in next(case.message for case in list_cases(ended) if case.key == "schedule")


def test_nothing_measured_is_said_in_words(minimal):
    text = render_summary(minimal)

    assert text.startswith("## ! nothing-yet: invalid\n")
    assert "No effect could be estimated." in text


@pytest.mark.parametrize("which", ["hostile", "sample", "minimal"])
def test_nothing_in_it_is_html_or_steers_a_terminal(which: str, request: pytest.FixtureRequest) -> None:
    findings: Findings = request.getfixturevalue(which)
    text = render_summary(findings)
    page = RENDERER.render(text)

    assert text.isprintable() or set(filter(lambda c: not c.isprintable(), text)) == {"\n"}
    assert "<script" not in page
    assert "<img" not in page
    assert "<a " not in page


def test_hostile_names_stay_in_their_cells(hostile, sample):
    assert _shape(render_summary(hostile)) == _shape(render_summary(sample))


def _shape(text: str) -> list[str]:
    """Types of the blocks, and rows and cells of the tables."""
    return [token.type for token in RENDERER.parse(text) if token.type != "inline"]


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_its_sign(sample, verdict):
    changed = sample.model_copy(update={"hypothesis": sample.hypothesis.model_copy(update={"verdict": verdict})})

    assert render_summary(changed).splitlines()[0].endswith(f"synchronous-commit: {verdict}")
