"""The seconds of a timeline, and the value of each second: rates of counters, values of gauges.

In a run of slices time is the arm's own, which stands still while another arm is at work: a second of measured time is
put together from what counts of its slices.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.counters import Array, increases, own_time, turn_increases
from pgtrial.analysis.evidence import measured
from pgtrial.analysis.log_pairing import LogEvent
from pgtrial.analysis.slices import Window, slices_of, windows
from pgtrial.analysis.timelines.timeline import Timeline
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
        beyond = reach_beyond(every, is_sliced=self.is_sliced)
        return self.first - beyond, self.last + beyond


def reach_beyond(every: float, *, is_sliced: bool) -> float:
    """How many seconds beyond a window there are readings, usually ``every`` seconds apart, that tell of it."""
    return 0.0 if is_sliced else GAP * every


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


def measured_time(run: RunRow, t: float) -> float:
    """Seconds since measuring began at a time of the clock; in a run of slices, what counts of them until then."""
    if run.slices:
        return sum(min(max(t - each.counted, 0.0), each.seconds) for each in run.slices)
    return t - measured(run)[0].start


def find_rates(grid: Grid, t: Array, value: Array, *, every: float = 1.0) -> Array:
    """Increase per second of counters in every second, (…, seconds); NaN where it is not known.

    ``t`` (own time, ascending) is when they were read, (readings,), usually ``every`` seconds apart, and ``value`` what
    was read, (…, readings).
    """
    return _add_up(grid, increases(t, value, grid.begin, grid.end, longest=GAP * every, is_sliced=grid.is_sliced))


def find_switched_rates(
    grid: Grid, run: RunRow, clock: Array, value: Array, *, every: float = 1.0, late_by: float = 0.0
) -> Array:
    """The same of a run whose server is switched; ``clock`` is when they were read, in seconds since the epoch."""
    return _add_up(grid, turn_increases(run, clock, value, grid.begin, grid.end, longest=GAP * every, late_by=late_by))


def _add_up(grid: Grid, parts: Array) -> Array:
    """Seconds, (…, seconds), of their parts, (…, parts)."""
    found: Array = np.add.reduceat(parts, np.searchsorted(grid.second, np.arange(grid.seconds)), axis=-1)
    return found


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


# Where the entries of the server's log lie on timelines.


Placed = tuple[LogEvent, float, float]  # with its start and end in seconds since the timeline's start


def place_events(
    runs: Iterable[RunRow], timelines: Iterable[Timeline], events: Iterable[LogEvent]
) -> Mapping[tuple[int, int], tuple[Placed, ...]]:
    """By (run, load level): the events that touch each timeline, in order of time."""
    by_id = {run.id: run for run in runs}
    measured: dict[int, list[Placed]] = {}  # by run, in seconds since its measuring began
    for event in events:
        run = by_id.get(event.run)
        if run is not None:
            start, end = measured_time(run, event.start), measured_time(run, event.end)
            measured.setdefault(run.id, []).append((event, start, end))
    return {(line.run, line.level): _touching(line, measured.get(line.run, ())) for line in timelines}


def _touching(timeline: Timeline, events: Sequence[Placed]) -> tuple[Placed, ...]:
    placed = [
        (event, start - timeline.offset, end - timeline.offset)
        for event, start, end in events
        if end >= timeline.offset and start < timeline.offset + timeline.seconds
    ]
    return tuple(sorted(placed, key=lambda event: event[1]))
