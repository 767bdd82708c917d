"""The SQL of an arm in an existing database: journaled with what undoes it, and undone from the journal alone."""

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.errors import LockNotAvailable

from pgtrial.errors import TargetError
from pgtrial.knobs.base import Note, forget
from pgtrial.model.change import SERVER_SQL, Change, JournalEntry, Outcome, Undone
from pgtrial.postgres.connect import connect, fetch, lift_limits, refuse_shared, script_error, without_comments_before
from pgtrial.postgres.existing.database import end_left
from pgtrial.postgres.existing.inventory import (
    Catalogue,
    compare_catalogues,
    find_added,
    from_text,
    read_catalogue,
    to_text,
)
from pgtrial.postgres.existing.lock_wait import (
    APPLYING,
    UNDOING,
    Patience,
    Say,
    no_lock_text,
    say_nothing,
    take_in_turn,
)
from pgtrial.postgres.existing.server import ExistingServer, ServerControl
from pgtrial.postgres.existing.steps import (
    LOCK_TIMEOUT,
    Progress,
    Step,
    StepError,
    UnsettledError,
    set_up_again,
    settle,
    split_steps,
)
from pgtrial.postgres.existing.table_rows import find_lost_rows, note_rows

_EXTENSIONS = "SELECT extname FROM pg_catalog.pg_extension"
# Keys of an entry: that steps are noted at all, how far the script and its undo have come, and how much of the former
# was committed.
_NOTED, _APPLYING, _UNDOING, _APPLIED = "steps", "applying", "undoing", "applied"
_ROWS = "rows"  # of an entry: those of tables that its script may drop or empty
_NOT, _PARTLY, _WHOLLY = "not", "partly", "wholly"
# Of a function nobody knows what it does.
_CHANGES_DATA = re.compile(
    r"(?:INSERT|UPDATE|DELETE|MERGE|WITH|COPY|TRUNCATE|SELECT|VALUES|CALL|DO|EXECUTE|EXPLAIN|REFRESH"
    r"|CREATE\s+(?:UNLOGGED\s+)?TABLE\b.*\bAS)\b|\(",
    re.IGNORECASE | re.DOTALL,
)
# Rows go with it. Where only a part of apply was committed, what it names may be what was there before.
_DROPS = re.compile(
    r"DROP\s+(?:OWNED|DATABASE)\b|ALTER\b.*\b(?:DROP\s+(?!CONSTRAINT|NOT|DEFAULT|EXPRESSION|IDENTITY)|TYPE\b)"
    r"|DROP\s+(?:(?:FOREIGN\s+)?TABLE|MATERIALIZED\s+VIEW|SCHEMA|SEQUENCE)\s+(?:IF\s+EXISTS\s+)?(?P<names>.*)",
    re.IGNORECASE | re.DOTALL,
)
_HOW_FAR = re.compile(r"\s+(?:CASCADE|RESTRICT)\s*$", re.IGNORECASE)
MAYBE_OF_OTHERS = "What is left over may be somebody else's: who was connected meanwhile is not known."
_LEFT_TO_YOU = (
    "Only some of the statements of {name} were committed, and their undo changes data, or drops what was there: which "
    "of it fits, only you can tell. By hand: {by_hand} With BEGIN and COMMIT around them, statements are committed "
    "together or not at all."
)
# Objects with a name that a statement has, or that the server puts together of one (orders_id_seq, orders_t_idx). It
# shortens those that become too long.
_NAMED = re.compile(
    r"(?:schema|table|index|sequence|(?:materialized )?view|type|function|statistics) "
    r'(?:.*\.)?(?P<name>"(?:[^"]|"")+"|[^".()]+)(?:\(.*\))?'
)
_LONG = 60  # bytes; the longest has 63
# What REINDEX CONCURRENTLY adds to the name of an index that it builds anew, and leaves where it is cut off.
_REBUILT = re.compile(r"_cc(?:new|old)\d*\Z")
# Names in a list of them, each with its schema or without.
_PART = r'(?:"(?:[^"]|"")+"|[^\s".,()]+)'
_LAST_PARTS = re.compile(rf"(?:{_PART}\s*\.\s*)*({_PART})")
# What is to be undone is not there: apply did not come so far, or an earlier undoing did.
_UNDEFINED = ("42P01", "42703", "42704", "42883", "3F000", "3D000")
# What is to be put back is there, for the same reasons; the catalogue says whether it is as it was. 42P16: a primary
# key.
_DEFINED = ("42P07", "42701", "42710", "42723", "42P06", "42P16", "42P04")


