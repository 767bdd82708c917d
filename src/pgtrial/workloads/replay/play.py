"""Send the statements of a log to a server when they are due, and tell of each when it has ended."""

import asyncio
import gc
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen
from psycopg.waiting import Wait

from pgtrial.postgres.connect import APPLICATION, connect
from pgtrial.workloads.replay.arrivals import Arrivals, timed
from pgtrial.workloads.replay.log import Session, Statement
from pgtrial.workloads.replay.order import Step, put_in_order
from pgtrial.workloads.replay.relations import find_relations
from pgtrial.workloads.replay.types import Choice, find_types
from pgtrial.workloads.replay.waits import Waits

_HEAD_START = 0.2  # s before the first statement is due
_EARLY = 1.0  # s before its first statement that a session connects
_CANCEL_AGAIN = 1.0  # s
_ROWS = 1000  # of a result that are taken at once
# Classes of SQLSTATE that tell of a server, and not of its data: a connection or a transaction is lost, something was
# at its limit, or was waited for too long.
_FAILURES = ("08", "40", "53", "55", "57", "58", "XX")
_NOT_READY = "55000"  # such as currval() of a sequence from which the session has taken nothing
# What two sessions do to each other, or not, as their statements come a moment earlier or later: a serialization
# failure, a deadlock, and a lock that was not to be had at once or in time.
_BY_TIMING = ("40001", "40P01", "55P03")
_CANCELLED = "57014"
_ABORTED = "25P02"  # whatever failed before in the transaction
_UNTRANSLATABLE = "22P05"
_NO_DATA = "COPY without its data"

Tell = Callable[[Mapping[str, object]], None]


@dataclass(slots=True, kw_only=True)
class Played:
    """What became of the statements. ``lags`` are seconds by which they ended later than in a replay that has no delays
    of its own, and ``behind`` those by which they were sent later than they were due: a server slower than that of the
    log holds them up, or the replay itself, which was at work in the share ``busy`` of the time.

    ``waits``: those that waited for another session; ``given_up``: of these, those that did not wait to the end.
    ``failed``: those that the server could not do, and had done in the log, by SQLSTATE. ``differ``: those that ended
    otherwise for another reason, such as other data or a deadlock; "" is of those that failed in the log alone.
    ``cancelled``: those that were so in the log and here, whose latencies say nothing of the server.
    ``unprepared``: texts whose types there was no time to look for.
    """

    statements: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    differ: Counter[str] = field(default_factory=Counter)
    waits: int = 0
    given_up: int = 0
    cancelled: int = 0
    unprepared: int = 0
    busy: float = 0.0
    lags: list[float] = field(default_factory=list)
    behind: list[float] = field(default_factory=list)


async def play(
    sessions: Sequence[Session], *, conninfo: str, speed: float, tell: Tell, stop: asyncio.Event, arrivals: Arrivals
) -> Played:
    """Until all is sent, or ``stop`` is set. ``speed``: how many times as fast as in the log; ``arrivals`` is what the
    event loop looks with. Raises ConnectError.
    """
    async with connect(conninfo, application=_application(), as_user=True) as asking:
        steps = put_in_order(sessions, await find_relations(asking))
        gc.freeze()
        gc.disable()  # a collection takes longer than many a statement
        types, unprepared = await find_types(asking, sessions)
    async with connect(conninfo) as looking:
        waits = Waits(chain.from_iterable(steps.values()), looking=looking)
        player = _Player(
            conninfo=conninfo,
            first=min(each[0].statement.due for each in steps.values()),
            speed=speed,
            tell=tell,
            waits=waits,
            types=types,
            arrivals=arrivals,
        )
        player.played.unprepared = unprepared
        player.missing = sum(player.is_early(each) for each in steps.values())
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
    player.played.busy = arrivals.busy
    return player.played


