"""The seconds of a timeline, and what readings say of each: rates of counters, values of gauges.

Readings are about a second apart and not aligned to the measured time, so a counter is followed between two readings by
a straight line. In a run of slices time is the arm's own, which stands still while another arm is at work: a second of
measured time is put together from what counts of its slices.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.evidence import measured
from pgtrial.analysis.slices import Window, slices_of, stretches, windows
from pgtrial.analysis.timeline import Array
from pgtrial.model.run import RunRow

GAP = 2.5  # times the usual distance of two readings of a counter, beyond which what lies between is not known
NEAR = 1.5  # times the same: how far the reading of a gauge may be from the middle of a second
_ROUNDING = 1e-3  # s; the length of a window is a difference of large numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Whole seconds of measured time of a run at a load level.

    ``started`` is when the first one began, in seconds since the epoch; ``offset`` the same in measured time of the
    run. ``begin``, ``end`` and ``second`` are (parts,), by the run's own time: the seconds, parted where the arm stood
    still, and which second each part is of. ``middle`` is (seconds,), by the same time. ``first`` and ``last`` are the
    ends of the window by the clock, in seconds since the epoch. Readings around it tell of it as well, but not
    if ``is_sliced``: there lies time that is nobody's own, in which a counter may have moved all the same.
    """

    level: int
    started: float
    offset: float
    seconds: int
    begin: Array
    end: Array
    second: NDArray[np.int64]
    middle: Array
    first: float
    last: float
    is_sliced: bool

    def reach(self, every: float = 1.0) -> tuple[float, float]:
        """Of which time readings tell of it that are usually ``every`` seconds apart: from, to, since the epoch."""
        around = 0.0 if self.is_sliced else GAP * every
        return self.first - around, self.last + around


def make_grids(run: RunRow) -> tuple[Grid, ...]:
    """The seconds of a run, by load level in order of time."""
    grids: list[Grid] = []
    counted = 0.0
    for window in windows(run):
        grids.append(_make_grid(run, window, counted=counted))
        counted += window.counted
    return tuple(grids)


def _make_grid(run: RunRow, window: Window, *, counted: float) -> Grid:
    """The seconds of one level; ``counted`` is the measured time of the run before it."""
    if run.slices:
        slices = slices_of(run, window.level)
        started, offset = slices[0].counted, counted
        counts_from = own_time(run, np.array([each.counted for each in slices]))
        lengths = np.array([each.seconds for each in slices])
    else:
        started, offset = window.started, window.started - measured(run)[0].start
        counts_from, lengths = np.array([window.started]), np.array([window.counted])
    seconds = int(window.counted + _ROUNDING)
    before = np.cumsum(lengths) - lengths  # measured time before each stretch that counts
    cuts = np.unique(np.concatenate([before[before < seconds], np.arange(seconds + 1.0)]))
    begin = _place(cuts[:-1], counts_from, before)
    return Grid(
        level=window.level,
        started=started,
        offset=offset,
        seconds=seconds,
        begin=begin,
        end=begin + np.diff(cuts),
        second=cuts[:-1].astype(np.int64),
        middle=_place(np.arange(0.5, seconds), counts_from, before),
        first=window.started,
        last=window.ended,
        is_sliced=bool(run.slices),
    )


def _place(measured_time: Array, counts_from: Array, before: Array) -> Array:
    """Own time of moments of measured time, all of one level."""
    stretch = np.searchsorted(before, measured_time, side="right") - 1
    placed: Array = counts_from[stretch] + measured_time - before[stretch]
    return placed


def own_time(run: RunRow, t: Array) -> Array:
    """The run's own time at times of the clock, in seconds since the epoch; without slices it is the clock's."""
    if not run.slices:
        return t
    at_work = stretches(run)
    started, ended = np.array([each.started for each in at_work]), np.array([each.ended for each in at_work])
    before = np.array([each.before for each in at_work])
    stretch = np.maximum(np.searchsorted(started, t, side="right") - 1, 0)
    own: Array = before[stretch] + np.minimum(t, ended[stretch]) - started[stretch]
    return own


def measured_time(run: RunRow, t: float) -> float:
    """Seconds since measuring began at a time of the clock; in a run of slices, what counts of them until then."""
    if run.slices:
        return sum(min(max(t - each.counted, 0.0), each.seconds) for each in run.slices)
    return t - measured(run)[0].start


def find_rates(grid: Grid, t: Array, value: Array, *, every: float = 1.0) -> Array:
    """Increase per second of counters in every second, (…, seconds).

    ``t`` (own time, ascending) is when they were read, (readings,), usually ``every`` seconds apart, and ``value`` what
    was read, (…, readings). A second is NaN where a step from one reading to the next that lies in it goes down, which
    is a reset, or is a gap. The first step also stands for what lies before it, and the last for what lies after, up to
    its own length: no reading is missing there. In a run of slices the sampler stops and goes on with its arm, so a
    step may be very short; there the longest one says when a reading is due.
    """
    is_later = np.diff(t, append=np.inf) > 0
    t, value = t[is_later], value[..., is_later] - value[..., :1]
    if t.size < 2 or not grid.seconds:
        return np.full((*value.shape[:-1], grid.seconds), np.nan)
    step, rise = np.diff(t), np.diff(value)
    is_gap = step > GAP * every
    longest = np.max(step, where=~is_gap, initial=0.0)
    before, after = (longest, longest) if grid.is_sliced else (step[0], step[-1])
    # In which step each part begins and ends, and how many unknown ones there are before each step.
    steps = step.size
    first = np.searchsorted(t, grid.begin, side="right") - 1
    last = np.searchsorted(t, grid.end, side="left") - 1
    is_reached = (grid.begin >= t[0] - before) & (grid.end <= t[-1] + after)
    first, last = np.clip(first, 0, steps - 1), np.clip(last, 0, steps - 1)
    unknown = np.zeros(value.shape, dtype=np.int64)
    np.cumsum((rise < 0) | is_gap, axis=-1, out=unknown[..., 1:])
    is_known = is_reached & (unknown[..., last + 1] == unknown[..., first])
    rate = rise / step
    until_end = value[..., last] + rate[..., last] * (grid.end - t[last])
    until_begin = value[..., first] + rate[..., first] * (grid.begin - t[first])
    increase = np.where(is_known, until_end - until_begin, np.nan)
    rates: Array = np.add.reduceat(increase, np.searchsorted(grid.second, np.arange(grid.seconds)), axis=-1)
    return rates


def find_values(grid: Grid, t: Array, value: Array, *, every: float = 1.0) -> Array:
    """Values of gauges in every second, (…, seconds): the last reading at or before its middle, or the next one.

    ``t`` (own time, ascending) is when they were read, (readings,), and ``value`` what was read, (…, readings). NaN
    where neither is near.
    """
    if not t.size:
        return np.full((*value.shape[:-1], grid.seconds), np.nan)
    following = np.searchsorted(t, grid.middle, side="right")
    before, after = np.maximum(following - 1, 0), np.minimum(following, t.size - 1)
    nearest = np.where(np.abs(grid.middle - t[before]) <= NEAR * every, before, after)
    is_near = np.abs(grid.middle - t[nearest]) <= NEAR * every
    return np.where(is_near, value[..., nearest], np.nan)
