"""Sampled sessions: their states and waits, many times a second.

The server tells of each session; the sampler groups those of all polls of a second, and takes the literals out of their
statements before anything of them is written. An average over a stretch of time is the sum of sessions divided by the
number of polls, the metric sessions.polls. Of these sessions.late came too late for a moment of their own: the poll
that got an answer counts for them too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pgtrial.collectors.base import Value, gauges
from pgtrial.model.metric import Metric
from pgtrial.safe_text import without_literals

NAME = "sessions"
POLLS = "sessions.polls"
LATE = "sessions.late"
APPLICATION = "application"  # the column with the name that the session has given itself
QUERY = "query"  # the column with the statement
QUERY_ID = "query_id"  # the column with what is the same of all statements that differ in literals only; may be NULL
SESSIONS = "sessions"  # the column that the sampler adds: how many sessions were found alike
_QUERY_LENGTH = 80


def shown_query(query: str) -> str:
    """A statement as it stands in a group of sessions."""
    return _cut(without_literals(query))


def _cut(query: str) -> str:
    return " ".join(query.split()).rstrip("; ")[:_QUERY_LENGTH]


class SessionGroup(NamedTuple):
    """Sessions that were found alike, summed over the polls of a second; "" stands for what the server leaves out."""

    backend_type: str
    application: str
    state: str
    wait_type: str
    wait_event: str
    query: str
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCollector:
    """Reads pg_stat_activity with sql/NAME.pgVERSION.sql, a row for each session."""

    name: str
    metrics: tuple[Metric, ...]

    def parse(self, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> Iterator[SessionGroup]:
        """Groups of one second. White space in query texts is made one blank, so groups may become one."""
        place = {name: columns.index(name) for name in SessionGroup._fields}
        sums: dict[tuple[str, ...], int] = {}
        for row in rows:
            key = [row[place[name]] or "" for name in SessionGroup._fields[:-1]]
            key[-1] = _cut(key[-1])
            sums[tuple(key)] = sums.get(tuple(key), 0) + int(row[place["sessions"]] or 0)
        for (backend_type, application, state, wait_type, wait_event, query), sessions in sums.items():
            yield SessionGroup(backend_type, application, state, wait_type, wait_event, query, sessions)


COLLECTOR = SessionCollector(name=NAME, metrics=gauges(NAME, "", "polls", "late"))
