"""What statements may do besides reading and writing rows, by the catalogue: functions in views, triggers and rules.

The catalogue knows what expressions call. What the body of a function calls it does not know: of those in SQL and in
trusted languages words before a parenthesis are taken for calls, and what a body puts together is not seen.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, LiteralString

import psycopg

_Connection = psycopg.AsyncConnection[tuple[Any, ...]]

_FUNCTIONS: LiteralString = """
SELECT p.oid::bigint, p.proname, n.nspname = 'pg_catalog', p.provolatile = 'v', l.lanname, l.lanpltrusted, e.extname,
       ARRAY(SELECT DISTINCT pg_catalog.lower(m[1])
             FROM pg_catalog.regexp_matches(p.prosrc, '([[:alpha:]_][[:alnum:]_$]*)"?[[:space:]]*[(]', 'g') AS m
             WHERE l.lanpltrusted AND e.extname IS NULL),
       ARRAY(SELECT DISTINCT m[1]::bigint
             FROM pg_catalog.regexp_matches(p.prosqlbody::text, ':(?:funcid|opfuncid) ([0-9]+)', 'g') AS m),
       CASE WHEN l.lanname IN ('sql', 'plpgsql') AND l.lanpltrusted AND e.extname IS NULL
                 AND n.nspname NOT IN ('pg_catalog', 'information_schema') THEN p.prosrc ELSE '' END
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
JOIN pg_catalog.pg_language l ON l.oid = p.prolang
LEFT JOIN pg_catalog.pg_depend d
    ON d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
LEFT JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
WHERE p.provolatile = 'v' OR n.nspname NOT IN ('pg_catalog', 'information_schema')"""

# The catalogue notes no dependence on what the server brings itself, so the expressions as they are stored are read.
_EXPRESSIONS: LiteralString = """
WITH expressions AS (
    SELECT CASE WHEN r.rulename = '_RETURN' THEN 'view' ELSE 'rule' END AS kind, r.ev_class AS relation,
           r.rulename AS name, r.ev_action::text || r.ev_qual::text AS tree
    FROM pg_catalog.pg_rewrite r WHERE r.ev_enabled IN ('O', 'A')
    UNION ALL
    SELECT 'policy', polrelid, polname, coalesce(polqual::text, '') || coalesce(polwithcheck::text, '')
    FROM pg_catalog.pg_policy
    UNION ALL
    SELECT 'default', adrelid, 'default', adbin::text FROM pg_catalog.pg_attrdef
)
SELECT x.kind, x.relation::bigint, x.name,
       ARRAY(SELECT DISTINCT m[1]::bigint FROM pg_catalog.regexp_matches(
           x.tree, ':(?:funcid|opfuncid|aggfnoid|winfnoid|tsmhandler) ([0-9]+)', 'g') AS m),
       ARRAY(SELECT DISTINCT m[1]::bigint FROM pg_catalog.regexp_matches(x.tree, ':relid ([0-9]+)', 'g') AS m)
FROM expressions x JOIN pg_catalog.pg_class c ON c.oid = x.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND c.relkind <> 'm' AND (x.kind <> 'policy' OR c.relrowsecurity)"""

_TRIGGERS: LiteralString = """
SELECT t.tgrelid::bigint, t.tgname, t.tgfoid::bigint FROM pg_catalog.pg_trigger t
WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')"""

# Where a written row is written, too: partitions and heirs, and those that a foreign key takes along.
_BELOW: LiteralString = """
SELECT inhparent::bigint, inhrelid::bigint FROM pg_catalog.pg_inherits
UNION SELECT confrelid::bigint, conrelid::bigint FROM pg_catalog.pg_constraint
WHERE contype = 'f' AND (confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'))"""

_RELATIONS: LiteralString = """
SELECT c.oid::bigint, c.relname, c.relkind, n.nspname IN ('pg_catalog', 'information_schema'), n.nspname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'f')"""

