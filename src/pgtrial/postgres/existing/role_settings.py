"""Settings of the load's role in its database: for sessions that libpq's options do not reach, as behind a pooler.

ALTER ROLE … IN DATABASE holds for sessions that begin after it. Those that a pooler keeps have been there before, so
idle ones of the role in the database are ended, for the pooler to begin new ones; where one is at work, it is another
application's, and nothing is changed. A role may do all this to itself without any grant.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection, Error, sql

from pgtrial.errors import SettingError, TargetError
from pgtrial.knobs.postgresql import LISTS, split_list
from pgtrial.model.change import SERVER_ROLE, Change, JournalEntry, Outcome, Undone
from pgtrial.postgres.auto_conf import setting_key
from pgtrial.postgres.connect import connect, fetch
from pgtrial.postgres.existing.server import ExistingServer, ServerControl

_PATIENCE = 10.0  # s for ended sessions to be gone
_STEP = 0.05
_NONE = "the default"
_SET = """
    SELECT pg_catalog.unnest(setconfig) FROM pg_catalog.pg_db_role_setting
    WHERE setrole = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = %s)
    AND setdatabase = (SELECT oid FROM pg_catalog.pg_database WHERE datname = %s)
"""
# The one that asks may be a pooler's, too: it ends itself, and another one is asked.
_SESSIONS = """
    SELECT count(*), count(
        CASE WHEN state OPERATOR(pg_catalog.=) 'idle' OR pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
        THEN pg_catalog.pg_terminate_backend(pid) END
    )
    FROM pg_catalog.pg_stat_activity
    WHERE usename = %s AND datname = %s AND backend_start < %s::timestamptz
"""


async def plan_role(server: ExistingServer, database: str, wanted: Mapping[str, str]) -> Change:
    """What the role's new sessions in the database are to have. Raises TargetError when the server cannot be asked."""
    async with connect(server.conninfo()) as connection:
        row = await (await connection.execute("SELECT session_user::text")).fetchone()
        assert row is not None  # a query without a table has one row
        before = await _read(connection, row[0], database)
    old = {name: before.get(setting_key(name)) for name in wanted}
    return Change(
        knob=SERVER_ROLE,
        name=f'{", ".join(wanted)} of role "{row[0]}" in database "{database}" of the server at '
        f"{server.control.address.place}",
        old={"settings": json.dumps(old)},
        new={
            "settings": json.dumps(dict(wanted)),
            "role": row[0],
            "database": database,
            "server": server.control.address.to_text(),
        },
        old_text=", ".join(value or _NONE for value in old.values()),
        new_text=", ".join(wanted.values()),
    )


async def apply_role(server: ExistingServer, change: Change) -> Mapping[str, str]:
    """Make the change, and let no session be left that began before it. Raises SettingError; then undo it."""
    new = change.new
    settings: dict[str, str] = json.loads(new["settings"])
    async with connect(server.conninfo()) as connection:
        try:
            since = await _alter(connection, new["role"], new["database"], settings)
        except Error as err:
            raise SettingError(
                f'role "{new["role"]}" cannot be given {", ".join(settings)} in database "{new["database"]}": '
                f"{err.diag.message_primary or err}",
                detail=err.diag.message_detail or "",
                hint='A role may give itself what it may SET. Write settings = "session" where libpq\'s options reach '
                "the server, or leave the setting out.",
            ) from err
    if busy := await _renew(server.conninfo(), new["role"], new["database"], since):
        raise SettingError(
            f'{busy} sessions of role "{new["role"]}" in database "{new["database"]}" are at work, and keep the '
            "settings that they began with",
            hint="Give the load a role of its own, which no other application uses.",
        )
    return new


async def undo_role(control: ServerControl, entry: JournalEntry) -> Undone:
    """Give the role what it had, unless somebody else has changed it meanwhile."""
    old: dict[str, str | None] = json.loads(entry.change.old["settings"])
    new = entry.change.new
    made: dict[str, str] = json.loads(new["settings"])
    async with connect(control.conninfo()) as connection:
        now = await _read(connection, new["role"], new["database"])
        ours = {name: old[name] for name, value in made.items() if _is_same(now.get(setting_key(name)), value)}
        changed = [name for name in made if name not in ours and now.get(setting_key(name)) != old[name]]
        since = await _alter(connection, new["role"], new["database"], ours)
    await _renew(control.conninfo(), new["role"], new["database"], since)
    if changed:
        text = f"{', '.join(changed)}: somebody else has changed it meanwhile, and it was left as it is"
        return Undone(outcome=Outcome.CHANGED, text=text)
    return Undone(outcome=Outcome.RESTORED)


async def find_lost_role(server: ExistingServer, change: Change) -> str:
    """Which of the settings the role no longer has, as a full sentence; "" when all hold."""
    async with connect(server.conninfo()) as connection:
        now = await _read(connection, change.new["role"], change.new["database"])
    made: dict[str, str] = json.loads(change.new["settings"])
    lost = [name for name, value in made.items() if not _is_same(now.get(setting_key(name)), value)]
    return f"{', '.join(lost)} of the load's role: somebody else has changed it meanwhile." if lost else ""


async def _read(connection: "AsyncConnection[tuple[Any, ...]]", role: str, database: str) -> dict[str, str]:
    """What the role has in the database, by lower-case name."""
    rows = await (await connection.execute(_SET, [role, database])).fetchall()
    pairs = (str(row[0]).partition("=") for row in rows)
    return {setting_key(name): value for name, _, value in pairs}


async def _alter(
    connection: "AsyncConnection[tuple[Any, ...]]", role: str, database: str, settings: Mapping[str, str | None]
) -> str:
    """All or none; when that was, by the server.

    The connection may be one of the role in the database, whose sessions are read-only by now.
    """
    where = sql.SQL("ALTER ROLE {} IN DATABASE {}").format(sql.Identifier(role), sql.Identifier(database))
    await connection.execute("BEGIN READ WRITE")
    try:
        for name, value in settings.items():
            target = sql.Identifier(*name.split("."))
            if value is None:
                await connection.execute(sql.SQL("{} RESET {}").format(where, target))
                continue
            texts = split_list(name, value) if setting_key(name) in LISTS else [value]
            values = sql.SQL(", ").join(map(sql.Literal, texts))
            await connection.execute(sql.SQL("{} SET {} TO {}").format(where, target, values))
        await connection.execute("COMMIT")
        row = await (await connection.execute("SELECT pg_catalog.clock_timestamp()::text")).fetchone()
    except BaseException:
        await connection.execute("ROLLBACK")
        raise
    assert row is not None  # a query without a table has one row
    return str(row[0])


async def _renew(conninfo: str, role: str, database: str, since: str) -> int:
    """End idle sessions that began before a moment of the server's; how many others do not end by themselves."""
    deadline, left = time.monotonic() + _PATIENCE, 0
    while time.monotonic() < deadline:
        with suppress(Error, TargetError):
            left = (await fetch(conninfo, _SESSIONS, [role, database, since]))[0][0]
            if left == 0:
                break
        await asyncio.sleep(_STEP)
    return left


def _is_same(now: str | None, value: str) -> bool:
    """Lists are stored with quotes of the server's own."""
    return now is not None and now.replace('"', "") == value.replace('"', "")
