import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.model.verdict import Decision
from pgtrial.report.summary_words import placebo_text, single_runs_text
from pgtrial.report.words import (
    arm_label,
    change_text,
    claim_text,
    detectable_text,
    effect_text,
    format_metric,
    format_p,
    interval_text,
    sort_caveats,
)
from pgtrial.safe_text import escape_json, make_visible


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.068, "+6.8 %"), (0.9, "−10.0 %"), (1.0001, "0.0 %"), (0.9999, "0.0 %"), (12.3, "× 12.3"), (None, "–")],
)
def test_ratios_read_as_signed_changes(ratio, text):
    assert change_text(ratio) == text


def test_json_steers_no_terminal_and_says_the_same():
    said = {"name": "a\x9b31m\x7f\u202eb\u2028 é \U000e0041 ±1 %"}
    text = escape_json(json.dumps(said, ensure_ascii=False, indent=2))

    assert text.count("\n") == 2
    assert all(character.isprintable() for character in text.replace("\n", ""))
    assert "é" in text
    assert json.loads(text) == said


@pytest.mark.parametrize(
    ("ratio", "low", "high", "text"),
    [
        (10.8, 8.94, 13.0, "× 10.8 (95 % interval × 8.94 to × 13)"),
        (7.0, 3.5, 14.0, "× 7 (95 % interval × 3.5 to × 14)"),
        (5.0, 3.5, 9.0, "+400 % (95 % interval +250 % to +800 %)"),
        (1.1, 0.01, 1e9, "× 1.1 (95 % interval × 0.01 to more than × 10000)"),
    ],
)
def test_an_effect_and_its_interval_have_one_form(sample, ratio, low, high, text):
    effect = sample.effects[0].model_copy(update={"ratio": ratio, "low": low, "high": high})

    assert effect_text(effect) == text


def test_a_missing_interval_is_a_dash():
    assert interval_text(None, 1.2) == "–"


@pytest.mark.parametrize(
    ("p", "text"), [(None, "–"), (3e-7, "<0.0001"), (0.00031, "0.0003"), (0.034, "0.034"), (1, "1")]
)
def test_p_values_have_two_digits(p, text):
    assert format_p(p) == text


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("pgbench.tps", 2373.0, "2.37 k tps"),
        ("pgbench.latency_p95", 0.00142, "1.42 ms"),
        ("pgbench.failures", 0.001, "0.1 %"),
        ("pgbench.tps", None, "–"),
        ("pgbench.tps", float("nan"), "–"),
    ],
)
def test_values_carry_their_unit(metric, value, text):
    assert format_metric(metric, value) == text


@pytest.mark.parametrize(
    ("detectable", "text"), [(0.031, "3.1 %"), (10.0, "1000 %"), (10.1, "more than 1000 %"), (None, "–")]
)
def test_a_detectable_change_beyond_measure_is_no_figure(sample, detectable, text):
    noise = sample.noise.model_copy(update={"detectable": detectable})

    assert detectable_text(sample.model_copy(update={"noise": noise})) == text


def test_a_placebo_that_differs_is_an_alarm(sample):
    alarmed = tuple(effect.model_copy(update={"decision": Decision.WORSE}) for effect in sample.placebo)

    assert "do not trust" in placebo_text(sample.model_copy(update={"placebo": alarmed}))


def test_a_placebo_with_a_wide_interval_is_no_reassurance(sample):
    wide = tuple(
        effect.model_copy(update={"low": 0.5, "high": 2.0, "decision": "inconclusive"}) for effect in sample.placebo
    )

    assert "as it should be" in placebo_text(sample)
    assert "as it should be" not in placebo_text(sample.model_copy(update={"placebo": wide}))


@pytest.mark.parametrize(
    ("high", "decision", "told"),
    [(1.02, Decision.EQUIVALENT, "it is not beyond the margin"), (1.3, Decision.INCONCLUSIVE, "may be beyond")],
)
def test_a_placebo_that_surely_differs_is_small_only_inside_the_margin(sample, high, decision, told):
    shifted = tuple(
        effect.model_copy(update={"low": 1.01, "high": high, "decision": decision}) for effect in sample.placebo
    )

    assert told in placebo_text(sample.model_copy(update={"placebo": shifted}))


def test_an_experiment_without_a_placebo_says_what_that_costs(minimal):
    assert "has no placebo" in placebo_text(minimal)


def test_a_claim_that_nobody_wrote_is_made_of_the_hypothesis(minimal):
    assert claim_text(minimal) == "b is different from a"


def test_the_gravest_caveat_is_first(sample):
    assert [caveat.severity for caveat in sort_caveats(sample.caveats)] == ["warning", "info"]


@given(st.text())
def test_visible_text_cannot_steer_a_terminal(text):
    shown = make_visible(text)

    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or 0x202A <= ord(c) <= 0x202E for c in shown)
    assert make_visible(shown) == shown


def test_arms_of_several_versions_have_theirs_behind_their_names(sample):
    findings = sample
    arms = findings.experiment.arms
    several = findings.experiment.model_copy(
        update={"arms": tuple(arm.model_copy(update={"version": f"1{n}.1"}) for n, arm in enumerate(arms))}
    )
    alike = findings.experiment.model_copy(
        update={"arms": tuple(arm.model_copy(update={"version": "18.4"}) for arm in arms)}
    )

    assert arm_label(findings.model_copy(update={"experiment": several}), arms[1].name) == f"{arms[1].name} (11.1)"
    assert arm_label(findings.model_copy(update={"experiment": alike}), arms[1].name) == arms[1].name
    assert arm_label(findings, "unknown") == "unknown"


def test_what_one_run_per_arm_would_have_said_is_counted(sample, minimal):
    off = sample.single_runs[0].model_copy(update={"above": 3, "below": 1, "lowest": 0.9, "highest": 1.2})
    text = single_runs_text(sample.model_copy(update={"single_runs": (off, sample.single_runs[1])}))

    assert text == (
        "Of 6 blocks, each taken alone, 3 would have said faster by more than the margin, 1 slower, 2 neither; their "
        "ratios lie between −10.0 % and +20.0 %. Of the placebo's, 1 would have been a false alarm (between −2.0 % and "
        "+3.4 %)."
    )
    assert single_runs_text(minimal) == ""


def test_a_latency_is_higher_or_lower_and_not_faster(sample):
    asked = sample.hypothesis.model_copy(update={"metric": "pgbench.latency_p95"})

    assert "6 would have said higher" in single_runs_text(sample.model_copy(update={"hypothesis": asked}))


def test_a_claim_about_the_placebo_counts_it_once(sample):
    asked = sample.hypothesis.model_copy(update={"arm": "placebo"})

    assert "false alarm" not in single_runs_text(sample.model_copy(update={"hypothesis": asked}))
