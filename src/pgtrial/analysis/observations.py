"""Runs -> observations: one number per run, metric, scenario and load level, and over all load levels."""

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.reduction import Cell, Histogram, Reduction, Totals
from pgtrial.analysis.slices import Window, late_turns, turn_means, windows
from pgtrial.findings.findings import Observation
from pgtrial.findings.record import ALL
from pgtrial.knobs.fio import FIO
from pgtrial.model.metrics import COSTS, FAILURES, LATE, SKIPPED, Cost, LoadMetrics
from pgtrial.model.run import RunRow
from pgtrial.stats.quantiles import histogram_quantile
from pgtrial.stats.steps import find_step, step_reach

STEP, LOST = ".step", ".lost"  # after a metric's name

# (run's id, metric's name, scenario or None for all, load level's index or "all") to value
Values = Mapping[tuple[int, str, str | None, int | str], float]

# (metric's name, scenario or None for all) to value, at one load level of one run
_LevelValues = dict[tuple[str, str | None], float]

_NO_TRANSACTIONS = Totals(count=0, latency_sum=0.0, failed=0, skipped=0, late=0)


def observe_runs(evidence: Evidence, reduction: Reduction) -> tuple[Observation, ...]:
    """Observations of all valid runs, in base units.

    A scenario of its own appears only where there is more than one. "all" load levels: the geometric mean of the
    levels for throughput, latencies and costs, so that every level weighs the same whatever its size; the share of
    all transactions for failures, late and skipped ones. There is no "all" where a level has no value.
    """
    return tuple(observation for run in evidence.valid for observation in _observe_run(evidence, reduction, run))


def observe_turns(evidence: Evidence, reduction: Reduction) -> tuple[Observation, ...]:
    """Throughput and mean latency at the beginning of slices and in what counts of them, of runs whose arms took turns,
    and by how much the log ratio of an arm would change for what comes later.

    They tell what an arm leaves behind for the next ones, and are no results of their own.
    """
    if evidence.is_duet:
        return ()
    runs = {run.id: run for run in evidence.valid if run.slices}
    told = [(run.id, turn_means(reduction, run)) for run in runs.values()]
    for arm in evidence.arms:
        if runs and evidence.rules.bears_late and arm != evidence.control:
            told += late_turns(evidence, reduction, arm.name).items()
    return tuple(observation(runs[run], name, None, ALL, value) for run, found in told for name, value in found.items())


def observe_steps(evidence: Evidence, reduction: Reduction, observations: tuple[Observation, ...]) -> list[Observation]:
    """By how much percentiles of latency may be off because the load tells latencies in steps, where it may matter: log
    ratios, named by STEP. Over all load levels it is the mean, as for the percentile itself.

    ``observations`` are those of ``observe_runs``.
    """
    if not evidence.rules.bears_steps:
        return []
    buckets: dict[tuple[str | None, int | str], list[NDArray[np.int64]]] = {}
    for (_, level, scenario), histogram in reduction.histograms.items():
        buckets.setdefault((scenario, level), []).append(histogram.buckets)
    steps = {cell: find_step(np.concatenate(parts)) for cell, parts in buckets.items()}

    def reach(each: Observation) -> float:
        return step_reach(steps.get((each.scenario, each.load_level), 0.0), each.value)

    return list(_reaches(evidence, observations, STEP, reach))


def observe_lost(evidence: Evidence, reduction: Reduction, observations: tuple[Observation, ...]) -> list[Observation]:
    """By how much percentiles of latency would be longer if what was lost, because it failed or was skipped, had been
    the slowest of all: log ratios, named by LOST, infinite where more was lost than is slower. Otherwise as
    ``observe_steps``.
    """
    if not evidence.rules.bears_alike:
        return []
    quantiles = {metric.name: q for metric, q in evidence.load.quantiles}

    def reach(each: Observation) -> float:
        cell = (each.run, int(each.load_level), each.scenario)
        totals, histogram = reduction.totals.get(cell, _NO_TRANSACTIONS), reduction.histograms.get(cell)
        lost = totals.failed + totals.skipped
        if not lost or histogram is None:
            return 0.0
        place = quantiles[each.metric] * (totals.count + lost) / totals.count
        longer = histogram_quantile(histogram.buckets, histogram.counts, place) if place < 1 else None
        return math.inf if longer is None else max(0.0, math.log(longer / each.value))

    return list(_reaches(evidence, observations, LOST, reach))


def _reaches(
    evidence: Evidence, observations: tuple[Observation, ...], name: str, reach: Callable[[Observation], float]
) -> Iterator[Observation]:
    """What percentiles may be off by, where that is not 0; over all load levels the mean."""
    quantiles = {metric.name for metric, _ in evidence.load.quantiles}
    over_all: dict[tuple[int, str, str | None], list[float]] = {}
    for each in observations:
        if each.metric not in quantiles or each.load_level == ALL or each.value <= 0 or (off := reach(each)) <= 0:
            continue
        yield each.model_copy(update={"metric": each.metric + name, "value": off})
        over_all.setdefault((each.run, each.metric, each.scenario), []).append(off)
    for each in observations:
        found = over_all.get((each.run, each.metric, each.scenario)) if each.load_level == ALL else None
        if found:
            mean = sum(found) / len(evidence.levels)
            yield each.model_copy(update={"metric": each.metric + name, "value": mean})


def index_values(observations: tuple[Observation, ...]) -> Values:
    return {(o.run, o.metric, o.scenario, o.load_level): o.value for o in observations}


