"""What an arm leaves behind for the turn of the next one, and how much of it the washout may have let through.

A slice begins with what the other arm has left behind, which fades while it lasts; the washout keeps out what fades
quickly. How quickly it fades is in the slices themselves: in the change of the arms' ratio from the washout to what
counts, and in that from the first half of what counts to the second. Where the first is seen, the interval of an effect
is extended by what may still be in it.
Sources: Jones & Kenward, "Design and Analysis of Cross-Over Trials", 3rd ed. (2014), section 2.3, for carry-over as a
contrast inside blocks; what is left of an exponential approach follows from its means over three windows.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from pgtrial.stats.base import Comparison
from pgtrial.stats.interval import extend, mean_and_sd, t_quantile

SEEN = 0.8  # confidence with which the ratio changes after the washout, for it to bear on a verdict
_ONE_SIDED = 0.95  # of how much it may change later still
_SHORTEST = 1 / 50  # of the washout: a time constant that leaves nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Log ratios of an arm to the control in each block, (n_blocks,), NaN where there is none: in the washouts of the
    slices, and in the first and the second half of what counts. ``guard`` and ``counted``: seconds of both in a slice.
    """

    washout: NDArray[np.float64]
    early: NDArray[np.float64]
    late: NDArray[np.float64]
    guard: float
    counted: float


def unfaded(turns: Turns) -> float:
    """By how much the log ratio may still change until nothing is left of the other arm; 0 where none is seen.

    Time constants up to the length of a slice are allowed for. What lasts longer shows in slices of another length.
    ``SEEN`` is low, because a change that is overlooked makes a false verdict, and one that is not there a wider
    interval.
    """
    both = np.stack([turns.washout, turns.early, turns.late])
    washout, early, late = both[:, np.isfinite(both).all(axis=0)]
    if washout.size < 2 or turns.guard <= 0 or turns.counted <= 0:
        return 0.0
    degrees, root = washout.size - 1, math.sqrt(washout.size)
    change, sd = mean_and_sd((early + late) / 2 - washout)
    if abs(change) <= t_quantile((1 + SEEN) / 2, degrees) * sd / root:
        return 0.0
    growth, sd_growth = mean_and_sd(math.copysign(1.0, change) * (late - early))
    most = growth + t_quantile(_ONE_SIDED, degrees) * sd_growth / root
    return change * _still_there(most / abs(change), turns.guard, turns.counted)


def bound_fade(comparison: Comparison, turns: Turns) -> Comparison:
    """The comparison with an interval that also holds if what is left behind has not faded in what counts."""
    more = unfaded(turns)
    return extend(comparison, down=max(0.0, -more), up=max(0.0, more))


def _still_there(growth: float, guard: float, counted: float) -> float:
    """Mean of what is left in what counts, for a change of 1 from the washout to there and this one inside it."""
    longest = guard + counted
    if growth <= 0:
        return 0.0
    if growth >= _growth(longest, guard, counted):
        time = longest
    else:
        time = float(brentq(lambda t: _growth(t, guard, counted) - growth, guard * _SHORTEST, longest))
    washout, early, late = _left(time, guard, counted)
    mean = (early + late) / 2
    return mean / (washout - mean)


def _growth(time: float, guard: float, counted: float) -> float:
    washout, early, late = _left(time, guard, counted)
    return (early - late) / (washout - (early + late) / 2)


def _left(time: float, guard: float, counted: float) -> tuple[float, float, float]:
    """Means of exp(-t / time) over the washout and over both halves of what counts."""
    half = counted / 2
    washout = time / guard * -math.expm1(-guard / time)
    early = time / half * math.exp(-guard / time) * -math.expm1(-half / time)
    return washout, early, early * math.exp(-half / time)
