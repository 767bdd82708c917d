"""The report in plain words, without a model: every number has its place in the findings, and is what stands there."""

import json
import re

import pytest

from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.findings.message import message, verbatim
from pgtrial.language import ntr
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.html import render_html, template_environment
from pgtrial.report.markdown import render_summary
from pgtrial.report.narrative.parts import (
    Cited,
    cite,
    enumerate_parts,
    keep,
    key_path,
    say,
    source,
    text_of,
)
from pgtrial.report.narrative.story import TELLERS, next_step, tell_story
from pgtrial.report.narrative.write import as_data, list_sources, write_markdown, write_text
from pgtrial.report.sections.effects import SCORECARD
from pgtrial.report.sections.verdict import NARRATIVE, VERDICT
from pgtrial.report.text import render_text
from pgtrial.report.words import change_text, format_p
from pgtrial.units import format_share

ALL_FINDINGS = ("sample", "adjusted", "turns", "minimal", "hostile")
STEP = re.compile(r'\[(?:\d+|"(?:[^"\\]|\\.)*")\]|[^.\[\]]+')
# What a number of the last field of a path is written by.
WRITTEN = {
    "ratio": change_text,
    "low": change_text,
    "high": change_text,
    "confidence": format_share,
    "p_adjusted": format_p,
}


@pytest.fixture(params=ALL_FINDINGS)
def findings(request):
    return request.getfixturevalue(request.param)


def resolve(data, path: str):
    for step in STEP.findall(path):
        data = data[json.loads(step[1:-1])] if step.startswith("[") else data[step]
    return data


def cited(findings) -> list[Cited]:
    return [part for each in tell_story(findings) for part in each.parts if isinstance(part, Cited)]


def paragraph(findings, name: str) -> str:
    return next((each.text for each in tell_story(findings) if each.name == name), "")


def change(findings, field: str, **values):
    return findings.model_copy(update={field: getattr(findings, field).model_copy(update=values)})


def with_effect(findings, metric: str, scenario: str | None, **values):
    """With other values of an effect over all load levels."""
    effects = tuple(
        effect.model_copy(update=values)
        if (effect.metric, effect.scenario, effect.load_level) == (metric, scenario, "all")
        else effect
        for effect in findings.effects
    )
    return findings.model_copy(update={"effects": effects})


def with_primary(findings, **values):
    return with_effect(findings, "pgbench.tps", None, **values)


def test_every_place_exists_in_findings_json(findings) -> None:
    data = json.loads(findings.model_dump_json())

    for part in cited(findings):
        assert part.paths
        for path in part.paths:
            resolve(data, path)


def test_no_digit_stands_outside_what_is_cited(findings) -> None:
    for each in tell_story(findings):
        fixed = [part for part in each.parts if isinstance(part, str)]

        assert not re.search(r"\d", "".join(fixed)), each.name


def test_a_number_is_what_stands_in_its_place(findings) -> None:
    data = json.loads(findings.model_dump_json())
    checked = 0
    for part in cited(findings):
        field = part.paths[0].rpartition(".")[2]
        if len(part.paths) == 1 and field in WRITTEN:
            shown = part.text.replace("less than ", "<")
            assert shown == WRITTEN[field](resolve(data, part.paths[0]))
            checked += 1

    assert checked > 10 or not findings.effects


def test_texts_are_those_of_the_findings(sample) -> None:
    data = json.loads(sample.model_dump_json())
    texts = [part for part in cited(sample) if part.paths[0].endswith((".text", ".reason", ".claim", ".hint"))]

    assert len(texts) > 5
    for part in texts:
        whole = resolve(data, part.paths[0])
        assert part.text.rstrip(".").lower() == whole.rstrip(".").lower()


def test_the_questions_are_answered_in_order_and_in_about_ten_sentences(sample) -> None:
    story = tell_story(sample)

    assert [each.title for each in story] == ["What was asked", "What came out", "How sure it is", "What to do next"]
    assert sum(len(each.sentences) for each in story) <= 16
    assert len({teller.name for teller in TELLERS}) == len(TELLERS)


