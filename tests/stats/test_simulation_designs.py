"""Simulated experiments of every design on machines that are noisy in different ways, with and without stopping early.

A machine is simulated as the log of its speed in each stretch of a second, over all blocks of an experiment; a design
says which arm works in which stretch, and the estimate of a block is the log of the ratio of the arms' sums. So what
is tested is the whole way from the machine's noise to the verdict, and not a distribution assumed for the ratios.
"""

import math

import numpy as np
import pytest
from scipy import stats

from pgtrial.stats.interval import t_interval
from pgtrial.stats.paired import compare_blocks
from pgtrial.stats.sequential import nominal_levels, precision_confidence
from support.noise import machine

STRETCHES = 16  # of work for each arm in a block
OWN_NOISE = 0.03  # of a stretch, that no other has
DESIGNS = ("blocks", "interleaved", "duet")
NOISES = ("white", "ar 0.9", "ar 0.99", "bursts", "drift")
# Runs one after the other in a drift that moves a block by several times its noise: what random order leaves.
STEEP = {("blocks", "drift", 4): 0.08, ("blocks", "drift", 6): 0.065, ("blocks", "drift", 12): 0.065}
QUICK, THOROUGH = 1000, 4000
FIRST_LOOK = 6


def log_ratios(design, kind, blocks, *, experiments, seed, effect=0.0):
    """Log ratio treated / control of each block: (experiments, blocks)."""
    rng = np.random.default_rng([seed, blocks, DESIGNS.index(design), NOISES.index(kind)])
    shape = (experiments, blocks, STRETCHES)
    coins = rng.integers(0, 2, (experiments, blocks, 1))
    if design == "duet":
        # Two halves of the machine, one faster; part of the noise is that of the half alone. The arms exchange them.
        both = machine(kind, experiments, blocks * STRETCHES, rng, block=2 * STRETCHES).reshape(shape)
        halves = [
            machine(kind, experiments, blocks * STRETCHES, rng, block=2 * STRETCHES).reshape(shape) / 2
            for _ in range(2)
        ]
        halves[0] += 0.05
        pairs = rng.integers(0, 2, (experiments, blocks, STRETCHES // 2, 1))
        is_first = (pairs ^ np.array([0, 1])).reshape(shape).astype(bool)
        control = both + np.where(is_first, *halves)
        treated = both + np.where(is_first, halves[1], halves[0])
    else:
        speed = machine(kind, experiments, 2 * blocks * STRETCHES, rng, block=2 * STRETCHES).reshape(
            experiments, blocks, 2 * STRETCHES
        )
        if design == "blocks":
            is_treated = np.broadcast_to((np.arange(2 * STRETCHES) < STRETCHES) == coins.astype(bool), speed.shape)
        else:
            rounds = rng.integers(0, 2, (experiments, blocks, STRETCHES // 2, 1))
            is_treated = (rounds ^ np.array([0, 1, 1, 0])).reshape(speed.shape).astype(bool)
        control, treated = speed[~is_treated].reshape(shape), speed[is_treated].reshape(shape)
    control, treated = (np.exp(arm + rng.normal(0, OWN_NOISE, shape)).sum(axis=2) for arm in (control, treated))
    return effect + np.log(treated / control)


def running(ratios):
    """Mean and standard error of the first n blocks, for every n; (experiments, n)."""
    count = np.arange(1, ratios.shape[1] + 1)
    mean = np.cumsum(ratios, axis=1) / count
    squares = np.maximum(np.cumsum(ratios**2, axis=1) - count * mean**2, 0)
    return mean, np.sqrt(squares / np.maximum(count - 1, 1) / count)


def is_missed(ratios, truth=0.0, *, level=0.05):
    """Whether the interval after all blocks misses the truth."""
    mean, error = running(ratios)
    cut = stats.t.isf(level / 2, ratios.shape[1] - 1)
    return np.abs(mean[:, -1] - truth) > cut * error[:, -1]


def is_missed_at_any_look(ratios, truth=0.0):
    """Whether the interval misses the truth at any look, after every block: at least as often as at the end."""
    looks = np.arange(FIRST_LOOK, ratios.shape[1] + 1)
    cuts = stats.t.isf(np.array(nominal_levels(tuple(looks), looks[-1], alpha=0.05)) / 2, looks - 1)
    mean, error = running(ratios)
    return (np.abs(mean[:, looks - 1] - truth) > cuts * error[:, looks - 1]).any(axis=1)


def is_missed_when_narrow(ratios, blocks, truth=0.0):
    """Whether the interval misses at the first look at which it is as narrow as it should be after ``blocks``."""
    looks = np.arange(FIRST_LOOK, ratios.shape[1] + 1)
    mean, error = running(ratios)
    level = 1 - precision_confidence(0.95)
    reach = stats.t.isf(level / 2, looks - 1) * error[:, looks - 1]
    is_end = reach <= np.median(reach[:, blocks - FIRST_LOOK])
    is_end[:, -1] = True
    rows, end = np.arange(len(ratios)), np.argmax(is_end, axis=1)
    return np.abs(mean[:, looks - 1][rows, end] - truth) > reach[rows, end]


def most(experiments, probability=0.05):
    """Misses that a right method exceeds in one of ten thousand tests."""
    return stats.binom.ppf(0.9999, experiments, probability)


def test_the_simulation_takes_the_interval_that_is_shipped():
    (ratios,) = log_ratios("interleaved", "bursts", 8, experiments=1, seed=1)
    mean, error = running(ratios[None])
    shipped = compare_blocks(np.ones(8), np.exp(ratios))
    interval = t_interval(mean[0, -1], error[0, -1] * math.sqrt(8), 8, confidence=0.95)

    assert (math.log(shipped.low), math.log(shipped.high)) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("kind", ["white", "ar 0.9", "bursts", "drift"])
def test_quick_false_alarms_of_every_design_with_and_without_stopping(design, kind):
    ratios = log_ratios(design, kind, 12, experiments=QUICK, seed=2)

    assert is_missed(ratios).sum() <= most(QUICK)
    assert is_missed_at_any_look(ratios).sum() <= most(QUICK)
    assert is_missed_when_narrow(ratios, 9).sum() <= most(QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [4, 6, 12, 40])
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("kind", NOISES)
def test_intervals_cover_and_rules_for_stopping_keep_to_their_error(design, kind, blocks):
    effect = -0.05
    ratios = log_ratios(design, kind, blocks, experiments=THOROUGH, seed=3, effect=effect)

    allowed = most(THOROUGH, STEEP.get((design, kind, blocks), 0.05))
    assert is_missed(ratios, effect).sum() <= allowed
    if blocks > FIRST_LOOK:
        assert is_missed_at_any_look(ratios, effect).sum() <= allowed
        assert is_missed_when_narrow(ratios, (FIRST_LOOK + blocks) // 2, effect).sum() <= most(THOROUGH)


@pytest.mark.parametrize("kind", ["ar 0.9", "bursts", "drift"])
def test_arms_that_take_turns_differ_less_than_arms_that_follow_each_other(kind):
    spread = {
        design: log_ratios(design, kind, 4, experiments=QUICK, seed=4).std() for design in ("blocks", "interleaved")
    }

    assert spread["interleaved"] < spread["blocks"] / 2


def test_a_steep_drift_fools_few_blocks_but_no_rule_that_first_looks_after_six():
    """Without other noise a drift puts ±d into each block: four of one sign come in one experiment of eight."""
    signs = np.random.default_rng(5).choice((-1.0, 1.0), (QUICK, 20))
    ratios = signs * (1 + 0.01 * np.random.default_rng(6).normal(size=signs.shape))

    assert is_missed(ratios[:, :4]).mean() == pytest.approx(1 / 8, abs=0.04)
    assert is_missed(ratios[:, :6]).sum() <= most(QUICK)
    assert is_missed_at_any_look(ratios).sum() <= most(QUICK)


@pytest.mark.parametrize(("rho", "expected"), [(0.2, 0.10), (0.4, 0.17)])
def test_what_carries_over_from_block_to_block_makes_intervals_too_narrow(rho, expected):
    """No design repairs it, and a rule for stopping as little; docs/statistics.md says by how much."""
    ratios = np.random.default_rng(7).normal(size=(THOROUGH, 10))
    for block in range(1, 10):
        ratios[:, block] = rho * ratios[:, block - 1] + math.sqrt(1 - rho**2) * ratios[:, block]

    assert is_missed(ratios).mean() == pytest.approx(expected, abs=0.02)
    assert is_missed_at_any_look(ratios).mean() == pytest.approx(expected, abs=0.035)
