"""Connections to a server; the only module that turns psycopg's errors into pgtrial's."""

import os
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from pgtrial.errors import ConnectError, TargetError
from pgtrial.safe_text import end_of_comment, sql_name

APPLICATION, SAMPLER, WATCH = "pgtrial", "pgtrial sampler", "pgtrial watch"
OWN_NAMES = (APPLICATION, SAMPLER, WATCH)  # of pgtrial's own sessions, which are not the load's
READ_ONLY: LiteralString = "BEGIN /* pgtrial */ READ ONLY"  # known from the load's by its comment
NO_PASSWORDS = "/nonexistent/pgpass"  # libpq warns of a file that is there and no plain one, such as /dev/null
NO_CONNECT = "does not have CONNECT privilege"  # the server's words, with lc_messages = C or English
GRANT_CONNECT = "The owner of the database or a superuser can allow it: GRANT CONNECT ON DATABASE {database} TO {user}."
# So that a name in pgtrial's own statements is never one that a user of the database has made in front of the server's,
# by a better fit or by ALTER DATABASE … SET search_path, to run with pgtrial's rights (CVE-2018-1058).
ONLY_CATALOG = {"search_path": ""}


def conninfo(*, host: str, port: int, user: str, database: str) -> str:
    """A libpq connection string for a server of an experiment's own.

    What the experiment executes could have that server ask for a password: it gets none of the caller's ~/.pgpass.
    """
    return make_conninfo(host=host, port=port, user=user, dbname=database, passfile=NO_PASSWORDS, connect_timeout=10)


def forget_caller() -> dict[str, str]:
    """Take libpq's variables out of this process's environment: PGOPTIONS, PGSERVICE, PGSSLMODE, PGHOSTADDR …

    They would hold for everything that a connection string does not say. Returned is what was taken, which is how a
    server of the caller's own is reached; a password may be in it.
    """
    return {name: os.environ.pop(name) for name in list(os.environ) if _is_libpqs(name)}


_callers: list[Mapping[str, str]] = []  # variables of all who begin a connection; those of the last are in force
_own: dict[str, str] = {}  # those of the process, as long as there are callers
_environment = threading.Lock()


@contextmanager
def as_caller(variables: Mapping[str, str]) -> Iterator[None]:
    """Let libpq's variables be these, and no others, while a connection is begun.

    They are the process's: threads that begin connections at the same time all need the same ones, and nobody waits for
    a connection of somebody else.
    """
    with _environment:
        if not _callers:
            _own.update(forget_caller())
        _callers.append(variables)
        _show_variables()
    try:
        yield
    finally:
        with _environment:
            _callers.remove(variables)
            _show_variables()
            if not _callers:
                _own.clear()


def _show_variables() -> None:
    """Have the environment hold what is in force. Where it does, it is not touched: somebody may be reading it."""
    wanted = _callers[-1] if _callers else _own
    if {name: value for name, value in os.environ.items() if _is_libpqs(name)} != wanted:
        forget_caller()
        os.environ.update(wanted)


def _is_libpqs(name: str) -> bool:
    return name.startswith("PG") and not name.startswith(("PG_CONFIG", "PGTRIAL_"))


@dataclass(frozen=True, slots=True)
class Begun:
    """How many sessions of a database this process has ``begun``; ``beginning`` are connections that may become some,
    and ``unknown`` those that may have been some, as they were given up.
    """

    begun: int
    beginning: int
    unknown: int


@dataclass(slots=True)
class _Tally:
    """All of this process."""

    begun: "Counter[tuple[str, int, str]]" = field(default_factory=Counter)
    beginning: int = 0
    unknown: int = 0


_tally = _Tally()


def count_begun(connection: "psycopg.AsyncConnection[Any]") -> Begun:
    """Of the database of a connection. By the time that ``connect`` has one the server has counted it."""
    return Begun(_tally.begun[_place_of(connection)], _tally.beginning, _tally.unknown)


def _place_of(connection: "psycopg.AsyncConnection[Any]") -> tuple[str, int, str]:
    return connection.info.host, connection.info.port, connection.info.dbname


