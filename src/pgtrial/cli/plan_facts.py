"""Facts that check and plan show about an experiment, as text and as data."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pgtrial.cli.checked import Checked
from pgtrial.cli.plan_files import jobs_text
from pgtrial.cli.plan_method import detectable_effect, method_data, windows_text
from pgtrial.cli.plan_target import counts_statements, host_changes_data, own_settings
from pgtrial.design.budget import is_open
from pgtrial.design.effect_timing import find_differences
from pgtrial.design.levels import ScenarioShare, over_arms, split_clients
from pgtrial.engine.consent import uses_of, writes_of
from pgtrial.engine.host_facts import facts_for
from pgtrial.engine.preview import Preview
from pgtrial.experiment_file.arms import job_tables
from pgtrial.experiment_file.cause_tables import AcceptanceTable
from pgtrial.experiment_file.code_uses import CodeUse
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.hypothesis_table import RELATIONS, AndTable
from pgtrial.experiment_file.workload_table import TPCC
from pgtrial.knobs import KNOBS, scope_of
from pgtrial.knobs.declaration import Outlook, Scope
from pgtrial.knobs.fio import FIO, FileJobTable
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.knobs.workload import VARIABLES, WORKLOAD
from pgtrial.model.arm import Arm, Role
from pgtrial.model.run import LoadLevel
from pgtrial.postgres.catalogue import needs_restart
from pgtrial.postgres.existing.session import is_of_session
from pgtrial.postgres.programs import kind_of
from pgtrial.postgres.throwaway import DEFAULT_SETTINGS
from pgtrial.units import format_duration, format_share
from pgtrial.workloads.scenarios import of_arm, read_arm_scripts, scenarios_of
from pgtrial.workloads.statements import unset_variables, used_variables

# What arms set around the server's own settings without changing the host.
_AROUND = (Scope.SETTINGS, Scope.CLUSTER, Scope.DATABASE, Scope.LOAD)


def describe_facts(checked: Checked) -> tuple[dict[str, str], tuple[str, ...]]:
    """The experiment in a few named lines, and notes on choices that are allowed but perhaps unintended."""
    plan, experiment = checked.plan, checked.loaded.experiment
    count = len({name for arm in plan.arms for name in arm.settings})
    is_soak = experiment.design.soak is not None
    blocks = f"in {plan.blocks} {'block' if plan.blocks == 1 else 'blocks'}"
    facts = {
        "experiment": experiment.experiment.name,
        **({} if is_soak else {"claim": claim_sentence(checked)}),
        "arms": ", ".join(arm.name if is_soak else _arm_label(arm) for arm in plan.arms),
        "load levels": _shorten(over_arms(plan.arms, level).label for level in plan.levels),
        **({"soak": f"{windows_text(plan)}{' for each arm' * (len(plan.arms) > 1)}"} if is_soak else {}),
        "runs": f"{len(plan.slots)} {'windows' if is_soak else blocks}, about {format_duration(plan.estimate.total)}",
    }
    if checked.proofs:
        facts["limits"] = f"proved for {', '.join(checked.proofs)}, about {format_duration(proofs_time(checked))} more"
    if checked.servers:
        versions = " and ".join(server.majors for server in checked.servers)
        facts["settings"] = f"{count}, checked against PostgreSQL {versions}"
    else:
        facts["jobs"] = jobs_text(checked)
    if uses := code_uses(checked):
        facts["code"] = f"{'; '.join(f'{use.where}: {use.what}' for use in uses)}; running it needs --allow-code"
    return facts, tuple(plan_notes(checked))


def plan_data(checked: Checked, previews: Sequence[Preview] | None, *, noise: float | None = None) -> dict[str, Any]:
    """The plan for --json: times in seconds, sizes in bytes; ``noise`` as for the text."""
    plan, experiment = checked.plan, checked.loaded.experiment
    run = plan.estimate.run
    return {
        "experiment": experiment.experiment.name,
        "hypothesis": {"control": plan.arms[0].name, "arm": plan.claimed, **_hypothesis(checked)},
        "servers": [
            {
                "arms": server.arms,
                "version": server.exact,
                "programs": str(server.programs.directory) if server.programs else None,
                "missing": server.missing or None,
            }
            for server in checked.servers
        ],
        "arms": [
            {
                "name": arm.name,
                "role": str(arm.role),
                "settings": arm.settings,
                "knobs": arm.knobs,
            }
            for arm in plan.arms
        ],
        "changes": [
            {"setting": name, "values": values, "needs_restart": needs_restart(name, checked.version)}
            for name, values in changed_settings(checked).items()
        ],
        "load_hosts": [] if experiment.load is None else list(experiment.load.hosts),
        "own_settings": own_settings(experiment) | dict(DEFAULT_SETTINGS) if checked.servers else {},
        "counts_statements": counts_statements(checked) if checked.servers else False,
        "levels": [
            {"clients": level.clients, "rate": level.rate, "by_scenario": split}
            for level, split in split_levels(checked)
        ],
        "method": method_data(plan),
        "looks": list(plan.looks),
        "schedule": [
            {"run": slot.number, "block": slot.block, "position": slot.position, "arm": slot.arm} for slot in plan.slots
        ],
        "server_starts": plan.trials + _starts(checked) if checked.servers else 0,
        "seconds": {
            "prepare": plan.estimate.prepare,
            "run": {
                "restore": run.restore,
                "server": run.server,
                "warm-up": run.warmup,
                "checkpoint": run.checkpoint,
                "measure": run.measure,
                "total": run.total,
            },
            "total": plan.estimate.total,
        },
        "proofs": [
            {
                "arm": arm,
                "arms": [each.name for each in proof.plan.arms],
                "resources": _slowed(proof),
                "method": method_data(proof.plan),
                "blocks": proof.plan.blocks,
                "seconds": proof.plan.estimate.total,
            }
            for arm, proof in checked.proofs.items()
        ],
        "data_bytes": plan.data_size,
        "detectable_effect": detectable_effect(plan, noise),
        "host_changes": host_changes_data(previews),
        "writes": [asdict(use) for use in writes_of(experiment, plan.arms)],
        "code": [asdict(use) for use in code_uses(checked)],
        "notes": list(plan_notes(checked)),
    }


def proof_texts(checked: Checked) -> Iterator[str]:
    """What is run after the experiment to prove what limits its arms, and how long it takes."""
    for arm, proof in checked.proofs.items():
        plan, duration = proof.plan, proof.plan.experiment.workload.duration
        names = ", ".join(name.partition(".")[2] for name in _slowed(proof))
        yield (
            f"{arm}: {plan.blocks} blocks of {len(plan.arms)} variants, {format_duration(duration)} each, "
            f"{plan.method.method}, with longer times of {names}; about {format_duration(plan.estimate.total)}."
        )
    if checked.proofs:
        total = format_duration(checked.plan.estimate.total + proofs_time(checked))
        yield f"They come after the last block, each in a result folder of its own below limits: about {total} for all."


def proofs_time(checked: Checked) -> float:
    """Seconds that the experiments take which prove what limits the arms."""
    return sum(proof.plan.estimate.total for proof in checked.proofs.values())


def _slowed(proof: Checked) -> tuple[str, ...]:
    limits = proof.loaded.experiment.limits
    return () if limits is None else limits.resources


def code_uses(checked: Checked) -> tuple[CodeUse, ...]:
    """What the experiment executes beside pgtrial's own programs and plain SQL."""
    loaded = checked.loaded
    return uses_of(checked.there, checked.plan.arms, loaded.folder, is_here=checked.place.is_here)