def test_sentences_begin_and_end_as_sentences_do(findings) -> None:
    for each in tell_story(findings):
        for sentence in each.sentences:
            text = text_of(sentence)

            assert text == text.strip()
            assert text.endswith((".", "”.", "?", "!")), text
            assert not re.search(r"\.\.|\s\s|\s[.,;]", text.replace("…", "")), text


def test_the_story_of_the_sample_names_what_matters(sample) -> None:
    assert "“synchronous_commit = off is faster for small updates”." in paragraph(sample, "asked")
    assert "“off” (synchronous_commit = off) is better than “on” (synchronous_commit = on)" in paragraph(
        sample, "asked"
    )
    assert "The margin is 3 %" in paragraph(sample, "asked")
    assert "6 of 6 blocks are complete, and in a block" in paragraph(sample, "asked")
    assert "The claim is supported: off is 2.7 times as fast as on" in paragraph(sample, "found")
    assert "with 4 clients and " in paragraph(sample, "found")
    assert "no longer wait for the WAL" in paragraph(sample, "found")
    assert "so many find a change of 3.1 % four times in five" in paragraph(sample, "certainty")
    assert "The hypervisor took 4.2 % of the CPU time in one run." in paragraph(sample, "certainty")
    assert "prefer “off” to “on”" in paragraph(sample, "next")


def test_the_first_screen_says_the_next_step_of_the_story(sample) -> None:
    step = " ".join(text_of(sentence) for sentence in next_step(sample))

    assert step
    assert paragraph(sample, "next").startswith(step)
    assert VERDICT.build(sample)["step"] == step


def test_the_first_screen_says_what_the_better_arm_costs(sample) -> None:
    found = with_scenario(sample, "read", 5.64)

    step = " ".join(text_of(sentence) for sentence in next_step(found))

    assert "prefer “off” to “on”" in step
    assert "Weigh what it costs: latency mean of “read” +464 %" in step
    assert step in paragraph(found, "next")


def test_what_a_worse_arm_costs_is_not_weighed(sample) -> None:
    worse = with_primary(sample, ratio=0.5, low=0.4, high=0.6, decision=Decision.WORSE)
    found = change(with_scenario(worse, "read", 5.64), "hypothesis", verdict=Verdict.REFUTED)

    assert "stay with “on”" in paragraph(found, "next")
    assert "Weigh" not in paragraph(found, "next")


@pytest.mark.parametrize(
    ("expect", "better", "verdict", "expected"),
    [
        ("better", "higher", Verdict.SUPPORTED, "lies below +3.0 % would refute the claim."),
        ("better", "higher", Verdict.REFUTED, "lies above +3.0 % would support the claim after all."),
        ("better", "lower", Verdict.SUPPORTED, "lies above −3.0 % would refute the claim."),
        ("worse", "higher", Verdict.SUPPORTED, "lies above −3.0 % would refute the claim."),
        ("worse", "lower", Verdict.REFUTED, "lies above +3.0 % would support the claim after all."),
        ("not-worse", "higher", Verdict.SUPPORTED, "lies below −3.0 % would refute the claim."),
        ("not-worse", "lower", Verdict.SUPPORTED, "lies above +3.0 % would refute the claim."),
        ("not-worse", "higher", Verdict.REFUTED, "lies above −3.0 % would support the claim after all."),
        ("better", "higher", Verdict.INCONCLUSIVE, "wholly above +3.0 % would support the claim; one wholly below it"),
        ("equivalent", "higher", Verdict.SUPPORTED, "lies beyond ±3 % would turn the verdict."),
        ("equivalent", "higher", Verdict.REFUTED, "lies within ±3 % would turn the verdict."),
        ("different", "higher", Verdict.SUPPORTED, "lies within ±3 % would turn the verdict."),
        ("different", "higher", Verdict.REFUTED, "lies beyond ±3 % would turn the verdict."),
        ("equivalent", "higher", Verdict.INCONCLUSIVE, "within ±3 % would support the claim, one wholly beyond it"),
        ("different", "higher", Verdict.INCONCLUSIVE, "within ±3 % would refute the claim, one wholly beyond it"),
    ],
)
def test_what_would_refute_it_follows_from_the_claim(sample, expect: str, better: str, verdict, expected: str) -> None:
    asked = with_primary(change(sample, "hypothesis", expect=expect, verdict=verdict), better=better)

    assert expected in paragraph(asked, "certainty")


