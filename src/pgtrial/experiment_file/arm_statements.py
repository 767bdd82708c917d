"""SQL of an arm in a database of the user's: what its undo would take away, and what it has others wait for.

The statements are told apart by a parser's scanner: strings, comments and quoted names are none of their words. What
DO executes there and then is read as well, with the strings in it; the body of a function is not.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError

_TEXTS = frozenset(
    {
        TokenType.STRING,
        TokenType.HEREDOC_STRING,
        TokenType.RAW_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.BYTE_STRING,
        TokenType.UNICODE_STRING,
    }
)
_ALIKE = {"PROCEDURE": "FUNCTION", "AGGREGATE": "FUNCTION", "ROUTINE": "FUNCTION"}  # DROP ROUTINE drops any of them
_KINDS = frozenset({"FUNCTION", "LANGUAGE", "RULE", "TRANSFORM", "TRIGGER", "VIEW"})
_BEFORE_KIND = frozenset({"TEMP", "TEMPORARY", "RECURSIVE", "CONSTRAINT", "TRUSTED", "PROCEDURAL"})
_IF_NOT_EXISTS = ("IF", "NOT", "EXISTS")
_TEMPORARY = frozenset({"TEMP", "TEMPORARY"})
_MAKING = frozenset({"CREATE", "ADD", "EXECUTE"})
# What ALTER TABLE does beside others, or in a way that is not told here.
_BESIDE = frozenset({"VALIDATE", "ATTACH", "STATISTICS", "FOREIGN"})
# Where DROP takes a lock on a table; of a table's own parts, too.
_OF_TABLES = frozenset({"INDEX", "MATERIALIZED", "POLICY", "RULE", "SCHEMA", "TABLE", "TRIGGER", "VIEW"})
_READERS, _WRITERS = "readers and writers", "writers"
# The scanner takes "$1 + $" for a quote; as a name a parameter is as long.
_PARAMETER = re.compile(r"(?<![\w$])\$(?=\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    """``words`` are in capitals; a string is a word that is none of SQL's. ``line`` is where the first one stands."""

    line: int
    words: tuple[str, ...]
    texts: tuple[str, ...]


def find_unsafe(apply: str, undo: str) -> Iterator[tuple[str, str]]:
    """(message, hint) of what in ``apply`` takes what is there for its own, so that ``undo`` drops it."""
    dropped = {_ALIKE.get(kind, kind) for each in _statements(undo) for kind in _dropped(each)}
    for statement in _statements(apply):
        if words := _takes_what_is_there(statement):
            message = (
                f"{words} in line {statement.line}: what is there already would be taken for its own, and its undo "
                "may drop it"
            )
            hint = f"Remove it: without {words} an apply that finds it there fails before anything is changed."
            yield message, hint
        for kind in _replaced(statement):
            if _ALIKE.get(kind, kind) not in dropped:
                continue
            message = (
                f"CREATE OR REPLACE {kind} in line {statement.line}: what it replaces would be lost, since undo drops "
                f"a {kind.lower()}"
            )
            hint = (
                "Undo it by CREATE OR REPLACE with the old definition; or write CREATE without OR REPLACE, which fails "
                "where it is there."
            )
            yield message, hint


def find_waiting(statement: str) -> str:
    """Who waits while a statement runs, and behind it while it waits itself; "" where that is nobody, or not known."""
    words = next((each.words for each in _statements(statement)), ("",))
    match words:
        case ("CREATE", *rest) if "CONCURRENTLY" not in rest and rest[:1] in (["INDEX"], ["UNIQUE"]):
            return _WRITERS
        case ("CREATE", *rest) if _kind([word for word in rest if word not in ("OR", "REPLACE")]) == "TRIGGER":
            return _WRITERS
        case ("DROP", kind, *rest) if kind in _OF_TABLES and "CONCURRENTLY" not in rest[:1]:
            return _READERS
        case ("ALTER", *rest) if set(rest[:2]) & {"TABLE", "VIEW", "MATERIALIZED"} and "CONCURRENTLY" not in rest:
            return "" if _BESIDE & set(rest) or _has(rest, ("SET", "(")) or _has(rest, ("RESET", "(")) else _READERS
        case ("VACUUM", *rest) if "FULL" in rest:
            return _READERS
        case (("REINDEX" | "REFRESH"), *rest) if "CONCURRENTLY" not in rest:
            return _READERS
        case (("TRUNCATE" | "LOCK" | "CLUSTER"), *_):
            return _READERS
    return ""


