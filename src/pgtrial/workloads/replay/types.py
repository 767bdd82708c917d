"""Types of the parameters of a log, which has their texts alone: as the server infers them, or as their texts look.

Drivers such as JDBC and Npgsql say which types they send, and a statement may need that: ``$1 + $2`` of nothing but
texts is no statement. So each is prepared once, before the replay: where the server infers types to which the texts
are no values, or cannot tell them, the types are those that the texts have by their look, as far as the server takes
them. What cannot be prepared before the replay, as the log makes its tables, is sent as it is.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen

from pgtrial.workloads.replay.log import Session

_UNKNOWN, _TEXT = 0, 25
_INT2, _INT4, _INT8, _NUMERIC = 21, 23, 20, 1700
_INTEGERS = {_INT2: 2**15, _INT4: 2**31, _INT8: 2**63}
_INTEGER = re.compile(r"[+-]?\d{1,19}")
_DAY = r"\d{4,6}-\d\d-\d\d"
_LOOKS = (  # in the order of trying, each with its type
    (re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"), _NUMERIC),
    (re.compile(_DAY), 1082),
    (re.compile(rf"{_DAY} \d\d:\d\d:\d\d(?:\.\d+)?"), 1114),
    (re.compile(rf"{_DAY} \d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d(?::?\d\d)*"), 1184),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), 2950),
)
_OF_TYPES = frozenset({"42725", "42883", "42P18", "42804", "22P02", "42P08"})  # SQLSTATE of what lacks them
_MOST_TEXTS = 20_000  # that are prepared: some seconds

Types = tuple[int, ...]


async def find_types(
    connection: "psycopg.AsyncConnection[tuple[Any, ...]]", sessions: Iterable[Session]
) -> dict[str, Types]:
    """By text of a statement the types of its parameters, where they have to be said."""
    values: dict[str, list[tuple[str | None, ...]]] = {}
    for session in sessions:
        for one in session.statements:
            if one.parameters and not one.failed and (one.text in values or len(values) < _MOST_TEXTS):
                values.setdefault(one.text, []).append(one.parameters)
    found: dict[str, Types] = {}
    for text, rows in values.items():
        count = max(map(len, rows))
        columns = [[row[place] for row in rows if place < len(row)] for place in range(count)]
        types = await connection.wait(_choose(connection.pgconn, text.encode(), columns))
        if any(types):
            found[text] = types
    return found


def look_of(values: Sequence[str | None]) -> int:
    """The narrowest type that all of these texts are values of; a text's where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return _UNKNOWN
    if all(_INTEGER.fullmatch(value) for value in known):
        largest = max(abs(int(value)) for value in known)
        return next((oid for oid in (_INT4, _INT8) if largest < _INTEGERS[oid]), _NUMERIC)
    return next((oid for look, oid in _LOOKS if all(map(look.fullmatch, known))), _TEXT)


def _fits(oid: int, values: Sequence[str | None]) -> bool:
    """Whether texts can be of the type that the server inferred; only of whole numbers that is known."""
    if oid not in _INTEGERS:
        return True
    known = [value for value in values if value is not None]
    return all(_INTEGER.fullmatch(value) and abs(int(value)) <= _INTEGERS[oid] for value in known)


def _choose(server: "pq.abc.PGconn", text: bytes, columns: Sequence[Sequence[str | None]]) -> PQGen[Types]:
    """() where the server infers types that fit, or takes none."""
    looks = tuple(map(look_of, columns))
    inferred = yield from _prepare(server, text, ())
    if isinstance(inferred, str):
        if inferred not in _OF_TYPES:
            return ()
        tries = [tuple(_UNKNOWN if oid == _TEXT else oid for oid in looks), looks]
    elif len(inferred) != len(columns):
        return ()
    else:
        fits = [_fits(oid, values) for oid, values in zip(inferred, columns, strict=True)]
        if all(fits):
            return ()
        tries = [tuple(_UNKNOWN if fit else oid for fit, oid in zip(fits, looks, strict=True)), looks]
    for types in tries:
        if not isinstance((yield from _prepare(server, text, types)), str):
            return types
    return ()


def _prepare(server: "pq.abc.PGconn", text: bytes, types: Types) -> PQGen[Types | str]:
    """The types of its parameters by the server, or the SQLSTATE of why it takes it not."""
    server.send_prepare(b"", text, types)
    made = yield from _answer(server)
    if made.status == pq.ExecStatus.FATAL_ERROR:
        return _code_of(made)
    server.send_describe_prepared(b"")
    told = yield from _answer(server)
    if told.status == pq.ExecStatus.FATAL_ERROR:
        return _code_of(told)
    return tuple(told.param_type(place) for place in range(told.nparams))


def _answer(server: "pq.abc.PGconn") -> PQGen["pq.abc.PGresult"]:
    yield from generators.send(server)
    results: list[pq.abc.PGresult] = yield from generators.fetch_many(server)
    return results[-1]


def _code_of(result: "pq.abc.PGresult") -> str:
    return (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
