"""The disk of each arm: whether it stands at a limit or is slow, and what size of server it can feed.

At a limit the rate is the same whatever the clients ask for, second by second and level by level; of a slow disk it
follows the clients, and each request takes long. The first is judged by the plateau (stats/plateau.py) and by the rules
for limits (limit_rules/disk.py), against the limits that the file declares.
"""

from collections.abc import Mapping, Sequence

from pgtrial.analysis.causes import limit_thresholds as thresholds
from pgtrial.analysis.causes.disk_ceiling import declared_limits, find_ceiling
from pgtrial.analysis.causes.limit_rules.base import Facts, Scene
from pgtrial.analysis.causes.limit_rules.parts import busiest_device
from pgtrial.analysis.causes.sessions import THROUGHPUT, estimate_mean, group_cells, pooled_mean
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.causes import Limit, Resource, Suspect
from pgtrial.findings.message import Message, Value, message
from pgtrial.findings.naming import name_level
from pgtrial.findings.record import Estimate
from pgtrial.findings.storage import SAME_LIMIT, DiskCeiling, DiskLoad, DiskStanding, DiskUse, ServerSize, rate_of
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel

_LIMITED = (Resource.DISK_IOPS, Resource.DISK_THROUGHPUT)
_SLOW = (Resource.DISK_LATENCY, Resource.WAL_FLUSH)
_WHOLE = 0.05  # of a CPU, by which a number may be above a whole one and still be that


def describe_disks(evidence: Evidence, timelines: Sequence[Timeline], limits: Sequence[Limit]) -> tuple[DiskUse, ...]:
    """One record per arm of whose device there are samples, in the order of the experiment."""
    cells = group_cells(timelines)
    judged = {(limit.arm, limit.load_level): limit for limit in limits}
    uses = []
    for arm in evidence.arms:
        mine = {level: cells[arm.name, level.index] for level in evidence.levels if (arm.name, level.index) in cells}
        device = _device(arm, mine)
        if device:
            uses.append(_describe(evidence, arm, device=device, cells=mine, judged=judged))
    return tuple(uses)


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
        for level, timelines in sorted(cells.items(), key=lambda cell: cell[0].clients)
    )
    spread = _spread(levels)
    size = _size(levels, {level.index: level for level in evidence.levels}, cells)
    return DiskUse(
        arm=arm.name,
        device=device,
        disk=arm.disk or "",
        is_emulated=arm.is_emulated,
        is_enforced=enforced,
        declared=dict(declared),
        levels=levels,
        spread=spread,
        size=size,
        text=tell_use(levels, spread, size, is_emulated=arm.is_emulated, is_on_files=evidence.is_on_files),
    )


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
    means = {
        "throughput": mean(THROUGHPUT),
        "reads": mean("iostat.r", device),
        "writes": mean("iostat.w", device),
        "read_bytes": mean("iostat.r_bytes", device),
        "write_bytes": mean("iostat.w_bytes", device),
        "read_size": mean("iostat.rareq", device),
        "write_size": mean("iostat.wareq", device),
        "read_latency": mean("iostat.r_await", device),
        "write_latency": mean("iostat.w_await", device),
        "queue": mean("iostat.aqu", device),
        "iowait": mean("vmstat.wa"),
        "cpu_busy": estimate_mean(busy, confidence=evidence.confidence),
        "cpus": estimate_mean(cpus, confidence=evidence.confidence),
    }
    standing = _standing(limit, suspect, ceiling)
    if standing is DiskStanding.AT_LIMIT and ceiling is not None:
        text = tell_limit(name_level(level), ceiling, is_enforced=is_enforced)
    else:
        text = tell_load(
            name_level(level), standing, means, suspect=suspect, declared=declared, is_enforced=is_enforced
        )
    return DiskLoad(load_level=level.index, standing=standing, ceiling=ceiling, text=text, **means)


def _disk_suspect(limit: Limit | None, resources: Sequence[Resource]) -> Suspect | None:
    """The strongest of the suspects that a disk is behind, if it is strong enough to be the limit."""
    if limit is None:
        return None
    suspects = [suspect for suspect in limit.suspects if suspect.resource in resources]
    decided = [suspect for suspect in suspects if suspect.strength >= thresholds.DECIDED]
    return max(decided, key=lambda suspect: suspect.strength, default=None)


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