@dataclass(slots=True, kw_only=True)
class _Player:
    """``first`` is when the first statement is due by the log, ``begin`` when the log begins, in seconds since 1970.
    ``begun`` is set when all sessions of the beginning are connected, of which so many are ``missing``.
    """

    conninfo: str
    first: float
    speed: float
    tell: Tell
    waits: Waits
    types: Mapping[str, Choice]  # of parameters, by text
    arrivals: Arrivals
    missing: int = 0
    begin: float = 0.0
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    played: Played = field(default_factory=Played)

    def is_early(self, steps: Sequence[Step]) -> bool:
        """Whether a session has its first statement so soon that it connects before the beginning."""
        return (steps[0].statement.due - self.first) / self.speed <= _EARLY

    def _connected(self) -> None:
        self.missing -= 1
        if not self.missing:
            # Logs tell whole milliseconds: as whole ones here, they come out as they were for all that is sent a moment
            # late.
            self.begin = math.ceil((time.time() + _HEAD_START - self.first / self.speed) * 1000) / 1000
            self.arrivals.begin()
            self.tell({"ready": True})
            self.begun.set()

    async def play(self, steps: Sequence[Step]) -> None:
        """One session."""
        if not self.is_early(steps):
            await self.begun.wait()
            await _sleep_until(self._due(steps[0]) - _EARLY)
        async with connect(self.conninfo, application=_application(), as_user=True) as connection:
            self.waits.pids[steps[0].transaction.session] = connection.info.backend_pid
            if self.is_early(steps):
                self._connected()
            await self.begun.wait()
            reason: str | None = None  # with which SQLSTATE it failed, or what aborted its transaction
            prepared: set[str] = set()
            free = 0.0  # since when the session could have sent its next statement, were the replay never late
            for step in steps:
                due = self._due(step)
                await _sleep_until(due)
                await self._wait_for_others(step)
                could = max(due, free, self.waits.find_end(step))
                sent = time.time()
                with self.waits.sending(step.statement, at=could):
                    error, served = await self._send(connection, step.statement, prepared)
                ended = time.time()
                free = could + (ended - sent if served is None else served)
                if step.ends:
                    self.waits.note(step.transaction, at=free)
                lag = max(0.0, ended - free)
                self.played.statements += 1
                self.played.lags.append(lag)
                self.played.behind.append(sent - due)
                reason = reason if error == _ABORTED else error
                took = {"t": ended, "latency": ended - due, "lag": lag}
                if error == _CANCELLED and step.statement.cancelled is not None:
                    self.played.cancelled += 1
                    self.tell({"t": ended, "cancelled": True})  # no request: it took as long as it was let
                elif (error is not None) is step.statement.failed:
                    self.tell(took)
                elif error in _BY_TIMING:
                    self.played.differ[error] += 1
                    self.tell(took)  # so that an arm in which it waited for long does not lose this
                elif error is not None and _is_of_server(reason):
                    self.played.failed[error] += 1
                    self.tell({"t": ended, "failed": True})
                else:
                    self.played.differ[error or ""] += 1
                    self.tell({"t": ended, "differs": True})  # no request, and no failure of the server
            del self.waits.pids[steps[0].transaction.session]
        for step in steps:  # also those of a transaction that the log does not end
            self.waits.note(step.transaction, at=free)

    async def _wait_for_others(self, step: Step) -> None:
        if (to_the_end := await self.waits.wait_before(step)) is not None:
            self.played.waits += 1
            self.played.given_up += not to_the_end

    async def _send(
        self, connection: psycopg.AsyncConnection[tuple[Any, ...]], statement: Statement, prepared: set[str]
    ) -> tuple[str | None, float | None]:
        """With which SQLSTATE it fails, if it does, and for how many seconds it was the server's turn, if known."""
        server = connection.pgconn
        try:
            answer = connection.wait(
                timed(self._exchange(connection, statement, prepared), server.socket, self.arrivals)
            )
            if statement.cancelled is None:
                return await answer
            return await _cancelled(answer, connection, after=statement.cancelled)
        except psycopg.Error as err:
            return err.sqlstate or "08006", None
        except UnicodeError:
            return _UNTRANSLATABLE, None

    def _exchange(
        self, connection: psycopg.AsyncConnection[tuple[Any, ...]], statement: Statement, prepared: set[str]
    ) -> PQGen[str | None]:
        """The SQLSTATE with which it fails, if it does. ``prepared`` are the names that the session has prepared."""
        server, name = connection.pgconn, statement.name
        text = _encode(statement.text, connection)
        values = [None if value is None else _encode(value, connection) for value in statement.parameters]
        choice = self.types.get(statement.text) if values else None
        types = () if choice is None else choice.of(statement.parameters)
        usual = choice.prepared if name and choice is not None else ()
        if name and name not in prepared:
            server.send_prepare(_encode(name, connection), text, usual or None)
            if (failed := (yield from _take(server))) is not None:
                return failed
            prepared.add(name)
        if name and types == usual:
            server.send_query_prepared(_encode(name, connection), values)
        elif values:
            server.send_query_params(text, values, types or None)
        else:  # as it is, several statements in one as well
            server.send_query(text)
        if psycopg.capabilities.has_stream_chunked():
            server.set_chunked_rows_mode(_ROWS)
        failed = yield from _take(server)
        if statement.forgets and failed is None:
            prepared.difference_update(statement.forgets)
        return failed

    def _due(self, step: Step) -> float:
        return self.begin + step.statement.due / self.speed