async def _begin_session(conninfo: str, application: str) -> "psycopg.AsyncConnection[tuple[Any, ...]]":
    _tally.beginning += 1
    try:
        # UTF-8 in a database without an encoding, too, whose texts would be bytes. Prepared statements would stay in a
        # session that a pooler shares.
        connection = await psycopg.AsyncConnection.connect(
            conninfo, autocommit=True, prepare_threshold=None, application_name=application, client_encoding="utf8"
        )
    except BaseException:
        _tally.unknown += 1
        raise
    finally:
        _tally.beginning -= 1
    _tally.begun[_place_of(connection)] += 1
    return connection


def own_session(pid: int, settings: Mapping[str, str]) -> str:
    """A query that gives settings to a session that is ours alone; without a row where it is not, and stays as it is.

    Behind a pooler others have it next, with all that was set in it: there the process id is another one than ``pid``,
    which was told at the beginning.
    """
    values = ", ".join(f"({_quoted(name)}, {_quoted(value)})" for name, value in settings.items())
    return (
        f"SELECT pg_catalog.set_config(name, value, false) FROM (VALUES {values}) AS s (name, value) "
        f"WHERE pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) {pid}"
    )


def _quoted(text: str) -> str:
    return sql.Literal(text).as_string()


async def set_own(connection: "psycopg.AsyncConnection[Any]", settings: Mapping[str, str]) -> bool:
    """Have settings until the session ends; whether it is ours alone: one that a pooler shares stays as it is."""
    query = own_session(connection.info.backend_pid, settings)
    return bool((await connection.execute(query.encode())).rowcount)


async def refuse_shared(conninfo: str, what: str) -> None:
    """Raise TargetError where a pooler shares sessions: ``what`` is done there needs settings of its own."""
    async with connect(conninfo, as_user=True) as connection:
        if not await set_own(connection, ONLY_CATALOG):
            raise TargetError(
                f"a pooler stands before the server, and its sessions are others' too: {what}",
                hint="Connect to the server itself.",
            )


@asynccontextmanager
async def read_only(
    connection: "psycopg.AsyncConnection[Any]", settings: Mapping[str, str] = ONLY_CATALOG
) -> AsyncIterator[None]:
    """A transaction that writes nothing, and has settings that end with it: whosever the session is next."""
    await connection.execute(READ_ONLY)
    try:
        for name, value in settings.items():
            await connection.execute("SELECT pg_catalog.set_config(%s, %s, true)", (name, value))
        yield
    finally:
        await connection.execute("ROLLBACK")


@asynccontextmanager
async def connect(
    conninfo: str, *, application: str = APPLICATION, as_user: bool = False
) -> AsyncIterator["psycopg.AsyncConnection[tuple[Any, ...]]"]:
    """A connection in autocommit mode, for pgtrial's own statements or, with names as he has them, for those of the
    user. Raises ConnectError, TargetError.
    """
    try:
        connection = await _begin_session(conninfo, application)
    except psycopg.Error as err:
        raise ConnectError("cannot connect to the server", detail=_text(err), hint=_hint_of(err, conninfo)) from err
    try:
        if not as_user:
            await set_own(connection, ONLY_CATALOG)
        yield connection
    except psycopg.Error as err:
        raise TargetError(f"the server refused a statement: {_text(err)}") from err
    finally:
        await connection.close()


def _hint_of(err: psycopg.Error, conninfo: str) -> str:
    if NO_CONNECT not in _text(err):
        return ""
    found = conninfo_to_dict(conninfo)
    names = {"user": found.get("user"), "database": found.get("dbname")}
    return GRANT_CONNECT.format(**{key: sql_name(str(name or "…")) for key, name in names.items()})


@contextmanager
def as_answered() -> Iterator[None]:
    """Read what a server that may be none has answered. Raises TargetError for what nobody has asked for."""
    try:
        yield
    except (ValueError, TypeError) as err:  # other columns, or texts that are none
        raise TargetError(
            "the server answers otherwise than PostgreSQL does",
            detail=str(err),
            hint="Connect to the server itself, and not to what stands in front of it.",
        ) from err