def cpus_in_use(timeline: Timeline) -> tuple[float | None, Message | None]:
    """CPUs that the server uses, and what that is taken from: the first of three sources that there is.

    The kernel's accounts of the server's processes; those of its control group; the machine's, less the load
    generator's where that is on it. Without any, None.
    """
    kinds = timeline.objects("server.cpu")
    used = sum(pooled_mean((timeline,), "server.cpu", kind) or 0.0 for kind in kinds)
    if used > 0:
        return used, message("cpu-source.processes")
    group = pooled_mean((timeline,), "cgroup.cpu")
    if group is not None:
        return group, message("cpu-source.control-group")
    busy, cpus = _cpu_busy(timeline), pooled_mean((timeline,), "vmstat.cpus")
    if busy is None or cpus is None:
        return None, None
    generator = pooled_mean((timeline,), "pgbench.cpu") or 0.0
    return max(0.0, busy * cpus - generator), message("cpu-source.machine")


def _spread(levels: Sequence[DiskLoad]) -> float | None:
    """How far the ceilings of one rate are apart over the load levels at a limit, relative to their mean."""
    at_limit = [load.ceiling for load in levels if load.standing is DiskStanding.AT_LIMIT and load.ceiling]
    if len({ceiling.metric for ceiling in at_limit}) != 1 or len(at_limit) < 2:
        return None
    values = [ceiling.value.value for ceiling in at_limit]
    return (max(values) - min(values)) / (sum(values) / len(values))


def _size(
    loads: Sequence[DiskLoad], levels: Mapping[int, LoadLevel], cells: Mapping[LoadLevel, tuple[Timeline, ...]]
) -> ServerSize | None:
    """CPUs in use at the highest load level at which the disk stands at a limit, else where most are in use."""
    known = [(load, load.cpus) for load in loads if load.cpus is not None and load.standing is not DiskStanding.UNKNOWN]
    limited = [(load, cpus) for load, cpus in known if load.standing is DiskStanding.AT_LIMIT]
    if not known:
        return None
    load, cpus = limited[-1] if limited else max(reversed(known), key=lambda pair: pair[1].value)
    level, whole = levels[load.load_level], _whole(cpus.value)
    values: dict[str, Value] = {"cpus": _tell_cpus(cpus), "level": name_level(level)}
    if limited:
        text = message("server-size", count=whole, **values)
    elif load.standing is DiskStanding.NOT_LIMITING:
        text = message("server-size.not-limiting", **values)
    else:
        text = message("server-size.slow", **values)
    return ServerSize(
        cpus=cpus,
        whole=whole,
        load_level=load.load_level,
        source=cpus_in_use(cells[level][0])[1],
        is_bound=not limited,
        text=text,
    )


def _tell_cpus(cpus: Estimate) -> Message:
    if cpus.low is None or cpus.high is None:
        return message("server-cpus", cpus=cpus.value)
    return message("server-cpus.with-interval", cpus=cpus.value, low=max(0.0, cpus.low), high=cpus.high)


def _whole(cpus: float) -> int:
    whole = int(cpus)
    return max(1, whole if cpus - whole <= _WHOLE else whole + 1)


# --- Which sentences tell it ----------------------------------------------------------------------------------------

_EXACT = 0.0005  # relative difference that is none in a sentence
_FAR_BELOW = 0.5  # of a limit

# Key of a declared limit, mean of a load level, and what the rate counts.
_LIMITED_RATES = (
    ("read_iops", "reads", "reads"),
    ("write_iops", "writes", "writes"),
    ("read_bytes", "read_bytes", "read"),
    ("write_bytes", "write_bytes", "written"),
)


def tell_limit(level: Message, ceiling: DiskCeiling, *, is_enforced: bool) -> Message:
    """A ceiling, and whose it is."""
    values: dict[str, Value] = {"level": level, "rate": ceiling.rate, "how": ceiling.how_steady}
    if ceiling.declared is None:
        return message("disk-load.undeclared", **values)
    code = "disk-declared.bytes" if ceiling.unit == "B/s" else "disk-declared.requests"
    declared, ratio = message(code, rate=ceiling.declared), ceiling.value.value / ceiling.declared
    if not ceiling.is_at_declared:
        code = "disk-load.above-declared" if ratio > 1 else "disk-load.below-declared"
        return message(code, **values, declared=declared)
    code = "disk-load.enforced" if is_enforced else "disk-load.provided"
    return message(code, **values, off=_tell_distance(ratio - 1, declared))