def _hypothesis(checked: Checked) -> dict[str, Any]:
    hypothesis = checked.loaded.experiment.hypothesis
    return {
        "claim": hypothesis.claim,
        "metric": hypothesis.metric,
        "scenario": hypothesis.scenario,
        "expect": str(hypothesis.expect),
        "margin": hypothesis.margin,
        "confidence": checked.plan.confidence,
        **({"and": [_claim_data(claim) for claim in hypothesis.also]} if hypothesis.also else {}),
        **({"acceptance": acceptance_text(checked)} if checked.loaded.experiment.acceptance else {}),
    }


def _claim_data(claim: AndTable) -> dict[str, Any]:
    return {"metric": claim.metric, "scenario": claim.scenario, "expect": str(claim.expect), "margin": claim.margin}


def acceptance_text(checked: Checked) -> str:
    """ "pgbench.latency_p99 at most 20 ms; pgbench.tps of ssd at least 500": what is enough, if the file says it."""
    from pgtrial.report.words import format_metric

    def place(wanted: AcceptanceTable) -> str:
        named = (("in", wanted.scenario), ("of", wanted.arm))
        return " ".join([wanted.metric, *(f"{word} {name}" for word, name in named if name)])

    return "; ".join(
        f"{place(wanted)} {wanted.key.replace('_', ' ')} {format_metric(wanted.metric, wanted.limit.value)}"
        for wanted in checked.loaded.experiment.acceptance
    )


