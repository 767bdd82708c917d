"""What limits each arm at each load level: the rules' suspects held against each other, with a plain answer."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_contrast import tell_apart
from pgtrial.analysis.causes.limit_rules import RULES, Facts, Scene
from pgtrial.analysis.causes.limit_rules.base import PartFilter, Relief
from pgtrial.analysis.causes.limit_rules.cpu import cpu_saturation
from pgtrial.analysis.causes.limit_rules.parts import (
    is_cpu,
    is_data,
    is_lag,
    is_lock,
    is_lwlock,
    is_sleep,
    is_temporary,
    is_wal,
)
from pgtrial.analysis.causes.pareto import count_statements
from pgtrial.analysis.causes.sessions import WaitEvent, group_cells
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.log_pairing import LogEvent
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.causes import Limit, LimitEvidence, Resource, Suspect
from pgtrial.findings.message import Message, Value, message, say
from pgtrial.findings.naming import name_level
from pgtrial.findings.session_time import BudgetDifference, LatencyBudget
from pgtrial.model.arm import Arm
from pgtrial.model.run import RunRow
from pgtrial.units import parse_bytes, parse_duration, read_count

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
    # A flush is as slow as the device that has to do it.
    Resource.DISK_IOPS: (Resource.WAL_FLUSH,),
    Resource.DISK_THROUGHPUT: (Resource.WAL_FLUSH,),
}

# The parts of the latency that a resource stands for, of which it can be said in which statement they are.
_PARTS: Mapping[Resource, tuple[PartFilter, ...]] = {
    Resource.CPU: (is_cpu,),
    Resource.DISK_IOPS: (is_data, is_temporary, is_wal),
    Resource.DISK_THROUGHPUT: (is_data, is_temporary, is_wal),
    Resource.DISK_LATENCY: (is_data, is_temporary),
    Resource.LOCKS: (is_lock,),
    Resource.LWLOCKS: (is_lwlock,),
    Resource.WAL_FLUSH: (is_wal,),
    Resource.TEMPORARY_FILES: (is_temporary,),
    Resource.CLIENT: (is_sleep,),
}

# Keys of the table "cgroup" of an arm, and the rates that they limit.
LIMITED: Mapping[str, str] = {
    "read_iops": "cgroup.reads",
    "write_iops": "cgroup.writes",
    "read_bytes": "cgroup.read_bytes",
    "write_bytes": "cgroup.write_bytes",
}
STATEMENT = "sessions.statement"  # what is said of one in the evidence
_MOST_PARTS = 3  # of the latency, that a sentence names
_MOST_REASONS = 3
# Codes of how a limit differs from the control's: at every level, and at some.
_OTHER = ("limit-change.other", "limit-change.other-at")
_OPEN = ("limit-change.open", "limit-change.open-at")

_NAMES = {
    Resource.CPU: "resource.cpu",
    Resource.DISK_THROUGHPUT: "resource.disk-throughput",
    Resource.DISK_IOPS: "resource.disk-iops",
    Resource.DISK_LATENCY: "resource.disk-latency",
    Resource.WRITE_BACK: "resource.write-back",
    Resource.LOCKS: "resource.locks",
    Resource.LWLOCKS: "resource.lwlocks",
    Resource.CHECKPOINTS: "resource.checkpoints",
    Resource.AUTOVACUUM: "resource.autovacuum",
    Resource.TEMPORARY_FILES: "resource.temporary-files",
    Resource.LOAD_GENERATOR: "resource.load-generator",
    Resource.CLIENT: "resource.client",
    Resource.WAL_FLUSH: "resource.wal-flush",
    Resource.MEMORY: "resource.memory",
    Resource.SWAP: "resource.swap",
    Resource.CONNECTIONS: "resource.connections",
    Resource.UNDETERMINED: "resource.undetermined",
}


def gather_facts(
    evidence: Evidence,
    events: Sequence[LogEvent],
    *,
    cpus: int | None,
    reduction: Reduction | None = None,
    budgets: Sequence[LatencyBudget] = (),
    differences: Sequence[BudgetDifference] = (),
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
            if (most := read_count(value)) is not None:
                connections[arm.name] = most
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
        reliefs=_find_reliefs(budgets, differences),
        statements=dict(_find_statements(evidence, reduction)) if reduction is not None else {},
    )


def _find_reliefs(
    budgets: Sequence[LatencyBudget], differences: Sequence[BudgetDifference]
) -> Mapping[tuple[str, int], Sequence[Relief]]:
    """Differences whose interval excludes zero, of the arm that takes longer."""
    latencies = {(b.arm, b.load_level): b.latency.value for b in budgets if b.scenario is None}
    found: dict[tuple[str, int], list[Relief]] = {}
    for each in differences:
        level, low, high = each.load_level, each.difference.low, each.difference.high
        if not isinstance(level, int) or low is None or high is None or low <= 0 <= high:
            continue
        slower, other, sign = (each.arm, each.control, 1) if low > 0 else (each.control, each.arm, -1)
        latency = latencies.get((slower, level), 0.0)
        if latency > 0:
            relief = Relief(
                other=other,
                latency=latency,
                saved=sign * each.difference.value,
                parts={(part.kind, part.event): sign * part.seconds.value for part in each.parts},
            )
            found.setdefault((slower, level), []).append(relief)
    return found


def _find_statements(
    evidence: Evidence, reduction: Reduction
) -> Iterator[tuple[tuple[str, int], Mapping[WaitEvent, Mapping[str, float]]]]:
    """Of all runs of an arm together."""
    for arm in evidence.arms:
        for level in evidence.levels:
            runs = [(run, level.index) for run in evidence.runs_of(arm.name)]
            by_kind: dict[WaitEvent, dict[str, float]] = {}
            for text, kinds in count_statements(reduction, runs).items():
                for kind, sessions in kinds.items():
                    by_kind.setdefault(kind, {})[text] = sessions
            yield (arm.name, level.index), by_kind


def _attempts(evidence: Evidence, reduction: Reduction) -> Iterator[tuple[tuple[str, int], float]]:
    """Of all runs of an arm together."""
    for arm in evidence.arms:
        for level in evidence.levels:
            keys = [(run.id, level.index, None) for run in evidence.runs_of(arm.name)]
            totals = [reduction.totals[key] for key in keys if key in reduction.totals]
            count = sum(total.count for total in totals)
            if count:
                yield (arm.name, level.index), 1 + sum(total.failed for total in totals) / count


def _device_limits(arm: Arm) -> Iterator[tuple[str, float]]:
    """Limits that the experiment gives an arm's control group, by the metric that has one."""
    for name, text in arm.knobs.get("cgroup", {}).items():
        metric = LIMITED.get(name)
        if metric is not None:
            yield metric, parse_bytes(text) if name.endswith("bytes") else float(text)


