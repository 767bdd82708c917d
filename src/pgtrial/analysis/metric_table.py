"""Every metric in every arm, as articles print it: mean, median, lowest, highest, how it moves, and the effect;
in total, and of each scenario.
"""

from collections.abc import Sequence

import numpy as np

from pgtrial.analysis.causes.sessions import estimate_mean, find_series
from pgtrial.analysis.effects.comparison import compare_metric
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values, reported_scenarios
from pgtrial.analysis.sampled import named
from pgtrial.analysis.timelines.timeline import Array, Timeline
from pgtrial.findings.findings import ArmMetric, MetricFinding, Observation
from pgtrial.findings.record import ALL, Estimate
from pgtrial.model.arm import Arm
from pgtrial.model.metrics import METRICS
from pgtrial.model.observable import find_observable

_ROUNDING = 1e-9  # of the largest value, which sums of many differ by


def compare_metrics(
    evidence: Evidence, timelines: Sequence[Timeline], values: Values, sampled: Sequence[Observation]
) -> tuple[MetricFinding, ...]:
    """Those of the load, its costs, and all that was sampled, whatever was above zero in any arm; seconds of a scenario
    by itself are not kept.
    """
    own = [
        (metric.name, scenario)
        for metric in METRICS
        for scenario in reported_scenarios(evidence)
        if any((run.id, metric.name, scenario, ALL) in values for run in evidence.valid)
    ]
    # By the name of the metric alone it is there twice, which only a claim needs.
    bare = {one.metric.partition("/")[0] for one in sampled if "/" in one.metric}
    every = {(one.metric, one.scenario) for one in sampled if one.load_level == ALL and one.metric not in bare}
    seconds = _seconds(timelines)
    keys = (*own, *sorted(every, key=lambda key: (key[0], key[1] or "")))
    found = (_compare(evidence, seconds, values, name, scenario) for name, scenario in keys)
    return tuple(each for each in found if each is not None)


_Seconds = dict[tuple[str, str], list[tuple[int, Array]]]  # by (arm, metric): run and series of each load level


def _seconds(timelines: Sequence[Timeline]) -> _Seconds:
    found: _Seconds = {}
    for each in timelines:
        series = {named(key): value for key, value in each.series.items()}
        for name in (metric.name for metric in METRICS):
            values = find_series(each, name)
            if values is not None:
                series[name] = values
        for name, values in series.items():
            found.setdefault((each.arm, name), []).append((each.run, values))
    return found


def _compare(
    evidence: Evidence, seconds: _Seconds, values: Values, name: str, scenario: str | None
) -> MetricFinding | None:
    known = find_observable(name)
    if known is None:
        return None
    described = (_describe(evidence, seconds, values, arm=arm, key=(name, scenario)) for arm in evidence.arms)
    arms = tuple(each for each in described if each is not None)
    if not any(arm.mean or arm.highest for arm in arms):
        return None
    return MetricFinding(metric=name, scenario=scenario, unit=known.metric.unit, better=known.metric.better, arms=arms)


def _describe(
    evidence: Evidence, seconds: _Seconds, values: Values, *, arm: Arm, key: tuple[str, str | None]
) -> ArmMetric | None:
    name, scenario = key
    by_block = {run.slot.block: values.get((run.id, name, scenario, ALL)) for run in evidence.runs_of(arm.name)}
    known = [value for value in by_block.values() if value is not None]
    if not known:
        return None
    series = seconds.get((arm.name, name), []) if scenario is None else []
    together = np.concatenate([np.empty(0), *(value for _, value in series)])
    together = together[~np.isnan(together)]
    median, lowest, highest = np.percentile(together, (50, 0, 100)) if together.size else (None, None, None)
    return ArmMetric(
        arm=arm.name,
        mean=sum(known) / len(known),
        median=median,
        lowest=lowest,
        highest=highest,
        change=_change(evidence, series),
        ratio=None if arm is evidence.control else _ratio(evidence, values, arm=arm, key=key),
        values=tuple(by_block.get(block) for block in sorted({slot.block for slot in evidence.slots})),
    )


def _change(evidence: Evidence, series: Sequence[tuple[int, Array]]) -> Estimate | None:
    """Mean over the runs, each the mean over its load levels: halves, because a run has no other order that is sure."""
    by_run: dict[int, list[float]] = {}
    for run, values in series:
        halves = [half[~np.isnan(half)] for half in np.array_split(values, 2)]
        if all(half.size for half in halves):
            by_run.setdefault(run, []).append(float(halves[1].mean() - halves[0].mean()))
    largest = max((float(np.nanmax(np.abs(values), initial=0.0)) for _, values in series), default=0.0)
    means = [sum(changes) / len(changes) for changes in by_run.values()]
    # What is left of a series that does not move is rounding.
    known = [0.0 if abs(mean) <= _ROUNDING * largest else mean for mean in means]
    return estimate_mean(known, confidence=evidence.confidence)


def _ratio(evidence: Evidence, values: Values, *, arm: Arm, key: tuple[str, str | None]) -> Estimate | None:
    if not evidence.pairs(arm.name):
        return None
    comparison = compare_metric(evidence, values, arm.name, (*key, ALL), comparisons=evidence.comparisons)
    if comparison.ratio is None:
        return None
    return Estimate(value=comparison.ratio, low=comparison.low, high=comparison.high)
