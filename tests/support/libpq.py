"""Rows as libpq gives them: a server's, and made ones."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from psycopg.pq import ExecStatus

from pgtrial.collectors.base import find_statement
from pgtrial.engine.sampler.link import columns_of, rows_of

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGresult

Rows = tuple[list[str], list[list[str | None]]]  # of columns


class _Result:
    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[bytes | None]]) -> None:
        self.columns, self.rows = columns, rows

    nfields = property(lambda self: len(self.columns))
    ntuples = property(lambda self: len(self.rows))

    def fname(self, column: int) -> bytes:
        return self.columns[column].encode()

    def get_value(self, row: int, column: int) -> bytes | None:
        return self.rows[row][column]


def made_result(columns: Sequence[str], *rows: Sequence[bytes | None]) -> "PGresult":
    return cast("PGresult", _Result(columns, rows))


def execute(connection: "psycopg.Connection[Any]", statement: str, *parameters: bytes) -> Rows:
    result = connection.pgconn.exec_params(statement.encode(), parameters)
    assert result.status == ExecStatus.TUPLES_OK, result.get_error_message()
    return list(columns_of(result)), rows_of(result)


def ask(connection: "psycopg.Connection[Any]", name: str, *parameters: bytes) -> Rows:
    """What the statement of a collector gets of a server of this version, which has to have one."""
    statement = find_statement(name, connection.info.server_version)
    assert statement is not None
    return execute(connection, statement, *parameters)
