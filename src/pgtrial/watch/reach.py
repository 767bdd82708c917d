"""Reach the server that is to be watched: where it is, what it is, and its machine, if that is this one or reached."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from pgtrial.engine.sampler.config import RemoteReader
from pgtrial.engine.sampler.control import find_disks, remote_reader
from pgtrial.errors import ConnectError, PgTrialError, PreflightError, TargetError
from pgtrial.hosts.clock import measure_offset
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.ssh.host import SshHost
from pgtrial.postgres.connect import as_answered, connect, read_only
from pgtrial.postgres.existing.address import MAINTENANCE, ServerAddress, find_server
from pgtrial.watch.folder import Mark
from pgtrial.watch.recorder import APPLICATION

OLDEST = 120000
_PATIENCE = 60.0  # s
_TYPED = "the command"  # that names the server
_FACTS = """
SELECT pg_backend_pid(), current_setting('server_version_num')::int, current_database(),
       (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory'),
       pg_has_role('pg_monitor', 'USAGE'),
       current_setting('server_version')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A server that answers. ``conninfo`` is for its views, ``own_conninfo`` for what lies in its database; a password
    may be in both. ``places`` are all that the connection string may lead to. ``server_pid`` is None where its
    processes are not on this machine, nor on the one of ``remote``, or not to be seen.
    """

    mark: Mark
    version_num: int
    version: str
    conninfo: str
    own_conninfo: str
    server_pid: int | None
    devices: tuple[str, ...]
    remarks: tuple[str, ...]
    places: tuple[str, ...] = ()
    remote: "RemoteMachine | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteMachine:
    """The server's machine where that is another one: a connection to it, and how its files are read."""

    host: SshHost
    reader: RemoteReader

    def close(self) -> None:
        """End what reads there, and the connection."""
        asyncio.run(self.host.close())


def reach(dsn: str, caller: Mapping[str, str], *, machine: str | None = None, insists: bool = True) -> Reached:
    """Connect as libpq would with the ``caller``'s variables, read-only, and look; on the server's ``machine`` too, an
    ssh:// address, without which there is SQL only unless the server runs here. Who does not ``insist`` on it goes on
    without it where it cannot be reached, with a remark.

    Raises SpecError for what is no connection string or has a password in it, ConnectError, PreflightError,
    TargetError.
    """
    try:
        return asyncio.run(asyncio.wait_for(_reach(dsn, caller, machine, insists=insists), _PATIENCE))
    except TimeoutError:
        raise ConnectError(
            "the server does not answer", detail=f"It was waited for {_PATIENCE:.0f} s.", hint="Try it with psql."
        ) from None


async def _reach(dsn: str, caller: Mapping[str, str], machine: str | None, *, insists: bool) -> Reached:
    address = await find_server(dsn, database=None, caller=caller, typed=_TYPED)
    async with connect(address.conninfo(), application=APPLICATION) as connection:
        with as_answered():
            async with read_only(connection):
                found = await (await connection.execute(_FACTS)).fetchone()
            if found is None:
                raise TargetError("the server does not say what it is")
            pid, version_num, database, data, is_monitor, version = found
            if int(version_num) < OLDEST:
                raise PreflightError(f"the server is PostgreSQL {version}; the oldest that can be watched is 12")
        conninfo = await _elsewhere(address, str(database))
        remarks: list[str] = []
        remote: RemoteMachine | None = None
        ops, server_pid = Operations(), None
        if machine is None:
            server_pid = find_first_process(ops, int(pid), database=str(database))
        else:
            try:
                remote, server_pid = await _open_machine(machine, int(pid), database=str(database))
                ops = remote.host.ops
            except PgTrialError as err:
                if insists:
                    raise
                remarks.append(f"{err.message}: without its machine for now")
        mark = Mark(server=address.place, database=str(database))
    if not is_monitor:
        remarks.append(
            f'role "{address.user}" is no member of pg_monitor: what other roles do is not seen '
            f"(GRANT pg_monitor TO {address.user})"
        )
    devices: tuple[str, ...] = ()
    if server_pid is not None and data:
        with suppress(OSError, TargetError):
            disks = find_disks(ops, [str(data), f"{data}/pg_wal"])
            devices = disks.names
            remarks += [each.text for each in disks.caveats]
    return Reached(
        mark=mark,
        version_num=int(version_num),
        version=str(version),
        conninfo=conninfo,
        own_conninfo=address.conninfo(),
        server_pid=server_pid,
        devices=devices,
        remarks=tuple(remarks),
        places=address.places,
        remote=remote,
    )


async def _open_machine(address: str, pid: int, *, database: str) -> tuple[RemoteMachine, int]:
    """The machine at an address, and the first process of the server whose process ``pid`` is ours.

    Raises PreflightError where that server is not there, ConnectError where nothing is.
    """
    host = await SshHost.open(address)
    try:
        first = find_first_process(host.ops, pid, database=database)
        reader = remote_reader(host, clock_offset=measure_offset(host).offset)
    except BaseException:
        await host.close(at_once=True)
        raise
    assert reader is not None  # it is another machine
    if first is None:
        await host.close()
        raise PreflightError(
            f"the server does not run on {host.name}, or its processes are not to be seen there",
            hint="Name the machine to which the connection string leads: through a pooler, or into a container, the "
            "processes of a server are others.",
        )
    return RemoteMachine(host=host, reader=reader), first


async def _elsewhere(address: ServerAddress, database: str) -> str:
    """To a database other than the one that is watched, if that can be: the watch's own transactions count there."""
    if database != MAINTENANCE:
        with suppress(ConnectError, TargetError):
            conninfo = address.conninfo(MAINTENANCE)
            async with connect(conninfo, application=APPLICATION):
                return conninfo
    return address.conninfo()


def find_first_process(ops: Operations, pid: int, *, database: str) -> int | None:
    """The first process of the server whose process ``pid`` is ours, on a machine; None where it is none of that one's.

    Its title has the database's name, and its parent is the server: no process that only happens to have the number
    has both.
    """
    try:
        title = ops.read(f"/proc/{pid}/cmdline")
        if not title.startswith("postgres: ") or f" {database} " not in title:
            return None
        return int(ops.read(f"/proc/{pid}/stat").rpartition(") ")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None
