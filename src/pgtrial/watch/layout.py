"""The names in the folder of a watch, and which of the files that lie side by side count.

::

    watch.json                                    what is watched
    watch.lock                                    held by the watch that writes
    posted.json                                   the newest alarm that each webhook has got
    alarms.json                                   alarms that were raised
    2026-11-28/                                   a day, UTC
        samples-hours-000812.parquet              its hours
        05/                                       one hour of it
            samples-part-000013.parquet           some seconds, as they were read
            samples-000012.parquet                the parts up to number 12 in one file
            samples-minutes-000012.parquet        its minutes, from those parts

The same of waits and of statements. A number says which parts a file has in it, so one that takes its name makes what
it replaces void in the same moment: whoever is killed before those are removed has left nothing that counts twice.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from pgtrial.errors import StoreError

MARK, LOCK, POSTED, RAISED = "watch.json", "watch.lock", "posted.json", "alarms.json"
SAMPLES, WAITS, STATEMENTS = "samples", "waits", "statements"
KINDS = (SAMPLES, WAITS, STATEMENTS)
PART, WHOLE, MINUTES, HOURS = "part", "", "minutes", "hours"
MINUTE, HOUR, DAY = 60, 3600, 86400  # s

_FILE = re.compile(rf"(?P<kind>{'|'.join(KINDS)})-(?:(?P<form>part|minutes|hours)-)?(?P<number>\d{{6,12}})\.parquet")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_HOUR = re.compile(r"[01]\d|2[0-3]")
_LEFT_OVER = re.compile(
    r"\.(?:watch|posted|alarms|samples|waits|statements)\b.*-[0-9a-f]{16}"
)  # by a watch that was killed


_Given = ParamSpec("_Given")
_Read = TypeVar("_Read")


def retry_once(read: Callable[_Given, _Read]) -> Callable[_Given, _Read]:
    """Have ``read`` try again after a StoreError: a watch may just have put an hour's files together."""

    @wraps(read)
    def twice(*args: _Given.args, **kwargs: _Given.kwargs) -> _Read:
        try:
            return read(*args, **kwargs)
        except StoreError:
            return read(*args, **kwargs)

    return twice


def file_name(kind: str, form: str, number: int) -> str:
    return f"{kind}-{form}-{number:06}.parquet" if form else f"{kind}-{number:06}.parquet"


def day_name(start: int) -> str:
    """Of the day that has the hour, or begins, at ``start`` (seconds since the epoch)."""
    return datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%d")


def hour_parts(start: int) -> tuple[str, str]:
    """The directories of the hour that begins at ``start`` (seconds since the epoch)."""
    return day_name(start), datetime.fromtimestamp(start, UTC).strftime("%H")