async def fetch(
    conninfo: str, query: LiteralString, parameters: Sequence[Any] | Mapping[str, Any] = ()
) -> list[tuple[Any, ...]]:
    """Rows of one query over a connection of its own."""
    async with connect(conninfo) as connection:
        return await (await connection.execute(query, parameters)).fetchall()


async def execute(conninfo: str, statement: LiteralString) -> None:
    """One statement over a connection of its own, which no timeout of the experiment's settings cuts short."""
    async with _connect_untimed(conninfo) as connection:
        await connection.execute(statement)


async def create_database(conninfo: str, name: str, locale: Mapping[str, str]) -> None:
    """Make an empty database with the encoding and the collation of ``locale``. Raises TargetError."""
    async with _connect_untimed(conninfo) as connection:
        made = sql.SQL("CREATE DATABASE {} TEMPLATE template0{}")
        await connection.execute(made.format(sql.Identifier(name), locale_options(locale)))


def locale_options(locale: Mapping[str, str]) -> sql.Composed:
    """Encoding and collation as CREATE DATABASE takes them, by the names of its options."""
    option = sql.SQL(" {} {}")
    return sql.Composed(
        [option.format(sql.Identifier(name.lower()), sql.Literal(value)) for name, value in locale.items()]
    )


async def find_row(conninfo: str, query: str) -> tuple[Any, ...] | None:
    """The first row of a query of pgtrial's own on the user's tables, which no timeout cuts short; None: there is none.

    Raises ConnectError, TargetError.
    """
    async with _connect_untimed(conninfo) as connection:
        return await (await connection.execute(query.encode())).fetchone()


@asynccontextmanager
async def _connect_untimed(conninfo: str) -> AsyncIterator["psycopg.AsyncConnection[tuple[Any, ...]]"]:
    async with connect(conninfo, as_user=True) as connection:
        await lift_limits(connection, lock_timeout=None)
        yield connection


async def lift_limits(connection: "psycopg.AsyncConnection[tuple[Any, ...]]", *, lock_timeout: int | None = 0) -> None:
    """Take the limits of time from a session, which the role or the server have for other statements.

    ``lock_timeout`` is in milliseconds, 0: none; None: as it is. A session that a pooler shares keeps its limits.
    """
    limits = {"statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
    if lock_timeout is not None:
        limits["lock_timeout"] = str(lock_timeout)
    if connection.info.server_version >= 170000:
        limits["transaction_timeout"] = "0"
    await set_own(connection, limits)


async def make_roles(conninfo: str, names: Sequence[str]) -> None:
    """Make the roles that are not there yet; they may not log in. Raises TargetError."""
    async with connect(conninfo) as connection:
        for name in names:
            there = await (await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,))).fetchone()
            if there is None:
                await connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))


async def find_roles(conninfo: str) -> set[str]:
    """Names of all roles of the server. Raises TargetError."""
    return {name for (name,) in await fetch(conninfo, "SELECT rolname FROM pg_catalog.pg_roles")}


async def execute_script(conninfo: str, script: str, *, name: str) -> None:
    """All statements of a script of the user, each a transaction of its own.

    Raises TargetError that names it and the line: the server's position in the statement, or else its beginning. So it
    does where a transaction of the script's own is left open, of which the end of the connection would leave nothing.
    """
    async with connect(conninfo, as_user=True) as connection:
        opened = 0
        for offset, statement in split_statements(script):
            if connection.info.transaction_status is TransactionStatus.IDLE:
                opened = offset
            try:
                # The text is the user's own, meant to be executed as it stands.
                await connection.execute(statement.encode())
            except psycopg.Error as err:
                raise script_error(name, script, offset, err) from err
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            raise script_error(name, script, opened, None)


