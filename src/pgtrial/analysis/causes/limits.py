"""What limits each arm at each load level: the rules' suspects held against each other, with a plain answer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_rules import RULES, Facts, Scene
from pgtrial.analysis.causes.limit_rules.cpu import cpu_saturation
from pgtrial.analysis.causes.limit_rules.parts import is_lag
from pgtrial.analysis.causes.log_event import LogEvent
from pgtrial.analysis.causes.sessions import group_cells
from pgtrial.analysis.causes.words import join, join_clauses, number, percent
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.timeline import Timeline
from pgtrial.findings.causes import Evidence as Proof
from pgtrial.findings.causes import LatencyBudget, Limit, Resource, Suspect
from pgtrial.findings.message import say
from pgtrial.findings.naming import name_level
from pgtrial.language import N_, tr
from pgtrial.model.arm import Arm
from pgtrial.units import parse_bytes, parse_duration

_DISKS = (Resource.DISK_IOPS, Resource.DISK_THROUGHPUT, Resource.DISK_LATENCY)

# What a resource brings with it, so that it is no cause of its own beside it. Want of memory makes reads, sorting in
# temporary files makes writes and CPU time, checkpoints make the WAL grow by whole pages and its flushes slow.
EXPLAINS: Mapping[Resource, tuple[Resource, ...]] = {
    Resource.SWAP: (Resource.MEMORY, *_DISKS),
    Resource.MEMORY: _DISKS,
    Resource.WRITE_BACK: (*_DISKS, Resource.WAL_FLUSH, Resource.CHECKPOINTS),
    Resource.TEMPORARY_FILES: (*_DISKS, Resource.WRITE_BACK, Resource.CPU),
    Resource.CHECKPOINTS: (*_DISKS, Resource.WAL_FLUSH, Resource.LWLOCKS, Resource.CPU),
    Resource.AUTOVACUUM: (*_DISKS, Resource.WAL_FLUSH, Resource.LWLOCKS, Resource.CPU),
    Resource.LOAD_GENERATOR: (Resource.CLIENT,),
}

# Keys of the table "cgroup" of an arm, and the rates that they limit.
_LIMITED: Mapping[str, str] = {
    "read_iops": "cgroup.reads",
    "write_iops": "cgroup.writes",
    "read_bytes": "cgroup.read_bytes",
    "write_bytes": "cgroup.write_bytes",
}
_MOST_PARTS = 3  # of the latency, that a sentence names

_What = tuple[Resource, str]  # with its detail

_NAMES = {
    Resource.CPU: N_("the CPU"),
    Resource.DISK_THROUGHPUT: N_("the throughput of the disk"),
    Resource.DISK_IOPS: N_("the requests per second that the disk does"),
    Resource.DISK_LATENCY: N_("the time that the disk takes for a request"),
    Resource.WRITE_BACK: N_("write-back throttling"),
    Resource.LOCKS: N_("locks"),
    Resource.LWLOCKS: N_("LWLocks"),
    Resource.CHECKPOINTS: N_("checkpoints"),
    Resource.AUTOVACUUM: N_("autovacuum"),
    Resource.TEMPORARY_FILES: N_("temporary files"),
    Resource.LOAD_GENERATOR: N_("the load generator"),
    Resource.CLIENT: N_("the client"),
    Resource.WAL_FLUSH: N_("the flush of the WAL"),
    Resource.MEMORY: N_("too little memory"),
    Resource.SWAP: N_("swapping"),
    Resource.CONNECTIONS: N_("the number of connections"),
}


# By whether there are parts of the latency to name.
_KEEPS_UP = {
    True: N_(
        "Nothing limits {arm} with {level}: it keeps up with the rate at which transactions arrive; the latency is "
        "mostly {parts}."
    ),
    False: N_("Nothing limits {arm} with {level}: it keeps up with the rate at which transactions arrive."),
}
_UNDETERMINED = {
    True: N_("What limits {arm} with {level} is undetermined: {doubt}; the latency is mostly {parts}."),
    False: N_("What limits {arm} with {level} is undetermined: {doubt}."),
}


def gather_facts(
    evidence: Evidence, events: Sequence[LogEvent], *, cpus: int | None, reduction: Reduction | None = None
) -> Facts:
    """Facts that the record of an experiment has. ``cpus`` of the machine, which pgbench's threads default to."""
    workload = evidence.experiment.workload
    processes = 1 if workload.share == "transactions" else max(1, len(evidence.scenarios))
    threads = workload.threads or cpus
    connections: dict[str, int] = {}
    timeouts: dict[str, float] = {}
    compression: dict[str, str] = {}
    for arm in evidence.arms:
        for run in evidence.runs_of(arm.name):
            settings = evidence.settings.get(run.id, {})
            value, _ = settings.get("max_connections", ("", ""))
            if value.isdigit():
                connections[arm.name] = int(value)
            with suppress(ValueError):
                timeouts[arm.name] = parse_duration(settings.get("checkpoint_timeout", ("", ""))[0])
            method, _ = settings.get("wal_compression", ("off", ""))
            if method != "off":
                compression[arm.name] = method
    return Facts(
        events=tuple(events),
        max_connections=connections,
        # Each process has at most as many threads as clients; how many clients each has matters only with very few.
        device_limits={arm.name: dict(_device_limits(arm)) for arm in evidence.arms},
        threads={level.index: min(threads * processes, level.clients) for level in evidence.levels} if threads else {},
        in_turns=frozenset(run.id for run in evidence.valid if run.slices),
        checkpoint_timeouts=timeouts,
        wal_compression=compression,
        attempts=dict(_attempts(evidence, reduction)) if reduction is not None else {},
    )