def _statements(script: str) -> Iterator[_Statement]:
    """Of what cannot be read there are none: neither can the server read it."""
    try:
        tokens = [*_tokens(_PARAMETER.sub("p", script))]
    except (SqlglotError, RecursionError):
        return
    own: list[Token] = []
    for token in tokens:
        if token.token_type is not TokenType.SEMICOLON:
            own.append(token)
        elif own:
            yield _statement(own)
            own = []
    if own:
        yield _statement(own)


def _tokens(script: str) -> Iterator[Token]:
    """Also those behind a word (VACUUM, DO) whose statement the scanner leaves as one text."""
    before = None
    for token in Postgres().tokenize(script):
        if before is TokenType.COMMAND and token.token_type is TokenType.STRING:
            yield from _tokens(token.text)
        else:
            yield token
        before = token.token_type


def _statement(tokens: Sequence[Token]) -> _Statement:
    quoted = {TokenType.IDENTIFIER, *_TEXTS}
    return _Statement(
        line=tokens[0].line,
        words=tuple("" if each.token_type in quoted else each.text.upper() for each in tokens),
        texts=tuple(each.text for each in tokens if each.token_type in _TEXTS),
    )


def _takes_what_is_there(statement: _Statement) -> str:
    """The words by which a statement does so, "" where it has none. What is temporary is nobody's else."""
    words = statement.words
    if words[0] == "DO":
        return next(filter(None, map(_makes_if_absent, statement.texts)), "")
    makes = words[0] in ("CREATE", "ALTER", "EXPLAIN") and not _TEMPORARY & set(words[:2])
    return " ".join(_IF_NOT_EXISTS) if makes and _has(words, _IF_NOT_EXISTS) else ""


def _makes_if_absent(body: str) -> str:
    """The words by which code of a procedural language makes something where it is not there: beside a CREATE of its
    own or of a string that it executes.
    """
    words: list[str] = []
    for statement in _statements(body):
        words += statement.words
        for text in statement.texts:
            if len(text) < len(body) and (found := _makes_if_absent(text)):
                return found
    if not _MAKING & set(words):
        return ""
    if _has(words, _IF_NOT_EXISTS):
        return " ".join(_IF_NOT_EXISTS)
    heeds_nothing = any(word.startswith("DUPLICATE_") or word == "OTHERS" for word in words)
    return "EXCEPTION" if "EXCEPTION" in words and heeds_nothing else ""


def _has(words: Sequence[str], sought: Sequence[str]) -> bool:
    return bool(_places(words, sought))


def _replaced(statement: _Statement) -> list[str]:
    return _kinds_behind(statement, ("CREATE", "OR", "REPLACE"))


def _dropped(statement: _Statement) -> list[str]:
    return _kinds_behind(statement, ("DROP",))


def _kinds_behind(statement: _Statement, verb: tuple[str, ...]) -> list[str]:
    """Of a statement that begins with ``verb``, or of those in what DO executes."""
    if statement.words[0] == "DO":
        inner = [each.words for text in statement.texts for each in _statements(text)]
        found = [_kind(words[at + len(verb) :]) for words in inner for at in _places(words, verb)]
    else:
        found = [_kind(statement.words[len(verb) :])] if statement.words[: len(verb)] == verb else []
    return [kind for kind in found if kind]


def _places(words: Sequence[str], sought: Sequence[str]) -> list[int]:
    return [at for at in range(len(words)) if tuple(words[at : at + len(sought)]) == tuple(sought)]


def _kind(words: Sequence[str]) -> str:
    """What kind of object these words begin with, if it is one that can be replaced."""
    kind = next((word for word in words if word not in _BEFORE_KIND), "")
    return kind if kind in _KINDS or kind in _ALIKE else ""