async def plan_sql(server: ExistingServer, database: str, wanted: Mapping[str, str]) -> Change:
    """What an arm does to the database. ``wanted`` has the ``arm``, its scripts ``apply`` and ``undo`` with their
    places in the file, and the ``extensions`` that it creates.

    Raises TargetError when the server cannot be asked, or a pooler stands before it.
    """
    await refuse_shared(server.conninfo(database), "an arm's SQL sets how long it waits for locks")
    there = {row[0] for row in await fetch(server.conninfo(database), _EXTENSIONS)}
    extensions = [name for name in wanted["extensions"].split(", ") if name and name not in there]
    catalogue = await read_catalogue(server.control, database)
    return Change(
        knob=SERVER_SQL,
        name=f'SQL of arm "{wanted["arm"]}" in database "{database}" of the server at {server.control.address.place}',
        old={
            "undo": wanted["undo"],
            "undo_name": wanted["undo_name"],
            "extensions": json.dumps(extensions),
            "catalogue": to_text(catalogue),
            _ROWS: await note_rows(server.control, database, f"{wanted['apply']};{wanted['undo']}"),
        },
        new={
            "apply": wanted["apply"],
            "apply_name": wanted["apply_name"],
            "extensions_name": wanted["extensions_name"],
            "database": database,
            _NOTED: "noted",
            "application": f"pgtrial sql {secrets.token_hex(8)}",
            "server": server.control.address.to_text(),
        },
        old_text="not applied",
        new_text="applied",
    )


async def apply_sql(
    server: ExistingServer, change: Change, note: Note = forget, say: Say = say_nothing
) -> Mapping[str, str]:
    """Create the extensions and run the script. Raises TargetError that names where it stands; then undo it."""
    new, conninfo = change.new, server.conninfo(change.new["database"])
    steps, progress = split_steps(new["apply"]), Progress()
    async with connect(conninfo, application=new["application"], as_user=True) as connection:
        await lift_limits(connection, lock_timeout=LOCK_TIMEOUT)
        creating = tuple(map(_creating, json.loads(change.old["extensions"])))
        for number, step in enumerate(creating):
            try:
                # How far it has come is not noted: each is dropped if it is there.
                await take_in_turn(
                    connection,
                    creating,
                    number,
                    Progress(),
                    lambda _: None,
                    conninfo=conninfo,
                    patience=Patience(APPLYING),
                    say=say,
                )
            except StepError as err:
                hint = "Run it when nobody else is at work on extensions."
                raise _error_of(new["extensions_name"], step.text, err, hint=hint) from err
        for number in range(len(steps)):
            try:
                progress = await take_in_turn(
                    connection,
                    steps,
                    number,
                    progress,
                    lambda found: note({_APPLYING: found.to_text()}),
                    conninfo=conninfo,
                    patience=Patience(APPLYING),
                    say=say,
                )
            except StepError as err:
                hint = (
                    "Run it when nobody keeps the table for long. SET lock_timeout at the beginning of apply has it "
                    "wait longer at once, and everybody else behind it."
                )
                raise _error_of(new["apply_name"], new["apply"], err, hint=hint) from err
    return {_APPLYING: progress.to_text(), _APPLIED: _WHOLLY}


def _error_of(name: str, script: str, err: StepError, *, hint: str) -> TargetError:
    """``hint`` is for who has waited for a lock."""
    told = script_error(name, script, err.offset, err.cause)
    if not err.more:
        return told
    return TargetError(told.message, detail=" ".join(filter(None, (told.detail, err.more))), hint=hint)


