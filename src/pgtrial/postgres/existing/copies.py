"""Copy a database within an existing server, where nobody is connected to it."""

import re
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, Error, sql
from psycopg.errors import DuplicateDatabase, InsufficientPrivilege, ObjectInUse

from pgtrial.errors import PreflightError, TargetError
from pgtrial.postgres.connect import connect, fetch
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.safe_text import sql_name

_SIZE = "SELECT pg_catalog.pg_database_size(%s::name)"
# Workers of autovacuum, which have no role, are ended by CREATE DATABASE itself; what a process is is told to few.
_CONNECTED = """
    SELECT coalesce(usename, 'somebody') || coalesce(' (' || nullif(application_name, '') || ')', ''), count(*)
    FROM pg_catalog.pg_stat_activity
    WHERE datname = %s AND usesysid IS NOT NULL
    GROUP BY 1 ORDER BY 2 DESC
"""
_DUMP = 'Copy it through a dump instead: "pgtrial copy FILE --dump NAME.dump".'


# What CREATE DATABASE takes from no template: who may connect, and settings.
_OWNER = """
    SELECT pg_catalog.pg_get_userbyid(datdba), pg_catalog.pg_has_role(datdba, %s), datacl IS NOT NULL
    FROM pg_catalog.pg_database WHERE datname = %s
"""
_GRANTS = """
    SELECT CASE WHEN grantee <> 0 THEN pg_catalog.pg_get_userbyid(grantee) END, privilege_type,
        pg_catalog.bool_or(is_grantable)
    FROM pg_catalog.pg_database, pg_catalog.aclexplode(datacl) WHERE datname = %s GROUP BY 1, 2 ORDER BY 1, 2
"""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """``left_out`` are settings of the original that the role may not give the copy."""

    size: int
    left_out: tuple[str, ...]


async def copy_database(server: ExistingServer, database: str, name: str) -> Copied:
    """Make database ``name`` a copy of another one, for those who may connect to that one, and with its settings.

    Sessions of others are never ended for it. Raises PreflightError, TargetError.
    """
    place = server.conninfo("postgres" if database != "postgres" else "template1")
    connected = await fetch(place, _CONNECTED, [database])
    if connected:
        raise _refuse_connected(database, [f"{who}: {count}" for who, count in connected])
    async with connect(place) as connection:
        try:
            await connection.execute("SET statement_timeout = 0")
            may = "SET" if connection.info.server_version >= 160000 else "MEMBER"
            rows = await (await connection.execute(_OWNER, [may, database])).fetchall()
            ((owner, is_able, has_grants),) = rows or [("", False, False)]
            await connection.execute(
                # Nobody gets in before it is known who may.
                sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy ALLOW_CONNECTIONS false {}").format(
                    sql.Identifier(name),
                    sql.Identifier(database),
                    sql.SQL("OWNER {}").format(sql.Identifier(owner)) if is_able else sql.SQL(""),
                )
            )
            if has_grants:
                await _grant(connection, database, name)
            left_out = await _set(connection, database, name)
            await connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(sql.Identifier(name)))
            comment = f'A copy of database "{database}", made by "pgtrial copy".'
            await connection.execute(
                sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(name), sql.Literal(comment))
            )
        except ObjectInUse as err:
            raise _refuse_connected(database, []) from err
        except DuplicateDatabase as err:
            raise PreflightError(
                f'database "{name}" already exists', hint="Name another one with --as, or drop it with dropdb."
            ) from err
        except InsufficientPrivilege as err:
            user = server.control.address.user
            raise PreflightError(
                f'role "{user}" may not copy database "{database}"',
                detail=f"The server says: {err.diag.message_primary or err}.",
                hint=f"It needs CREATEDB (ALTER ROLE {sql_name(user)} CREATEDB) and to be the owner of the database. "
                f"{_DUMP}",
            ) from err
        except Error as err:
            raise TargetError(f'cannot copy database "{database}": {err.diag.message_primary or err}') from err
    ((size,),) = await fetch(place, _SIZE, [name])
    return Copied(size=int(size), left_out=left_out)


async def _grant(connection: AsyncConnection[tuple[Any, ...]], database: str, name: str) -> None:
    copy = sql.Identifier(name)
    await connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(copy))
    for role, privilege, is_grantable in await (await connection.execute(_GRANTS, [database])).fetchall():
        await connection.execute(
            sql.SQL("GRANT {} ON DATABASE {} TO {} {}").format(
                sql.SQL(privilege),
                copy,
                sql.SQL("PUBLIC") if role is None else sql.Identifier(role),
                sql.SQL("WITH GRANT OPTION" if is_grantable else ""),
            )
        )


async def read_settings(server: ExistingServer, database: str) -> tuple[str, ...]:
    """What sessions of a database begin with by ALTER DATABASE and ALTER ROLE … IN DATABASE, in words."""
    return tuple(
        f"{setting} = {value}" + ("" if role is None else f' of role "{role}"')
        for role, setting, value in await fetch(server.conninfo(database), _SETTINGS, [database])
    )


async def _set(connection: AsyncConnection[tuple[Any, ...]], database: str, name: str) -> tuple[str, ...]:
    left_out = []
    for role, setting, value in await (await connection.execute(_SETTINGS, [database])).fetchall():
        of = sql.SQL("ALTER DATABASE {}").format(sql.Identifier(name))
        if role is not None:
            of = sql.SQL("ALTER ROLE {} IN DATABASE {}").format(sql.Identifier(role), sql.Identifier(name))
        try:
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


def _refuse_connected(database: str, who: list[str]) -> PreflightError:
    return PreflightError(
        f'database "{database}" cannot be copied within its server while somebody is connected to it',
        detail=f"Connected: {', '.join(who)}." if who else "",
        hint=f"Wait until nobody is. {_DUMP}",
    )
