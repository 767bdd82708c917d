"""The answer as a picture, which is drawn by the page itself."""

import math
import re

import pytest

from pgtrial.findings.findings import ClaimPart
from pgtrial.findings.message import verbatim
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.charts.base import arm_colours
from pgtrial.report.charts.forest import primary_forest
from pgtrial.report.charts.picture import MOST_TICKS, effect_picture
from pgtrial.report.html import render_html, template_environment
from pgtrial.report.sections.verdict import VERDICT
from pgtrial.report.words import effect_word, placebo_effect, primary_effect


def change_primary(findings, **values):
    """The findings with other figures for the effect that the claim is about."""
    asked = primary_effect(findings)
    effects = tuple(one.model_copy(update=values) if one is asked else one for one in findings.effects)
    return findings.model_copy(update={"effects": effects})


def draw(findings):
    context = VERDICT.build(findings)
    return template_environment().get_template("sections/verdict.html").render(context)


def test_the_claims_effect_is_above_the_placebo(sample):
    picture = effect_picture(sample)

    assert [row.label.split(" ")[0] for row in picture.rows] == ["off", "placebo"]
    assert [row.colour for row in picture.rows] == [arm_colours(sample)[arm] for arm in ("off", "placebo")]


def test_an_invalid_verdict_is_no_message_about_the_arm(sample):
    asked = sample.hypothesis.model_copy(
        update={"verdict": Verdict.INVALID, "reason": verbatim("The runs cannot answer.")}
    )
    invalid = sample.model_copy(update={"hypothesis": asked})

    assert "better by more than the margin" in effect_picture(sample).title
    assert effect_picture(invalid).title == (
        "The verdict is invalid: what these runs show of “off” cannot be relied on"
    )
    assert "What else changes" in draw(sample)
    assert "What else changes" not in draw(invalid)


def test_places_keep_the_distances_of_the_logarithms(sample):
    picture, effect = effect_picture(sample), primary_effect(sample)
    unit = (picture.band[1] - picture.none) / math.log(1 + sample.hypothesis.margin)

    assert picture.rows[0].place == pytest.approx(picture.none + unit * math.log(effect.ratio), abs=0.5)
    assert picture.rows[0].low == pytest.approx(picture.none + unit * math.log(effect.low), abs=0.5)
    assert picture.rows[0].high == pytest.approx(picture.none + unit * math.log(effect.high), abs=0.5)


def test_everything_lies_inside_the_width_and_in_order(sample):
    picture = effect_picture(sample)
    ticks = [place for place, _ in picture.ticks]

    assert 0 < picture.band[0] < picture.none < picture.band[1] < 100
    assert all(0 < row.low < row.place < row.high < 100 for row in picture.rows)
    assert ticks == sorted(ticks)
    assert all(0 <= tick <= 100 for tick in ticks)


@pytest.mark.parametrize(("low", "high"), [(0.99, 1.004), (0.8, 1.3), (0.2, 6.0), (0.02, 40.0)])
def test_there_are_few_ticks_and_one_of_them_is_no_effect(sample, low, high):
    picture = effect_picture(change_primary(sample, ratio=math.sqrt(low * high), low=low, high=high))

    assert 2 <= len(picture.ticks) <= MOST_TICKS
    assert (picture.none, "0 %") in picture.ticks


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (Decision.BETTER, "“off” is better by more than the margin of ±3 %: its whole interval lies beyond it"),
        (Decision.WORSE, "“off” is worse by more than the margin of ±3 %: its whole interval lies beyond it"),
        (Decision.EQUIVALENT, "“off” differs by less than the margin of ±3 %"),
        (Decision.INCONCLUSIVE, "The interval of “off” reaches across an end of the margin of ±3 %"),
    ],
)
def test_its_title_says_where_the_interval_lies(sample, decision, words):
    assert effect_picture(change_primary(sample, decision=decision)).title == words


def test_its_title_does_not_decide_where_the_verdict_does_not(sample):
    asked = sample.hypothesis.model_copy(update={"verdict": Verdict.INCONCLUSIVE})
    few = sample.model_copy(update={"hypothesis": asked})

    assert effect_picture(few).title == (
        "The interval of “off” alone would say “better”, but these runs do not allow a verdict"
    )