def reported_scenarios(evidence: Evidence) -> tuple[str | None, ...]:
    """None for all scenarios together, then each one where there is more than one."""
    return (None, *(evidence.scenarios if len(evidence.scenarios) > 1 else ()))


def _observe_run(evidence: Evidence, reduction: Reduction, run: RunRow) -> Iterator[Observation]:
    levels: dict[int | str, _LevelValues] = {}
    for window in windows(run):
        if window.counted > 0:
            levels[window.level] = _observe_level(evidence, reduction, run=run, window=window)
    if levels and {level.index for level in evidence.levels} == set(levels):
        levels[ALL] = _observe_all(evidence, reduction, run=run.id, levels=tuple(levels.values()))
    for level, values in levels.items():
        for (metric, scenario), value in values.items():
            yield observation(run, metric, scenario, level, value)


def observation(run: RunRow, metric: str, scenario: str | None, level: int | str, value: float) -> Observation:
    return Observation(
        run=run.id,
        arm=run.slot.arm,
        block=run.slot.block,
        metric=metric,
        scenario=scenario,
        load_level=level,
        value=value,
    )


def _observe_level(evidence: Evidence, reduction: Reduction, *, run: RunRow, window: Window) -> _LevelValues:
    values: _LevelValues = {}
    load, sizes = evidence.load, evidence.request_sizes(run.slot.arm)
    for scenario in reported_scenarios(evidence):
        cell: Cell = (run.id, window.level, scenario)
        # The run is valid, so the load ran through the whole window: no row means that no transaction ended in it.
        totals = reduction.totals.get(cell, _NO_TRANSACTIONS)
        values[load.throughput.name, scenario] = totals.counted(evidence.rules) / window.counted
        if totals.count > 0 and totals.latency_sum is not None:
            values[load.latency_mean.name, scenario] = totals.latency_sum / totals.count
        for metric, latency in _quantiles(load, reduction.histograms.get(cell)).items():
            values[metric, scenario] = latency
        if load.bandwidth is not None:
            counts = {
                name: reduction.totals.get((run.id, window.level, name), _NO_TRANSACTIONS).count
                for name in sizes
                if scenario in (None, name)
            }
            moved = sum(count * sizes[name] for name, count in counts.items())
            values[load.bandwidth.name, scenario] = moved / window.counted
        for metric, share in _shares(evidence, totals).items():
            values[metric, scenario] = share
    transactions = reduction.totals.get((run.id, window.level, None), _NO_TRANSACTIONS).counted(evidence.rules)
    if transactions > 0:
        for cost in COSTS:
            if run.slices and not (cost.is_of_server or run.is_switched):
                continue  # the machine did it for all arms of the block
            increase = _increase(reduction, cost, run=run.id, level=window.level)
            if increase is not None:
                # Those of twins also grew in the guard time, whose transactions do not count.
                values[cost.metric.name, None] = increase * window.counted / window.active / transactions
    return values


def _quantiles(load: LoadMetrics, histogram: Histogram | None) -> dict[str, float]:
    if histogram is None:
        return {}
    found = {metric.name: histogram_quantile(histogram.buckets, histogram.counts, q) for metric, q in load.quantiles}
    return {name: value for name, value in found.items() if value is not None}


def _shares(evidence: Evidence, totals: Totals) -> dict[str, float]:
    """Shares as pgbench prints them: failed and skipped of all transactions, late of the successful ones."""
    workload = evidence.experiment.workload
    everything = totals.count + totals.failed + totals.skipped
    shares: dict[str, float] = {}
    if workload.kind == FIO:
        return shares  # a request that fails ends its job, and the run does not count
    if everything > 0:
        shares[FAILURES.name] = totals.failed / everything
        if workload.rate is not None and workload.latency_limit is not None:
            shares[SKIPPED.name] = totals.skipped / everything
    if totals.count > 0 and workload.latency_limit is not None:
        shares[LATE.name] = totals.late / totals.count
    return shares


def _increase(reduction: Reduction, cost: Cost, *, run: int, level: int) -> float | None:
    """Increase of all counters of a cost; None when one of them is missing."""
    total = 0.0
    for counter in cost.counters:
        objects = reduction.increases.get((run, level, counter), {})
        found = objects if cost.object is None else {k: v for k, v in objects.items() if k == cost.object}
        if not found:
            return None
        total += sum(found.values())
    return total


def _observe_all(
    evidence: Evidence, reduction: Reduction, *, run: int, levels: tuple[_LevelValues, ...]
) -> _LevelValues:
    values: _LevelValues = {}
    for key in levels[0]:
        found = [level[key] for level in levels if key in level]
        mean = _geometric_mean(found) if len(found) == len(levels) else None
        if mean is not None:
            values[key] = mean
    for scenario in reported_scenarios(evidence):
        totals = [reduction.totals.get((run, level.index, scenario), _NO_TRANSACTIONS) for level in evidence.levels]
        for metric in (FAILURES, LATE, SKIPPED):
            values.pop((metric.name, scenario), None)
        for name, share in _shares(evidence, _add_up(totals)).items():
            values[name, scenario] = share
    return values


def _geometric_mean(values: list[float]) -> float | None:
    """Zero where all are zero; None where only some are, because one zero would hide all the other values."""
    if all(value == 0 for value in values):
        return 0.0
    if any(value <= 0 for value in values):
        return None
    return math.exp(sum(math.log(value) for value in values) / len(values))


def _add_up(totals: list[Totals]) -> Totals:
    return Totals(
        count=sum(t.count for t in totals),
        latency_sum=None,  # a share has none
        failed=sum(t.failed for t in totals),
        skipped=sum(t.skipped for t in totals),
        late=sum(t.late for t in totals),
    )