async def undo_sql(control: ServerControl, entry: JournalEntry, note: Note = forget, say: Say = say_nothing) -> Undone:
    """Run what undoes the SQL of an entry, as far as that was applied and is not undone, and compare the catalogue with
    the one before.
    """
    old, new, got = entry.change.old, entry.change.new, entry.got or {}
    async with connect(control.conninfo(new["database"])) as connection:
        await end_left(connection, new["application"])
    script = split_steps(old["undo"])
    steps = (*script, *map(_dropping, json.loads(old["extensions"])))
    progress = Progress.from_text(got[_UNDOING]) if _UNDOING in got else Progress()
    already, patience = "", Patience(UNDOING)
    # By the same name, so that one that is left at work is ended before it is undone once more.
    undoing = connect(control.conninfo(new["database"]), application=new["application"], as_user=True)
    async with undoing as connection:
        await lift_limits(connection, lock_timeout=LOCK_TIMEOUT)
        try:
            applied = await _find_applied(connection, entry)
            got = {**got, _APPLIED: applied}
            was_at = None if progress.transaction else progress.at
            progress = await settle(connection, steps, progress)
            await set_up_again(connection, steps, progress)
        except UnsettledError as err:
            text = f"It is not known {err}. Look, and do by hand what is left of: {_by_hand(steps, progress)}"
            return Undone(outcome=Outcome.FAILED, text=text)
        except StepError as err:
            text = f"{old['undo_name']}: {err.message}. By hand: {_by_hand(steps, progress)}"
            return Undone(outcome=Outcome.FAILED, text=text)
        before = from_text(old["catalogue"])
        if applied == _PARTLY and any(_changes_data(step) or _drops(step, before) for step in script):
            text = _LEFT_TO_YOU.format(name=new["apply_name"], by_hand=_by_hand(steps, progress))
            return Undone(outcome=Outcome.FAILED, text=text)
        for number in range(len(script) if applied == _NOT else 0, len(steps)):
            if number in progress.done:
                continue
            try:
                progress = await take_in_turn(
                    connection,
                    steps,
                    number,
                    progress,
                    lambda found: note({**got, _UNDOING: found.to_text()}),
                    conninfo=control.conninfo(new["database"]),
                    patience=patience,
                    say=say,
                    is_undo=True,
                )
            except StepError as err:
                state = "" if err.cause is None or steps[number].is_transaction else err.cause.sqlstate
                is_gone = state in _UNDEFINED and not (_NOTED in new and _changes_data(steps[number]))
                if err.is_settled and is_gone and (applied == _PARTLY or _NOTED not in new or number == was_at):
                    progress = replace(progress, done=progress.done | {number})
                    continue
                by_hand = f"By hand: {_by_hand(steps, progress, since=number)}"
                if err.is_settled and isinstance(err.cause, LockNotAvailable):
                    text = f"{old['undo_name']}: {no_lock_text(steps[number], patience, err.more)} {by_hand}"
                    return Undone(outcome=Outcome.FAILED, text=text, is_given_up=True)
                later = "What of it was committed is asked when it is tried again."
                told = f"{err.message}. {err.more}".rstrip()
                text = f"{old['undo_name']}: {told} {by_hand if err.is_settled else later}"
                if not err.is_settled or not (is_gone or state in _DEFINED):
                    return Undone(outcome=Outcome.FAILED, text=text)
                progress = replace(progress, done=progress.done | {number})
                already = already or text
    return await _compare(control, entry, before, already)


async def _compare(control: ServerControl, entry: JournalEntry, before: Catalogue, already: str) -> Undone:
    """What has come of undoing an entry; ``already`` says what of it was there, and may be something else."""
    old, new = entry.change.old, entry.change.new
    after = await read_catalogue(control, new["database"])
    differs = compare_catalogues(before, after)
    lost = await find_lost_rows(control, new["database"], old.get(_ROWS, ""), before, after)
    if differs and not lost and are_of_others(before, after, [{**old, **new}]):
        made = ", ".join(find_added(before, after))
        return Undone(outcome=Outcome.RESTORED, text=f"Made meanwhile by others, or by the load: {made}.")
    differs = f"{lost} {differs}".strip()
    if differs and already:
        return Undone(outcome=Outcome.FAILED, text=f"{already} {differs}")
    if differs:
        text = f'Undone, but the database "{new["database"]}" is not as before. {differs}'
        text += f" {MAYBE_OF_OTHERS}" if find_added(before, after) else ""
        return Undone(outcome=Outcome.CHANGED, text=text)
    return Undone(outcome=Outcome.RESTORED)


