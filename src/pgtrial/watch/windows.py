"""Windows of a watched server's time: what a user writes for them, and the sums that a folder has of them."""

import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pgtrial.errors import SpecError, StoreError
from pgtrial.units import parse_duration
from pgtrial.watch import sums
from pgtrial.watch.folder import minutes_of_day
from pgtrial.watch.layout import (
    DAY,
    HOUR,
    KINDS,
    MINUTE,
    SAMPLES,
    Look,
    day_name,
    day_of,
    file_name,
    hour_parts,
    look,
)

_PARTS = 36  # of a short window; its mean is known from its slowest waves, and fewer have too few of them
_NOW = re.compile(r"now(?:-(?P<before>.+))?")
_TIME = re.compile(r"\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?")
_FORM = 'Write "2026-11-28T04:00/05:00", in UTC unless it says otherwise, "now-30min" or "now-25h/now-24h".'


@dataclass(frozen=True, slots=True)
class Window:
    """From ``start`` to ``end``, seconds since the epoch: whole minutes."""

    start: int
    end: int

    @property
    def minutes(self) -> int:
        return (self.end - self.start) // MINUTE

    def __str__(self) -> str:
        start, end = (datetime.fromtimestamp(t, UTC) for t in (self.start, self.end))
        last = end.strftime("%H:%M") if start.date() == end.date() else end.strftime("%Y-%m-%dT%H:%M")
        return f"{start.strftime('%Y-%m-%dT%H:%M')}/{last}"


def parse_window(text: str, *, now: float) -> Window:
    """The whole minutes of "START/END" or "START", which ends now. Raises SpecError."""
    first, slash, last = text.partition("/")
    try:
        start = _moment(first, now=now)
        end = now if not slash else _moment(last, now=now, after=start)
    except (ValueError, OverflowError):
        raise SpecError(f'"{text}" is no window of time', hint=_FORM) from None
    window = Window(math.ceil(start / MINUTE) * MINUTE, math.floor(end / MINUTE) * MINUTE)
    if window.minutes < 1:
        raise SpecError(f'"{text}" has no whole minute', hint=_FORM)
    return window


def _moment(text: str, *, now: float, after: float | None = None) -> float:
    """Seconds since the epoch; a time without a day is the next one ``after``. Raises ValueError."""
    if match := _NOW.fullmatch(text):
        return now - (parse_duration(match["before"]) if match["before"] else 0.0)
    if after is not None and _TIME.fullmatch(text):
        day = datetime.fromtimestamp(after, UTC).date()
        found = _aware(datetime.fromisoformat(f"{day}T{text}"))
        return (found if found.timestamp() > after else found + timedelta(days=1)).timestamp()
    return _aware(datetime.fromisoformat(text)).timestamp()