def hour_of(t: float) -> int:
    return int(t // HOUR) * HOUR


def day_of(t: float) -> int:
    return int(t // DAY) * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Files of one kind in one directory: number to name by form, and what has become void.

    ``parts`` are those that no whole has in it yet.
    """

    parts: Mapping[int, str] = field(default_factory=dict)
    whole: tuple[int, str] | None = None
    minutes: tuple[int, str] | None = None
    hours: tuple[int, str] | None = None
    void: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """Of the newest part that was written there; 0 where none was."""
        known = [found[0] for found in (self.whole, self.minutes) if found is not None]
        return max([*self.parts, *known], default=0)

    @property
    def readings(self) -> tuple[str, ...]:
        """Names of the files that together have each reading once."""
        return (*([] if self.whole is None else [self.whole[1]]), *self.parts.values())


def held_files(names: Iterable[str]) -> dict[str, Held]:
    """What counts of each kind in a directory with these names; other names are left out."""
    found: dict[tuple[str, str], dict[int, str]] = {}
    for name in names:
        if match := _FILE.fullmatch(name):
            found.setdefault((match["kind"], match["form"] or WHOLE), {})[int(match["number"])] = name
    return {
        kind: _held({form: found.get((kind, form), {}) for form in (PART, WHOLE, MINUTES, HOURS)}) for kind in KINDS
    }


def _held(found: Mapping[str, Mapping[int, str]]) -> Held:
    newest = {form: max(found[form].items(), default=None) for form in (WHOLE, MINUTES, HOURS)}
    # Minutes outlast the readings that they were made of. What comes afterwards, by a clock that was set back, is new.
    summed = newest[WHOLE] or newest[MINUTES]
    until = 0 if summed is None else summed[0]
    return Held(
        parts=dict(sorted((number, name) for number, name in found[PART].items() if number > until)),
        whole=newest[WHOLE],
        minutes=newest[MINUTES],
        hours=newest[HOURS],
        void=(
            *(name for number, name in found[PART].items() if number <= until),
            *(name for form, last in newest.items() for each, name in found[form].items() if last and each < last[0]),
        ),
    )


@dataclass(frozen=True, slots=True)
class Look:
    """What a folder has: files by the beginning of each hour and of each day, in order; and what a kill left over."""

    hours: Mapping[int, Mapping[str, Held]]
    days: Mapping[int, Mapping[str, Held]]
    left_over: tuple[tuple[str, ...], ...] = ()


def look(root: Path, *, start: float = 0.0, end: float = float("inf")) -> Look:
    """The files of a folder from the hour of ``start`` to ``end``, by their names alone.

    Raises StoreError for the first name that is no file of a watch, and where the folder cannot be read.
    """
    hours: dict[int, Mapping[str, Held]] = {}
    days: dict[int, Mapping[str, Held]] = {}
    left: list[tuple[str, ...]] = []
    for day in _names(root, ()):
        if _LEFT_OVER.fullmatch(day):
            left.append((day,))
        elif day not in (MARK, LOCK, POSTED, RAISED):
            first = _day_start(root, day)
            if first + DAY <= start or first >= end:
                continue
            names = _names(root, (day,))
            left += [(day, name) for name in names if _LEFT_OVER.fullmatch(name)]
            inner = [name for name in names if _HOUR.fullmatch(name)]
            files = [name for name in names if name not in inner and not _LEFT_OVER.fullmatch(name)]
            _refuse_foreign(root, (day,), files, forms=(HOURS,))
            days[first] = held_files(files)
            for hour in inner:
                at = first + int(hour) * HOUR
                if at + HOUR <= start or at >= end:
                    continue
                names = _names(root, (day, hour))
                left += [(day, hour, name) for name in names if _LEFT_OVER.fullmatch(name)]
                files = [name for name in names if not _LEFT_OVER.fullmatch(name)]
                _refuse_foreign(root, (day, hour), files, forms=(PART, WHOLE, MINUTES))
                hours[at] = held_files(files)
    return Look(dict(sorted(hours.items())), dict(sorted(days.items())), tuple(left))


def _day_start(root: Path, name: str) -> int:
    try:
        if _DAY.fullmatch(name):
            return int(datetime.strptime(name, "%Y-%m-%d").replace(tzinfo=UTC).timestamp())
    except ValueError:
        pass
    raise _foreign(root / name)


def _names(root: Path, parts: tuple[str, ...]) -> list[str]:
    place = root.joinpath(*parts)
    try:
        if parts and place.is_symlink():
            raise _foreign(place)
        return sorted(os.listdir(place))  # noqa: PTH208 - names alone are wanted
    except NotADirectoryError:
        raise _foreign(place) from None
    except OSError as err:
        raise StoreError(f'cannot read "{place}": {err.strerror}') from err


def _refuse_foreign(root: Path, parts: tuple[str, ...], names: Iterable[str], *, forms: tuple[str, ...]) -> None:
    for name in names:
        match = _FILE.fullmatch(name)
        path = root.joinpath(*parts, name)
        if match is None or (match["form"] or WHOLE) not in forms or path.is_symlink() or not path.is_file():
            raise _foreign(path)


def _foreign(path: Path) -> StoreError:
    return StoreError(f'"{path}" is no file of a watch', hint="Move it away; nothing of it has been read.")
