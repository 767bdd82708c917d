"""Intervals and exact tests where the noise goes on from run to run, whatever it is like.

The runs of an experiment follow one another, and the noise is simulated over their order, as a real machine makes it,
not over the differences between the arms. Noise inside of runs and blocks is in ``test_designs``.
"""

import math
import random
from functools import cache

import numpy as np
import pytest

from calibration.trials import ALL, TPS, compare, conclude, misses, most, observe, plan_trial
from pgtrial.analysis.effects.comparison import compare_metric
from pgtrial.model.verdict import Verdict

EXPERIMENTS = 1000
RUN_NOISE = 0.05
HEAVY_TAILS = ("t3", "bursts")


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


@cache
def planned(blocks, **claim):
    """Experiments with seeds of their own, which are taken for every kind of noise."""
    seeds = random.Random(blocks)
    return tuple(plan_trial(seeds, blocks=blocks, **claim) for _ in range(EXPERIMENTS))


def measure(plans, kind, *, seed=1, ratio=1.0):
    """What the runs of each plan measure; b is faster by ``ratio``."""
    runs = len(plans[0].slots)
    rng = np.random.default_rng([seed, runs])
    speeds = environment(kind, runs, rng) + rng.normal(0, RUN_NOISE, (EXPERIMENTS, runs))
    for evidence, row in zip(plans, speeds, strict=True):
        effects = [math.log(ratio) if slot.arm == "b" else 0.0 for slot in evidence.slots]
        yield observe(evidence, dict(enumerate(row + effects, start=1)))


def compare_all(kind, blocks, *, ratio=1.0, **claim):
    plans = planned(blocks, **claim)
    return [compare(*each) for each in zip(plans, measure(plans, kind, ratio=ratio), strict=True)]


def check_exact_methods(comparisons):
    """The test over the orders and the interval of ranks promise their error at most, whatever the environment."""
    allowed = most(EXPERIMENTS, 0.05)
    assert sum(one.p_sign_flip <= 0.05 for one in comparisons) <= allowed
    check_ranks(comparisons, 1.0, allowed=allowed)


def check_ranks(comparisons, ratio, *, allowed):
    """Few blocks of one order have no interval of ranks."""
    assert sum(not one.hl_low <= ratio <= one.hl_high for one in comparisons if one.hl_low is not None) <= allowed


def check(comparisons, *, ratio=1.0, confidence=0.95, is_cautious=False):
    """As many intervals miss as promised; fewer may where they are cautious."""
    missed = sum(misses(one, math.log(ratio)) for one in comparisons)
    assert missed <= most(EXPERIMENTS, 1 - confidence)
    assert is_cautious or EXPERIMENTS - missed <= most(EXPERIMENTS, confidence)


@pytest.mark.simulated
def test_quick_calibration_of_the_main_case():
    comparisons = compare_all("ar 0.8", 8)

    check(comparisons)
    check_exact_methods(comparisons)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [6, 12])
@pytest.mark.parametrize("kind", ["white", "ar 0.5", "ar 0.8", "ar 0.95", "drift 0.02", *HEAVY_TAILS])
def test_intervals_cover_and_tests_do_not_cry_wolf(kind, blocks):
    comparisons = compare_all(kind, blocks)

    check(comparisons, is_cautious=kind in HEAVY_TAILS)
    check_exact_methods(comparisons)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [6, 12])
def test_exact_methods_hold_in_a_drift_that_is_steeper_than_the_noise(blocks):
    check_exact_methods(compare_all("drift 0.2", blocks))


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [0.5, 1.03, 4.0])
@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_a_real_effect_is_covered_as_promised(ratio, confidence):
    comparisons = compare_all("ar 0.8", 8, ratio=ratio, confidence=confidence)

    check(comparisons, ratio=ratio, confidence=confidence)
    check_ranks(comparisons, ratio, allowed=most(EXPERIMENTS, 1 - confidence))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["white", "ar 0.8", "t3"])
@pytest.mark.parametrize(
    ("expect", "ratio", "false"),
    [
        ("better", 1.03, {Verdict.SUPPORTED: 0.025, Verdict.REFUTED: 0.025}),
        ("not-worse", 1 / 1.03, {Verdict.SUPPORTED: 0.025, Verdict.REFUTED: 0.025}),
        ("equivalent", 1.03, {Verdict.SUPPORTED: 0.05, Verdict.REFUTED: 0.025}),
    ],
)
def test_at_the_margin_wrong_verdicts_keep_to_their_error_probability(kind, expect, ratio, false):
    plans = planned(8, expect=expect)
    verdicts = [
        conclude(evidence, compare(evidence, values))
        for evidence, values in zip(plans, measure(plans, kind, ratio=ratio), strict=True)
    ]

    # The truth is exactly the bound: either verdict is the error that the rule limits.
    assert all(verdicts.count(verdict) <= most(EXPERIMENTS, share) for verdict, share in false.items())


@pytest.mark.slow
def test_intervals_of_several_arms_hold_together():
    plans = planned(8, more=3)
    wrong = 0
    for evidence, values in zip(plans, measure(plans, "white"), strict=True):
        found = [
            compare_metric(evidence, values, arm.name, (TPS, None, ALL), comparisons=evidence.comparisons)
            for arm in evidence.candidates
        ]
        wrong += any(misses(one, 0.0) for one in found)

    # Bonferroni is cautious: comparisons with one control are correlated.
    assert most(EXPERIMENTS, 0.01) <= wrong <= most(EXPERIMENTS, 0.05)


@pytest.mark.slow
def test_disagreement_of_the_methods_is_rare_without_a_reason():
    comparisons = compare_all("white", 10)

    disagree = sum("methods-disagree" in [caveat.code for caveat in one.caveats] for one in comparisons)
    assert disagree <= 0.02 * EXPERIMENTS
