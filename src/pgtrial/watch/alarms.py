"""Alarms of a watched server: what is usual is learned from calm minutes of its folder, the others are gone through.

The contract is that of ``stats.alarms``: at most one false alarm in so many days for all signals together.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import time

import numpy as np

from pgtrial.errors import SpecError
from pgtrial.stats.alarms.audit import CONTRACT_DAYS, Audit, audit
from pgtrial.stats.alarms.blocks import MINUTES, Aspect
from pgtrial.stats.alarms.detector import FEWEST_DAYS, Alarm, Change, learn
from pgtrial.stats.alarms.feed import open_feed, take
from pgtrial.watch.folder import read_mark
from pgtrial.watch.layout import DAY, HOUR, MINUTE, SAMPLES, look
from pgtrial.watch.raised import SETTLING, Kept, ServerAlarm, Shift, read_kept
from pgtrial.watch.signals import Column, Minutes, Signals, choose_signals, read_minutes, usual_statements
from pgtrial.watch.windows import Window

_MONDAY = 4 * DAY  # the first one after 1970-01-01, a Thursday
_LEAST_READ = 0.75  # share of the days that the detector needs
_BLOCK = MINUTES * MINUTE  # s
_LARGEST = 100.0  # of a logarithm
_MINUTES_OF_DAY = DAY // MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """``calm`` is what was learned from, ``rest`` what came after it, None where nothing did. In ``one_in`` days there
    is one false alarm at most. ``alarms`` and ``audit`` are of the time since ``kept.since``: with those that were
    kept from before, as they were raised then. ``kept`` is what is to be kept of them now.
    """

    calm: Window
    rest: Window | None
    columns: tuple[Column, ...]
    alarms: tuple[ServerAlarm, ...]
    audit: Audit
    kept: Kept
    one_in: float = CONTRACT_DAYS

    @property
    def around_last(self) -> tuple[Window, Window] | None:
        """The hour before the last alarm's change, and the time from there to the alarm, an hour or more."""
        if not self.alarms:
            return None
        time = self.time_of(len(self.alarms))
        return Window(time.start - HOUR, time.start), time

    def time_of(self, number: int) -> Window:
        """From the change of an alarm, the first is 1, to the alarm, an hour or more. Raises SpecError."""
        if not 0 < number <= len(self.alarms):
            there = f"the last one is {len(self.alarms)}" if self.alarms else "there is none"
            raise SpecError(f"there is no alarm {number}: {there}", hint='"pgtrial alarms" shows them.')
        alarm = self.alarms[number - 1]
        end = max(alarm.at, alarm.onset + HOUR)
        if self.rest is not None and alarm.at <= self.rest.end:  # else it was kept from a time that is not there
            end = min(end, self.rest.end)
        return Window(alarm.onset, end)

    def has_alarm_in_last(self, seconds: int) -> bool:
        """Whether there is one in so many seconds before the end of what was read."""
        return self.rest is not None and any(self.rest.end - seconds < each.at <= self.rest.end for each in self.alarms)


