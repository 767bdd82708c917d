"""The plan and the runs as plain facts for the report."""

from collections.abc import Iterable, Sequence

from pgtrial.analysis.evidence import Evidence, measured
from pgtrial.analysis.observations import Values
from pgtrial.analysis.slices import counted_seconds, windows
from pgtrial.analysis.world.fingerprint import collect_facts
from pgtrial.design.data_size import arm_scales, largest_files
from pgtrial.experiment_file.workload_table import COMMAND, TPCC, WarmupTable, WorkloadTable
from pgtrial.findings.catalogue.method import METHOD_REASONS
from pgtrial.findings.findings import GUARD, OTHER, ArmFinding, ExperimentFinding, LevelFinding, Overhead, RunFinding
from pgtrial.findings.message import Message, message, verbatim
from pgtrial.findings.naming import name_level
from pgtrial.findings.record import ALL
from pgtrial.knobs.workload import UNIT
from pgtrial.model.run import LoadLevel, Phase, PhaseName, RunRow, RunState
from pgtrial.store.plans import DIGEST, REVISION

# Fact of the fingerprint, and what the report calls it (FACT_NAMES of the catalogue).
_TARGET = {
    "PostgreSQL/version": "postgres version",
    "PostgreSQL/programs": "programs",
    "PostgreSQL/found by": "found by",
    "storage/data directory": "data directory",
    "load generator/fio": "fio version",
}

_DATA = {"pgbench": "data.scale", TPCC: "data.warehouses"}


def describe_experiment(evidence: Evidence) -> ExperimentFinding:
    experiment = evidence.experiment
    facts = collect_facts(evidence)
    started = [run.started for run in evidence.runs if run.started is not None]
    ended = [run.ended for run in evidence.runs if run.ended is not None]
    done = {run.slot.number for run in evidence.valid}
    reason = evidence.method.reason  # one that names other methods stays as it was recorded
    return ExperimentFinding(
        name=experiment.experiment.name,
        description=experiment.experiment.description,
        started=min(started, default=None),
        ended=max(ended, default=None),
        complete=bool(evidence.slots) and all(slot.number in done for slot in evidence.slots),
        method=evidence.method.method,
        method_reason=_name_reason(reason),
        restore=experiment.restore,
        seed=evidence.seed,
        rules=evidence.rules.version,
        digest=evidence.meta.get(DIGEST, ""),
        registered=evidence.created,
        attempts_before=evidence.attempts_before,
        revision=evidence.meta.get(REVISION, ""),
        blocks_planned=len({slot.block for slot in evidence.slots}),
        blocks_complete=len(evidence.complete_blocks()),
        workload=_describe_workload(evidence),
        target={
            "kind": experiment.target.kind,
            **{label: facts[name] for name, label in _TARGET.items() if name in facts},
        },
        scenarios=evidence.scenarios,
        arms=tuple(
            ArmFinding(
                name=arm.name,
                role=arm.role,
                settings=dict(arm.own_settings),
                knobs={knob: dict(table) for knob, table in arm.own_knobs.items()},
                version=_version_of(evidence, arm.name),
                disk=arm.disk or "",
                is_emulated=arm.is_emulated,
                runs_done=len(evidence.runs_of(arm.name)),
                runs_invalid=sum(run.state is RunState.INVALID and run.slot.arm == arm.name for run in evidence.runs),
            )
            for arm in evidence.arms
        ),
        levels=tuple(
            LevelFinding(index=level.index, clients=level.clients, rate=level.rate, label=name_level(level))
            for level in evidence.levels
        ),
    )


def _name_reason(recorded: str) -> Message | None:
    """Why the method was chosen: of the catalogue, or as it was recorded where it names other methods."""
    if not recorded:
        return None
    for code, entry in METHOD_REASONS.items():
        if entry.text == recorded:
            return message(code)
    return verbatim(recorded)


def _version_of(evidence: Evidence, arm: str) -> str:
    """Version of the server of an arm's runs, without what its packager adds; all of them if it changed."""
    told = [evidence.settings.get(run.id, {}).get("server_version", ("", ""))[0] for run in evidence.runs_of(arm)]
    return ", ".join(dict.fromkeys(version.split()[0] for version in told if version))


def describe_runs(evidence: Evidence, values: Values) -> tuple[RunFinding, ...]:
    """Every attempt in the order it was made, valid or not."""
    return tuple(
        RunFinding(
            id=run.id,
            slot=run.slot.number,
            block=run.slot.block,
            position=run.slot.position,
            arm=run.slot.arm,
            attempt=run.attempt,
            state=run.state,
            reason=run.reason,
            started=run.started,
            ended=run.ended,
            phases=tuple(
                {
                    "name": phase.name,
                    "level": phase.level,
                    "start": phase.start,
                    "end": phase.end,
                    "seconds": _seconds(run, phase),
                }
                for phase in run.phases
            ),
            tps=values.get((run.id, evidence.load.throughput.name, None, ALL)),
            overhead=overhead_seconds(run),
        )
        for run in evidence.runs
    )


