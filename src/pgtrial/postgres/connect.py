"""Connections to a server; the one place where psycopg's errors become pgtrial's."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import make_conninfo

from pgtrial.errors import ConnectError, TargetError
from pgtrial.postgres.statements import split_statements

APPLICATION = "pgtrial"


def conninfo(*, host: str, port: int, user: str, database: str) -> str:
    """A libpq connection string."""
    return make_conninfo(host=host, port=port, user=user, dbname=database, connect_timeout=10)


def forget_caller() -> dict[str, str]:
    """Take libpq's variables out of this process's environment: PGOPTIONS, PGSERVICE, PGSSLMODE, PGHOSTADDR …

    They would hold for everything that a connection string does not say. Returned is what was taken, which is how a
    server of the caller's own is reached; a password may be in it.
    """
    return {name: os.environ.pop(name) for name in list(os.environ) if _is_libpqs(name)}


@contextmanager
def as_caller(variables: Mapping[str, str]) -> Iterator[None]:
    """Let libpq's variables be these, and no others, while a connection is begun."""
    own = forget_caller()
    os.environ.update(variables)
    try:
        yield
    finally:
        forget_caller()
        os.environ.update(own)


def _is_libpqs(name: str) -> bool:
    return name.startswith("PG") and not name.startswith(("PG_CONFIG", "PGTRIAL_"))


@asynccontextmanager
async def connect(conninfo: str) -> AsyncIterator["psycopg.AsyncConnection[tuple[Any, ...]]"]:
    """A connection in autocommit mode for pgtrial's own statements. Raises ConnectError, TargetError."""
    try:
        connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True, application_name=APPLICATION)
    except psycopg.Error as err:
        raise ConnectError("no connection to the server", detail=_text(err)) from err
    try:
        yield connection
    except psycopg.Error as err:
        raise TargetError(f"the server refused a statement: {_text(err)}") from err
    finally:
        await connection.close()


async def fetch(conninfo: str, query: LiteralString, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Rows of one query over a connection of its own."""
    async with connect(conninfo) as connection:
        return await (await connection.execute(query, parameters)).fetchall()


async def execute(conninfo: str, statement: LiteralString) -> None:
    """One statement over a connection of its own, which no timeout of the experiment's settings cuts short."""
    async with connect(conninfo) as connection:
        await connection.execute("SET statement_timeout = 0")
        if connection.info.server_version >= 170000:
            await connection.execute("SET transaction_timeout = 0")
        await connection.execute(statement)


async def execute_script(conninfo: str, script: str, *, name: str) -> None:
    """All statements of a script of the user, each a transaction of its own. Raises TargetError that names it."""
    async with connect(conninfo) as connection:
        for offset, statement in split_statements(script):
            try:
                # The text is the user's own, meant to be executed as it stands.
                await connection.execute(statement.encode(), prepare=False)
            except psycopg.Error as err:
                position = err.diag.statement_position
                end = offset + int(position) - 1 if position else None
                where = f"{name}, line {script.count(chr(10), 0, end) + 1}" if end is not None else name
                raise TargetError(
                    f"{where}: {err.diag.message_primary or _text(err)}",
                    detail=err.diag.message_detail or "",
                    hint=err.diag.message_hint or "Correct the script; nothing has been measured.",
                ) from err


def _text(err: psycopg.Error) -> str:
    return err.diag.message_primary or " ".join(str(err).split())
