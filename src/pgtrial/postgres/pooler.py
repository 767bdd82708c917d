"""PgBouncer in front of a cluster: its configuration, its process, and how it is reached.

It listens on a Unix socket beside the server's, in the private directory that only the server's account and root can
enter, and lets in whom the server lets in. Source of all keys: pgbouncer.ini(5).
"""

import asyncio
import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.errors import SettingError, TargetError
from pgtrial.hosts.base import Account, Host, HostProcess
from pgtrial.hosts.linux.loop_devices import find_program
from pgtrial.hosts.processes import end_process, identify
from pgtrial.knobs.pgbouncer import MOST_CLIENTS, POOL_MODE, SESSION, pool_mode, pool_size
from pgtrial.postgres.connect import connect, conninfo
from pgtrial.postgres.throwaway import SUPERUSER, ThrowawayCluster
from pgtrial.postgres.work_directory import PORT, writing

PROGRAM = "pgbouncer"
PORT_OF_POOLER = 6432  # names the socket file only, as that of the server
_CONSOLE = "pgbouncer"  # its database for administration
_PREPARED_SINCE = (1, 21)  # that it follows prepared statements from one session of the server to the next
_UNPREPARED = "--db-ps-mode=disable"  # of sysbench
_PREPARED = 200  # statements of a client that it follows; older ones have no such key
_VERSION = re.compile(r"PgBouncer (?P<text>(?P<major>\d+)\.(?P<minor>\d+)\S*)")
_OPEN_FILES = re.compile(r"^Max open files +(?P<soft>\d+)", re.MULTILINE)
_SPARE_FILES = 32  # beside the sockets: libraries, the log, the console
_SPARE_CLIENTS = 10  # beside those of the load: the tries of a script, and the console
_LONGEST_LOG = 1 << 16  # bytes
_PATIENCE = 20.0  # s until it answers
_POLL = 0.02  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolerProgram:
    """The program on a host; ``version`` as it says it itself, ``number`` for comparing."""

    path: str
    version: str
    number: tuple[int, int]


async def find_pooler(host: Host, account: Account | None) -> PoolerProgram:
    """Raises SettingError where there is none."""
    path = find_program(host.ops, PROGRAM, PROGRAM)
    said = (await host.run([path, "--version"], account=account, directory=Path("/"))).stdout
    match = _VERSION.search(said)
    if match is None:
        raise SettingError(f'"{path}" is not PgBouncer', detail=f"It says of its version {said.strip()[:100]!a}.")
    return PoolerProgram(path=path, version=match["text"], number=(int(match["major"]), int(match["minor"])))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPooler:
    """``console`` is how its console is reached, ``pid`` its process on the server's host, ``size`` the sessions that
    it may open.
    """

    console: str
    pid: int
    size: int


