"""A user's statements, each executed once, whatever is killed meanwhile; but for what cannot be in a transaction.

Before a step is committed, the number of its transaction is on disk; whoever comes after a kill asks the server whether
that was committed (pg_xact_status). Source: PostgreSQL's documentation, 9.27 "System Information Functions",
"Transaction ID and Snapshot Information Functions".

A number that was given out and never reached the disk is given out again after a crash of the server, and another
server behind the same address has numbers of its own. So it is asked only of a server that has run ever since.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, LiteralString, Self

from psycopg import AsyncConnection, Error
from psycopg.errors import InvalidParameterValue
from psycopg.pq import TransactionStatus

from pgtrial.errors import TargetError
from pgtrial.postgres.connect import split_statements, without_comments_before
from pgtrial.safe_text import without_literals

_BEGINS = re.compile(r"(?:BEGIN|START\s+TRANSACTION)\b", re.IGNORECASE)
_ENDS = re.compile(r"(?:COMMIT|END|ROLLBACK|ABORT)\b(?!(?:\s+(?:WORK|TRANSACTION))?\s+TO\b)", re.IGNORECASE)
_GOES_ON = re.compile(r"\bAND\s+CHAIN\b", re.IGNORECASE)
# What a transaction is like cannot be set after its first query, and a lock is taken before a snapshot is.
_SETS = re.compile(r"(?:SET|LOCK)\b", re.IGNORECASE)
# What would do nothing in a transaction of ours, or end it.
_ALONE = re.compile(
    r"(?:LOCK|DECLARE|SAVEPOINT|PREPARE\s+TRANSACTION|SET\s+(?:LOCAL|CONSTRAINTS|TRANSACTION))\b", re.IGNORECASE
)
_PREPARES = re.compile(r"PREPARE\s+TRANSACTION\b", re.IGNORECASE)
# What later steps of the script may need, and what is gone with a session without another statement to tell it by.
_OF_SESSION = re.compile(r"(?:SET\s+(?!LOCAL\b|CONSTRAINTS\b|TRANSACTION\b)|RESET\b|DISCARD\b)", re.IGNORECASE)
_LOST = re.compile(
    r"CREATE\s+(?:(?:LOCAL|GLOBAL)\s+)?TEMP|PREPARE\s+(?!TRANSACTION\b)|DECLARE\b|LOAD\b|SELECT\b.*\b(?:set_config|pg_advisory_\w+)\s*\(",
    re.IGNORECASE | re.DOTALL,
)
_CONCURRENT = re.compile(r"\bCONCURRENTLY\b", re.IGNORECASE)
_COMMITS = re.compile(r"(?:CALL|DO)\b", re.IGNORECASE)
# What cannot be in a transaction (VACUUM, CREATE INDEX CONCURRENTLY), and a procedure that commits by itself.
_OUTSIDE = ("25001", "2D000")
_OF_PROCEDURE = "38000"  # how languages other than PL/pgSQL say the latter
_NUMBER = "SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text"
# What is built beside its readers and writers waits for transactions that are open, and keeps nobody waiting.
LOCK_TIMEOUT, LONG_TIMEOUT = 5000, 300_000  # ms
_CHANGE_TIMEOUT = """
    SELECT pg_catalog.set_config('lock_timeout', %(to)s::text, false)
    FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) 'lock_timeout'
        AND setting OPERATOR(pg_catalog.=) %(of)s::text
