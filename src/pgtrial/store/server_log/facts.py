"""What an entry of the log tells, as numbers in base units."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from pgtrial.store.server_log.checkpoints import find_reason, read_end
from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.formats import (
    AUTOANALYZE,
    AUTOVACUUM,
    DETAILS,
    DURATIONS,
    LOCK_OVER,
    LOCK_WAITING,
    STATES,
    TEMPORARY_FILE,
    UNITS,
    USAGE,
    Format,
)
from pgtrial.store.server_log.literals import replace_literals
from pgtrial.store.server_log.printf import compile_format

_CHECKPOINT_PROCESSES = ("", "checkpointer", "startup")


class Kind(StrEnum):
    CHECKPOINT = "checkpoint"
    AUTOVACUUM = "autovacuum"
    AUTOANALYZE = "autoanalyze"
    TEMPORARY_FILE = "temporary file"
    LOCK_WAIT = "lock wait"
    DEADLOCK = "deadlock"
    SLOW_STATEMENT = "slow statement"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """``object``: table (database.schema.table), mode of a lock, SQLSTATE, reason of a checkpoint that begins.

    ``is_over`` is False for what goes on when it is logged: a checkpoint that begins, a session that still waits.
    ``pid`` is of the process that waits for a lock. ``text`` is the statement without its values, the lock, or the
    message of an error.
    """

    kind: Kind
    object: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    text: str = ""
    is_over: bool = True
    pid: int | None = None


class _Pattern(NamedTuple):
    pattern: re.Pattern[str]
    names: tuple[str, ...]

    def numbers(self, match: re.Match[str]) -> dict[str, float]:
        found: dict[str, float] = {}
        for i, full_name in enumerate(self.names, start=1):
            name, is_number, unit = full_name.partition("/")
            if is_number:
                found[name] = found.get(name, 0.0) + float(match[f"v{i}"].replace(",", ".")) * UNITS[unit]
        return found

    def text(self, match: re.Match[str], name: str) -> str:
        return match[f"v{self.names.index(name) + 1}"] if name in self.names else ""


@cache
def _compiled(formats: tuple[Format, ...]) -> tuple[_Pattern, ...]:
    """Not when the module is loaded: that would take longer than most logs do."""
    return tuple(_Pattern(_with_numbers(compile_format(each.text), each.names), each.names) for each in formats)


def _with_numbers(pattern: re.Pattern[str], names: Sequence[str]) -> re.Pattern[str]:
    """The same pattern, in which a text that stands for a number ("duration: %s ms") is one."""
    text = pattern.pattern
    for i, name in enumerate(names, start=1):
        if "/" in name:
            text = text.replace(f"(?P<v{i}>.*?)", rf"(?P<v{i}>\d+(?:[.,]\d+)?)")
    return re.compile(text, pattern.flags)


_TABLES = {Kind.AUTOVACUUM: AUTOVACUUM, Kind.AUTOANALYZE: AUTOANALYZE}


@cache
def _states() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((compile_format(text), state) for text, state in STATES.items())


def read_fact(entry: LogEntry) -> Fact | None:
    """What an entry tells, None if nothing that is looked for. Messages have to be in English, but for checkpoints."""
    if entry.is_error:
        state = entry.sqlstate or find_state(entry.message)
        kind = Kind.DEADLOCK if state == "40P01" else Kind.ERROR
        return Fact(kind=kind, object=state, text=entry.message.partition("\n")[0])
    for beginning, read in _BEGINNINGS.items():
        if entry.message.startswith(beginning):
            return read(entry.message)
    return _read_checkpoint(entry.message) if entry.backend_type in _CHECKPOINT_PROCESSES else None


def find_state(message: str) -> str:
    """SQLSTATE of a frequent error by its English text, "" for others."""
    return next((state for pattern, state in _states() if pattern.fullmatch(message)), "")


def split_duration(message: str) -> tuple[str, str] | None:
    """A message about a duration as (what stands before the statement, the statement); None if it is none."""
    for pattern in _compiled(DURATIONS):
        if match := pattern.pattern.fullmatch(message):
            statement = pattern.text(match, "statement")
            return message.removesuffix(statement), statement
    return None


def _read_checkpoint(message: str) -> Fact | None:
    numbers = read_end(message)
    if numbers is not None:
        return Fact(kind=Kind.CHECKPOINT, numbers=numbers)
    reason = find_reason(message)
    return None if reason is None else Fact(kind=Kind.CHECKPOINT, object=reason, is_over=False)


def _read_table(message: str) -> Fact | None:
    head, *lines = message.split("\n")
    (usage,) = _compiled((USAGE,))
    for kind, formats in _TABLES.items():
        for pattern in _compiled(formats):
            if match := pattern.pattern.fullmatch(head):
                numbers = pattern.numbers(match)
                for line in lines:
                    for detail in _compiled(DETAILS):
                        if found := detail.pattern.fullmatch(line):
                            numbers |= detail.numbers(found)
                    if found := usage.pattern.search(line):
                        numbers |= usage.numbers(found)
                table = ".".join(pattern.text(match, name) for name in ("database", "schema", "table"))
                return Fact(kind=kind, object=table, numbers=numbers)
    return None


def _read_temporary_file(message: str) -> Fact | None:
    (pattern,) = _compiled((TEMPORARY_FILE,))
    match = pattern.pattern.fullmatch(message)
    return None if match is None else Fact(kind=Kind.TEMPORARY_FILE, numbers=pattern.numbers(match))


def _read_lock_wait(message: str) -> Fact | None:
    (waiting,) = _compiled((LOCK_WAITING,))
    for pattern in (waiting, *_compiled(LOCK_OVER)):
        if match := pattern.pattern.fullmatch(message):
            mode, target = pattern.text(match, "mode"), pattern.text(match, "target")
            return Fact(
                kind=Kind.LOCK_WAIT,
                object=mode,
                numbers=pattern.numbers(match),
                text=f"{mode} on {target}",
                is_over=pattern is not waiting,
                pid=int(pattern.text(match, "pid")),
            )
    return None


def _read_duration(message: str) -> Fact | None:
    for pattern in _compiled(DURATIONS):
        if match := pattern.pattern.fullmatch(message):
            text = replace_literals(pattern.text(match, "statement"))
            return Fact(kind=Kind.SLOW_STATEMENT, numbers=pattern.numbers(match), text=text)
    return None


# Most entries of a busy log are none of these; each kind of message begins with its own words.
_BEGINNINGS: Mapping[str, Callable[[str], Fact | None]] = {
    "automatic ": _read_table,
    "temporary file": _read_temporary_file,
    "process ": _read_lock_wait,
    "duration: ": _read_duration,
}
