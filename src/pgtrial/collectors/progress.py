"""pg_stat_progress_vacuum and _analyze: the tables that autovacuum or users process, and the progress.

Processes are counted by what they work on; the count is zero for the object "" while there is none.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from pgtrial.collectors.base import Columns, QueryCollector, Reading, Rows, gauges

# As autovac_report_activity puts it together (autovacuum.c), in every language.
_AUTOVACUUM = re.compile(
    r"autovacuum: (?:VACUUM ANALYZE|VACUUM|ANALYZE) (?P<relation>.+?)(?: \(to prevent wraparound\))?", re.DOTALL
)


def _workers(source: str) -> Callable[[Columns, Rows], Iterator[Reading]]:
    """Makes what understands the rows (database, relid, phase, query) of a view; the object is "relation/phase".

    The relation is named as autovacuum names it, "public.accounts". Where somebody vacuums by hand it is a number, for
    names of another database than one's own cannot be looked up. One of another database than the load's begins with
    the name of that, which then is in the row.
    """

    def understand(columns: Columns, rows: Rows) -> Iterator[Reading]:
        found = Counter(_name(**dict(zip(columns, row, strict=True))) for row in rows)
        for about, count in (found or {"": 0}).items():
            yield Reading(f"{source}.workers", about, float(count))

    return understand


def _name(database: str | None, relid: str | None, phase: str | None, query: str | None) -> str:
    match = _AUTOVACUUM.fullmatch(query or "")
    relation = match["relation"] if match else relid or ""
    return f"{f'{database}.' if database else ''}{relation}/{phase or ''}"


COLLECTORS = tuple(
    QueryCollector(
        name=name,
        metrics=gauges(name, "", "workers"),
        parameters=("database",),
        understand=_workers(name),
        may_be_empty=True,
    )
    for name in ("pg_stat_progress_vacuum", "pg_stat_progress_analyze")
)
