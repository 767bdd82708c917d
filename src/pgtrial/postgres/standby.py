"""A standby of a cluster on the same machine: a copy of its data, whose server receives and replays its WAL.

The copy is made anew before each start, of the data of the server while that is down: whatever has become of those by
then, both begin alike.
"""

import asyncio
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from psycopg.conninfo import make_conninfo

from pgtrial.errors import SettingError, TargetError
from pgtrial.hosts.base import HostProcess
from pgtrial.knobs.standby import MODE, NAME, SYNCHRONOUS_NAMES
from pgtrial.postgres.connect import fetch
from pgtrial.postgres.snapshot import copy_directory
from pgtrial.postgres.throwaway import SUPERUSER, ThrowawayCluster
from pgtrial.postgres.work_directory import PORT, remove_until_gone

_SIGNAL = "standby.signal"
_PATIENCE = 60.0  # s until it has caught up with a server that has no load
_POLL = 0.05  # s
_LAST_WORDS = 4  # entries of its log
_SYNC_STATES: Mapping[str, str] = {"synchronous": "sync", "asynchronous": "async"}
_STATE = "SELECT state, sync_state FROM pg_catalog.pg_stat_replication WHERE application_name = %s"


@dataclass(slots=True, kw_only=True)
class StandbyServer:
    """``own`` is its cluster, whose WAL lies with the data; ``table`` is the knob's."""

    primary: ThrowawayCluster
    own: ThrowawayCluster
    table: Mapping[str, str]
    watch: "asyncio.Task[None] | None" = field(default=None, init=False)

    async def copy(self) -> None:
        """Make its data, while neither server runs. Raises TargetError."""
        own, primary, host = self.own, self.primary, self.own.host
        await own.clear()  # of a server that was killed together with the pgtrial that had started it
        if not await remove_until_gone(host, own.data):
            raise TargetError(f'cannot remove the data of the previous run in "{own.data}"')
        await copy_directory(own, primary.data, own.data)
        if primary.wal_directory is not None:  # there it is a link to the other server's WAL
            await host.run(["rm", own.wal], account=own.account, directory=own.directory)
            await copy_directory(own, primary.wal, own.wal)
        await host.run(["touch", own.data / _SIGNAL], account=own.account, directory=own.directory)

    async def start(self, settings: Mapping[str, str]) -> None:
        """Start it beside the server, which is up with ``settings``, and wait until it follows in the mode asked for.

        Raises SettingError, TargetError.
        """
        reached = make_conninfo(
            host=str(self.primary.socket_directory),
            port=PORT,
            user=SUPERUSER,
            application_name=NAME,
        )
        self.own.write_settings(
            {
                **settings,
                "primary_conninfo": reached,
                "hot_standby": "on",
                SYNCHRONOUS_NAMES: "",
                "huge_pages": "try",  # a pool of them is made for one server
            }
        )
        try:
            await self.own.start()
        except SettingError as err:
            raise SettingError("the standby does not start", detail=err.detail, hint=err.hint) from err
        await self._await_streaming()
        assert self.own.process is not None  # it was started
        self.watch = asyncio.create_task(self._release_commits(self.own.process, settings))

    async def _await_streaming(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while await self._find_trouble():
            if time.monotonic() > deadline or self.own.has_died():
                said = [str(entry.get("message")) for entry in self.own.read_log()][-_LAST_WORDS:]
                raise SettingError(
                    f"the standby does not follow the server after {_PATIENCE:g} s",
                    detail="\n".join(said),
                    hint="It needs wal_level = replica and max_wal_senders above 0, as they are by default.",
                )
            await asyncio.sleep(_POLL)

    async def _release_commits(self, process: HostProcess, settings: Mapping[str, str]) -> None:
        """Let commits wait no longer for a standby that has died: they would do so for ever, and the load with them.

        The run does not count then; see ``find_lost``.
        """
        await process.wait()
        self.primary.write_settings({**settings, SYNCHRONOUS_NAMES: ""})
        if self.primary.process is not None:
            with suppress(ProcessLookupError):
                self.primary.process.send_signal(signal.SIGHUP)

    async def _find_trouble(self) -> str:
        rows = await fetch(self.primary.conninfo(), _STATE, [NAME])
        if not rows:
            return "the standby receives no WAL"
        state, sync_state = rows[0]
        if (state, sync_state) != ("streaming", _SYNC_STATES[self.table[MODE]]):
            return f"the standby is {state} and {sync_state}"
        return ""

    async def find_lost(self) -> str:
        """Why the standby is not what was asked for any more; "" if it is. Raises ConnectError."""
        return "the standby died" if self.own.has_died() else await self._find_trouble()

    async def stop(self) -> None:
        """End it as it is: its data are made anew for the next start."""
        if self.watch is not None:
            self.watch.cancel()
            await asyncio.gather(self.watch, return_exceptions=True)
            self.watch = None
        await self.own.stop(immediate=True)