def _seconds(run: RunRow, phase: Phase) -> float:
    """Length of a phase; of measured load only what counts."""
    if phase.name is PhaseName.MEASURE and phase.level is not None:
        return counted_seconds(run, phase.level)
    return phase.end - phase.start


def _describe_workload(evidence: Evidence) -> dict[str, str | Message]:
    experiment, workload = evidence.experiment, evidence.experiment.workload
    if evidence.is_on_files:
        return _describe_files(evidence)
    scales = tuple(arm_scales(evidence.arms))
    facts: dict[str, str | Message] = {
        "kind": workload.kind,
        "scenarios": workload.mix or ", ".join(evidence.scenarios),
        "shares": message("share.by-transactions" if workload.share == "transactions" else "share.by-sessions"),
        "clients": _describe_clients(evidence.levels),
        "duration": message("duration.per-level", time=workload.duration),
        "warm-up": _describe_warmup(workload),
        "protocol": workload.protocol,
        "data": message(_DATA[experiment.dataset.kind], scale=scales)
        if experiment.dataset.kind in _DATA
        else message("data.set-up"),
    }
    if workload.kind == COMMAND:  # which decides on these by itself
        del facts["shares"], facts["protocol"]
        facts["command"] = " ".join(workload.command)
    if workload.unit != UNIT:
        facts["unit of work"] = workload.unit
    if workload.rate is not None:
        rates = dict.fromkeys(level.rate for level in evidence.levels if level.rate is not None)
        facts["rate"] = message("rate.transactions", rates=tuple(rates))
    if workload.latency_limit is not None:
        facts["latency limit"] = message("duration.plain", time=workload.latency_limit)
    if workload.max_tries > 1:
        facts["tries"] = message("tries.at-most", number=workload.max_tries)
    return facts


def _describe_clients(levels: Sequence[LoadLevel]) -> str | Message:
    """Arms have their own only where there is one level."""
    if len(levels) == 1 and levels[0].by_arm is not None:
        return name_level(levels[0])
    return ", ".join(dict.fromkeys(str(level.clients) for level in levels))


def _describe_files(evidence: Evidence) -> dict[str, str | Message]:
    """The load on files; what differs between arms is among their settings."""
    workload = evidence.experiment.workload
    return {
        "kind": workload.kind,
        "scenarios": ", ".join(evidence.scenarios),
        "clients": _describe_clients(evidence.levels),
        "duration": message("duration.per-level", time=workload.duration),
        "warm-up": _describe_warmup(workload),
        "data": message("data.files", bytes=sum(largest_files(evidence.arms).values())),
    }


def _describe_warmup(workload: WorkloadTable) -> Message:
    match workload.warmup:
        case "auto":
            return message("warm-up.steady")
        case WarmupTable(cap=cap):
            return message("warm-up.capped", time=cap)
        case seconds:
            return message("duration.plain", time=seconds) if seconds else message("warm-up.none")


# Where the time of the runs went.


_Times = Iterable[tuple[float, float]]


def measured_seconds(run: RunRow) -> float:
    """Time of a run whose transactions count."""
    return sum(window.counted for window in windows(run))


def total_seconds(run: RunRow) -> float | None:
    """Time from begin to end; None for a run that has no end of its own."""
    return None if run.started is None or run.ended is None else run.ended - run.started


def overhead_seconds(run: RunRow) -> float | None:
    """Time of a run that was neither measured load nor the turn of another arm of its block."""
    total = total_seconds(run)
    if total is None:
        return None
    if not run.slices:
        return total - measured_seconds(run)
    turns = sum(each.ended - each.started for each in run.slices)
    others = sum(phase.end - phase.start for phase in measured(run)) - turns
    return total - others - measured_seconds(run)


def sum_overhead(evidence: Evidence) -> Overhead:
    """Seconds by phase over all runs that ended, valid or not; share of that time that is not measured load.

    Where runs of a block share their time, it counts once.
    """
    ended = [run for run in evidence.runs if run.started is not None and run.ended is not None]
    names = dict.fromkeys(phase.name for run in ended for phase in run.phases)
    by_phase = {
        str(name): _union((phase.start, phase.end) for run in ended for phase in run.phases if phase.name is name)
        for name in names
    }
    whole = _union((run.started, run.ended) for run in ended if run.started is not None and run.ended is not None)
    by_phase[OTHER] = max(0.0, whole - sum(by_phase.values()))
    counted = _union(times for run in ended for times in _counted(run))
    if any(run.slices for run in ended):
        by_phase[GUARD] = by_phase.get(PhaseName.MEASURE, 0.0) - counted
        by_phase[PhaseName.MEASURE.value] = counted
    return Overhead(by_phase=by_phase, share=1 - counted / whole if whole > 0 else None)


def _counted(run: RunRow) -> _Times:
    if run.slices:
        return [(each.counted, each.ended) for each in run.slices]
    return [(phase.start, phase.end) for phase in measured(run)]


def _union(times: _Times) -> float:
    """Length of what lies in at least one of the intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(times):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