def test_of_what_was_not_tested_no_interval_decides(sample) -> None:
    asked = with_primary(change(sample, "hypothesis", verdict=Verdict.INCONCLUSIVE, not_tested=True))

    assert "No interval decides that: it takes a load" in paragraph(asked, "certainty")
    assert "would support" not in paragraph(asked, "certainty")


def test_a_metric_without_a_good_direction_decides_no_one_sided_claim(sample) -> None:
    asked = with_primary(change(sample, "hypothesis", verdict=Verdict.INCONCLUSIVE), better="neither")

    assert "no result decides which arm is better" in paragraph(asked, "certainty")


def test_the_refuting_bound_is_the_one_the_verdict_used(sample) -> None:
    """An interval just beyond the bound turns the verdict of the analysis, one just before it does not."""
    from pgtrial.model.metric import Better
    from pgtrial.model.rules import CURRENT
    from pgtrial.stats.base import Comparison
    from pgtrial.stats.equivalence import judge

    def verdict_of(low: float, high: float) -> Verdict:
        comparison = Comparison(
            ratio=(low * high) ** 0.5,
            low=low,
            high=high,
            confidence=0.95,
            p_value=None,
            p_sign_flip=None,
            hodges_lehmann=None,
            hl_low=None,
            hl_high=None,
            blocks=6,
            sd_log_ratio=0.01,
            information=6,
            degrees=5,
        )
        return judge(comparison, expect="better", bounds=CURRENT.log_bounds(0.03), better=Better.HIGHER)

    assert "lies below +3.0 % would refute the claim." in paragraph(sample, "certainty")
    assert verdict_of(1.0, 1.0299) is Verdict.REFUTED
    assert verdict_of(1.0, 1.0301) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (Decision.BETTER, "prefer “off” to “on”"),
        (Decision.WORSE, "stay with “on”; “off” is worse"),
        (Decision.EQUIVALENT, "by something else"),
    ],
)
def test_what_to_do_follows_from_the_effect_and_not_from_the_claim(sample, decision, expected: str) -> None:
    for verdict in (Verdict.SUPPORTED, Verdict.REFUTED):
        found = with_primary(change(sample, "hypothesis", verdict=verdict), decision=decision)

        assert expected in paragraph(found, "next")


def test_an_inconclusive_claim_is_not_called_a_null_result(sample) -> None:
    found = change(sample, "hypothesis", verdict=Verdict.INCONCLUSIVE)
    found = change(found, "needed", blocks=4, text=message("needed.blocks", count=4))

    assert "About 4 more blocks would decide the claim." in paragraph(found, "next")
    assert "no evidence that there is no difference" in paragraph(found, "next")
    assert "prefer" not in paragraph(found, "next")


def test_what_gets_worse_elsewhere_is_a_cost(sample) -> None:
    effects = tuple(
        effect.model_copy(update={"decision": Decision.WORSE, "ratio": 1.42})
        if (effect.metric, effect.scenario, effect.load_level) == ("pgbench.latency_p99", None, "all")
        else effect
        for effect in sample.effects
    )
    found = sample.model_copy(update={"effects": effects})

    assert "worse in latency p99 (+42.0 %)" in paragraph(found, "found")
    assert "Weigh what it costs: latency p99 +42.0 %." in paragraph(found, "next")


def test_what_is_not_sure_beside_all_others_is_undecided(sample) -> None:
    effects = tuple(effect.model_copy(update={"sure": False}) for effect in sample.effects)
    found = sample.model_copy(update={"effects": effects})

    assert "better in latency" in paragraph(sample, "found")
    assert "Elsewhere the arm is undecided in latency" in paragraph(found, "found")


