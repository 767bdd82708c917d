"""Waiting for other sessions of a replay: for what, and when not to, since they wait in turn."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg

from pgtrial.workloads.replay.log import Statement
from pgtrial.workloads.replay.order import Line, Step, Transaction, can_wait

_FIRST_LOOK = 0.003  # s after which one that waits looks whether it is itself waited for; then each time twice as long
_MOST_BETWEEN = 1.0  # s from one look to the next
_PATIENCE = 1.0  # s that it waits where the server cannot tell, as behind a pooler
_ARRIVAL = 0.001  # s after which the server has a statement that was sent, and its place in the queue for a row
_BLOCKING = b"""
SELECT pid, pg_catalog.pg_blocking_pids(pid) OPERATOR(pg_catalog.||) pg_catalog.pg_safe_snapshot_blocking_pids(pid)
FROM pg_catalog.pg_stat_get_activity(NULL) WHERE pid OPERATOR(pg_catalog.=) ANY ($1::int[])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Awaited:
    """A transaction that has to have ended, or a statement that has to be with the server."""

    session: str
    event: asyncio.Event


class Waits:
    """Which transactions of the log have ended in the replay, which statements the server has, and who waits for them.

    Two sessions that came at the same time may get a row in the other order than in the log. Then one waits for a lock
    of the other, which waits for the end that the log has: such a circle is looked for, and left. As long as there is
    none, whoever is waited for goes on, or will when it is due, however long that takes a server. ``steps`` are all
    that there are; ``looking`` is a connection of its own to the server.

    What is over has the moment at which it would have been so in a replay that has no delays of its own.
    """

    def __init__(self, steps: Iterable[Step], *, looking: "psycopg.AsyncConnection[tuple[Any, ...]]") -> None:
        self._looking = looking
        self._one_look = asyncio.Lock()
        self._leading = {id(other.statement) for step in steps for other in step.after}
        self._over: dict[int, float] = {}
        self._events: dict[int, asyncio.Event] = {}  # of what is waited for
        # By line, for each of those before the first that has not ended, when it and all before it had.
        self._ends: dict[int, list[float]] = {}
        self._waiting: dict[str, set[str]] = {}  # for whom, by session
        self.pids: dict[str, int] = {}  # of the server's processes, by session

    def note(self, of: Transaction | Statement, *, at: float) -> None:
        """A transaction has ended, or the server has a statement; it could have been so ``at`` that time."""
        self._over.setdefault(id(of), at)
        if (event := self._events.pop(id(of), None)) is not None:
            event.set()

    @contextmanager
    def sending(self, statement: Statement, *, at: float) -> Iterator[None]:
        """It is sent at once, and could have been ``at`` that time; it has been answered at the end."""
        if id(statement) not in self._leading:
            yield
            return
        note = partial(self.note, statement, at=at + _ARRIVAL)
        arrival = asyncio.get_running_loop().call_later(_ARRIVAL, note)
        try:
            yield
        finally:
            arrival.cancel()
            self.note(statement, at=at)  # where it was answered sooner

    async def wait_before(self, step: Step) -> bool | None:
        """Whether it waited to the end, None: there was nothing to wait for."""
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
                    ahead, is_known = await self._find_ahead(session)
                    if session in ahead or not (is_known or time.time() - since < _PATIENCE):
                        return False
                    look = min(2 * look, _MOST_BETWEEN)
                awaited = [one for one in awaited if not one.event.is_set()]
        finally:
            self._waiting.pop(session, None)
        return True

    def find_end(self, step: Step) -> float:
        """When the last of what the step waits for, and what is over, could have been so; 0 of nothing."""
        found = [id(one) for one in step.needs] + [id(one.statement) for one in step.after]
        passed = [
            ends[min(count, len(ends)) - 1]
            for line, count in step.behind
            if count and (ends := self._pass(line, count))
        ]
        return max((*passed, *(self._over.get(each, 0.0) for each in found)), default=0.0)

    def _pass(self, line: Line, count: int) -> list[float]:
        """Of a line's first so many, and maybe more, when each that has ended, with all before it, had ended."""
        ends = self._ends.setdefault(id(line), [])
        while len(ends) < count and (at := self._over.get(id(line.transactions[len(ends)]))) is not None:
            ends.append(max(at, ends[-1] if ends else 0.0))
        return ends

    def _find_awaited(self, step: Step) -> list[_Awaited]:
        found: list[tuple[str, Transaction | Statement]] = [(one.session, one) for one in step.needs]
        found += [(one.transaction.session, one.statement) for one in step.after]
        for line, count in step.behind:
            first = len(self._pass(line, count))
            found += [(one.session, one) for one in line.transactions[first:count] if can_wait(step.transaction, one)]
        return [
            _Awaited(session=session, event=self._events.setdefault(id(of), asyncio.Event()))
            for session, of in found
            if id(of) not in self._over
        ]

    async def _find_ahead(self, session: str) -> tuple[set[str], bool]:
        """For whom it waits, here or by the server's locks, and they in turn; and whether the server knows of them all,
        so that nobody else is waited for.
        """
        async with self._one_look:
            pids = dict(self.pids)
            names = {pid: name for name, pid in pids.items()}
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
        # 0 is a transaction that was prepared, by a session that the server does not remember.
        unknown = pids.items() & self.pids.items() - {(names[pid], pid) for pid, others in locks if 0 not in others}
        return reached, reached.isdisjoint(name for name, _ in unknown)
