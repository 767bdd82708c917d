"""An existing server: its address, its facts, and which of its files pgtrial can reach."""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection, Error

from pgtrial.errors import ConnectError, PreflightError, TargetError
from pgtrial.hosts.base import Host
from pgtrial.hosts.operations import MARK
from pgtrial.hosts.processes import end_process
from pgtrial.postgres.auto_conf import NAME as AUTO_CONF
from pgtrial.postgres.connect import as_answered, connect, fetch
from pgtrial.postgres.existing.address import ServerAddress, find_server
from pgtrial.postgres.programs import OLDEST_MAJOR

# Reach an existing server, let it read its configuration, and restart it by the command that the user declared.


RESTART_LIMIT = 600.0  # s for the restart command: it waits for the shutdown checkpoint
RESTART_PATIENCE = 120.0  # s for the server to answer after it
_STEP = 0.1  # s between two attempts
_LAST_LINES = 8

_TIMELINE = "SELECT timeline_id FROM pg_catalog.pg_control_checkpoint()"
_STARTED = "SELECT extract(epoch FROM pg_catalog.pg_postmaster_start_time())::float8"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerControl:
    """``restart_command`` is what the user declared, without a shell; empty: the server is never restarted.

    ``variables`` (PGDATA) are those of the caller's that the command is given. ``scratch`` is a private directory of
    the host that is there while the command runs. Times are in seconds.
    """

    host: Host
    address: ServerAddress
    restart_command: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    scratch: str = field(default_factory=lambda: f"/tmp/pgtrial-restart-{secrets.token_hex(8)}")
    limit: float = RESTART_LIMIT
    patience: float = RESTART_PATIENCE

    def conninfo(self, database: str | None = None) -> str:
        """A connection string; a password may be in it, so it is only for memory, pipes and libpq."""
        return self.address.conninfo(database)

    def restart_text(self) -> str:
        """For the journal."""
        stored = {
            "restart_command": list(self.restart_command),
            "variables": dict(self.variables),
            "scratch": self.scratch,
        }
        return json.dumps(stored)

    async def reload(self) -> None:
        """Tell the server to read its configuration; it does so a moment later."""
        await fetch(self.conninfo(), "SELECT pg_catalog.pg_reload_conf()")

    async def started(self) -> float:
        """When the server was started, in seconds since the epoch by its own clock. Raises ConnectError."""
        return float((await fetch(self.conninfo(), _STARTED))[0][0])

    async def answers(self, patience: float) -> bool:
        """Whether the server takes connections, now or within ``patience`` seconds."""
        return not await self._wait(patience, other_than=None)

    async def restart(self) -> None:
        """Run the declared command and wait until the server answers, started anew. Raises TargetError."""
        try:
            before: float | None = await self.started()
        except ConnectError:
            before = None  # it is down; whatever answers later was started by the command
        command = " ".join(self.restart_command)
        complaint, words = await self._run_command()
        if complaint:
            raise TargetError(
                f'the restart command {complaint}: "{command}"',
                detail=words,
                hint="Fix restart in [target], or the problem that the command reports.",
            )
        trouble = await self._wait(self.patience, other_than=before)
        if trouble:
            raise TargetError(
                f"the server did not come back within {self.patience:g} s of the restart",
                detail=f'The command "{command}" succeeded. {trouble}',
                hint="The server's own log says why.",
            )

    async def _run_command(self) -> tuple[str, str]:
        """(what is wrong with its end, "" if nothing; its last words)."""
        # Not through a pipe: a server that the command starts would keep it open, and it would never end.
        output, ops = Path(self.scratch, "output"), self.host.ops
        ops.remove(self.scratch)  # what a killed pgtrial left
        ops.make_directory(self.scratch)
        # Without the mark: the server that it starts is not a program of the experiment, to be ended with it.
        environment = {**self.variables, MARK: ""}
        try:
            process = await self.host.start(
                self.restart_command, role="restart", environment=environment, directory=Path("/"), output=output
            )
            status: int | None = None
            try:
                async with asyncio.timeout(self.limit):
                    status = await process.wait()
            except TimeoutError:
                pass
            finally:
                if process.returncode is None:
                    await end_process(process)
            said = ops.read(str(output), 20_000).strip().splitlines()[-_LAST_LINES:]
        finally:
            ops.remove(self.scratch)
        words = "\n".join(said) or "It printed nothing."
        if status is None:
            return f"has not ended after {self.limit:g} s", words
        return f"ended with status {status}" if status else "", words

    async def _wait(self, patience: float, *, other_than: float | None) -> str:
        """Wait until the server answers and was not started at ``other_than``; "" then, else what is so, a sentence."""
        deadline = time.monotonic() + patience
        while True:
            try:
                async with asyncio.timeout(max(1.0, deadline - time.monotonic())):
                    if await self.started() != other_than:
                        return ""
                trouble = "The server that answers is the one that ran before."
            except TimeoutError:
                trouble = "The server does not answer."
            except TargetError as err:  # also in the middle of a shutdown
                trouble = f"The server does not answer: {err.detail or err.message}"
            if time.monotonic() > deadline:
                return trouble
            await asyncio.sleep(_STEP)


