"""The disk of each arm: whether it stands at a limit or is slow, and what size of server it can feed.

At a limit the rate is the same whatever the clients ask for, second by second and level by level; of a slow disk it
follows the clients, and each request takes long. The first is judged by the plateau (stats/plateau.py) and by the rules
for limits (limit_rules/disk.py), against the limits that the file declares.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgtrial.analysis.causes import limit_thresholds as thresholds
from pgtrial.analysis.causes.disk_words import NEAR, tell_load, tell_size, tell_use
from pgtrial.analysis.causes.limit_rules.base import Facts, Scene
from pgtrial.analysis.causes.limit_rules.parts import busiest_device
from pgtrial.analysis.causes.sessions import (
    THROUGHPUT,
    estimate_mean,
    group_cells,
    pooled_mean,
    pooled_values,
    undisturbed_values,
)
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timeline import Array, Timeline
from pgtrial.experiment_file.disk_tables import LIMITS
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.causes import Limit, Resource, Suspect
from pgtrial.findings.disks import DiskCeiling, DiskLoad, DiskStanding, DiskUse, ServerSize
from pgtrial.findings.message import say
from pgtrial.findings.naming import name_level
from pgtrial.findings.record import Estimate
from pgtrial.language import tr
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel
from pgtrial.stats.plateau import BAND, LEAST_SHARE, Plateau, find_plateau
from pgtrial.units import parse_bytes

# Which rate of a device is held by a ceiling, how high, how steady, and whether it is the one that is declared.


_FEWEST_OF_RUN = 5  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rate:
    """A rate of a device: in words, its series, the best first, and the limit that a class can have of it.

    The control group counts requests where they are limited, the device after it has put neighbours together.
    """

    of: str
    metrics: tuple[str, ...]
    limit: str = ""

    @property
    def is_bytes(self) -> bool:
        return self.metrics[-1].endswith("bytes")


_RATES = (
    _Rate(of="reads", metrics=("cgroup.reads", "iostat.r"), limit="read_iops"),
    _Rate(of="writes", metrics=("cgroup.writes", "iostat.w"), limit="write_iops"),
    _Rate(of="requests", metrics=("iostat.iops",)),
    _Rate(of="read", metrics=("cgroup.read_bytes", "iostat.r_bytes"), limit="read_bytes"),
    _Rate(of="written", metrics=("cgroup.write_bytes", "iostat.w_bytes"), limit="write_bytes"),
    _Rate(of="read and written", metrics=("iostat.bytes",)),
)


def declared_limits(experiment: Experiment, arm: Arm) -> Mapping[str, float]:
    """Limits of the arm's disk in 1/s and B/s: of its class, or of its control group; {} for none."""
    found = {key: text for key, text in arm.knobs.get("cgroup", {}).items() if key in LIMITS}
    name = arm.disk
    if name is not None and name in experiment.disks:
        found |= experiment.disks[name].limits()
    return {key: parse_bytes(text) if key.endswith("bytes") else float(text) for key, text in found.items()}


def find_ceiling(
    timelines: Sequence[Timeline], device: str, *, declared: Mapping[str, float], hint: str, confidence: float
) -> DiskCeiling | None:
    """The rate that stands at a ceiling: at a declared one, else the one of the ``hint`` ("iostat.r/vda": what the
    rules for limits name), else the one that is pinned most. None where no rate is.
    """
    candidates = list(_candidates(timelines, device, declared=declared, confidence=confidence))
    declared_ones = [each for each in candidates if each.is_at_declared]
    named = [each for each in candidates if f"{each.metric}/{device}" == hint]
    plateaus = [each for each in candidates if each.is_plateau]
    for group in (declared_ones, named, plateaus):
        if group:
            return max(group, key=lambda each: each.pinned_share)
    return None


def _candidates(
    timelines: Sequence[Timeline], device: str, *, declared: Mapping[str, float], confidence: float
) -> Iterator[DiskCeiling]:
    requests, volume = (pooled_mean(timelines, metric, device) for metric in ("iostat.iops", "iostat.bytes"))
    if not requests or not volume:
        return
    for rate in _RATES:
        metric = next((name for name in rate.metrics if pooled_mean(timelines, name, device) is not None), None)
        mean = pooled_mean(timelines, metric, device) if metric else None
        if metric is None or not mean:
            continue
        limit = declared.get(rate.limit)
        # A kind of request that is only a small part is not what holds the load up, unless its limit is known.
        if limit is None and mean < thresholds.SERIES_SHARE * (volume if rate.is_bytes else requests):
            continue
        size = volume / requests if rate.is_bytes else 1.0
        rates = undisturbed_values(timelines, metric, device, steal=thresholds.PLATEAU_STEAL)
        plateau = find_plateau(rates, request=size)
        if plateau is None:
            continue
        yield DiskCeiling(
            of=rate.of,
            metric=metric,
            unit="B/s" if rate.is_bytes else "1/s",
            value=_by_block(timelines, metric, device, whole=plateau.ceiling, confidence=confidence),
            pinned_share=plateau.pinned_share,
            steadiness=plateau.steadiness if np.isfinite(plateau.steadiness) else None,
            free_steadiness=plateau.free_steadiness,
            is_plateau=plateau.is_plateau,
            declared=limit,
            is_at_declared=_is_at(limit, plateau),
        )