def claim_sentence(checked: Checked) -> str:
    """ "large is better than small in pgbench.tps, margin 3 %": the hypothesis with its defaults filled in."""
    hypothesis, plan = checked.loaded.experiment.hypothesis, checked.plan
    control = plan.arms[0].name
    parts = [
        f"{RELATIONS[claim.expect]} {control} in {claim.metric}{f' of {claim.scenario}' if claim.scenario else ''}, "
        f"margin {format_share(claim.margin)}"
        for claim in hypothesis.claims
    ]
    return f"{plan.claimed} is {'; and '.join(parts)}"


def _starts(checked: Checked) -> int:
    """Server starts for the runs: one for each, or for each block that has one server."""
    plan = checked.plan
    return plan.blocks if plan.method.method == "switchback" else len(plan.slots)


def changed_settings(checked: Checked) -> Mapping[str, dict[str, str | None]]:
    """Setting -> arm -> value, None where the arm leaves the server's default; common settings first.

    What is set in and around the server is named by its table: "storage.data". Changes of the host are not here.
    """
    arms = [arm for arm in checked.plan.arms if arm.role is not Role.PLACEBO]
    by_arm = {
        arm.name: {
            **arm.settings,
            **{
                f"{knob}.{name}": value
                for knob, table in arm.knobs.items()
                if scope_of(knob) in _AROUND
                for name, value in table.items()
            },
            **_disk(arm),
        }
        for arm in arms
    }
    names = dict.fromkeys(name for settings in by_arm.values() for name in settings)
    return {name: {arm: settings.get(name) for arm, settings in by_arm.items()} for name in names}


def _disk(arm: Arm) -> dict[str, str]:
    """The disk class of an arm; its knobs hold only the parts the class consists of."""
    name = arm.disk
    if name is None:
        return {}
    return {"storage.disk": f"{name} (emulated)" if arm.is_emulated else name}


def takes_effect(name: str, checked: Checked) -> str:
    """When a setting takes effect, and on an existing server for whom, in a word or two."""
    target = checked.loaded.experiment.target
    knob = KNOBS.get(name.partition(".")[0])
    if knob is not None and knob.scope in _AROUND:
        return knob.scope
    if target.kind == "server" and target.settings != "server" and is_of_session(name):
        return "its sessions" if target.settings == "session" else "its role's sessions"
    words = {True: "restart", False: "no restart", None: "not known"}[needs_restart(name, checked.version)]
    return f"{words}, whole server" if target.kind == "server" else words


def split_levels(checked: Checked) -> Iterator[tuple[LoadLevel, dict[str, int] | None]]:
    """Each load level with the clients of each scenario or job; None where all clients run all scenarios."""
    experiment = checked.loaded.experiment
    shares = [
        *(
            ScenarioShare(name=scenario.name, share=scenario.share, sessions=scenario.sessions)
            for scenario in scenarios_of(experiment, checked.loaded.folder)
        ),
        *(ScenarioShare(name=job.name, share=job.share) for job in _jobs(experiment)),
    ]
    for level in checked.plan.levels:
        by_sessions = experiment.workload.share == "sessions"
        yield level, split_clients(level.clients, shares) if by_sessions and shares else None


def _jobs(experiment: Experiment) -> tuple[FileJobTable, ...]:
    return job_tables(experiment.workload) if experiment.workload.kind == FIO else ()


