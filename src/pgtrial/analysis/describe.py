"""What was planned and what was run, as plain facts for the report."""

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.findings import ArmFinding, ExperimentFinding, LevelFinding, RunFinding
from pgtrial.analysis.fingerprint import collect_facts
from pgtrial.analysis.observations import ALL, Values
from pgtrial.analysis.overhead import overhead_seconds
from pgtrial.analysis.slices import counted_seconds
from pgtrial.design.arms import disk_of, is_emulated
from pgtrial.design.data_size import arm_scales, largest_files
from pgtrial.experiment_file.experiment import WarmupTable, WorkloadTable
from pgtrial.experiment_file.restore import effective_restore
from pgtrial.language import mark, ptr, tr
from pgtrial.model.run import Phase, PhaseName, RunRow, RunState
from pgtrial.units import format_bytes, format_duration, format_significant

# Fact of the fingerprint, and what the report calls it. Names of facts are the same in findings of all languages, and
# are shown translated; what they say is in the language in use.
_TARGET = {
    "PostgreSQL/version": mark("postgres version"),
    "PostgreSQL/programs": mark("programs"),
    "PostgreSQL/found by": mark("found by"),
    "storage/data directory": mark("data directory"),
    "load generator/fio": mark("fio version"),
}


def describe_experiment(evidence: Evidence) -> ExperimentFinding:
    experiment = evidence.experiment
    facts = collect_facts(evidence)
    started = [run.started for run in evidence.runs if run.started is not None]
    ended = [run.ended for run in evidence.runs if run.ended is not None]
    done = {run.slot.number for run in evidence.valid}
    reason = evidence.meta.get("method_reason", "")  # one that names other methods stays as it was recorded
    return ExperimentFinding(
        name=experiment.experiment.name,
        description=experiment.experiment.description,
        started=min(started, default=None),
        ended=max(ended, default=None),
        complete=bool(evidence.slots) and all(slot.number in done for slot in evidence.slots),
        method=evidence.meta.get("method", experiment.design.method),
        method_reason=tr(reason) if reason else "",
        restore=effective_restore(experiment),
        seed=experiment.design.seed,
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
                settings=dict(arm.settings),
                knobs={knob: arm.knob(knob) for knob in dict.fromkeys(knob for knob, _, _ in arm.knobs)},
                version=_version_of(evidence, arm.name),
                disk=disk_of(experiment, arm) or "",
                is_emulated=is_emulated(experiment, arm),
                runs_done=len(evidence.runs_of(arm.name)),
                runs_invalid=sum(run.state is RunState.INVALID and run.slot.arm == arm.name for run in evidence.runs),
            )
            for arm in evidence.arms
        ),
        levels=tuple(
            LevelFinding(index=level.index, clients=level.clients, rate=level.rate, label=level.label)
            for level in evidence.levels
        ),
    )


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


def _describe_workload(evidence: Evidence) -> dict[str, str]:
    experiment, workload = evidence.experiment, evidence.experiment.workload
    if evidence.is_on_files:
        return _describe_files(evidence)
    scales = ", ".join(str(scale) for scale in arm_scales(experiment))
    facts = {
        mark("kind"): workload.kind,
        mark("scenarios"): workload.mix or ", ".join(evidence.scenarios),
        mark("shares"): tr("by transactions") if workload.share == "transactions" else tr("by sessions"),
        mark("clients"): ", ".join(dict.fromkeys(str(level.clients) for level in evidence.levels)),
        mark("duration"): tr("{time} per load level", time=format_duration(workload.duration)),
        mark("warm-up"): _describe_warmup(workload),
        mark("protocol"): workload.protocol,
        mark("data"): tr("scale {scale}", scale=scales)
        if experiment.dataset.kind == "pgbench"
        else tr("set-up SQL only"),
    }
    if workload.rate is not None:
        rates = dict.fromkeys(format_significant(level.rate, 6) for level in evidence.levels if level.rate is not None)
        facts[mark("rate")] = tr("{rates} transactions per second", rates=", ".join(rates))
    if workload.latency_limit is not None:
        facts[mark("latency limit")] = format_duration(workload.latency_limit)
    if workload.max_tries > 1:
        facts[mark("tries")] = tr("at most {number}", number=workload.max_tries)
    return facts


def _describe_files(evidence: Evidence) -> dict[str, str]:
    """The load on files; what differs between arms is among their settings."""
    workload = evidence.experiment.workload
    return {
        "kind": workload.kind,
        "scenarios": ", ".join(evidence.scenarios),
        "clients": ", ".join(dict.fromkeys(str(level.clients) for level in evidence.levels)),
        "duration": tr("{time} per load level", time=format_duration(workload.duration)),
        "warm-up": _describe_warmup(workload),
        "data": tr("files of {bytes}", bytes=format_bytes(sum(largest_files(evidence.experiment).values()))),
    }


def _describe_warmup(workload: WorkloadTable) -> str:
    match workload.warmup:
        case "auto":
            return tr("until steady")
        case WarmupTable(cap=cap):
            return tr("until steady, at most {time}", time=format_duration(cap))
        case seconds:
            return format_duration(seconds) if seconds else ptr("warm-up", "none")