def _is_at(limit: float | None, plateau: Plateau) -> bool:
    return limit is not None and abs(plateau.ceiling / limit - 1) <= NEAR and plateau.pinned_share >= LEAST_SHARE


def _by_block(timelines: Sequence[Timeline], metric: str, device: str, *, whole: float, confidence: float) -> Estimate:
    """The ceiling with an interval over the blocks; of all seconds together where runs have too few of their own."""
    found = [_top(pooled_values((timeline,), metric, device), whole) for timeline in timelines]
    estimate = estimate_mean(found, confidence=confidence)
    return estimate if estimate is not None and None not in found else Estimate(value=whole)


def _top(values: Array, whole: float) -> float | None:
    """The ceiling of one run; its few seconds are enough for a value, not to call it a plateau.

    What lies near the ceiling of all runs, ``whole``; where a run has nothing there, what lies near its own highest.
    """
    if values.size < _FEWEST_OF_RUN:
        return None
    near = _near(values, whole)
    if near is not None:
        return near
    highest = float(np.percentile(values, 95))
    return (_near(values, highest) or highest) if highest > 0 else None


def _near(values: Array, height: float) -> float | None:
    """Median of what lies near a height above zero; None where nothing does."""
    near = values[np.abs(values - height) <= BAND * height]
    return float(np.median(near)) if height > 0 and near.size else None


_LIMITED = (Resource.DISK_IOPS, Resource.DISK_THROUGHPUT)
_SLOW = (Resource.DISK_LATENCY, Resource.WAL_FLUSH)
_WHOLE = 0.05  # of a CPU, by which a number may be above a whole one and still be that


def describe_disks(evidence: Evidence, timelines: Sequence[Timeline], limits: Sequence[Limit]) -> tuple[DiskUse, ...]:
    """One record per arm of whose device there are samples, in the order of the experiment."""
    cells = group_cells(timelines)
    judged = {(limit.arm, limit.load_level): limit for limit in limits}
    found = []
    for arm in evidence.arms:
        mine = {level: cells[arm.name, level.index] for level in evidence.levels if (arm.name, level.index) in cells}
        device = _device(arm, mine)
        if device:
            found.append(_describe(evidence, arm, device=device, cells=mine, judged=judged))
    return tuple(found)


def _device(arm: Arm, cells: Mapping[LoadLevel, tuple[Timeline, ...]]) -> str:
    """The device with the most requests under way, over all load levels; "" where none was seen."""
    if not cells:
        return ""
    every = tuple(timeline for timelines in cells.values() for timeline in timelines)
    level = next(iter(cells))
    return busiest_device(Scene(arm=arm.name, level=level, timelines=every, budget=None, facts=Facts()))


def _describe(
    evidence: Evidence,
    arm: Arm,
    *,
    device: str,
    cells: Mapping[LoadLevel, tuple[Timeline, ...]],
    judged: Mapping[tuple[str, int], Limit],
) -> DiskUse:
    declared = declared_limits(evidence.experiment, arm)
    enforced = bool(declared.keys() & arm.knobs.get("cgroup", {}).keys())
    levels = tuple(
        _describe_level(
            evidence,
            level,
            device=device,
            timelines=timelines,
            limit=judged.get((arm.name, level.index)),
            declared=declared,
            is_enforced=enforced,
        )
        for level, timelines in sorted(cells.items(), key=lambda each: each[0].clients)
    )
    use = DiskUse(
        arm=arm.name,
        device=device,
        disk=arm.disk or "",
        is_emulated=arm.is_emulated,
        is_enforced=enforced,
        declared=dict(declared),
        levels=levels,
        spread=_spread(levels),
        size=_size(levels, {level.index: say(name_level(level)) for level in evidence.levels}, cells),
        text="",
    )
    return use.model_copy(update={"text": tell_use(use)})


