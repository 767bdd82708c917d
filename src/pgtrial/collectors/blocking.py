"""Who blocks whom: statements that wait for a lock, and what the session does that holds them all up.

A watch reads it. Experiments do not: their sampler keeps readings as they are, and these have statements with literals.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pgtrial.collectors.base import Columns, QueryCollector, Reading, Rows, gauges
from pgtrial.collectors.sessions import shown_query

NAME = "blocking"
SESSIONS = f"{NAME}.sessions"
_PREPARED = "0"  # pg_blocking_pids() of a prepared transaction, which has no session


def about(waiting: str, state: str, holder: str) -> str:
    """The object of a reading: the statement that waits, and state and last statement of who is waited for."""
    return json.dumps([waiting, state, holder], ensure_ascii=False)


def read_about(text: str) -> tuple[str, str, str] | None:
    """The parts of such an object; None where it is none, as of a damaged file."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if isinstance(found, list) and len(found) == 3 and all(isinstance(each, str) for each in found):
        return found[0], found[1], found[2]
    return None


def understand(columns: Columns, rows: Rows) -> Iterator[Reading]:
    """Waiting sessions by ``about``, and all of them for the object "", which is there at each reading."""
    found = {row["pid"] or "": row for row in (dict(zip(columns, row, strict=True)) for row in rows)}
    blockers = {
        pid: (row["blockers"] or "").strip("{}").split(",")
        for pid, row in found.items()
        if row["blockers"] not in (None, "{}")  # it has got its lock meanwhile
    }
    pairs = Counter(
        about(shown_query(found[pid]["query"] or ""), *_doing(found.get(root), root))
        for pid in blockers
        if (root := first_holder(blockers, pid)) is not None
    )
    yield Reading(SESSIONS, "", float(pairs.total()))
    for pair, count in pairs.items():
        yield Reading(SESSIONS, pair, float(count))


def first_holder(blockers: Mapping[str, Sequence[str]], pid: str) -> str | None:
    """Who waits for nobody, at the end of a chain of waits; None in a circle."""
    seen = {pid}
    while pid in blockers:
        pid = blockers[pid][0]
        if pid in seen:
            return None
        seen.add(pid)
    return pid


def _doing(row: Mapping[str, str | None] | None, pid: str) -> tuple[str, str]:
    if row is None or pid == _PREPARED:
        return "prepared transaction" if pid == _PREPARED else "", ""
    kind = row["backend_type"] or ""
    state = row["state"] or ""
    return (state if kind == "client backend" else f"{kind} {state}".strip()), shown_query(row["query"] or "")


COLLECTOR = QueryCollector(name=NAME, metrics=gauges(NAME, "", "sessions"), understand=understand, may_be_empty=True)