async def _cancelled(
    answer: Coroutine[None, None, tuple[str | None, float]],
    connection: psycopg.AsyncConnection[tuple[Any, ...]],
    *,
    after: float,
) -> tuple[str | None, float]:
    """What ``answer`` is, if the server is asked to give up ``after`` so many seconds without the replay's delays."""
    ended = asyncio.Event()
    cancelling = asyncio.create_task(_cancel(connection, after, ended))
    try:
        error, served = await answer
    finally:
        ended.set()
        late = await cancelling  # until the server has been asked, else it could give up the next one
    return error, served - late


async def _cancel(connection: psycopg.AsyncConnection[tuple[Any, ...]], seconds: float, ended: asyncio.Event) -> float:
    """By how much later than it should have been the server was asked; again and again, for it may not have begun."""
    due, late = time.time() + seconds, 0.0
    while not ended.is_set():
        try:
            async with asyncio.timeout(seconds):
                await ended.wait()
        except TimeoutError:
            late = late or time.time() - due
            seconds = _CANCEL_AGAIN
            with suppress(psycopg.Error):
                await connection.cancel_safe()
    return late


def _is_of_server(reason: str | None) -> bool:
    return reason is not None and reason.startswith(_FAILURES) and reason not in (_NOT_READY, *_BY_TIMING)


def _application() -> str:
    return os.environ.get("PGAPPNAME", APPLICATION)


def _take(server: "pq.abc.PGconn") -> PQGen[str | None]:
    """The SQLSTATE of the last result that is an error, if one is. They are thrown away as they come: all of them may
    have no room.
    """
    yield from generators.send(server)
    failed, lacks_data = None, False
    while (result := (yield from generators.fetch(server))) is not None:
        match result.status:
            case pq.ExecStatus.FATAL_ERROR:
                code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode() or "XX000"
                failed = _NO_DATA if lacks_data else code
            case pq.ExecStatus.COPY_IN:
                lacks_data = True
                server.put_copy_end(b"the log does not have the data")
            case pq.ExecStatus.COPY_OUT:
                while (size := server.get_copy_data(1)[0]) >= 0:
                    if not size and (yield Wait.R):
                        server.consume_input()
            case pq.ExecStatus.COPY_BOTH:
                raise psycopg.OperationalError("the server replicates")
    return failed


def _encode(text: str, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> bytes:
    """As the session sends its texts now. Raises UnicodeError, psycopg.NotSupportedError."""
    if text.isascii() or (codec := connection.info.encoding) == "ascii":  # that of SQL_ASCII, which takes any bytes
        return text.encode()
    return text.encode(codec)


async def _sleep_until(moment: float) -> None:
    if (rest := moment - time.time()) > 0:
        await asyncio.sleep(rest)
