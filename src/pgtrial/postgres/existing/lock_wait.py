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
from pgtrial.postgres.existing.steps import Progress, Step, StepError, take
from pgtrial.safe_text import without_literals

Say = Callable[[str], object]  # hears in a full sentence for whom something waits
PAUSE = 5.0  # s in which those go on that have come behind a statement
APPLYING = 30.0  # s in which a statement of apply is taken again
UNDOING = 300.0  # s, of undo: then it is left to "pgtrial restore"
_LOOK = 1.0  # s between two looks at who holds the lock
_LONGEST = 60  # characters of a statement that is shown
_HOLDERS = """
    SELECT holder, application_name, state, query
    FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids(%s)) AS holder
    LEFT JOIN pg_catalog.pg_stat_activity ON pid = holder
    ORDER BY xact_start NULLS LAST, holder
"""


def say_nothing(_: str) -> None:
    """For who does not want to hear it."""


@dataclass(slots=True, kw_only=True)
class Holders:
    """Who was seen last to hold what a statement waited for, in words; "" while nobody was."""

    text: str = field(default="", init=False)

    @property
    def sentence(self) -> str:
        if self.text:
            return f"The lock is held by {self.text}."
        return "pg_blocking_pids() tells who holds a lock that somebody waits for."


async def take_in_turn(
    connection: "AsyncConnection[tuple[Any, ...]]",
    steps: Sequence[Step],
    number: int,
    progress: Progress,
    note: Callable[[Progress], object],
    *,
    conninfo: str,
    patience: float,
    say: Say,
) -> Progress:
    """Take a step, again and again for ``patience`` seconds where it does not get a lock. ``conninfo`` is for a look at
    who has it. Raises StepError, whose ``more`` says who that was.
    """
    until, holders = time.monotonic() + patience, Holders()
    while True:
        async with _watched(conninfo, connection.info.backend_pid, holders):
            try:
                return await take(connection, steps, number, progress, note)
            except StepError as err:
                if not isinstance(err.cause, LockNotAvailable):
                    raise
                err.more = holders.sentence
                has_left_part = err.is_outside and steps[number].is_concurrent
                if not err.is_settled or has_left_part or time.monotonic() + PAUSE > until:
                    raise
        say(f'"{_shorten(steps[number].text)}" waits for a lock and is tried again. {holders.sentence}')
        await asyncio.sleep(PAUSE)


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
                found = await (await connection.execute(_HOLDERS, [pid])).fetchall()
                if found:
                    holders.text = ", ".join(_describe(*row) for row in found)
                await asyncio.sleep(_LOOK)
    except TargetError:
        return  # it is only to be told


def _describe(pid: int, application: str | None, state: str | None, query: str | None) -> str:
    """A server's process; of other roles' sessions not everybody is told more than the number."""
    if pid == 0:
        return "a prepared transaction"
    shown = f'"{_shorten(without_literals(query, mark="…"))}"' if query and state else ""
    known = [application or "", state or "", shown]
    told = ", ".join(filter(None, known))
    return f"process {pid} ({told})" if told else f"process {pid}"


def _shorten(text: str) -> str:
    return textwrap.shorten(text, _LONGEST, placeholder=" …")
