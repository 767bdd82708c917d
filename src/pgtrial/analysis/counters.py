"""Growth of counters between two moments: the source of every rate and every cost in the analysis.

Readings are about a second apart and not aligned to the measured time, so a counter is followed between two readings by
a straight line.

Where the arms of a block share its time (runs of slices), a server's own counters stand still while the server does:
their time is the arm's own, the seconds that it has been at work. Counters of the machine keep the time of the clock.
Of a server that is switched between the arms, no counter stands still. What counts of each slice is known by the
readings inside it alone, which are taken at both of its ends as well: a straight line across a switch would lend one
arm what the other did.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.slices import Stretch, Window, stretches, windows
from pgtrial.model.run import RunRow

Array = NDArray[np.float64]
Key = tuple[str, str]  # (metric, object)
Readings = Mapping[Key, tuple[Array, Array]]  # times, since the epoch and ascending, and values

_OF_SERVER = ("pg_stat_", "backend_cpu.", "pgbouncer.")
_LEAST_KNOWN = 0.5  # of the time that counts of a window, for which it then stands
# A session adds what it has done to the server's counters once a second (PGSTAT_MIN_INTERVAL in PostgreSQL's pgstat.c),
# except to those of pg_stat_statements. When a shorter washout ends, some of the other arm's work is not there yet.
LATENESS = 1.0


def own_time(run: RunRow, t: Array) -> Array:
    """The run's own time at times of the clock, in seconds since the epoch; without slices it is the clock's.

    Until the first slice none of its own time has passed.
    """
    if not run.slices:
        return t
    at_work = stretches(run)
    started, ended = np.array([each.started for each in at_work]), np.array([each.ended for each in at_work])
    before = np.array([each.before for each in at_work])
    stretch = np.maximum(np.searchsorted(started, t, side="right") - 1, 0)
    own: Array = np.maximum(before[stretch] + np.minimum(t, ended[stretch]) - started[stretch], 0.0)
    return own


def in_own_time(run: RunRow, t: Array) -> NDArray[np.bool_]:
    """Which readings, (n,), at times of the clock are of what counts of a run's slices where its server is switched;
    all of another run.
    """
    if not run.is_switched:
        return np.ones(t.shape, np.bool_)
    found = np.zeros(t.shape, np.bool_)
    for turn in stretches(run):
        found[_between(t, turn.started, turn.ended)] = True
    return found


def lateness(metric: str) -> float:
    """Seconds by which a counter may be behind what it counts."""
    return LATENESS if metric.startswith("pg_stat_") and not metric.startswith("pg_stat_statements.") else 0.0


def increases(
    t: Array, value: Array, begin: Array, end: Array, *, longest: float = np.inf, is_sliced: bool = False
) -> Array:
    """Increase of counters from each ``begin`` to its ``end``, (…, parts).

    ``t`` (ascending) is when they were read, (readings,), and ``value`` what was read, (…, readings), by the same time
    as ``begin`` and ``end``, (parts,). A part is NaN where a step from one reading to the next that lies in it goes
    down, which is a reset, or takes more than ``longest`` seconds, which is a gap.

    The first and the last step also stand for what lies around them, up to their own length: no reading is missing
    there, the next one was only not due yet. In a run of slices (``is_sliced``) the sampler stops and goes on with its
    arm, so a step may be very short: there the longest one says when a reading is due, and as much time at both ends
    stands for what lies around.
    """
    is_later = np.diff(t, append=np.inf) > 0
    t, value = t[is_later], value[..., is_later] - value[..., :1]
    if t.size < 2 or not begin.size:
        return np.full((*value.shape[:-1], begin.size), np.nan)
    step, rise = np.diff(t), np.diff(value)
    is_gap = step > longest
    before, after = (np.max(step, where=~is_gap, initial=0.0),) * 2 if is_sliced else (step[0], step[-1])
    rate = rise / step
    unknown = np.zeros(value.shape, dtype=np.int64)  # how many steps before each reading are
    np.cumsum((rise < 0) | is_gap, axis=-1, out=unknown[..., 1:])

    def between(start: Array, stop: Array) -> Array:
        """Increases between moments from the first reading to the last."""
        first = np.clip(np.searchsorted(t, start, side="right") - 1, 0, step.size - 1)
        last = np.clip(np.searchsorted(t, stop, side="left") - 1, 0, step.size - 1)
        until_stop = value[..., last] + rate[..., last] * (stop - t[last])
        until_start = value[..., first] + rate[..., first] * (start - t[first])
        return np.where(unknown[..., last + 1] == unknown[..., first], until_stop - until_start, np.nan)

    found = between(np.clip(begin, t[0], t[-1]), np.clip(end, t[0], t[-1]))
    # Around the readings it goes on as it did next to them.
    earlier = np.maximum(t[0] - begin, 0.0) - np.maximum(t[0] - end, 0.0)
    if before > 0 and earlier.any():
        found += np.where(earlier > 0, between(t[:1], t[:1] + before) * (earlier / before), 0.0)
    later = np.maximum(end - t[-1], 0.0) - np.maximum(begin - t[-1], 0.0)
    if after > 0 and later.any():
        found += np.where(later > 0, between(t[-1:] - after, t[-1:]) * (later / after), 0.0)
    return np.where((begin >= t[0] - before) & (end <= t[-1] + after), found, np.nan)


def is_soon_enough(run: RunRow, level: int) -> bool:
    """Whether of most of a level's slices the washout is long enough for counters that are late."""
    turns = [turn for turn in stretches(run) if turn.level == level]
    told = sum(turn.seconds for turn in turns if turn.washout >= LATENESS)
    return told >= _LEAST_KNOWN * sum(turn.seconds for turn in turns)