def _tell_distance(distance: float, declared: Message) -> Message:
    if abs(distance) < _EXACT:
        return message("disk-distance.none", declared=declared)
    code = "disk-distance.above" if distance > 0 else "disk-distance.below"
    return message(code, share=abs(distance), declared=declared)


def tell_load(
    level: Message,
    standing: DiskStanding,
    means: Mapping[str, Estimate | None],
    *,
    suspect: Suspect | None,
    declared: Mapping[str, float],
    is_enforced: bool,
) -> Message:
    """A load level at no ceiling; ``suspect`` is what the rules for limits say of the disk."""
    if standing is DiskStanding.UNKNOWN:
        return message("disk-load.unknown", level=level)
    if standing is DiskStanding.NOT_LIMITING:
        below = _tell_below(means, declared, is_enforced=False)
        if below is None:
            return message("disk-load.not-limiting", level=level)
        return message("disk-load.far-from-limit", level=level, below=below)
    is_slow = standing is DiskStanding.SLOW
    reasons = (
        suspect.evidence[0].text if suspect is not None and suspect.evidence else None,
        _tell_times(means),
        _tell_below(means, declared, is_enforced=is_enforced) if is_slow else None,
    )
    code = "disk-load.slow" if is_slow else "disk-load.at-limit"
    return message(code, level=level, reasons=tuple(reason for reason in reasons if reason))


def _tell_times(means: Mapping[str, Estimate | None]) -> Message | None:
    read, write, queue = means["read_latency"], means["write_latency"], means["queue"]
    takes = []  # a time is 0 where there was no such request
    if read is not None and read.value > 0:
        takes.append(message("disk-times.read", time=read.value))
    if write is not None and write.value > 0:
        takes.append(message("disk-times.write", time=write.value))
    if takes and queue is not None:
        return message("disk-times.with-queue", takes=tuple(takes), requests=queue.value)
    if queue is not None:
        return message("disk-times.queue", requests=queue.value)
    return message("disk-times", takes=tuple(takes)) if takes else None


def _tell_below(
    means: Mapping[str, Estimate | None], declared: Mapping[str, float], *, is_enforced: bool
) -> Message | None:
    """How far its rates stay below the declared limits; where pgtrial enforces them, and the rates are far below, that
    the disk itself is slower.
    """
    shares = [
        (rate.value / declared[key], rate_of(declared[key], of))
        for key, name, of in _LIMITED_RATES
        if key in declared and (rate := means[name]) is not None
    ]
    if not shares:
        return None
    # A mean that comes near a limit may well have reached it in many moments.
    is_slower = is_enforced and max(share for share, _ in shares) < _FAR_BELOW
    rates = tuple(message("disk-allowed", share=share, limit=limit) for share, limit in shares)
    return message("disk-below.slower" if is_slower else "disk-below", rates=rates)


def tell_use(
    levels: Sequence[DiskLoad], spread: float | None, size: ServerSize | None, *, is_emulated: bool, is_on_files: bool
) -> Message | None:
    """The disk of an arm in two or three sentences.

    Where a load on files ends is told by its own rules, so that here nothing is said of a disk that is at no limit.
    """
    at_limit = [load for load in levels if load.standing is DiskStanding.AT_LIMIT]
    slow = [load for load in levels if load.standing is DiskStanding.SLOW]
    sentences = [load.text for load in (at_limit or slow or (() if is_on_files else levels))[-1:]]
    if is_emulated:
        sentences.insert(0, message("disk-use.emulated"))
    if spread is not None:
        code = "disk-use.same-ceiling" if spread <= SAME_LIMIT else "disk-use.ceiling-differs"
        sentences.append(message(code, count=len(at_limit), share=spread))
    if size is not None:
        sentences.append(size.text)
    return message("sentences", parts=tuple(sentences)) if sentences else None
