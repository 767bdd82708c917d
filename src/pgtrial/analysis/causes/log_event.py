"""Where the entries of the server's log lie on timelines."""

from collections.abc import Iterable, Mapping, Sequence

from pgtrial.analysis.log_pairing import LogEvent
from pgtrial.analysis.timelines.seconds import measured_time
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.model.run import RunRow

__all__ = ["LogEvent", "Placed", "place_events"]

Placed = tuple[LogEvent, float, float]  # with its start and end in seconds since the timeline's start


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
    return {(line.run, line.level): _touching(line, measured.get(line.run, ())) for line in timelines}


def _touching(timeline: Timeline, events: Sequence[Placed]) -> tuple[Placed, ...]:
    placed = [
        (event, start - timeline.offset, end - timeline.offset)
        for event, start, end in events
        if end >= timeline.offset and start < timeline.offset + timeline.seconds
    ]
    return tuple(sorted(placed, key=lambda event: event[1]))
