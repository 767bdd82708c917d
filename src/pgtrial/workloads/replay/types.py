"""Types of the parameters of a log, which has their texts alone: as the server infers them, or as their texts look.

Drivers such as JDBC and Npgsql say which types they send, and a statement may need that: ``$1 + $2`` of nothing but
texts is no statement. So each is prepared once, before the replay. Where the server cannot infer types, as few
parameters as it takes get those that their texts have by their look; where it infers some to which the texts of a row
are no values, that row alone gets its own. What cannot be prepared before the replay, as the log makes its tables, is
sent as it is.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen

from pgtrial.workloads.replay.log import Session

_UNKNOWN, _TEXT = 0, 25
_INT2, _INT4, _INT8, _NUMERIC, _FLOAT8 = 21, 23, 20, 1700, 701
_DATE, _TIMESTAMP, _TIMESTAMPTZ, _INTERVAL, _UUID = 1082, 1114, 1184, 1186, 2950
_INTEGERS = {_INT2: 2**15, _INT4: 2**31, _INT8: 2**63}
_INTEGER = re.compile(r"[+-]?\d{1,19}")
_DAY = r"\d{4,6}-\d\d-\d\d"
_TIME = r"\d\d:\d\d:\d\d(?:\.\d+)?"
_UNIT = r"(?:year|mon|day|hour|min|sec)s?"
_LOOKS = (  # in the order of trying, each with its type
    (re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)"), _NUMERIC),
    (re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?"), _FLOAT8),
    (re.compile(_DAY), _DATE),
    (re.compile(rf"{_DAY} {_TIME}"), _TIMESTAMP),
    (re.compile(rf"{_DAY} {_TIME}[+-]\d\d(?::?\d\d)*"), _TIMESTAMPTZ),
    (re.compile(rf"(?=.)(?:[+-]?\d+(?:\.\d+)? {_UNIT}(?: |$))*(?:[+-]?\d*{_TIME})?"), _INTERVAL),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), _UUID),
)
_ELEMENT = r'"(?:[^"\\]|\\.)*+"|[^{}",\\\s][^{}",\\]*+'
_ARRAY = re.compile(rf"\{{(?:{_ELEMENT})(?:,(?:{_ELEMENT}))*+\}}")
_ARRAY_ELEMENT = re.compile(_ELEMENT)
_ARRAYS = {  # by type of the elements
    _INT4: 1007,
    _INT8: 1016,
    _NUMERIC: 1231,
    _FLOAT8: 1022,
    _DATE: 1182,
    _TIMESTAMP: 1115,
    _TIMESTAMPTZ: 1185,
    _INTERVAL: 1187,
    _UUID: 2951,
}
_TEXT_ARRAY = 1009
_WITHIN = {  # looks of which a type has the values, beside its own
    _INT8: {_INT4},
    _NUMERIC: {_INT4, _INT8},
    _FLOAT8: {_INT4, _INT8, _NUMERIC},
}
_MOMENTS = (_DATE, _TIMESTAMP, _TIMESTAMPTZ)
_OF_TYPES = frozenset({"42725", "42883", "42P18", "42804", "22P02", "42P08"})  # SQLSTATE of what lacks them
MOST_SECONDS = 30.0  # for all of them: a load is to be ready within a minute
_MOST_TRIES = 50  # of one text
_SOME = 1000  # values, by which the usual look is known

Types = tuple[int, ...]
Row = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Types that are ``said`` to the server, and those that it makes of them."""

    said: Types
    made: Types

    def fits(self, row: Row) -> bool:
        return all(
            value is None or (_looks_like(value, said) if said else _can_be(value, made))
            for value, said, made in zip(row, self.said, self.made, strict=False)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The types for the rows of a statement that have values of them, and those for the ``others``."""

    usual: Said
    others: Types

    @property
    def prepared(self) -> Types:
        """Those of a statement that is prepared once for many rows."""
        return self.usual.said if any(self.usual.said) else ()

    def of(self, row: Row) -> Types:
        """() where the server is to infer them all."""
        types = (self.usual.said if self.usual.fits(row) else self.others)[: len(row)]
        return types if any(types) else ()


async def find_types(
    connection: "psycopg.AsyncConnection[tuple[Any, ...]]", sessions: Iterable[Session]
) -> tuple[dict[str, Choice], int]:
    """By text of a statement the types of its parameters, where they have to be said; and for how many texts, of those
    that are used least, there was no time.
    """
    rows: dict[str, list[Row]] = {}
    for session in sessions:
        for one in session.statements:
            if one.parameters and not one.failed:
                rows.setdefault(one.text, []).append(one.parameters)
    found: dict[str, Choice] = {}
    until = time.monotonic() + MOST_SECONDS
    for done, (text, own) in enumerate(sorted(rows.items(), key=lambda item: -len(item[1]))):
        if time.monotonic() > until:
            return found, len(rows) - done
        if (choice := await connection.wait(_choose(connection.pgconn, text.encode(), own))) is not None:
            found[text] = choice
    return found, 0


def look_of(values: Sequence[str | None]) -> int:
    """The narrowest type that all of these texts are values of; a text's where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return _UNKNOWN
    if all(_INTEGER.fullmatch(value) for value in known):
        largest = max(abs(int(value)) for value in known)
        return next((oid for oid in (_INT4, _INT8) if largest < _INTEGERS[oid]), _NUMERIC)
    if all(map(_ARRAY.fullmatch, known)):
        elements = [each for value in known for each in _ARRAY_ELEMENT.findall(value) if each != "NULL"]
        return _ARRAYS.get(look_of([each.strip('"') for each in elements]), _TEXT_ARRAY)
    return next((oid for look, oid in _LOOKS if all(map(look.fullmatch, known))), _TEXT)


def _looks_like(value: str, oid: int) -> bool:
    look = look_of((value,))
    return oid in (look, _TEXT) or look in _WITHIN.get(oid, ())


def _can_be(value: str, oid: int) -> bool:
    """Whether a text can be of a type that the server inferred; of most of them that is not known."""
    if oid in _INTEGERS:
        return _INTEGER.fullmatch(value) is not None and abs(int(value)) <= _INTEGERS[oid]
    return oid not in _MOMENTS or look_of((value,)) != _INTERVAL


def _choose(server: "pq.abc.PGconn", text: bytes, rows: Sequence[Row]) -> PQGen[Choice | None]:
    """None where the server infers types that fit all rows, or takes none."""
    usual = yield from _Search(server=server, text=text, columns=_columns(rows), must_fit=False).find()
    if usual is None:
        return None
    if not (others := [row for row in rows if not usual.fits(row)]):
        return Choice(usual=usual, others=()) if any(usual.said) else None
    own = yield from _Search(server=server, text=text, columns=_columns(others), must_fit=True).find()
    return Choice(usual=usual, others=usual.said if own is None else own.said)


def _columns(rows: Sequence[Row]) -> list[list[str]]:
    """The values of each parameter that are known."""
    count = max(map(len, rows))
    return [[value for row in rows if place < len(row) and (value := row[place]) is not None] for place in range(count)]


def _usual_look(values: Sequence[str]) -> int:
    ((look, _),) = Counter(look_of((value,)) for value in values[:_SOME]).most_common(1) or [(_UNKNOWN, 0)]
    return look


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """Why the server does not take a statement; ``about`` tells one reason from another."""

    code: str
    about: tuple[bytes | None, ...]


@dataclass(slots=True, kw_only=True)
class _Search:
    """For as few types as have to be said. What does not change the server's first objection is of no use against it;
    so a parameter on which another statement would come of it keeps the type that the server infers.
    """

    server: "pq.abc.PGconn"
    text: bytes
    columns: Sequence[Sequence[str]]
    must_fit: bool  # all the values, else only the usual ones
    looks: Types = ()
    tries: int = 0

    def find(self) -> PQGen[Said | None]:
        nothing = (_UNKNOWN,) * len(self.columns)
        found = yield from self._prepare(nothing)
        if self.must_fit or isinstance(found, _Refusal):
            self.looks = tuple(map(look_of if self.must_fit else _usual_look, self.columns))
        return (yield from self._go_on(nothing, found))

    def _places(self) -> list[int]:
        """In the order of trying: that it is a text is said last, and of what is never known only then."""
        return sorted(range(len(self.looks)), key=lambda place: (not self.looks[place], self.looks[place] == _TEXT))

    def _go_on(self, said: Types, found: Types | _Refusal) -> PQGen[Said | None]:
        """From what the server made of what is ``said`` so far."""
        if not isinstance(found, _Refusal):
            return (yield from self._fit(said, found))
        if found.code not in _OF_TYPES:
            return None
        for place in self._places():
            if said[place] or self.tries >= _MOST_TRIES:
                continue
            more = (*said[:place], self.looks[place] or _TEXT, *said[place + 1 :])
            now = yield from self._prepare(more)
            if now != found and (end := (yield from self._go_on(more, now))) is not None:
                return end
        return None

    def _fit(self, said: Types, made: Types) -> PQGen[Said | None]:
        if len(made) != len(said):
            return None
        unfit = {
            place
            for place, values in enumerate(self.columns)
            if self.must_fit and not said[place] and not all(_can_be(value, made[place]) for value in values)
        }
        if not unfit:
            return Said(said=said, made=made)
        more = tuple(self.looks[place] if place in unfit else oid for place, oid in enumerate(said))
        return (yield from self._go_on(more, (yield from self._prepare(more))))

    def _prepare(self, types: Types) -> PQGen[Types | _Refusal]:
        """The types of its parameters by the server, or why it takes it not."""
        self.tries += 1
        self.server.send_prepare(b"", self.text, types if any(types) else ())
        made = yield from _answer(self.server)
        if made.status == pq.ExecStatus.FATAL_ERROR:
            return _refusal(made)
        self.server.send_describe_prepared(b"")
        told = yield from _answer(self.server)
        if told.status == pq.ExecStatus.FATAL_ERROR:
            return _refusal(told)
        return tuple(told.param_type(place) for place in range(told.nparams))


def _answer(server: "pq.abc.PGconn") -> PQGen["pq.abc.PGresult"]:
    yield from generators.send(server)
    results: list[pq.abc.PGresult] = yield from generators.fetch_many(server)
    return results[-1]


def _refusal(result: "pq.abc.PGresult") -> _Refusal:
    fields = (pq.DiagnosticField.STATEMENT_POSITION, pq.DiagnosticField.MESSAGE_PRIMARY)
    code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    return _Refusal(code=code, about=tuple(result.error_field(each) for each in fields))
