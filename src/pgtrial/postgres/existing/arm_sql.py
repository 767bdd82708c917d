"""The SQL of an arm in an existing database: journaled with what undoes it, and undone from the journal alone."""

import asyncio
import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

from psycopg import AsyncConnection, Error, sql

from pgtrial.errors import TargetError
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.postgres.connect import connect, execute_script, fetch, split_statements
from pgtrial.postgres.existing.inventory import compare_catalogues, from_text, read_catalogue, to_text
from pgtrial.postgres.existing.server import ExistingServer, ServerControl

KNOB = "server_sql"
_PATIENCE = 30.0  # s for a statement that a killed pgtrial left at work to end
_STEP = 0.05
_EXTENSIONS = "SELECT extname FROM pg_catalog.pg_extension"
_END = """
    SELECT count(pg_catalog.pg_terminate_backend(pid)) FROM pg_catalog.pg_stat_activity WHERE application_name = %s
"""
# What is to be undone is not there: apply did not come so far, or an earlier undoing did.
_UNDEFINED = ("42P01", "42703", "42704", "42883", "3F000")


async def plan_sql(server: ExistingServer, database: str, wanted: Mapping[str, str]) -> Change:
    """What an arm does to the database. ``wanted`` has the ``arm``, its scripts ``apply`` and ``undo`` with their
    places in the file, and the ``extensions`` that it creates.

    Raises TargetError when the server cannot be asked.
    """
    there = {row[0] for row in await fetch(server.conninfo(database), _EXTENSIONS)}
    extensions = [name for name in wanted["extensions"].split(", ") if name and name not in there]
    catalogue = await read_catalogue(server.control, database)
    return Change(
        knob=KNOB,
        name=f'SQL of arm "{wanted["arm"]}" in database "{database}" of the server at {server.control.address.place}',
        old={
            "undo": wanted["undo"],
            "undo_name": wanted["undo_name"],
            "extensions": json.dumps(extensions),
            "catalogue": to_text(catalogue),
        },
        new={
            "apply": wanted["apply"],
            "apply_name": wanted["apply_name"],
            "extensions_name": wanted["extensions_name"],
            "database": database,
            "application": f"pgtrial sql {secrets.token_hex(8)}",
            "server": server.control.address.to_text(),
        },
        old_text="not applied",
        new_text="applied",
    )


async def apply_sql(server: ExistingServer, change: Change) -> Mapping[str, str]:
    """Create the extensions and run the script. Raises TargetError that names where it stands; then undo it."""
    new, conninfo = change.new, server.conninfo(change.new["database"])
    for name in json.loads(change.old["extensions"]):
        statement = sql.SQL("CREATE EXTENSION {}").format(sql.Identifier(name)).as_string()
        await execute_script(conninfo, statement, name=new["extensions_name"], application=new["application"])
    await execute_script(conninfo, new["apply"], name=new["apply_name"], application=new["application"])
    return new


async def undo_sql(control: ServerControl, entry: JournalEntry) -> Undone:
    """Run what undoes the SQL of an entry, and compare the catalogue with the one before."""
    old, new = entry.change.old, entry.change.new
    async with connect(control.conninfo(new["database"])) as connection:
        await _end_left(connection, new["application"])
    async with connect(control.conninfo(new["database"]), as_user=True) as connection:
        statements = [statement.strip() for _, statement in split_statements(old["undo"])]
        statements += [
            sql.SQL("DROP EXTENSION IF EXISTS {}").format(sql.Identifier(name)).as_string(connection)
            for name in json.loads(old["extensions"])
        ]
        for place, statement in enumerate(statements):
            try:
                await connection.execute(statement.encode(), prepare=False)
            except Error as err:
                if err.sqlstate in _UNDEFINED:
                    continue
                by_hand = " ".join(f"{one};" for one in statements[place:])
                text = f"{old['undo_name']}: {err.diag.message_primary or err}. By hand: {by_hand}"
                return Undone(outcome=Outcome.FAILED, text=text)
    differs = compare_catalogues(from_text(old["catalogue"]), await read_catalogue(control, new["database"]))
    if differs:
        text = f'Undone, but the database "{new["database"]}" is not as before. {differs}'
        return Undone(outcome=Outcome.CHANGED, text=text)
    return Undone(outcome=Outcome.RESTORED)


async def _end_left(connection: "AsyncConnection[tuple[Any, ...]]", application: str) -> None:
    """End the statement that a killed pgtrial left at work, which would go on beside its undoing."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        row = await (await connection.execute(_END, [application])).fetchone()
        if row is None or row[0] == 0:
            return
        if time.monotonic() > deadline:
            raise TargetError("a statement of an earlier pgtrial is still running, and does not end")
        await asyncio.sleep(_STEP)
