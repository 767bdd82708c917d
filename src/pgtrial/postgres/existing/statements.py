"""ALTER SYSTEM as a statement: values written so that the configuration file holds them as they are meant."""

import asyncio
import time
from typing import Any

from psycopg import AsyncConnection, sql

from pgtrial.errors import TargetError
from pgtrial.postgres.auto_conf import setting_key

# ALTER SYSTEM takes each text for one element of these and quotes it, so that 'a, b' would become one library "a, b".
# GUC_LIST_QUOTE in guc_tables.c; a test asks each server. Whether the elements are names, which are folded, or paths.
LISTS = {
    "local_preload_libraries": False,
    "oauth_validator_libraries": False,
    "output_plugin_libraries": False,
    "search_path": True,
    "session_preload_libraries": False,
    "shared_preload_libraries": False,
    "temp_tablespaces": True,
    "unix_socket_directories": False,
}
_PATIENCE = 30.0  # s for a statement that a killed pgtrial left behind
_STEP = 0.05

_LEFT = """
    SELECT count(CASE WHEN %s THEN pg_catalog.pg_terminate_backend(pid) ELSE true END)
    FROM pg_catalog.pg_stat_activity
    WHERE usename = current_user AND state = 'active' AND pid <> pg_catalog.pg_backend_pid()
        AND application_name = 'pgtrial' AND pg_catalog.starts_with(query, %s)
"""


def alter_system(name: str, value: str | None) -> sql.Composed:
    """ALTER SYSTEM SET, or, with None, ALTER SYSTEM RESET. ``value`` is as the configuration file has it."""
    # The file gets the name as it is written here, also its letters' case.
    target = sql.Identifier(*name.split("."))
    if value is None:
        return sql.SQL("ALTER SYSTEM RESET {}").format(target)
    texts = split_list(name, value) if setting_key(name) in LISTS else [value]
    return sql.SQL("ALTER SYSTEM SET {} = {}").format(target, sql.SQL(", ").join(map(sql.Literal, texts)))


def split_list(name: str, value: str) -> list[str]:
    """Elements of a list of names or paths (SplitIdentifierString and SplitDirectoriesString in varlena.c)."""
    folded, elements, at = LISTS[setting_key(name)], [], 0
    while at < len(value):
        part = value[at:].lstrip()
        at = len(value) - len(part)
        if part.startswith('"'):
            end = at + 1
            while end < len(value) and (value[end] != '"' or value[end : end + 2] == '""'):
                end += 2 if value[end] == '"' else 1
            elements.append(value[at + 1 : end].replace('""', '"'))
            comma = value.find(",", end)
        else:
            comma = value.find(",", at)
            bare = value[at:] if comma < 0 else value[at:comma]
            elements.append(bare.strip().lower() if folded else bare.strip())
        at = len(value) if comma < 0 else comma + 1
    return elements


async def as_written(connection: "AsyncConnection[tuple[Any, ...]]", name: str, value: str) -> str:
    """The text that the configuration file holds after ``alter_system(name, value)``."""
    if setting_key(name) not in LISTS:
        return value
    query = "SELECT pg_catalog.string_agg(pg_catalog.quote_ident(e), ', ') FROM pg_catalog.unnest(%s::text[]) AS e"
    row = await (await connection.execute(query, [split_list(name, value)])).fetchone()
    return str(row[0]) if row and row[0] is not None else ""


async def await_left(connection: "AsyncConnection[tuple[Any, ...]]", beginning: str, *, end: bool = False) -> None:
    """Wait for statements of ours that begin so: a pgtrial that was killed may have left one at work.

    ``end``: do not let them come to their own end. Raises TargetError after 30 s.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        row = await (await connection.execute(_LEFT, [end, beginning])).fetchone()
        if row is None or row[0] == 0:
            return
        if time.monotonic() > deadline:
            raise TargetError(f'a statement of an earlier pgtrial is still at work: "{beginning} …"')
        await asyncio.sleep(_STEP)