def turn_increases(
    run: RunRow, clock: Array, value: Array, begin: Array, end: Array, *, longest: float = np.inf, late_by: float = 0.0
) -> Array:
    """Increase of counters from each ``begin`` to its ``end``, (…, parts), in a run whose server is switched.

    ``begin`` and ``end``, (parts,), are of the run's own time, and of one slice each. ``clock``, (readings,), is when
    the counters were read, in seconds since the epoch, and ``value``, (…, readings), what was read. A part is NaN where
    ``increases`` knows none by the readings inside the slice, or counters that are late may have the other arm's work.
    """
    found, middle = np.full((*value.shape[:-1], begin.size), np.nan), (begin + end) / 2
    for turn in stretches(run):
        parts = slice(*np.searchsorted(middle, (turn.before, turn.before + turn.seconds)))
        if parts.start < parts.stop and turn.washout >= late_by:
            mine = _between(clock, turn.started, turn.ended)
            t = turn.before + (clock[mine] - turn.started)
            found[..., parts] = increases(
                t, value[..., mine], begin[parts], end[parts], longest=longest, is_sliced=True
            )
    return found


def window_increases(run: RunRow, readings: Readings) -> Iterator[tuple[int, Key, float | None, float]]:
    """(load level, counter, its increase over the measured window, longest gap in it) of a run.

    The increase is None where it is not known. The gap is in seconds between two readings, or to an end of the window,
    without the time in which the run's arm stood still. Nothing of counters that were not read in a window.
    """
    if run.is_switched:
        yield from _switched_increases(run, readings)
        return
    together: dict[tuple[bool, bytes], list[Key]] = {}
    for key, (t, _) in readings.items():
        together.setdefault((key[0].startswith(_OF_SERVER), t.tobytes()), []).append(key)
    for (is_own, times), keys in together.items():
        clock = np.frombuffer(times)
        own = own_time(run, clock)
        value = np.stack([readings[key][1] for key in keys])
        for window in windows(run):
            is_sliced = is_own and bool(run.slices)
            # Around a window of slices lies time that is nobody's own, in which a counter may have moved all the same.
            mine = _between(clock, window.started, window.ended) if is_sliced else slice(None)
            t = own[mine] if is_sliced else clock
            start, end = (window.own_started, window.own_ended) if is_sliced else (window.started, window.ended)
            gap = _longest_gap(t, own[mine], start, end)
            if gap is None:
                continue
            found = increases(t, value[:, mine], np.array([start]), np.array([end]), is_sliced=is_sliced)[:, 0]
            for key, increase in zip(keys, found.tolist(), strict=True):
                yield window.level, key, None if np.isnan(increase) else increase, gap


def _switched_increases(run: RunRow, readings: Readings) -> Iterator[tuple[int, Key, float | None, float]]:
    """The same where the server is switched: slices in which an increase is known stand for those in which it is not,
    if that is half of the time.
    """
    together: dict[tuple[float, bytes], list[Key]] = {}
    for key, (t, _) in readings.items():
        together.setdefault((lateness(key[0]), t.tobytes()), []).append(key)
    for (late_by, times), keys in together.items():
        clock, value = np.frombuffer(times), np.stack([readings[key][1] for key in keys])
        for window in windows(run):
            turns = [turn for turn in stretches(run) if turn.level == window.level]
            read = [clock[_between(clock, turn.started, turn.ended)] for turn in turns]
            if not any(t.size for t in read):
                continue
            gap = max(np.diff([turn.started, *t, turn.ended]).max() for turn, t in zip(turns, read, strict=True))
            seconds = np.array([turn.seconds for turn in turns])
            begin = np.array([turn.before for turn in turns])
            found = turn_increases(run, clock, value, begin, begin + seconds, late_by=late_by)
            share = (~np.isnan(found)) @ seconds / seconds.sum()
            for key, parts, known in zip(keys, found, share.tolist(), strict=True):
                yield window.level, key, float(np.nansum(parts)) / known if known >= _LEAST_KNOWN else None, float(gap)


def count_between(window: Window | Stretch, readings: Readings) -> dict[str, float]:
    """By object: how much was counted from the first to the last reading inside a window, where anything was.

    For counters whose objects have no reading until they are counted for the first time: they stood at zero. Nothing
    where one went down or went away, which is a reset of all of them.
    """
    inside = {key: _between(t, window.started, window.ended, is_open=True) for key, (t, _) in readings.items()}
    mine = {
        about: (readings[metric, about][0][place], readings[metric, about][1][place])
        for (metric, about), place in inside.items()
        if place.start < place.stop
    }
    if not mine:
        return {}
    first, last = min(t[0] for t, _ in mine.values()), max(t[-1] for t, _ in mine.values())
    if any(t[-1] < last or (np.diff(value) < 0).any() for t, value in mine.values()):
        return {}
    counts = {about: float(value[-1] - (value[0] if t[0] == first else 0.0)) for about, (t, value) in mine.items()}
    return {about: count for about, count in counts.items() if count > 0}


def _between(t: Array, first: float, last: float, *, is_open: bool = False) -> slice:
    """Places of the times from the first to the last moment; the last itself does not belong to it if ``is_open``."""
    return slice(np.searchsorted(t, first), np.searchsorted(t, last, side="left" if is_open else "right"))


def _longest_gap(t: Array, own: Array, start: float, end: float) -> float | None:
    """Of a window; None where no step from one reading to the next lies in it."""
    is_inside = (t[1:] > t[:-1]) & (t[:-1] < end) & (t[1:] > start)
    if not is_inside.any():
        return None
    first, last = np.flatnonzero(is_inside)[[0, -1]]
    return float(max(np.diff(own)[is_inside].max(), t[first] - start, end - t[last + 1]))
