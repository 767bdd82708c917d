"""Arms that differ by settings of their sessions only, and share one existing server by turns or as a duet.

Nothing of the server is ever stopped: a process of somebody else's that stands still might hold what all others wait
for. What stands still is the load of an arm, on this machine. The statement that is at work then comes to its end. In a
duet the server's processes that serve an arm's sessions get its CPUs; they end with the sessions.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgtrial.engine.slicer.freeze import find_unpinnable
from pgtrial.engine.target.base import ARM, RunningServer, SingleServer
from pgtrial.engine.target.existing import ServerTarget
from pgtrial.errors import PreflightError, TargetError
from pgtrial.model.change import JournalEntry, Undone
from pgtrial.postgres.connect import fetch
from pgtrial.postgres.existing.log import LogMark, keep_since
from pgtrial.postgres.existing.server import is_child

_BACKENDS = """
    SELECT pid FROM pg_catalog.pg_stat_activity
    WHERE pg_catalog.starts_with(application_name, %s) AND backend_type OPERATOR(pg_catalog.=) 'client backend'
"""


def refuse_unpinnable(target: ServerTarget) -> None:
    """Raise PreflightError unless processes of the server can get CPUs of their own."""
    process = target.server.facts.process
    why = "they are not to be found on this machine" if process is None else find_unpinnable(process)
    if why:
        raise PreflightError(
            f"the processes of the server cannot be divided among the CPUs: {why}",
            hint="A duet on an existing server has to run on its machine, as its account or root; or write "
            'method = "auto" in [design].',
        )


@dataclass(slots=True, kw_only=True)
class SessionTwins(SingleServer):
    """``target`` has the one server; what the arms change there is the same for all of them, and changed once."""

    target: ServerTarget
    values: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict, init=False)
    log_mark: LogMark | None = field(default=None, init=False)

    def server_pid(self, name: str) -> int | None:
        """No process of the server is an arm's own."""
        return None

    async def backends(self, beginning: str) -> tuple[int, ...]:
        """Only children of the server count: the numbers are what the server says, and root can pin any process."""
        facts = self.target.server.facts
        rows = await fetch(self.target.server.conninfo(), _BACKENDS, [beginning])
        found = tuple(pid for (pid,) in rows if facts.process and is_child(self.host, pid, facts.process))
        if not found or len(found) < len(rows):
            raise TargetError("the processes that serve the load's sessions are not to be found on this machine")
        return found

    def exchange(self, block: int, *, seed: int) -> None:
        """There is one copy of the data."""

    async def start(self, order: Sequence[str], runs: Mapping[str, int]) -> dict[str, RunningServer]:
        self._refuse_different()
        first, *others = order
        servers = {first: await self.target.start(self.arms[first], run=runs[first])}
        self.log_mark, self.target.log_mark = self.target.log_mark, None
        for name in others:
            servers[name] = await self.target.serve(self.arms[name])
        return {
            name: replace(server, environment={**server.environment, ARM: name}, has_own_counters=False)
            for name, server in servers.items()
        }

    def _refuse_different(self) -> None:
        """What the server says of a setting may differ from what was known of it when the experiment was planned."""
        shared = list(self.target.shared.values())
        if any(settings != shared[0] for settings in shared):
            names = sorted({name for settings in shared for name in settings})
            raise TargetError(
                f"the arms cannot take turns: {', '.join(names)} cannot be set for a session of this server",
                hint='Write method = "blocks" in [design].',
            )

    async def keep_log(self, name: str, destination: Path) -> None:
        if self.log_mark is not None:
            with suppress(TargetError):
                await keep_since(self.target.server, self.log_mark, destination)

    async def stop(self, *, immediate: bool) -> Sequence[tuple[JournalEntry, Undone]]:
        self.log_mark = None
        return await self.target.stop(immediate=immediate)

    async def remove(self) -> None:
        """The target removes what there is."""