def find_limits(
    evidence: Evidence,
    timelines: Sequence[Timeline],
    budgets: Sequence[LatencyBudget],
    facts: Facts,
    *,
    of_runs: Mapping[tuple[int, int], LatencyBudget],
) -> tuple[Limit, ...]:
    """Per arm and load level of which there are samples, in the order of the experiment.

    ``of_runs`` : the budgets of single runs by run and load level, by which limits of arms are told apart.

    Suspects are weighed by thresholds of causes/limit_thresholds.py; a suspect that goes along with a cause that brings
    it about loses up to half of its strength. The strongest one is the limit if it is strong enough by itself and the
    next one is clearly behind; otherwise the limit is undetermined, and the text says between what.
    """
    cells = group_cells(timelines)
    whole = {(b.arm, b.load_level): b for b in budgets if b.scenario is None}
    judged = []
    for arm in evidence.arms:
        mine = {level: cell for (name, level), cell in cells.items() if name == arm.name}
        split = {
            level: budget for (name, level), budget in whole.items() if name == arm.name and isinstance(level, int)
        }
        judged += [judge_scene(scene) for scene in _set_scenes(evidence, arm.name, mine, split, facts)]
    order = [level.index for level in evidence.levels]
    arms = [arm.name for arm in evidence.arms]
    in_order = sorted(judged, key=lambda limit: (arms.index(limit.arm), order.index(limit.load_level)))

    def scene_of(run: RunRow, level: int) -> Scene | None:
        single = {each.level: (each,) for each in timelines if each.run == run.id}
        split = {at: budget for (number, at), budget in of_runs.items() if number == run.id}
        # What the arms save is known of all blocks together, not of one.
        scenes = _set_scenes(evidence, run.slot.arm, single, split, replace(facts, reliefs={}))
        return next((scene for scene in scenes if scene.level.index == level), None)

    return tell_apart(evidence, in_order, scene_of)


