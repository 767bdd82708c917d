"""What the comparison of two windows says, in sentences; each follows from an interval that excludes no difference.

What it *points to* is an expert's first guess from those sentences, with a code: nothing of it is proved, and a
question (``watch.question``) is made of it where a setting, an index or a script can answer it.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from pgtrial.collectors.sessions import shown_query
from pgtrial.report.words import part_name
from pgtrial.units import format_bytes, format_change, format_count, format_duration, format_share
from pgtrial.watch.compare import NAMED, OTHER_WAITS, OTHER_WORK, ComparedStatement, Comparison, Work
from pgtrial.watch.rows import Row
from pgtrial.watch.series import RUNNING

OBSERVATION = (
    "This is observation, not proof: the windows differ in all that was different between them, and not in one cause. "
    "What a change does, an experiment shows (pgtrial run)."
)
METHOD = (
    "Intervals: of means of minutes, or of parts of a minute in a window shorter than 36 minutes, whose dependence is "
    "told by their slow cosine waves (Lazarus et al. 2018), the two windows by Welch; those of a table hold together "
    "in 95 % of comparisons, and those from which sentences are made, of six tables, in 95 % as well. "
    '"*": the interval excludes no difference.'
)
NOTHING = "Nothing clearly differed: no interval of what sentences are made of excludes “no difference”."
LEAST_SHARE = 0.001  # of the time of all statements; what has less in both windows is not shown
_MOST_PARTS = 3
_PLAN = 2.0  # times the blocks; what data that grow take more is less
_ROUNDING = 1e-9
_LOCK = "Lock/"
_FILES, _TEMPORARY, _READS = "IO/", "IO/BufFile", ("IO/DataFileRead", "IO/DataFilePrefetch")
_FOR_OTHERS = "LWLock/WALWrite"  # who waits until another session has written and flushed the WAL
_IDLE = "sessions idle in a transaction"
_LONGEST = 100  # characters of a statement


class Suspicion(StrEnum):
    """What a comparison points to."""

    LOCKS = "locks"  # sessions wait for somebody who holds a lock
    SPILL = "spill"  # sorts and hashes go to temporary files
    ROWS = "rows"  # more rows are read for the same work: a plan, an index, the data
    PLAN = "plan"  # a statement reads more blocks for the same rows
    CACHE = "cache"  # more blocks come from outside shared buffers
    NEW_STATEMENT = "new-statement"
    CHECKPOINTS = "checkpoints"
    VACUUM = "vacuum"
    CPU = "cpu"  # of the machine: others use it, or the host takes it
    BLOAT = "bloat"  # more blocks are read for the same rows
    DISK = "disk"  # sessions wait longer for their files
    CONNECTIONS = "connections"  # more of them are opened
    SLOT = "slot"  # WAL that nobody fetches is kept for a replication slot
    LOAD = "load"  # there is more of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """``statement`` is the one that it is about, without literals, "" where it is about none."""

    code: Suspicion
    text: str
    statement: str = ""


def form(unit: str) -> Callable[[float], str]:
    forms: dict[str, Callable[[float], str]] = {
        "s": lambda value: format_duration(value) if value else "0 s",
        "B": format_bytes,
        "B/s": lambda value: f"{format_bytes(value)}/s",
        "1/s": lambda value: f"{format_count(value)}/s",
        "1/h": lambda value: f"{format_count(value)}/h",
        "share": lambda value: format_share(round(value, 4)),
    }
    return forms.get(unit, lambda value: f"{value:.3g}")


def signed(value: float, unit: str) -> str:
    text = form(unit)
    return f"−{text(-value)}" if value < 0 else f"+{text(value)}"


def cells(row: Row) -> tuple[str, str, str]:
    """Both values and the change between them."""
    values = ["–" if value is None else form(row.unit)(value) for value in (row.a, row.b)]
    return values[0], values[1], f"{change(row)} *" if row.is_sure else change(row)


def change(row: Row) -> str:
    if row.change is None:
        return "–"
    if not row.is_ratio and abs(row.change) < _ROUNDING * max(abs(row.a or 0.0), abs(row.b or 0.0)):
        return signed(0.0, row.unit)
    return format_change(row.change) if row.is_ratio else signed(row.change, row.unit)


def interval(row: Row) -> str:
    if row.low is None or row.high is None:
        return "not known"
    if row.is_ratio:
        return f"{format_change(row.low)} to {format_change(row.high)}"
    return f"{signed(row.low, row.unit)} to {signed(row.high, row.unit)}"


def wait_name(event: str) -> str:
    """A wait as the report names it."""
    if event in (RUNNING, OTHER_WAITS):
        return part_name(RUNNING) if event == RUNNING else event
    kind, _, name = event.partition("/")
    return part_name(kind, name)


def shown(query: str) -> str:
    """A statement on one line; a name that pgtrial gives stays as it is."""
    if query == OTHER_WORK:
        return query
    text = " ".join(query.split())
    return f"“{text[:_LONGEST]}{'…' if len(text) > _LONGEST else ''}”" if text else "statements that are not shown"


def windows_lines(found: Comparison) -> Iterator[str]:
    for name, window, covered in (("A", found.a, found.covered_a), ("B", found.b, found.covered_b)):
        gaps = "" if covered >= 1 else f", {format_share(covered)} of it read"
        yield f"{name}: {window} UTC, {format_duration(window.end - window.start)}{gaps}"


def sentences(found: Comparison) -> Iterator[str]:
    """What differed, most general first; one that says so where nothing did."""
    texts = list(_sentences(found))
    yield from texts or [NOTHING]


def _sentences(found: Comparison) -> Iterator[str]:
    total, *parts = found.latency
    commits = found.throughput[0]
    if commits.is_sure:
        yield f"Commits: {_from_to(commits)}: {change(commits)} ({interval(commits)})."
    if total.is_sure:
        text = f"A commit was at work for {_from_to(total)}: {change(total)} ({interval(total)})."
        lead = [row for row in parts if row.side == total.side and row.name != OTHER_WAITS]
        lead.sort(key=lambda row: -abs(row.change or 0.0))
        if lead:
            pieces = [f"{wait_name(row.name)} {change(row)} ({interval(row)})" for row in lead[:_MOST_PARTS]]
            text += f" Of that: {'; '.join(pieces)}."
        yield text
    for work in [each for each in found.work if each.sessions.is_sure and each.query != OTHER_WORK][:_MOST_PARTS]:
        yield f"Sessions at work on {shown(work.query)}: {_row(work.sessions)}."
    for block in [each for each in found.blocking if each.sessions.is_sure][:_MOST_PARTS]:
        who = f"{shown(block.waiting)} waited for {_holder(block.state, block.holder)}"
        yield f"Sessions in which {who}: {_row(block.sessions)}."
    for row in found.machine:
        if row.is_sure and row.name in NAMED:
            yield f"{row.name[0].upper()}{row.name[1:]}: {_row(row)}."


def _row(row: Row) -> str:
    return f"{_from_to(row)}: {change(row)} ({interval(row)})"


def _from_to(row: Row) -> str:
    values = cells(row)
    return f"{values[0]} → {values[1]}"


def _holder(state: str, holder: str) -> str:
    if not state:
        return "a session that was gone by then"
    return f"a session that was {state}, last with {shown(holder)}" if holder else f"a {state}"


def pointers(found: Comparison) -> tuple[Pointer, ...]:
    """What the differences point to, the most telling first."""
    return tuple(_pointers(found))


def _pointers(found: Comparison) -> Iterator[Pointer]:
    rows = {row.name: row for row in found.machine}
    machine = {name: row.side for name, row in rows.items()}
    grown = [each for each in found.work if each.sessions.side > 0 and each.query not in (OTHER_WORK, "")]
    for block in found.blocking:
        if block.sessions.side > 0:
            yield Pointer(
                code=Suspicion.LOCKS,
                text=f"A lock that is held too long: {shown(block.waiting)} waits for "
                f"{_holder(block.state, block.holder)}.",
                statement=block.waiting,
            )
            break
    new = [each for each in grown if _is_new(each, found)]
    for work in new:
        yield Pointer(
            code=Suspicion.NEW_STATEMENT,
            text=f"A statement that was not there before: {shown(work.query)}.",
            statement=work.query,
        )
    if machine.get("bytes of temporary files", 0) > 0:
        yield Pointer(
            code=Suspicion.SPILL,
            text=f"Sorts, hashes or other results that no longer fit into work_mem go to temporary files{_by(grown)}.",
            statement=_lead(grown),
        )
    known = [each for each in grown if each not in new and not each.wait.startswith(_LOCK)]
    if machine.get("rows read", 0) > 0 and found.throughput[0].side <= 0 and not new:
        yield Pointer(
            code=Suspicion.ROWS,
            text="More rows are read for the same work: a plan, an index or the data have changed" + _by(known) + ".",
            statement=_lead(known),
        )
    for statement in itertools.islice(filter(_has_other_plan, found.statements), _MOST_PARTS):
        yield Pointer(code=Suspicion.PLAN, text=_plan_text(statement), statement=shown_query(statement.query))
    if machine.get("blocks read", 0) > 0:
        yield Pointer(
            code=Suspicion.CACHE,
            text=f"Shared buffers have less of what is asked for{_by(known)}.",
            statement=_lead(known),
        )
    per_row = rows.get("blocks per row")
    if per_row is not None and (per_row.low or 0.0) > _PLAN and machine.get("rows read", 0) <= 0:
        yield Pointer(code=Suspicion.BLOAT, text=_bloat_text(per_row, found))
    if slow := _slow_files(found, reads_more=machine.get("blocks read", 0) > 0):
        yield Pointer(
            code=Suspicion.DISK,
            text=f"A commit waits longer for its files ({wait_name(slow.name)} {change(slow)}): the disk is slower or "
            "limited, or has more to do.",
        )
    if machine.get("growth of WAL that a replication slot holds", 0) > 0:
        yield Pointer(
            code=Suspicion.SLOT,
            text="WAL is kept for a replication slot, and more and more of it: who should read it is away or too slow.",
        )
    if machine.get("connections opened", 0) > 0:
        yield Pointer(
            code=Suspicion.CONNECTIONS,
            text=f"More connections are opened ({_from_to(rows['connections opened'])}): a pool has lost its own, or "
            "there is none.",
        )
    if machine.get("checkpoints by request", 0) > 0:
        yield Pointer(
            code=Suspicion.CHECKPOINTS, text="Checkpoints are asked for: max_wal_size is used up before their time."
        )
    for row in found.background:
        if row.side > 0 and row.name.startswith("autovacuum"):
            yield Pointer(code=Suspicion.VACUUM, text=f"Autovacuum was at work: {shown(row.name)}.")
            break
    if machine.get("CPU stolen by the host", 0) > 0:
        yield Pointer(code=Suspicion.CPU, text="The machine has less CPU: its host gives it to others.")
    elif machine.get("waiting for a CPU, of the server", 0) > 0 and machine.get("CPU of the server", 0) <= 0:
        yield Pointer(code=Suspicion.CPU, text="The server waits for CPUs that others on the machine use.")
    if found.throughput[0].side > 0:
        yield Pointer(code=Suspicion.LOAD, text="There was more to do: more commits.")


def _bloat_text(per_row: Row, found: Comparison) -> str:
    is_open = any(row.name == _IDLE and row.side > 0 for row in found.background)
    times, low, high = (format_count(each or 0.0) for each in (per_row.change, per_row.low, per_row.high))
    return (
        f"{times} times as many blocks are read for each row ({low} to {high}): dead rows lie between those that "
        "count, or another plan reads them"
        + ("; a transaction was left open, and what is deleted meanwhile cannot be removed." if is_open else ".")
    )


def _slow_files(found: Comparison, *, reads_more: bool) -> Row | None:
    """The wait for files that a commit has most more of, without temporary files, and without reads where more blocks
    are read: these have a reason of their own.
    """
    slow = [
        row
        for row in found.latency[1:]
        if row.side > 0
        and (row.name.startswith(_FILES) or row.name == _FOR_OTHERS)
        and not row.name.startswith(_TEMPORARY)
        and not (reads_more and row.name in _READS)
    ]
    return max(slow, key=lambda row: row.change or 0.0, default=None)


def _has_other_plan(statement: ComparedStatement) -> bool:
    """Whether it surely reads more than twice as many blocks as before per call, and also per row where it has any."""
    blocks, rows = statement.blocks, statement.rows
    if statement.share_b < LEAST_SHARE or blocks.low is None or blocks.low <= _PLAN:
        return False
    per_row = statement.blocks_per_row.low
    return rows.a == rows.b == 0 or (per_row is not None and per_row > _PLAN)


def _plan_text(statement: ComparedStatement) -> str:
    name = shown(shown_query(statement.query)) if statement.query else f"statement {statement.queryid}"
    row = statement.blocks
    blocks = [format_count(each or 0.0) for each in (row.change, row.low, row.high)]
    rows = [format_count(each or 0.0) for each in (statement.rows.a, statement.rows.b)]
    return (
        f"{name} reads {blocks[0]} times as many blocks per call ({blocks[1]} to {blocks[2]}), with "
        f"{rows[0]} → {rows[1]} rows per call: its plan has probably changed, or else its data, or the values that it "
        "is called with."
    )


def _is_new(work: Work, found: Comparison) -> bool:
    """Whether a statement was not sent in A, as far as is known: what is fast may just not have been polled."""
    if work.sessions.a or work.wait.startswith(_LOCK):
        return False
    return not any(each.calls.a and shown_query(each.query) == work.query for each in found.statements)


def _lead(works: "list[Work]") -> str:
    return works[0].query if works else ""


def _by(works: "list[Work]") -> str:
    """The statement with most of the growth, where one has it."""
    return f"; most sessions were added at work on {shown(works[0].query)}" if works else ""
