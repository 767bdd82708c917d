"""pg_stat_statements, if loaded: cumulative counters of each statement of the load's database.

Counts are read every ten seconds, without the texts: those lie in a file that would be read each time. Texts are read
when the load is over. Only statements that a client sent count, not those inside of functions, whose work is in the
counts of the statement that called them. Nothing is ever reset.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pgtrial.collectors.base import ExtensionCollector, counters
from pgtrial.model.metric import Sample

NAME = "pg_stat_statements"
TEXTS = "pg_stat_statements_texts"
_TEXT_LENGTH = 240
_SUMS = (
    *("calls", "rows", "shared_blks_hit", "shared_blks_read", "shared_blks_dirtied", "shared_blks_written"),
    "temp_blks_written",
)


class StatementCounts(NamedTuple):
    """What a statement has done since some start; ``exec_time`` in s, ``wal_bytes`` in B, None where not counted."""

    queryid: str
    calls: int
    rows: int
    exec_time: float
    shared_blks_hit: int
    shared_blks_read: int
    shared_blks_dirtied: int
    shared_blks_written: int
    temp_blks_read: int
    temp_blks_written: int
    wal_bytes: int | None


def parse_counts(payload: Mapping[str, Any]) -> Iterator[StatementCounts]:
    """Counts of each statement at one time; "" is the queryid of those that the sampler may not see."""
    place = [payload["columns"].index(name) for name in StatementCounts._fields]
    for row in payload["rows"]:
        values = dict(zip(StatementCounts._fields, (row[i] for i in place), strict=True))
        queryid, exec_time = values.pop("queryid") or "", float(values.pop("exec_time"))
        wal_bytes = values.pop("wal_bytes")
        yield StatementCounts(
            queryid=queryid,
            exec_time=exec_time,
            wal_bytes=None if wal_bytes is None else int(wal_bytes),
            **{name: int(value) for name, value in values.items()},
        )


def parse_texts(payload: Mapping[str, Any]) -> dict[str, str]:
    """Texts by queryid, in one line and cut."""
    queryid, query = payload["columns"].index("queryid"), payload["columns"].index("query")
    return {row[queryid] or "": " ".join((row[query] or "").split())[:_TEXT_LENGTH] for row in payload["rows"]}


def _sums(t: float, payload: Mapping[str, Any]) -> Iterator[Sample]:
    counts = list(parse_counts(payload))
    for name in _SUMS:
        yield Sample(t, f"{NAME}.{name}", "", float(sum(getattr(one, name) for one in counts)))


COLLECTORS = (
    ExtensionCollector(
        name=NAME,
        extension="pg_stat_statements",
        metrics=counters(NAME, "", *_SUMS),
        parameters=("database",),
        every=10.0,
        follow=lambda: _sums,
    ),
    ExtensionCollector(
        name=TEXTS,
        extension="pg_stat_statements",
        metrics=(),
        parameters=("database",),
        at_end=True,
        follow=lambda: lambda _t, _payload: iter(()),  # texts are no samples
    ),
)