def _set_scenes(
    evidence: Evidence,
    arm: str,
    cells: Mapping[int, tuple[Timeline, ...]],
    budgets: Mapping[int, LatencyBudget],
    facts: Facts,
) -> Iterator[Scene]:
    """Of an arm at each load level of which there are samples, the fewest clients first."""
    below: Scene | None = None
    for level in sorted(evidence.levels, key=lambda level: level.clients):
        if level.index not in cells and level.index not in budgets:
            continue
        scene = Scene(
            arm=arm,
            level=level,
            timelines=cells.get(level.index, ()),
            budget=budgets.get(level.index),
            facts=facts,
            below=below,
        )
        below = replace(scene, below=None)
        yield scene


def judge_scene(scene: Scene) -> Limit:
    """The limit of one arm at one load level."""
    ranked = rank_suspects(suspect for rule in RULES for suspect in rule(scene) if suspect is not None)
    suspects = tuple(_name_statement(scene, suspect) for suspect in ranked)
    first = suspects[0] if suspects else None
    second = suspects[1] if len(suspects) > 1 else None
    is_strong = first is not None and first.strength >= limits.DECIDED
    is_apart = first is not None and (second is None or first.strength - second.strength >= limits.APART)
    named = first if is_strong and is_apart and not _keeps_up(scene) else None
    return Limit(
        arm=scene.arm,
        load_level=scene.level.index,
        resource=named.resource if named else Resource.UNDETERMINED,
        detail=named.detail if named else "",
        text=_tell_limit(scene, suspects, named, is_strong=is_strong),
        suspects=suspects,
    )


def _name_statement(scene: Scene, suspect: Suspect) -> Suspect:
    """With the statement in which most of what speaks for it is spent."""
    mostly = scene.statement_in(*_PARTS.get(suspect.resource, ()))
    if mostly is None:
        return suspect
    text = message("limit.statement", share=mostly.share, statement=mostly.text)
    proof = LimitEvidence(metric=STATEMENT, value=mostly.share, unit="share", threshold=None, text=text)
    return suspect.model_copy(update={"evidence": (*suspect.evidence, proof)})


def _tell_limit(scene: Scene, suspects: Sequence[Suspect], named: Suspect | None, *, is_strong: bool) -> Message:
    where: dict[str, Value] = {"arm": scene.arm, "level": name_level(scene.level)}
    if named:
        proofs = [proof for proof in named.evidence if proof.metric != STATEMENT][:_MOST_REASONS]
        proofs += [proof for proof in named.evidence if proof.metric == STATEMENT]
        reasons = tuple(proof.text for proof in proofs)
        return message("limit.resource", **where, resource=name_resource(named), reasons=reasons)
    if is_strong and not _keeps_up(scene):
        close = [suspect for suspect in suspects if suspects[0].strength - suspect.strength < limits.APART]
        told = tuple(message("limit.suspect", resource=name_resource(s), reason=s.evidence[0].text) for s in close)
        return message("limit.several", **where, suspects=told)
    parts = tuple(scene.name_parts())[:_MOST_PARTS]
    if _keeps_up(scene):
        return message("limit.rate-with-parts", **where, parts=parts) if parts else message("limit.rate", **where)
    doubt = _describe_doubt(scene, suspects[0] if suspects else None)
    if not parts:
        return message("limit.undetermined", **where, doubt=doubt)
    return message("limit.undetermined-with-parts", **where, doubt=doubt, parts=parts)


def _keeps_up(scene: Scene) -> bool:
    """Whether the rate of an open loop is what limits throughput, as it is meant to."""
    if scene.level.rate is None or scene.throughput is None:
        return False
    return scene.throughput >= limits.KEPT_UP * scene.level.rate and (scene.share(is_lag) or 0) < limits.LITTLE_LAG