def control_again(host: Host, address: ServerAddress, restart_text: str) -> ServerControl:
    """The control of a journal's entry; ``restart_text`` is "" where it allows no restart."""
    return ServerControl(host=host, address=address, **(json.loads(restart_text) if restart_text else {}))


_NEW = 10.0  # s: a process that has served our connection only is not older
_TICKS = 100  # of a process's start, per second, on every Linux (man 5 proc, sysconf _SC_CLK_TCK)
_CHUNK = 1 << 20

_FACTS = """
    SELECT pg_catalog.current_setting('server_version'), pg_catalog.current_setting('server_version_num')::int,
        pg_catalog.pg_is_in_recovery(), pg_catalog.pg_backend_pid(),
        (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory')
"""
_AUTO_CONF = "SELECT pg_catalog.pg_read_binary_file('postgresql.auto.conf')"  # relative to the data directory


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """``version`` is as the server says it ("15.18"); ``data_directory`` is "" where the role may not see it.

    ``process`` is the server's first one on the host, None where it runs elsewhere. ``files``: pgtrial can also replace
    files in the data directory, whether the server is up or not.
    """

    version: str
    version_num: int
    in_recovery: bool
    data_directory: str
    process: int | None
    files: bool

    @property
    def local(self) -> bool:
        """Whether the server runs on the host, so that what is measured there is the server's machine."""
        return self.process is not None

    @property
    def major(self) -> int:
        return self.version_num // 10000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingServer:
    """A server that was there before pgtrial, and is to be found again as it was."""

    control: ServerControl
    facts: ServerFacts

    @property
    def host(self) -> Host:
        return self.control.host

    def conninfo(self, database: str | None = None, options: str = "") -> str:
        """A connection string; a password may be in it, so it is only for memory, pipes and libpq.

        ``options`` are a session's own settings (``options_of``).
        """
        return self.control.address.conninfo(database, options)

    def environment(self, database: str, options: str = "") -> dict[str, str]:
        """Variables by which pgbench reaches a database; a password may be among them."""
        return self.control.address.environment(database, options)

    @property
    def directories(self) -> tuple[str, ...]:
        """Where the data and the WAL lie on the host, as far as that can be seen."""
        data = self.facts.data_directory
        if not self.facts.local or not data:
            return ()
        return tuple(path for path in (data, f"{data}/pg_wal") if self.host.ops.exists(path))

    @property
    def auto_conf(self) -> str:
        """Path of postgresql.auto.conf on the server's machine."""
        return f"{self.facts.data_directory}/{AUTO_CONF}"

    def read_log_chunk(self, path: str, offset: int, size: int) -> bytes:
        """As ``read_chunk``, of a file that the server names as its log: it may name any, and pgtrial may be root, so
        it has to be one of the account's that the server runs as. What its process has open it could open itself.
        """
        is_open = path.startswith("/proc/")
        owner = None if is_open or self.facts.process is None else _user_of(self.host, self.facts.process)
        return read_chunk(self.host, path, offset, size, owner=owner)

    async def find_process(self) -> int | None:
        """The server's first process on the host, also after a restart; None where it runs elsewhere."""
        async with connect(self.control.conninfo()) as own:
            row = await (await own.execute("SELECT pg_catalog.pg_backend_pid()")).fetchone()
            return None if row is None else find_parent(self.host, row[0])

    async def timeline(self) -> str:
        """By which the server is told from the one that takes its place at its address; "" where it cannot be: a
        standby goes over to another timeline as its primary does.
        """
        if self.facts.in_recovery:
            return ""
        async with connect(self.control.conninfo()) as own:
            return await read_timeline(own)

    async def read_auto_conf(self) -> bytes | None:
        """postgresql.auto.conf byte for byte; None where neither pgtrial nor its role may read it."""
        return await read_auto_conf(self.control, self.auto_conf if self.facts.files else None)


async def read_timeline(connection: "AsyncConnection[tuple[Any, ...]]") -> str:
    """The timeline that the server writes, "" where it does not say."""
    with suppress(Error):
        row = await (await connection.execute(_TIMELINE)).fetchone()
        return "" if row is None else str(row[0])
    return ""


