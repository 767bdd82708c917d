"""How evenly each arm runs at each load level: dips, variation, stalls, trend, rhythm, what the log says of dips."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pgtrial.analysis.causes.around_dips import compare_waits, find_signs, tell_more
from pgtrial.analysis.causes.sessions import Array, estimate_mean, group_cells
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.log_pairing import LogEvent
from pgtrial.analysis.timelines.seconds import Placed, place_events
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.message import Message, message
from pgtrial.findings.naming import name_event_kind
from pgtrial.findings.over_time import Dip, Period, Stability
from pgtrial.stats.dips import Steadiness, find_dips, find_evenness
from pgtrial.stats.interval import holm
from pgtrial.stats.period import Alignment, Marked, Rhythm, Stretch, align, given_period, strongest_period
from pgtrial.stats.trend import trend
from pgtrial.store.server_log.facts import LogEventKind
from pgtrial.units import parse_duration

# Whether dips of throughput and entries of the server's log go together, with the probability that it is chance.
#
# A checkpoint is tried twice: all of it, and its beginning. By default it is spread over nine tenths of the time until
# the next, so that nearly everything lies beside one; but what it costs others, whole pages in the WAL, comes at its
# beginning.


# What is written to the log because throughput is low, or says nothing, and so explains nothing.
CONSEQUENCES = (LogEventKind.SLOW_STATEMENT, LogEventKind.ERROR, LogEventKind.OTHER_LANGUAGE)
LIKELY = 0.05
BEGINNING = 5.0  # s of a checkpoint

_Stretches = Mapping[int, Sequence[Stretch]]  # by run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tested:
    """Entries of a kind, or a part of each, against the dips; ``chance`` is adjusted for all that were tested."""

    kind: str
    name: str | Message
    alignment: Alignment
    chance: float

    def tell(self, *, is_likely: bool) -> Message:
        return message(
            "dips.together" if is_likely else "dips.by-chance",
            total=self.alignment.dip_seconds,
            overlap=self.alignment.overlap,
            kind=self.name,
            expected=round(self.alignment.expected, 1),
            chance=self.chance,
        )


def describe_alignment(
    cell: Sequence[Timeline], steadiness: Mapping[int, Steadiness], placed: Mapping[int, Sequence[Placed]]
) -> Message | None:
    """A sentence for each kind of entry that dips follow, or one that says that they follow none.

    None where there are no dips, or none of the entries that could explain them. Each kind is tested by circular
    shifts, and the probabilities are adjusted for their number (Holm).
    """
    tested = _test(cell, steadiness, placed)
    if not tested:
        return None
    likely: dict[str, _Tested] = {}  # by kind: of a checkpoint and its beginning, what is less likely to be chance
    for entries in tested:
        if entries.chance <= LIKELY:
            likely.setdefault(entries.kind, entries)
    if not likely:
        return tested[0].tell(is_likely=False)
    sentences = [entries.tell(is_likely=True) for entries in likely.values()]
    if LogEventKind.LOCK_WAIT in likely:
        sentences.append(message("dips.locks"))
    return message("sentences", parts=tuple(sentences))


def _test(
    cell: Sequence[Timeline], steadiness: Mapping[int, Steadiness], placed: Mapping[int, Sequence[Placed]]
) -> Sequence[_Tested]:
    """The least likely to be chance first; of those that are as unlikely, what more of the time in dips falls to."""
    aligned = [
        (kind, name, alignment)
        for kind, name, stretches in _explanations(placed)
        if (alignment := align([_mark(timeline, stretches, steadiness) for timeline in cell])) is not None
    ]
    chances = holm([alignment.p_value for _, _, alignment in aligned])
    return sorted(
        (
            _Tested(kind=kind, name=name, alignment=alignment, chance=chance or 0.0)
            for (kind, name, alignment), chance in zip(aligned, chances, strict=True)
        ),
        key=lambda entries: (entries.chance, -entries.alignment.overlap),
    )


def _explanations(placed: Mapping[int, Sequence[Placed]]) -> Iterator[tuple[str, str | Message, _Stretches]]:
    """Kind, name, and where it was."""
    for kind in sorted({event.kind for events in placed.values() for event, _, _ in events} - set(CONSEQUENCES)):
        stretches = {
            run: [(start, end) for event, start, end in events if event.kind == kind] for run, events in placed.items()
        }
        yield kind, name_event_kind(kind), stretches
        if kind == LogEventKind.CHECKPOINT:
            beginnings = {
                run: [(start, min(end, start + BEGINNING)) for start, end in whole] for run, whole in stretches.items()
            }
            if beginnings != stretches:
                yield kind, message("log-event.checkpoint-begins"), beginnings


def _mark(timeline: Timeline, stretches: _Stretches, steadiness: Mapping[int, Steadiness]) -> Marked:
    dips = steadiness[timeline.run].dips if timeline.run in steadiness else ()
    return Marked(
        seconds=timeline.seconds,
        events=stretches[timeline.run],
        dips=[(dip.start, dip.start + dip.length) for dip in dips],
    )


# Rhythms in throughput: those that the server's clock would make, and any other.


TIMERS = ("checkpoint_timeout", "autovacuum_naptime")
FROM_LOG = "checkpoints of the log"
_SAME = 0.05  # relative difference of periods that are taken for one
_FEWEST_CHECKPOINTS = 3
_SEARCHED = 100_000  # s of a run at once: a search of so many takes 250 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """Throughput of a run, without the rhythms that were found already, and the periods to look for by their names."""

    values: Array
    expected: Mapping[str, float]


def find_rhythms(
    evidence: Evidence, cell: Sequence[Timeline], placed: Mapping[int, Sequence[Placed]]
) -> tuple[Period, ...]:
    """The periods of the server's timers that fit into a run three times, each with its probability, then the strongest
    other one if it is hardly chance.

    Runs are searched one by one, and long ones in parts: what a search takes grows with their length, and a day has all
    that a timer does. The most surely found rhythm counts, and its false-alarm probability is multiplied by the number
    of runs and parts (Bonferroni). A strong rhythm shows at other periods too, so the surest is taken off before
    others are looked for. Runs of slices are left out: their time stands still, the server's timers do not.
    """
    series = [
        _Series(values=part, expected=dict(_expected(evidence, timeline, placed[timeline.run])))
        for timeline in cell
        if timeline.run not in evidence.sliced
        for part in np.array_split(timeline.tps, max(1, math.ceil(timeline.seconds / _SEARCHED)))
    ]
    names = [name for name in (*TIMERS, FROM_LOG) if any(name in run.expected for run in series)]
    periods: dict[str, Period] = {}
    while len(periods) < len(names):
        tested = {name: _search(series, _given(name), like=name) for name in names if name not in periods}
        known = {name: period for name, period in tested.items() if period is not None}
        surest = min(known, key=lambda name: known[name].false_alarm, default="")
        if not surest or known[surest].false_alarm > LIKELY:
            periods |= known
            break
        periods[surest] = known[surest]
        series = [
            _Series(values=_without(run.values, run.expected.get(surest, known[surest].seconds)), expected=run.expected)
            for run in series
        ]
    free = _search(series, lambda run: strongest_period(run.values), like="")
    is_new = free is not None and all(abs(free.seconds / known.seconds - 1) > _SAME for known in periods.values())
    others = [free] if free is not None and is_new and free.false_alarm <= LIKELY else []
    return (*(periods[name] for name in names if name in periods), *others)


def _given(name: str) -> Callable[[_Series], Rhythm | None]:
    return lambda run: given_period(run.values, run.expected[name]) if name in run.expected else None


def _search(series: Sequence[_Series], search: Callable[[_Series], Rhythm | None], *, like: str) -> Period | None:
    """The most surely found one of several runs; None where no run was long enough."""
    rhythms = [rhythm for run in series if (rhythm := search(run)) is not None]
    if not rhythms:
        return None
    best = min(rhythms, key=lambda rhythm: rhythm.false_alarm)
    false_alarm = min(1.0, best.false_alarm * len(rhythms))
    return Period(seconds=best.period, share=best.share, false_alarm=false_alarm, like=like)


def _without(values: Array, period: float) -> Array:
    """The series less the mean over all cycles at each second of the cycle (epoch folding)."""
    second = (np.arange(values.size) % period).astype(int)
    known = ~np.isnan(values)
    sums = np.bincount(second[known], values[known], minlength=int(second.max()) + 1)
    counts = np.bincount(second[known], minlength=int(second.max()) + 1)
    return np.asarray(values - (sums / np.maximum(counts, 1))[second])


def _expected(evidence: Evidence, timeline: Timeline, placed: Sequence[Placed]) -> Iterator[tuple[str, float]]:
    """Names and periods of what may beat in a run; checkpoints of the log only where they do not go by their timer."""
    timers = []
    for name in TIMERS:
        try:
            timers.append(parse_duration(evidence.settings.get(timeline.run, {}).get(name, ("", ""))[0]))
        except ValueError:
            continue
        yield name, timers[-1]
    starts = sorted(start for event, start, _ in placed if event.kind == LogEventKind.CHECKPOINT)
    if len(starts) >= _FEWEST_CHECKPOINTS:
        period = statistics.median(later - earlier for earlier, later in pairwise(starts))
        if period > 0 and all(abs(period / timer - 1) > _SAME for timer in timers):
            yield FROM_LOG, period


NEAR = 2.0  # s around a dip, in which an entry of the log is named beside it
_MINUTE = 60.0
_OF_TABLES = (LogEventKind.AUTOVACUUM, LogEventKind.AUTOANALYZE)


def describe_stability(
    evidence: Evidence, timelines: Sequence[Timeline], log_events: Sequence[LogEvent]
) -> tuple[Stability, ...]:
    """One record per arm and load level; numbers are means over the blocks with t intervals."""
    placed = place_events(evidence.valid, timelines, log_events)
    return tuple(
        _describe(evidence, arm, level, cell, {line.run: placed[line.run, line.level] for line in cell})
        for (arm, level), cell in group_cells(timelines).items()
    )


def _describe(
    evidence: Evidence, arm: str, level: int, cell: tuple[Timeline, ...], placed: Mapping[int, Sequence[Placed]]
) -> Stability:
    """``placed`` are the entries of the log by run."""
    steadiness = {line.run: dips for line in cell if (dips := find_dips(line.tps)) is not None}
    trends = [trend(line.tps, spacing=1 / _MINUTE, confidence=evidence.confidence) for line in cell]
    even, confidence = [found for line in cell if (found := find_evenness(line.tps)) is not None], evidence.confidence
    # A run that stands still most of the time has no dips: the share of the others would leave out the worst one.
    shares = [found.dip_share for found in steadiness.values()] if len(steadiness) == len(even) else []
    # Where arms take turns the seconds of a run are put together: what lies before one may be another arm's.
    in_order = [line for line in cell if line.run not in evidence.sliced]
    signs, tried = find_signs(in_order, steadiness, seed=evidence.seed)
    return Stability(
        arm=arm,
        load_level=level,
        coefficient_of_variation=estimate_mean((e.coefficient_of_variation for e in even), confidence=confidence),
        lowest=estimate_mean((e.lowest for e in even), confidence=confidence),
        dip_share=estimate_mean(shares, confidence=confidence),
        stalled=estimate_mean((e.stalled_share for e in even), confidence=confidence),
        trend=estimate_mean((rise.slope for rise in trends if rise is not None), confidence=confidence),
        dips=tuple(sorted(_dips(cell, steadiness, placed), key=lambda dip: (-dip.length, dip.run, dip.start))),
        periods=find_rhythms(evidence, cell, placed),
        aligned=describe_alignment(cell, steadiness, placed),
        waits=compare_waits(cell, steadiness, seed=evidence.seed),
        signs=signs,
        signs_tried=tried,
    )


def _dips(
    cell: Sequence[Timeline], steadiness: Mapping[int, Steadiness], placed: Mapping[int, Sequence[Placed]]
) -> Iterator[Dip]:
    for timeline in cell:
        for dip in steadiness[timeline.run].dips if timeline.run in steadiness else ():
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
                near=tuple({(event.kind, event.object): name_event(event) for event in beside}.values()),
                more=tell_more(timeline, steadiness[timeline.run].dips, dip),
            )


def name_event(event: LogEvent) -> str | Message:
    """ "checkpoint", "autovacuum of public.t", "error 40001"."""
    kind = name_event_kind(event.kind)
    if not event.object:
        return kind
    if event.kind in _OF_TABLES:
        return message("log-event.of-table", event=kind, table=event.object)
    return message("log-event.about", event=kind, object=event.object)