def find_alarms(root: Path, calm: Window | None = None, one_in: float = CONTRACT_DAYS) -> Watched:
    """All alarms after ``calm``, the first two weeks unless it is given, with one false one in ``one_in`` days.

    The first two weeks are those of which minutes are still there: what was raised before, and has been kept, counts as
    it was. Raises StoreError where a file is damaged, and SpecError where the calm time has too few minutes.
    """
    found = look(root)
    hours = [hour for hour, kinds in found.hours.items() if kinds[SAMPLES].number]
    if not hours:
        raise _too_few(calm, 0)
    there = Window(hours[0], hours[-1] + HOUR)
    kept = read_kept(root, one_in) if calm is None else None
    calm = calm or Window(there.start, there.start + FEWEST_DAYS * DAY)
    # Whole blocks, and only of what there is.
    start = -(-max(calm.start, there.start) // _BLOCK) * _BLOCK
    end = min(calm.end, there.end) // _BLOCK * _BLOCK
    if end - start < FEWEST_DAYS * DAY:
        raise _too_few(calm, max(0, end - start) // MINUTE)
    calm = Window(start, end)
    statements = usual_statements(root, found, calm)
    minutes = read_minutes(root, found, Window(calm.start, there.end), tuple(statements))
    known = minutes.are_known()
    read = int(known[: calm.minutes].sum())
    if read < _LEAST_READ * FEWEST_DAYS * _MINUTES_OF_DAY:
        raise _too_few(calm, read)
    mark = read_mark(root)
    signals = choose_signals(minutes, calm, statements, server=f"{mark.server}/{mark.database}")
    if not signals.signals:
        raise SpecError(
            f"nothing changes in the calm time {calm}: there is no signal to learn",
            hint="Name another calm time with --calm START/END.",
        )
    rest = _rest(minutes, calm)
    end = calm.end if rest is None else rest.end
    if kept is not None and kept.until > max(end, time()):
        # A clock was ahead, and is not any more: what comes after calm time is gone through again.
        kept = kept.cut(calm.end)
    before = kept or Kept(since=calm.end, until=calm.end, days=0.0, alarms=())
    alarms = before.with_new(_alarms(signals, calm, one_in))
    until = max(before.until, end - SETTLING)

    # What settled last was gone through then, also where calm time has moved over it.
    first = before.until if calm.end <= before.until + SETTLING else calm.end

    def days_read(stop: int) -> float:
        """After the time of which they are known."""
        start, last = (max(0, each - minutes.window.start) // MINUTE for each in (first, stop))
        return float(known[start:last].sum()) / _MINUTES_OF_DAY

    return Watched(
        calm=calm,
        rest=rest,
        columns=signals.columns,
        alarms=alarms,
        audit=audit(len(alarms), days=before.days + days_read(end), allowed=CONTRACT_DAYS / one_in),
        kept=Kept(since=before.since, until=until, days=before.days + days_read(until), alarms=alarms),
        one_in=one_in,
    )


def _rest(minutes: Minutes, calm: Window) -> Window | None:
    """From the end of calm time to the last minute that was read."""
    known = np.flatnonzero(minutes.are_known())
    end = minutes.window.start + (int(known[-1]) + 1) * MINUTE
    return Window(calm.end, end) if end > calm.end else None


def _alarms(signals: Signals, calm: Window, one_in: float) -> Iterator[ServerAlarm]:
    first = _number(calm.start)
    learned = learn(signals.values[None, :, : calm.minutes], signals.signals, first=first, days=one_in)
    feed = open_feed(learned, first + calm.minutes)
    for place in range(calm.minutes, signals.window.minutes):
        feed, raised = take(feed, first + place, signals.values[:, place])
        for alarm in raised:
            yield _server_alarm(signals, calm, alarm)


def _number(t: int) -> int:
    """Minutes since a Monday's midnight, UTC."""
    return (t - _MONDAY) // MINUTE


def _time(block: int) -> int:
    return block * _BLOCK + _MONDAY


def _server_alarm(signals: Signals, calm: Window, alarm: Alarm) -> ServerAlarm:
    at = _time(alarm.block + 1)
    return ServerAlarm(at=at, shifts=tuple(_shift(signals, calm, at, change) for change in alarm.changes))


def _shift(signals: Signals, calm: Window, at: int, change: Change) -> Shift:
    column, aspect = signals.columns[change.stream.column], change.stream.aspect
    onset = _time(change.onset)
    # A part against the geometric mean of all k parts is one against that of the others, to the power of (k - 1) / k.
    parts = sum(each.signal == column.signal for each in signals.columns)
    power = parts / (parts - 1) if aspect is Aspect.SHARE else 1.0
    size, low, high = (math.exp(min(power * log, _LARGEST)) for log in (change.size, change.low, change.high))
    return Shift(
        signal=column.signal,
        part=signals.part_of(column, calm, Window(onset, at)),
        text=column.text,
        aspect=aspect,
        is_more=change.direction > 0,
        size=size,
        low=low,
        high=high,
        onset=onset,
    )


def _too_few(calm: Window | None, minutes: int) -> SpecError:
    of = "" if calm is None else f" of {calm}"
    return SpecError(
        f"too little calm time to learn from: the folder has {minutes / _MINUTES_OF_DAY:.1f} days{of} in minutes",
        detail=f"The detector needs {FEWEST_DAYS} days, {_LEAST_READ * FEWEST_DAYS} of them read.",
        hint="Let the watch go on, or name a longer time with --calm START/END.",
    )