def test_runs_that_cannot_answer_recommend_nothing(sample) -> None:
    invalid = change(
        sample, "hypothesis", verdict=Verdict.INVALID, reason=verbatim("The arms ran on different kernels.")
    )

    assert "Elsewhere the arm is" in paragraph(sample, "found")
    assert "Elsewhere the arm is" not in paragraph(invalid, "found")
    assert "Weigh what it costs" not in paragraph(invalid, "next")
    assert "Mend what makes the runs unable to answer" in paragraph(invalid, "next")
    assert SCORECARD.build(sample)["recommendations"]
    assert not SCORECARD.build(invalid)["recommendations"]
    assert SCORECARD.build(invalid)["arms"] == SCORECARD.build(sample)["arms"]


def test_blocks_that_all_agree_are_not_called_too_few(sample) -> None:
    same = caveat("zero-variance", count=6)
    found = with_primary(sample, low=None, high=None, caveats=(same,))

    assert "so the noise is not known" in paragraph(found, "certainty")
    assert "too few" not in paragraph(found, "certainty")
    assert "too few" in paragraph(with_primary(sample, low=None, high=None), "certainty")


def test_blocks_of_what_slices_do_not_tell_are_not_called_too_few(sample) -> None:
    untold = caveat("untold-by-slices")
    found = with_primary(sample, low=None, high=None, caveats=(untold,))

    assert "There is no interval: slices do not tell" in paragraph(found, "certainty")
    assert "too few" not in paragraph(found, "certainty")


def test_an_experiment_without_results_claims_nothing(minimal) -> None:
    assert "The verdict is invalid: the runs cannot answer the claim: no block is complete." in paragraph(
        minimal, "found"
    )
    assert "0 of 3 blocks are complete" in paragraph(minimal, "asked")
    assert "What was sampled does not tell why." in paragraph(minimal, "found")
    assert "pgtrial resume" in paragraph(minimal, "next")
    assert "Nothing is claimed yet, so there is nothing to refute." in paragraph(minimal, "certainty")


def test_arms_that_differ_in_many_settings_name_a_few(sample) -> None:
    arms = tuple(
        arm.model_copy(update={"settings": {f"setting_{letter}": arm.name for letter in "abcdef"}})
        for arm in sample.experiment.arms
    )

    assert "setting_d = off and 2 more)" in paragraph(change(sample, "experiment", arms=arms), "asked")


def test_settings_of_the_host_are_named_with_their_place(sample) -> None:
    control, arm, placebo = sample.experiment.arms
    arms = (control, arm.model_copy(update={"knobs": {"sysctl": {"vm.swappiness": "1"}}}), placebo)
    found = change(sample, "experiment", arms=arms)
    (part,) = [part for part in cited(found) if "swappiness" in part.text]

    assert part == Cited(text="vm.swappiness = 1", paths=('experiment.arms[1].knobs.sysctl["vm.swappiness"]',))


def test_text_fits_the_terminal_and_steers_nothing(findings) -> None:
    text = write_text(tell_story(findings), with_sources=True)

    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    for line in text.splitlines():
        assert len(line) <= 80 or "←" in line or "\\" in line, line  # what is made visible becomes longer


def test_sources_follow_the_paragraph_they_are_of(sample) -> None:
    text = write_text(tell_story(sample), with_sources=True)

    assert "    6 blocks ← experiment.blocks_planned" in text
    assert re.search(r"^    \+\d+ % ← effects\[\d+\]\.ratio$", text, re.MULTILINE)
    assert "←" not in write_text(tell_story(sample))


def test_markdown_has_a_heading_for_each_paragraph_and_no_html(hostile) -> None:
    text = write_markdown(tell_story(hostile), with_sources=True)

    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
        each.title for each in tell_story(hostile)
    ]
    assert "<script" not in text
    assert "<img" not in text