def _attempts(evidence: Evidence, reduction: Reduction) -> Iterator[tuple[tuple[str, int], float]]:
    """Of all runs of an arm together."""
    for arm in evidence.arms:
        for level in evidence.levels:
            keys = [(run.id, level.index, None) for run in evidence.runs_of(arm.name)]
            found = [reduction.totals[key] for key in keys if key in reduction.totals]
            count = sum(totals.count for totals in found)
            if count:
                yield (arm.name, level.index), 1 + sum(totals.failed for totals in found) / count


def _device_limits(arm: Arm) -> Iterator[tuple[str, float]]:
    """Limits that the experiment gives an arm's control group, by the metric that has one."""
    for name, text in arm.knobs.get("cgroup", {}).items():
        metric = _LIMITED.get(name)
        if metric is not None:
            yield metric, parse_bytes(text) if name.endswith("bytes") else float(text)


def find_limits(
    evidence: Evidence, timelines: Sequence[Timeline], budgets: Sequence[LatencyBudget], facts: Facts
) -> tuple[Limit, ...]:
    """Per arm and load level of which there are samples, in the order of the experiment.

    Suspects are weighed by thresholds of causes/limit_thresholds.py; a suspect that goes along with a cause that brings
    it about loses up to half of its strength. The strongest one is the limit if it is strong enough by itself and the
    next one is clearly behind; otherwise the limit is undetermined, and the text says between what.
    """
    cells = group_cells(timelines)
    whole = {(b.arm, b.load_level): b for b in budgets if b.scenario is None}
    found = []
    for arm in evidence.arms:
        below: Scene | None = None
        for level in sorted(evidence.levels, key=lambda each: each.clients):
            key = (arm.name, level.index)
            if key not in cells and key not in whole:
                continue
            scene = Scene(
                arm=arm.name,
                level=level,
                timelines=cells.get(key, ()),
                budget=whole.get(key),
                facts=facts,
                below=below,
            )
            below = replace(scene, below=None)
            found.append(judge_scene(scene))
    order = [level.index for level in evidence.levels]
    arms = [arm.name for arm in evidence.arms]
    return tuple(sorted(found, key=lambda limit: (arms.index(limit.arm), order.index(limit.load_level))))


def judge_scene(scene: Scene) -> Limit:
    """The limit of one arm at one load level."""
    suspects = rank_suspects(suspect for rule in RULES for suspect in rule(scene) if suspect is not None)
    first = suspects[0] if suspects else None
    second = suspects[1] if len(suspects) > 1 else None
    is_strong = first is not None and first.strength >= limits.DECIDED
    is_apart = first is not None and (second is None or first.strength - second.strength >= limits.APART)
    named = first if is_strong and is_apart and not _keeps_up(scene) else None
    where = {"arm": scene.arm, "level": say(name_level(scene.level))}
    if named:
        reasons = join_clauses([proof.text for proof in named.evidence])
        text = tr(
            "{arm} with {level} is limited by {resource}: {reasons}.", **where, resource=_name(named), reasons=reasons
        )
    elif _keeps_up(scene):
        parts = _made_of(scene)
        text = tr(_KEEPS_UP[bool(parts)], **where, parts=parts)
    elif is_strong:
        close = [each for each in suspects if suspects[0].strength - each.strength < limits.APART]
        said = [f"{_name(suspect)} ({suspect.evidence[0].text})" for suspect in close]
        text = tr(
            "What limits {arm} with {level} is undetermined: as much speaks for {suspects}.",
            **where,
            suspects=join(said),
        )
    else:
        parts = _made_of(scene)
        text = tr(_UNDETERMINED[bool(parts)], **where, doubt=_describe_doubt(scene, first), parts=parts)
    return Limit(
        arm=scene.arm,
        load_level=scene.level.index,
        resource=named.resource if named else Resource.UNDETERMINED,
        detail=named.detail if named else "",
        text=text,
        suspects=suspects,
    )


def _keeps_up(scene: Scene) -> bool:
    """Whether the rate of an open loop is what limits throughput, as it is meant to."""
    if scene.level.rate is None or scene.throughput is None:
        return False
    return scene.throughput >= limits.KEPT_UP * scene.level.rate and (scene.share(is_lag) or 0) < limits.LITTLE_LAG


