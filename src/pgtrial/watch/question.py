"""From what two times of a live server point to, to experiment files: production's mix, its settings, and an arm.

The mix is that of ``pgtrial workload``. The suspected cause is the arm; the size that would matter is half of what the
incident cost. What no setting, index or script can answer gets no file, and is said.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

from pgtrial.collectors.sessions import shown_query
from pgtrial.errors import PreflightError, SpecError
from pgtrial.experiment_file.arms import find_fault
from pgtrial.experiment_file.generate import file_text, typed_text
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.postgres.connect import as_answered, fetch
from pgtrial.postgres.existing.address import find_server
from pgtrial.postgres.programs import OLDEST_MAJOR
from pgtrial.postgres.settings import Setting, read_settings
from pgtrial.safe_text import make_visible
from pgtrial.units import format_bytes, format_share, parse_bytes
from pgtrial.watch.compare import Comparison
from pgtrial.watch.folder import Mark
from pgtrial.watch.series import TIME_NAME
from pgtrial.watch.words import Pointer, Suspicion
from pgtrial.workloads.production.draws import name_of, quote
from pgtrial.workloads.production.scripts import DerivedScripts, Script
from pgtrial.workloads.production.uses import Role

DRAW = "rows"  # of the drawn loads the one whose values are asked for as often as rows have them
WITHOUT = "without"  # directory of scripts that leave out a statement
# What a load meets; where files lie, who may log in and what is logged is the machine's own.
_CATEGORIES = re.compile(r"(?:Resource Usage|Query Tuning|Write-Ahead Log|Autovacuum|Lock Management)\b.*")
_SET = ("configuration file", "command line", "database", "user", "database user", "global")
# The first columns of the indexes of a table.
LEADING: LiteralString = """
SELECT n.nspname, c.relname, a.attname
FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
WHERE i.indisvalid"""
CATEGORIES: LiteralString = "SELECT name, category FROM pg_catalog.pg_settings"
_FACTORS = {"work_mem": 16, "shared_buffers": 4, "max_wal_size": 4}
_SETTINGS = {
    Suspicion.SPILL: ("work_mem", "more work_mem keeps sorts and hashes out of temporary files"),
    Suspicion.CACHE: ("shared_buffers", "larger shared_buffers have more of what is asked for"),
    Suspicion.CHECKPOINTS: ("max_wal_size", "a larger max_wal_size makes checkpoints rarer"),
}
_NO_ANSWER = {
    Suspicion.LOCKS: "who holds a lock too long is the application's; idle_in_transaction_session_timeout ends it",
    Suspicion.VACUUM: "a vacuum does not show in a load of seconds; a soak has it (docs/tutorial/own-workload.md)",
    Suspicion.CPU: "the machine's other users are not in an experiment",
    Suspicion.BLOAT: "a copy of the data has no dead rows; VACUUM, and no transaction that stays open, keep them few",
    Suspicion.DISK: "the disk of the server is not in an experiment; slower ones are (docs/disks.md)",
    Suspicion.CONNECTIONS: "who opens connections is the application's; a pooler in front of the server keeps them",
    Suspicion.SLOT: "who reads from a slot is not in an experiment; max_slot_wal_keep_size limits what it holds",
    Suspicion.LOAD: "more load is no change of the server; more clients in [workload] show what it holds",
}
_LEAST_MARGIN, _MOST_MARGIN, _USUAL_MARGIN = 0.02, 0.3, 0.05
_TYPED = "the command"  # that names the server
# Without a literal: the server remembers it as a statement of the database, and what is drawn for it has to work.
_VERSION, _DATABASE = "SHOW server_version_num", "SELECT current_database()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a server says: its major version, settings and their categories, and columns with which indexes begin."""

    major: int
    settings: Mapping[str, Setting]
    categories: Mapping[str, str]
    leading: frozenset[tuple[str, str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``text`` of an experiment file, or "" and the reason why there is none; ``scripts`` are files beside it."""

    pointer: Pointer
    name: str
    text: str = ""
    scripts: Mapping[str, str] | None = None
    why_not: str = ""


def questions(found: Comparison, pointers: Sequence[Pointer], plan: DerivedScripts, facts: Facts) -> Iterator[Question]:
    """One of each pointer; ``plan`` is that of the folder in which the files will lie."""
    asked = {each.code: each for each in reversed(pointers)}
    for pointer in asked.values():
        name = f"question-{pointer.code}"
        arm = _arm(pointer, plan, facts)
        rows = asked.get(Suspicion.ROWS)
        if pointer.code is Suspicion.PLAN and rows is not None and rows.statement == pointer.statement:
            arm = f"question-{rows.code} is about the same statement"
        if isinstance(arm, str):
            yield Question(pointer=pointer, name=name, why_not=arm)
            continue
        text = file_text(
            f"Asked by pgtrial of {found.b} beside {found.a}: {make_visible(pointer.text)}",
            _tables(found, plan, facts, arm, name=name),
        )
        yield Question(pointer=pointer, name=name, text=text, scripts=arm.scripts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arm:
    name: str
    claim: str
    tables: Mapping[str, Any]
    scripts: Mapping[str, str] | None = None
    scenario: str | None = None


def _arm(pointer: Pointer, plan: DerivedScripts, facts: Facts) -> _Arm | str:
    """The arm with the suspected cause put right; a text that says why there is none."""
    if pointer.code in _SETTINGS:
        setting, claim = _SETTINGS[pointer.code]
        factor = _FACTORS[setting]
        value = format_bytes(factor * parse_bytes(facts.settings[setting].shown)).replace(" ", "")
        return _Arm(name=f"more_{setting}", claim=claim, tables={POSTGRESQL: {setting: value}})
    if pointer.code in _NO_ANSWER:
        return _NO_ANSWER[pointer.code]
    if not pointer.statement:
        return "no statement has more sessions at work for sure; longer windows tell more"
    script = _script_of(pointer, plan)
    if script is None:
        return "its statement is not part of the load that pg_stat_statements remembers"
    if pointer.code is Suspicion.NEW_STATEMENT:
        rest = [each for each in plan.scripts if each is not script]
        if not rest:
            return "there is no other statement whose time it could cost"
        path = f"{WITHOUT}/{script.name}.sql"
        return _Arm(
            name=WITHOUT,
            claim="without the new statement the one that takes most time of the others is faster",
            tables={"workload": {"scripts": {script.name: path}}},
            scripts={path: "SELECT 1;\n"},
            scenario=rest[0].name,
        )
    if missing := _missing_index(script, pointer, facts):
        return _Arm(
            name="indexed",
            claim="an index on what is searched makes it fast again",
            tables={"sql": {"apply": f"CREATE INDEX ON {missing}; ANALYZE"}},
        )
    return _Arm(
        name="analyzed",
        claim="new statistics give the plans that are fast",
        tables={"sql": {"apply": "ANALYZE"}},
    )


def _script_of(pointer: Pointer, plan: DerivedScripts) -> Script | None:
    return next(
        (
            script
            for script in plan.scripts
            for member in script.members
            if shown_query(member.statement.text) == pointer.statement
        ),
        None,
    )


def _missing_index(script: Script, pointer: Pointer, facts: Facts) -> str | None:
    """Table and column of the first search of the statement that no index begins with."""
    for member in script.members:
        if shown_query(member.statement.text) == pointer.statement:
            for use in member.shape.uses:
                is_search = use.role in (Role.EQUAL, Role.ANY, Role.LOW, Role.HIGH)
                if is_search and use.table is not None and (*use.table, use.column) not in facts.leading:
                    return f"{name_of(use.table)} ({quote(use.column)})"
    return None


def _tables(found: Comparison, plan: DerivedScripts, facts: Facts, arm: _Arm, *, name: str) -> dict[str, Any]:
    scenarios = [{"name": each.name, "file": f"{DRAW}/{each.name}.sql", "share": each.calls} for each in plan.scripts]
    claimed = {"scenario": arm.scenario} if arm.scenario else {}
    active = found.throughput[-1].b or 0.0
    return {
        "experiment": {
            "name": name,
            "description": f"The load has {format_share(plan.kept)} of the time of the statements that the server "
            "remembered; what an arm promises is of that.",
        },
        "hypothesis": {
            "claim": arm.claim,
            "arm": arm.name,
            "metric": "pgbench.latency_mean",
            **claimed,
            "expect": "better",
            "margin": f"{100 * _margin(found):.0f}%",
        },
        "target": {"postgres": str(facts.major), POSTGRESQL: dict(_settings(facts))},
        "dataset": {"kind": "sql", "load": "copy.dump", "setup": f"{DRAW}/setup.sql"},
        "workload": {
            "clients": min(64, max(2, round(active))),
            "duration": "20s",
            "protocol": "extended",
            "share": "transactions",
            "scenario": scenarios,
        },
        "arms": {"as_it_is": {"description": "as the server is"}, arm.name: dict(arm.tables)},
        "design": {"blocks": 6},
    }


def _margin(found: Comparison) -> float:
    """Half of the way back from B to A, where the time at work per commit has grown for sure."""
    time = next(row for row in found.throughput if row.name == TIME_NAME)
    if time.side <= 0 or time.change is None:
        return _USUAL_MARGIN
    return min(max((1 - 1 / time.change) / 2, _LEAST_MARGIN), _MOST_MARGIN)


def _settings(facts: Facts) -> Iterator[tuple[str, str | float]]:
    """What somebody has set of what a load meets, as far as an experiment file can have it."""
    for name, setting in sorted(facts.settings.items()):
        is_told = setting.source in _SET and _CATEGORIES.fullmatch(facts.categories.get(name, ""))
        if is_told and find_fault(POSTGRESQL, name, setting.shown) is None:
            yield name, typed_text(POSTGRESQL, name, setting.shown)


def write_order(root: Path, asked: Sequence[Question]) -> Iterator[tuple[Path, str]]:
    """The files of questions in the folder of a workload, scripts before what names them."""
    for each in asked:
        for name, text in (each.scripts or {}).items():
            yield root / name, text
        if each.text:
            yield root / f"{each.name}.toml", each.text


def read_facts(dsn: str, caller: Mapping[str, str], mark: Mark) -> Facts:
    """Only reads. Raises ConnectError, TargetError, SpecError where it is not the database that was watched, and
    PreflightError where its version is too old for an experiment.
    """
    return asyncio.run(_read(dsn, caller, mark))


async def _read(dsn: str, caller: Mapping[str, str], mark: Mark) -> Facts:
    address = await find_server(dsn, database=None, caller=caller, typed=_TYPED)
    conninfo = address.conninfo()
    with as_answered():
        ((version,),) = await fetch(conninfo, _VERSION)
        ((database,),) = await fetch(conninfo, _DATABASE)
        if database != mark.database:
            raise SpecError(
                f'--server is database "{database}", and the watch is of "{mark.database}"',
                hint="Name the database that was watched: its mix is what the question is about.",
            )
        if int(version) // 10000 < OLDEST_MAJOR:
            raise PreflightError(
                f"the server is PostgreSQL {int(version) // 10000}; the oldest that experiments know is {OLDEST_MAJOR}",
                hint="Its windows can be compared all the same: pgtrial compare-times.",
            )
        settings = await read_settings(conninfo)
        categories = {str(name).lower(): str(category) for name, category in await fetch(conninfo, CATEGORIES)}
        leading = frozenset((str(a), str(b), str(c)) for a, b, c in await fetch(conninfo, LEADING))
    return Facts(major=int(version) // 10000, settings=settings, categories=categories, leading=leading)
