"""What is written down of pages while a run is made: before its server starts, under load, and after its end."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field

from pgtrial.engine.pages.sizes import find_mismatch, read_memory, read_pools, read_shared_memory
from pgtrial.engine.pages.translation import Translations, count_translations
from pgtrial.engine.record import Record
from pgtrial.engine.sampler.control import find_server
from pgtrial.engine.target.base import RunningServer
from pgtrial.hosts.base import Host
from pgtrial.model.run import PAGES, TRANSLATIONS, LoadLevel

# Tables of an arm whose experiments are about pages.
KNOBS = frozenset({"huge_pages", "transparent_huge_pages"})
_SPARE = 0.3  # s before the end of a level, by which counting is over


@dataclass(slots=True, kw_only=True)
class PageWatch:
    """Of one run; nothing is read where ``is_on`` is false."""

    is_on: bool
    host: Host
    record: Record
    reason: str = field(default="", init=False)  # why perf has counted nothing, so that it is not asked again

    def note(self, moment: str, *, server: RunningServer | None = None) -> str:
        """Write down the pools of huge pages, and under load (with a ``server``) the pages of its shared memory.

        Returns what is not as its settings say, "" if nothing.
        """
        if not self.is_on:
            return ""
        ops = self.host.ops
        memory = read_memory(ops)
        data: dict[str, object] = {"moment": moment, "pools": read_pools(ops), "meminfo": memory}
        problem = ""
        pid = find_server(ops, server.directories) if server is not None and server.on_host else None
        if server is not None and pid is not None:
            shared = read_shared_memory(ops, pid)
            if shared is not None:
                data["shared"] = asdict(shared)
                problem = find_mismatch(
                    shared,
                    server.settings,
                    base_page=ops.page_size(),
                    default_page=memory.get("Hugepagesize", 0),
                )
        self.record.add_event(PAGES, **data)
        return problem

    @asynccontextmanager
    async def counting(
        self, server: RunningServer, level: LoadLevel, *, guard: float, duration: float
    ) -> AsyncIterator[None]:
        """Count misses of the translation caches in the measured window of a level, which begins after ``guard``."""
        pid = find_server(self.host.ops, server.directories) if self.is_on and server.on_host else None
        if pid is None:
            yield
            return
        task = asyncio.create_task(self._count(pid, guard=guard, duration=duration))
        try:
            yield
            found = await task
        finally:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self.record.add_event(TRANSLATIONS, level=level.index, **_event_of(found))

    async def _count(self, pid: int, *, guard: float, duration: float) -> Translations:
        if self.reason:
            return Translations(reason=self.reason)
        await asyncio.sleep(guard)  # then all sessions are there
        found = await count_translations(self.host, pid, seconds=duration - _SPARE)
        self.reason = found.reason
        return found


def _event_of(found: Translations) -> Mapping[str, object]:
    return {"seconds": found.seconds, "counts": dict(found.counts), "reason": found.reason}
