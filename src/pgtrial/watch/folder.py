"""The folder of a watch: one writer, parts of some seconds, hours in one file each, and sums that outlast them.

Every file takes its name whole and at once, and its name says what it replaces (``layout``). So whatever kills the
writer, between any two steps, the folder has each reading that was written, once; the next writer goes on from there.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pgtrial.errors import StoreError
from pgtrial.model.metric import Sample
from pgtrial.safe_files import make_directories, read_file, remove_empty, remove_file, remove_tree, write_file
from pgtrial.safe_text import parse_json
from pgtrial.store.samples import StatementRow, WaitRow, write_samples, write_statements, write_waits
from pgtrial.units import format_bytes
from pgtrial.watch import sums
from pgtrial.watch.layout import (
    DAY,
    HOUR,
    HOURS,
    KINDS,
    LOCK,
    MARK,
    MINUTES,
    PART,
    SAMPLES,
    STATEMENTS,
    WAITS,
    WHOLE,
    Look,
    day_name,
    day_of,
    file_name,
    held_files,
    hour_of,
    hour_parts,
    look,
)

FORMAT = 1
_LARGEST_MARK = 1 << 16  # bytes
_Row = TypeVar("_Row", Sample, WaitRow, StatementRow)
_OPEN_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a folder is about: where the server is, as one reads it, and the database."""

    server: str
    database: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """For how many seconds readings, minutes and hours are kept."""

    readings: float = 48 * HOUR
    minutes: float = 60 * DAY
    hours: float = 730 * DAY


@dataclass(slots=True)
class Rows:
    """What has been read and is not on the disk yet."""

    samples: list[Sample] = field(default_factory=list)
    waits: list[WaitRow] = field(default_factory=list)
    statements: list[StatementRow] = field(default_factory=list)