# Of the server's own functions those that only tell the time, draw a number or count.
_HARMLESS = frozenset((
    *("random", "nextval", "clock_timestamp", "timeofday", "gen_random_uuid", "random_normal", "uuidv4", "uuidv7"),
))  # fmt: skip
_COMPUTE = frozenset(("uuid-ossp", "pgcrypto"))  # extensions whose functions draw numbers and compute
# Extensions whose triggers change rows of the database, or tell sessions that listen.
_LOCAL = frozenset((
    *(*_COMPUTE, "autoinc", "citus", "insert_username", "lo", "moddatetime", "pg_ivm", "postgis", "refint", "tcn"),
    *("temporal_tables", "timescaledb"),
))  # fmt: skip
# Words of a body that does more than compute and read, in SQL and PL/pgSQL.
_ACTS = frozenset(
    "ALTER ANALYZE CALL CHECKPOINT CLUSTER COMMENT COMMIT COPY CREATE DEALLOCATE DELETE DISCARD DO DROP EXECUTE "  # noqa: SIM905
    "GRANT IMPORT INSERT LISTEN LOAD LOCK MERGE NOTIFY PREPARE REASSIGN REFRESH REINDEX RESET REVOKE ROLLBACK SECURITY "
    "SET TRUNCATE UNLISTEN UPDATE VACUUM".split()
)
_MORE = "which may do more than read and write rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """By names without their schemas, for that is all that a text is sure to have.

    ``functions`` may do more than compute. ``reads`` (with the schemas below the names) and ``writes`` say what reading
    from a relation, or writing to it, does beside that, as the end of a sentence that begins with it. ``triggers`` are
    those of a table, and of what is written with it, which call functions of the application that are not known to
    reach out of the database. ``presumed`` are functions that are VOLATILE, as all are that say nothing else, and whose
    body has no word that writes.
    """

    functions: frozenset[str] = frozenset()
    reads: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    writes: Mapping[str, str] = field(default_factory=dict)
    triggers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    presumed: frozenset[str] = frozenset()


async def read_effects(connection: _Connection) -> Effects:
    rows = [
        await (await connection.execute(query)).fetchall()
        for query in (_FUNCTIONS, _EXPRESSIONS, _TRIGGERS, _BELOW, _RELATIONS)
    ]
    return _Catalogue(*rows).effects()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    name: str
    is_of_server: bool
    is_volatile: bool
    language: str
    is_trusted: bool
    extension: str | None
    calls: frozenset[str]
    calls_by_number: frozenset[int]
    body: str

    def only_reads(self, risky: Iterable[str]) -> bool:
        """Whether the body has no word that writes, and none of the ``risky`` names of relations.

        An SQL function makes a table by INTO, and a name with escapes is not read here.
        """
        body = self.body.casefold()
        words = frozenset(re.findall(r"\w+", self.body.upper()))
        is_plain = bool(body) and 'u&"' not in body and not words & _ACTS
        makes_table = self.language == "sql" and "INTO" in words
        return is_plain and not makes_table and not any(name.casefold().replace('"', '""') in body for name in risky)

    @property
    def has_effects(self) -> bool:
        """By its own word, or for its language, which may do everything."""
        is_harmless = self.name in _HARMLESS if self.is_of_server else self.extension in _COMPUTE
        return (self.is_volatile and not is_harmless) or self._is_free

    @property
    def reaches_out(self) -> bool:
        """Whether it may do something outside of the database."""
        is_of_others = self.extension is not None and self.is_volatile and self.extension not in _LOCAL
        return not self.is_of_server and (is_of_others or self._is_free)

    @property
    def _is_free(self) -> bool:
        """In a language without limits; what an extension has in C is as it says."""
        is_compiled = self.language == "c" and self.extension is not None
        return not self.is_of_server and not self.is_trusted and self.language != "internal" and not is_compiled

    def say(self) -> str:
        where = f" of extension {self.extension}" if self.extension else ""
        return f"{self.name}{where or ('' if self.is_trusted else f' in {self.language}')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expression:
    kind: str
    name: str
    calls: tuple[int, ...]
    reads: tuple[int, ...]


class _Catalogue:
    def __init__(
        self,
        functions: Iterable[tuple[Any, ...]],
        expressions: Iterable[tuple[Any, ...]],
        triggers: Iterable[tuple[Any, ...]],
        below: Iterable[tuple[Any, ...]],
        relations: Iterable[tuple[Any, ...]],
    ) -> None:
        self.functions = {
            number: _Function(
                name=name,
                is_of_server=is_of_server,
                is_volatile=is_volatile,
                language=language,
                is_trusted=is_trusted,
                extension=extension,
                calls=frozenset(calls),
                calls_by_number=frozenset(by_number),
                body=body,
            )
            for number, name, is_of_server, is_volatile, language, is_trusted, extension, calls, by_number, body in (
                functions
            )
        }
        self.expressions: dict[int, list[_Expression]] = {}
        for kind, relation, name, calls, reads in expressions:
            self.expressions.setdefault(relation, []).append(
                _Expression(kind=kind, name=name, calls=tuple(calls), reads=tuple(reads))
            )
        self.triggers: dict[int, list[tuple[str, int]]] = {}
        for relation, name, function in triggers:
            self.triggers.setdefault(relation, []).append((name, function))
        self.below: dict[int, list[int]] = {}
        for relation, other in below:
            self.below.setdefault(relation, []).append(other)
        self.relations: dict[int, tuple[str, str, bool]] = {}
        self.schemas: dict[int, str] = {}
        for number, name, kind, is_of_server, schema in relations:
            self.relations[number], self.schemas[number] = (name, kind, is_of_server), schema
        # Foreign tables, views and policies may do more when they are read.
        risky = {name for name, kind, is_of_server in self.relations.values() if kind in "fv" and not is_of_server}
        risky |= {self.relations[number][0] for number in self.expressions if self._has_policy(number)}
        reading = {
            number for number, each in self.functions.items() if each.is_volatile and each.only_reads(sorted(risky))
        }
        for number in reading:
            each = self.functions[number]  # (row).f calls f, too
            self.functions[number] = replace(each, calls=each.calls | {*re.findall(r"\w+", each.body.lower())})
        # Functions by number, each with what it calls, itself perhaps, for which it counts.
        self.with_effects = self._closure(
            {number: each.name for number, each in self.functions.items() if each.has_effects and number not in reading}
        )
        self.presumed = reading - self.with_effects.keys()
        self.reaching_out = self._closure(
            {number: each.say() for number, each in self.functions.items() if each.reaches_out}
        )

    def _has_policy(self, relation: int) -> bool:
        return relation in self.relations and any(each.kind == "policy" for each in self.expressions[relation])

    def _closure(self, found: dict[int, str]) -> dict[int, str]:
        """With functions that call those found, and so on."""
        while True:
            names = {self.functions[number].name: said for number, said in found.items()}
            more = {}
            for number, each in self.functions.items():
                if number not in found:
                    said = [found[other] for other in each.calls_by_number if other in found]
                    said += [names[name] for name in each.calls if name in names]
                    if said:
                        more[number] = min(said)
            if not more:
                return found
            found = found | more

    def effects(self) -> Effects:
        own = {number: name for number, (name, _, is_of_server) in self.relations.items() if not is_of_server}
        reads: dict[str, dict[str, str]] = {}
        for number, name in own.items():
            if what := next(self._reads(number, set()), ""):
                reads.setdefault(name, {})[self.schemas[number]] = what
        return Effects(
            functions=frozenset(self.functions[number].name for number in self.with_effects),
            presumed=frozenset(self.functions[number].name for number in self.presumed),
            reads=reads,
            writes=_first((name, said) for number, name in own.items() for said in self._writes(number, set())),
            triggers={
                name: tuple(dict.fromkeys(said))
                for number, name in own.items()
                if (said := [*self._warnings(number, set())])
            },
        )

    def _reads(self, relation: int, seen: set[int]) -> Iterator[str]:
        if relation in seen:
            return
        is_first = not seen
        seen.add(relation)
        _, kind, is_of_server = self.relations.get(relation, ("", "", False))
        if kind == "f":
            yield "a table of another server" if is_first else "which reads a table of another server"
        if is_of_server and not is_first:
            yield "which asks the server about itself"
            return
        for each in self.expressions.get(relation, ()):
            if each.kind in ("view", "policy"):
                whose = "which" if each.kind == "view" else f"whose policy {each.name}"
                yield from (
                    f"{whose} calls {self.with_effects[call]}, {_MORE}"
                    for call in each.calls
                    if call in self.with_effects
                )
                for other in each.reads:
                    yield from self._reads(other, seen)

    def _writes(self, relation: int, seen: set[int]) -> Iterator[str]:
        for number, so in self._written(relation, seen):
            name, kind, _ = self.relations.get(number, ("", "", False))
            also = f"and so to {name}, " if so else ""
            if kind == "f":
                yield f"{also}a table of another server"
            yield from (
                f"{also}which has the rule {each.name}"
                for each in self.expressions.get(number, ())
                if each.kind == "rule"
            )
            for what, function in self._run_by(number):
                if function in self.reaching_out:
                    yield f"{also}whose {what} calls {self.reaching_out[function]}, {_MORE}"

    def _warnings(self, relation: int, seen: set[int]) -> Iterator[str]:
        for number, _ in self._written(relation, seen):
            for what, function in self._run_by(number):
                may_act = function in self.with_effects or function in self.presumed
                if may_act and function not in self.reaching_out:
                    called = self.functions[function]
                    if not called.is_of_server and called.extension not in _LOCAL:
                        yield f"{self.relations[number][0]}: {what} calls {called.name}"

    def _run_by(self, relation: int) -> Iterator[tuple[str, int]]:
        """What runs a function when a row is written, and the function."""
        yield from ((f"trigger {name}", function) for name, function in self.triggers.get(relation, ()))
        for each in self.expressions.get(relation, ()):
            if each.kind == "default":
                yield from (("default", call) for call in each.calls)

    def _written(self, relation: int, seen: set[int]) -> Iterator[tuple[int, bool]]:
        """The relations to which something is written, and whether it is another one that a statement names."""
        pending = [relation]
        while pending:
            number = pending.pop()
            if number in seen:
                continue
            yield number, bool(seen)
            seen.add(number)
            views = (each for each in self.expressions.get(number, ()) if each.kind == "view")
            others = [*(other for each in views for other in each.reads), *self.below.get(number, ())]
            pending += reversed(others)


def _first(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, said in pairs:
        found.setdefault(name, said)
    return found
