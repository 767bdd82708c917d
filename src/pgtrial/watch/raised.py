"""Alarms that were raised, and how they are kept in the folder of a watch.

What they were found from ages, and the calm time moves with it; the contract is about all of them, for as long as the
server is watched. So an alarm that was raised stays as it was, and time that has been gone through is not gone through
again.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pgtrial.errors import StoreError
from pgtrial.safe_files import read_file, write_file
from pgtrial.safe_text import parse_json
from pgtrial.stats.alarms.blocks import Aspect
from pgtrial.watch.layout import DAY, HOUR, RAISED

SETTLING = HOUR  # s before the end of what was read, in which minutes may still be others by the next time
_SAME = HOUR  # s between two alarms
_LARGEST = 1 << 24  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """What changed: an ``aspect`` of a signal, or the share of a ``part`` of a mix, since ``onset``, seconds since the
    epoch.

    ``size``, with its 95 % interval, is the ratio to what it was, of both with their background (``watch.quotients``);
    of a share that of its ratio to the geometric mean of the others; of a spread that of the mean difference between
    neighbouring minutes.
    """

    signal: str
    part: str
    text: str
    aspect: Aspect
    is_more: bool
    size: float
    low: float
    high: float
    onset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAlarm:
    """Raised at ``at``, seconds since the epoch; the first of the shifts has the most evidence."""

    at: int
    shifts: tuple[Shift, ...]

    @property
    def onset(self) -> int:
        return self.shifts[0].onset


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Alarms since ``since``, of a time that was gone through until ``until``, seconds since the epoch; ``days`` of it
    were read.
    """

    since: int
    until: int
    days: float
    alarms: tuple[ServerAlarm, ...]

    def with_new(self, found: Iterable[ServerAlarm]) -> tuple[ServerAlarm, ...]:
        """Its alarms, and those of ``found`` after its time. After an alarm comes none for an hour, so one that is
        nearer to one that is kept is the same, found again from minutes that were not whole then.
        """
        new = (each for each in found if each.at > self.until)
        return (
            *self.alarms,
            *(each for each in new if all(abs(each.at - kept.at) > _SAME for kept in self.alarms)),
        )

    def cut(self, end: int) -> "Kept | None":
        """What it has of the time until ``end``, of which no more was read than there is; None where it is later."""
        if self.since > end:
            return None
        alarms = tuple(each for each in self.alarms if each.at <= end)
        return Kept(since=self.since, until=end, days=min(self.days, (end - self.since) / DAY), alarms=alarms)


def read_kept(root: Path, one_in: float) -> Kept | None:
    """What was kept of a contract of one false alarm in so many days; None where nothing was, or where another user has
    kept it, whose file ``keep`` leaves as it is. Raises StoreError.
    """
    try:
        found = _read(root).get(f"{one_in:g}")
    except PermissionError:
        return None
    if found is None:
        return None
    try:
        kept = _kept(found)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        raise _damaged(root) from None
    return kept


def keep(root: Path, kept: Kept, one_in: float) -> None:
    """Keep alarms in place of those that were kept of the same contract. Raises StoreError."""
    try:
        content = {**_read(root), f"{one_in:g}": asdict(kept)}
        write_file(root / RAISED, json.dumps(content, ensure_ascii=False) + "\n", for_owner=True)
    except OSError as err:
        raise StoreError(
            f'cannot write "{root / RAISED}": {err.strerror}', hint="Run it as the user who watches."
        ) from err


def _read(root: Path) -> Mapping[str, Any]:
    """Raises StoreError where it is damaged, PermissionError where it is another user's."""
    try:
        found: object = parse_json(read_file(root / RAISED, limit=_LARGEST))
    except FileNotFoundError:
        return {}
    except PermissionError:
        raise
    except (OSError, ValueError) as err:
        raise _damaged(root) from err
    if not isinstance(found, dict):
        raise _damaged(root)
    return found


def _damaged(root: Path) -> StoreError:
    return StoreError(
        f'"{root / RAISED}" cannot be read, or is damaged',
        hint="Remove it: alarms of the time that is still there are found anew.",
    )


def _kept(found: Mapping[str, Any]) -> Kept:
    """ValueError, TypeError, KeyError and the like for what ``keep`` has not written."""
    since, until, days = int(found["since"]), int(found["until"]), float(found["days"])
    if not (0 <= since <= until and math.isfinite(days) and days >= 0):
        raise ValueError("no time")
    return Kept(since=since, until=until, days=days, alarms=tuple(_alarm(each) for each in found["alarms"]))


def _alarm(found: Mapping[str, Any]) -> ServerAlarm:
    shifts = tuple(_shift(each) for each in found["shifts"])
    if not shifts:
        raise ValueError("an alarm about nothing")
    return ServerAlarm(at=int(found["at"]), shifts=shifts)


def _shift(found: Mapping[str, Any]) -> Shift:
    values = {each.name: found[each.name] for each in fields(Shift)}
    for name in ("signal", "part", "text"):
        if not isinstance(values[name], str):
            raise TypeError("no text")
    numbers = {name: float(values[name]) for name in ("size", "low", "high")}
    if not all(math.isfinite(each) and each >= 0 for each in numbers.values()):
        raise ValueError("no ratio")
    is_more, onset = bool(values["is_more"]), int(values["onset"])
    return Shift(**(values | numbers | {"aspect": Aspect(values["aspect"]), "is_more": is_more, "onset": onset}))
