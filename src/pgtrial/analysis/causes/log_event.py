"""Where the entries of the server's log lie on timelines."""

from collections.abc import Iterable, Mapping, Sequence

from pgtrial.analysis.log_pairing import LogEvent
from pgtrial.analysis.timeline import Timeline
from pgtrial.analysis.timelines.seconds import measured_time
from pgtrial.language import N_, tr
from pgtrial.model.run import RunRow
from pgtrial.store.server_log.facts import Kind

__all__ = ["LogEvent", "Placed", "name_kind", "place_events"]

_NAMES: Mapping[str, str] = {
    Kind.CHECKPOINT: N_("checkpoint"),
    Kind.AUTOVACUUM: N_("autovacuum"),
    Kind.AUTOANALYZE: N_("autoanalyze"),
    Kind.TEMPORARY_FILE: N_("temporary file"),
    Kind.LOCK_WAIT: N_("lock wait"),
    Kind.DEADLOCK: N_("deadlock"),
    Kind.SLOW_STATEMENT: N_("slow statement"),
    Kind.ERROR: N_("error"),
    Kind.OTHER_LANGUAGE: N_("not in English"),
}

Placed = tuple[LogEvent, float, float]  # with its start and end in seconds since the timeline's start


def name_kind(kind: str) -> str:
    """What a kind of event is called in the language in use, also "error 40001"."""
    if kind in _NAMES:
        return tr(_NAMES[kind])
    first, _, rest = kind.partition(" ")
    return f"{tr(_NAMES[first])} {rest}" if first in _NAMES else kind


def place_events(
    runs: Iterable[RunRow], timelines: Iterable[Timeline], events: Iterable[LogEvent]
) -> Mapping[tuple[int, int], tuple[Placed, ...]]:
    """By (run, load level): the events that touch each timeline, in order of time."""
    by_id = {run.id: run for run in runs}
    measured: dict[int, list[Placed]] = {}  # by run, in seconds since its measuring began
    for event in events:
        run = by_id.get(event.run)
        if run is not None:
            start, end = measured_time(run, event.start), measured_time(run, event.end)
            measured.setdefault(run.id, []).append((event, start, end))
    return {(each.run, each.level): _touching(each, measured.get(each.run, ())) for each in timelines}


def _touching(timeline: Timeline, events: Sequence[Placed]) -> tuple[Placed, ...]:
    found = [
        (event, start - timeline.offset, end - timeline.offset)
        for event, start, end in events
        if end >= timeline.offset and start < timeline.offset + timeline.seconds
    ]
    return tuple(sorted(found, key=lambda placed: placed[1]))