def _aware(found: datetime) -> datetime:
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Files of sums of a window by kind; their rows are ``step`` seconds each, a minute or an hour."""

    window: Window
    step: int
    files: Mapping[str, tuple[Path, ...]]

    def read(self, kind: str, columns: str, where: str = "true", *values: Any) -> dict[str, Any]:
        """Columns of the rows of the window; ``place`` among them is the number of its step. Raises StoreError."""
        place = f"floor((t - {self.window.start}) / {self.step})::INT AS place"
        query = (
            f"SELECT {columns} FROM (SELECT *, {place} FROM {{files}} "
            f"WHERE t >= {self.window.start} AND t < {self.window.end}) WHERE {where}"
        )
        return sums.read_sums(kind, self.files[kind], query, values)

    @property
    def steps(self) -> int:
        return (self.window.end - self.window.start) // self.step


def fine_step(window: Window) -> int:
    """Seconds that cut a short window into 36 parts or more, down to those of a tick; a minute of a longer one."""
    return next((step for step in (MINUTE, 30, 20, 15, 10) if window.minutes * MINUTE >= _PARTS * step), 5)


@contextmanager
def window_sums(root: Path, window: Window, step: int = MINUTE, *, kinds: Sequence[str] = KINDS) -> Iterator[Sums]:
    """The sums of a window, of samples and what else is in ``kinds``.

    Those that are stored, and of hours that are not summed up yet new ones: over ``step`` seconds where all that was
    read is still kept, else over minutes; of a time of which minutes are no longer there, over hours. Raises StoreError
    where there is nothing of it.
    """
    found = look(root, start=window.start - HOUR, end=window.end + HOUR)
    with tempfile.TemporaryDirectory(prefix="pgtrial-window-") as place:
        if step < MINUTE and _has_readings(found, window):
            fine = {kind: tuple(_fine(root, window, kind, found, Path(place), step=step)) for kind in kinds}
            if fine[SAMPLES]:
                yield Sums(window=window, step=step, files=fine)
                return
        minutes = {kind: tuple(_minutes(root, window, kind, found, Path(place))) for kind in kinds}
        if minutes[SAMPLES]:
            yield Sums(window=window, step=MINUTE, files=minutes)
            return
        days = [day for day in found.days if day + DAY > window.start and day < window.end]
        held = {kind: [(day, found.days[day][kind].hours) for day in days] for kind in kinds}
        hours = {
            kind: tuple(root / day_name(day) / each[1] for day, each in of_kind if each is not None)
            for kind, of_kind in held.items()
        }
        if not hours[SAMPLES]:
            raise StoreError(
                f'"{root}" has nothing of {window}', hint="See which days and hours it has: they are its directories."
            )
        whole = Window(math.ceil(window.start / HOUR) * HOUR, math.floor(window.end / HOUR) * HOUR)
        if whole.minutes < 1:
            raise StoreError(
                f'of {window} "{root}" has sums of hours only', hint="Name a window with a whole hour in it."
            )
        yield Sums(window=whole, step=HOUR, files=hours)


def _has_readings(found: Look, window: Window) -> bool:
    """Whether no hour of the window has sums alone."""
    hours = [kinds for hour, kinds in found.hours.items() if hour + HOUR > window.start and hour < window.end]
    return all(held.readings or not held.number for kinds in hours for held in kinds.values())


def _fine(root: Path, window: Window, kind: str, found: Look, place: Path, *, step: int) -> Iterator[Path]:
    for hour, kinds in found.hours.items():
        if hour + HOUR > window.start and hour < window.end and kinds[kind].readings:
            yield _sum_anew(root, hour, kind, found, place, window=window, step=step)


def _minutes(root: Path, window: Window, kind: str, found: Look, place: Path) -> Iterator[Path]:
    for hour, kinds in found.hours.items():
        if hour + HOUR <= window.start or hour >= window.end:
            continue
        held = kinds[kind]
        stored = minutes_of_day(day_of(hour), kind, found).get(hour)
        if stored is not None and stored[0] >= held.number:
            yield root.joinpath(*hour_parts(hour), stored[1])
        elif held.readings:
            yield _sum_anew(root, hour, kind, found, place, window=window, step=MINUTE)


def _sum_anew(root: Path, hour: int, kind: str, found: Look, place: Path, *, window: Window, step: int) -> Path:
    """The part of the window that lies in the hour."""
    start, end = max(hour, window.start), min(hour + HOUR, window.end)
    around = [
        each
        for each in (hour - HOUR, hour, hour + HOUR)
        if each in found.hours and each + HOUR > start - sums.AROUND and each < end + sums.AROUND
    ]
    names = {each: (found.hours[each][kind].readings, found.hours[each][SAMPLES].readings) for each in around}
    out = place / f"{hour}-{file_name(kind, 'minutes', found.hours[hour][kind].number)}"
    sums.sum_minutes(
        kind,
        start,
        out,
        readings=[root.joinpath(*hour_parts(each), name) for each in around for name in names[each][0]],
        samples=[root.joinpath(*hour_parts(each), name) for each in around for name in names[each][1]],
        counters=sums.COUNTERS,
        step=step,
        end=end,
    )
    return out
