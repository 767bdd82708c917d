"""Checks of loads that differ between arms: that they can, and that they do the same work."""

from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath

from pgtrial.experiment_file.arms import Declared, all_declared, arm_values, own_values
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.position import Found, Path
from pgtrial.experiment_file.workload_checks import check_file, scenario_names
from pgtrial.experiment_file.workload_table import COMMAND
from pgtrial.knobs import KNOBS
from pgtrial.knobs.pgbouncer import MOST_CLIENTS, PGBOUNCER, POOL_SIZE, SESSION, pool_mode, pool_size
from pgtrial.knobs.workload import CLIENTS, CONNECT, SCRIPTS, WORKLOAD, ArmLoadTable
from pgtrial.knobs.workload import COMMAND as COMMAND_KEY
from pgtrial.nearest import hint_name


def check_arm_loads(experiment: Experiment, folder: FilePath | None) -> Iterator[Found]:
    """What the load of an arm is made of."""
    kind = experiment.workload.kind
    names = scenario_names(experiment)
    for declared in all_declared(experiment):
        if declared.knob != WORKLOAD or kind not in ("pgbench", COMMAND):
            continue
        if declared.key == CLIENTS:
            yield from _check_clients(experiment, declared)
        elif (declared.key == COMMAND_KEY) != (kind == COMMAND):
            message = f'"{declared.key}" in the load of an arm has no meaning with kind = "{kind}"'
            yield declared.path, message, "Remove it."
        elif declared.key.startswith(SCRIPTS):
            name = declared.key.removeprefix(SCRIPTS)
            if name not in names:
                hint = hint_name(name, names, what="Scenarios are")
                yield declared.path, f'scenario "{name}" does not exist', hint
            yield from check_file(declared.path, declared.value, folder)


def _check_clients(experiment: Experiment, declared: Declared) -> Iterator[Found]:
    workload = experiment.workload
    if workload.rate is not None or len(workload.client_levels) > 1:
        message = "an arm can have clients of its own only where the load has one level, and no rate"
        yield declared.path, message, "Load levels are of all arms alike: give [workload] a single number of clients."
    elif workload.has_own_sessions and int(declared.value) < len(workload.scenario_names):
        message = f"{declared.value} clients are fewer than the {len(workload.scenario_names)} scenarios"
        yield declared.path, message, 'Each scenario has clients of its own. Give more, or share = "transactions".'


def check_load_hosts(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """Whether the load can come from other machines."""
    load, workload, target = experiment.load, experiment.workload, experiment.target
    if load is None:
        return
    if target.kind != "throwaway" or workload.kind != "pgbench":
        message = "only pgbench on a throw-away server can run on other machines"
        yield ("load", "hosts"), message, "Remove [load]; pgtrial may run on the machine from which the load comes."
    if experiment.design.soak is not None:
        message = "a soak has its load from the machine that pgtrial runs on"
        yield ("load", "hosts"), message, "Remove [load], or soak in [design]."
    for number, host in enumerate(load.hosts):
        if host == target.host:
            message = f'"{host}" is the machine of the server'
            yield ("load", "hosts", number), message, "Leave it out: a load that runs there disturbs what it measures."
        elif host in load.hosts[:number]:
            yield ("load", "hosts", number), f'"{host}" is listed twice', "List each machine once."
    for number, scenario in enumerate(workload.scenario):
        if scenario.sessions is not None:
            message = "a constant number of sessions is not divided between machines"
            yield ("workload", "scenario", number, "sessions"), message, "Give the scenario a share, or remove [load]."
    for declared in all_declared(experiment):
        if declared.knob in KNOBS and KNOBS[declared.knob].needs_socket:
            message = f'knob "{declared.knob}" does not go with a load from other machines'
            yield declared.path, message, "Remove it, or [load]."
    least = min(workload.client_levels) // len(load.hosts)
    if least < (len(workload.scenario_names) if workload.has_own_sessions else 1):
        message = f"{min(workload.client_levels)} clients are too few for {len(load.hosts)} machines"
        yield ("workload", "clients"), message, "Each machine has a client of each scenario at least."


def check_poolers(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """Whether PgBouncer lets all clients in, and gives each of them a session at some time."""
    for arm in arm_values(experiment).values():
        table = {key: declared for (knob, key), declared in arm.items() if knob == PGBOUNCER}
        if not table:
            continue
        own = arm.get((WORKLOAD, CLIENTS))
        clients = experiment.workload.most_sessions(None if own is None else int(own.value))
        values = {key: declared.value for key, declared in table.items()}
        most = values.get(MOST_CLIENTS)
        if most is not None and int(most) < clients:
            message = f"PgBouncer lets {most} clients in, and the load has {clients}"
            yield table[MOST_CLIENTS].path, message, "Leave it out, and it is as large as needed."
        connect = arm.get((WORKLOAD, CONNECT))
        if (
            pool_mode(values) == SESSION
            and pool_size(values) < clients
            and (connect is None or connect.value == "once")
        ):
            declared = table.get(POOL_SIZE) or next(iter(table.values()))
            message = f"of {clients} clients {clients - pool_size(values)} would wait until the others have ended"
            hint = 'A client of pool_mode = "session" keeps its session. Use "transaction", or a larger pool_size.'
            yield declared.path, message, hint


def check_units(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """Arms are compared by what they do per second: a unit of another size would be a difference of its own."""
    units = _units(experiment)
    if len(set(units.values())) <= 1:
        return
    control, *others = units
    for name in others:
        if units[name] != units[control]:
            path: Path = ("arms", name, WORKLOAD, "unit")
            message = f'a unit of work is "{units[name]}" in arm "{name}", but "{units[control]}" in arm "{control}"'
            yield path, message, "Let both do the same work in one transaction, and say so in unit of [workload]."


def _units(experiment: Experiment) -> Mapping[str, str]:
    """By arm; what an arm does not say it inherits, or has from [target] or [workload]."""
    common = experiment.target.workload.unit or experiment.workload.unit
    return {name: _inherited_unit(experiment, name, ()) or common for name in own_values(experiment)}


def _inherited_unit(experiment: Experiment, name: str, heirs: tuple[str, ...]) -> str | None:
    arm = experiment.arms.get(name)
    if arm is None or name in heirs:
        return None
    own: ArmLoadTable = arm.workload
    return own.unit or (_inherited_unit(experiment, arm.inherit, (*heirs, name)) if arm.inherit else None)
