"""Copy a database within an existing server, where nobody is connected to it.

A copy that is not whole takes no connections and has an identifier that was chosen for it. By that it is known again,
and never by its name alone: pgtrial may be killed while the server makes it, which goes on with it nevertheless.
"""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from psycopg import AsyncConnection, Error, sql
from psycopg.errors import DuplicateDatabase, InsufficientPrivilege, ObjectInUse

from pgtrial.errors import PreflightError, TargetError
from pgtrial.model.change import SERVER_COPY, Change, JournalEntry, Outcome, Undone
from pgtrial.postgres.connect import connect, fetch, lift_limits
from pgtrial.postgres.existing.database import drop, end_left, is_chosen, plan_new
from pgtrial.postgres.existing.database_settings import take_settings
from pgtrial.postgres.existing.server import ExistingServer, ServerControl
from pgtrial.safe_text import shell_word, sql_name
from pgtrial.units import format_bytes

_SIZE = "SELECT pg_catalog.pg_database_size(%s::name)"
# Workers of autovacuum, which have no role, are ended by CREATE DATABASE itself; what a process is is told to few.
_CONNECTED = """
    SELECT coalesce(usename, 'somebody') || coalesce(' (' || nullif(application_name, '') || ')', ''), count(*)
    FROM pg_catalog.pg_stat_activity
    WHERE datname = %s AND usesysid IS NOT NULL
    GROUP BY 1 ORDER BY 2 DESC
"""
_ROOM = 1 << 30  # bytes that stay free beside a copy, for the WAL and the data of others
# Not of one in several tablespaces, whose size is that in all of them, nor of one whose copy shares its blocks (18 on).
_LOCATION = """
    SELECT pg_catalog.pg_tablespace_location(dattablespace), pg_catalog.pg_database_size(pg_database.oid)
    FROM pg_catalog.pg_database
    WHERE datname = %s
        AND pg_catalog.current_setting('file_copy_method', true) IS DISTINCT FROM 'clone'
        AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_tablespace, pg_catalog.pg_tablespace_databases(pg_tablespace.oid) AS held(oid)
            WHERE spcname <> 'pg_global' AND pg_tablespace.oid <> dattablespace AND held.oid = pg_database.oid
        )
"""
_LONGEST_NAME = 63  # bytes (NAMEDATALEN of pg_config_manual.h)
_DUMP = 'Copy it through a dump instead: "pgtrial copy FILE --dump NAME.dump".'
_MADE = 'A copy of database "{database}", made by "pgtrial copy".'  # the comment on one that is whole
_COMMENT = re.compile(r'A copy of database ".*", made by "pgtrial copy"\.', re.DOTALL)
_FIND = """
    SELECT datname, oid::int8, datallowconn, pg_catalog.shobj_description(oid, 'pg_database')
    FROM pg_catalog.pg_database WHERE datname = %s OR oid::int8 = %s
"""

