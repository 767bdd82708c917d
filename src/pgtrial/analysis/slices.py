"""The measured time of a run: its windows, or the counted parts of its slices if arms shared a block's time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.effects.claim import claims_of
from pgtrial.analysis.evidence import Evidence, measured
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.findings import ArmSlices, Slices
from pgtrial.findings.record import parts_of
from pgtrial.model.run import RunRow, Slice
from pgtrial.stats.dependence import ORDER_ALPHA
from pgtrial.stats.late import SHAPES, Speeds, late_changes
from pgtrial.stats.slices import (
    PARTS,
    carry_over,
    compare_spread,
    growth_with_length,
    left_behind,
    pair_autocorrelation,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Time without a break in which an arm was at work, in seconds since the epoch; guard time is included, but not of
    a server that is switched, of which each reading belongs to a moment.

    ``before`` is the sum of the run's earlier stretches, so that ``before + t - started`` is the arm's own time.
    ``washout`` is for how many seconds a server that is switched has had the arm's settings when it starts.
    """

    level: int
    started: float
    ended: float
    before: float
    washout: float = math.inf

    @property
    def seconds(self) -> float:
        return self.ended - self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The measured time of a run at a load level.

    ``started`` and ``ended`` are what lies around it, in seconds since the epoch, ``own_started`` and ``own_ended`` the
    same in the arm's own time, which stands still while the arm does. ``counted`` is the time of the transactions that
    count, ``active`` the time in which the arm worked for them; without slices all of these are the same window.
    """

    level: int
    started: float
    ended: float
    own_started: float
    own_ended: float
    counted: float

    @property
    def active(self) -> float:
        return self.own_ended - self.own_started


def slices_of(run: RunRow, level: int) -> tuple[Slice, ...]:
    return tuple(each for each in run.slices if each.level == level)


def counted_seconds(run: RunRow, level: int) -> float:
    """Measured time of a run at a load level."""
    if run.slices:
        return sum(each.seconds for each in run.slices if each.level == level)
    return sum(phase.end - phase.start for phase in measured(run) if phase.level == level)


def stretches(run: RunRow) -> tuple[Stretch, ...]:
    """When the arm of a run of slices was at work; () for a run without slices.

    Slices with consecutive numbers are one stretch: no other arm came between them, so this one was never stopped. Of
    a server that is switched, each slice is one.
    """
    if not run.slices:
        return ()
    if run.is_switched:
        earlier = accumulate((each.seconds for each in run.slices), initial=0.0)
        return tuple(
            Stretch(
                level=each.level,
                started=each.counted,
                ended=each.ended,
                before=before,
                washout=each.counted - each.started,
            )
            for each, before in zip(run.slices, earlier, strict=False)
        )
    breaks = [
        place
        for place, (one, following) in enumerate(pairwise(run.slices), 1)
        if following.number != one.number + 1 or following.level != one.level
    ]
    found: list[Stretch] = []
    for begin, end in pairwise((0, *breaks, len(run.slices))):
        first, last = run.slices[begin], run.slices[end - 1]
        before = found[-1].before + found[-1].seconds if found else 0.0
        found.append(Stretch(level=first.level, started=first.started, ended=last.ended, before=before))
    return tuple(found)


def windows(run: RunRow) -> tuple[Window, ...]:
    """The measured time of a run, one per load level, in order of time."""
    at_work = stretches(run)
    found = []
    for phase in measured(run):
        level = phase.level or 0
        if not run.slices:
            found.append(
                Window(
                    level=level,
                    started=phase.start,
                    ended=phase.end,
                    own_started=phase.start,
                    own_ended=phase.end,
                    counted=phase.end - phase.start,
                )
            )
            continue
        mine = [stretch for stretch in at_work if stretch.level == level]
        if mine:
            found.append(
                Window(
                    level=level,
                    started=mine[0].started,
                    ended=mine[-1].ended,
                    own_started=mine[0].before,
                    own_ended=mine[-1].before + mine[-1].seconds,
                    counted=counted_seconds(run, level),
                )
            )
    return tuple(found)


def spans(run: RunRow) -> tuple[Window | Stretch, ...]:
    """The times whose readings tell of a run: its windows; where its server is switched, what counts of each slice."""
    return stretches(run) if run.is_switched else windows(run)


# Slices -> findings: how arms shared a block's time, whether one leaks into the other, where the noise comes from.


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Names of the observations by which one series of the slices tells how they begin and what comes later than they
    do.

    ``turns``: in the washouts, and in the first and the second half of what counts. ``late``: changes and errors as
    ``late_changes`` gives them; ``late_of_control`` of the control's among more than two arms.
    """

    turns: tuple[str, str, str]
    late: tuple[tuple[str, ...], tuple[str, ...]]
    late_of_control: tuple[tuple[str, ...], tuple[str, ...]]