def script_error(name: str, script: str, offset: int, err: psycopg.Error | None) -> TargetError:
    """The error of the statement at ``offset``; None: it begins a transaction that the script does not end."""
    if err is None:
        line = script.count("\n", 0, _beginning(script, offset)) + 1
        return TargetError(
            f"{name}, line {line}: the transaction that begins here is not committed, and leaves nothing behind",
            hint="Write COMMIT at its end; nothing has been measured.",
        )
    position = err.diag.statement_position
    end = offset + int(position) - 1 if position else _beginning(script, offset)
    return TargetError(
        f"{name}, line {script.count(chr(10), 0, end) + 1}: {err.diag.message_primary or _text(err)}",
        detail=err.diag.message_detail or "",
        hint=err.diag.message_hint or "Fix the script; nothing has been measured.",
    )


def _text(err: psycopg.Error) -> str:
    return err.diag.message_primary or " ".join(str(err).split())


# Split a script into its statements, where psql would: each is a transaction of its own, so VACUUM may be among them.
#
# Source: the lexical rules of PostgreSQL's documentation, 4.1 "Lexical Structure", and psql's own scanner (psqlscan.l),
# which also keeps what stands in parentheses, and a function's body in SQL (BEGIN ATOMIC … END), together.


_TOKEN = re.compile(
    r"""
      (?P<comment> --[^\n]* )
    | (?P<block> /\* )
    | (?P<string> [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" )
    | (?P<dollar> \$(?P<tag>[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff]*)?\$ )
    | (?P<word> [A-Za-z_\u0080-\U0010ffff][\w$\u0080-\U0010ffff]* )
    | (?P<end> ; )
    | (?P<open> \( ) | (?P<close> \) )
    | (?P<number> \d[\w.$]* )
    """,
    re.VERBOSE | re.DOTALL,
)
_BEFORE = re.compile(r"\s+|--[^\n]*|(?P<block>/\*)")
_ROUTINES = tuple(["CREATE", *way, kind] for way in ([], ["OR", "REPLACE"]) for kind in ("FUNCTION", "PROCEDURE"))
_FIRST = 4  # words of a statement that say whether it makes a routine


def split_statements(script: str) -> Iterator[tuple[int, str]]:
    """(offset, text) of each statement that is not empty, without its semicolon; what is not closed ends with the text.

    ``offset`` is the number of characters before it in ``script``, comments and blanks before it included.
    """
    start = at = parentheses = depth = 0
    words: list[str] = []
    has_content = False
    while match := _TOKEN.search(script, at):
        has_content = has_content or bool(script[at : match.start()].strip())
        at = match.end()
        if match["block"]:
            at = end_of_comment(script, at)
            continue
        if match["comment"]:
            continue
        if match["end"]:
            if parentheses == 0 and depth == 0:
                if has_content:
                    yield start, script[start : match.start()]
                start, words, has_content = at, [], False
            continue
        has_content = True
        if match["dollar"]:
            closing = script.find(match["dollar"], at)
            at = len(script) if closing < 0 else closing + len(match["dollar"])
        elif match["open"]:
            parentheses += 1
        elif match["close"]:
            parentheses = max(0, parentheses - 1)
        elif match["word"]:
            if len(words) < _FIRST:
                words.append(match["word"].upper())
            depth = _body_depth(words, match["word"].upper(), depth)
    if has_content or script[at:].strip():
        yield start, script[start:]


def _body_depth(words: list[str], word: str, depth: int) -> int:
    """How deep in a routine's body in SQL the text is after ``word``."""
    if not any(words[: len(beginning)] == beginning for beginning in _ROUTINES):
        return depth
    if word == "BEGIN" or (word == "CASE" and depth):
        return depth + 1
    return depth - 1 if word == "END" and depth else depth


def without_comments_before(statement: str) -> str:
    """A statement from its first word on."""
    return statement[_beginning(statement, 0) :]


def _beginning(script: str, at: int) -> int:
    """Where the first word of a statement stands, behind the blanks and comments that begin at ``at``."""
    while match := _BEFORE.match(script, at):
        at = end_of_comment(script, match.end()) if match["block"] else match.end()
    return at
