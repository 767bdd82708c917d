"""Texts that a server remembers: which of them pgbench can send again, and as what.

They were written by whoever uses the server. Nothing of a text gets into a script that pgbench would take for a command
of its own, that calls what may do more than read and write rows, or, unless values may leave the server, that has
values in it: comments often have some, and pg_stat_statements does not always replace constants.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pgtrial.postgres.production import Load, Statement
from pgtrial.postgres.production_effects import Effects
from pgtrial.workloads.production.constants import holds_constant
from pgtrial.workloads.production.tokens import Token, token_at, written_by

LONGEST = 100_000  # characters
_MOST_PARAMETERS = 255  # that pgbench can send with a statement
_BEGINS = frozenset(("BEGIN", "START"))
_ENDS = frozenset(("COMMIT", "END"))
_ABORTS = frozenset(("ROLLBACK", "ABORT"))
LEVELS = ("SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED")
UNKNOWN = "unknown"  # where the server has put a parameter in its place
_LEVEL = re.compile(rf"\bISOLATION LEVEL(?: ({'|'.join(LEVELS)})\b)?")
_PLANNED = frozenset(("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE"))
# What may be said of a statement whose text may not be shown.
_COMMANDS = frozenset(
    "ALTER ANALYZE CALL CHECKPOINT CLOSE CLUSTER COMMENT COPY CREATE DEALLOCATE DECLARE DISCARD DO DROP "  # noqa: SIM905
    "EXECUTE EXPLAIN FETCH GRANT LISTEN LOAD LOCK MOVE NOTIFY PREPARE REFRESH REINDEX RELEASE RESET REVOKE SAVEPOINT "
    "SET SHOW TRUNCATE UNLISTEN VACUUM".split()
)
# Words that no relation follows.
_BEFORE_COLUMN = frozenset("AND AS BY DISTINCT ELSE HAVING NOT ON OR RETURNING SELECT SET THEN WHEN WHERE".split())  # noqa: SIM905
_OF_THE_SERVER = re.compile(
    r"\b(?:pg_catalog|information_schema|pg_stat\w*|pg_locks|pg_settings|pg_class|pg_get_\w+|pgtrial_\w+)\b"
    # pg_dump, which every server meets, reads the catalogue by names without a schema.
    r"|\b(?:FROM|JOIN)\s+(?:ONLY\s+)?pg_\w+\b(?!\s*\()",
    re.IGNORECASE,
)
# SQLSTATE of what has no such name, or may not be used: a relation, a schema, a function, a type.
_NOT_FOUND = frozenset(("42P01", "3F000", "42883", "42704", "42501"))
_ENDS_OF_RANGE = re.compile(r"\b(?:int4|int8|num|ts|tstz|date)range\s*\(\s*\$[^(),]*,\s*\$", re.IGNORECASE)
# A number takes all that touches it: versions of the server differ in where one ends.
_PIECE = re.compile(
    r"""
      (?P<string> (?:[uU]&|[eEbBxXnN])?'(?:[^']|'')*' )
    | (?P<name> (?:[uU]&)?"(?:[^"]|"")*" )
    | (?P<parameter> \$(?P<index>[0-9]{1,5})(?![\w$\u0080-\U0010ffff]) )
    | (?P<dollar> \$(?:[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff]*)?\$ )
    | (?P<comment> --[^\n\r]* )
    | (?P<block> /\* )
    | (?P<word> [A-Za-z_\u0080-\U0010ffff][\w$\u0080-\U0010ffff]* )
    | (?P<number> \.?[0-9](?:[\w.$\u0080-\U0010ffff]|(?<=[eE])[+-](?=[0-9]))* )
    | (?P<blank> \s+ )
    | (?P<colons> ::|:= )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A statement in pieces: without comments and needless blanks, each parameter a number."""

    pieces: tuple[str | int, ...]

    def fill(self, value: Callable[[int], str]) -> str:
        return "".join(piece if isinstance(piece, str) else value(piece) for piece in self.pieces)

    @property
    def canonical(self) -> str:
        """The same for all texts that differ in the numbers of their parameters, and in blanks between their words."""
        pieces = ("$" if isinstance(piece, int) else piece.strip() for piece in self.pieces)
        return " ".join(piece for piece in pieces if piece)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a statement cannot be part of the load, and what it may be called."""

    reason: str
    command: str


@dataclass(slots=True)
class Found:
    """What was met in a text."""

    tokens: list[Token] = field(default_factory=list)
    strings: int = 0
    parameters: int = 0
    semicolons: int = 0
    first: str = ""
    called: tuple[str, ...] = ()
    colon_in_name: bool = False
    is_unclear: bool = False


def read_text(text: str) -> tuple[Text, Found]:
    found = Found()
    return Text(pieces=tuple(_pieces(text, found))), found


def _pieces(text: str, found: Found) -> Iterator[str | int]:
    """Pieces of the text, ``found`` is filled meanwhile. What does not end goes to the end of the text."""
    at, blank, last = 0, False, ""
    text = text.strip().rstrip(";").rstrip()
    while match := _PIECE.match(text, at):
        kind, piece, at = match.lastgroup, match[0], match.end()
        if match["index"] is not None:
            kind = "parameter"
        if kind == "block":
            at = _end_of_comment(text, at)
        if kind in ("blank", "comment", "block"):
            blank = bool(last)
            continue
        if kind == "dollar":
            closing = text.find(piece, at)
            at = len(text) if closing < 0 else closing + len(piece)
            piece = text[match.start() : at]
        if blank:
            yield " "
        blank = False
        found.tokens.append(Token(str(kind), piece))
        if kind == "parameter":
            found.parameters += 1
            yield int(match["index"])
        elif kind == "other" and piece == ":":
            yield " : "  # of a slice: beside a word, pgbench would take it for a variable
        else:
            _note(found, str(kind), piece, last)
            yield piece
        last = piece


