"""To which objects of a read-only database the load's own sessions write, where others may write to it as well.

The server counts what was written, and not by whom. So while the load is at work its sessions, which have names or
a role of their own, are looked at: one that has a transaction id and holds a lock for writing on a table writes to it.
A transaction that may only read can have such an id, but no such lock with it, unless by LOCK TABLE.

Others may come and go between two looks. The server counts who connects to the database: where that count grew by more
than the sessions that pgtrial itself has begun there, while all of the load's stayed what they were, somebody else has
connected.
"""

import asyncio
import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pgtrial.errors import PgTrialError
from pgtrial.postgres.connect import SAMPLER, WATCH, Begun, connect, count_begun
from pgtrial.postgres.existing.server import ServerControl

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
# The sessions of the load and of its sampler, another process; and how many have ever connected to the database.
_PRESENT = f"""
    SELECT pg_catalog.array_agg(ROW(a.pid, a.backend_start)::text ORDER BY a.pid),
        coalesce(pg_catalog.bool_or({_OF_LOAD.format(session="a")})
            AND pg_catalog.max(a.backend_start) < pg_catalog.clock_timestamp() - %(counted)s * INTERVAL '1s', false),
        (SELECT d.sessions FROM pg_catalog.pg_stat_database AS d WHERE d.datname = pg_catalog.current_database())
    FROM pg_catalog.pg_stat_get_activity(NULL) AS a
    WHERE a.datid = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
        AND (a.application_name = %(sampler)s OR {_OF_LOAD.format(session="a")})
"""
_COUNTED = 1.5  # s after which a session that has begun is in the server's count, also where that is contended
_NOW = "SELECT pg_catalog.clock_timestamp()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Objects to which sessions of the load were seen writing, and those that they were changing as such, in so many
    ``looks``; and whether ``others`` have connected to the database meanwhile: None if that cannot be told.
    """

    written: frozenset[str] = frozenset()
    altered: frozenset[str] = frozenset()
    looks: int = 0
    others: bool | None = None


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
    _others: bool | None = field(default=None, init=False)
    _present: "tuple[Sequence[str] | None, bool, int] | None" = field(default=None, init=False)  # at the look before
    _most: int = field(default=0, init=False)  # sessions counted that are not pgtrial's, since those are present
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
        return Seen(
            written=frozenset(self._written),
            altered=frozenset(self._altered),
            looks=self._looks,
            others=self._others,
        )

    async def _watch(self) -> None:
        rng = random.Random(self.seed)
        async with connect(self.control.conninfo(self.database), application=WATCH) as connection:
            ((since,),) = await (await connection.execute(_NOW)).fetchall()
            of_load = {"names": list(self.names), "role": self.role, "since": since}
            while True:
                await asyncio.sleep(rng.uniform(0, 2 * _INTERVAL))
                rows = await (await connection.execute(_FIND, of_load)).fetchall()
                self._note(rows)
                own = count_begun(connection)
                present = {**of_load, "counted": _COUNTED, "sampler": SAMPLER}
                ((there, are_counted, sessions),) = await (await connection.execute(_PRESENT, present)).fetchall()
                if count_begun(connection) == own and not own.beginning:  # else the two counts are not of one moment
                    self._note_present(there, are_counted, sessions, own)

    def _note(self, rows: Iterable[tuple[str, bool]]) -> None:
        self._looks += 1
        for name, alters in rows:
            self._written.add(name)
            if alters:
                self._altered.add(name)

    def _note_present(self, there: Sequence[str] | None, are_counted: bool, sessions: int, own: Begun) -> None:
        """Others have connected if more are counted than at a look before, while the same sessions were ``there``."""
        before, self._present = self._present, (there, are_counted, own.unknown)
        # A session of pgtrial's may come into the server's count late, and is then no other one.
        counted = sessions - own.begun
        if are_counted and before == self._present:
            self._others = bool(self._others) or counted > self._most
            self._most = max(self._most, counted)
        else:
            self._most = counted
