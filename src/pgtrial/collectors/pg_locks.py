"""pg_locks: how many sessions wait for which kind of lock, and how long the longest chain of those is.

Its reading goes through the whole lock table, so it is asked only while some session waits for a lock, which
pg_stat_activity tells without touching that. What blocks whom is asked of at most 50 sessions, those that have waited
longest: each time the lock table is locked once more.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pgtrial.collectors.base import Columns, QueryCollector, Reading, Rows, gauges

NAME = "pg_locks"


def understand(columns: Columns, rows: Rows) -> Iterator[Reading]:
    """Waiting sessions by "type/mode" of the lock, in one row each; the object is "" while none waits."""
    place = {name: columns.index(name) for name in ("pid", "object", "blockers")}
    waiting = Counter(row[place["object"]] or "" for row in rows)
    blockers = {
        row[place["pid"]] or "": (row[place["blockers"]] or "").strip("{}").split(",")
        for row in rows
        if row[place["blockers"]] not in (None, "{}")  # it has got its lock meanwhile
    }
    for about, count in (waiting or {"": 0}).items():
        yield Reading(f"{NAME}.waiting", about, float(count))
    yield Reading(f"{NAME}.chain", "", float(longest_chain(blockers)))


def longest_chain(blockers: Mapping[str, Sequence[str]]) -> int:
    """Sessions in the longest chain of which each waits for the next, the last one, which waits for none, included.

    ``blockers`` are those for which a session waits; in a deadlock nobody is counted twice.
    """
    lengths: dict[str, int] = {}

    def length(session: str) -> int:
        if session not in lengths:
            lengths[session] = 0  # while its own blockers are followed
            lengths[session] = 1 + max(map(length, blockers.get(session, ())), default=0)
        return lengths[session]

    return max(map(length, blockers), default=0)


COLLECTOR = QueryCollector(
    name=NAME, metrics=gauges(NAME, "", "waiting", "chain"), understand=understand, may_be_empty=True
)
