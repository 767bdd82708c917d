"""Waiting for other sessions of a replay: for what, and when not to, since they wait in turn."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from pgtrial.workloads.replay.log import Statement
from pgtrial.workloads.replay.order import Step, Transaction, can_wait

_FIRST_LOOK = 0.003  # s after which one that waits looks whether it is itself waited for; then each time twice as long
_PATIENCE = 1.0  # s that it waits where the server cannot tell, as behind a pooler
_ARRIVAL = 0.001  # s after which the server has a statement that was sent, and its place in the queue for a row
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
    of the other, which waits for the end that the log has: such a circle is looked for, and left. ``steps`` are all
    that there are; ``looking`` is a connection of its own to the server.
    """

    def __init__(self, steps: Iterable[Step], *, looking: "psycopg.AsyncConnection[tuple[Any, ...]]") -> None:
        self._looking = looking
        self._one_look = asyncio.Lock()
        self._leading = {id(other.statement) for step in steps for other in step.after}
        self._over: set[int] = set()
        self._events: dict[int, asyncio.Event] = {}  # of what is waited for
        self._first: dict[int, int] = {}  # place in a line of the first that has not ended, by line
        self._waiting: dict[str, set[str]] = {}  # for whom, by session
        self.pids: dict[str, int] = {}  # of the server's processes, by session

    def note(self, of: Transaction | Statement) -> None:
        """A transaction has ended, or the server has a statement."""
        self._over.add(id(of))
        if (event := self._events.pop(id(of), None)) is not None:
            event.set()

    @contextmanager
    def sending(self, statement: Statement) -> Iterator[None]:
        """It is sent at once, and has been answered at the end."""
        if id(statement) not in self._leading:
            yield
            return
        arrival = asyncio.get_running_loop().call_later(_ARRIVAL, self.note, statement)
        try:
            yield
        finally:
            arrival.cancel()
            self.note(statement)

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
        found: list[tuple[str, Transaction | Statement]] = [(one.session, one) for one in step.needs]
        found += [(one.transaction.session, one.statement) for one in step.after]
        for line, count in step.behind:
            first = self._first.get(id(line), 0)
            while first < count and id(line.transactions[first]) in self._over:
                first += 1
            self._first[id(line)] = first
            found += [(one.session, one) for one in line.transactions[first:count] if can_wait(step.transaction, one)]
        return [
            _Awaited(session=session, event=self._events.setdefault(id(of), asyncio.Event()))
            for session, of in found
            if id(of) not in self._over
        ]

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
