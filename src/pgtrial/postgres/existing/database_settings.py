"""What sessions of a database begin with by ALTER DATABASE and ALTER ROLE … IN DATABASE, which no template gives."""

import re
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.errors import InsufficientPrivilege

from pgtrial.postgres.connect import fetch
from pgtrial.postgres.existing.server import ExistingServer

_SETTINGS = """
    SELECT CASE WHEN setrole <> 0 THEN pg_catalog.pg_get_userbyid(setrole) END,
        pg_catalog.split_part(line, '=', 1), pg_catalog.substr(line, pg_catalog.strpos(line, '=') + 1)
    FROM pg_catalog.pg_db_role_setting JOIN pg_catalog.pg_database ON pg_database.oid = setdatabase,
        pg_catalog.unnest(setconfig) AS line
    WHERE datname = %s ORDER BY 1, 2
"""
# Settings that hold a list of quoted names, as variable_is_guc_list_quote of pg_dump (dumputils.c) has them.
_LISTS = ("search_path", "temp_tablespaces", "unix_socket_directories")
_LIST_ENDS = "_preload_libraries"
_NAME = re.compile(r'"((?:[^"]|"")*)"|([^,\s]+)')


async def read_settings(server: ExistingServer, database: str) -> tuple[str, ...]:
    """What sessions of a database begin with by ALTER DATABASE and ALTER ROLE … IN DATABASE, in words."""
    return tuple(
        f"{setting} = {value}" + ("" if role is None else f' of role "{role}"')
        for role, setting, value in await fetch(server.conninfo(database), _SETTINGS, [database])
    )


async def take_settings(connection: "AsyncConnection[tuple[Any, ...]]", database: str, name: str) -> tuple[str, ...]:
    """Give database ``name`` the settings of ``database``; those that the role may not give it are returned, in words.

    Raises psycopg's Error.
    """
    left_out = []
    for role, setting, value in await (await connection.execute(_SETTINGS, [database])).fetchall():
        of = sql.SQL("ALTER DATABASE {}").format(sql.Identifier(name))
        if role is not None:
            of = sql.SQL("ALTER ROLE {} IN DATABASE {}").format(sql.Identifier(role), sql.Identifier(name))
        try:
            async with connection.transaction():
                await connection.execute(
                    sql.SQL("{} SET {} TO {}").format(
                        of,
                        sql.SQL(".").join(map(sql.Identifier, setting.split("."))),
                        sql.SQL(", ").join(map(sql.Literal, _values(setting, value))),
                    )
                )
        except InsufficientPrivilege:
            left_out.append(setting if role is None else f'{setting} of role "{role}"')
    return tuple(left_out)


def _values(setting: str, value: str) -> list[str]:
    if setting not in _LISTS and not setting.endswith(_LIST_ENDS):
        return [value]
    return [(quoted or bare).replace('""', '"') for quoted, bare in _NAME.findall(value)] or [""]