class WatchFolder:
    """The folder of one watch, locked by ``open_folder``. ``counters`` are as in ``sums.sum_minutes``."""

    def __init__(self, root: Path, *, ages: Ages, counters: Iterable[tuple[str, float]], keep_free: int) -> None:
        self.root = root
        self._ages = ages
        self._counters = tuple(counters)
        self._keep_free = keep_free
        self._numbers: dict[tuple[int, str], int] = {}  # of the newest part, by hour and kind

    def write(self, rows: Rows) -> None:
        """Write parts, each in the hour of its readings. Raises StoreError, and then what was not written is lost."""
        self.check_room()
        self._write(SAMPLES, rows.samples, write_samples)
        self._write(WAITS, rows.waits, write_waits)
        self._write(STATEMENTS, rows.statements, write_statements)

    def check_room(self) -> None:
        """Raise StoreError where the disk is so full that a server on it could be next, or the folder is gone."""
        try:
            free = shutil.disk_usage(self.root).free
        except OSError as err:
            raise StoreError(
                f'the watch has ended: its folder "{self.root}" cannot be reached: {err.strerror}',
                hint="Start it again; it makes the folder anew.",
            ) from err
        if free < self._keep_free:
            raise StoreError(
                f'the watch has ended: the disk of "{self.root}" has {format_bytes(free)} left',
                detail=f"It leaves {format_bytes(self._keep_free)} to others (--keep-free). What it has read is there.",
                hint="Free some space, or keep less (--keep-polls, --keep-minutes, --keep-hours), and start it again.",
            )

    def _write(self, kind: str, rows: Sequence[_Row], write: Callable[[Iterable[_Row], Path], int]) -> None:
        by_hour: dict[int, list[_Row]] = {}
        for row in rows:
            by_hour.setdefault(hour_of(row.t), []).append(row)
        for hour, found in by_hour.items():
            place = self.root.joinpath(*hour_parts(hour))
            try:
                make_directories(place)
                number = self._next_number(place, hour, kind)
            except OSError as err:
                raise StoreError(f'cannot write "{place}": {err.strerror}') from err
            write(found, place / file_name(kind, PART, number))
            self._numbers[hour, kind] = number

    def _next_number(self, place: Path, hour: int, kind: str) -> int:
        number = self._numbers.get((hour, kind))
        if number is None:
            self._numbers = {key: each for key, each in self._numbers.items() if abs(key[0] - hour) <= HOUR}
            number = held_files(os.listdir(place))[kind].number  # noqa: PTH208 - names alone are wanted
        return number + 1

    def maintain(self, now: float) -> tuple[StoreError, ...]:
        """Put hours that are over into one file each, sum them up, and remove what is older than it is to be kept.

        What cannot be done is returned, and tried again at the next time; everything else is done.
        """
        failed: list[StoreError] = []
        found = look(self.root)
        closed = [hour for hour in found.hours if hour + HOUR + sums.SETTLED <= now]
        for hour in closed:
            for kind in KINDS:
                try:
                    self._put_together(hour, kind, found)
                except StoreError as err:
                    failed.append(err)
        found = look(self.root)
        for hour in closed:
            for kind in KINDS:
                try:
                    self._sum_up(hour, kind, found)
                except StoreError as err:
                    failed.append(err)
        found = look(self.root)
        for day in found.days:
            if day + DAY + sums.SETTLED <= now:
                for kind in KINDS:
                    try:
                        self._sum_up_day(day, kind, found)
                    except StoreError as err:
                        failed.append(err)
        try:
            self._remove(now, look(self.root))
        except OSError as err:
            failed.append(StoreError(f'cannot remove "{err.filename}": {err.strerror}'))
        return tuple(failed)

    def _put_together(self, hour: int, kind: str, found: Look) -> None:
        held = found.hours[hour][kind]
        has_aged = held.whole is None and held.minutes is not None
        if held.parts and not has_aged:
            merge_to = self._path(hour, file_name(kind, WHOLE, held.number))
            sums.merge(kind, self._paths(hour, held.readings), merge_to)

    def _sum_up(self, hour: int, kind: str, found: Look) -> None:
        held = found.hours[hour][kind]
        done = 0 if held.minutes is None else held.minutes[0]
        if not held.readings or held.number <= done:
            return
        around = [each for each in (hour - HOUR, hour, hour + HOUR) if each in found.hours]
        sums.sum_minutes(
            kind,
            hour,
            self._path(hour, file_name(kind, MINUTES, held.number)),
            readings=[path for each in around for path in self._paths(each, found.hours[each][kind].readings)],
            samples=[path for each in around for path in self._paths(each, found.hours[each][SAMPLES].readings)],
            counters=self._counters,
            before=self._paths(hour, [held.minutes[1]]) if held.whole is None and held.minutes is not None else (),
        )

    def _sum_up_day(self, day: int, kind: str, found: Look) -> None:
        minutes = minutes_of_day(day, kind, found)
        held = found.days[day][kind].hours
        number = sum(each for each, _ in minutes.values())
        if number > (0 if held is None else held[0]):
            files = [self._path(hour, name) for hour, (_, name) in minutes.items()]
            sums.sum_hours(kind, files, self.root / day_name(day) / file_name(kind, HOURS, number))

    def _remove(self, now: float, found: Look) -> None:
        """What has become void, and what is too old and in coarser sums. Raises OSError."""
        for hour, kinds in found.hours.items():
            age = now - hour - HOUR
            for kind, held in kinds.items():
                names = list(held.void)
                is_summed = held.whole is not None and held.minutes is not None and held.minutes[0] >= held.whole[0]
                if held.whole is not None and is_summed and not held.parts and age > self._ages.readings:
                    names.append(held.whole[1])
                day = day_of(hour)
                hours = found.days[day][kind].hours
                total = sum(number for number, _ in minutes_of_day(day, kind, found).values())
                is_in_hours = hours is not None and hours[0] >= total and not held.readings
                if held.minutes is not None and is_in_hours and now - day - DAY > self._ages.minutes:
                    names.append(held.minutes[1])
                for name in names:
                    remove_file(self.root, *hour_parts(hour), name)
            if age > self._ages.readings:
                remove_empty(self.root, *hour_parts(hour))
        for day, kinds in found.days.items():
            for held in kinds.values():
                names = list(held.void)
                if held.hours is not None and now - day - DAY > self._ages.hours:
                    names.append(held.hours[1])
                for name in names:
                    remove_file(self.root, day_name(day), name)
            if now - day - DAY > self._ages.readings:
                remove_empty(self.root, day_name(day))

    def _path(self, hour: int, name: str) -> Path:
        return self.root.joinpath(*hour_parts(hour), name)

    def _paths(self, hour: int, names: Iterable[str]) -> list[Path]:
        return [self._path(hour, name) for name in names]


