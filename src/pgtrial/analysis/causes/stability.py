"""How evenly each arm runs at each load level: dips, variation, stalls, trend, rhythm, what the log says of dips."""

from collections.abc import Iterator, Mapping, Sequence

from pgtrial.analysis.causes.cells import estimate_mean, group_cells
from pgtrial.analysis.causes.dip_alignment import describe_alignment
from pgtrial.analysis.causes.log_event import LogEvent, Placed, name_kind, place_events
from pgtrial.analysis.causes.rhythm import find_rhythms
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timeline import Timeline
from pgtrial.findings.causes import Dip, Stability
from pgtrial.language import tr
from pgtrial.stats.dips import Steadiness, find_dips
from pgtrial.stats.trend import trend
from pgtrial.store.server_log.facts import Kind

NEAR = 2.0  # s around a dip, in which an entry of the log is named beside it
_MINUTE = 60.0
_OF_TABLES = (Kind.AUTOVACUUM, Kind.AUTOANALYZE)


def describe_stability(
    evidence: Evidence, timelines: Sequence[Timeline], log_events: Sequence[LogEvent]
) -> tuple[Stability, ...]:
    """One record per arm and load level; numbers are means over the blocks with t intervals."""
    placed = place_events(evidence.valid, timelines, log_events)
    return tuple(
        _describe(evidence, arm, level, cell, {each.run: placed[each.run, each.level] for each in cell})
        for (arm, level), cell in group_cells(timelines).items()
    )


def _describe(
    evidence: Evidence, arm: str, level: int, cell: tuple[Timeline, ...], placed: Mapping[int, Sequence[Placed]]
) -> Stability:
    """``placed`` are the entries of the log by run."""
    found = {each.run: steadiness for each in cell if (steadiness := find_dips(each.tps)) is not None}
    trends = [trend(each.tps, spacing=1 / _MINUTE, confidence=evidence.confidence) for each in cell]
    steady, confidence = list(found.values()), evidence.confidence
    return Stability(
        arm=arm,
        load_level=level,
        coefficient_of_variation=estimate_mean((s.coefficient_of_variation for s in steady), confidence=confidence),
        lowest=estimate_mean((s.lowest for s in steady), confidence=confidence),
        dip_share=estimate_mean((s.dip_share for s in steady), confidence=confidence),
        stalled=estimate_mean((s.stalled_share for s in steady), confidence=confidence),
        trend=estimate_mean((each.slope for each in trends if each is not None), confidence=confidence),
        dips=tuple(sorted(_dips(cell, found, placed), key=lambda dip: (-dip.length, dip.run, dip.start))),
        periods=find_rhythms(evidence, cell, placed),
        aligned=describe_alignment(cell, found, placed),
    )


def _dips(
    cell: Sequence[Timeline], found: Mapping[int, Steadiness], placed: Mapping[int, Sequence[Placed]]
) -> Iterator[Dip]:
    for timeline in cell:
        for dip in found[timeline.run].dips if timeline.run in found else ():
            beside = [
                event
                for event, start, end in placed[timeline.run]
                if start <= dip.start + dip.length + NEAR and end >= dip.start - NEAR
            ]
            yield Dip(
                run=timeline.run,
                start=timeline.offset + dip.start,
                length=dip.length,
                depth=dip.depth,
                half_recovery=dip.half_recovery,
                recovery=dip.recovery,
                stalled=dip.stalled,
                near=tuple(dict.fromkeys(name_event(event) for event in beside)),
            )


def name_event(event: LogEvent) -> str:
    """ "checkpoint", "autovacuum of public.t", "error 40001"."""
    kind = name_kind(event.kind)
    if not event.object:
        return kind
    if event.kind in _OF_TABLES:
        return tr("{event} of {table}", event=kind, table=event.object)
    return f"{kind} {event.object}"
