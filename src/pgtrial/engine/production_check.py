"""How true a load like that of an existing server is: its dials turned on a copy, and each drawn load sent to one."""

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pgtrial.engine.changes import HostChanges
from pgtrial.engine.events import ignore
from pgtrial.engine.production import SETUP, read_record
from pgtrial.engine.restore import refuse_unrestored
from pgtrial.errors import SpecError, TargetError
from pgtrial.experiment_file.code_uses import find_on_server
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import identify
from pgtrial.knobs.base import KnobContext
from pgtrial.postgres.connect import connect, execute_script
from pgtrial.postgres.existing.database import run_database
from pgtrial.postgres.existing.knobs import ServerDatabase
from pgtrial.postgres.existing.server import ExistingServer, open_server
from pgtrial.postgres.production import Statement, count_statements
from pgtrial.postgres.production_blocks import read_blocks
from pgtrial.postgres.programs import find_programs
from pgtrial.safe_files import make_directory, read_file, remove_tree, write_file
from pgtrial.store.journal import Journal
from pgtrial.store.own_place import refuse_changeable
from pgtrial.workloads.pgbench import integer_weights
from pgtrial.workloads.pgbench_output import find_errors
from pgtrial.workloads.production.draws import DRAWS, SCHEMA, dial
from pgtrial.workloads.production.fit import choose, is_close, mean_of, search, statement_of
from pgtrial.workloads.production.record import (
    FITTED,
    LARGEST,
    NEAREST,
    Fit,
    Truth,
    dials_of,
    match,
    nearest,
    setup_of,
    statements_of,
    truth_text,
    turned,
)

TRUTH = "truth.md"
_FIRST = DRAWS[0].name
_FITTED_PART = 0.999  # of the time, by the statements that take most of it: the others are not fitted
_PATIENCE = 5.0  # s of calls that are measured for one value of a dial
_CALLS = (20, 300)  # of them, at least and at most
_PILOT = 5  # calls that tell how long one takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How true each load is, and how far the dials were turned for the last one."""

    truths: tuple[Truth, ...]
    fits: tuple[Fit, ...]


def check_workload(
    connection: str, folder: Path, caller: Mapping[str, str], *, clients: int, seconds: int, in_place: bool
) -> Checked:
    """Send each drawn load for so many ``seconds``, and write how true it was.

    Each meets a fresh copy of the database at ``connection``, or with ``in_place`` that database itself. Raises
    SpecError for a folder that is no such load, ConnectError, PreflightError, TargetError, StoreError of the journal,
    RestoreError.
    """
    record = read_record(folder)
    refuse_changeable(folder, hint="Copy the folder into a directory of your own, and name the copy.")
    _refuse_code(folder, record)
    checked = asyncio.run(
        _check(connection, folder, record, caller, clients=clients, seconds=seconds, in_place=in_place)
    )
    write_file(folder / TRUTH, truth_text(record, checked.truths, checked.fits))
    return checked


def _refuse_code(folder: Path, record: Mapping[str, Any]) -> None:
    """Raise SpecError for scripts that do what none does that was written here: the folder may come from anybody."""
    names = [SETUP, *(f"{script['name']}.sql" for script in record["scripts"])]
    texts = {f"{draw.name}/{name}": _read_text(folder / draw.name / name) for draw in DRAWS for name in names}
    if uses := find_on_server(texts):
        raise SpecError(
            f'"{folder}" has scripts that "pgtrial workload" does not write',
            detail="\n".join(f"{use.where}: {use.what}" for use in uses),
            hint="Write the folder again.",
        )


