"""How true a load like that of an existing server is: its dials turned on a copy, and each drawn load sent to one."""

import asyncio
import contextlib
import itertools
import json
import os
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgtrial.engine.changes import HostChanges
from pgtrial.engine.events import ignore
from pgtrial.engine.production import SETUP, TYPED, read_record, read_text
from pgtrial.engine.production_fit import FIRST, fit_dials
from pgtrial.engine.restore import refuse_unrestored
from pgtrial.engine.signals import until_signalled
from pgtrial.errors import SpecError, TargetError
from pgtrial.experiment_file.code_uses import find_on_server
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import identify
from pgtrial.knobs.base import KnobContext
from pgtrial.postgres.connect import execute_script, refuse_shared
from pgtrial.postgres.existing.database import run_database
from pgtrial.postgres.existing.knobs import ServerDatabase
from pgtrial.postgres.existing.server import ExistingServer, open_server
from pgtrial.postgres.production import Statement, count_statements
from pgtrial.postgres.programs import find_programs
from pgtrial.safe_files import make_directory, remove_tree, write_file
from pgtrial.store.journal import Journal
from pgtrial.store.own_place import refuse_changeable
from pgtrial.units import format_duration
from pgtrial.workloads.pgbench import ENVIRONMENT, integer_weights
from pgtrial.workloads.pgbench_output import find_errors
from pgtrial.workloads.production.draws import DRAWS, SCHEMA
from pgtrial.workloads.production.failures import Failure, find_failures, name_scripts, without_values
from pgtrial.workloads.production.fit import MOST_LOADS, is_enough
from pgtrial.workloads.production.record import (
    FITTED,
    NEAREST,
    Drift,
    Fit,
    Truth,
    find_drifts,
    match,
    nearest,
    only_scripts,
    setup_of,
    trigger_text,
    truth_text,
    turned,
)

