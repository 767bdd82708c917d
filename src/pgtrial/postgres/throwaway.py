"""A cluster made for one experiment: it listens on a Unix socket in a private directory, and goes without a trace."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.errors import SettingError, TargetError
from pgtrial.hosts.base import Account, Host, HostProcess
from pgtrial.hosts.local import end_process
from pgtrial.hosts.processes import identify
from pgtrial.postgres.connect import conninfo
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.settings import render_settings
from pgtrial.postgres.work_directory import PORT, writing

SUPERUSER = "postgres"
CONF = "pgtrial.conf"
_LOG_NAME = "server"
_LOG_DIRECTORY = "log"
_READY_LINE = 8  # of postmaster.pid (miscadmin.h: LOCK_FILE_LINE_PM_STATUS)

# What pgtrial needs for itself; the experiment file may not name these.
OWN_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": str(PORT),
    "cluster_name": "pgtrial",
    "logging_collector": "on",
    "log_destination": "jsonlog",
    "log_directory": _LOG_DIRECTORY,
    "log_filename": _LOG_NAME,
    "log_file_mode": "0644",
    "log_rotation_age": "0",
    "log_rotation_size": "0",
}
# What makes the server's log tell the story of a run; the experiment file may say otherwise.
DEFAULT_SETTINGS: Mapping[str, str] = {
    "log_checkpoints": "on",
    "log_autovacuum_min_duration": "0",
    "log_lock_waits": "on",
    "log_temp_files": "0",
}


@dataclass(slots=True, kw_only=True)
class ThrowawayCluster:
    """One data directory and, while it runs, its server. ``account`` is whom the server runs as, None: as pgtrial."""

    host: Host
    programs: Programs
    directory: Path
    socket_directory: Path
    account: Account | None
    process: HostProcess | None = field(default=None, init=False)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def conf(self) -> Path:
        return self.data / CONF

    @property
    def log(self) -> Path:
        """The server's log, one JSON object per line."""
        return self.data / _LOG_DIRECTORY / f"{_LOG_NAME}.json"

    def conninfo(self, database: str = "postgres") -> str:
        return conninfo(host=str(self.socket_directory), port=PORT, user=SUPERUSER, database=database)

    def environment(self, database: str) -> dict[str, str]:
        """Variables by which pgbench reaches the server."""
        return {
            "PGHOST": str(self.socket_directory),
            "PGPORT": str(PORT),
            "PGUSER": SUPERUSER,
            "PGDATABASE": database,
        }

    async def initdb(self) -> None:
        """Make the data directory, with the C.UTF-8 collation, so that results do not depend on the caller's locale."""
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
            ],
            account=self.account,
            directory=self.directory,
        )
        self.own(self.conf, "")
        main = self.data / "postgresql.conf"
        with writing(main), main.open("a", encoding="utf-8") as file:
            file.write(f"\ninclude = '{CONF}'\n")

    def own(self, path: Path, text: str) -> None:
        """Write a file that the server may read. Raises TargetError."""
        with writing(path):
            path.write_text(text, encoding="utf-8")
            if self.account is not None:
                os.chown(path, self.account.uid, self.account.gid)

    def write_settings(self, settings: Mapping[str, str]) -> None:
        """Set what the next start uses, instead of what was set before."""
        own = {**OWN_SETTINGS, "unix_socket_directories": str(self.socket_directory)}
        self.own(self.conf, render_settings({**DEFAULT_SETTINGS, **settings, **own}))

    async def start(self, *, patience: float = 600.0) -> None:
        """Start the server and wait until it accepts connections.

        Raises SettingError with the server's own words if it refuses to start, TargetError after ``patience`` seconds.
        """
        self.log.unlink(missing_ok=True)
        startup = self.directory / "startup.log"
        with writing(startup), startup.open("wb") as output:
            self.process = await self.host.start(
                [self.programs.path("postgres"), "-D", self.data],
                role="server",
                account=self.account,
                directory=self.directory,
                stdout=output,
                stderr=output,
            )
        try:
            async with asyncio.timeout(patience):
                while not self._is_ready():
                    if self.process.returncode is not None:
                        raise SettingError(
                            "the server does not start",
                            detail="\n".join(self._complaints(startup)) or "It said nothing.",
                            hint="Correct the setting the server complains about.",
                        )
                    await asyncio.sleep(0.01)
        except TimeoutError as err:
            raise TargetError(f"the server does not accept connections after {patience:g} s") from err

    def _is_ready(self) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return False
        return (
            len(lines) >= _READY_LINE
            and self.process is not None
            and lines[0] == str(self.process.pid)
            and lines[_READY_LINE - 1].strip() == "ready"
        )

    def _complaints(self, startup: Path) -> list[str]:
        """The server's own lines that say why it ended, without time and process id."""
        lines = []
        for line in startup.read_text(encoding="utf-8", errors="replace").splitlines():
            for severity in ("FATAL:", "PANIC:", "ERROR:", "LOG:", "DETAIL:", "HINT:"):
                _, found, message = line.partition(severity)
                if found:
                    lines.append(f"{severity} {message.strip()}")
                    break
        lines += [f"{entry['error_severity']}: {entry['message']}" for entry in self.read_log()]
        telling = [line for line in lines if not line.startswith("LOG:")]
        # A setting out of its range is only a LOG line, followed by "configuration file … contains errors".
        if not telling or all("contains errors" in line for line in telling):
            telling = lines
        return telling[-6:]

    def read_log(self) -> list[dict[str, object]]:
        """Entries of the server's log since its start; a last line that is not whole is left out."""
        entries = []
        try:
            with self.log.open(encoding="utf-8", errors="replace") as file:
                for line in file:
                    try:
                        entries.append(json.loads(line))
                    except json.JSONDecodeError:
                        continue
        except FileNotFoundError:
            return []
        return entries

    def has_died(self) -> bool:
        """Whether the server was started and is gone although nobody stopped it; also before it has been waited for."""
        return self.process is not None and (self.process.returncode is not None or identify(self.process.pid) is None)

    async def stop(self, *, immediate: bool = False, patience: float = 600.0) -> None:
        """Stop the server and wait. ``immediate`` leaves the data in need of recovery: for data that are not kept.

        Whoever is cancelled while it waits has to stop the server once more.
        """
        if self.process is None:
            return
        stop_signal = signal.SIGQUIT if immediate else signal.SIGINT
        await end_process(self.process, with_signal=stop_signal, patience=patience)
        self.process = None  # not before: what was not waited for still runs