def test_data_holds_the_text_and_the_places(sample) -> None:
    for each, data in zip(tell_story(sample), as_data(tell_story(sample)), strict=True):
        assert data["text"] == each.text
        assert all(item["text"] in each.text for item in data["cited"])
    json.dumps(as_data(tell_story(sample)))


def render(findings) -> str:
    template = template_environment().get_template("sections/narrative.html")
    return " ".join(template.render(NARRATIVE.build(findings)).split())


def test_the_section_shows_paragraphs_and_places(sample) -> None:
    html = render(sample)

    for each in tell_story(sample):
        assert f'<p id="narrative-{each.name}"><strong>{each.title}.</strong> ' in html
    assert '<span title="hypothesis.margin">3' in html
    assert "<code>hypothesis.margin</code>" in html


def test_names_in_the_section_stay_text(hostile) -> None:
    html = render(hostile)

    assert "<script" not in html
    assert "<img" not in html
    assert "\x1b" not in html
    assert "49" not in re.sub(r"&#\d+;", "", html.partition("{{")[2][:20])


def test_every_number_of_the_text_has_a_source(sample) -> None:
    for each in tell_story(sample):
        listed = {text for text, _ in list_sources(each)}

        assert all(
            part.text[:59] in {text[:59] for text in listed}
            for part in each.parts
            if isinstance(part, Cited) and not part.paths[0].endswith(".metric") and re.search(r"\d", part.text)
        )


def test_a_template_is_filled_with_parts() -> None:
    part = Cited(text="3 min", paths=("experiment.ended",))

    assert say("It took {took}, {rest}.", took=part, rest=("all", " in all")) == (
        "It took ", part, ", ", "all", " in all", ".",
    )  # fmt: skip


def test_words_of_a_template_are_cited_where_they_stand() -> None:
    told = say("{arm} is <expect>better than</expect> {arm}.", arm=cite("<expect>{", "arm"), expect=source("expect"))

    assert told == (cite("<expect>{", "arm"), " is ", cite("better than", "expect"), " ", cite("<expect>{", "arm"), ".")


@pytest.mark.parametrize(("count", "text"), [(1, "1 block"), (6, "6 blocks")])
def test_a_counted_template_keeps_its_other_fields(count: int, text: str) -> None:
    template = ntr(
        "{share} of <all>{count} block</all>", "{share} of <all>{count} blocks</all>", count, **keep("share")
    )

    assert say(template, share="half", all=source("blocks")) == ("half", " of ", cite(text, "blocks"))


def test_words_of_a_template_need_their_source() -> None:
    with pytest.raises(TypeError, match="by their source"):
        say("<all>6 blocks</all>", all="6 blocks")


@pytest.mark.parametrize(
    ("items", "text"), [((), ""), (("a",), "a"), (("a", "b"), "a and b"), (("a", "b", "c"), "a, b and c")]
)
def test_items_are_enumerated(items: tuple[str, ...], text: str) -> None:
    parts = [(item,) for item in items]

    assert text_of(enumerate_parts(parts)) == text


@pytest.mark.parametrize(
    ("key", "path"), [("work_mem", "a.work_mem"), ("vm.swappiness", 'a["vm.swappiness"]'), ('x"y', 'a["x\\"y"]')]
)
def test_keys_that_are_no_plain_words_are_quoted(key: str, path: str) -> None:
    assert key_path("a", key) == path


def with_scenario(found, scenario: str, ratio: float, **changes: object):
    """The mean latency of a scenario worse by so much."""
    new = {"decision": Decision.WORSE, "ratio": ratio, "low": ratio * 0.9, "high": ratio * 1.1, **changes}
    return with_effect(found, "pgbench.latency_mean", scenario, **new)


