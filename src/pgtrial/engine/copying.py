"""A copy of an existing database, to try on it what nobody would try on the original."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgtrial.errors import HostCommandError, PreflightError, TargetError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.connect import open_host
from pgtrial.hosts.local import LocalHost
from pgtrial.postgres.existing.copies import Copied, copy_database, read_settings
from pgtrial.postgres.existing.server import open_server
from pgtrial.postgres.programs import find_programs
from pgtrial.safe_files import new_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Dumped:
    """``size`` in bytes, the server's ``major`` version, and ``settings`` of the database, which a dump has not."""

    size: int
    major: int
    settings: tuple[str, ...]


def copy_on_server(experiment: Experiment, name: str, caller: Mapping[str, str]) -> Copied:
    """Copy the experiment's database to ``name``, on its server. ``caller`` are libpq's variables.

    Raises ConnectError, PreflightError, TargetError.
    """
    return asyncio.run(_copy(experiment, name, caller))


async def _copy(experiment: Experiment, name: str, caller: Mapping[str, str]) -> Copied:
    target = experiment.target
    assert target.database is not None  # the command asks for nothing else
    async with open_host(target.host) as host:
        server = await open_server(host, target.connection, database=target.database, restart=(), caller=caller)
        return await copy_database(server, target.database, name)


def dump(experiment: Experiment, to: Path, caller: Mapping[str, str]) -> Dumped:
    """Dump the experiment's database to a file of pg_dump's own format.

    Raises ConnectError, PreflightError, TargetError; a part of a dump is not left.
    """
    if to.exists():
        raise PreflightError(f'"{to}" already exists', hint="Name another file with --dump.")
    return asyncio.run(_dump(experiment, to, caller))


async def _dump(experiment: Experiment, to: Path, caller: Mapping[str, str]) -> Dumped:
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
        settings = await read_settings(server, target.database)
        environment = server.environment(target.database)
        options = ("--format=custom", "--no-owner", "--no-privileges", f"--dbname={environment['PGDATABASE']}")
        try:
            with new_path(to) as part:
                part.touch(mode=0o600)  # pg_dump keeps it: the data are for their owner alone
                await here.run([programs.path("pg_dump"), *options, f"--file={part}"], environment=environment)
        except HostCommandError as err:
            said = err.detail or err.message
            raise TargetError(
                f'cannot dump database "{target.database}": {said}',
                hint="A dump needs SELECT on all tables and sequences: GRANT SELECT ON ALL TABLES IN SCHEMA …, and "
                "GRANT SELECT ON ALL SEQUENCES IN SCHEMA …, for each schema."
                if "permission denied" in said
                else "",
            ) from err
    return Dumped(size=to.stat().st_size, major=server.facts.major, settings=settings)
