"""Combine entries of a run's log into events: some are logged both at their start and at their end."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pgtrial.findings.message import Message, message, verbatim
from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.facts import Fact, LogEventKind, is_timed, read_fact

TEXT_LENGTH = 240
SEPARATE = 2000  # events of a kind in a run that are kept one by one; what comes after is added up by second
# Beyond that nothing is told apart: a log may be made to have another name in each line. No server has so much at once.
_MOST_SUMS = 3000  # of a run
_MOST_WAITING = 3000  # sessions
_MOST_WAITS = 3  # of a session, which waits for one lock at a time
TIMED, REQUESTED = "timed", "requested"  # numbers of checkpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """Something that a server's log tells of; times in seconds since the epoch, both the same for a moment.

    ``object`` is the table (schema.table, with its database where that is not the load's), the mode of a lock, the
    SQLSTATE of an error, else "". ``numbers`` are in base units; of several events, ``count``, they are sums. ``text``
    is the statement, the lock or the message of an error as it was logged, and may hold whatever a session has sent.
    """

    run: int
    start: float
    end: float
    kind: str
    object: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    text: str = ""
    description: Message | None = None
    count: int = 1


def pair_entries(run: int, entries: Iterable[LogEntry], *, is_own: Callable[[str], bool]) -> Iterator[LogEvent]:
    """Events of a run in the order in which they are known to be over. ``is_own`` knows the load's database.

    A checkpoint or a wait for a lock whose end is not in the log lasts until the log's last entry, or that session's
    next error, which is the end of its waiting.
    """
    checkpoint: tuple[float, str] | None = None  # start, reason
    waiting: dict[int | None, dict[str, LogEvent]] = {}
    last = 0.0
    for entry in entries:
        last = entry.t
        fact = read_fact(entry)
        if fact is None:
            continue
        match fact.kind:
            case LogEventKind.CHECKPOINT if not fact.is_over:
                checkpoint = (entry.t, fact.object)
            case LogEventKind.CHECKPOINT:
                start, reason = checkpoint or (entry.t - fact.numbers["total seconds"], "")
                checkpoint = None
                yield _checkpoint(run, start, entry.t, reason=reason, numbers=fact.numbers)
            case LogEventKind.LOCK_WAIT:
                wait = _event(run, entry, fact, is_own)
                if fact.is_over:
                    waiting.get(fact.pid, {}).pop(wait.text, None)
                    yield wait
                    continue
                of_session = waiting.setdefault(fact.pid, {})
                of_session[wait.text] = wait
                if len(of_session) > _MOST_WAITS:
                    yield _prolonged(of_session.pop(next(iter(of_session))), entry.t)
                if len(waiting) > _MOST_WAITING:
                    yield from (_prolonged(one, entry.t) for one in waiting.pop(next(iter(waiting))).values())
            case LogEventKind.ERROR | LogEventKind.DEADLOCK:
                if entry.pid is not None:
                    yield from (_prolonged(one, entry.t) for one in waiting.pop(entry.pid, {}).values())
                yield _event(run, entry, fact, is_own)
            case _:
                yield _event(run, entry, fact, is_own)
    if checkpoint is not None:
        yield _checkpoint(run, checkpoint[0], last, reason=checkpoint[1], numbers={})
    for of_session in waiting.values():
        yield from (_prolonged(wait, last) for wait in of_session.values())


def add_up(events: Iterable[LogEvent]) -> tuple[LogEvent, ...]:
    """The events of a run by their start; from the 2001st of a kind on, those of a kind, object and second are one."""
    seen: dict[str, int] = {}
    separate: list[LogEvent] = []
    sums: dict[tuple[str, str, int], LogEvent] = {}
    for event in events:
        seen[event.kind] = seen.get(event.kind, 0) + 1
        if seen[event.kind] <= SEPARATE:
            separate.append(event)
            continue
        key = (event.kind, event.object, int(event.end))
        if key not in sums and len(sums) >= _MOST_SUMS:
            key = (event.kind, "", 0)
        sums[key] = _sum(sums[key], event) if key in sums else replace(event, object=key[1])
    return tuple(sorted((*separate, *sums.values()), key=lambda event: event.start))


def _sum(first: LogEvent, second: LogEvent) -> LogEvent:
    return replace(
        first,
        start=min(first.start, second.start),
        end=max(first.end, second.end),
        numbers=add_numbers(first.numbers, second.numbers),
        count=first.count + second.count,
    )


def add_numbers(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in (*first, *second)}


def _checkpoint(run: int, start: float, end: float, *, reason: str, numbers: Mapping[str, float]) -> LogEvent:
    parts: list[Message] = []
    if reason:
        asked = TIMED if is_timed(reason) else REQUESTED
        numbers = {asked: 1.0, **numbers}
        parts.append(
            message("log-event.requested", reason=reason) if asked == REQUESTED else message("log-event.timed")
        )
    if "buffers" in numbers:
        parts.append(message("log-event.buffers", number=numbers["buffers"]))
        parts.append(message("log-event.writing", time=numbers["write seconds"]))
        parts.append(message("log-event.syncing", time=numbers["sync seconds"]))
        parts.append(message("log-event.distance", bytes=numbers["distance bytes"]))
    else:
        parts.append(message("log-event.not-over"))
    return LogEvent(
        run=run,
        start=start,
        end=end,
        kind=LogEventKind.CHECKPOINT.value,
        numbers=numbers,
        description=message("log-event", parts=tuple(parts)),
    )


def _event(run: int, entry: LogEntry, fact: Fact, is_own: Callable[[str], bool]) -> LogEvent:
    """An event that ends when it is logged, and began as many seconds before as it says that it took."""
    about, text = fact.object[:TEXT_LENGTH], fact.text[:TEXT_LENGTH]
    seconds = fact.numbers.get("seconds", 0.0)
    description = verbatim(text) if text else None
    match fact.kind:
        case LogEventKind.AUTOVACUUM | LogEventKind.AUTOANALYZE:
            database, _, table = about.partition(".")
            about = table if is_own(database) else about
            took = message("log-event.duration", time=seconds)
            description = message("log-event", parts=(about, took, *_removed(fact.numbers)))
        case LogEventKind.TEMPORARY_FILE:
            description = message("log-event.size", bytes=fact.numbers["bytes"])
        case LogEventKind.LOCK_WAIT | LogEventKind.SLOW_STATEMENT:
            description = (
                message("log-event.took", time=seconds, what=text)
                if text
                else message("log-event.duration", time=seconds)
            )
    return LogEvent(
        run=run,
        start=entry.t - seconds,
        end=entry.t,
        kind=fact.kind.value,
        object=about,
        numbers=fact.numbers,
        text=text,
        description=description,
    )


def _removed(numbers: Mapping[str, float]) -> Iterator[Message]:
    if numbers.get("tuples removed"):
        yield message("log-event.tuples-removed", number=numbers["tuples removed"])
    if numbers.get("pages removed"):
        yield message("log-event.pages-removed", number=numbers["pages removed"])


def _prolonged(wait: LogEvent, end: float) -> LogEvent:
    """A wait for a lock that went on after it was logged."""
    end = max(end, wait.end)
    return replace(wait, end=end, numbers={**wait.numbers, "seconds": end - wait.start})
