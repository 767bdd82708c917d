"""A cluster created for one experiment: it listens on a Unix socket in a private directory and leaves no trace."""

import asyncio
import logging
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.errors import SettingError, StoreError, TargetError
from pgtrial.hosts.base import LOCAL, Account, Host, HostProcess
from pgtrial.hosts.processes import end_process, find_server_children, identify
from pgtrial.postgres.connect import conninfo
from pgtrial.postgres.entrance import Entrance
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.settings import Setting, find_mismatches, read_settings, render_settings
from pgtrial.postgres.work_directory import PORT, make_own, writing
from pgtrial.safe_files import new_file, open_file
from pgtrial.safe_text import parse_json

_log = logging.getLogger(__name__)

SUPERUSER = "postgres"
CONF = "pgtrial.conf"
_LOCK_FILE = "postmaster.pid"
_LOG_NAME = "server"
_LONGEST_LOG = 16 << 20  # bytes that are looked at for why a server does not start
_LONGEST_LOCK = 8192  # bytes
_CHECKSUMS_BY_DEFAULT = 18
_READY_LINE = 8  # of postmaster.pid (miscadmin.h: LOCK_FILE_LINE_PM_STATUS)
_POLL, _REMOTE_POLL = 0.01, 0.1  # s between two looks whether the server is ready
_LITTLE_MEMORY = ("-c", "shared_buffers=128kB", "-c", "huge_pages=off")  # for a server that serves nobody
_CLEAR_POLL = 0.05  # s between two looks whether all of one has ended
_PATIENCE = 600.0  # s for a server to start, and to stop
_CLEAR_PATIENCE = 10.0  # s for what is left of one to end

# What pgtrial needs for itself; the experiment file may not name these.
OWN_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": str(PORT),
    "cluster_name": "pgtrial",
    "logging_collector": "on",
    "log_destination": "jsonlog",
    "log_filename": _LOG_NAME,
    "log_file_mode": "0644",
    "log_rotation_age": "0",
    "log_rotation_size": "0",
    "log_timezone": "UTC",
    "lc_messages": "C",
}
# What makes the server's log tell the story of a run, and sampled sessions show which statements are the same but for
# their literals; the experiment file may say otherwise. Small temporary files are
# left out: with little work_mem there are thousands a second, and logging them would slow down that arm more than the
# others. A megabyte takes longer to write than its line in the log, and all files are counted by pg_stat_database.
DEFAULT_SETTINGS: Mapping[str, str] = {
    "log_checkpoints": "on",
    "log_autovacuum_min_duration": "0",
    "log_lock_waits": "on",
    "log_temp_files": "1MB",
    "compute_query_id": "on",
}
# What counts statements, where the server has its library and nobody has said otherwise. Its statistics are not kept
# over a restart: each run begins with none.
STATEMENTS = "pg_stat_statements"
COUNTING_SETTINGS: Mapping[str, str] = {"shared_preload_libraries": STATEMENTS, f"{STATEMENTS}.save": "off"}