def _name_series(name: str) -> Series:
    late, late_of_control = (
        (
            tuple(f"{name}.late.{side}.change.{number}" for number in range(len(SHAPES))),
            tuple(f"{name}.late.{side}.error.{number}" for number in range(len(SHAPES))),
        )
        for side in ("arm", "control")
    )
    turns = (f"{name}.washout", f"{name}.early", f"{name}.late")
    return Series(turns=turns, late=late, late_of_control=late_of_control)


THROUGHPUT, LATENCY = _name_series("turn"), _name_series("turn.latency")
_Array = NDArray[np.float64]
_LONGER = 1.5  # between slices of usual and of double length


def told_by(evidence: Evidence, metric: str) -> tuple[Series, float] | None:
    """The series of the slices that tells of a metric, and the sign with which it does; None where none tells.

    Percentiles change as the mean latency does, for all that slices tell of them. At a fixed rate throughput says
    nothing of latencies; in a closed loop it is their inverse, as older rules had it everywhere.
    """
    load = evidence.load
    if metric in load.times:
        return (LATENCY, 1.0) if evidence.rules.reads_latencies else (THROUGHPUT, -1.0)
    is_speed = metric in {each.name for each in (load.throughput, load.bandwidth) if each is not None}
    return (THROUGHPUT, 1.0) if is_speed else None


def _series_of_claim(evidence: Evidence) -> Series:
    """By which the slices are described: that which tells of the claim's first metric, else throughput."""
    told = [told_by(evidence, claim.metric.name) for claim in claims_of(evidence)[:1]]
    return told[0][0] if evidence.rules.describes_latencies and told and told[0] else THROUGHPUT


def describe_slices(evidence: Evidence, reduction: Reduction) -> Slices | None:
    """Findings about the slices of the valid runs; None where each run had its time to itself."""
    shared = [run for run in evidence.valid if run.slices]
    slices = [each for run in shared for each in run.slices]
    cells = [(len(slices_of(run, window.level)), window.counted) for run in shared for window in windows(run)]
    if not cells:
        return None
    return Slices(
        length=float(np.median([each.ended - each.started for each in slices])),
        guard=float(np.median([each.counted - each.started for each in slices])),
        number=float(np.median([number for number, _ in cells])),
        counted=float(np.median([counted for _, counted in cells])),
        arms=tuple(
            _describe_arm(evidence, reduction, arm.name)
            for arm in evidence.arms
            if evidence.control is not None and arm.name != evidence.control.name
        ),
    )


