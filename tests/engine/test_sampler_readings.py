from collections.abc import Sequence
from typing import cast

from psycopg.pq.abc import PGresult

from pgtrial.engine.sampler.readings import SessionSums, columns_of, rows_of


class Result:
    """Rows as libpq gives them."""

    def __init__(self, columns: Sequence[bytes], *rows: Sequence[bytes | None]) -> None:
        self.columns, self.rows = columns, rows

    nfields = property(lambda self: len(self.columns))
    ntuples = property(lambda self: len(self.rows))

    def fname(self, column: int) -> bytes:
        return self.columns[column]

    def get_value(self, row: int, column: int) -> bytes | None:
        return self.rows[row][column]


def answer(*rows: Sequence[bytes | None]) -> PGresult:
    return cast(PGresult, Result([b"state", b"sessions"], *rows))


def test_alike_sessions_of_several_polls_are_one_row() -> None:
    sums = SessionSums()

    sums.add(1.0, answer((b"active", b"2"), (None, b"1")))
    sums.add(2.0, answer((b"active", b"3")))

    assert (sums.t, sums.polls) == (1.0, 2)
    assert sums.drain() == {"polls": 2, "columns": ("state", "sessions"), "rows": [["active", "5"], [None, "1"]]}
    assert (sums.polls, sums.groups) == (0, {})


def test_result_is_texts() -> None:
    result = answer((b"\xc3\xa9", None), (b"\xff", b"1"))

    assert columns_of(result) == ("state", "sessions")
    assert rows_of(result) == [["é", None], ["�", "1"]]
