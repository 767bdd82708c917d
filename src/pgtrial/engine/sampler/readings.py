"""What the server answers, as the sampler writes it, and the sessions of a second's polls, grouped."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.pq.abc import PGresult

from pgtrial.collectors import sessions


@dataclass(slots=True)
class SessionSums:
    """The polls of sessions since the last tick. ``t`` is the time of the first of them.

    They are added up all together: while a poll is taken, as little as possible is done.
    """

    t: float = 0.0
    polls: list[PGresult] = field(default_factory=list)

    def add(self, t: float, result: PGresult) -> None:
        if not self.polls:
            self.t = t
        self.polls.append(result)

    def drain(self) -> dict[str, Any]:
        """Sessions that were alike, with their number, without the literals of their statements; then begin anew.

        There has to be a poll.
        """
        columns = columns_of(self.polls[0])
        places = range(len(columns))
        alike: dict[tuple[bytes | None, ...], int] = {}
        for result in self.polls:
            value = result.get_value
            for row in range(result.ntuples):
                session = tuple([value(row, place) for place in places])
                alike[session] = alike.get(session, 0) + 1
        query = columns.index(sessions.QUERY)
        groups: dict[tuple[str | None, ...], int] = {}
        for session, count in alike.items():
            texts = _texts(session)
            if (text := texts[query]) is not None:
                texts[query] = sessions.without_literals(text)
            group = tuple(texts)
            groups[group] = groups.get(group, 0) + count
        rows = [[*group, str(count)] for group, count in groups.items()]
        payload = {"polls": len(self.polls), "columns": (*columns, sessions.SESSIONS), "rows": rows}
        self.polls = []
        return payload


def columns_of(result: PGresult) -> tuple[str, ...]:
    return tuple([(result.fname(column) or b"").decode() for column in range(result.nfields)])


def rows_of(result: PGresult) -> list[list[str | None]]:
    columns = range(result.nfields)
    return [_texts([result.get_value(row, column) for column in columns]) for row in range(result.ntuples)]


def _texts(values: Sequence[bytes | None]) -> list[str | None]:
    return [None if value is None else value.decode("utf-8", "replace") for value in values]