TRUTH = "truth.md"
_FITTING = "calls with other parameters are measured, to turn the dials"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How true each load is, and how far the dials were turned for the last one."""

    truths: tuple[Truth, ...]
    fits: tuple[Fit, ...]


def check_workload(
    connection: str,
    folder: Path,
    caller: Mapping[str, str],
    *,
    clients: int,
    seconds: int,
    in_place: bool,
    tell: Callable[[str], None],
) -> Checked:
    """Send each drawn load for so many ``seconds``, ``tell`` what goes on, and write after each how true it was.

    Each meets a fresh copy of the database at ``connection``, or with ``in_place`` that database itself. Raises
    SpecError for a folder that is no such load, ConnectError, PreflightError, TargetError, StoreError of the journal,
    RestoreError; KeyboardInterrupt at a signal, when the copy is dropped.
    """
    record = read_record(folder)
    refuse_changeable(folder, hint="Copy the folder into a directory of your own, and name the copy.")
    _refuse_code(folder, record)
    for said in record["triggers"]:
        tell(trigger_text(said))
    work = _check(connection, folder, record, caller, clients=clients, seconds=seconds, in_place=in_place, tell=tell)
    return asyncio.run(until_signalled(work))


def _refuse_code(folder: Path, record: Mapping[str, Any]) -> None:
    """Raise SpecError for scripts that do what none does that was written here: the folder may come from anybody."""
    names = [SETUP, *(f"{script['name']}.sql" for script in record["scripts"])]
    texts = {f"{draw.name}/{name}": read_text(folder / draw.name / name) for draw in DRAWS for name in names}
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
    tell: Callable[[str], None],
) -> Checked:
    host = LocalHost()
    server = await _open(host, connection, caller)
    with contextlib.ExitStack() as stack:
        changes = None
        if not in_place:
            own = identify(os.getpid())
            assert own is not None  # it is this process
            journal = stack.enter_context(Journal.open(write=True))
            refuse_unrestored(journal, own=own)
            knobs = (ServerDatabase(server=server, caller=caller),)
            changes = HostChanges(journal=journal, host=host, folder=folder, knobs=knobs, owner=own, tell=ignore)
        copies = _Copies(server=server, changes=changes, tell=tell)
        truths: list[Truth] = []
        fits: tuple[Fit, ...] = ()
        numbers = itertools.count(1)
        most = len(DRAWS) + MOST_LOADS + 1
        tell(
            f"{len(DRAWS) + 1} to {most} loads are sent, each for {format_duration(seconds)}; "
            "in between the dials are turned"
        )

        async def attempt(database: str, *, draw: str, known: tuple[Failure, ...] = ()) -> Truth:
            tell(f"load {next(numbers)} of at most {most}: {draw}")
            return await _try(
                server,
                database,
                folder=folder,
                draw=draw,
                record=record,
                clients=clients,
                seconds=seconds,
                tell=tell,
                known=known,
            )

        def keep(truths: Sequence[Truth], fits: Sequence[Fit], *, is_whole: bool = False) -> None:
            write_file(folder / TRUTH, truth_text(record, truths, fits, is_whole=is_whole))

        for draw in DRAWS:
            async with copies.fresh() as database:
                truths.append(await attempt(database, draw=draw.name))
                keep(truths, fits)
                if draw.name == FIRST:  # on a database that has been written to, as the original has
                    tell(_FITTING)
                    fits = await fit_dials(server.conninfo(database), folder, record, [])
        hopeless = frozenset.intersection(*(truth.failed for truth in truths))
        failures = tuple(each for each in truths[0].failures if each.script in hopeless)
        chosen = _without(failures, nearest(record, truths, fits))
        tried: list[tuple[Truth, tuple[Fit, ...]]] = []
        while True:
            _write_nearest(folder, chosen, fits)
            async with copies.fresh() as database:
                truth = await attempt(database, draw=NEAREST, known=failures)
                tried.append((truth, fits))
                keep([*truths, truth], fits)
                failures = truth.failures
                chosen = _without(failures, chosen)
                if is_enough([each.block_error(of_copy=False) for each, _ in tried]):
                    break
                tell(_FITTING)
                fits = await fit_dials(server.conninfo(database), folder, record, tried)
        truth, fits = min(tried, key=lambda each: each[0].block_error(of_copy=False))
        _write_nearest(folder, chosen, fits)
        if len(tried) > 1:  # the best of several is better than it will be again
            async with copies.fresh() as database:
                truth = await attempt(database, draw=NEAREST, known=failures)
        truths.append(truth)
        keep(truths, fits, is_whole=True)
    return Checked(truths=tuple(truths), fits=fits)


async def _open(host: LocalHost, connection: str, caller: Mapping[str, str]) -> ExistingServer:
    """The server of the copy. Raises TargetError where a pooler stands before it."""
    server = await open_server(host, connection, database=None, restart=(), caller=caller, typed=TYPED)
    await refuse_shared(server.conninfo(), "what is measured there sets dials and limits")
    return server


def _without(failures: Sequence[Failure], chosen: Mapping[str, str]) -> dict[str, str]:
    """The scripts that do not fail. Raises TargetError if there are none."""
    failed = {each.script for each in failures}
    rest = {name: draw for name, draw in chosen.items() if name not in failed}
    if not rest:
        raise TargetError(
            "no script of the load can be sent to this database",
            detail="\n".join(f"{each.script}: {each}" for each in failures),
            hint="Make the copy from the server that was read, and write the folder again.",
        )
    return rest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copies:
    """Where loads are tried: copies of the database, one after the other, or the database itself."""

    server: ExistingServer
    changes: HostChanges | None
    tell: Callable[[str], None]
    told: set[str] = field(default_factory=set, init=False)  # settings that copies lack

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
        lacking = [name for entry in made for name in json.loads((entry.got or {}).get("left_out", "[]"))]
        if not self.told.issuperset(lacking):
            self.told.update(lacking)
            self.tell(f"Copies lack settings of the original, which your role may not give them: {', '.join(lacking)}")
        try:
            yield run_database(token)
        finally:
            await self.changes.undo(made)


async def _try(
    server: ExistingServer,
    database: str,
    *,
    folder: Path,
    draw: str,
    record: Mapping[str, Any],
    clients: int,
    seconds: int,
    tell: Callable[[str], None],
    known: tuple[Failure, ...] = (),
) -> Truth:
    """Send a load; once more without scripts that fail, as often as some do. Those ``known`` to fail are not sent."""
    conninfo = server.conninfo(database)
    tell(f"{draw}: its parameters are drawn, then it is sent for {format_duration(seconds)}")
    failures = [*known]
    shares = {script["name"]: float(script["calls"]) for script in record["scripts"]}
    rest = {name: share for name, share in shares.items() if name not in {each.script for each in known}}
    texts = {name: read_text(folder / draw / f"{name}.sql") for name in rest}
    try:
        await execute_script(conninfo, read_text(folder / draw / SETUP), name=f"{draw}/{SETUP}")
        while True:
            before = await count_statements(conninfo)
            environment = server.environment(database)
            halfway = asyncio.create_task(_count_after(seconds / 2, conninfo))
            try:
                errors = await _send(environment, folder / draw, rest, clients=clients, seconds=seconds)
            finally:
                halfway.cancel()  # where all sessions have failed before
                await asyncio.gather(halfway, return_exceptions=True)
            after = await count_statements(conninfo)
            failed = [*find_failures(errors, {name: texts[name] for name in rest})]
            failures += failed
            for each in failed:
                del rest[each.script]
                tell(f"{draw}: {each.script} fails, {each}")
            if not failed or not rest:
                break
            tell(f"{draw}: it is sent once more without what fails")
    finally:
        await execute_script(conninfo, f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", name="the end")
    drifts: tuple[Drift, ...] = ()
    if not halfway.cancelled():
        try:
            drifts = find_drifts(record, before, halfway.result(), after)
        except TargetError as err:
            tell(
                f"{draw}: what was counted halfway cannot be read, so it is not known whether blocks of a call change "
                f"while it is sent: {err.line}"
            )
    return Truth(
        draw=draw,
        matches=tuple(each for each in match(record, before, after) if each.script in rest),
        drifts=tuple(each for each in drifts if each.script in rest),
        drawing=_share_of_drawing(before, after),
        failures=tuple(failures),
        errors=() if failed else tuple(map(without_values, errors)),
    )


async def _count_after(seconds: float, conninfo: str) -> tuple[Statement, ...]:
    await asyncio.sleep(seconds)
    return await count_statements(conninfo)


def _write_nearest(folder: Path, chosen: Mapping[str, str], fits: Sequence[Fit]) -> None:
    """One more load, of each script as it is in the drawn load that was ``chosen`` for it."""
    texts = {draw.name: read_text(folder / draw.name / SETUP) for draw in DRAWS}
    texts[FITTED] = turned(texts[FIRST], fits)
    try:
        remove_tree(folder, NEAREST)  # of an earlier check
        make_directory(folder, NEAREST)
        for script, draw in chosen.items():
            write_file(
                folder / NEAREST / f"{script}.sql",
                read_text(folder / (FIRST if draw == FITTED else draw) / f"{script}.sql"),
            )
        write_file(folder / NEAREST / SETUP, setup_of(texts, chosen))
        text = only_scripts(read_text(folder / f"{FIRST}.toml"), chosen).replace(f'"{FIRST}/', f'"{NEAREST}/')
        write_file(folder / f"{NEAREST}.toml", text.replace(f"production-{FIRST}", f"production-{NEAREST}"))
    except OSError as err:
        raise SpecError(f'cannot write "{folder / NEAREST}": {err.strerror}') from err


async def _send(
    environment: Mapping[str, str], folder: Path, shares: Mapping[str, float], *, clients: int, seconds: int
) -> tuple[str, ...]:
    """Send scripts of ``folder`` with their ``shares``; errors in pgbench's words, with the names of scripts."""
    weights = integer_weights([*shares.values()])
    files = [f"--file={name}.sql@{weight}" for name, weight in zip(shares, weights, strict=True)]
    arguments = ["--no-vacuum", "--protocol=extended", f"--client={clients}", f"--time={seconds}"]
    done = await LocalHost().run(
        [find_programs(None, may_run=False).path("pgbench"), *arguments, *files],
        environment={**environment, **ENVIRONMENT},
        directory=folder,
        check=False,
    )
    return tuple(name_scripts(error, [*shares]) for error in find_errors(done.stderr))


def _share_of_drawing(before: tuple[Statement, ...], after: tuple[Statement, ...]) -> float:
    def time(statements: tuple[Statement, ...], mark: str) -> float:
        return sum(each.time for each in statements if mark in each.text)

    whole = time(after, "") - time(before, "")
    return (time(after, f"FROM {SCHEMA}.s") - time(before, f"FROM {SCHEMA}.s")) / whole if whole > 0 else 0.0