def _describe_doubt(scene: Scene, first: Suspect | None) -> Message:
    saturation = cpu_saturation(scene)
    busy = saturation.evidence.text if saturation and saturation.evidence.metric.startswith("vmstat") else None
    if first is not None:
        doubt = message("doubt.weak", resource=name_resource(first), strength=first.strength, decided=limits.DECIDED)
    elif scene.budget is None:  # then most rules have nothing to go by
        doubt = message("doubt.unknown-sessions")
    elif saturation and saturation.weight >= limits.DECIDED:
        return message("doubt.unused-cpus", busy=saturation.evidence.text)
    else:
        return message("doubt.nothing-short-busy", busy=busy) if busy else message("doubt.nothing-short")
    return message("doubt.busy-too", doubt=doubt, busy=busy) if busy else doubt


def rank_suspects(suspects: Iterable[Suspect]) -> tuple[Suspect, ...]:
    """One of each resource, strongest first, after what is explained by another was weakened."""
    strongest: dict[Resource, Suspect] = {}
    for suspect in suspects:
        if suspect.resource not in strongest or suspect.strength > strongest[suspect.resource].strength:
            strongest[suspect.resource] = suspect
    weighed = [_explain(suspect, strongest.values()) for suspect in strongest.values()]
    listed = [suspect for suspect in weighed if suspect.strength >= limits.WORTH_LISTING]
    return tuple(sorted(listed, key=lambda suspect: (-suspect.strength, suspect.resource)))


def _explain(suspect: Suspect, others: Collection[Suspect]) -> Suspect:
    causes = [
        cause
        for cause in others
        if cause.strength >= limits.DECIDED and suspect.resource in EXPLAINS.get(cause.resource, ())
    ]
    if not causes:
        return suspect
    cause = max(causes, key=lambda cause: cause.strength)
    proof = LimitEvidence(
        metric=f"limit.{cause.resource}",
        value=cause.strength,
        unit="",
        threshold=limits.DECIDED,
        text=message("clue.explained", cause=name_resource(cause)),
    )
    return suspect.model_copy(
        update={
            "strength": suspect.strength * (1 - limits.EXPLAINED * cause.strength),
            "evidence": (*suspect.evidence, proof),
        }
    )


def name_resource(about: Suspect | Limit) -> Message:
    """ "locks (transactionid)"."""
    resource = message(_NAMES[about.resource])
    return message("resource.detailed", resource=resource, detail=about.detail) if about.detail else resource


def what_changed(told: Sequence[Limit], control: str, *, labels: Mapping[int, Message]) -> tuple[Message, ...]:
    """How the limit of each other arm differs from the control's, one sentence per arm.

    Whether it does is left open where it may be chance. ``labels`` are those of the load levels: "8 clients".
    """
    of_control = {limit.load_level: limit for limit in told if limit.arm == control}
    sentences = []
    for arm in dict.fromkeys(limit.arm for limit in told if limit.arm != control):
        # Levels with the same pair of limits are told together.
        pairs: dict[tuple[str, str, bool], list[tuple[Limit, Limit]]] = {}
        for limit in told:
            if limit.arm == arm and limit.load_level in of_control:
                mine, other = _without_chance(limit, of_control[limit.load_level])
                key = (say(name_resource(mine)), say(name_resource(other)), bool(limit.is_apart))
                pairs.setdefault(key, []).append((mine, other))
        clauses = []
        for (own, others, is_apart), alike in pairs.items():
            names: dict[str, Value] = {"control": control, "limit": name_resource(alike[0][0])}
            whole, part = "limit-change.same", "limit-change.same-at"
            if own != others:
                names["of_control"] = name_resource(alike[0][1])
                whole, part = _OTHER if is_apart else _OPEN
            if len(pairs) > 1:
                levels = tuple(_name_level(limit.load_level, labels) for limit, _ in alike)
                clauses.append(message(part, levels=levels, **names))
            else:
                sentences.append(message(whole, arm=arm, **names))
        if clauses:
            sentences.append(message("limit-change.by-level", arm=arm, limits=tuple(clauses)))
    return tuple(sentences)


def _without_chance(limit: Limit, other: Limit) -> tuple[Limit, Limit]:
    """Both without their details where these are all they differ by: which wait is the largest is soon chance."""
    if limit.resource is not other.resource or limit.detail == other.detail:
        return limit, other
    mine, its = (each.model_copy(update={"detail": ""}) for each in (limit, other))
    return mine, its


def _name_level(level: int, labels: Mapping[int, Message]) -> Message:
    return labels[level] if level in labels else message("level.number", level=level)