def plan_notes(checked: Checked) -> Iterator[str]:
    """Choices that are allowed but perhaps unintended, and programs that this machine lacks."""
    plan = checked.plan
    if checked.missing:
        yield f"{checked.missing}; the experiment cannot run on this machine as it is"
    for server in checked.servers:
        if server.is_unknown:
            yield server.missing
    found = [server.programs for server in checked.servers if server.programs is not None]
    if len({kind_of(programs) for programs in found}) > 1:
        listed = ", ".join(f"{programs.version} is of {kind_of(programs)}" for programs in found)
        yield f"the servers were not built alike ({listed}), and what their builds differ in is in the effect"
    seen: dict[str, Arm] = {}
    for arm in plan.arms:
        key = json.dumps([arm.settings, arm.knobs], sort_keys=True)
        if key in seen and arm.role is not Role.PLACEBO:
            yield f'arms "{seen[key].name}" and "{arm.name}" have the same settings'
        seen.setdefault(key, arm)
    emulated = [arm.name for arm in plan.arms if arm.is_emulated]
    if emulated:
        yield f"on an emulated disk, a loop device with limits: {', '.join(emulated)}; every table says so"
    if plan.experiment.workload.mix == TPCC:
        yield (
            "the transactions are like those of TPC-C, but the figures are not TPC results: compare the arms, not "
            "published results; after each run the data are checked for consistency"
        )
    yield from idle_notes(checked)
    yield from variable_notes(checked)
    if plan.attempts_before:
        yield (
            f"attempt {plan.attempts_before + 1} at this claim on this machine: it will be decided by the "
            f"{format_share(plan.confidence)} interval; more blocks and a rule for stopping are cheaper than attempts"
        )
    if plan.blocks < plan.rules.fewest_blocks:
        blocks = "1 block" if plan.blocks == 1 else f"{plan.blocks} blocks"
        yield f"{blocks} cannot decide the claim: the verdict needs {plan.rules.fewest_blocks}"
        if plan.experiment.design.budget is not None and not is_open(plan.experiment):
            yield "without duration in [workload] the budget would be spent on shorter runs, and more blocks"


def idle_notes(checked: Checked) -> Iterator[str]:
    """Settings that will have nothing to act on, as far as that can be known before the runs."""
    plan, workload = checked.plan, checked.loaded.experiment.workload
    arms = [arm for arm in plan.arms if arm.role is not Role.PLACEBO]
    facts = facts_for(checked.there, checked.loaded.folder, is_here=checked.place.is_here)
    for difference in find_differences(arms):
        acts = KNOBS[difference.knob].acts_of(difference.key)
        tables = ({POSTGRESQL: arm.settings, **arm.knobs}.get(difference.knob, {}) for arm in arms)
        outlook = Outlook(
            values=tuple(table.get(difference.key) for table in tables),
            data=plan.data_size,
            seconds=workload.duration * len(plan.levels),
            writes=workload.mix != "select-only",
            sorts=workload.mix in (None, "olap"),
            swap=None if facts is None else facts.swap,
        )
        why = acts.idle(outlook) if acts is not None else ""
        if why:
            yield f"{difference.label} will have nothing to act on: {why}"


def variable_notes(checked: Checked) -> Iterator[str]:
    """Variables of scripts that nothing sets, and those of arms that no script uses."""
    loaded = checked.loaded
    if not loaded.experiment.workload.scenario:
        return
    shared = scenarios_of(loaded.experiment, loaded.folder)
    arms = [arm for arm in checked.plan.arms if arm.role is not Role.PLACEBO]
    texts = read_arm_scripts(arms, loaded.folder)
    unset: dict[tuple[str, str], list[str]] = {}
    for arm in arms:
        used: set[str] = set()
        for each in of_arm(shared, arm, texts.get(arm.name, {})):
            script = each.script or ""  # pgbench's own set what they use
            used |= used_variables(script)
            for name in sorted(unset_variables(script, dict(each.variables))):
                unset.setdefault((each.name, name), []).append(arm.name)
        given = {key.removeprefix(VARIABLES) for key in arm.knobs.get(WORKLOAD, {}) if key.startswith(VARIABLES)}
        for name in sorted(given - used):
            yield f'no script of arm "{arm.name}" uses its variable "{name}"'
    for (scenario, name), names in unset.items():
        where = "" if len(names) == len(arms) else f" in {', '.join(names)}"
        yield f'scenario "{scenario}" uses :{name}, which nothing sets{where}: pgbench sends it as it stands there'


def _arm_label(arm: Arm) -> str:
    return f"{arm.name} (control)" if arm.role is Role.CONTROL else arm.name


def _shorten(labels: Iterable[str]) -> str:
    every = list(labels)
    return "; ".join(every) if len(every) <= 4 else f"{every[0]} … {every[-1]} ({len(every)})"