def _describe_doubt(scene: Scene, first: Suspect | None) -> str:
    saturation = cpu_saturation(scene)
    busy = saturation.evidence.text if saturation and saturation.evidence.metric.startswith("vmstat") else ""
    if first is not None:
        weakly = tr(
            "{resource} is suspected most, but weakly ({strength} of 1, {decided} would do)",
            resource=_name(first),
            strength=number(first.strength),
            decided=number(limits.DECIDED),
        )
        return f"{weakly}, {busy}" if busy else weakly
    if scene.budget is None:  # then most rules have nothing to go by
        unknown = tr("what its sessions do is not known")
        return f"{unknown}, {busy}" if busy else unknown
    if saturation and saturation.weight >= limits.DECIDED:
        return tr("{busy}, but transactions hardly use them", busy=busy)
    return tr("no resource is short, {busy}", busy=busy) if busy else tr("no resource is short")


def _made_of(scene: Scene) -> str:
    """ "IO WALSync 62 %, CPU 20 % and Client ClientRead 11 %"."""
    return join([f"{name} {percent(share)}" for name, share in scene.ranked_parts()][:_MOST_PARTS])


def rank_suspects(suspects: Iterable[Suspect]) -> tuple[Suspect, ...]:
    """One of each resource, strongest first, after what is explained by another was weakened."""
    found: dict[Resource, Suspect] = {}
    for suspect in suspects:
        if suspect.resource not in found or suspect.strength > found[suspect.resource].strength:
            found[suspect.resource] = suspect
    weighed = [_explain(suspect, found) for suspect in found.values()]
    listed = [suspect for suspect in weighed if suspect.strength >= limits.WORTH_LISTING]
    return tuple(sorted(listed, key=lambda suspect: (-suspect.strength, suspect.resource)))


def _explain(suspect: Suspect, found: Mapping[Resource, Suspect]) -> Suspect:
    causes = [
        cause
        for cause in found.values()
        if cause.strength >= limits.DECIDED and suspect.resource in EXPLAINS.get(cause.resource, ())
    ]
    if not causes:
        return suspect
    cause = max(causes, key=lambda each: each.strength)
    proof = Proof(
        metric=f"limit.{cause.resource}",
        value=cause.strength,
        unit="",
        threshold=limits.DECIDED,
        text=tr("{cause} brings this about", cause=_name(cause)),
    )
    return suspect.model_copy(
        update={
            "strength": suspect.strength * (1 - limits.EXPLAINED * cause.strength),
            "evidence": (*suspect.evidence, proof),
        }
    )


def _name(of: Suspect) -> str:
    """ "locks (transactionid)"."""
    return _name_resource(of.resource, of.detail)


def _name_resource(resource: Resource, detail: str) -> str:
    name = tr(_NAMES[resource])
    return f"{name} ({detail})" if detail else name


# By whether the limits of the arm and of the control are the same.
_AT_ALL = {
    True: N_("{arm} is limited by {limit}, as {control} is."),
    False: N_("{arm} is limited by {limit}, and {control} by {of_control}."),
}
_AT_LEVELS = {
    True: N_("with {levels} by {limit}, as {control} is"),
    False: N_("with {levels} by {limit}, and {control} by {of_control}"),
}


def what_changed(found: Sequence[Limit], control: str, *, labels: Mapping[int, str]) -> tuple[str, ...]:
    """How the limit of each other arm differs from the control's, one sentence per arm.

    ``labels`` are those of the load levels: "8 clients".
    """
    of_control = {limit.load_level: limit for limit in found if limit.arm == control}
    sentences = []
    for arm in dict.fromkeys(limit.arm for limit in found if limit.arm != control):
        # Levels with the same pair of limits are told together.
        pairs: dict[tuple[_What, _What], list[int]] = {}
        for limit in found:
            if limit.arm == arm and limit.load_level in of_control:
                pair = (_what(limit), _what(of_control[limit.load_level]))
                pairs.setdefault(pair, []).append(limit.load_level)
        clauses = []
        for (mine, other), levels in pairs.items():
            told = {"limit": _limit_name(*mine), "control": control, "of_control": _limit_name(*other)}
            if len(pairs) > 1:
                where = join([labels.get(level) or tr("level {level}", level=level) for level in levels])
                clauses.append(tr(_AT_LEVELS[mine == other], levels=where, **told))
            else:
                sentences.append(tr(_AT_ALL[mine == other], arm=arm, **told))
        if clauses:
            sentences.append(tr("{arm} is limited {limits}.", arm=arm, limits="; ".join(clauses)))
    return tuple(sentences)


def _what(limit: Limit) -> _What:
    return limit.resource, limit.detail


def _limit_name(resource: Resource, detail: str) -> str:
    if resource is Resource.UNDETERMINED:
        return tr("nothing that could be determined")
    return _name_resource(resource, detail)
