"""Facts in a log entry, as numbers in base units.

The messages are those of PostgreSQL 15 to 18 in English (vacuumlazy.c, analyze.c, pg_rusage.c, fd.c, proc.c,
postgres.c, fastpath.c). In another language two things are known all the same: errors by their SQLSTATE, and
checkpoints by what xlog.c says of them. The reason of one that begins is never translated, and the end has its numbers
in one order and form in all translations: buffers, their share, from 18 on SLRU buffers, three numbers of WAL files,
three times, a number of files, two times, two sizes in kB.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pgtrial.store.server_log.entry import LogEntry
from pgtrial.units import read_count

_CHECKPOINT_PROCESSES = ("", "checkpointer", "startup")


class LogEventKind(StrEnum):
    CHECKPOINT = "checkpoint"
    AUTOVACUUM = "autovacuum"
    AUTOANALYZE = "autoanalyze"
    TEMPORARY_FILE = "temporary file"
    LOCK_WAIT = "lock wait"
    DEADLOCK = "deadlock"
    SLOW_STATEMENT = "slow statement"
    ERROR = "error"
    OTHER_LANGUAGE = "not English"  # what it tells is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """``object``: table (database.schema.table), mode of a lock, SQLSTATE, reason of a checkpoint that begins.

    ``is_over`` is False for what goes on when it is logged: a checkpoint that begins, a session that still waits.
    ``pid`` is of the process that waits for a lock. ``text`` is the statement without its values, the lock, or the
    message of an error.
    """

    kind: LogEventKind
    object: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    text: str = ""
    is_over: bool = True
    pid: int | None = None


def read_fact(entry: LogEntry) -> Fact | None:
    """What an entry tells, None if nothing that is looked for."""
    if entry.is_error:
        state = entry.sqlstate or find_state(entry.message)
        kind = LogEventKind.DEADLOCK if state == "40P01" else LogEventKind.ERROR
        return Fact(kind=kind, object=state, text=entry.message.partition("\n")[0])
    for beginning, read in _BEGINNINGS.items():
        if entry.message.startswith(beginning):
            return read(entry.message)
    checkpoint = _read_checkpoint(entry.message) if entry.backend_type in _CHECKPOINT_PROCESSES else None
    if checkpoint is None and not entry.is_english:
        return Fact(kind=LogEventKind.OTHER_LANGUAGE)
    return checkpoint


# --- Checkpoints ----------------------------------------------------------------------------------------------------

_FLAGS = ("shutdown", "end-of-recovery", "immediate", "fast", "force", "wait", "wal", "time", "flush-all")
_START = re.compile(rf"[^\n]{{1,80}}?[:：]\s*(?P<flags>(?:{'|'.join(_FLAGS)})(?: (?:{'|'.join(_FLAGS)}))*)")
# Times have three digits behind the point, shares one.
_VALUE = re.compile(r"(?P<time>\d+[.,]\d{3}(?!\d))|(?P<share>\d+[.,]\d\s?%)|(?P<number>\d+)")
_END = re.compile(r"ns(?P<slru>n?)nnntttnttnn.*")
_ROUNDING = 0.01  # s; the parts are cut to milliseconds one by one


def is_timed(reason: str) -> bool:
    """Whether checkpoint_timeout was the reason; everything else was requested, by the amount of WAL or by somebody."""
    return "time" in reason.split()


def _read_checkpoint(message: str) -> Fact | None:
    numbers = read_end(message)
    if numbers is not None:
        return Fact(kind=LogEventKind.CHECKPOINT, numbers=numbers)
    match = _START.fullmatch(message)
    return None if match is None else Fact(kind=LogEventKind.CHECKPOINT, object=match["flags"], is_over=False)


def read_end(message: str) -> Mapping[str, float] | None:
    """Numbers of a finished checkpoint in base units, None if the message is not of one."""
    if "\n" in message:
        return None
    values = [(match.lastgroup or "", match[0]) for match in _VALUE.finditer(message)]
    shape = _END.fullmatch("".join(kind[0] for kind, _ in values))
    if shape is None:
        return None
    texts = iter(text for kind, text in values if kind != "share")
    numbers = {"buffers": float(next(texts))}
    if shape["slru"]:
        numbers["SLRU buffers"] = float(next(texts))
    for name in ("WAL files added", "WAL files removed", "WAL files recycled"):
        numbers[name] = float(next(texts))
    for name in ("write seconds", "sync seconds", "total seconds"):
        numbers[name] = float(next(texts).replace(",", "."))
    numbers["sync files"] = float(next(texts))
    longest, average = (float(next(texts).replace(",", ".")) for _ in range(2))
    numbers["distance bytes"] = float(next(texts)) * 1024
    parts = numbers["write seconds"] + numbers["sync seconds"]
    if parts > numbers["total seconds"] + _ROUNDING or average > longest:
        return None  # other numbers that happen to have the shape
    return numbers


# --- Vacuum and analyze ---------------------------------------------------------------------------------------------

_TABLES = {
    LogEventKind.AUTOVACUUM: re.compile(
        r'automatic (?:aggressive )?vacuum (?:to prevent wraparound )?of table "(?P<table>.*)": index scans: (?P<n>\d+)'
    ),
    LogEventKind.AUTOANALYZE: re.compile(r'automatic analyze of table "(?P<table>.*)"'),
}
# Further lines of both; some versions write none for analyze. Each group is a number of its name.
_DETAILS = (
    (re.compile(r"pages: (\d+) removed, \d+ remain, \d+ scanned .*"), ("pages removed",)),
    (
        re.compile(r"tuples: (\d+) removed, \d+ remain, (\d+) are dead but not yet removable"),
        ("tuples removed", "tuples not removable"),
    ),
    # 17 and newer say "reads".
    (
        re.compile(r"buffer usage: (\d+) hits, (\d+) (?:misses|reads), (\d+) dirtied"),
        ("blocks hit", "blocks read", "blocks dirtied"),
    ),
    # 18 has more at the end.
    (
        re.compile(r"WAL usage: (\d+) records, (\d+) full page images, (\d+) bytes.*"),
        ("WAL records", "WAL full page images", "WAL bytes"),
    ),
)
_SECONDS = r"(\d+\.\d\d) s"
_USAGE = re.compile(rf"CPU: user: {_SECONDS}, system: {_SECONDS}, elapsed: {_SECONDS}")


def _read_table(message: str) -> Fact | None:
    head, *lines = message.split("\n")
    for kind, pattern in _TABLES.items():
        if match := pattern.fullmatch(head):
            numbers = {"index scans": float(match["n"])} if kind is LogEventKind.AUTOVACUUM else {}
            for line in lines:
                numbers |= _read_detail(line)
            return Fact(kind=kind, object=match["table"], numbers=numbers)
    return None


def _read_detail(line: str) -> dict[str, float]:
    for pattern, names in _DETAILS:
        if match := pattern.fullmatch(line):
            return dict(zip(names, map(float, match.groups()), strict=True))
    if match := _USAGE.search(line):
        user, system, elapsed = map(float, match.groups())
        return {"CPU seconds": user + system, "seconds": elapsed}
    return {}


# --- Temporary files, locks, durations ------------------------------------------------------------------------------

_TEMPORARY_FILE = re.compile(r'temporary file: path ".*", size (?P<size>\d+)', re.DOTALL)
_LOCK_WAIT = re.compile(
    r"process (?P<pid>\d+) (?P<state>still waiting for|acquired|failed to acquire|avoided deadlock for|"
    r"detected deadlock while waiting for) (?P<mode>\w+) on (?P<target>.*?)(?: by rearranging queue order)? "
    r"after (?P<ms>\d+\.\d{3}) ms"
)
_DURATION = re.compile(
    r"duration: (?P<ms>\d+(?:\.\d+)?) ms(?P<what>  statement: |  (?:parse|bind|execute) [^:]*: |"
    r'  fastpath function call: "(?P<function>.*)" \(OID \d+\)$|$)(?P<statement>.*)',
    re.DOTALL,
)


def _read_temporary_file(message: str) -> Fact | None:
    match = _TEMPORARY_FILE.fullmatch(message)
    return None if match is None else Fact(kind=LogEventKind.TEMPORARY_FILE, numbers={"bytes": float(match["size"])})


def _read_lock_wait(message: str) -> Fact | None:
    match = _LOCK_WAIT.fullmatch(message)
    if match is None:
        return None
    return Fact(
        kind=LogEventKind.LOCK_WAIT,
        object=match["mode"],
        numbers={"seconds": float(match["ms"]) / 1000},
        text=f"{match['mode']} on {match['target']}",
        is_over=match["state"] != "still waiting for",
        pid=read_count(match["pid"]),
    )


def _read_duration(message: str) -> Fact | None:
    match = _DURATION.fullmatch(message)
    if match is None:
        return None
    text = replace_literals(match["function"] or match["statement"])
    return Fact(kind=LogEventKind.SLOW_STATEMENT, numbers={"seconds": float(match["ms"]) / 1000}, text=text)


def split_duration(message: str) -> tuple[str, str] | None:
    """A message about a duration as (what stands before the statement, the statement); None if it is none."""
    match = _DURATION.fullmatch(message)
    return None if match is None else (message[: match.start("statement")], match["statement"])


# Most entries of a busy log are none of these; each kind of message begins with its own words.
_BEGINNINGS: Mapping[str, Callable[[str], Fact | None]] = {
    "automatic ": _read_table,
    "temporary file": _read_temporary_file,
    "process ": _read_lock_wait,
    "duration: ": _read_duration,
}

# --- Errors ---------------------------------------------------------------------------------------------------------

# Errors that are known by their text, where the log has no SQLSTATE.
_STATES: Mapping[str, str] = {
    "deadlock detected": "40P01",
    "could not serialize access due to concurrent update": "40001",
    "could not serialize access due to concurrent delete": "40001",
    "could not serialize access due to read/write dependencies among transactions": "40001",
    "canceling statement due to statement timeout": "57014",
    "canceling statement due to lock timeout": "55P03",
    "canceling statement due to user request": "57014",
    "canceling autovacuum task": "57014",
    "terminating connection due to administrator command": "57P01",
    "sorry, too many clients already": "53300",
    "out of memory": "53200",
    "out of shared memory": "53200",
}
_STATES_BY_BEGINNING: Mapping[str, str] = {
    "duplicate key value violates unique constraint ": "23505",
    # Long before there are too many clients, for everybody but superusers; what follows differs by version.
    "remaining connection slots are reserved for ": "53300",
}


def find_state(message: str) -> str:
    """SQLSTATE of a frequent error by its English text, "" for others."""
    by_beginning = (state for text, state in _STATES_BY_BEGINNING.items() if message.startswith(text))
    return _STATES.get(message) or next(by_beginning, "")


# --- Texts without what users have put into them --------------------------------------------------------------------

# What a statement is made of. The first kind is the most frequent by far, and makes this quick; the last one is a
# character that begins none of the others after all. A text that was cut may end inside any of them.
_STATEMENT = re.compile(
    r"""
    [^"'$/\-0-9]+
    | (?P<name>"(?:[^"]|"")*(?:"|\Z))
    | (?P<value>
        (?<=\b[eE])'(?:[^'\\]|''|\\.)*(?:'|\Z)
        | '(?:[^']|'')*(?:'|\Z)
        | (?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?:(?P=tag)|\Z)
        | (?<![$\w])\d[\d.]*(?:[eE][+-]?\d+)?
    )
    | (?P<comment>/\*.*?(?:\*/|\Z) | --[^\n]*)
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r'["»«„“”「『].*?["«»“”」』]', re.DOTALL)


def replace_literals(statement: str) -> str:
    """The statement on one line, with "?" for strings and numbers and without comments; names stay."""

    def put(match: re.Match[str]) -> str:
        match match.lastgroup:
            case "value" | "tag":
                return "?"
            case "comment":
                return " "
        return match[0]

    return " ".join(_STATEMENT.sub(put, statement).split())


def replace_quoted(message: str) -> str:
    """The first line of a message with "?" for what stands in quotation marks of any kind, and for numbers."""
    first = message.partition("\n")[0]
    return re.sub(r"(?<!\w)\d[\d.]*", "?", _QUOTED.sub('"?"', first))
