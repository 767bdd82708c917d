"""Statements of the user that wait for a lock: not for long at once, since whoever comes behind them waits for them.

PostgreSQL grants locks in order, so a DROP INDEX that waits for one open transaction keeps every reader of its table
waiting. A statement that has waited too long is given up by the server, which rolls it back, and is taken again later.
"""

import asyncio
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection
from psycopg.errors import LockNotAvailable

from pgtrial.errors import TargetError
from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.steps import LOCK_TIMEOUT, LONG_TIMEOUT, Progress, Step, StepError, take
from pgtrial.safe_text import without_literals
from pgtrial.units import format_duration

Say = Callable[[str], object]  # hears in a full sentence for whom something waits
PAUSE = 5.0  # s in which those go on that have come behind a statement
APPLYING = 30.0  # s in which a statement of apply is taken again
UNDOING = 300.0  # s that all statements of an undo wait together: then it is left to "pgtrial restore"
_LOOK = 1.0  # s between two looks at who holds the lock
_LONGEST = 60  # characters of a statement that is shown
# Of a lock that somebody holds and the waiting process wants: which one it is, and on what.
_HOLDERS = """
    SELECT holder, a.application_name, a.state, a.query, (
        SELECT pg_catalog.string_agg(DISTINCT h.mode || ' on ' || CASE w.locktype
            WHEN 'relation' THEN pg_catalog.pg_describe_object('pg_catalog.pg_class'::regclass, w.relation, 0)
            WHEN 'object' THEN pg_catalog.pg_describe_object(w.classid, w.objid, w.objsubid)
            WHEN 'transactionid' THEN 'its transaction ' || w.transactionid
            WHEN 'virtualxid' THEN 'its transaction ' || w.virtualxid
            ELSE w.locktype END, ', ')
        FROM pg_catalog.pg_locks AS w JOIN pg_catalog.pg_locks AS h ON h.locktype = w.locktype
            AND (h.database, h.relation, h.page, h.tuple, h.virtualxid, h.transactionid, h.classid, h.objid, h.objsubid)
                IS NOT DISTINCT FROM
                (w.database, w.relation, w.page, w.tuple, w.virtualxid, w.transactionid, w.classid, w.objid, w.objsubid)
        WHERE w.pid = %(pid)s AND NOT w.granted AND h.pid = holder AND h.granted)
    FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids(%(pid)s)) AS holder
    LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = holder
    ORDER BY a.xact_start NULLS LAST, holder
"""


@dataclass(slots=True)
class Patience:
    """How many seconds one waits for locks, with however many statements. The time in which they work is not counted:
    an index that is built anew takes as long as it takes.
    """

    seconds: float
    left: float = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.seconds

    def count(self, since: float) -> float:
        """Take off what has passed ``since`` a time of the clock; the time now."""
        now = time.monotonic()
        self.left -= now - since
        return now


def say_nothing(_: str) -> None:
    """For who does not want to hear it."""


@dataclass(slots=True, kw_only=True)
class Holders:
    """Who was seen last to hold what a statement waited for, in words; "" while nobody was."""

    text: str = field(default="", init=False)

    @property
    def sentence(self) -> str:
        if self.text:
            return f"{self.text}."
        return "pg_blocking_pids() tells who holds a lock that somebody waits for."


async def take_in_turn(
    connection: "AsyncConnection[tuple[Any, ...]]",
    steps: Sequence[Step],
    number: int,
    progress: Progress,
    note: Callable[[Progress], object],
    *,
    conninfo: str,
    patience: Patience,
    say: Say,
    is_undo: bool = False,
) -> Progress:
    """Take a step, again and again while there is ``patience`` where it does not get a lock. ``conninfo`` is for a look
    at who has it. Attempts that got none are counted, and the pauses between them. ``is_undo``: no single attempt waits
    longer than what is left, but as long as any other statement. Raises StepError, whose ``more`` says who has it.
    """
    holders = Holders()
    while True:
        since = time.monotonic()
        async with _watched(conninfo, connection.info.backend_pid, holders):
            try:
                left = max(LOCK_TIMEOUT, round(1000 * patience.left))
                longest = min(LONG_TIMEOUT, left) if is_undo else LONG_TIMEOUT
                return await take(connection, steps, number, progress, note, longest=longest)
            except StepError as err:
                if not isinstance(err.cause, LockNotAvailable):
                    raise
                since = patience.count(since)
                err.more = holders.sentence
                has_left_part = err.is_outside and steps[number].is_concurrent
                if not err.is_settled or has_left_part or patience.left < PAUSE:
                    raise
        say(f'"{_shorten(steps[number].text)}" waits for a lock and is tried again. {holders.sentence}')
        await asyncio.sleep(PAUSE)
        patience.count(since)


@asynccontextmanager
async def _watched(conninfo: str, pid: int, holders: Holders) -> AsyncIterator[None]:
    """Look meanwhile for whom the server's process ``pid`` waits."""
    watching = asyncio.create_task(_watch(conninfo, pid, holders))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _watch(conninfo: str, pid: int, holders: Holders) -> None:
    await asyncio.sleep(_LOOK)  # most statements wait for nobody, and need no second connection
    try:
        async with connect(conninfo) as connection:
            while True:
                found = await (await connection.execute(_HOLDERS, {"pid": pid})).fetchall()
                if found:
                    text = ", ".join(_describe(*row) for row in found)
                    holders.text = f"{text[:1].upper()}{text[1:]}"
                await asyncio.sleep(_LOOK)
    except TargetError:
        return  # it is only to be told


def _describe(pid: int, application: str | None, state: str | None, query: str | None, lock: str | None) -> str:
    """A server's process; of other roles' sessions not everybody is told more than the number. Of one that only waits
    in front there is no lock.
    """
    holds = f" holds {lock}" if lock else " comes first"
    if pid == 0:
        return f"a prepared transaction{holds}"
    shown = f'"{_shorten(without_literals(query, mark="…"))}"' if query and state else ""
    known = [application or "", state or "", shown]
    told = ", ".join(filter(None, known))
    return f"process {pid} ({told}){holds}" if told else f"process {pid}{holds}"


def _shorten(text: str) -> str:
    return textwrap.shorten(text, _LONGEST, placeholder=" …")


def no_lock_text(step: Step, patience: Patience, more: str) -> str:
    """What is said of an undo whose patience is at its end: who has what it waits for, and how it is finished."""
    waited = f'"{_shorten(step.text)}" got no lock within {format_duration(patience.seconds)}.'
    return f'{waited} {more} When it is free, finish with "pgtrial restore".'
