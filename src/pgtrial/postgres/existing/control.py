"""Reach an existing server, let it read its configuration, and restart it by the command that the user declared."""

import asyncio
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.errors import ConnectError, TargetError
from pgtrial.hosts.base import Host
from pgtrial.hosts.operations import MARK
from pgtrial.hosts.running import end_process
from pgtrial.postgres.connect import fetch
from pgtrial.postgres.existing.address import ServerAddress

RESTART_LIMIT = 600.0  # s for the restart command: it waits for the shutdown checkpoint
RESTART_PATIENCE = 120.0  # s for the server to answer after it
_STEP = 0.1  # s between two attempts
_LAST_LINES = 8

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
                hint="Correct restart in [target], or what the command complains about.",
            )
        trouble = await self._wait(self.patience, other_than=before)
        if trouble:
            raise TargetError(
                f"the server does not come back after the restart, within {self.patience:g} s",
                detail=f'The command "{command}" ended well. {trouble}',
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