def _describe_level(
    evidence: Evidence,
    level: LoadLevel,
    *,
    device: str,
    timelines: tuple[Timeline, ...],
    limit: Limit | None,
    declared: Mapping[str, float],
    is_enforced: bool,
) -> DiskLoad:
    def mean(metric: str, about: str = "") -> Estimate | None:
        # A machine's series is absent where arms shared the time of a block.
        values = [pooled_mean((timeline,), metric, about) for timeline in timelines]
        return estimate_mean(values, confidence=evidence.confidence)

    suspect = _disk_suspect(limit, (*_LIMITED, *_SLOW))
    hint = suspect.evidence[0].metric if suspect and suspect.resource in _LIMITED and suspect.evidence else ""
    ceiling = find_ceiling(timelines, device, declared=declared, hint=hint, confidence=evidence.confidence)
    busy = [_cpu_busy(timeline) for timeline in timelines]
    cpus = [cpus_in_use(timeline)[0] for timeline in timelines]
    load = DiskLoad(
        load_level=level.index,
        standing=_standing(limit, suspect, ceiling),
        ceiling=ceiling,
        throughput=mean(THROUGHPUT),
        reads=mean("iostat.r", device),
        writes=mean("iostat.w", device),
        read_bytes=mean("iostat.r_bytes", device),
        write_bytes=mean("iostat.w_bytes", device),
        read_size=mean("iostat.rareq", device),
        write_size=mean("iostat.wareq", device),
        read_latency=mean("iostat.r_await", device),
        write_latency=mean("iostat.w_await", device),
        queue=mean("iostat.aqu", device),
        iowait=mean("vmstat.wa"),
        cpu_busy=estimate_mean(busy, confidence=evidence.confidence),
        cpus=estimate_mean(cpus, confidence=evidence.confidence),
        text="",
    )
    text = tell_load(load, label=say(name_level(level)), suspect=suspect, declared=declared, is_enforced=is_enforced)
    return load.model_copy(update={"text": text})


def _disk_suspect(limit: Limit | None, resources: Sequence[Resource]) -> Suspect | None:
    """The strongest of the suspects that a disk is behind, if it is strong enough to be the limit."""
    if limit is None:
        return None
    found = [each for each in limit.suspects if each.resource in resources and each.strength >= thresholds.DECIDED]
    return max(found, key=lambda each: each.strength, default=None)


def _standing(limit: Limit | None, suspect: Suspect | None, ceiling: DiskCeiling | None) -> DiskStanding:
    if ceiling is not None and ceiling.is_at_declared:
        return DiskStanding.AT_LIMIT  # that there is a limit at just this rate is known
    if suspect is not None:
        return DiskStanding.AT_LIMIT if suspect.resource in _LIMITED else DiskStanding.SLOW
    return DiskStanding.UNKNOWN if limit is None else DiskStanding.NOT_LIMITING


def _cpu_busy(timeline: Timeline) -> float | None:
    parts = [pooled_mean((timeline,), f"vmstat.{name}") for name in ("us", "sy")]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def cpus_in_use(timeline: Timeline) -> tuple[float | None, str]:
    """CPUs that the server uses, and what that is taken from: the first of three sources that there is.

    The kernel's accounts of the server's processes; those of its control group; the machine's, less the load
    generator's where that is on it. Without any, None.
    """
    kinds = timeline.objects("server.cpu")
    found = [pooled_mean((timeline,), "server.cpu", kind) or 0.0 for kind in kinds]
    if sum(found) > 0:
        return sum(found), tr("the kernel's accounts of the server's processes")
    group = pooled_mean((timeline,), "cgroup.cpu")
    if group is not None:
        return group, tr("the kernel's account of the server's control group")
    busy, cpus = _cpu_busy(timeline), pooled_mean((timeline,), "vmstat.cpus")
    if busy is None or cpus is None:
        return None, ""
    generator = pooled_mean((timeline,), "pgbench.cpu") or 0.0
    return max(0.0, busy * cpus - generator), tr("CPU time of the machine less that of the load generator")


def _spread(levels: Sequence[DiskLoad]) -> float | None:
    """How far the ceilings of one rate are apart over the load levels at a limit, relative to their mean."""
    at_limit = [load.ceiling for load in levels if load.standing is DiskStanding.AT_LIMIT and load.ceiling]
    if len({ceiling.metric for ceiling in at_limit}) != 1 or len(at_limit) < 2:
        return None
    values = [ceiling.value.value for ceiling in at_limit]
    return (max(values) - min(values)) / (sum(values) / len(values))


def _size(
    levels: Sequence[DiskLoad], labels: Mapping[int, str], cells: Mapping[LoadLevel, tuple[Timeline, ...]]
) -> ServerSize | None:
    """CPUs in use at the highest load level at which the disk stands at a limit, else where most are in use."""
    known = [load for load in levels if load.cpus is not None and load.standing is not DiskStanding.UNKNOWN]
    limited = [load for load in known if load.standing is DiskStanding.AT_LIMIT]
    if not known:
        return None
    chosen = limited[-1] if limited else max(reversed(known), key=lambda load: load.cpus.value if load.cpus else 0.0)
    assert chosen.cpus is not None  # known is made of those that have it
    timelines = next(found for level, found in cells.items() if level.index == chosen.load_level)
    size = ServerSize(
        cpus=chosen.cpus,
        whole=_whole(chosen.cpus.value),
        load_level=chosen.load_level,
        source=cpus_in_use(timelines[0])[1],
        is_bound=not limited,
        text="",
    )
    text = tell_size(size, label=labels[chosen.load_level], standing=chosen.standing)
    return size.model_copy(update={"text": text})


def _whole(cpus: float) -> int:
    whole = int(cpus)
    return max(1, whole if cpus - whole <= _WHOLE else whole + 1)
