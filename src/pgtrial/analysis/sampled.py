"""Samples -> observations: one number per run and load level of whatever was sampled, and over all load levels.

A mean over the measured time; of a quotient the sum above the line over the sum below it. Over all load levels their
mean, as articles print it of a whole test; of what is said of dips see ``_of_all_levels``.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import observation
from pgtrial.analysis.reduction import Reduction, SessionGroup, sum_by_key
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.findings import Observation
from pgtrial.findings.record import ALL
from pgtrial.findings.session_time import CPU, IDLE_IN_TRANSACTION
from pgtrial.model import metrics
from pgtrial.model.formulas import TimelineMetric
from pgtrial.model.observable import OF_DEVICES
from pgtrial.model.series import WAIT, WAITS, find_metric
from pgtrial.stats.dips import Evenness, Steadiness, ThroughputDip, find_dips, find_evenness

_EDGE = 10  # s at both ends of a load level, whose medians are compared


def observe_samples(evidence: Evidence, timelines: Sequence[Timeline]) -> tuple[Observation, ...]:
    """Observations of the runs that the timelines are of. There is no "all" where a level has no value.

    What is of a device also goes by the name of the metric alone where it is the device that the data are on.
    """
    runs = {run.id: run for run in evidence.valid}
    by_run: dict[int, list[Timeline]] = {}
    for each in timelines:
        by_run.setdefault(each.run, []).append(each)
    devices = find_devices(evidence, timelines)
    return tuple(
        observation(runs[run], name, None, level, value)
        for run, mine in by_run.items()
        for level, values in _of_run(evidence, mine, devices[run]).items()
        for name, value in values.items()
    )


def find_devices(evidence: Evidence, timelines: Sequence[Timeline]) -> Mapping[int, str]:
    """By run, the device that its data are on; "" where none was seen.

    It is the one that was known before the load, so that arms with devices of their own are compared by these. Where
    some run does not know just one, as with an array, it is the busiest device of the control, and the same for all,
    whichever arms are looked at. By rules 14 it was the busiest of each arm: where two had as much to do, chance
    compared one with the other.
    """
    if not evidence.rules.fixes_devices:
        arms = {each.arm for each in timelines}
        busiest = {arm: find_device([each for each in timelines if each.arm == arm]) for arm in arms}
        return {each.run: busiest[each.arm] for each in timelines}
    seen: dict[int, set[str]] = {}
    for each in timelines:
        seen.setdefault(each.run, set()).update(about for name, about in each.means if name.startswith(OF_DEVICES))
    known = {run: _known_device(evidence, run, names) for run, names in seen.items()}
    if all(known.values()):
        return known
    control = "" if evidence.control is None else evidence.control.name
    return dict.fromkeys(known, find_device([each for each in timelines if each.arm == control] or timelines))


def _known_device(evidence: Evidence, run: int, seen: set[str]) -> str:
    """Of the devices that were ``seen`` in a run the one that the data's file system is on, or the disk below it; ""
    where that is none of them, or several.
    """
    source = evidence.fact("storage/data source", run).rpartition("/")[2]
    disks = evidence.fact("storage/data device", run).split(", ")
    for candidates in ({source}, set(disks), seen):
        if len(named := candidates & seen) == 1:
            return next(iter(named))
    return ""


def find_device(timelines: Sequence[Timeline]) -> str:
    """The device with the most requests under way; "" where none was seen."""
    queue = f"{OF_DEVICES}aqu"
    means = sum_by_key(
        (about, value) for each in timelines for (name, about), value in each.means.items() if name == queue
    )
    return max(means, key=lambda about: (means[about], about), default="")


def named(key: tuple[str, str]) -> str:
    """ "iostat.util/vda" of ("iostat.util", "vda")."""
    return "/".join(part for part in key if part)


def _of_run(evidence: Evidence, timelines: Sequence[Timeline], device: str) -> Mapping[int | str, Mapping[str, float]]:
    found: dict[int | str, Mapping[str, float]] = {
        each.level: {
            **_series(each, device),
            **_steadiness(evidence, each),
            # One swap grows over the slices of all arms.
            **({} if each.run in evidence.sliced else _swap_growth(each)),
        }
        for each in timelines
    }
    if {level.index for level in evidence.levels} == set(found):
        found[ALL] = _of_all_levels(tuple(found.values()))
    return found


def _series(timeline: Timeline, device: str) -> Mapping[str, float]:
    found = {named(key): value for key, value in timeline.means.items()}
    together: dict[str, float] = {}
    for (name, about), value in timeline.means.items():
        metric = find_metric(name)
        if not about or metric is None:
            continue
        if name.startswith(OF_DEVICES):
            if about == device:
                together[name] = value
        elif not (isinstance(metric, TimelineMetric) and metric.per):  # quotients do not add up
            together[name] = together.get(name, 0.0) + value
    return {**together, **found}


def _time_to_recover(dip: ThroughputDip) -> float:
    """From its lowest point; of one that does not recover in the measured time, as long as that was seen."""
    return dip.start + dip.length - dip.lowest_at if dip.recovery is None else dip.recovery


def _deepest(of: Callable[[ThroughputDip], float | None]) -> Callable[[Steadiness], float]:
    return lambda steadiness: max((value for dip in steadiness.dips if (value := of(dip)) is not None), default=0.0)


_OF_EVENNESS: Mapping[str, Callable[[Evenness], float | None]] = {
    metrics.LOWEST.name: lambda evenness: evenness.lowest,
    metrics.HIGHEST.name: lambda evenness: evenness.highest,
    metrics.VARIATION.name: lambda evenness: evenness.coefficient_of_variation,
    metrics.STALLED.name: lambda evenness: evenness.stalled_share,
}
_OF_DIPS: Mapping[str, Callable[[Steadiness], float]] = {
    metrics.DIP_SHARE.name: lambda steadiness: steadiness.dip_share,
    metrics.DIP_DEPTH.name: _deepest(lambda dip: dip.depth),
    metrics.DIP_LENGTH.name: _deepest(lambda dip: dip.length),
    metrics.RECOVERY.name: _deepest(_time_to_recover),
}
_FLOORS = {metric.name: metric.floor for metric in metrics.STEADINESS}


def _steadiness(evidence: Evidence, timeline: Timeline) -> Mapping[str, float]:
    """Where nothing is committed most of the time there are no dips, but all else is defined; rules 14 had neither."""
    even, dips = find_evenness(timeline.tps), find_dips(timeline.tps)
    if even is None or (dips is None and not evidence.rules.needs_every_value):
        return {}
    found = {name: read(even) for name, read in _OF_EVENNESS.items()}
    if dips is not None:
        found |= {name: read(dips) for name, read in _OF_DIPS.items()}
    return {name: float(value) for name, value in found.items() if value is not None}


def _swap_growth(timeline: Timeline) -> Mapping[str, float]:
    grown = find_swap_growth(timeline)
    return {} if grown is None else {metrics.SWAP_GROWTH.name: grown}


def find_swap_growth(timeline: Timeline) -> float | None:
    """Bytes that the swap in use grew by, from the first seconds to the last; a decrease is no growth."""
    used = timeline.get("vmstat.swpd")
    known = used[~np.isnan(used)] if used is not None else np.empty(0)
    if known.size < 2:
        return None
    edge = min(_EDGE, known.size // 2)
    return max(0.0, float(np.median(known[-edge:]) - np.median(known[:edge])))


def _of_all_levels(levels: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """The mean; of how evenly the load runs the geometric mean, so that every level weighs the same whatever its
    throughput, and of what grows the sum.
    """
    return dict(_together(levels))


def _together(levels: Sequence[Mapping[str, float]]) -> Iterator[tuple[str, float]]:
    for name in levels[0]:
        values = [level[name] for level in levels if name in level]
        if len(values) < len(levels):
            continue
        if name == metrics.SWAP_GROWTH.name:
            yield name, sum(values)
        elif name in _FLOORS:
            yield name, math.exp(math.fsum(math.log(max(value, _FLOORS[name])) for value in values) / len(values))
        else:
            yield name, math.fsum(values) / len(values)


# Of each scenario that has sessions of its own: how many of them are in each wait.


_ACTIVE = "active"


def observe_scenarios(evidence: Evidence, reduction: Reduction) -> tuple[Observation, ...]:
    """Average sessions of a scenario by type and by event of wait, by load level and over all of them, their mean.

    A wait that another run of the scenario had is zero where it was not seen. () where one process of the load
    generator runs all scenarios: nobody knows then whose a session is.
    """
    if not evidence.experiment.workload.has_own_sessions:
        return ()
    return tuple(each for scenario in evidence.scenarios for each in _of_scenario(evidence, reduction, scenario))


def _of_scenario(evidence: Evidence, reduction: Reduction, scenario: str) -> Iterator[Observation]:
    valid = {run.id for run in evidence.valid}
    found = {cell: _sessions_of(groups, scenario) for cell, groups in reduction.sessions.items() if cell[0] in valid}
    names = sorted({name for values in found.values() for name in values})
    for run in evidence.valid:
        levels = [level.index for level in evidence.levels if (run.id, level.index) in found]
        for name in names:
            values = [found[run.id, level].get(name, 0.0) for level in levels]
            for level, value in zip(levels, values, strict=True):
                yield observation(run, name, scenario, level, value)
            if values and len(values) == len(evidence.levels):
                yield observation(run, name, scenario, ALL, sum(values) / len(values))


def _sessions_of(groups: tuple[SessionGroup, ...], scenario: str) -> dict[str, float]:
    """By the names of samples of all scenarios together (model/series.py)."""
    mine = [group for group in groups if group.scenario == scenario]
    active = (group for group in mine if group.state == _ACTIVE)
    idle = sum((group.sessions for group in mine if group.state.startswith(IDLE_IN_TRANSACTION)), start=0.0)
    return {
        "sessions.active": 0.0,
        "sessions.idle_in_transaction": idle,
        **sum_by_key((name, group.sessions) for group in active for name in _names(group)),
    }


def _names(group: SessionGroup) -> tuple[str, ...]:
    kind = group.wait_type or CPU
    return "sessions.active", WAITS + kind, named((WAIT + kind, group.wait_event))