def minutes_of_day(day: int, kind: str, found: Look) -> dict[int, tuple[int, str]]:
    """Number and name of the minutes of each hour of a day, by its beginning."""
    hours = ((hour, found.hours.get(hour)) for hour in range(day, day + DAY, HOUR))
    held = {hour: kinds[kind] for hour, kinds in hours if kinds is not None}
    return {hour: each.minutes for hour, each in held.items() if each.minutes is not None}


@contextmanager
def open_folder(
    root: Path,
    mark: Mark,
    *,
    ages: Ages,
    counters: Iterable[tuple[str, float]],
    keep_free: int,
    places: Collection[str] = (),
) -> Iterator[WatchFolder]:
    """The folder for one writer, made where it is missing. ``places`` are other servers that it may be of, as the same
    connection string leads to them.

    Raises StoreError where another one writes, where it belongs to another server, or has files that are none of a
    watch.
    """
    try:
        make_directories(root)
        lock = os.fdopen(os.open(root / LOCK, _OPEN_LOCK, 0o600), "r+b", buffering=0)
    except OSError as err:
        raise StoreError(f'cannot write to the folder "{root}": {err.strerror}') from err
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                f'another pgtrial watches into "{root}"', hint="Name another folder with --output, or end that one."
            ) from None
        found = look(root)
        _check_mark(root, mark, places)
        for left in found.left_over:  # of a writer that was killed; from now on they are what this one is writing
            remove_tree(root, *left)
        folder = WatchFolder(root, ages=ages, counters=counters, keep_free=keep_free)
        folder.check_room()
        yield folder


def _check_mark(root: Path, mark: Mark, places: Collection[str]) -> None:
    try:
        there = (root / MARK).exists()
        if not there:
            content = {"format": FORMAT, "server": mark.server, "database": mark.database}
            write_file(root / MARK, json.dumps(content, indent=1) + "\n")
    except OSError as err:
        raise StoreError(f'cannot write to the folder "{root}": {err.strerror}') from err
    if there and (found := read_mark(root)) not in (
        mark,
        *(Mark(server=each, database=mark.database) for each in places),
    ):
        raise StoreError(
            f'"{root}" has what was read of database "{found.database}" at {found.server}',
            hint="Name another folder with --output: readings of two servers cannot be told apart.",
        )


def read_mark(root: Path) -> Mark:
    """What a folder is about. Raises StoreError where it is none of a watch."""
    try:
        found: object = parse_json(read_file(root / MARK, limit=_LARGEST_MARK))
    except (OSError, ValueError) as err:
        words = err.strerror if isinstance(err, OSError) else "it is damaged"
        raise StoreError(
            f'cannot read "{root / MARK}": {words}', hint='Name a folder that "pgtrial watch" has written.'
        ) from err
    if not isinstance(found, Mapping) or found.get("format") != FORMAT:
        raise StoreError(f'"{root / MARK}" is of a format that this pgtrial does not know')
    server, database = found.get("server"), found.get("database")
    if not isinstance(server, str) or not isinstance(database, str):
        raise StoreError(f'"{root / MARK}" is damaged')
    return Mark(server=server, database=database)
