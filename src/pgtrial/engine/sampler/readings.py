"""What the server answers, as the sampler writes it, and the session groups of a second added up."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.pq.abc import PGresult


@dataclass(slots=True)
class SessionSums:
    """Session groups added up since the last tick. ``t`` is the time of the first poll."""

    t: float = 0.0
    polls: int = 0
    columns: tuple[str, ...] = ()
    groups: dict[tuple[bytes | None, ...], int] = field(default_factory=dict)

    def add(self, t: float, result: PGresult) -> None:
        self.columns, count_column = columns_of(result), result.nfields - 1
        if not self.polls:
            self.t = t
        self.polls += 1
        for row in range(result.ntuples):
            group = tuple([result.get_value(row, column) for column in range(count_column)])
            self.groups[group] = self.groups.get(group, 0) + int(result.get_value(row, count_column) or 0)

    def drain(self) -> dict[str, Any]:
        rows = [[*_texts(group), str(count)] for group, count in self.groups.items()]
        payload = {"polls": self.polls, "columns": self.columns, "rows": rows}
        self.polls = 0
        self.groups.clear()
        return payload


def columns_of(result: PGresult) -> tuple[str, ...]:
    return tuple([(result.fname(column) or b"").decode() for column in range(result.nfields)])


def rows_of(result: PGresult) -> list[list[str | None]]:
    columns = range(result.nfields)
    return [_texts([result.get_value(row, column) for column in columns]) for row in range(result.ntuples)]


def _texts(values: Sequence[bytes | None]) -> list[str | None]:
    return [None if value is None else value.decode("utf-8", "replace") for value in values]