@pytest.mark.parametrize(
    ("expect", "verdict", "word"),
    [("not-worse", Verdict.SUPPORTED, "not worse"), ("better", Verdict.REFUTED, "not better")],
)
def test_badge_chart_and_table_of_a_claim_on_one_side_agree(sample, expect, verdict, word):
    """An interval may be on the right side of the claim's end of the margin, and reach across the other one."""
    open_ended = change_primary(sample, decision=Decision.INCONCLUSIVE)
    asked = open_ended.hypothesis.model_copy(update={"expect": expect, "verdict": verdict})
    decided = open_ended.model_copy(update={"hypothesis": asked})

    assert effect_picture(decided).title == (
        f"“off” is {word} by more than the margin of ±3 %: its interval does not reach that end"
    )
    assert effect_word(decided, primary_effect(decided)) == word
    assert effect_word(open_ended, primary_effect(open_ended)) == "inconclusive"
    forest = primary_forest(decided)
    assert forest is not None
    assert f", {word}" in forest.text


@pytest.mark.parametrize(
    ("decision", "verdict", "words"),
    [
        (
            Decision.INCONCLUSIVE,
            Verdict.REFUTED,
            "“off” is not worse by more than the margin of ±3 %: its interval",
        ),
        (
            Decision.BETTER,
            Verdict.INCONCLUSIVE,
            "“off” is better by more than the margin of ±3 %: its whole",
        ),
    ],
)
def test_of_a_claim_of_several_metrics_the_picture_says_what_is_said_of_its_own(sample, decision, verdict, words):
    changed = change_primary(sample, decision=decision)
    reason, metric = sample.hypothesis.reason, primary_effect(sample).metric
    of = {"scenario": None, "expect": "not-worse", "margin": 0.03, "reason": reason}
    own = ClaimPart(metric=metric, verdict=Verdict.SUPPORTED, **of)
    other = ClaimPart(metric="pgbench.latency_p99", verdict=verdict, **of)
    asked = {"expect": "not-worse", "verdict": verdict, "parts": (own, other)}
    told = changed.model_copy(update={"hypothesis": sample.hypothesis.model_copy(update=asked)})

    assert effect_picture(told).title.startswith(words)


def test_less_is_better_of_a_latency(sample):
    assert (effect_picture(sample).left, effect_picture(sample).right) == ("worse", "better")
    turned = effect_picture(change_primary(sample, better="lower"))
    assert (turned.left, turned.right) == ("better", "worse")


def test_an_effect_without_an_interval_is_a_dot_without_a_bar(sample):
    bare = change_primary(sample, low=None, high=None)
    picture, html = effect_picture(bare), draw(bare)

    assert (picture.rows[0].low, picture.rows[0].high) == (None, None)
    assert "has no interval: there are too few blocks" in picture.title
    assert html.count("effect-dot") == 2
    assert html.count("effect-bar") == 1


def test_without_a_placebo_there_is_one_row(sample):
    picture = effect_picture(sample.model_copy(update={"placebo": ()}))

    assert placebo_effect(sample) is not None
    assert len(picture.rows) == 1


def test_what_was_not_measured_has_no_picture(sample, minimal):
    assert effect_picture(minimal) is None
    assert effect_picture(change_primary(sample, ratio=None, low=None, high=None)) is None
    assert "effect-rows" not in draw(minimal)


@pytest.mark.parametrize("ratio", [5e-324, 1e-200, 1e300, math.inf])
def test_a_ratio_that_nothing_measures_has_no_place(sample, ratio):
    assert effect_picture(change_primary(sample, ratio=ratio, low=ratio / 2, high=ratio)) is None


def test_the_picture_needs_no_script_and_has_its_figures_as_text(sample):
    html = draw(sample)
    text = re.search(r'class="effect-rows" role="img" aria-label="([^"]*)"', html)

    assert text is not None
    assert "Change of throughput against on: off +" in text[1]
    assert text[1].endswith("The margin is ±3 %.")
    assert html.count("<rect") == html.count("<circle") == 2
    assert html.index("effect-rows") < html.index('class="cards"')


def test_hostile_names_stay_text_in_the_picture(hostile):
    assert "<script>alert(1)" not in draw(hostile)
    assert render_html(hostile).count('class="effect-rows"') == 1
