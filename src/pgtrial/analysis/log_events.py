"""Server log events in the measured time: events, sums by arm, and marks for the time axis of a run."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.log_pairing import REQUESTED, TIMED, LogEvent, add_numbers, add_up, pair_entries
from pgtrial.analysis.reduction import sum_by_key
from pgtrial.analysis.slices import stretches, windows
from pgtrial.findings.message import Message, message, verbatim
from pgtrial.findings.over_time import LogSummary, Mark
from pgtrial.model.run import RunRow
from pgtrial.safe_files import is_plain
from pgtrial.store import layout
from pgtrial.store.server_log.entry import LogEntry, find_zone
from pgtrial.store.server_log.facts import LogEventKind
from pgtrial.store.server_log.stored import read_log

MOST_MARKS = 300  # of a run
_NAMED = 5  # tables, locks that a summary names
_OWN = r"pgtrial(?:_[0-9a-f]+)?"  # the load's database, in a cluster of pgtrial's and on an existing server
_BY_OBJECT = (LogEventKind.AUTOVACUUM, LogEventKind.AUTOANALYZE, LogEventKind.LOCK_WAIT)

__all__ = ["LogEvent", "mark_events", "read_log_events", "summarize_log"]


def read_log_events(evidence: Evidence) -> tuple[LogEvent, ...] | None:
    """Events of the valid runs by run and start, also from before and after their measured time; None where no run has
    a log. Raises StoreError.
    """
    events: list[LogEvent] = []
    is_there = False
    for run in evidence.valid:
        path = layout.run_folder(evidence.folder, run.folder) / layout.SERVER_LOG
        if is_plain(path):
            is_there = True
            zone = find_zone(evidence.settings.get(run.id, {}).get("log_timezone", ("UTC", ""))[0])
            entries = _our_time(evidence, run, read_log(path, zone))
            events += add_up(pair_entries(run.id, entries, is_own=partial(_is_own, evidence)))
    return tuple(events) if is_there else None


def _is_own(evidence: Evidence, database: str) -> bool:
    return database == evidence.experiment.target.database or re.fullmatch(_OWN, database) is not None


def _our_time(evidence: Evidence, run: RunRow, entries: Iterator[LogEntry]) -> Iterator[LogEntry]:
    """Entries with times by pgtrial's clock: the log of a cluster on another machine is kept as it was written."""
    ahead = _ahead(evidence, run)
    return (replace(entry, t=entry.t - ahead) for entry in entries) if ahead else entries


def _ahead(evidence: Evidence, run: RunRow) -> float:
    """Seconds by which the clock of the log is ahead of ours, as measured before and after the load."""
    if evidence.experiment.target.kind == "server":
        return 0.0  # times were put right when the log was read
    clocks = [event.data.get("ahead") for event in evidence.events if event.run == run.id and event.kind == "clock"]
    values = [float(value) for clock in clocks if isinstance(clock, list) for value in clock]
    return sum(values) / len(values) if values else 0.0


def summarize_log(evidence: Evidence, events: Sequence[LogEvent]) -> tuple[LogSummary, ...]:
    """By arm and kind, what overlaps the measured time of its valid runs; errors by their SQLSTATE."""
    summaries = []
    for arm in evidence.arms:
        mine: dict[str, list[LogEvent]] = {}
        for run in evidence.runs_of(arm.name):
            for event in _measured(run, events):
                mine.setdefault(_name(event), []).append(event)
        for name in sorted(mine):
            numbers: dict[str, float] = {}
            for event in mine[name]:
                numbers = add_numbers(numbers, event.numbers)
            summaries.append(
                LogSummary(
                    arm=arm.name,
                    kind=name,
                    count=sum(event.count for event in mine[name]),
                    numbers=numbers,
                    text=_describe(mine[name], numbers),
                )
            )
    return tuple(summaries)


def mark_events(evidence: Evidence, events: Sequence[LogEvent]) -> tuple[Mark, ...]:
    """Events that overlap the measured time, in seconds since the first measured second of their run.

    At most 300 of a run, the longest. Runs of slices have none: their time axis is the arm's own time.
    """
    marks: list[Mark] = []
    for run in evidence.valid:
        if run.slices or not windows(run):
            continue
        begun = windows(run)[0].started
        longest = sorted(_measured(run, events), key=lambda event: event.start - event.end)[:MOST_MARKS]
        marks += [
            Mark(run=run.id, start=event.start - begun, end=event.end - begun, kind=_name(event), text=_tell(event))
            for event in sorted(longest, key=lambda event: event.start)
        ]
    return tuple(marks)


def _measured(run: RunRow, events: Sequence[LogEvent]) -> Iterator[LogEvent]:
    """The events of a run that overlap its measured time."""
    spans = [(span.started, span.ended) for span in (stretches(run) if run.slices else windows(run))]
    for event in events:
        if event.run == run.id and any(event.start < ended and event.end >= started for started, ended in spans):
            yield event


def _name(event: LogEvent) -> str:
    return f"{event.kind} {event.object}".strip() if event.kind == LogEventKind.ERROR else event.kind


def _tell(event: LogEvent) -> Message | None:
    if event.count == 1 or event.description is None:
        return event.description
    return message("log-event.several", count=event.count, event=event.description)


def _describe(events: Sequence[LogEvent], numbers: Mapping[str, float]) -> Message | None:
    """What the sums do not say: how many were timed, which tables, the most frequent message."""
    kind = events[0].kind
    if kind == LogEventKind.CHECKPOINT:
        timed, requested = (int(numbers.get(name, 0.0)) for name in (TIMED, REQUESTED))
        if timed and requested:
            return message("log-summary.checkpoints", timed=timed, requested=requested)
        if timed:
            return message("log-summary.all-timed")
        return message("log-summary.all-requested") if requested else None
    if kind == LogEventKind.TEMPORARY_FILE:
        return message("log-summary.size", bytes=numbers["bytes"] / sum(event.count for event in events))
    if kind in _BY_OBJECT:
        return _describe_objects(events)
    if kind == LogEventKind.OTHER_LANGUAGE:
        return message("log-summary.other-language")
    texts: Counter[str] = Counter()
    for event in events:
        texts[event.text] += event.count
    text, count = texts.most_common(1)[0]
    if len(texts) > 1:
        return message("log-summary.most-frequent", count=count, words=text)
    return verbatim(text) if text else None


def _describe_objects(events: Sequence[LogEvent]) -> Message:
    """Tables, or modes of locks, by the time they took: "public.t 3 times, 2.1 s; public.u once, 12 ms"."""
    counts: Counter[str] = Counter()
    for event in events:
        counts[event.object] += event.count
    seconds = sum_by_key((event.object, event.numbers.get("seconds", 0.0)) for event in events)
    longest = sorted(counts, key=lambda name: (-seconds[name], name))
    parts = [_tell_object(name, counts[name], seconds[name]) for name in longest[:_NAMED]]
    if (left := len(longest) - _NAMED) > 0:
        parts.append(message("log-summary.more", number=left))
    return message("log-summary.objects", objects=tuple(parts))


def _tell_object(name: str, count: int, seconds: float) -> Message:
    if count == 1:
        return message("log-summary.object-once", name=name, time=seconds)
    return message("log-summary.object", name=name, count=count, time=seconds)
