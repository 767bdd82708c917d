"""What an arm leaves behind for the next turn, against experiments whose truth is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT
from pgtrial.model.verdict import Verdict
from pgtrial.stats.equivalence import judge
from pgtrial.stats.fade import Turns, bound_fade, unfaded
from pgtrial.stats.paired import compare_blocks

GUARD = COUNTED = 0.5  # s of a slice
MARGIN = 0.03
OWN_NOISE = 0.03  # of a second of load


def mean_left(time: float, start: float, end: float) -> float:
    """By quadrature, where the product has the integral in closed form."""
    return integrate.quad(lambda t: math.exp(-t / time), start, end)[0] / (end - start)


def draw(rng: np.random.Generator, blocks: int, *, truth: float, left: float, time: float) -> Turns:
    """Log ratios of slices at whose beginning ``left`` of the arms' difference is still missing; 4 s count for each."""
    windows = ((0.0, GUARD, 4), (GUARD, GUARD + COUNTED / 2, 2), (GUARD + COUNTED / 2, GUARD + COUNTED, 2))
    washout, early, late = (
        truth + left * mean_left(time, start, end) + rng.normal(0, OWN_NOISE * math.sqrt(2 / seconds), blocks)
        for start, end, seconds in windows
    )
    return Turns(washout=washout, early=early, late=late, guard=GUARD, counted=COUNTED)


def conclude(turns: Turns) -> tuple[bool, bool]:
    """Whether "not worse" is supported by the interval alone, and by the one that bears what is left."""
    counted = (turns.early + turns.late) / 2
    plain = compare_blocks(np.ones(counted.size), np.exp(counted))
    bounds = CURRENT.log_bounds(MARGIN)
    return tuple(
        judge(each, expect="not-worse", bounds=bounds, better=Better.HIGHER) is Verdict.SUPPORTED
        for each in (plain, bound_fade(plain, turns))
    )


@pytest.mark.parametrize("time", [0.05, 0.25, 0.5, 1.0])
def test_without_noise_what_is_left_is_told_exactly(time: float) -> None:
    rng = np.random.default_rng(1)
    turns = draw(rng, 8, truth=-0.1, left=0.1, time=time)
    exact = [np.full(8, -0.1 + 0.1 * mean_left(time, *ends)) for ends in ((0, 0.5), (0.5, 0.75), (0.75, 1.0))]
    turns = Turns(washout=exact[0], early=exact[1], late=exact[2], guard=GUARD, counted=COUNTED)

    assert unfaded(turns) == pytest.approx(-0.1 * mean_left(time, 0.5, 1.0), rel=1e-6, abs=1e-9)


def test_slices_that_begin_as_they_go_on_bear_nothing() -> None:
    same = np.linspace(-0.02, 0.02, 8)

    assert unfaded(Turns(washout=same, early=same, late=same, guard=GUARD, counted=COUNTED)) == 0


def test_what_grows_up_to_the_end_of_a_slice_is_bounded_by_its_length() -> None:
    turns = Turns(washout=np.zeros(8), early=np.full(8, 0.02), late=np.full(8, 0.05), guard=GUARD, counted=COUNTED)
    counted = mean_left(1.0, 0.5, 1.0)

    assert unfaded(turns) == pytest.approx(0.035 * counted / (mean_left(1.0, 0, 0.5) - counted))


def test_blocks_without_all_windows_and_slices_without_a_washout_tell_nothing() -> None:
    gone, there = np.array([np.nan] * 7 + [0.0]), np.linspace(0.1, 0.2, 8)

    assert unfaded(Turns(washout=gone, early=there, late=there, guard=GUARD, counted=COUNTED)) == 0
    assert unfaded(Turns(washout=-there, early=there, late=there, guard=0.0, counted=COUNTED)) == 0


def test_the_interval_is_extended_to_the_side_of_what_is_left_behind() -> None:
    turns = draw(np.random.default_rng(2), 12, truth=-0.1, left=0.1, time=0.5)
    plain = compare_blocks(np.ones(12), np.exp((turns.early + turns.late) / 2))
    mirrored = replace(turns, washout=-turns.washout, early=-turns.early, late=-turns.late)
    borne, of_times = bound_fade(plain, turns), bound_fade(plain, mirrored)

    assert borne.high == pytest.approx(plain.high)
    assert borne.low < plain.low
    assert borne.hidden[0] == pytest.approx(math.log(plain.low / borne.low))
    assert of_times.low == pytest.approx(plain.low)
    assert of_times.hidden == borne.hidden[::-1]


@pytest.mark.parametrize(("blocks", "nominal"), [(6, 0.06), (12, 0.04), (40, 0.04)])
def test_an_arm_that_is_worse_by_the_margin_is_not_called_as_good(blocks: int, nominal: float) -> None:
    """Nominal are 2.5 %; with six blocks what is left is overlooked in some."""
    rng, plain, borne = np.random.default_rng(3), 0, 0
    for _ in range(500):
        first, second = conclude(draw(rng, blocks, truth=-math.log1p(MARGIN), left=0.1, time=0.5))
        plain += first
        borne += second

    assert plain > 200  # the fault
    assert borne <= stats.binom.ppf(0.9999, 500, nominal)


@pytest.mark.parametrize("blocks", [12, 40])
def test_where_nothing_is_left_behind_few_verdicts_are_lost(blocks: int) -> None:
    rng, plain, borne = np.random.default_rng(4), 0, 0
    for _ in range(500):
        first, second = conclude(draw(rng, blocks, truth=0.0, left=0.0, time=0.5))
        plain += first
        borne += second

    assert borne > 0.85 * plain
