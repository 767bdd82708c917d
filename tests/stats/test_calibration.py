"""Simulated experiments: false alarms and coverage against what is promised, within binomial bounds.

An experiment has two runs per block, in random order, in an environment that goes on from run to run: the noise is
simulated over the order of the runs, as a real machine makes it, not over the differences between the arms.
"""

import math

import numpy as np
import pytest
from scipy import stats

from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.stats.equivalence import decide, judge
from pgtrial.stats.paired import compare_blocks

within = CURRENT.log_bounds

EXPERIMENTS = 2000
RUN_NOISE = 0.05


def environment(kind, runs, rng):
    """Log of the speed of the machine: (EXPERIMENTS, runs)."""
    shape = (EXPERIMENTS, runs)
    name, _, parameter = kind.partition(" ")
    if name == "white":
        return np.zeros(shape)
    if name == "ar":
        persistence = float(parameter)
        shocks = rng.normal(0, 2 * RUN_NOISE, shape)
        speed = np.empty(shape)
        speed[:, 0] = shocks[:, 0]
        for run in range(1, runs):
            speed[:, run] = persistence * speed[:, run - 1] + math.sqrt(1 - persistence**2) * shocks[:, run]
        return speed
    if name == "drift":
        return np.broadcast_to(-float(parameter) * np.arange(runs), shape)
    if name == "t3":
        return RUN_NOISE * rng.standard_t(3, shape)
    assert name == "bursts"
    return -0.5 * rng.exponential(1, shape) * (rng.random(shape) < 0.1)


def experiments(kind, blocks, *, seed, ratio=1.0):
    """(control, treated), each (EXPERIMENTS, blocks); the true effect is ``ratio``."""
    rng = np.random.default_rng([seed, blocks])
    speed = environment(kind, 2 * blocks, rng) + rng.normal(0, RUN_NOISE, (EXPERIMENTS, 2 * blocks))
    runs = 1000 * np.exp(speed).reshape(EXPERIMENTS, blocks, 2)
    first = rng.integers(0, 2, (EXPERIMENTS, blocks))
    rows, columns = np.indices((EXPERIMENTS, blocks))
    return runs[rows, columns, first], ratio * runs[rows, columns, 1 - first]


def compare_all(kind, blocks, *, seed=1, ratio=1.0, confidence=0.95):
    pairs = zip(*experiments(kind, blocks, seed=seed, ratio=ratio), strict=True)
    return [compare_blocks(control, treated, confidence=confidence) for control, treated in pairs]


def bounds(probability):
    """Counts between which a right method lies in all but one of a thousand tests."""
    return tuple(stats.binom.ppf((0.0005, 0.9995), EXPERIMENTS, probability))


def check_exact_methods(comparisons, blocks):
    """The sign-flip test and the signed-rank interval promise their error at most, whatever the environment."""
    most = bounds(0.05)[1]
    assert sum(c.p_sign_flip <= 0.05 for c in comparisons) <= most
    if blocks >= 6:
        assert sum(not c.hl_low <= 1 <= c.hl_high for c in comparisons) <= most


def test_quick_calibration_of_the_main_case():
    comparisons = compare_all("ar 0.8", 8)

    fewest, most = bounds(0.05)
    outside = sum(not c.low <= 1 <= c.high for c in comparisons)
    assert fewest <= outside <= most
    assert outside == sum(c.p_value < 0.05 for c in comparisons)
    check_exact_methods(comparisons, 8)
    decisions = [decide(c, bounds=within(0.03), better=Better.HIGHER) for c in comparisons]
    assert sum(d in (Decision.BETTER, Decision.WORSE) for d in decisions) <= most


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [4, 5, 6, 8, 12, 20])
@pytest.mark.parametrize("kind", ["white", "ar 0.5", "ar 0.8", "ar 0.95", "drift 0.02"])
def test_intervals_cover_and_tests_do_not_cry_wolf(kind, blocks):
    comparisons = compare_all(kind, blocks)

    fewest, most = bounds(0.05)
    assert fewest <= sum(not c.low <= 1 <= c.high for c in comparisons) <= most
    check_exact_methods(comparisons, blocks)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [4, 6, 8, 12, 20])
@pytest.mark.parametrize("kind", ["t3", "bursts"])
def test_heavy_tails_make_intervals_cautious_not_wrong(kind, blocks):
    comparisons = compare_all(kind, blocks)

    assert sum(not c.low <= 1 <= c.high for c in comparisons) <= bounds(0.05)[1]
    check_exact_methods(comparisons, blocks)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [6, 8, 12, 20])
def test_exact_methods_hold_in_a_drift_that_is_steeper_than_the_noise(blocks):
    check_exact_methods(compare_all("drift 0.2", blocks), blocks)


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [0.5, 1.03, 4.0])
@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_a_real_effect_is_covered_as_promised(ratio, confidence):
    comparisons = compare_all("ar 0.8", 8, ratio=ratio, confidence=confidence)

    fewest, most = bounds(1 - confidence)
    assert fewest <= sum(not c.low <= ratio <= c.high for c in comparisons) <= most
    assert sum(not c.hl_low <= ratio <= c.hl_high for c in comparisons if c.hl_low is not None) <= most


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["white", "ar 0.8", "t3"])
def test_at_the_margin_wrong_decisions_keep_to_their_error_probability(kind):
    comparisons = compare_all(kind, 60, ratio=1.03)

    # The truth is exactly the bound: calling it better, or equivalent, is the error that the decision rule limits.
    assert (
        sum(decide(c, bounds=within(0.03), better=Better.HIGHER) is Decision.BETTER for c in comparisons)
        <= bounds(0.025)[1]
    )
    equivalent = [decide(c, bounds=within(0.03), better=Better.HIGHER) is Decision.EQUIVALENT for c in comparisons]
    assert sum(equivalent) <= bounds(0.05)[1]
    refuted = [
        judge(c, expect="not-worse", bounds=within(0.03), better=Better.LOWER) is Verdict.REFUTED for c in comparisons
    ]
    supported = [
        judge(c, expect="not-worse", bounds=within(0.03), better=Better.LOWER) is Verdict.SUPPORTED for c in comparisons
    ]
    assert max(sum(refuted), sum(supported)) <= bounds(0.025)[1]


@pytest.mark.slow
def test_intervals_of_several_arms_hold_together():
    rng = np.random.default_rng(12)
    arms, blocks, wrong = 4, 8, 0
    for _ in range(EXPERIMENTS):
        runs = np.exp(rng.normal(0, RUN_NOISE, (arms + 1, blocks)))
        found = [compare_blocks(runs[0], runs[arm], comparisons=arms) for arm in range(1, arms + 1)]
        wrong += any(not c.low <= 1 <= c.high for c in found)

    # Bonferroni is cautious: comparisons with one control are correlated.
    assert bounds(0.02)[0] <= wrong <= bounds(0.05)[1]


@pytest.mark.slow
def test_disagreement_of_the_methods_is_rare_without_a_reason():
    comparisons = compare_all("white", 10)

    disagree = sum("methods-disagree" in [caveat.code for caveat in c.caveats] for c in comparisons)
    assert disagree <= 0.02 * EXPERIMENTS