async def _check(
    connection: str,
    folder: Path,
    record: Mapping[str, Any],
    caller: Mapping[str, str],
    *,
    clients: int,
    seconds: int,
    in_place: bool,
) -> Checked:
    host = LocalHost()
    server = await open_server(host, connection, database=None, restart=(), caller=caller)
    with contextlib.ExitStack() as stack:
        changes = None
        if not in_place:
            own = identify(os.getpid())
            assert own is not None  # it is this process
            journal = stack.enter_context(Journal.open(write=True))
            refuse_unrestored(journal, own=own)
            knobs = (ServerDatabase(server=server, caller=caller),)
            changes = HostChanges(journal=journal, host=host, folder=folder, knobs=knobs, owner=own, tell=ignore)
        copies = _Copies(server=server, changes=changes)
        truths: list[Truth] = []
        fits: tuple[Fit, ...] = ()
        for draw in DRAWS:
            async with copies.fresh() as database:
                truths.append(await _try(server, database, folder, draw.name, record, clients=clients, seconds=seconds))
                if draw.name == _FIRST:  # on a database that has been written to, as the original has
                    fits = await _fit(server.conninfo(database), folder, record, (), None)
        chosen = nearest(record, truths, fits)
        _write_nearest(folder, chosen, fits)
        async with copies.fresh() as database:
            truth = await _try(server, database, folder, NEAREST, record, clients=clients, seconds=seconds)
            fits = await _fit(server.conninfo(database), folder, record, fits, truth)
        _write_nearest(folder, chosen, fits)
        async with copies.fresh() as database:
            truths.append(await _try(server, database, folder, NEAREST, record, clients=clients, seconds=seconds))
    return Checked(truths=tuple(truths), fits=fits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copies:
    """Where loads are tried: copies of the database, one after the other, or the database itself."""

    server: ExistingServer
    changes: HostChanges | None

    @contextlib.asynccontextmanager
    async def fresh(self) -> AsyncIterator[str]:
        """The name of a database, which is dropped afterwards if it was made."""
        original = self.server.control.address.database
        if self.changes is None:
            yield original
            return
        token = uuid.uuid4().hex[:8]
        wanted = {ServerDatabase.name: {"name": run_database(token), "template": original}}
        try:
            made = await self.changes.make(
                KnobContext(host=self.changes.host, token=token, directory="/"), wanted, run=None
            )
        except TargetError as err:
            raise TargetError(
                f'cannot copy database "{original}": {err.message}',
                detail=err.detail,
                hint="Each load is tried on a copy of its own, which takes CREATEDB, ownership of the database, and "
                "that nobody else is connected to it. Or let all of them write to this one: --in-place.",
            ) from err
        try:
            yield run_database(token)
        finally:
            await self.changes.undo(made)


async def _fit(
    conninfo: str, folder: Path, record: Mapping[str, Any], before: tuple[Fit, ...], truth: Truth | None
) -> tuple[Fit, ...]:
    """The dials of the first load's scripts, turned until calls go through as many blocks as those of the original.

    ``before`` is how far they were turned when ``truth`` was found: what a load does meets other rows than single calls
    do afterwards, and by that ratio other blocks.
    """
    setup = turned(_read_text(folder / _FIRST / SETUP), before)
    ran = {} if truth is None else {each.script: each.copy for each in truth.matches if each.copy is not None}
    old = {(fit.script, fit.kind): fit for fit in before}
    await execute_script(conninfo, setup, name=f"{_FIRST}/{SETUP}")
    whole, seen, fits = sum(each.time for _, each in statements_of(record)), 0.0, []
    alone = {script["name"] for script in record["scripts"] if len(script["statements"]) == 1}
    try:
        for name, statement in sorted(statements_of(record), key=lambda each: -each[1].time):
            if seen > _FITTED_PART * whole:
                break
            seen += statement.time
            if name in alone and statement.blocks_per_call > 0:
                script = _read_text(folder / _FIRST / f"{name}.sql")
                fits += await _fit_script(conninfo, setup, name, script, statement, ran.get(name))
    finally:
        await execute_script(conninfo, f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", name="the end")
    found = {(fit.script, fit.kind): fit for fit in fits}
    return tuple(replace(fit, told=old[key].told) if key in old else fit for key, fit in (old | found).items())


async def _fit_script(  # noqa: PLR0917
    conninfo: str, setup: str, name: str, script: str, statement: Statement, ran: Statement | None
) -> list[Fit]:
    """One dial after the other, until one is as near as can be; none for a script that writes or has no dials."""
    try:
        found, dials = statement_of(script), dials_of(setup, name)
    except ValueError as err:
        raise SpecError(
            f'"{_FIRST}/{SETUP}" has a dial of {name} that is none', detail=str(err), hint="Write the folder again."
        ) from err
    table = f"CREATE TABLE {SCHEMA}.{name} AS "
    drawing = next((line for line in setup.splitlines() if line.startswith(table)), "")
    if found is None or not dials or not drawing:
        return []
    text, names = found
    known: dict[tuple[str, ...], int] = {}
    ratio = 1.0  # of blocks of a call in a load to those of one that is measured by itself
    fits: list[Fit] = []
    async with connect(conninfo, as_user=True) as connection:
        await connection.execute("SET statement_timeout = 0")
        for kind, value in dials.items():
            await connection.execute(f"SET {dial(name, kind)} = '{value:.6g}'".encode())
        for kind, told in dials.items():

            async def measure(value: float, kind=kind) -> float:  # type: ignore[no-untyped-def]
                await connection.execute(f"SET {dial(name, kind)} = '{value:.6g}'".encode())
                await connection.execute(f"DROP TABLE {SCHEMA}.{name}".encode())
                await connection.execute(drawing.encode(), prepare=False)
                columns = ", ".join(names)
                drawn = await connection.execute(
                    f"SELECT count(*), {columns} FROM {SCHEMA}.{name} GROUP BY {columns} "
                    f"ORDER BY count(*) DESC, {columns}".encode()
                )
                return await _mean_blocks(connection, text, await drawn.fetchall(), known)

            try:
                if ran is not None and ran.blocks_per_call > 0 and not fits:
                    ratio = ran.blocks_per_call / max(await measure(told), 1e-9)
                fitted = await search(kind, told, statement.blocks_per_call / ratio, measure)
            except TargetError:  # it writes
                return []
            await connection.execute(f"SET {dial(name, kind)} = '{fitted.value:.6g}'".encode())
            fitted = replace(fitted, blocks=fitted.blocks * ratio)
            fits.append(Fit(script=name, kind=kind, told=told, statement=statement, fitted=fitted))
            if is_close(fitted.blocks, statement.blocks_per_call):
                break
    return fits


async def _mean_blocks(
    connection: Any, text: str, drawn: Sequence[tuple[Any, ...]], known: dict[tuple[str, ...], int]
) -> float:
    """Of a call with parameters ``drawn``: how often each, and their values. ``known`` are those measured before."""
    counts, values = [count for count, *_ in drawn], [tuple(map(str, each)) for _, *each in drawn]

    async def measure(places: Sequence[int]) -> float:
        new = list(dict.fromkeys(values[place] for place in places if values[place] not in known))
        found, took = await read_blocks(connection, text, new)
        known.update(zip(new, found, strict=True))
        return took / len(new) if new else 0.0

    each = await measure(choose(counts, _PILOT, seed=0)[0])
    least, most = _CALLS
    chosen = choose(counts, min(most, max(least, round(_PATIENCE / max(each, 1e-6)))), seed=0)
    await measure([*chosen[0], *chosen[1]])
    return mean_of(counts, chosen, {place: known[values[place]] for place in (*chosen[0], *chosen[1])})


async def _try(
    server: ExistingServer,
    database: str,
    folder: Path,
    draw: str,
    record: Mapping[str, Any],
    *,
    clients: int,
    seconds: int,
) -> Truth:
    conninfo = server.conninfo(database)
    try:
        await execute_script(conninfo, _read_text(folder / draw / SETUP), name=f"{draw}/{SETUP}")
        before = await count_statements(conninfo)
        environment = server.environment(database)
        errors = await _send(environment, folder / draw, record, clients=clients, seconds=seconds)
        after = await count_statements(conninfo)
    finally:
        await execute_script(conninfo, f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", name="the end")
    return Truth(
        draw=draw, matches=match(record, before, after), drawing=_share_of_drawing(before, after), errors=errors
    )


def _write_nearest(folder: Path, chosen: Mapping[str, str], fits: Sequence[Fit]) -> None:
    """One more load, of each script as it is in the drawn load that was ``chosen`` for it."""
    texts = {draw.name: _read_text(folder / draw.name / SETUP) for draw in DRAWS}
    texts[FITTED] = turned(texts[_FIRST], fits)
    try:
        remove_tree(folder, NEAREST)  # of an earlier check
        make_directory(folder, NEAREST)
        for script, draw in chosen.items():
            write_file(
                folder / NEAREST / f"{script}.sql",
                _read_text(folder / (_FIRST if draw == FITTED else draw) / f"{script}.sql"),
            )
        write_file(folder / NEAREST / SETUP, setup_of(texts, chosen))
        text = _read_text(folder / f"{_FIRST}.toml").replace(f'"{_FIRST}/', f'"{NEAREST}/')
        write_file(folder / f"{NEAREST}.toml", text.replace(f"production-{_FIRST}", f"production-{NEAREST}"))
    except OSError as err:
        raise SpecError(f'cannot write "{folder / NEAREST}": {err.strerror}') from err


def _read_text(path: Path) -> str:
    try:
        return read_file(path, limit=LARGEST).decode()
    except (OSError, ValueError) as err:
        raise SpecError(f'cannot read "{path}"', hint='Name a folder that "pgtrial workload" wrote.') from err


async def _send(
    environment: Mapping[str, str], scripts: Path, record: Mapping[str, Any], *, clients: int, seconds: int
) -> tuple[str, ...]:
    """Errors, in pgbench's words."""
    weights = integer_weights([float(script["calls"]) for script in record["scripts"]])
    names = [f"{script['name']}.sql@{weight}" for script, weight in zip(record["scripts"], weights, strict=True)]
    arguments = ["--no-vacuum", "--protocol=extended", f"--client={clients}", f"--time={seconds}"]
    done = await LocalHost().run(
        [find_programs(None, may_run=False).path("pgbench"), *arguments, *(f"--file={name}" for name in names)],
        environment={**environment, "LC_ALL": "C"},
        directory=scripts,
        check=False,
    )
    return tuple(find_errors(done.stderr))


def _share_of_drawing(before: tuple[Statement, ...], after: tuple[Statement, ...]) -> float:
    def time(statements: tuple[Statement, ...], mark: str) -> float:
        return sum(each.time for each in statements if mark in each.text)

    whole = time(after, "") - time(before, "")
    return (time(after, f"FROM {SCHEMA}.s") - time(before, f"FROM {SCHEMA}.s")) / whole if whole > 0 else 0.0