@dataclass(slots=True, kw_only=True)
class ThrowawayCluster:
    """One data directory and, while it runs, its server. Paths are those of the host.

    ``account`` is whom the server runs as, None: as pgtrial there. ``wal_directory`` is a private directory in which
    the WAL lies, None: with the data. Nothing is written as pgtrial into the directories that the server owns (data,
    log, WAL, socket), and what is read there is read through no link: an account may be in the hands of somebody else.
    """

    host: Host
    programs: Programs
    directory: Path
    socket_directory: Path
    account: Account | None
    wal_directory: Path | None = None
    entrance: Entrance | None = None  # for the load of other machines
    process: HostProcess | None = field(default=None, init=False)
    reached_by: Path | None = field(default=None, init=False)  # the socket's directory as seen from here, since a start

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def wal(self) -> Path:
        return self.data / "pg_wal" if self.wal_directory is None else self.wal_directory / "wal"

    @property
    def directories(self) -> tuple[Path, ...]:
        """All that are the cluster's alone, to be removed with it."""
        return tuple(path for path in (self.directory, self.socket_directory, self.wal_directory) if path is not None)

    @property
    def conf(self) -> Path:
        return self.directory / CONF

    @property
    def log(self) -> Path:
        """The server's log, one JSON object per line."""
        return self._log_directory / f"{_LOG_NAME}.json"

    @property
    def _log_directory(self) -> Path:
        return self.directory / "log"

    def conninfo(self, database: str = "postgres") -> str:
        """How pgtrial reaches the server; of another host's only after its first start."""
        directory = self.reached_by or self.socket_directory
        return conninfo(host=str(directory), port=self._port, user=SUPERUSER, database=database)

    @property
    def _port(self) -> int:
        return PORT if self.entrance is None else self.entrance.port

    def environment(self, database: str) -> dict[str, str]:
        """Variables by which programs on pgtrial's machine reach the server; see ``conninfo``."""
        return _environment(self.reached_by or self.socket_directory, database, self._port)

    def host_environment(self, database: str) -> dict[str, str]:
        """Variables by which programs on the server's own host reach it."""
        return _environment(self.socket_directory, database, self._port)

    async def initdb(self, *, checksums: bool | None = None) -> None:
        """Make the data directory, with the C.UTF-8 collation, so that results do not depend on the caller's locale.

        ``checksums`` of data pages are those of the version's default with None.
        """
        for directory in (self.data, *([] if self.wal_directory is None else [self.wal])):
            with writing(directory):
                make_own(self.host, directory, self.account)
        await self.host.run(
            [
                self.programs.path("initdb"),
                f"--pgdata={self.data}",
                f"--username={SUPERUSER}",
                "--auth=trust",  # the socket's directory lets only this user and root in
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
                "--no-instructions",
                *([] if self.wal_directory is None else [f"--waldir={self.wal}"]),
                *_checksums_option(checksums, self.programs.major),
            ],
            account=self.account,
            directory=self.directory,
        )

    def write_settings(self, settings: Mapping[str, str]) -> None:
        """Set what the next start uses, instead of what was set before. Raises TargetError.

        They come behind those that initdb chose, in a file of pgtrial's own, which the server only reads.
        """
        own = {
            **OWN_SETTINGS,
            "unix_socket_directories": str(self.socket_directory),
            "log_directory": str(self._log_directory),
        }
        with writing(self.conf):
            if self.entrance is not None:
                own |= self.entrance.settings(self.directory)
                self.entrance.write_files(self.host, self.directory, self.account)
            rendered = render_settings({**DEFAULT_SETTINGS, **settings, **own})
            self.host.ops.put(str(self.conf), f"include = 'data/postgresql.conf'\n{rendered}")

    async def verify_settings(self, settings: Mapping[str, str], *, database: str = "postgres") -> dict[str, Setting]:
        """Read back every setting; SettingError if one of ``settings`` is not as asked for, or not from our file.

        They are those of a session in ``database``, which may have values of its own (ALTER DATABASE … SET).
        """
        actual = await read_settings(self.conninfo(database), also=settings)
        mismatches = find_mismatches(settings, actual, source_file=str(self.conf))
        if mismatches:
            name, wanted, got = mismatches[0]
            raise SettingError(
                f'setting "{name}" is {got} after the start, expected {wanted}',
                detail=" ".join(f'"{name}": expected {wanted}, got {got}.' for name, wanted, got in mismatches[1:]),
            )
        return actual

    async def start(
        self,
        *,
        groups: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the server in control ``groups`` of the host, and wait until it accepts connections.

        Raises SettingError with the server's own words if it refuses to start, TargetError after ten minutes.
        """
        startup = self.directory / "startup.log"
        with writing(self.log):
            if not self.host.ops.exists(str(self._log_directory)):
                make_own(self.host, self._log_directory, self.account)
            self.host.ops.remove(str(self.log))
        self.process = await self.host.start(
            [self.programs.path("postgres"), "-D", self.data, "-c", f"config_file={self.conf}"],
            role="server",
            account=self.account,
            environment=environment,
            directory=self.directory,
            groups=groups,
            output=startup,
        )
        try:
            async with asyncio.timeout(_PATIENCE):
                while not self._is_ready():
                    if self.process.returncode is not None:
                        raise SettingError(
                            "the server does not start",
                            detail="\n".join(self._complaints(startup)) or self._end_of(startup),
                            hint="Fix the setting the server complains about.",
                        )
                    await asyncio.sleep(_POLL if self.host.name == LOCAL else _REMOTE_POLL)
        except TimeoutError as err:
            raise TargetError(f"the server does not accept connections after {_PATIENCE:g} s") from err
        self.reached_by = (await self.host.forward(self.socket_directory / f".s.PGSQL.{self._port}")).parent
        if self.entrance is not None:
            await self.entrance.give_password(self.conninfo())

    def _is_ready(self) -> bool:
        try:
            lines = self.host.ops.read_plain(str(self.data / _LOCK_FILE), _LONGEST_LOCK).splitlines()
        except FileNotFoundError:
            return False
        except OSError as err:
            raise TargetError(f'cannot read "{self.data / _LOCK_FILE}": {err.strerror}') from err
        return (
            len(lines) >= _READY_LINE
            and self.process is not None
            and lines[0] == str(self.process.pid)
            and lines[_READY_LINE - 1].strip() == "ready"
        )

    def _complaints(self, startup: Path) -> list[str]:
        """The server's own lines that say why it ended, without time and process id."""
        lines = []
        for line in self.host.ops.read(str(startup), _LONGEST_LOG).splitlines():
            for severity in ("FATAL:", "PANIC:", "ERROR:", "LOG:", "DETAIL:", "HINT:"):
                _, found, message = line.partition(severity)
                if found:
                    lines.append(f"{severity} {message.strip()}")
                    break
        lines += [f"{entry.get('error_severity')}: {entry.get('message')}" for entry in self.read_log()]
        telling = [line for line in lines if not line.startswith("LOG:")]
        # A setting out of its range is only a LOG line, followed by "configuration file … contains errors".
        if not telling or all("contains errors" in line for line in telling):
            telling = lines
        return telling[-6:]

    def _end_of(self, startup: Path) -> str:
        """What is known of a server that ended without a word of its own: somebody else's words, or how it ended."""
        said = self.host.ops.read(str(startup), _LONGEST_LOG).strip().splitlines()[-6:]
        status = None if self.process is None else self.process.returncode
        how = f"by signal {-status}" if status is not None and status < 0 else f"with status {status}"
        return "\n".join([*said, f"It ended {how}."])

    def read_log(self) -> list[dict[str, object]]:
        """Entries of the server's log since its start, as far as they count; what is no whole line is left out."""
        entries = []
        try:
            text = self.host.ops.read_plain(str(self.log), _LONGEST_LOG)
        except OSError:
            return []
        for line in text.split("\n"):
            with suppress(ValueError):
                entry = parse_json(line)
                if isinstance(entry, dict):
                    entries.append(entry)
        return entries

    async def keep_log(self, destination: Path, *, since: int = 0) -> int:
        """Copy the server's log to a file of pgtrial's machine, if the server came so far, without its first bytes.

        Returns how many have been copied. Raises StoreError.
        """
        if not self.host.ops.is_file(str(self.log)):
            return 0
        try:
            await self.host.copy_from(self.log, destination)
            if since:
                with open_file(destination) as whole, new_file(destination) as rest:
                    whole.seek(since)
                    shutil.copyfileobj(whole, rest)
            return destination.stat().st_size
        except OSError as err:
            raise StoreError(f'cannot write "{destination}": {err.strerror}') from err

    def has_died(self) -> bool:
        """Whether the server was started and is gone although nobody stopped it; also before it has been waited for."""
        return self.process is not None and (
            self.process.returncode is not None or identify(self.process.pid, self.host.ops) is None
        )

    async def stop(self, *, immediate: bool = False) -> None:
        """Stop the server and wait. ``immediate`` leaves the data in need of recovery: for data that are not kept.

        A caller that is cancelled while waiting must stop the server again.
        """
        if self.process is None:
            return
        stop_signal = signal.SIGQUIT if immediate else signal.SIGINT
        await end_process(self.process, with_signal=stop_signal, patience=_PATIENCE)
        await self.clear()
        await self._await_children()
        self.process = None  # not before: what was not waited for still runs

    async def _await_children(self) -> None:
        """Let the logger end, which is done when nobody can write to it any more, its first process included
        (syslogger.c, SysLoggerMain).
        """
        deadline = time.monotonic() + _CLEAR_PATIENCE
        while (children := find_server_children(str(self.data), self.host.ops)) and time.monotonic() < deadline:
            for child in children:
                self.host.ops.signal(child.pid, child.start_ticks, signal.SIGCONT)  # the load may have stood still
            await asyncio.sleep(_CLEAR_POLL)

    async def clear(self) -> None:
        """Leave nothing of a server that was killed, as by the kernel when memory was short; else do nothing.

        Its children go on with the statement they are at, beside the next server. Its shared memory outlives all of
        them: "postgres --check" does what each start of the cluster does first, which is to give it back
        (sysv_shmem.c, PGSharedMemoryCreate), and ends there.
        """
        begun, ops, complaint = time.monotonic(), self.host.ops, "it is in use"
        while ops.exists(str(self.data / _LOCK_FILE)):  # a server that ends in order removes it, and so does the check
            seconds = time.monotonic() - begun
            if seconds > _CLEAR_PATIENCE:
                _log.warning("the shared memory of a server that was killed stays: %s", complaint)
                return
            children = find_server_children(str(self.data), ops)
            number = signal.SIGQUIT if seconds < _CLEAR_PATIENCE / 2 else signal.SIGKILL
            for child in children:
                ops.signal(child.pid, child.start_ticks, number)
                ops.signal(child.pid, child.start_ticks, signal.SIGCONT)  # what stands still does not hear the first
            if not children:
                check = await self.host.run(
                    [self.programs.path("postgres"), "--check", "-D", self.data, *_LITTLE_MEMORY],
                    account=self.account,
                    directory=self.directory,
                    check=False,
                )
                complaint = " ".join(check.stderr.split()) or complaint
                if check.status == 0:
                    return
            await asyncio.sleep(_CLEAR_POLL)


def _environment(socket_directory: Path, database: str, port: int) -> dict[str, str]:
    return {"PGHOST": str(socket_directory), "PGPORT": str(port), "PGUSER": SUPERUSER, "PGDATABASE": database}


def _checksums_option(wanted: bool | None, major: int) -> list[str]:
    if wanted:
        return ["--data-checksums"]
    # On by default since 18, which also has the option to say no.
    return ["--no-data-checksums"] if wanted is False and major >= _CHECKSUMS_BY_DEFAULT else []