async def open_server(
    host: Host,
    connection: str,
    *,
    database: str | None,
    restart: Sequence[str],
    caller: Mapping[str, str],
    typed: str = "",
) -> ExistingServer:
    """Reach the server of ``connection``: libpq's string; empty: what the ``caller``'s variables say.

    ``host`` is the machine on which it is looked for. ``database`` and ``typed`` as of ``find_server``.
    Raises PreflightError for a connection string that is none, and a server that is too old; ConnectError.
    """
    address = await find_server(connection, database=database, caller=caller, typed=typed)
    variables = {name: value for name, value in caller.items() if name == "PGDATA"}
    control = ServerControl(host=host, address=address, restart_command=tuple(restart), variables=variables)
    with as_answered():
        async with connect(control.conninfo()) as own:
            facts = await _read_facts(own, host)
    if facts.major < OLDEST_MAJOR:
        raise PreflightError(
            f"the server at {address.place} is PostgreSQL {facts.version}, older than {OLDEST_MAJOR}, "
            "the oldest supported"
        )
    return ExistingServer(control=control, facts=facts)


async def read_auto_conf(control: ServerControl, path: str | None) -> bytes | None:
    """postgresql.auto.conf by its ``path`` on the host, or, with None, through the server. Raises OSError."""
    if path is not None:
        return read_bytes(control.host, path)
    async with connect(control.conninfo()) as connection:
        with suppress(Error):  # no right to; which one is lacking is said by the probe of rights
            row = await (await connection.execute(_AUTO_CONF)).fetchone()
            return None if row is None else bytes(row[0])
    return None


def read_bytes(host: Host, path: str) -> bytes:
    """A file of a server's data directory, byte for byte. Raises OSError.

    The server's account may put a link there, and pgtrial may be root: what it leads to has to be that account's too.
    """
    owner = host.ops.owner(path.rpartition("/")[0])
    content = b""
    while chunk := read_chunk(host, path, len(content), _CHUNK, owner=owner):
        content += chunk
    return content


def read_chunk(host: Host, path: str, offset: int, size: int, *, owner: int | None = None) -> bytes:
    """At most ``size`` bytes of a file of the host, empty at its end; of one of the ``owner``'s, if that is given.

    Raises OSError.
    """
    return base64.b64decode(host.ops.read_chunk(path, offset, size, follow=True, owner=owner))


async def _read_facts(connection: "AsyncConnection[tuple[Any, ...]]", host: Host) -> ServerFacts:
    row = await (await connection.execute(_FACTS)).fetchone()
    assert row is not None  # it has no FROM
    version, version_num, in_recovery, pid, directory = row
    parent = find_parent(host, pid)
    return ServerFacts(
        version=version.partition(" ")[0],
        version_num=version_num,
        in_recovery=in_recovery,
        data_directory=directory or "",
        process=parent,
        files=parent is not None and bool(directory) and _is_data_of(host, directory, parent),
    )


def find_parent(host: Host, pid: int) -> int | None:
    """Process id of the server on the host whose child serves our connection; None if that is not there.

    That process is a PostgreSQL one, and it is as new as the connection. The same process id alone could be that of
    another server's, as of a standby on this machine.
    """
    try:
        name, fields = _read_stat(host.ops.read(f"/proc/{pid}/stat"))
        uptime = float(host.ops.read("/proc/uptime").split()[0])
    except (OSError, ValueError, IndexError):
        return None
    started = int(fields[19]) / _TICKS
    is_ours = name.startswith("postgres") and uptime - started < _NEW
    return int(fields[1]) if is_ours else None


def _user_of(host: Host, pid: int) -> int:
    """Whom a process runs as. Raises OSError."""
    status = host.ops.read(f"/proc/{pid}/status")
    return int(status.partition("\nUid:")[2].split()[1])


def is_child(host: Host, pid: int, parent: int) -> bool:
    """Whether a process of the host is a server's, whose first one is ``parent``: a number alone says too little."""
    try:
        name, fields = _read_stat(host.ops.read(f"/proc/{pid}/stat"))
        return name.startswith("postgres") and int(fields[1]) == parent
    except (OSError, ValueError, IndexError):
        return False


def _read_stat(text: str) -> tuple[str, list[str]]:
    """(name, the fields after it) of /proc/PID/stat; the name, in parentheses, may hold anything."""
    head, _, tail = text.rpartition(")")
    return head.partition("(")[2], tail.split()


def _is_data_of(host: Host, directory: str, pid: int) -> bool:
    """Whether the host's ``directory`` is the server's own: a container has paths of its own."""
    try:
        first = host.ops.read(f"{directory}/postmaster.pid").partition("\n")[0]
    except OSError:
        return False
    return first.strip() == str(pid) and host.ops.is_writable(directory)
