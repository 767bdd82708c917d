"""To which objects of a read-only database the load's own sessions write, where others may write to it as well.

The server counts what was written, and not by whom. So while the load is at work its sessions, which have names or
a role of their own, are looked at: one that has a transaction id and holds a lock for writing on a table writes to it.
A transaction that may only read can have such an id, but no such lock with it, unless by LOCK TABLE.
"""

import asyncio
import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pgtrial.errors import PgTrialError
from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.server import ServerControl

APPLICATION = "pgtrial watch"
_INTERVAL = 0.5  # s between two looks, on average; at random moments, so that none keeps step with the load
# A session that is the load's: by its name, or, where the role is the load's own, by having begun since.
_OF_LOAD = """(
    EXISTS (
        SELECT FROM pg_catalog.unnest(%(names)s::text[]) AS beginning
        WHERE pg_catalog.starts_with({session}.application_name, beginning)
    )
    OR {session}.backend_start >= %(since)s AND {session}.pid <> pg_catalog.pg_backend_pid()
        AND {session}.usesysid = (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = %(role)s)
)"""
_FIND = f"""
    SELECT DISTINCT c.oid::regclass::text, l.mode <> 'RowExclusiveLock'
    FROM pg_catalog.pg_locks AS l
    JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_stat_get_activity(NULL) AS a ON a.pid = l.pid
    -- Decided before the lock table is read: a load that only reads costs a look at the sessions.
    WHERE EXISTS (
            SELECT FROM pg_catalog.pg_stat_get_activity(NULL) AS s
            WHERE s.backend_xid IS NOT NULL AND {_OF_LOAD.format(session="s")}
        )
        AND l.locktype = 'relation' AND l.granted AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')
        AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
        AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
        AND a.backend_xid IS NOT NULL
        AND {_OF_LOAD.format(session="a")}
"""
_NOW = "SELECT pg_catalog.clock_timestamp()"
_WITH_SCHEMAS = "SET search_path = ''"  # as names stand in an inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Objects to which sessions of the load were seen writing, and those that they were changing as such, in so many
    ``looks``.
    """

    written: frozenset[str] = frozenset()
    altered: frozenset[str] = frozenset()
    looks: int = 0


@dataclass(slots=True, kw_only=True)
class WriteWatch:
    """Looks at sessions whose names begin with one of ``names``, between ``start`` and ``stop``; with a ``role``, which
    is the load's own, also at its sessions that have begun meanwhile, whatever they call themselves.

    A server that does not answer ends the looks: what happens to it is for others to tell.
    """

    control: ServerControl
    database: str
    names: Sequence[str]
    seed: str
    role: str | None = None
    _written: set[str] = field(default_factory=set, init=False)
    _altered: set[str] = field(default_factory=set, init=False)
    _looks: int = field(default=0, init=False)
    _task: "asyncio.Task[None] | None" = field(default=None, init=False)

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> Seen:
        """What was seen. A second call gives the same."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, PgTrialError):
                await self._task
            self._task = None
        return Seen(written=frozenset(self._written), altered=frozenset(self._altered), looks=self._looks)

    async def _watch(self) -> None:
        rng = random.Random(self.seed)
        async with connect(self.control.conninfo(self.database), application=APPLICATION) as connection:
            await connection.execute(_WITH_SCHEMAS)
            ((since,),) = await (await connection.execute(_NOW)).fetchall()
            of_load = {"names": list(self.names), "role": self.role, "since": since}
            while True:
                await asyncio.sleep(rng.uniform(0, 2 * _INTERVAL))
                rows = await (await connection.execute(_FIND, of_load)).fetchall()
                self._note(rows)

    def _note(self, rows: Iterable[tuple[str, bool]]) -> None:
        self._looks += 1
        for name, alters in rows:
            self._written.add(name)
            if alters:
                self._altered.add(name)
