"""What an arm does to the machine later than in its own turn: some slices late, and perhaps slowly.

Where arms take turns, what comes late hits the other arm as well and is missing in the comparison, which may even turn
round. It is seen because slices have many lengths: how much of the time some seconds ago was an arm's varies from slice
to slice, whichever arm is at work now. In each block the speed is regressed on that, beside the arms and a trend; over
the blocks the estimates are tested together, each with the weight that the scatter inside its block leaves it: few
blocks tell little of their own spread, but each has many slices. For the shapes that may be there the interval of an
effect is extended.
Sources: distributed lags after Almon, Econometrica 33 (1965) 178-196; carry-over as a part of the effect, Jones &
Kenward, "Design and Analysis of Cross-Over Trials", 3rd ed. (2014), section 2.3; the largest statistic over sign flips,
Westfall & Young, "Resampling-Based Multiple Testing" (1993), section 2.6.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from pgtrial.stats.base import Comparison
from pgtrial.stats.interval import NO_SPREAD, extend, t_quantile

# How an effect may come, in slices of usual length: time constants with which it comes and goes, each with its delays.
# What has neither is in the slices themselves, and what fades in less than one is in fade.py.
_DELAYS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
_NEAR = {fade: tuple(delay for delay in _DELAYS if delay + fade >= 1) for fade in (0.0, 0.5, 1.0, 2.0)}
# What comes at once lies on other slices if it comes half a slice later; what is spread over some does not.
_FAR = {
    0.0: (*(3.5, 4.5, 5.5, 6.5, 7.0, 7.5, 8.5, 9.0, 9.5, 10.0, 10.5, 11.0, 11.5, 12.0), *(13.0, 14.0, 15.0, 16.0)),
    0.5: (7.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0),
    1.0: (7.0, 10.0, 12.0, 14.0, 16.0),
    2.0: (10.0, 12.0, 14.0, 16.0),
}
NEAR = tuple((delay, fade) for fade, delays in _NEAR.items() for delay in delays)
SHAPES = (*NEAR, *((delay, fade) for fade, delays in _FAR.items() for delay in delays))
SEEN = 0.8  # confidence, over all shapes together, with which one is there, for it to bear on a verdict
_ONE_SIDED = 0.95  # of how large it may be
_STEPS = 20  # of the clock in a slice
_LEAST = 1e-4  # variance of what lies on the parts that neither the arms nor the trend explain
_EXACT = 10  # blocks up to which all sign flips are taken; beyond, so many of them:
_FLIPS = 200

_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """By how much the log ratio of each block would ``change`` if what comes late were in it, (blocks, shapes), and the
    standard ``error`` of that by the scatter inside the block, likewise; None where it is not to be used.

    NaN for shapes of which a block tells nothing.
    """

    change: _Array
    error: _Array | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """What arms that take turns got done in one block, or how quickly.

    ``started``, ``ended`` (parts,) in seconds and ``rate`` (parts,), transactions per second or their mean latency in
    seconds, NaN or 0 where there was none, of the parts of what counts; ``arm`` (parts,): 0 is the control, 1 the arm
    that is compared with it, larger ones others. ``turns``, (turns, 3): start and end of each slice, and its arm.
    ``slice``: a slice's usual length.
    """

    started: _Array
    ended: _Array
    rate: _Array
    arm: NDArray[np.intp]
    turns: _Array
    slice: float


def late_changes(speeds: Speeds, *, of: int = 1) -> _Array:
    """By how much the block's log ratio of the arms would change if what comes late were in it, and the standard error
    of that: (2, shapes).

    One for each of SHAPES, as if it were the one; NaN for those of which the block tells nothing. What comes late is
    the work ``of`` the arm (1) or of the control (0). Where only two take turns, each is what the other is not, and
    both are the same.
    """
    kept = speeds.rate > 0
    begin, end, arm = speeds.started[kept], speeds.ended[kept], speeds.arm[kept]
    if not {0, 1} <= set(arm.tolist()) or speeds.slice <= 0:
        return np.full((2, len(SHAPES)), np.nan)
    late = _late_shares(speeds.turns, speeds.slice, begin, end, of=of)
    arms = (arm[:, None] == np.unique(arm)).astype(np.float64)
    middle = (begin + end) / 2
    known = np.column_stack([arms, middle - middle.mean()])
    weights = np.sqrt(end - begin)[:, None]
    basis, _ = np.linalg.qr(weights * known)
    own = weights * late
    own = own - basis @ (basis.T @ own)
    information = (own**2).sum(axis=0)
    if len(begin) <= known.shape[1] + 1:
        return np.full((2, len(SHAPES)), np.nan)
    # What stays in step with the turns is not to be told from the arms.
    information[information < _LEAST * (end - begin).sum()] = np.nan
    speed = weights[:, 0] * np.log(speeds.rate[kept])
    speed = speed - basis @ (basis.T @ speed)
    found = own.T @ speed / information
    scatter = math.sqrt(float(speed @ speed) / (len(begin) - known.shape[1]))
    seconds = (end - begin)[:, None]
    means = [(late * seconds)[arm == one].sum(axis=0) / seconds[arm == one].sum() for one in (0, 1)]
    missing = 1 - (means[of] - means[1 - of])
    change = found * missing if of == 1 else -found * missing
    return np.stack([change, np.abs(missing) * scatter / np.sqrt(information)])


def unseen(late: Late) -> tuple[float, float]:
    """By how much the effect may be lower, and higher, in logarithms, for what comes late; 0 where none is seen.

    Several shapes may explain the same: each that is seen is allowed for. ``SEEN`` is low for the reason given in
    fade.py.
    """
    rows = np.isfinite(late.change).any(axis=1)
    columns = np.isfinite(late.change[rows]).all(axis=0)
    known = late.change[np.ix_(rows, columns)]
    blocks = len(known)
    if blocks < 2 or known.shape[1] == 0:
        return 0.0, 0.0
    signs = _signs(blocks)
    if late.error is None:
        statistics = _by_spread(signs @ known, known)
    else:
        precision = 1 / np.maximum(late.error[np.ix_(rows, columns)], NO_SPREAD) ** 2
        statistics = np.abs(signs @ (known * precision)) / np.sqrt(precision.sum(axis=0))
    largest = np.sort(statistics.max(axis=1))
    there = statistics[0] >= largest[math.ceil(SEEN * len(largest)) - 1]
    means, errors = known.mean(axis=0), known.std(axis=0, ddof=1) / math.sqrt(blocks)
    reach = t_quantile(_ONE_SIDED, blocks - 1) * errors
    down = np.where(there & (means < 0), reach - means, 0.0)
    up = np.where(there & (means > 0), means + reach, 0.0)
    return float(down.max()), float(up.max())


def bound_late(comparison: Comparison, late: Late) -> Comparison:
    """The comparison with an interval that also holds if part of the effect comes late."""
    down, up = unseen(late)
    return extend(comparison, down=down, up=up)


def _late_shares(turns: _Array, slice_length: float, begin: _Array, end: _Array, *, of: int) -> _Array:
    """How much of the work ``of`` an arm lies on each part, above what lies on it on average: (parts, shapes).

    Before the first slice it is taken for the average.
    """
    ordered = turns[np.argsort(turns[:, 0])]
    tick = slice_length / _STEPS
    first, count = ordered[0, 0], math.ceil((ordered[-1, 1] - ordered[0, 0]) / tick)
    times = first + (np.arange(count) + 0.5) * tick
    at_work = (ordered[np.searchsorted(ordered[:, 0], times, side="right") - 1, 2] == of).astype(np.float64)
    at_work -= at_work.mean()
    edges = first + np.arange(count + 1) * tick
    found = np.empty((len(begin), len(SHAPES)))
    for fade in _NEAR:
        left = math.exp(-1 / (fade * _STEPS)) if fade else 0.0
        load = lfilter([1 - left], [1, -left], at_work)
        total = np.concatenate([[0.0], np.cumsum(load) * tick])
        mine = [place for place, (_, other) in enumerate(SHAPES) if other == fade]
        late = np.array([SHAPES[place][0] for place in mine]) * slice_length
        found[:, mine] = np.interp(end[:, None] - late, edges, total) - np.interp(begin[:, None] - late, edges, total)
    return found / (end - begin)[:, None]


def _by_spread(sums: _Array, values: _Array) -> _Array:
    """Absolute t statistics of columns, given their sums; flips of signs leave the squares as they are."""
    count = len(values)
    spread = np.maximum((values**2).sum(axis=0) - sums**2 / count, 0.0) / (count - 1)
    return np.asarray(np.abs(sums) / np.sqrt(np.maximum(spread * count, np.finfo(np.float64).tiny)))


@cache
def _signs(blocks: int) -> _Array:
    """(flips, blocks), the data as they are first; up to the sign of all of them, which changes nothing."""
    if blocks <= _EXACT:
        bits = np.arange(2 ** (blocks - 1))[:, None] >> np.arange(blocks) & 1
        return np.where(bits == 1, -1.0, 1.0)
    drawn = np.random.default_rng(blocks).choice((-1.0, 1.0), (_FLIPS, blocks))
    drawn[0] = 1.0
    return np.asarray(drawn)
