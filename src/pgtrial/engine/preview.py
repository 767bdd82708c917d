"""Preview an experiment without changing anything: what it would change on a host, and what an existing server says of
it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pgtrial.design.plan import Plan
from pgtrial.design.variants import host_knobs
from pgtrial.engine.target.base import groups_of
from pgtrial.engine.target.server_survey import refuse_no_room, survey_server
from pgtrial.errors import PgTrialError, PreflightError, SettingError
from pgtrial.experiment_file.arms import FILESYSTEM
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.hosts.base import Host
from pgtrial.hosts.connect import open_host
from pgtrial.knobs import HOST_KNOBS
from pgtrial.knobs.base import KnobContext
from pgtrial.model.arm import Arm, Role, Tables
from pgtrial.model.change import Change
from pgtrial.postgres.connect import fetch
from pgtrial.postgres.existing.checks import refuse_missing
from pgtrial.postgres.existing.inventory import read_inventory
from pgtrial.postgres.existing.server import open_server
from pgtrial.workloads.scenarios import find_extensions, say_lacking

_AVAILABLE = "SELECT name FROM pg_catalog.pg_available_extensions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """One change of one arm; or, with ``problem``, why a knob cannot be turned here."""

    arm: str
    knob: str
    change: Change | None = None
    problem: str = ""
    for_all_runs: bool = False  # made once, put back at the end; else for each run of the arm


def preview_experiment(plan: Plan, host_name: str) -> tuple[Preview, ...]:
    """``preview_changes`` on the host that the user has named. Raises ConnectError if it cannot be reached."""

    async def look() -> tuple[Preview, ...]:
        async with open_host(host_name) as host:
            return await preview_changes(plan.arms, host)

    return asyncio.run(look())


async def preview_changes(arms: Sequence[Arm], host: Host) -> tuple[Preview, ...]:
    """All changes of all arms but the placebo, which are its control's, in the order in which they would be made."""
    found: list[Preview] = []
    for arm in arms:
        if arm.role is Role.PLACEBO:
            continue
        variant = arm.variant
        directory = variant.data or "/var/tmp"
        context = KnobContext(host=host, token="00000000", directory=directory, wal=variant.wal)
        wanted = host_knobs(arm)
        if variant.filesystem:
            found += await _preview(context, arm, {FILESYSTEM: dict(variant.filesystem)}, for_all_runs=True)
            context = replace(context, on_image=True)
        found += await _preview(context, arm, wanted, for_all_runs=False)
    return tuple(found)


async def _preview(context: KnobContext, arm: Arm, wanted: Tables, *, for_all_runs: bool) -> list[Preview]:
    known = {knob.name for knob in HOST_KNOBS}
    found = [
        Preview(arm=arm.name, knob=name, problem="Nothing in pgtrial sets it.", for_all_runs=for_all_runs)
        for name in wanted
        if name not in known
    ]
    with suppress(SettingError):  # the knob whose groups cannot be says so itself
        context = replace(context, groups=groups_of(context, wanted))
    for knob in HOST_KNOBS:
        if knob.name not in wanted:
            continue
        try:
            changes = await knob.plan(context, wanted[knob.name])
        except SettingError as err:
            problem = " ".join(part for part in (f"{err.message}.", err.detail, err.hint) if part)
            found.append(Preview(arm=arm.name, knob=knob.name, problem=problem, for_all_runs=for_all_runs))
        else:
            found += [
                Preview(arm=arm.name, knob=knob.name, change=change, for_all_runs=for_all_runs) for change in changes
            ]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLook:
    """``facts`` by name, as one reads them; ``caveats`` cost the analysis something; with an ``error`` nothing can run.

    ``session`` are the settings of the load's sessions, or of all sessions of its role, ``shared`` those that change
    for the whole server.
    """

    facts: Mapping[str, str]
    session: tuple[str, ...] = ()
    by_role: bool = False
    shared: tuple[str, ...] = ()
    caveats: tuple[CaveatFinding, ...] = ()
    error: PgTrialError | None = None


def look_at_server(plan: Plan, folder: Path, caller: Mapping[str, str]) -> ServerLook:
    """Connect as the experiment would; ``folder`` is where the file's relative paths begin, ``caller`` are libpq's
    variables. The host that the file names is asked too.
    """
    return asyncio.run(_look(plan, folder, caller))


async def _look(plan: Plan, folder: Path, caller: Mapping[str, str]) -> ServerLook:
    target, facts = plan.experiment.target, {}
    try:
        async with open_host(target.host) as host:
            server = await open_server(
                host, target.connection, database=target.database, restart=target.restart, caller=caller
            )
            facts["server"] = f"PostgreSQL {server.facts.version} at {server.control.address.place}"
            facts["role"] = server.control.address.user
            if target.database is not None:
                found = await read_inventory(server.control, target.database, catalogue=False)
                others = f", sessions of others: {found.others}" if found.others else ""
                count = len(found.own_tables)
                facts["database"] = f"{target.database}, {count} table{'' if count == 1 else 's'}{others}"
            survey = await survey_server(server, plan.experiment, plan.arms, folder)
            crowded: PreflightError | None = None  # said beside all else
            if not survey.missing:
                try:
                    await refuse_no_room(server, plan.experiment, plan.arms)
                except PreflightError as err:
                    crowded = err
            wanted = find_extensions(plan.experiment, plan.arms, folder)
            there = {row[0] for row in await fetch(server.conninfo(target.database), _AVAILABLE)} if wanted else set()
    except PgTrialError as err:
        return ServerLook(facts=facts, error=err)
    return ServerLook(
        facts=facts,
        session=tuple(dict.fromkeys(name for settings in survey.own.values() for name in settings)),
        by_role=target.settings == "role",
        shared=tuple(survey.changing),
        caveats=survey.rights.caveats(writes=target.database is None or target.writes),
        error=refuse_missing(survey.rights, survey.missing)
        if survey.missing
        else crowded or _refuse_lacking({name: where for name, where in wanted.items() if name not in there}),
    )


def _refuse_lacking(lacking: Mapping[str, str]) -> PreflightError | None:
    if not lacking:
        return None
    hint = "Install it on the server's machine, or choose another server; a managed service lists those that it has."
    return PreflightError(f"the server {say_lacking(lacking)}", hint=hint)
