"""What an existing server says of an experiment, before it is run; nothing there is changed."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgtrial.design.plan import Plan
from pgtrial.engine.target.server_survey import refuse_no_room, survey_server
from pgtrial.errors import PgTrialError, PreflightError
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.hosts.connect import open_host
from pgtrial.postgres.connect import fetch
from pgtrial.postgres.existing.checks import refuse_missing
from pgtrial.postgres.existing.inventory import read_inventory
from pgtrial.postgres.existing.server import open_server
from pgtrial.workloads.extensions import find_extensions, say_lacking

_AVAILABLE = "SELECT name FROM pg_catalog.pg_available_extensions"


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
