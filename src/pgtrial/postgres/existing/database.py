"""Databases on an existing server: create and drop pgtrial's own.

pgtrial chooses the object identifier of a database and journals it before creating the database. The identifier, not
just the name, identifies the database again, even if pgtrial was killed before it could add a comment.
"""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection, Error, sql
from psycopg.errors import InsufficientPrivilege

from pgtrial.errors import PreflightError, TargetError
from pgtrial.knobs.postgresql import LISTS, split_list
from pgtrial.model.change import OWN_DATABASE, Change, JournalEntry, Outcome, Undone
from pgtrial.postgres.auto_conf import setting_key
from pgtrial.postgres.connect import connect, fetch, lift_limits, locale_options
from pgtrial.postgres.existing.address import ServerAddress
from pgtrial.postgres.existing.database_settings import take_settings
from pgtrial.postgres.existing.rights import Rights
from pgtrial.postgres.existing.server import ExistingServer, ServerControl

_NAME = re.compile(r"pgtrial_[0-9a-f]+(?:_data)?")
_MARK = "Made by pgtrial for an experiment, and dropped after it"
_FIRST_OID, _LAST_OID = 2**31, 2**32 - 1  # far from where the server counts, which begins at 16384

_FIND = """
    SELECT d.oid::int8, pg_catalog.shobj_description(d.oid, 'pg_database')
    FROM pg_catalog.pg_database AS d WHERE d.datname = %s
"""
# A DROP DATABASE that was broken off leaves -2: such a database can only be dropped, and ends who alters it.
_OPEN = "SELECT FROM pg_catalog.pg_database WHERE datname = %s AND datallowconn AND datconnlimit <> -2"
# Others may leave by themselves, for which DROP DATABASE waits some seconds. Who is a member of a superuser has his
# rights, and may end none of his sessions nevertheless.
_DISCONNECT = """
    SELECT count(pg_catalog.pg_terminate_backend(pid))
    FROM pg_catalog.pg_stat_activity JOIN pg_catalog.pg_roles ON pg_roles.oid = usesysid
    WHERE datname = %s
        AND (pg_catalog.pg_has_role(usesysid, 'USAGE') OR pg_catalog.pg_has_role('pg_signal_backend', 'USAGE'))
        AND (NOT rolsuper OR pg_catalog.current_setting('is_superuser') = 'on')
"""
_TAKEN = "SELECT FROM pg_catalog.pg_database WHERE oid::int8 = %s"


def run_database(token: str) -> str:
    """Name of the database of the load; ``token`` is hexadecimal and unique to the experiment."""
    return f"pgtrial_{token}"


def data_database(token: str) -> str:
    """Name of the database with the prepared data, of which the load's are copies."""
    return f"pgtrial_{token}_data"


def check_may_create(rights: Rights) -> None:
    """Raise PreflightError where nobody can create a database."""
    if rights.in_recovery:
        raise PreflightError(
            "the server is a standby, where no database can be created",
            hint="Name an existing one with database in [target], and read only.",
        )


async def plan_database(
    server: ExistingServer, name: str, *, template: str | None, locale: Mapping[str, str] | None = None
) -> Change:
    """What makes a database of ours: empty, with encoding and collation of ``locale``, or a copy of ``template``, to
    which nothing may be connected then.
    """
    assert _NAME.fullmatch(name), name
    if await fetch(server.conninfo(), _FIND, [name]):
        raise TargetError(f'database "{name}" already exists', hint='Try "pgtrial restore".')
    new = {"name": name, "template": template or "", "locale": json.dumps(dict(locale or {}))}
    return await plan_new(server, OWN_DATABASE, new, server.conninfo())


async def plan_new(server: ExistingServer, knob: str, new: Mapping[str, str], place: str) -> Change:
    """What makes a database of the ``name`` in ``new``, a copy of the ``template`` there or an empty one, by way of the
    database at ``place``. It gets an identifier by which it is known again, and no other one is.
    """
    oid = _choose_oid()
    while await fetch(place, _TAKEN, [oid]):
        oid = _choose_oid()
    return Change(
        knob=knob,
        name=name_of_database(server.control.address, new["name"]),
        old={},
        new={**new, "oid": str(oid), "server": server.control.address.to_text()},
        old_text="none",
        new_text=f'a copy of "{new["template"]}"' if new["template"] else "an empty one",
    )


def name_of_database(address: ServerAddress, name: str) -> str:
    """By which the databases of several servers are told apart in the journal."""
    return f'database "{name}" of the server at {address.place}'


def _choose_oid() -> int:
    return secrets.randbelow(_LAST_OID - _FIRST_OID) + _FIRST_OID


def is_chosen(oid: int) -> bool:
    """Whether it may be one that ``plan_new`` has chosen."""
    return _FIRST_OID <= oid <= _LAST_OID