def _describe_arm(evidence: Evidence, reduction: Reduction, arm: str) -> ArmSlices:
    pairs, series = evidence.pairs(arm), _series_of_claim(evidence)
    means = [[_means(reduction, run, series) for run in pair] for pair in pairs]
    growth, growth_low, growth_high = parts_of(
        carry_over(
            *(np.array([each[side].quarters for each in means]).reshape(-1, PARTS) for side in (0, 1)),
            confidence=evidence.confidence,
        )
    )
    behind, behind_low, behind_high = parts_of(
        left_behind(
            np.array([[one.washout for one in each] for each in means]),
            np.array([[one.counted for one in each] for each in means]),
            confidence=evidence.confidence,
        )
    )
    longer, longer_low, longer_high = parts_of(
        growth_with_length(
            *(_block_log_ratios(pairs, means, is_long=is_long) for is_long in (False, True)),
            confidence=evidence.confidence,
        )
    )
    ratios = _log_ratios(evidence, reduction, pairs, series)
    spread = compare_spread(ratios)
    return ArmSlices(
        arm=arm,
        growth=growth,
        growth_low=growth_low,
        growth_high=growth_high,
        left_behind=behind,
        left_behind_low=behind_low,
        left_behind_high=behind_high,
        longer=longer,
        longer_low=longer_low,
        longer_high=longer_high,
        autocorrelation=pair_autocorrelation(ratios),
        sd_blocks=spread.observed if spread else None,
        sd_expected=spread.expected if spread else None,
        is_spread_explained=spread.p_value > ORDER_ALPHA if spread else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Means:
    """Of a run: throughput, or mean latency, in its washouts and in all that counts; by ``quarters`` of the slices also
    in another unit. NaN is not known.
    """

    quarters: _Array
    counted: float
    washout: float


def _means(reduction: Reduction, run: RunRow, series: Series) -> _Means:
    counts, washout = _quarters(reduction.parts, run), _add_up(reduction.washout, run)
    if series is THROUGHPUT:
        seconds = _washout_seconds(run)
        return _Means(
            quarters=counts,
            counted=counts.sum() / _seconds(run),
            washout=washout / seconds if seconds > 0 else math.nan,
        )
    latencies = _quarters(reduction.part_latencies, run)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _Means(
            quarters=latencies / counts,
            counted=latencies.sum() / counts.sum(),
            washout=float(np.divide(_add_up(reduction.washout_latencies, run), washout)),
        )


def turn_means(reduction: Reduction, run: RunRow) -> dict[str, float]:
    """Transactions per second and their mean latency in the washouts of a run's slices and in both halves of what
    counts, named by THROUGHPUT and LATENCY; without what is not known.
    """
    counts, latencies = (
        np.append(_add_up(washout, run), _quarters(parts, run).reshape(2, -1).sum(axis=1))
        for washout, parts in (
            (reduction.washout, reduction.parts),
            (reduction.washout_latencies, reduction.part_latencies),
        )
    )
    half = _seconds(run) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.append(counts / (_washout_seconds(run), half, half), latencies / counts)
    names = (*THROUGHPUT.turns, *LATENCY.turns)
    return {name: float(mean) for name, mean in zip(names, means, strict=True) if math.isfinite(mean)}


def late_turns(evidence: Evidence, reduction: Reduction, arm: str) -> dict[int, dict[str, float]]:
    """By run of the arm what ``late_changes`` gives for its block, the mean over load levels, of both series; where
    more than two arms take turns, of what the control leaves as well.
    """
    control, others = evidence.control, [each.name for each in evidence.arms if each.name != arm]
    numbers = {arm: 1} | {
        name: 0 if control and name == control.name else 2 + place for place, name in enumerate(others)
    }
    found: dict[int, dict[str, float]] = {}
    for _, run in evidence.pairs(arm):
        block = [each for each in evidence.valid if each.slot.block == run.slot.block]
        numbered = [(numbers[each.slot.arm], each) for each in block]
        for series in (THROUGHPUT, LATENCY) if evidence.rules.reads_latencies else (THROUGHPUT,):
            told = reduction.parts if series is THROUGHPUT else reduction.part_latencies
            speeds = [
                _speeds(evidence, reduction, series, numbered, window.level)
                for window in windows(run)
                if all((each.id, window.level) in told for each in block)
            ]
            sides = {1: series.late} if len(block) == 2 else {1: series.late, 0: series.late_of_control}
            for side, names in sides.items() if speeds else ():
                means = np.mean([late_changes(each, of=side) for each in speeds], axis=0).ravel()
                found.setdefault(run.id, {}).update(
                    (name, float(mean))
                    for name, mean in zip(chain.from_iterable(names), means, strict=True)
                    if math.isfinite(mean)
                )
    return found


def _speeds(
    evidence: Evidence, reduction: Reduction, series: Series, block: Sequence[tuple[int, RunRow]], level: int
) -> Speeds:
    parts, turns = [], []
    for arm, run in block:
        own, counts = slices_of(run, level), reduction.parts[run.id, level]
        edges = np.linspace([each.counted for each in own], [each.ended for each in own], PARTS + 1)
        if series is THROUGHPUT:
            rates = counts * PARTS / np.array([[each.seconds] for each in own])
        else:
            rates = reduction.part_latencies[run.id, level] / np.where(counts > 0, counts, math.nan)
        parts.append(
            (edges[:-1].T.ravel(), edges[1:].T.ravel(), rates.ravel(), np.full(rates.size, arm, dtype=np.intp))
        )
        turns += [(each.started, each.ended, arm) for each in own]
    started, ended, rate, arms = map(np.concatenate, zip(*parts, strict=True))
    return Speeds(
        started=started,
        ended=ended,
        rate=rate,
        arm=arms,
        turns=np.array(turns, dtype=np.float64),
        slice=evidence.method.slice,
    )


def _block_log_ratios(
    pairs: tuple[tuple[RunRow, RunRow], ...], means: Sequence[Sequence[_Means]], *, is_long: bool
) -> _Array:
    """Log ratio of each block whose slices are of double length, or are not.

    There are none of double length where all are about as long.
    """
    lengths = [float(np.median([one.ended - one.started for one in run.slices])) for _, run in pairs if run.slices]
    limit = _LONGER * min(lengths, default=math.inf)
    found = []
    for (control, treated), length in zip(means, lengths, strict=False):
        if (length > limit) is is_long and min(control.counted, treated.counted) > 0:
            found.append(math.log(treated.counted / control.counted))
    return np.array(found)


def _seconds(run: RunRow) -> float:
    """Counted time of all slices."""
    return sum(each.seconds for each in run.slices)


def _washout_seconds(run: RunRow) -> float:
    return sum(each.counted - each.started for each in run.slices)


def _add_up(washout: Mapping[tuple[int, int], float], run: RunRow) -> float:
    """Over all load levels; NaN where one is not known."""
    found = [washout.get((run.id, window.level), math.nan) for window in windows(run)]
    return sum(found) if found else math.nan


def _quarters(parts: Mapping[tuple[int, int], _Array], run: RunRow) -> _Array:
    """Sums by quarter, over all slices and load levels; NaN where they are not known."""
    found = [parts.get((run.id, window.level)) for window in windows(run)]
    known = [part.sum(axis=0) for part in found if part is not None]
    return np.sum(known, axis=0) if known and len(known) == len(found) else np.full(PARTS, math.nan)


def _log_ratios(
    evidence: Evidence, reduction: Reduction, pairs: tuple[tuple[RunRow, RunRow], ...], series: Series
) -> _Array:
    """(blocks, pairs of slices): log ratio of the arms in the first slice of both, the second, and so on.

    Load levels follow each other, each less its mean over all blocks: what they differ by is no noise.
    """
    levels = [
        level
        for each in evidence.levels
        if (level := _log_ratios_at(reduction, pairs, each.index, series)).size and not np.isnan(level).all()
    ]
    if not levels:
        return np.full((len(pairs), 0), math.nan)
    return np.hstack([level - np.nanmean(level) for level in levels])


def _log_ratios_at(
    reduction: Reduction, pairs: tuple[tuple[RunRow, RunRow], ...], level: int, series: Series
) -> _Array:
    rows = [rates[1] - rates[0] for pair in pairs if (rates := _log_rates(reduction, pair, level, series)) is not None]
    length = max((row.size for row in rows), default=0)
    padded = [np.pad(row, (0, length - row.size), constant_values=math.nan) for row in rows]
    return np.array(padded).reshape(len(rows), length)


def _log_rates(
    reduction: Reduction, pair: tuple[RunRow, RunRow], level: int, series: Series
) -> tuple[_Array, _Array] | None:
    """Logs of the series by slice of control and arm, NaN without a transaction; as many as both have."""
    found = []
    for run in pair:
        parts = reduction.parts.get((run.id, level))
        latencies = reduction.part_latencies.get((run.id, level))
        if parts is None or (series is LATENCY and latencies is None):
            return None
        count = value = parts.sum(axis=1)
        by = np.array([each.seconds for each in slices_of(run, level)])
        if series is LATENCY and latencies is not None:
            value, by = latencies.sum(axis=1), count
        mean = np.full(count.shape, math.nan)
        np.divide(value, by, out=mean, where=(value > 0) & (by > 0))
        found.append(np.log(mean))
    length = min(each.size for each in found)
    return found[0][:length], found[1][:length]
