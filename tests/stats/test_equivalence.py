import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT, RULES
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.stats.equivalence import beyond_p, claim_bound, decide, equivalence_p, judge
from pgtrial.stats.interval import t_interval
from pgtrial.stats.paired import compare_blocks
from support.comparisons import make_comparison

within = CURRENT.log_bounds

CLAIMS = ("better", "worse", "not-worse", "equivalent", "different")
NO_INTERVAL = compare_blocks([100], [150])


def comparison_with(ratio, *, half, blocks=10):
    """The 95 % interval reaches from ratio / e^half to ratio · e^half."""
    sd = half / (t_interval(0, 1, blocks, confidence=0.95).high)
    return make_comparison(ratio, ratio * math.exp(-half), ratio * math.exp(half), sd=sd, blocks=blocks)


def test_two_one_sided_tests_agree_with_statsmodels():
    # statsmodels 0.15: ttost_paired(log(treated), log(control), log(0.97), log(1.03)) gives p = 0.0021872660409573428,
    # and with log(0.99), log(1.01) p = 0.29112312863891654.
    control, treated = [812, 790, 845, 901, 776, 830], [820, 801, 839, 915, 790, 825]
    comparison = compare_blocks(control, treated)

    assert equivalence_p(comparison, bounds=RULES[1].log_bounds(0.03)) == pytest.approx(0.0021872660409573428)
    assert equivalence_p(comparison, bounds=RULES[1].log_bounds(0.01)) == pytest.approx(0.29112312863891654)


@given(st.floats(0.8, 1.25), st.floats(0.001, 0.3), st.floats(0, 0.2))
def test_equivalent_means_that_the_90_percent_interval_is_inside_the_margin(ratio, half, margin):
    comparison = comparison_with(ratio, half=half)
    inner = t_interval(math.log(ratio), comparison.sd_log_ratio, 10, confidence=0.9)
    inside = -math.log1p(margin) < inner.low and inner.high < math.log1p(margin)

    assert (decide(comparison, bounds=within(margin), better=Better.HIGHER) is Decision.EQUIVALENT) == inside


@pytest.mark.parametrize(
    ("ratio", "half", "higher"),
    [
        (1.10, 0.02, Decision.BETTER),
        (1.04, 0.02, Decision.INCONCLUSIVE),
        (1.00, 0.02, Decision.EQUIVALENT),
        (0.97, 0.02, Decision.INCONCLUSIVE),
        (0.90, 0.02, Decision.WORSE),
        (1.00, 0.20, Decision.INCONCLUSIVE),
    ],
)
def test_decision_follows_the_direction_of_the_metric(ratio, half, higher):
    comparison = comparison_with(ratio, half=half)
    mirrored = {Decision.BETTER: Decision.WORSE, Decision.WORSE: Decision.BETTER}
    undirected = {Decision.BETTER: Decision.INCONCLUSIVE, Decision.WORSE: Decision.INCONCLUSIVE}

    assert decide(comparison, bounds=within(0.03), better=Better.HIGHER) is higher
    assert decide(comparison, bounds=within(0.03), better=Better.LOWER) is mirrored.get(higher, higher)
    assert decide(comparison, bounds=within(0.03), better=Better.NEITHER) is undirected.get(higher, higher)


def test_a_margin_of_zero_is_never_equivalent():
    assert decide(comparison_with(1, half=1e-6), bounds=within(0), better=Better.HIGHER) is Decision.INCONCLUSIVE


def test_several_comparisons_need_stronger_evidence_for_equivalence_too():
    control = np.array([100, 104, 97, 102, 99, 103.0])
    treated = control * [1.02, 0.99, 1.01, 1.015, 0.985, 1.0]

    alone, third = (compare_blocks(control, treated, comparisons=k) for k in (1, 3))

    assert 0.05 / 3 < equivalence_p(alone, bounds=within(0.02)) < 0.05
    assert decide(alone, bounds=within(0.02), better=Better.HIGHER) is Decision.EQUIVALENT
    assert decide(third, bounds=within(0.02), better=Better.HIGHER) is Decision.INCONCLUSIVE


