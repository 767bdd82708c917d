"""Waiting for other sessions of a replay: for what, and when not to, since they wait in turn."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from pgtrial.workloads.replay.log import Statement
from pgtrial.workloads.replay.order import Step, Transaction, can_wait

_FIRST_LOOK = 0.003  # s after which one that waits looks whether it is itself waited for; then each time twice as long
_PATIENCE = 1.0  # s that it waits where the server cannot tell, as behind a pooler
_BLOCKING = b"SELECT pid, pg_catalog.pg_blocking_pids(pid) FROM pg_catalog.unnest($1::int[]) AS pid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """``since`` when, on the clock of time.time(); ``in_vain``: not to the end."""

    since: float
    in_vain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Awaited:
    """A transaction that has to have ended, or a statement that has to be with the server."""

    session: str
    event: asyncio.Event


class Waits:
    """Which transactions of the log have ended in the replay, which statements the server has, and who waits for them.

    Two sessions that came at the same time may get a row in the other order than in the log. Then one waits for a lock
    of the other, which waits for the end that the log has: such a circle is looked for, and left. ``looking`` is a
    connection of its own to the server.
    """

    def __init__(self, looking: "psycopg.AsyncConnection[tuple[Any, ...]]") -> None:
        self._looking = looking
        self._one_look = asyncio.Lock()
        self._events: dict[int, asyncio.Event] = {}
        self._first: dict[int, int] = {}  # place in a line of the first that has not ended, by line
        self._waiting: dict[str, set[str]] = {}  # for whom, by session
        self.pids: dict[str, int] = {}  # of the server's processes, by session

    def event(self, of: Transaction | Statement) -> asyncio.Event:
        return self._events.setdefault(id(of), asyncio.Event())

    async def wait_before(self, step: Step) -> Waited | None:
        """None: there was nothing to wait for."""
        if not (awaited := self._find_awaited(step)):
            return None
        session, since, look = step.transaction.session, time.time(), _FIRST_LOOK
        try:
            while awaited:
                self._waiting[session] = {one.session for one in awaited}
                try:
                    async with asyncio.timeout(look):
                        for one in awaited:
                            await one.event.wait()
                except TimeoutError:
                    if time.time() - since > _PATIENCE or await self._is_in_circle(session):
                        return Waited(since=since, in_vain=True)
                    look *= 2
                awaited = [one for one in awaited if not one.event.is_set()]
        finally:
            self._waiting.pop(session, None)
        return Waited(since=since, in_vain=False)

    def _find_awaited(self, step: Step) -> list[_Awaited]:
        found = [_Awaited(session=one.session, event=self.event(one)) for one in step.needs]
        found += [_Awaited(session=one.transaction.session, event=self.event(one.statement)) for one in step.after]
        for line, count in step.behind:
            first = self._first.get(id(line), 0)
            while first < count and self.event(line.transactions[first]).is_set():
                first += 1
            self._first[id(line)] = first
            found += [
                _Awaited(session=one.session, event=self.event(one))
                for one in line.transactions[first:count]
                if can_wait(step.transaction, one)
            ]
        return [one for one in found if not one.event.is_set()]

    async def _is_in_circle(self, session: str) -> bool:
        """Whether somebody for whom it waits, here or by the server's locks, waits for it."""
        async with self._one_look:
            names = {pid: name for name, pid in self.pids.items()}
            cursor = await psycopg.AsyncRawCursor(self._looking).execute(_BLOCKING, [list(names)])
            locks = await cursor.fetchall()
        ahead = {name: set(others) for name, others in self._waiting.items()}
        for pid, others in locks:
            ahead.setdefault(names[pid], set()).update(names[other] for other in others if other in names)
        reached: set[str] = set()
        current = set(ahead.get(session, ()))
        while current - reached:
            reached |= current
            current = {other for name in current for other in ahead.get(name, ())}
        return session in reached
