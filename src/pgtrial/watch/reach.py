"""Reach the server that is to be watched: where it is, what it is, and whether its machine is this one."""

import asyncio
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgtrial.engine.sampler.control import find_disks
from pgtrial.errors import ConnectError, PreflightError, TargetError
from pgtrial.hosts.operations import Operations
from pgtrial.postgres.connect import as_answered, connect
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
_one = threading.Lock()  # libpq's variables are the process's


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A server that answers. ``conninfo`` is for its views, ``own_conninfo`` for what lies in its database; a password
    may be in both. ``server_pid`` is None where its processes are not on this machine, or not to be seen.
    """

    mark: Mark
    version_num: int
    version: str
    conninfo: str
    own_conninfo: str
    server_pid: int | None
    devices: tuple[str, ...]
    remarks: tuple[str, ...]


def reach(dsn: str, caller: Mapping[str, str]) -> Reached:
    """Connect as libpq would with the ``caller``'s variables, read-only, and look.

    Raises SpecError for what is no connection string or has a password in it, ConnectError, PreflightError,
    TargetError.
    """
    with _one:
        try:
            return asyncio.run(asyncio.wait_for(_reach(dsn, caller), _PATIENCE))
        except TimeoutError:
            raise ConnectError(
                "the server does not answer", detail=f"It was waited for {_PATIENCE:.0f} s.", hint="Try it with psql."
            ) from None


async def _reach(dsn: str, caller: Mapping[str, str]) -> Reached:
    address = await find_server(dsn, database=None, caller=caller, typed=_TYPED)
    async with connect(address.conninfo(), application=APPLICATION) as connection:
        await connection.execute("SET default_transaction_read_only = on")
        with as_answered():
            found = await (await connection.execute(_FACTS)).fetchone()
            if found is None:
                raise TargetError("the server does not say what it is")
            pid, version_num, database, data, is_monitor, version = found
            if int(version_num) < OLDEST:
                raise PreflightError(f"the server is PostgreSQL {version}; the oldest that can be watched is 12")
            server_pid = _local_server(int(pid), database=str(database))
        mark = Mark(server=address.place, database=str(database))
    remarks = []
    if not is_monitor:
        remarks.append(
            f'role "{address.user}" is no member of pg_monitor: what other roles do is not seen '
            f"(GRANT pg_monitor TO {address.user})"
        )
    devices: tuple[str, ...] = ()
    if server_pid is not None and data:
        with suppress(OSError, TargetError):
            disks = find_disks(Operations(), [str(data), f"{data}/pg_wal"])
            devices = disks.names
            remarks += [each.text for each in disks.caveats]
    return Reached(
        mark=mark,
        version_num=int(version_num),
        version=str(version),
        conninfo=await _elsewhere(address, str(database)),
        own_conninfo=address.conninfo(),
        server_pid=server_pid,
        devices=devices,
        remarks=tuple(remarks),
    )


async def _elsewhere(address: ServerAddress, database: str) -> str:
    """To a database other than the one that is watched, if that can be: the watch's own transactions count there."""
    if database != MAINTENANCE:
        with suppress(ConnectError, TargetError):
            conninfo = address.conninfo(MAINTENANCE)
            async with connect(conninfo, application=APPLICATION):
                return conninfo
    return address.conninfo()


def _local_server(pid: int, *, database: str) -> int | None:
    """The first process of the server whose process ``pid`` is ours; None where that is another machine's.

    Its title has the database's name, and its parent is the server: no process of this machine that only happens to
    have the number has both.
    """
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        if not title.startswith("postgres: ") or f" {database} " not in title:
            return None
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()
        return int(fields[1])
    except (OSError, ValueError, IndexError):
        return None