@dataclass(slots=True, kw_only=True)
class Pooler:
    """PgBouncer in front of the server of ``cluster``; ``table`` is the knob's, ``clients`` the load's."""

    program: PoolerProgram
    cluster: ThrowawayCluster
    table: Mapping[str, str]
    clients: int
    process: HostProcess | None = field(default=None, init=False)
    reached_by: Path | None = field(default=None, init=False)  # the socket's directory as seen from here

    @property
    def _most_clients(self) -> int:
        return int(self.table.get(MOST_CLIENTS, self.clients + _SPARE_CLIENTS))

    @property
    def _conf(self) -> Path:
        return self.cluster.directory / "pgbouncer.ini"

    @property
    def _users(self) -> Path:
        return self.cluster.directory / "pgbouncer.users"

    @property
    def _log(self) -> Path:
        return self.cluster.directory / "pgbouncer.log"

    @property
    def console(self) -> str:
        """How pgtrial reaches its console."""
        return conninfo(host=str(self.reached_by), port=PORT_OF_POOLER, user=SUPERUSER, database=_CONSOLE)

    def running(self) -> RunningPooler:
        """What others have to know of it while it runs."""
        assert self.process is not None  # it was started
        return RunningPooler(console=self.console, pid=self.process.pid, size=pool_size(self.table))

    def environment(self) -> dict[str, str]:
        """What makes programs on pgtrial's machine go to it instead of to the server."""
        return {"PGHOST": str(self.reached_by), "PGPORT": str(PORT_OF_POOLER)}

    def render(self) -> str:
        """Its configuration."""
        socket_directory = self.cluster.socket_directory
        quoted = str(socket_directory).replace("'", "''")
        settings = {
            "listen_port": str(PORT_OF_POOLER),
            "unix_socket_dir": str(socket_directory),
            "unix_socket_mode": "0700",
            "auth_type": "trust",  # as the server's: the socket's directory lets only this user and root in
            "auth_file": str(self._users),
            "admin_users": SUPERUSER,
            POOL_MODE: pool_mode(self.table),
            "default_pool_size": str(pool_size(self.table)),
            MOST_CLIENTS: str(self._most_clients),
            # A client that waits is counted, and not thrown out after two minutes.
            "query_wait_timeout": "0",
            # What JDBC sends to every server, and PgBouncer does not know.
            "ignore_startup_parameters": "extra_float_digits",
            "log_connections": "0",
            "log_disconnections": "0",
            "log_stats": "0",
        }
        if self.program.number >= _PREPARED_SINCE:
            settings["max_prepared_statements"] = str(_PREPARED)
        lines = "\n".join(f"{key} = {value}" for key, value in settings.items())
        return f"[databases]\n* = host='{quoted}' port={PORT}\n\n[pgbouncer]\n{lines}\n"

    async def start(self) -> None:
        """Start it and read back what it was told. Raises SettingError, TargetError."""
        host = self.cluster.host
        self._check_files()
        with writing(self._conf):
            host.ops.put(str(self._conf), self.render())
            host.ops.put(str(self._users), f'"{SUPERUSER}" ""\n')
        self.process = await host.start(
            [self.program.path, self._conf],
            role="pooler",
            account=self.cluster.account,
            # By this the sampler knows whose load and whose pooler a process is.
            environment={"PGHOST": str(self.cluster.socket_directory)},
            directory=self.cluster.directory,
            output=self._log,
        )
        socket = self.cluster.socket_directory / f".s.PGSQL.{PORT_OF_POOLER}"
        try:
            async with asyncio.timeout(_PATIENCE):
                while not host.ops.exists(str(socket)):
                    self._require_alive()
                    await asyncio.sleep(_POLL)
                self.reached_by = (await host.forward(socket)).parent
                shown = await self._read_config()
        except TimeoutError as err:
            raise TargetError(f"PgBouncer does not answer after {_PATIENCE:g} s") from err
        wanted = {POOL_MODE: pool_mode(self.table), "default_pool_size": str(pool_size(self.table))}
        for key, value in {**wanted, MOST_CLIENTS: str(self._most_clients)}.items():
            if shown.get(key) != value:
                raise SettingError(f"{key} of PgBouncer is {shown.get(key)} after the start, expected {value}")

    def _require_alive(self) -> None:
        if self.process is not None and self.process.returncode is not None:
            said = self.cluster.host.ops.read(str(self._log), _LONGEST_LOG).strip().splitlines()[-4:]
            raise SettingError("PgBouncer does not start", detail="\n".join(said) or "It said nothing.")

    async def _read_config(self) -> dict[str, str]:
        """What it says of its configuration. The socket may be there before anybody listens."""
        while True:
            try:
                async with connect(self.console, as_user=True) as connection:
                    rows = await (await connection.execute("SHOW CONFIG")).fetchall()
                return {key: value for key, value, *_ in rows}
            except TargetError:
                self._require_alive()
                await asyncio.sleep(_POLL)

    def _check_files(self) -> None:
        """Raise SettingError if a process may not have as many files open as PgBouncer needs; it would only refuse."""
        needed = self._most_clients + pool_size(self.table) + _SPARE_FILES
        limit = _OPEN_FILES.search(self.cluster.host.ops.read("/proc/self/limits"))
        if limit is not None and int(limit["soft"]) < needed:
            raise SettingError(
                f"a process may have {limit['soft']} files open here, and PgBouncer needs {needed}",
                detail=f"It serves up to {self._most_clients} clients with {pool_size(self.table)} sessions.",
                hint=f"Allow more before pgtrial is started: ulimit -n {needed}.",
            )

    def has_died(self) -> bool:
        """Whether it was started and is gone although nobody ended it."""
        return self.process is not None and (
            self.process.returncode is not None or identify(self.process.pid, self.cluster.host.ops) is None
        )

    async def stop(self) -> None:
        """End it, and all connections through it."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)  # what stands still does not hear the next one
        await end_process(self.process, with_signal=signal.SIGTERM)
        self.process = None


def require_protocol(program: PoolerProgram, table: Mapping[str, str], protocol: str) -> None:
    """Raise SettingError if the load's statements are prepared in a session that the next one may not have."""
    if protocol == "prepared":
        _require_followed(program, table, 'protocol = "prepared"', 'Choose protocol = "simple" or "extended"')


def require_sysbench(program: PoolerProgram, table: Mapping[str, str], command: Sequence[str]) -> None:
    """The same of the statements of sysbench, which prepares them unless it is told not to."""
    if _UNPREPARED not in command:
        _require_followed(program, table, "sysbench, which prepares its statements", f'Add "{_UNPREPARED}" to command')


def _require_followed(program: PoolerProgram, table: Mapping[str, str], what: str, remedy: str) -> None:
    if pool_mode(table) == SESSION or program.number >= _PREPARED_SINCE:
        return
    since = ".".join(map(str, _PREPARED_SINCE))
    raise SettingError(
        f'PgBouncer {program.version} cannot have pool_mode = "{pool_mode(table)}" with {what}',
        detail="The next transaction of a client may be in another session, in which its statements are not prepared. "
        f"PgBouncer prepares them there since {since}.",
        hint=f'{remedy}, or pool_mode = "session", or install a newer PgBouncer.',
    )