S, R, I = Verdict.SUPPORTED, Verdict.REFUTED, Verdict.INCONCLUSIVE  # noqa: E741


@pytest.mark.parametrize(
    ("ratio", "half", "verdicts"),
    [
        (1.10, 0.02, (S, R, S, R, S)),
        (1.04, 0.02, (I, R, S, I, I)),
        (1.00, 0.02, (R, R, S, S, R)),
        (0.97, 0.02, (R, I, I, I, I)),
        (0.90, 0.02, (R, S, R, R, S)),
        (1.00, 0.20, (I, I, I, I, I)),
    ],
)
def test_verdict_on_each_claim(ratio, half, verdicts):
    comparison = comparison_with(ratio, half=half)

    for expect, verdict in zip(CLAIMS, verdicts, strict=True):
        assert judge(comparison, expect=expect, bounds=within(0.03), better=Better.HIGHER) is verdict


@given(st.floats(0.8, 1.25), st.floats(0.001, 0.3), st.sampled_from(CLAIMS))
def test_latency_is_judged_as_the_mirror_image_of_throughput(ratio, half, expect):
    throughput = judge(comparison_with(ratio, half=half), expect=expect, bounds=within(0), better=Better.HIGHER)
    latency = judge(comparison_with(1 / ratio, half=half), expect=expect, bounds=within(0), better=Better.LOWER)

    assert throughput is latency


def test_latency_margin_is_measured_upwards():
    slower = comparison_with(1.02, half=0.005)

    assert judge(slower, expect="not-worse", bounds=within(0.03), better=Better.LOWER) is Verdict.SUPPORTED
    assert judge(slower, expect="worse", bounds=within(0.01), better=Better.LOWER) is Verdict.SUPPORTED
    assert judge(slower, expect="better", bounds=within(0.01), better=Better.LOWER) is Verdict.REFUTED
    assert claim_bound("better", bounds=within(0.1), better=Better.LOWER) == (-math.log1p(0.1), False)
    assert claim_bound("different", bounds=within(0.1), better=Better.LOWER) is None


def test_a_metric_without_direction_supports_no_directed_claim():
    for expect, verdict in zip(CLAIMS, (I, I, I, R, S), strict=True):
        assert (
            judge(comparison_with(1.2, half=0.02), expect=expect, bounds=within(0.03), better=Better.NEITHER) is verdict
        )


@given(st.floats(0.8, 1.25), st.floats(0.001, 0.3), st.floats(0, 0.2))
def test_beyond_the_margin_means_that_the_interval_is(ratio, half, margin):
    comparison = comparison_with(ratio, half=half)
    decision = decide(comparison, bounds=within(margin), better=Better.HIGHER)

    assert (beyond_p(comparison, bounds=within(margin)) < 0.05) == (decision in (Decision.BETTER, Decision.WORSE))


def test_the_chance_of_lying_beyond_agrees_with_a_t_test_against_the_bound():
    control, treated = [812, 790, 845, 901, 776, 830], [860, 851, 889, 965, 810, 885]
    chance = beyond_p(compare_blocks(control, treated), bounds=within(0.02))

    assert chance == pytest.approx(stats.ttest_1samp(np.log(treated) - np.log(control), math.log(1.02)).pvalue)


@pytest.mark.parametrize("expect", CLAIMS)
def test_without_an_interval_nothing_is_decided(expect):
    assert judge(NO_INTERVAL, expect=expect, bounds=within(0.03), better=Better.HIGHER) is Verdict.INCONCLUSIVE
    assert decide(NO_INTERVAL, bounds=within(0.03), better=Better.HIGHER) is Decision.INCONCLUSIVE
    assert equivalence_p(NO_INTERVAL, bounds=within(0.03)) is None
    assert beyond_p(NO_INTERVAL, bounds=within(0.03)) is None


def test_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="faster"):
        judge(NO_INTERVAL, expect="faster", bounds=within(0.03), better=Better.HIGHER)
    with pytest.raises(ValueError, match="margin"):
        decide(NO_INTERVAL, bounds=within(3), better=Better.HIGHER)
