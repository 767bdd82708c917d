"""Sampled sessions: how many are in which state, and what they wait for, many times a second.

The server groups them; the sampler adds up the polls of a second. An average over a stretch of time is the sum of
sessions divided by the number of polls, the metric sessions.polls.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pgtrial.collectors.base import Value, gauges
from pgtrial.model.metric import Metric

NAME = "sessions"
POLLS = "sessions.polls"
_QUERY_LENGTH = 80


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
    """Reads pg_stat_activity with sql/NAME.pgVERSION.sql, whose last column counts sessions."""

    name: str
    metrics: tuple[Metric, ...]

    def parse(self, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> Iterator[SessionGroup]:
        """Groups of one second. White space in query texts is made one blank, so groups may become one."""
        place = {name: columns.index(name) for name in SessionGroup._fields}
        sums: dict[tuple[str, ...], int] = {}
        for row in rows:
            key = [row[place[name]] or "" for name in SessionGroup._fields[:-1]]
            key[-1] = " ".join(key[-1].split())[:_QUERY_LENGTH]
            sums[tuple(key)] = sums.get(tuple(key), 0) + int(row[place["sessions"]] or 0)
        for (backend_type, application, state, wait_type, wait_event, query), sessions in sums.items():
            yield SessionGroup(backend_type, application, state, wait_type, wait_event, query, sessions)


COLLECTOR = SessionCollector(name=NAME, metrics=gauges(NAME, "", "polls"))
