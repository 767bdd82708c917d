"""Send the statements of a log to a server when they are due, and tell of each when it has ended."""

import asyncio
import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen

from pgtrial.postgres.connect import APPLICATION, connect
from pgtrial.workloads.replay.log import Session, Statement
from pgtrial.workloads.replay.order import Step, put_in_order
from pgtrial.workloads.replay.waits import Waits

_HEAD_START = 0.2  # s before the first statement is due
_ROWS = 1000  # of a result that are taken at once

Tell = Callable[[Mapping[str, object]], None]


@dataclass(slots=True, kw_only=True)
class Played:
    """What became of the statements. ``lags`` are seconds by which they were sent later than they could have been, and
    ``behind`` later than they were due: a server slower than that of the log holds them up, or CPUs that are busy.

    ``waits``: those that waited for another session; ``given_up``: of these, those that did not wait to the end.
    """

    statements: int = 0
    differ: int = 0
    waits: int = 0
    given_up: int = 0
    lags: list[float] = field(default_factory=list)
    behind: list[float] = field(default_factory=list)


async def play(sessions: Sequence[Session], *, conninfo: str, speed: float, tell: Tell, stop: asyncio.Event) -> Played:
    """Until all is sent, or ``stop`` is set. ``speed``: how many times as fast as in the log. Raises ConnectError."""
    steps = put_in_order(sessions)
    gc.freeze()
    gc.disable()  # a collection takes longer than many a statement
    async with connect(conninfo) as looking:
        waits = Waits(chain.from_iterable(steps.values()), looking=looking)
        tell({"ready": True})
        player = _Player(conninfo=conninfo, begin=time.time() + _HEAD_START, speed=speed, tell=tell, waits=waits)
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
    waits: Waits
    played: Played = field(default_factory=Played)

    async def play(self, steps: Sequence[Step]) -> None:
        """One session."""
        await _sleep_until(self._due(steps[0]) - _HEAD_START)
        application = os.environ.get("PGAPPNAME", APPLICATION)
        async with connect(self.conninfo, application=application, as_user=True) as connection:
            connection.prepare_threshold = None
            self.waits.pids[steps[0].transaction.session] = connection.info.backend_pid
            free = time.time()  # since when the session could send its next statement
            for step in steps:
                due = self._due(step)
                await _sleep_until(due)
                free = await self._wait_for_others(step) or max(free, due)
                sent = time.time()
                with self.waits.sending(step.statement):
                    failed = await _fails(connection, step.statement)
                ended = time.time()
                if step.ends:
                    self.waits.note(step.transaction)
                self.played.statements += 1
                self.played.lags.append(sent - free)
                self.played.behind.append(sent - due)
                if failed is step.statement.failed:
                    self.tell({"t": ended, "latency": ended - due, "lag": sent - free})
                else:
                    self.played.differ += 1
                    self.tell({"t": ended, "failed": True})
                free = ended
            del self.waits.pids[steps[0].transaction.session]
        for step in steps:  # also those of a transaction that the log does not end
            self.waits.note(step.transaction)

    async def _wait_for_others(self, step: Step) -> float | None:
        """Since when the statement could be sent; None: it had nothing to wait for."""
        waited = await self.waits.wait_before(step)
        if waited is None:
            return None
        self.played.waits += 1
        self.played.given_up += waited.in_vain
        return waited.since if waited.in_vain else time.time()

    def _due(self, step: Step) -> float:
        return self.begin + step.statement.due / self.speed


async def _fails(connection: psycopg.AsyncConnection[tuple[Any, ...]], statement: Statement) -> bool:
    server = connection.pgconn
    text = statement.text.encode()
    try:
        if statement.parameters:
            values = [None if value is None else value.encode() for value in statement.parameters]
            server.send_query_params(text, values)
        else:  # as it is, several statements in one as well
            server.send_query(text)
        if psycopg.capabilities.has_stream_chunked():
            server.set_chunked_rows_mode(_ROWS)
        return await connection.wait(_take(server))
    except psycopg.Error:
        return True


def _take(server: "pq.abc.PGconn") -> PQGen[bool]:
    """Whether one of the results is an error. They are thrown away as they come: all of them may have no room."""
    yield from generators.send(server)
    failed = False
    while (result := (yield from generators.fetch(server))) is not None:
        match result.status:
            case pq.ExecStatus.FATAL_ERROR:
                failed = True
            case pq.ExecStatus.COPY_IN:
                server.put_copy_end(b"the log does not have the data")
            case pq.ExecStatus.COPY_OUT:
                while isinstance((yield from generators.copy_from(server)), memoryview):
                    pass
                return failed
            case pq.ExecStatus.COPY_BOTH:
                raise psycopg.OperationalError("the server replicates")
    return failed


async def _sleep_until(moment: float) -> None:
    if (rest := moment - time.time()) > 0:
        await asyncio.sleep(rest)