def are_of_others(before: Catalogue, after: Catalogue, scripts: Iterable[Mapping[str, str]]) -> bool:
    """Whether nothing of a database is gone or altered, and what is there in addition was not made by the ``scripts``
    of arms, ``apply`` and ``undo``.
    """
    if compare_catalogues(before, {name: found for name, found in after.items() if name in before}):
        return False
    text = ""
    for script in scripts:
        if any(map(_changes_data, (*split_steps(script["apply"]), *split_steps(script["undo"])))):
            return False  # what it calls makes what it likes
        text += f"{script['apply']} {script['undo']} ".lower()
    words = set(re.findall(r"[\w$]+", text))
    return not any(_may_have_made(text, words, name) for name in find_added(before, after))


def _may_have_made(text: str, words: Set[str], name: str) -> bool:
    found = _NAMED.fullmatch(name)
    if found is None or 'u&"' in text:  # there a letter may be written as its number
        return True
    bare = _unquote(found["name"])
    quoted = bare.replace('"', '""')  # as a statement has it
    if quoted in text or len(bare.encode()) >= _LONG or ("reindex" in words and _REBUILT.search(bare)):
        return True
    # The name of a table, perhaps with quotation marks, and what the server adds to it (orders_id_idx).
    beginnings = [quoted[:place] for place, letter in enumerate(quoted) if letter == "_"]
    return any(beginning in words or f'"{beginning}"' in text for beginning in beginnings)


def _unquote(name: str) -> str:
    """In small letters, as names are compared: what stands in texts for PL/pgSQL may be written in others."""
    return (name[1:-1].replace('""', '"') if name.startswith('"') else name).lower()


def _creating(extension: str) -> Step:
    return _of_extension(sql.SQL("CREATE EXTENSION {}"), extension)


def _dropping(extension: str) -> Step:
    return _of_extension(sql.SQL("DROP EXTENSION IF EXISTS {}"), extension)


def _of_extension(statement: sql.SQL, extension: str) -> Step:
    return Step(statements=((0, statement.format(sql.Identifier(extension)).as_string()),))


def _by_hand(steps: Sequence[Step], progress: Progress, *, since: int = 0) -> str:
    """Also what sets up the session for it."""
    left = {number for number in range(since, len(steps)) if number not in progress.done}
    texts: list[str] = []
    for number, step in enumerate(steps):
        if number in left:
            texts.append(step.text)
        elif number < max(left, default=0):
            texts += [f"{text.strip()};" for _, text in step.of_session]
    return " ".join(texts)


def _changes_data(step: Step) -> bool:
    return any(_CHANGES_DATA.match(without_comments_before(text)) for _, text in step.statements)


def _drops(step: Step, before: Mapping[str, str]) -> bool:
    """Whether rows may go that were there ``before``, the catalogue."""
    known = {_unquote(found["name"]) for found in map(_NAMED.fullmatch, before) if found}
    for _, text in step.statements:
        found = _DROPS.match(without_comments_before(text))
        if found is None:
            continue
        if found["names"] is None or 'u&"' in found["names"].lower():
            return True
        if known & set(map(_unquote, _LAST_PARTS.findall(_HOW_FAR.sub("", found["names"])))):
            return True
    return False


async def _find_applied(connection: "AsyncConnection[tuple[Any, ...]]", entry: JournalEntry) -> str:
    """How much of an arm's script was committed. Raises UnsettledError where nobody knows."""
    new, got = entry.change.new, entry.got or {}
    if _APPLIED in got:
        return got[_APPLIED]
    if _NOTED not in new:
        return _WHOLLY  # as far as an older pgtrial has told
    if _APPLYING not in got:
        return _NOT
    steps, noted = split_steps(new["apply"]), Progress.from_text(got[_APPLYING])
    progress = await settle(connection, steps, noted)
    if len(progress.done) == len(steps):
        return _WHOLLY
    # What is in no transaction (CREATE INDEX CONCURRENTLY) may leave a part of itself.
    is_outside = noted.at is not None and not noted.transaction
    return _PARTLY if progress.done or is_outside else _NOT
