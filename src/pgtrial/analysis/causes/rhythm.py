"""Rhythms in throughput: those that the server's clock would make, and any other."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pgtrial.analysis.causes.cells import Array
from pgtrial.analysis.causes.log_event import Placed
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timeline import Timeline
from pgtrial.findings.causes import Period
from pgtrial.language import N_
from pgtrial.stats.period import Rhythm, given_period, strongest_period
from pgtrial.store.server_log.facts import Kind
from pgtrial.units import parse_duration

TIMERS = ("checkpoint_timeout", "autovacuum_naptime")
FROM_LOG = N_("checkpoints of the log")
LIKELY = 0.05  # false-alarm probability up to which a rhythm is taken for one
_SAME = 0.05  # relative difference of periods that are taken for one
_FEWEST_CHECKPOINTS = 3


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

    Runs are searched one by one. The most surely found rhythm counts, and its false-alarm probability is multiplied by
    the number of runs (Bonferroni). A strong rhythm shows at other periods too, so the surest is taken off before
    others are looked for. Runs of slices are left out: their time stands still, the server's timers do not.
    """
    sliced = {run.id for run in evidence.valid if run.slices}
    series = [
        _Series(values=each.tps, expected=dict(_expected(evidence, each, placed[each.run])))
        for each in cell
        if each.run not in sliced
    ]
    names = [name for name in (*TIMERS, FROM_LOG) if any(name in each.expected for each in series)]
    found: dict[str, Period] = {}
    while len(found) < len(names):
        tested = {name: _search(series, _given(name), like=name) for name in names if name not in found}
        known = {name: period for name, period in tested.items() if period is not None}
        surest = min(known, key=lambda name: known[name].false_alarm, default="")
        if not surest or known[surest].false_alarm > LIKELY:
            found |= known
            break
        found[surest] = known[surest]
        series = [
            _Series(
                values=_without(each.values, each.expected.get(surest, known[surest].seconds)), expected=each.expected
            )
            for each in series
        ]
    free = _search(series, lambda each: strongest_period(each.values), like="")
    is_new = free is not None and all(abs(free.seconds / each.seconds - 1) > _SAME for each in found.values())
    others = [free] if free is not None and is_new and free.false_alarm <= LIKELY else []
    return (*(found[name] for name in names if name in found), *others)


def _given(name: str) -> Callable[[_Series], Rhythm | None]:
    return lambda each: given_period(each.values, each.expected[name]) if name in each.expected else None


def _search(series: Sequence[_Series], search: Callable[[_Series], Rhythm | None], *, like: str) -> Period | None:
    """The most surely found one of several runs; None where no run was long enough."""
    found = [rhythm for each in series if (rhythm := search(each)) is not None]
    if not found:
        return None
    best = min(found, key=lambda rhythm: rhythm.false_alarm)
    return Period(seconds=best.period, share=best.share, false_alarm=min(1.0, best.false_alarm * len(found)), like=like)


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
    starts = sorted(start for event, start, _ in placed if event.kind == Kind.CHECKPOINT)
    if len(starts) >= _FEWEST_CHECKPOINTS:
        period = statistics.median(later - earlier for earlier, later in pairwise(starts))
        if period > 0 and all(abs(period / timer - 1) > _SAME for timer in timers):
            yield FROM_LOG, period
