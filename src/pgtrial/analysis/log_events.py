"""Server log events in the measured time: events, sums by arm, and marks for the time axis of a run."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.log_pairing import REQUESTED, TIMED, LogEvent, add_numbers, add_up, pair_entries
from pgtrial.analysis.slices import stretches, windows
from pgtrial.findings.causes import LogSummary, Mark
from pgtrial.language import ntr, tr
from pgtrial.model.run import RunRow
from pgtrial.store import layout
from pgtrial.store.server_log.entry import LogEntry, find_zone
from pgtrial.store.server_log.facts import Kind
from pgtrial.store.server_log.stored import read_log
from pgtrial.units import format_bytes, format_duration

MOST_MARKS = 300  # of a run
_NAMED = 5  # tables, locks that a summary names
_OWN = r"pgtrial(?:_[0-9a-f]+)?"  # the load's database, in a cluster of pgtrial's and on an existing server
_BY_OBJECT = (Kind.AUTOVACUUM, Kind.AUTOANALYZE, Kind.LOCK_WAIT)

__all__ = ["LogEvent", "mark_events", "read_log_events", "summarize_log"]


def read_log_events(evidence: Evidence) -> tuple[LogEvent, ...] | None:
    """Events of the valid runs by run and start, also from before and after their measured time; None where no run has
    a log. Raises StoreError.
    """
    found: list[LogEvent] = []
    is_there = False
    for run in evidence.valid:
        path = layout.run_folder(evidence.folder, run.folder) / layout.SERVER_LOG
        if path.is_file():
            is_there = True
            zone = find_zone(evidence.settings.get(run.id, {}).get("log_timezone", ("UTC", ""))[0])
            entries = _our_time(evidence, run, read_log(path, zone))
            found += add_up(pair_entries(run.id, entries, is_own=partial(_is_own, evidence)))
    return tuple(found) if is_there else None


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
    found = []
    for arm in evidence.arms:
        mine: dict[str, list[LogEvent]] = {}
        for run in evidence.runs_of(arm.name):
            for event in _measured(run, events):
                mine.setdefault(_name(event), []).append(event)
        for name in sorted(mine):
            numbers: dict[str, float] = {}
            for event in mine[name]:
                numbers = add_numbers(numbers, event.numbers)
            found.append(
                LogSummary(
                    arm=arm.name,
                    kind=name,
                    count=sum(event.count for event in mine[name]),
                    numbers=numbers,
                    text=_describe(mine[name], numbers),
                )
            )
    return tuple(found)


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
            Mark(run=run.id, start=event.start - begun, end=event.end - begun, kind=_name(event), text=_text(event))
            for event in sorted(longest, key=lambda event: event.start)
        ]
    return tuple(marks)


def _measured(run: RunRow, events: Sequence[LogEvent]) -> Iterator[LogEvent]:
    """The events of a run that overlap its measured time."""
    spans = [(each.started, each.ended) for each in (stretches(run) if run.slices else windows(run))]
    for event in events:
        if event.run == run.id and any(event.start < ended and event.end >= started for started, ended in spans):
            yield event


def _name(event: LogEvent) -> str:
    return f"{event.kind} {event.object}".strip() if event.kind == Kind.ERROR else event.kind


def _text(event: LogEvent) -> str:
    if event.count == 1:
        return event.text
    return ntr("{count} times, such as {text}", "{count} times, such as {text}", event.count, text=event.text)


def _describe(events: Sequence[LogEvent], numbers: Mapping[str, float]) -> str:
    """What the sums do not say: how many were timed, which tables, the most frequent message."""
    kind = events[0].kind
    if kind == Kind.CHECKPOINT:
        timed, requested = (int(numbers.get(name, 0.0)) for name in (TIMED, REQUESTED))
        if timed and requested:
            return tr("{timed} timed, {requested} requested", timed=timed, requested=requested)
        return tr("all timed") if timed else tr("all requested") if requested else ""
    if kind == Kind.TEMPORARY_FILE:
        each = numbers["bytes"] / sum(event.count for event in events)
        return tr("{bytes} each, on average", bytes=format_bytes(each))
    if kind in _BY_OBJECT:
        return _describe_objects(events)
    if kind == Kind.OTHER_LANGUAGE:
        return tr("what these messages tell is not known; with lc_messages = 'C' the server logs in English")
    texts: Counter[str] = Counter()
    for event in events:
        texts[event.text.partition(": ")[2] if kind == Kind.SLOW_STATEMENT else event.text] += event.count
    text, count = texts.most_common(1)[0]
    return text if len(texts) == 1 else ntr("{count} times: {text}", "{count} times: {text}", count, text=text)


def _describe_objects(events: Sequence[LogEvent]) -> str:
    """Tables, or modes of locks, by the time they took: "public.t 3 times, 2.1 s; public.u once, 12 ms"."""
    counts: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    for event in events:
        counts[event.object] += event.count
        seconds[event.object] = seconds.get(event.object, 0.0) + event.numbers.get("seconds", 0.0)
    longest = sorted(counts, key=lambda name: (-seconds[name], name))
    parts = [_tell_object(name, counts[name], seconds[name]) for name in longest[:_NAMED]]
    left = len(longest) - _NAMED
    return "; ".join([*parts, *([tr("{number} more", number=left)] if left > 0 else [])])


def _tell_object(name: str, count: int, seconds: float) -> str:
    time = format_duration(seconds)
    if count == 1:
        return tr("{name} once, {time}", name=name, time=time)
    return ntr("{name} {count} times, {time}", "{name} {count} times, {time}", count, name=name, time=time)