# What CREATE DATABASE takes from no template: who may connect, how many at a time, and settings. That the original is a
# template (IS_TEMPLATE) is not taken over: everybody who may make databases could copy the copy, and nobody drop it.
_OWNER = """
    SELECT pg_catalog.pg_get_userbyid(datdba),
        pg_catalog.pg_has_role(datdba, %s) AND pg_catalog.pg_has_role(datdba, 'USAGE'), datacl IS NOT NULL, datconnlimit
    FROM pg_catalog.pg_database WHERE datname = %s
"""
_GRANTS = """
    SELECT CASE WHEN grantee <> 0 THEN pg_catalog.pg_get_userbyid(grantee) END, privilege_type,
        pg_catalog.bool_or(is_grantable)
    FROM pg_catalog.pg_database, pg_catalog.aclexplode(datacl) WHERE datname = %s GROUP BY 1, 2 ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """``left_out`` are settings of the original that the role may not give the copy."""

    size: int
    left_out: tuple[str, ...]

    @classmethod
    def from_got(cls, got: Mapping[str, str]) -> Self:
        """Of what ``apply_copy`` returned."""
        return cls(size=int(got["size"]), left_out=tuple(json.loads(got["left_out"])))


async def plan_copy(server: ExistingServer, database: str, name: str) -> Change:
    """What makes database ``name`` a copy of another one. Raises PreflightError, TargetError."""
    if (size := len(name.encode())) > _LONGEST_NAME:
        raise PreflightError(
            f'"{name}" is too long for the copy: {size} bytes',
            hint=f"PostgreSQL cuts off names behind {_LONGEST_NAME} bytes. Name another one with --as.",
        )
    place = server.conninfo(_aside(database))
    for _, oid, is_open, comment in await fetch(place, _FIND, [name, None]):
        raise _refuse_there(name, oid, comment or "", is_open=is_open)
    connected = await fetch(place, _CONNECTED, [database])
    if connected:
        raise _refuse_connected(database, [f"{who}: {count}" for who, count in connected])
    await _refuse_without_room(server, database)
    new = {"name": name, "template": database, "application": f"pgtrial copy {secrets.token_hex(8)}"}
    return await plan_new(server, SERVER_COPY, new, place)


async def _refuse_without_room(server: ExistingServer, database: str) -> None:
    """As far as that can be seen: a full disk stops the server for everybody."""
    if not server.facts.local or not server.facts.data_directory:
        return
    for location, size in await fetch(server.conninfo(_aside(database)), _LOCATION, [database]):
        try:
            # One that is "in place" lies in the data directory, as all do that have no location.
            _, free = server.host.ops.space(str(Path(server.facts.data_directory, location)))
        except OSError:  # the way to it is closed to this account
            return
        if free < size + _ROOM:
            raise PreflightError(
                f'not enough space for a copy of database "{database}": {format_bytes(free)} free, '
                f"{format_bytes(size + _ROOM)} needed",
                detail=f"The database has {format_bytes(size)}; {format_bytes(_ROOM)} stay free for the server.",
                hint=_DUMP,
            )


async def apply_copy(server: ExistingServer, change: Change) -> Mapping[str, str]:
    """Make the copy, for those who may connect to the original and as many of them, and with its settings; what
    ``Copied`` is made of.

    Sessions of others are never ended for it. Raises PreflightError, TargetError.
    """
    new = change.new
    database, name, place = new["template"], new["name"], server.conninfo(_aside(new["template"]))
    copy = sql.Identifier(name)
    async with connect(place, application=new["application"]) as connection:
        try:
            await lift_limits(connection)
            may = "SET" if connection.info.server_version >= 160000 else "MEMBER"
            rows = await (await connection.execute(_OWNER, [may, database])).fetchall()
            ((owner, is_able, has_grants, limit),) = rows or [("", False, False, -1)]
            await connection.execute(
                # Nobody gets in before it is known who may. Till then it is the role's own, which can drop it.
                sql.SQL("CREATE DATABASE {} OID {} TEMPLATE {} STRATEGY file_copy ALLOW_CONNECTIONS false").format(
                    copy, sql.SQL(str(int(new["oid"]))), sql.Identifier(database)
                )
            )
            async with connection.transaction():
                left_out = await take_settings(connection, database, name)
                if is_able:
                    owned = sql.SQL("ALTER DATABASE {} OWNER TO {}").format(copy, sql.Identifier(owner))
                    await connection.execute(owned)
                if has_grants:
                    await _grant(connection, database, name, owner if is_able else None)
                comment = sql.Literal(_MADE.format(database=database))
                await connection.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(copy, comment))
                opened = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true CONNECTION LIMIT {}")
                await connection.execute(opened.format(copy, sql.SQL(str(int(limit)))))
        except ObjectInUse as err:
            raise _refuse_connected(database, []) from err
        except DuplicateDatabase as err:
            raise _refuse_there(name, 0, "", is_open=True) from err
        except InsufficientPrivilege as err:
            user = server.control.address.user
            raise PreflightError(
                f'role "{user}" may not copy database "{database}"',
                detail=f"The server says: {err.diag.message_primary or err}.",
                hint=f"It needs CREATEDB (ALTER ROLE {sql_name(user)} CREATEDB) and to be the owner of the database. "
                f"{_DUMP}",
            ) from err
        except Error as err:
            raise TargetError(
                f'cannot copy database "{database}": {err.diag.message_primary or err}',
                detail=err.diag.message_detail or "",
                hint=_DUMP,
            ) from err
    ((size,),) = await fetch(place, _SIZE, [name])
    return {**new, "size": str(size), "left_out": json.dumps(left_out)}


async def undo_copy(control: ServerControl, entry: JournalEntry) -> Undone:
    """Drop the copy of an entry, unless it is whole, or somebody has taken it up."""
    new = entry.change.new
    name, oid = new["name"], int(new["oid"])
    async with connect(control.conninfo(_aside(new["template"]))) as connection:
        await end_left(connection, new["application"])
        rows = await (await connection.execute(_FIND, [name, oid])).fetchall()
        found = {number: (called, is_open, comment) for called, number, is_open, comment in rows}
        if not found:
            return Undone(outcome=Outcome.ALREADY)
        if oid not in found:
            text = f'The database "{name}" is not the one that pgtrial made; it is left as it is.'
            return Undone(outcome=Outcome.CHANGED, text=text)
        called, is_open, comment = found[oid]
        if called == name and is_open and _COMMENT.fullmatch(comment or ""):
            text = f"The copy is whole, and is left as it is. By hand: dropdb {shell_word(name)}"
            return Undone(outcome=Outcome.CHANGED, text=text)
        if called != name or is_open or comment:
            text = f'Somebody has taken up what there was of the copy, the database "{called}"; it is left as it is.'
            return Undone(outcome=Outcome.CHANGED, text=text)
        return await drop(connection, name)


def _aside(database: str) -> str:
    """The database to connect to for one that is copied, to which nobody may be connected."""
    return "postgres" if database != "postgres" else "template1"


def _refuse_there(name: str, oid: int, comment: str, *, is_open: bool) -> PreflightError:
    another, by_hand = "Name another one with --as", f"dropdb {shell_word(name)}"
    detail, hint = "", f"{another}, or drop it: {by_hand}"
    if is_open and _COMMENT.fullmatch(comment):
        detail = 'The comment on it says that it is a copy, which "pgtrial copy" has made.'
    elif not is_open and not comment and is_chosen(oid):
        detail = 'It takes no connections, and has an identifier that "pgtrial copy" gives: it was not finished.'
        hint = f'On the machine and by the account that began it, "pgtrial restore" drops it. {another}, or drop it: '
        hint += by_hand
    return PreflightError(f'database "{name}" already exists', detail=detail, hint=hint)


async def _grant(connection: AsyncConnection[tuple[Any, ...]], database: str, name: str, owner: str | None) -> None:
    """Who else makes the copy than the ``owner`` of the original is its owner, and may do all with it."""
    copy = sql.Identifier(name)
    first = sql.SQL(", ").join([sql.SQL("PUBLIC"), *([] if owner is None else [sql.Identifier(owner)])])
    await connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM {}").format(copy, first))
    for role, privilege, is_grantable in await (await connection.execute(_GRANTS, [database])).fetchall():
        await connection.execute(
            sql.SQL("GRANT {} ON DATABASE {} TO {} {}").format(
                sql.SQL(privilege),
                copy,
                sql.SQL("PUBLIC") if role is None else sql.Identifier(role),
                sql.SQL("WITH GRANT OPTION" if is_grantable else ""),
            )
        )


def _refuse_connected(database: str, who: list[str]) -> PreflightError:
    return PreflightError(
        f'database "{database}" cannot be copied within its server while somebody is connected to it',
        detail=f"Connected: {', '.join(who)}." if who else "",
        hint=f"Wait until nobody is. {_DUMP}",
    )
