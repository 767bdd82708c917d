"""A copy of an existing database, to try on it what nobody would try on the original."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from pgtrial.errors import HostCommandError, PreflightError, TargetError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.connect import open_host
from pgtrial.hosts.local import LocalHost
from pgtrial.postgres.existing.copies import copy_database
from pgtrial.postgres.existing.server import open_server
from pgtrial.postgres.programs import find_programs
from pgtrial.safe_files import new_path


def copy_on_server(experiment: Experiment, name: str, caller: Mapping[str, str]) -> int:
    """Copy the experiment's database to ``name``, on its server; its size in bytes. ``caller`` are libpq's variables.

    Raises ConnectError, PreflightError, TargetError.
    """
    return asyncio.run(_copy(experiment, name, caller))


async def _copy(experiment: Experiment, name: str, caller: Mapping[str, str]) -> int:
    target = experiment.target
    assert target.database is not None  # the command asks for nothing else
    async with open_host(target.host) as host:
        server = await open_server(host, target.connection, database=target.database, restart=(), caller=caller)
        return await copy_database(server, target.database, name)


def dump(experiment: Experiment, to: Path, caller: Mapping[str, str]) -> tuple[int, int]:
    """Dump the experiment's database to a file of pg_dump's own format; its size in bytes, and the server's version.

    Raises ConnectError, PreflightError, TargetError; a part of a dump is not left.
    """
    if to.exists():
        raise PreflightError(f'"{to}" already exists', hint="Name another file with --dump.")
    return asyncio.run(_dump(experiment, to, caller))


async def _dump(experiment: Experiment, to: Path, caller: Mapping[str, str]) -> tuple[int, int]:
    target = experiment.target
    assert target.database is not None  # as above
    here = LocalHost()
    async with open_host(target.host) as host:
        server = await open_server(host, target.connection, database=target.database, restart=(), caller=caller)
        programs = find_programs(target.postgres, may_run=False)
        if programs.major < server.facts.major:
            raise PreflightError(
                f"pg_dump {programs.version} cannot dump a server of PostgreSQL {server.facts.version}",
                hint=f"Install the programs of PostgreSQL {server.facts.major}, and write postgres = "
                f'"{server.facts.major}" in [target].',
            )
        try:
            with new_path(to) as part:
                part.touch(mode=0o600)  # pg_dump keeps it: the data are for their owner alone
                await here.run(
                    [programs.path("pg_dump"), "--format=custom", "--no-owner", "--no-privileges", f"--file={part}"],
                    environment=server.environment(target.database),
                )
        except HostCommandError as err:
            said = err.detail or err.message
            raise TargetError(
                f'cannot dump database "{target.database}": {said}',
                hint="A dump needs SELECT on all tables and sequences: GRANT SELECT ON ALL TABLES IN SCHEMA …, and "
                "GRANT SELECT ON ALL SEQUENCES IN SCHEMA …, for each schema."
                if "permission denied" in said
                else "",
            ) from err
    return to.stat().st_size, server.facts.major