"""
_STATUS = "SELECT pg_catalog.pg_xact_status(%s::pg_catalog.xid8)"
_SERVER = "SELECT pg_catalog.pg_postmaster_start_time()::pg_catalog.text"
# What is noted as committed has to be on the server's disk.
_LASTING = """
    SELECT pg_catalog.set_config('synchronous_commit', 'on', true)
    WHERE pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is committed at once: a statement, or all of a transaction of the script's own. ``statements`` are offsets
    in the script, and texts.
    """

    statements: tuple[tuple[int, str], ...]

    @property
    def is_transaction(self) -> bool:
        return _BEGINS.match(_bare(self.statements[0][1])) is not None

    @property
    def commits_by_itself(self) -> bool:
        """Whether more than its end commits, so that one number does not tell how far it came."""
        if self.is_transaction:
            return any(
                (_ENDS.match(_bare(text)) and _GOES_ON.search(text)) or _PREPARES.match(_bare(text))
                for _, text in self.statements
            )
        return _COMMITS.match(_bare(self.statements[0][1])) is not None

    @property
    def is_concurrent(self) -> bool:
        """Whether it is carried out beside readers and writers, and cut off leaves a part of itself."""
        return any(_CONCURRENT.search(without_literals(text)) for _, text in self.statements)

    @property
    def of_session(self) -> tuple[tuple[int, str], ...]:
        """What sets up the session, and has to be said again in another one."""
        return tuple((offset, text) for offset, text in self.statements if _OF_SESSION.match(_bare(text)))

    @property
    def is_lost(self) -> bool:
        """Whether it leaves something that ends with the session, and cannot be said again."""
        return any(_LOST.match(_bare(text)) for _, text in self.statements)

    @property
    def text(self) -> str:
        return " ".join(f"{text.strip()};" for _, text in self.statements)


def split_steps(script: str) -> tuple[Step, ...]:
    """The steps of a script, in order."""
    steps: list[Step] = []
    opened: list[tuple[int, str]] = []
    for offset, text in split_statements(script):
        statement = _bare(text)
        is_end = _ENDS.match(statement) is not None and _GOES_ON.search(statement) is None
        if opened or _BEGINS.match(statement):
            opened.append((offset, text))
            if is_end:
                steps.append(Step(statements=tuple(opened)))
                opened = []
        else:
            steps.append(Step(statements=((offset, text),)))
    if opened:
        steps.append(Step(statements=tuple(opened)))
    return tuple(steps)


def _bare(text: str) -> str:
    return without_comments_before(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """``done`` are the steps that were committed; ``at`` is the one that was begun last, in ``transaction``; "": in
    none. It is on disk before that step can be committed. ``of`` is how many steps there are, 0 where that is not
    known, and ``server`` when the server was started that gave the number.
    """

    done: frozenset[int] = frozenset()
    at: int | None = None
    transaction: str = ""
    of: int = 0
    server: str = ""

    def to_text(self) -> str:
        return json.dumps({**asdict(self), "done": sorted(self.done)})

    @classmethod
    def from_text(cls, text: str) -> Self:
        found = json.loads(text)
        return cls(**{**found, "done": frozenset(found["done"])})


class StepError(Exception):
    """A statement failed, which begins at ``offset`` of its script; ``cause`` is None where a transaction is left open.

    ``is_settled``: nothing of the step is committed, or it may be taken once more. Where the connection is gone, only
    the server knows. ``is_outside``: it was in no transaction, so it may have left a part of itself. ``more`` is said
    of it in full sentences.
    """

    def __init__(self, offset: int, cause: Error | None, *, is_settled: bool, is_outside: bool = False) -> None:
        super().__init__(str(cause or "the transaction that it begins is not committed"))
        self.offset = offset
        self.cause = cause
        self.is_settled = is_settled
        self.is_outside = is_outside
        self.more = ""

    @property
    def message(self) -> str:
        """On one line, without a full stop."""
        diagnosed = None if self.cause is None else self.cause.diag.message_primary
        return diagnosed or " ".join(str(self).split())


class UnsettledError(Exception):
    """Of a step nobody knows what the text says, and why."""


async def take(
    connection: "AsyncConnection[tuple[Any, ...]]",
    steps: Sequence[Step],
    number: int,
    progress: Progress,
    note: Callable[[Progress], object],
    *,
    longest: int = LONG_TIMEOUT,
) -> Progress:
    """Take a step, with ``note`` putting on disk what is under way; the progress behind it. What is built beside its
    readers and writers waits for them ``longest`` ms. Raises StepError.
    """
    step, begun = steps[number], Progress(done=progress.done, at=number, of=len(steps))
    try:
        if step.is_transaction:
            await _take_transaction(connection, step, begun, note)
        else:
            await _take_statement(connection, step, begun, note, longest)
    except StepError as err:
        with suppress(Error):
            await connection.execute("ROLLBACK")
        err.is_settled = err.is_settled and not connection.closed
        if err.is_settled and not err.is_outside:
            note(Progress(done=progress.done, of=len(steps)))
        raise
    return Progress(done=progress.done | {number}, of=len(steps))


async def set_up_again(
    connection: "AsyncConnection[tuple[Any, ...]]", steps: Sequence[Step], progress: Progress
) -> None:
    """In a new session, say once more what earlier steps have set for the later ones. Raises UnsettledError where that
    cannot be said again.
    """
    for number in sorted(progress.done):
        if steps[number].is_lost and len(progress.done) < len(steps):
            raise UnsettledError(f'what the rest does without that which "{steps[number].text}" made for its session')
        for offset, text in steps[number].of_session:
            try:
                await connection.execute(text.encode())
            except Error as err:
                raise StepError(offset, err, is_settled=True) from err


async def _take_statement(
    connection: "AsyncConnection[tuple[Any, ...]]",
    step: Step,
    begun: Progress,
    note: Callable[[Progress], object],
    longest: int,
) -> None:
    ((offset, text),) = step.statements
    outside = (*_OUTSIDE, _OF_PROCEDURE) if step.commits_by_itself else _OUTSIDE
    try:
        if not _ALONE.match(_bare(text)):
            await connection.execute("BEGIN")
            note(await _in_transaction(connection, begun))
            await connection.execute(text.encode())
            await connection.execute("COMMIT")
            return
    except Error as err:
        if err.sqlstate not in outside or connection.closed:
            raise StepError(offset, err, is_settled=True) from err
    try:
        await connection.execute("ROLLBACK")
        note(begun)
        is_longer = False  # nor where the script has said how long it waits
        if step.is_concurrent:
            changed = await connection.execute(_CHANGE_TIMEOUT, {"of": LOCK_TIMEOUT, "to": longest})
            is_longer = changed.rowcount > 0
        try:
            await connection.execute(text.encode())
        finally:
            if is_longer:
                with suppress(Error):
                    await connection.execute(_CHANGE_TIMEOUT, {"of": longest, "to": LOCK_TIMEOUT})
    except Error as err:
        raise StepError(offset, err, is_settled=not step.commits_by_itself, is_outside=True) from err


async def _take_transaction(
    connection: "AsyncConnection[tuple[Any, ...]]", step: Step, begun: Progress, note: Callable[[Progress], object]
) -> None:
    is_noted = False
    for place, (offset, text) in enumerate(step.statements):
        try:
            if place and not is_noted and not _SETS.match(_bare(text)):
                note(begun if step.commits_by_itself else await _in_transaction(connection, begun))
                is_noted = True
            await connection.execute(text.encode())
        except Error as err:
            raise StepError(offset, err, is_settled=not step.commits_by_itself) from err
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        raise StepError(step.statements[0][0], None, is_settled=not step.commits_by_itself)


async def _in_transaction(connection: "AsyncConnection[tuple[Any, ...]]", begun: Progress) -> Progress:
    """What is to be noted of the transaction that the connection is in, which is made to last once it is committed."""
    await connection.execute(_LASTING)
    return replace(begun, transaction=await _tell(connection, _NUMBER), server=await _tell(connection, _SERVER))


async def _tell(connection: "AsyncConnection[tuple[Any, ...]]", query: LiteralString) -> str:
    row = await (await connection.execute(query)).fetchone()
    assert row is not None  # of a function
    return str(row[0])


async def settle(connection: "AsyncConnection[tuple[Any, ...]]", steps: Sequence[Step], progress: Progress) -> Progress:
    """What was committed of what a killed pgtrial noted, whose session has ended.

    Raises UnsettledError, and TargetError where that is still at work.
    """
    if progress.of not in (0, len(steps)):
        raise UnsettledError("which statements were committed: this version of pgtrial tells them apart otherwise")
    if progress.at is None:
        return progress
    step, without = steps[progress.at], replace(progress, at=None, transaction="", server="")
    if not progress.transaction:
        if step.commits_by_itself:
            raise UnsettledError(f'how far "{step.text}" came, since it commits by itself')
        return without
    try:
        has_run_since = progress.server in ("", await _tell(connection, _SERVER))
        row = await (await connection.execute(_STATUS, [progress.transaction])).fetchone()
    except InvalidParameterValue:
        row = None  # it has not come so far: another server, or one that was put back from a copy
    except Error as err:
        raise TargetError(f"the server does not tell what was committed: {' '.join(str(err).split())}") from err
    match row[0] if row else None:
        case "committed" if has_run_since:
            return replace(without, done=progress.done | {progress.at})
        case "committed":
            raise UnsettledError(f'whether "{step.text}" was committed: the server was started again since')
        case "aborted":
            return without
        case "in progress":
            raise TargetError("a statement of an earlier pgtrial is still running, and does not end")
    raise UnsettledError(
        f'whether "{step.text}" was committed: the server does not know its transaction {progress.transaction}'
    )
