"""What an experiment finds on an existing server before anything is touched, and what is refused there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgtrial.design.plan import Plan
from pgtrial.engine.consent import refuse_host_changes
from pgtrial.engine.target.base import wanted_settings
from pgtrial.errors import PreflightError, TargetError
from pgtrial.experiment_file.command_checks import USE_PORT, no_socket
from pgtrial.experiment_file.connection import is_socket
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.result_formats import FORMATS
from pgtrial.hosts.base import Host
from pgtrial.knobs.pgbouncer import PGBOUNCER
from pgtrial.model.arm import Arm
from pgtrial.postgres.auto_conf import setting_key
from pgtrial.postgres.catalogue import most_clients
from pgtrial.postgres.existing.checks import Missing, find_missing
from pgtrial.postgres.existing.rights import Rights, probe_rights
from pgtrial.postgres.existing.room import refuse_crowd
from pgtrial.postgres.existing.server import ExistingServer, open_server
from pgtrial.postgres.existing.session import find_refused, split_settings
from pgtrial.postgres.existing.settings import is_already
from pgtrial.postgres.existing.table_rights import find_missing_on_tables
from pgtrial.postgres.settings import read_settings
from pgtrial.workloads.table_uses import uses_of

_AT_ONCE = frozenset({"interleaved", "duet"})  # methods by which the sessions of all arms stay open
_LIMITS = frozenset({"max_connections", "superuser_reserved_connections", "reserved_connections"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What an experiment finds on an existing server, before anything is touched.

    ``own`` are the settings of the load's sessions, ``shared`` those of the whole server, by arm; ``changing`` those of
    them that are not so already. ``missing`` is every right that the role lacks for them.
    """

    rights: Rights
    own: Mapping[str, Mapping[str, str]]
    shared: Mapping[str, Mapping[str, str]]
    changing: Mapping[str, str]
    missing: tuple[Missing, ...]


async def survey_server(server: ExistingServer, experiment: Experiment, arms: Sequence[Arm], folder: Path) -> Survey:
    """Ask the server how it can have the arms' settings, and whether the scripts, which are in ``folder``, may use its
    tables. Raises SettingError for settings that it does not take, PreflightError if the load cannot reach it.
    """
    target, known = experiment.target, FORMATS[experiment.workload.results]
    if known.needs_port and is_socket(server.control.address.parameters["host"]):  # by a service file, or a variable
        raise PreflightError(no_socket(known), hint=USE_PORT)
    own, shared, changing = await _divide_settings(server, experiment, arms)
    rights = await probe_rights(server, changing)
    refused = await _find_refused(server, target.database, own.values())
    missing = find_missing(rights, system=list(changing), session=refused, own_database=target.database is None)
    if target.database is not None:
        uses = uses_of(experiment, arms, folder)
        missing += await find_missing_on_tables(server.conninfo(target.database), uses)
    return Survey(rights=rights, own=own, shared=shared, changing=changing, missing=missing)


async def refuse_no_room(server: ExistingServer, experiment: Experiment, arms: Sequence[Arm]) -> None:
    """Refuse a load that has more clients than the server has connections left for them; those of all arms where they
    share the time of a block. A pool has a size of its own, and an arm may have more connections. Raises ConnectError,
    PreflightError, TargetError.
    """
    direct = [arm for arm in arms if PGBOUNCER not in arm.knobs and not _LIMITS & set(wanted_settings(arm))]
    of_arms = [most_clients(experiment, arm) for arm in direct]
    clients = sum(of_arms) if experiment.design.method in _AT_ONCE else max(of_arms, default=0)
    await refuse_crowd(server, experiment.target.database, clients=clients)


async def _divide_settings(
    server: ExistingServer, experiment: Experiment, arms: Sequence[Arm]
) -> tuple[dict[str, Mapping[str, str]], dict[str, Mapping[str, str]], dict[str, str]]:
    """``own``, ``shared`` and ``changing`` of the survey."""
    actual = await read_settings(server.conninfo(experiment.target.database))
    own: dict[str, Mapping[str, str]] = {}
    shared: dict[str, Mapping[str, str]] = {}
    for arm in arms:
        wanted = wanted_settings(arm)
        by_session = ({}, wanted) if experiment.target.settings == "server" else split_settings(wanted, actual)
        own[arm.name], shared[arm.name] = by_session
    changing = {
        name: value
        for settings in shared.values()
        for name, value in settings.items()
        if not is_already(value, actual.get(setting_key(name)))
    }
    return own, shared, changing


async def refuse_shared_settings(plan: Plan, *, host: Host, caller: Mapping[str, str]) -> None:
    """Refuse what an existing server says are settings of the whole server, before a hook runs ahead of its
    preparation. Where it does not answer, nothing is refused: the hook may be what starts it, and preparing it asks
    again. Raises ConsentError.
    """
    wanted = plan.experiment.target
    if wanted.kind != "server":
        return
    try:
        server = await open_server(
            host, wanted.connection, database=wanted.database, restart=wanted.restart, caller=caller
        )
        _, _, changing = await _divide_settings(server, plan.experiment, plan.arms)
    except TargetError:
        return
    refuse_changing(changing)


def refuse_changing(changing: Mapping[str, str]) -> None:
    """Refuse to change settings of the whole server. Raises ConsentError."""
    if changing:
        raise refuse_host_changes([f"{name} = {value} for the whole server" for name, value in changing.items()])


async def _find_refused(
    server: ExistingServer, database: str | None, own: Iterable[Mapping[str, str]]
) -> Sequence[str]:
    """Settings that the role may not set in its sessions, of all arms."""
    where = database or server.control.address.database
    return tuple(dict.fromkeys([name for settings in own for name in await find_refused(server, where, settings)]))
