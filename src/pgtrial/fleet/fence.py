"""Fence a host: nothing that was begun for its folder goes on, and what it had changed is put back.

After that, and not before, its block may go to another host. The engine of a host runs on this machine, so that its
results come to an end with it, whether the host can be reached or not.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pgtrial.engine.events import Event
from pgtrial.engine.folder import is_locked, lock_folder
from pgtrial.engine.leftovers import OWN_ROLE, end_all_strays, mark_of, sweep
from pgtrial.engine.restore import find_pending, undo_own
from pgtrial.errors import ConnectError, PgTrialError, StoreError
from pgtrial.fleet.gather import begun_blocks, done_blocks, gather_block, is_whole
from pgtrial.hosts.connect import open_host
from pgtrial.hosts.processes import ProcessId, end, is_alive
from pgtrial.postgres.existing.knobs import restoring_knobs
from pgtrial.postgres.work_directory import remove_directories
from pgtrial.store.belongings import Belongings
from pgtrial.store.state import State

PATIENCE = 90.0  # s for an engine that was told to stop: it ends servers, and puts settings back
_LOOK = 0.2  # s
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """What was found: blocks that are ``whole`` there and in the main folder now, and why the host ``stays`` as it was
    left, None if it was put back.
    """

    whole: frozenset[int] = frozenset()
    stays: PgTrialError | None = None


@dataclass(slots=True, kw_only=True)
class Fence:
    """Fences the hosts of one experiment, whose main ``folder`` this process has locked; None on a machine that has no
    main folder.
    """

    folder: Path | None
    caller: Mapping[str, str]
    tell: Callable[[Event], None]
    _undoing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)  # one journal, one who undoes

    async def fence(
        self,
        place: Path,
        *,
        host: str,
        reason: str,
        done: frozenset[int],
        refused: frozenset[int] = frozenset(),
    ) -> Fenced:
        """End and undo what is of the folder ``place`` of a host; of its blocks take those that are whole, and of the
        others the attempts, with the ``reason`` why they do not count. ``done`` are blocks that the main folder has,
        from whichever host, ``refused`` such as do not count although they look whole. Raises StoreError.
        """
        await self._end_engine(place)
        with lock_folder(place):
            whole = await to_its_end(lambda: self._take(place, host, reason, done, refused))
            stays = None
            try:
                async with self._undoing:
                    await undo_own(place, knobs=restoring_knobs(self.caller), host_of=open_host, tell=self.tell)
            except PgTrialError as err:
                stays = err
        return Fenced(whole=whole, stays=stays)

    async def clear(self, place: Path, find_address: Callable[[], str | None]) -> None:
        """Remove the data on a host that gets no more blocks, if it can be reached. Who has none needs no address."""
        belongings = Belongings.of(place)
        if find_pending(place) or not belongings.hosts():
            return
        with contextlib.suppress(ConnectError):
            async with open_host(find_address(), mark=mark_of(place)) as host:
                end_all_strays(mark_of(place), host)
                remove_directories(host, *belongings.paths(host.name))

    async def _end_engine(self, place: Path) -> None:
        """Wait until the engine of a folder has put everything back, which it does when its worker is gone; end it if
        it does not.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE
        while (engines := _engines(place)) or is_locked(place):
            if loop.time() > deadline:
                await asyncio.to_thread(end, engines)
                if is_locked(place):
                    raise StoreError(
                        f'the engine of "{place}" does not end', hint="End it, then resume the experiment."
                    )
            await asyncio.sleep(_LOOK)

    def _take(
        self, place: Path, host: str, reason: str, done: frozenset[int], refused: frozenset[int]
    ) -> frozenset[int]:
        sweep(place)
        if not (begun := begun_blocks(place)):
            return frozenset()
        found = set()
        own = done if self.folder is None else done & done_blocks(self.folder, host=host)
        for block in sorted(begun - own):
            if block not in done | refused and is_whole(place, block):
                found.add(block)
            else:
                with contextlib.closing(State.open(place, write=True)) as state:
                    state.give_up_block(block, reason)
            if self.folder is not None:
                gather_block(place, self.folder, block=block, host=host)
        return frozenset(found)


def _engines(place: Path) -> list[ProcessId]:
    """Those of a folder that are alive."""
    started = Belongings.of(place).processes()
    return [one.process for one in started if one.role == OWN_ROLE and is_alive(one.process)]


async def to_its_end(work: Callable[[], T]) -> T:
    """Do something in a thread; who is cancelled meanwhile waits until it is done, and only then goes."""
    doing = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        raise
