"""Tables of the experiment: hypothesis, plan, runs and environment."""

from collections.abc import Iterator, Mapping
from itertools import chain

from pgtrial.export.tables.base import ARM, RUN, Table, Value, integer, number, table, text, time, truth
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say


def experiment_table(findings: Findings) -> Table:
    columns = (text("group", "what it belongs to"), text("name", "fact"), text("value", "its value"))
    return table("experiment", "The experiment and its verdict", columns, _facts(findings))


def _facts(findings: Findings) -> Iterator[tuple[Value, ...]]:
    experiment, asked = findings.experiment, findings.hypothesis
    answer = {
        "verdict": f"{asked.verdict}, provisional" if asked.provisional else asked.verdict,
        "not tested": "yes" if asked.not_tested else "no",
        "provisional": "yes" if asked.provisional else "no",
        "reason": say(asked.reason),
        "beside it": " ".join(findings.beside_verdict),
        "claim": asked.claim,
        "arm": asked.arm,
        "control": asked.control,
        "metric": asked.metric,
        "scenario": asked.scenario,
        "expected": asked.expect,
        "margin": f"{asked.margin:g}",
        "confidence": f"{asked.confidence:g}",
        "still needed": say(findings.needed.text),
    }
    design = {
        "name": experiment.name,
        "description": experiment.description,
        "complete": "yes" if experiment.complete else "no",
        "method": experiment.method,
        "restore": experiment.restore,
        "seed": str(experiment.seed),
        "blocks planned": str(experiment.blocks_planned),
        "blocks complete": str(experiment.blocks_complete),
        "pgtrial": findings.pgtrial_version,
    }
    groups: dict[str, Mapping[str, str | None]] = {
        "answer": answer,
        "design": design,
        "workload": {name: say(value) for name, value in experiment.workload.items()},
        "target": experiment.target,
    }
    return ((group, name, value) for group, facts in groups.items() for name, value in facts.items() if value)


def arms_table(findings: Findings) -> Table:
    columns = (
        ARM,
        text("role", "control, candidate or placebo"),
        text("version", "version of its server"),
        text("settings", "PostgreSQL settings that it declares"),
        text("knobs", "what else it declares"),
        integer("runs_done", "runs that count"),
        integer("runs_invalid", "runs that do not"),
    )
    rows = (
        (
            *(arm.name, arm.role, arm.version or None),
            ", ".join(f"{name} = {value}" for name, value in arm.settings.items()),
            ", ".join(f"{knob}: {name} = {value}" for knob, set_ in arm.knobs.items() for name, value in set_.items()),
            *(arm.runs_done, arm.runs_invalid),
        )
        for arm in findings.experiment.arms
    )
    return table("arms", "Arms", columns, rows)


def runs_table(findings: Findings) -> Table:
    columns = (
        *RUN,
        integer("slot", "number in the schedule"),
        integer("position", "place inside its block"),
        integer("attempt", "attempt at the slot"),
        text("state", "done, invalid, interrupted or running; only what is done counts"),
        text("reason", "why it does not count"),
        time("started", "begin"),
        time("ended", "end"),
        number("tps", "throughput of all load levels together", "1/s"),
        number("overhead", "time that was not measured load", "s"),
    )
    rows = (
        (
            *(run.id, run.arm, run.block, run.slot, run.position, run.attempt, run.state, run.reason or None),
            *(run.started, run.ended, run.tps, run.overhead),
        )
        for run in findings.runs
    )
    return table("runs", "Runs in the order in which they were made", columns, rows)


def phases_table(findings: Findings) -> Table:
    columns = (
        *RUN,
        text("phase", "part of the run"),
        integer("load_level", "index of the load level, of measured load"),
        time("started", "begin"),
        time("ended", "end"),
        number("seconds", "its length; of measured load what counts", "s"),
    )
    rows = (
        (
            *(run.id, run.arm, run.block, phase.get("name"), phase.get("level")),
            *(phase.get("start"), phase.get("end"), phase.get("seconds")),
        )
        for run in findings.runs
        for phase in run.phases
    )
    return table("phases", "Phases of the runs", columns, rows)


def time_table(findings: Findings) -> Table:
    columns = (text("phase", "part of a run"), number("seconds", "sum over all runs that ended", "s"))
    return table("time", "Where the time went", columns, findings.overhead.by_phase.items())


def settings_table(findings: Findings) -> Table:
    columns = (
        text("setting", "PostgreSQL setting"),
        ARM,
        text("value", "as it was read back"),
        text("source", "where its value comes from"),
        truth("declared", "the experiment file names it"),
        truth("differs", "it is not the same in all arms"),
    )
    rows = (
        (setting.name, arm, value, setting.source, setting.declared, setting.differs)
        for setting in findings.settings
        for arm, value in setting.values.items()
    )
    return table("settings", "PostgreSQL settings", columns, rows)


def facts_table(findings: Findings) -> Table:
    columns = (text("group", "what it belongs to"), text("name", "fact"), text("value", "its value"))
    rows = ((fact.group, fact.name, fact.value) for fact in findings.fingerprint.facts)
    return table("facts", "The world around the runs, as far as it was the same in all", columns, rows)


def differences_table(findings: Findings) -> Table:
    columns = (
        text("name", "what was not the same in all runs"),
        text("where", "arm or runs"),
        text("value", "its value there"),
        truth("declared", "the experiment file asks for it"),
    )
    rows = (
        (difference.name, say(placed.where), say(placed.value), difference.declared)
        for difference in findings.fingerprint.differences
        for placed in difference.values
    )
    return table("differences", "What was not the same in all runs", columns, rows)


def caveats_table(findings: Findings) -> Table:
    columns = (
        text("code", "kind of caveat, see docs/caveats.md"),
        text("severity", "info, warning or invalid"),
        text("text", "what limits the trust"),
        text("hint", "what to do about it"),
        text("runs", "ids of the runs that it is about"),
        text("about", "the experiment, or the effect that it limits"),
    )
    rows = chain(
        (
            (each.code, each.severity, each.text, each.hint or None, " ".join(map(str, each.runs)), "experiment")
            for each in findings.caveats
        ),
        (
            (
                *(each.code, each.severity, each.text, each.hint or None, " ".join(map(str, each.runs))),
                f"{effect.arm}, {effect.metric}, {effect.scenario or 'all scenarios'}, level {effect.load_level}",
            )
            for effect in (*findings.effects, *findings.placebo)
            for each in effect.caveats
        ),
    )
    return table("caveats", "Caveats", columns, rows)
