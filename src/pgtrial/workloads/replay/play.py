"""Send the statements of a log to a server when they are due, and tell of each when it has ended."""

import asyncio
import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from pgtrial.postgres.connect import APPLICATION, connect
from pgtrial.workloads.replay.log import Session, Statement
from pgtrial.workloads.replay.order import Step, Transaction, can_wait, put_in_order

_HEAD_START = 0.2  # s before the first statement is due
_PATIENCE = 1.0  # s that a statement waits for another transaction that may itself wait for it

Tell = Callable[[Mapping[str, object]], None]


@dataclass(slots=True, kw_only=True)
class Played:
    """What became of the statements. ``lags`` are seconds by which they were sent later than they could have been, and
    ``behind`` later than they were due: a server slower than that of the log holds them up, or CPUs that are busy.

    ``waits``: those that waited for a transaction of another session; ``given_up``: those that waited too long.
    """

    statements: int = 0
    differ: int = 0
    waits: int = 0
    given_up: int = 0
    lags: list[float] = field(default_factory=list)
    behind: list[float] = field(default_factory=list)


class _Order:
    """Which transactions of the log have ended in the replay."""

    def __init__(self) -> None:
        self._ended: dict[int, asyncio.Event] = {}
        self._first: dict[int, int] = {}  # place in a line of the first that has not, by line

    def event(self, transaction: Transaction) -> asyncio.Event:
        return self._ended.setdefault(id(transaction), asyncio.Event())

    def awaited(self, step: Step) -> list[asyncio.Event]:
        """Of what has to end before the step, and has not."""
        found = [self.event(one) for one in step.needs]
        for line, count in step.behind:
            first = self._first.get(id(line), 0)
            while first < count and self.event(line.transactions[first]).is_set():
                first += 1
            self._first[id(line)] = first
            found += [self.event(one) for one in line.transactions[first:count] if can_wait(step.transaction, one)]
        return [event for event in found if not event.is_set()]


async def play(sessions: Sequence[Session], *, conninfo: str, speed: float, tell: Tell, stop: asyncio.Event) -> Played:
    """Until all is sent, or ``stop`` is set. ``speed``: how many times as fast as in the log. Raises ConnectError."""
    steps = put_in_order(sessions)
    gc.freeze()
    gc.disable()  # a collection takes longer than many a statement
    tell({"ready": True})
    player = _Player(conninfo=conninfo, begin=time.time() + _HEAD_START, speed=speed, tell=tell)
    tasks = [asyncio.create_task(player.play(steps[session.name])) for session in sessions]
    stopped = asyncio.create_task(stop.wait())
    everything = asyncio.gather(*tasks)
    try:
        await asyncio.wait((everything, stopped), return_when=asyncio.FIRST_COMPLETED)
        if everything.done():
            everything.result()
    finally:
        for task in (*tasks, stopped):
            task.cancel()
        await asyncio.gather(everything, *tasks, stopped, return_exceptions=True)
    return player.played


@dataclass(slots=True, kw_only=True)
class _Player:
    """``begin`` is when the first statement is due, in seconds since 1970."""

    conninfo: str
    begin: float
    speed: float
    tell: Tell
    order: _Order = field(default_factory=_Order)
    played: Played = field(default_factory=Played)

    async def play(self, steps: Sequence[Step]) -> None:
        """One session."""
        await _sleep_until(self._due(steps[0]) - _HEAD_START)
        application = os.environ.get("PGAPPNAME", APPLICATION)
        async with connect(self.conninfo, application=application, as_user=True) as connection:
            connection.prepare_threshold = None
            free = time.time()  # since when the session could send its next statement
            for step in steps:
                due = self._due(step)
                await _sleep_until(due)
                free = await self._wait_for_others(step) or max(free, due)
                sent = time.time()
                failed = await _fails(connection, step.statement)
                ended = time.time()
                if step.ends:
                    self.order.event(step.transaction).set()
                self.played.statements += 1
                self.played.lags.append(sent - free)
                self.played.behind.append(sent - due)
                if failed is step.statement.failed:
                    self.tell({"t": ended, "latency": ended - due, "lag": sent - free})
                else:
                    self.played.differ += 1
                    self.tell({"t": ended, "failed": True})
                free = ended
        for step in steps:  # also those of a transaction that the log does not end
            self.order.event(step.transaction).set()

    async def _wait_for_others(self, step: Step) -> float | None:
        """When that was over; None where there was nothing to wait for."""
        events = self.order.awaited(step)
        if not events:
            return None
        self.played.waits += 1
        try:
            async with asyncio.timeout(_PATIENCE):
                for event in events:
                    await event.wait()
        except TimeoutError:
            self.played.given_up += 1
        return time.time()

    def _due(self, step: Step) -> float:
        return self.begin + step.statement.due / self.speed


async def _fails(connection: psycopg.AsyncConnection[tuple[Any, ...]], statement: Statement) -> bool:
    cursor = psycopg.AsyncRawCursor(connection)
    try:
        # Without parameters it is sent as it is, several statements in one as well.
        await cursor.execute(statement.text.encode(), list(statement.parameters) or None)
    except psycopg.Error:
        return True
    finally:
        await cursor.close()
    return False


async def _sleep_until(moment: float) -> None:
    if (rest := moment - time.time()) > 0:
        await asyncio.sleep(rest)