def test_the_scenario_that_got_worst_is_said_under_the_headline_everywhere(sample) -> None:
    found = with_scenario(sample, "read", 5.64)
    line = "Worse in scenario “read”: latency mean +464 % (95 % interval +408 % to +520 %)."
    page, text, markdown = render_html(found), " ".join(render_text(found).split()), render_summary(found)

    assert f"margin of 3 %. {line} Claim:" in text
    assert f"**\n\n{line}\n\nClaim:" in markdown
    assert line in re.sub(r"\s+", " ", page.partition('<p class="claim">')[0])
    assert line in paragraph(found, "found")
    assert "Weigh what it costs: latency mean of “read” +464 %" in paragraph(found, "next")


def test_a_scenario_that_is_surely_worse_in_its_slowest_transactions_only_is_said(sample) -> None:
    worse = {"decision": Decision.WORSE, "ratio": 4.0, "low": 3.0, "high": 5.0}
    found = with_effect(sample, "pgbench.latency_p99", "read", **worse, sure=True)
    line = "Worse in scenario “read”: latency p99 +300 % (95 % interval +200 % to +400 %)."

    assert line in " ".join(render_text(found).split())
    assert line in render_summary(found)
    assert line in paragraph(found, "found")
    test_every_place_exists_in_findings_json(found)
    by_chance = with_effect(sample, "pgbench.latency_p99", "read", **worse, sure=False)
    assert "Worse in" not in render_text(by_chance)  # among so many percentiles


def test_a_scenario_that_is_surely_worse_at_one_level_only_is_said_with_it(sample) -> None:
    first, *others = sample.experiment.levels
    assert others
    worse = {"decision": Decision.WORSE, "ratio": 4.0, "low": 3.0, "high": 5.0, "sure": True}
    effects = tuple(
        effect.model_copy(update=worse)
        if (effect.metric, effect.scenario, effect.load_level) == ("pgbench.latency_mean", "read", first.index)
        else effect
        for effect in sample.effects
    )
    found = sample.model_copy(update={"effects": effects})

    line = "Worse in scenario “read”: latency mean with 4 clients +300 % (95 % interval +200 % to +400 %)."
    assert line in " ".join(render_text(found).split())
    assert "Weigh what it costs: latency mean with 4 clients of “read” +300 %" in paragraph(found, "next")
    test_every_place_exists_in_findings_json(found)


def test_a_difference_of_the_builds_stands_beside_the_verdict(sample) -> None:
    text = "The servers of the arms were built in different ways, which an effect contains: JIT (LLVM)."
    build = CaveatFinding(code="server-build", severity=Severity.WARNING, text=text)
    found = sample.model_copy(update={"caveats": (*sample.caveats, build)})
    page, terminal, markdown = render_html(found), " ".join(render_text(found).split()), render_summary(found)

    assert text in terminal.partition("Effects against")[0]
    assert text in markdown.partition("Claim:")[0].replace("\\", "")
    assert text in re.sub(r"\s+", " ", page.partition('<p class="claim">')[0])


def test_of_several_that_got_worse_the_worst_is_named(sample) -> None:
    found = with_scenario(with_scenario(sample, "read", 1.5), "update", 2.5)

    assert "Worse in 2 scenarios, most in “update”: latency mean +150 %" in " ".join(render_text(found).split())


def test_a_scenario_that_may_be_worse_by_chance_says_so(sample) -> None:
    found = with_scenario(sample, "read", 5.64, sure=False)

    assert "perhaps by chance, as" in paragraph(found, "found")
    test_no_digit_stands_outside_what_is_cited(found)
    test_every_place_exists_in_findings_json(found)


@pytest.mark.parametrize("decision", [Decision.INCONCLUSIVE, Decision.EQUIVALENT, Decision.BETTER])
def test_a_scenario_that_is_not_decided_to_be_worse_is_not_named(sample, decision) -> None:
    found = with_scenario(sample, "read", 5.64, decision=decision)

    assert "Worse in" not in render_text(found)
    assert "Worse in" not in render_summary(found)
    assert "Weigh" not in paragraph(found, "next")


def test_runs_that_cannot_answer_say_of_no_scenario_that_it_is_worse(sample) -> None:
    found = change(with_scenario(sample, "read", 5.64), "hypothesis", verdict=Verdict.INVALID)

    assert "Worse in" not in render_text(found)
