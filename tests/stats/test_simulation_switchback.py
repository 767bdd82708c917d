"""Simulated experiments in which one server is switched back and forth, from the product's own plan to its verdict.

A setting's effect comes and goes with a time constant, so every slice begins with what the one before has left; or each
switch to an arm disturbs whatever follows, without any effect that lasts.
"""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pgtrial.design.levels import load_levels
from pgtrial.design.methods import plan_steps, turn_seed
from pgtrial.design.plan import Plan, make_plan
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.model.metric import Better
from pgtrial.stats.equivalence import Decision, decide
from pgtrial.stats.paired import compare_blocks
from support.noise import machine

BLOCKS, STEP = 6, 0.5  # s
OWN_NOISE = 0.03  # of a second
NOISES = ("white", "ar 0.9", "bursts", "drift")
CARRY_OVER = (0.75, 3.0, 5.0)  # s, of slices of 30 s
EFFECT = -0.05
EXPERIMENTS = 400

Values = NDArray[np.float64]


@cache
def plan() -> Plan:
    return make_plan(
        Experiment.model_validate(
            {
                "format": 1,
                "experiment": {"name": "x"},
                "workload": {"mix": "simple-update", "duration": 60.0},
                "arms": {
                    "late": {"sysctl": {"vm.dirty_ratio": 30}},
                    "early": {"sysctl": {"vm.dirty_ratio": 10}},
                },
                "design": {"method": "switchback", "blocks": BLOCKS, "seed": 1},
            }
        )
    )


def block_of(
    experiment: int, block: int, *, tau: float, effect: float, transient: float
) -> tuple[NDArray[np.intp], Values]:
    """Which arm counts at each moment (-1: none), and the log of what the settings make of the speed.

    ``effect`` is what "early" comes to; ``transient`` is what a switch to it disturbs. Both come and go with ``tau``.
    """
    made = plan()
    level = load_levels(made.experiment.workload)[0]
    seed = turn_seed(experiment, block, level.index)
    counts: list[NDArray[np.intp]] = []
    speeds: list[Values] = []
    state = disturbed = 0.0
    for step in plan_steps(made.method, ["early", "late"], seconds=60.0, seed=seed, block=block):
        is_early = step.arms == ("early",)
        aim = effect if is_early else 0.0
        ticks = np.arange(round(step.length / STEP))
        left, over = np.exp(-(ticks + 0.5) * STEP / tau), np.exp(-step.length / tau)
        disturbed += transient if is_early else 0.0
        speeds.append(aim + (state - aim) * left + disturbed * left)
        state, disturbed = aim + (state - aim) * over, disturbed * over
        counts.append(np.where(ticks * STEP >= step.guard, int(is_early), -1))
    return np.concatenate(counts), np.concatenate(speeds)


@cache
def log_ratios(kind: str, tau: float, *, effect: float = 0.0, transient: float = 0.0) -> Values:
    """Log ratio early / late of each block: (experiments, blocks)."""
    rng = np.random.default_rng([7, NOISES.index(kind)])
    longest = 400  # s of a block
    noise = machine(kind, EXPERIMENTS, BLOCKS * longest, rng, block=longest)
    found = np.empty((EXPERIMENTS, BLOCKS))
    for experiment in range(EXPERIMENTS):
        for block in range(1, BLOCKS + 1):
            counts, settings = block_of(experiment, block, tau=tau, effect=effect, transient=transient)
            at = (block - 1) * longest + (np.arange(counts.size) * STEP).astype(int)
            speed = np.exp(settings + noise[experiment][at] + rng.normal(0, OWN_NOISE / STEP**0.5, counts.size))
            found[experiment, block - 1] = np.log(speed[counts == 1].mean() / speed[counts == 0].mean())
    return found


def misses(ratios: Values, truth: float) -> int:
    """Of the interval that the product gives."""
    count = 0
    for row in ratios:
        shipped = compare_blocks(np.ones(BLOCKS), np.exp(row))
        count += not np.log(shipped.low) <= truth <= np.log(shipped.high)
    return count


def most(probability: float) -> float:
    """Misses that a right method exceeds in one of ten thousand tests."""
    return float(stats.binom.ppf(0.9999, EXPERIMENTS, probability))


def test_the_plan_switches_between_slices_of_half_a_minute_and_twice_as_long_in_every_second_block() -> None:
    made = plan()

    assert (made.method.method, made.method.slice, made.method.doubled) == ("switchback", 30.0, True)


@pytest.mark.simulated
@pytest.mark.parametrize("tau", CARRY_OVER)
@pytest.mark.parametrize("kind", NOISES)
def test_what_a_switch_disturbs_is_no_effect(kind: str, tau: float) -> None:
    ratios = log_ratios(kind, tau, transient=-0.1)

    assert misses(ratios, 0.0) <= most(0.05)
    assert abs(ratios.mean()) < 0.0015 + 4 * ratios.std() / ratios.size**0.5


@pytest.mark.simulated
@pytest.mark.parametrize("tau", CARRY_OVER)
@pytest.mark.parametrize("kind", NOISES)
def test_the_whole_effect_is_covered_although_each_slice_begins_with_the_other_arms(kind: str, tau: float) -> None:
    ratios = log_ratios(kind, tau, effect=EFFECT)

    assert misses(ratios, EFFECT) <= most(0.07)
    assert abs(ratios.mean() / EFFECT - 1) < 0.03 + 4 * ratios.std() / ratios.size**0.5 / abs(EFFECT)


@pytest.mark.simulated
def test_what_outlasts_a_slice_looks_smaller_but_not_the_other_way_round() -> None:
    found = log_ratios("white", 15.0, effect=EFFECT).mean() / EFFECT

    assert 0.6 < found < 0.9


@pytest.mark.simulated
def test_verdicts_without_an_effect_are_wrong_in_no_more_than_a_twentieth() -> None:
    ratios = log_ratios("ar 0.9", 3.0, transient=-0.1)
    decisions = [
        decide(compare_blocks(np.ones(BLOCKS), np.exp(row)), bounds=(-0.001, 0.001), better=Better.HIGHER)
        for row in ratios
    ]

    assert sum(decision in (Decision.BETTER, Decision.WORSE) for decision in decisions) <= most(0.05)