async def apply_database(server: ExistingServer, change: Change) -> Mapping[str, str]:
    """Make it, a copy with the settings of its template; ``left_out`` are those that the role may not give it, as JSON.

    Raises TargetError.
    """
    name, template = sql.Identifier(change.new["name"]), change.new["template"]
    # The files are copied as they are, between two checkpoints. Through the WAL (wal_log) a large template would come
    # to fill the server's WAL and shared buffers, and the archive, just before it is measured.
    source = sql.SQL("template0{}").format(locale_options(json.loads(change.new["locale"])))
    if template:
        source = sql.SQL("{} STRATEGY file_copy").format(sql.Identifier(template))
    async with connect(server.conninfo()) as connection:
        await lift_limits(connection)
        await connection.execute(
            sql.SQL("CREATE DATABASE {} OID {} TEMPLATE {}").format(name, sql.SQL(str(int(change.new["oid"]))), source)
        )
        await connection.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(name, sql.Literal(f"{_MARK}.")))
        left_out = await take_settings(connection, template, change.new["name"]) if template else ()
    return {**change.new, "left_out": json.dumps(left_out)}


async def undo_database(control: ServerControl, entry: JournalEntry) -> Undone:
    """Drop the database of an entry, and end its connections; never drop one that somebody else has created."""
    new = entry.change.new
    name, oid = new["name"], int(new["oid"])
    if not _NAME.fullmatch(name):
        return Undone(outcome=Outcome.FAILED, text=f'"{name}" is not a name that pgtrial gives to a database.')
    async with connect(control.conninfo()) as connection:
        await await_left(connection, f'CREATE DATABASE "{name}"', end=True)
        found = await (await connection.execute(_FIND, [name])).fetchone()
        if found is None:
            return Undone(outcome=Outcome.ALREADY)
        if found[0] != oid or not (found[1] or _MARK).startswith(_MARK):
            return Undone(
                outcome=Outcome.CHANGED,
                text=f'The database "{name}" is not the one that pgtrial made; it is left as it is.',
            )
        return await drop(connection, name)


async def drop(connection: "AsyncConnection[tuple[Any, ...]]", name: str) -> Undone:
    """Drop the database of that name, which the caller has found to be pgtrial's, and end sessions in it as it may.

    Not WITH (FORCE): that wants a superuser where a worker of autovacuum is in it, which DROP DATABASE itself ends.
    """
    database = sql.Identifier(name)
    statement = sql.SQL("DROP DATABASE {}").format(database)
    await lift_limits(connection)
    try:
        with suppress(InsufficientPrivilege):  # to drop it may be possible all the same
            if await (await connection.execute(_OPEN, [name])).fetchone() is not None:
                await connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(database))
            await connection.execute(_DISCONNECT, [name])
        await connection.execute(statement)
    except Error as err:
        return Undone(
            outcome=Outcome.FAILED,
            text=f"The server refuses: {err.diag.message_primary or err}. By hand: {statement.as_string()};",
        )
    return Undone(outcome=Outcome.RESTORED)


# ALTER SYSTEM as a statement: values written so that the configuration file holds them as they are meant.


_PATIENCE = 30.0  # s for a statement that a killed pgtrial left behind
_STEP = 0.05

_LEFT = """
    SELECT count(CASE WHEN %s THEN pg_catalog.pg_terminate_backend(pid) ELSE true END)
    FROM pg_catalog.pg_stat_activity
    WHERE usename = current_user AND state = 'active' AND pid <> pg_catalog.pg_backend_pid()
        AND application_name = 'pgtrial' AND pg_catalog.starts_with(query, %s)
"""

_END = """
    SELECT count(pg_catalog.pg_terminate_backend(pid)) FROM pg_catalog.pg_stat_activity WHERE application_name = %s
"""


def alter_system(name: str, value: str | None) -> sql.Composed:
    """ALTER SYSTEM SET, or, with None, ALTER SYSTEM RESET. ``value`` is as the configuration file has it."""
    # The file gets the name as it is written here, also its letters' case.
    target = sql.Identifier(*name.split("."))
    if value is None:
        return sql.SQL("ALTER SYSTEM RESET {}").format(target)
    texts = split_list(name, value) if setting_key(name) in LISTS else [value]
    return sql.SQL("ALTER SYSTEM SET {} = {}").format(target, sql.SQL(", ").join(map(sql.Literal, texts)))


async def as_written(connection: "AsyncConnection[tuple[Any, ...]]", name: str, value: str) -> str:
    """The text that the configuration file holds after ``alter_system(name, value)``."""
    if setting_key(name) not in LISTS:
        return value
    query = "SELECT pg_catalog.string_agg(pg_catalog.quote_ident(e), ', ') FROM pg_catalog.unnest(%s::text[]) AS e"
    row = await (await connection.execute(query, [split_list(name, value)])).fetchone()
    return str(row[0]) if row and row[0] is not None else ""


async def end_left(connection: "AsyncConnection[tuple[Any, ...]]", application: str) -> None:
    """End the sessions of this name that a killed pgtrial left at work, which would go on beside what undoes it.

    Raises TargetError after 30 s.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        row = await (await connection.execute(_END, [application])).fetchone()
        if row is None or row[0] == 0:
            return
        if time.monotonic() > deadline:
            raise TargetError("a statement of an earlier pgtrial is still running, and does not end")
        await asyncio.sleep(_STEP)


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
            raise TargetError(f'a statement of an earlier pgtrial is still running: "{beginning} …"')
        await asyncio.sleep(_STEP)