def _note(found: Found, kind: str, piece: str, last: str) -> None:
    if kind in ("string", "dollar"):
        found.strings += 1
    elif kind == "name":
        found.colon_in_name = found.colon_in_name or ":" in piece
        found.is_unclear = found.is_unclear or not piece.startswith('"')  # with escapes it is another name
    elif piece in ("$", "'", '"'):
        found.is_unclear = True
    elif piece == ";":
        found.semicolons += 1
    elif piece == "(" and last:
        name = last[1:-1].replace('""', '"') if last.startswith('"') else last.lower()
        found.called += (name,)
    if kind == "word" and not found.first:
        found.first = piece.upper()


def _end_of_comment(text: str, at: int) -> int:
    depth = 1
    while depth and (match := re.compile(r"/\*|\*/").search(text, at)):
        depth += 1 if match[0] == "/*" else -1
        at = match.end()
    return len(text) if depth else at


def control_of(statement: Statement) -> str:
    """ "begin", "commit" or "rollback" where that is what the statement does, "" otherwise."""
    words = statement.text.upper().replace(";", " ").split()
    first = words[0] if words else ""
    if first in _BEGINS:
        return "begin"
    if "PREPARED" in words or "TO" in words:
        return ""
    return "commit" if first in _ENDS else "rollback" if first in _ABORTS else ""


def level_of(statement: Statement) -> str:
    """What a "begin" says of the transaction's isolation: "", a level's name, or UNKNOWN."""
    words = " ".join(statement.text.upper().replace(";", " ").split())
    found = _LEVEL.search(words)
    return (found[1] or UNKNOWN) if found else ""


def triggers_of(statement: Statement, effects: Effects) -> Iterator[str]:
    """What runs functions of the application that may write, in words."""
    found = read_text(statement.text)[1]
    for name in written_by(found.tokens):
        yield from effects.triggers.get(name, ())
    for name in dict.fromkeys(found.called):
        if name in effects.presumed:
            yield f"a statement calls {name}, VOLATILE and without a word that writes"


def examine(statement: Statement, load: Load, *, with_values: bool) -> Text | Refusal:
    """The text for a script, or why there is none."""
    text, found = read_text(statement.text)
    command = found.first if found.first in _COMMANDS | _PLANNED else "other"
    if found.first not in _PLANNED:
        reason = "COPY has data of its own" if command == "COPY" else "it is no query and no change of rows"
        return Refusal(reason=reason, command=command)
    if reason := _objection(statement, load, text, found, with_values=with_values):
        return Refusal(reason=reason, command=command)
    return text


def _effect(found: Found, effects: Effects) -> str:
    if called := sorted({name for name in found.called if name in effects.functions}):
        return f"it calls {', '.join(called[:3])}, which may do more than read and write rows"
    for index, token in enumerate(found.tokens):
        if said := _read_of(found.tokens, index, effects.reads.get(token.name, {})):
            return f"it reads {token.name}, {said}"
    for name in written_by(found.tokens):
        if name in effects.writes:
            return f"it writes to {name}, {effects.writes[name]}"
    return ""


def _read_of(tokens: Sequence[Token], index: int, by_schema: Mapping[str, str]) -> str:
    """What reading a relation does, "" where the name cannot be that of one.

    Behind a point and no schema it is a column, and a name before a point is once more in FROM.
    """
    if not by_schema or token_at(tokens, index + 1).text == ".":
        return ""
    before = token_at(tokens, index - 1)
    if before.text == ".":
        return by_schema.get(token_at(tokens, index - 2).name, "")
    return "" if before.word in _BEFORE_COLUMN else next(iter(by_schema.values()))


def _objection(statement: Statement, load: Load, text: Text, found: Found, *, with_values: bool) -> str:
    if len(statement.text) > LONGEST:
        return f"its text is longer than {LONGEST:,} characters"
    if "\\" in statement.text or "\0" in statement.text:
        return "its text has a backslash, which pgbench may take for a command of its own"
    if found.semicolons:
        return "it is several statements"
    if found.is_unclear:
        return "it is not clear where a quote or a parameter in its text ends, or what a name with escapes is"
    if found.colon_in_name:
        return "a name in it has a colon, which pgbench takes for a variable"
    if found.parameters > _MOST_PARAMETERS:
        return f"it has more than {_MOST_PARAMETERS} parameters"
    if _OF_THE_SERVER.search(statement.text):
        return "it asks the server about itself"
    if reason := _effect(found, load.effects):
        return reason
    if _ENDS_OF_RANGE.search(plain := text.fill(lambda _number: "$")):
        return "the two ends of a range in it would be drawn apart, and often in the wrong order"
    if statement.refused in _NOT_FOUND:
        return (
            "the role does not find what it names, or may not use it: "
            "its search_path has to be that of the application, and it needs USAGE of the schemas"
        )
    if statement.refused:
        return "the server does not understand its text, which lost something when its constants were replaced"
    if not with_values and holds_constant(found.tokens):
        return "its text has values that were not replaced, and values stay on the server"
    if found.strings and ":" in plain and re.search(r"(?<!:):\w", plain):
        return "a text in it has a colon, which pgbench takes for a variable"
    return ""
