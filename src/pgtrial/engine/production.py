"""A load like that of an existing server: read what it remembers, write scripts, look how true they are of a copy."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pgtrial.errors import SpecError, TargetError
from pgtrial.experiment_file.code_uses import find_on_server
from pgtrial.experiment_file.production_record import checked
from pgtrial.hosts.local import LocalHost
from pgtrial.postgres.connect import execute_script
from pgtrial.postgres.existing.address import ServerAddress, find_server
from pgtrial.postgres.production import Load, Statement, count_statements, read_load
from pgtrial.postgres.programs import find_programs
from pgtrial.safe_files import make_directory, new_directory, read_file, remove_tree, write_file
from pgtrial.safe_text import parse_json
from pgtrial.store.own_place import refuse_changeable
from pgtrial.workloads.pgbench import integer_weights
from pgtrial.workloads.pgbench_output import find_errors
from pgtrial.workloads.production.draws import DRAWS, SCHEMA
from pgtrial.workloads.production.record import (
    FORMAT,
    LARGEST,
    NEAREST,
    Truth,
    experiment_text,
    match,
    nearest,
    record_of,
    setup_of,
    truth_text,
)
from pgtrial.workloads.production.scripts import Files, Plan, make_plan, write_files

_WHERE = "the command"  # that names the server
RECORD, TRUTH, SETUP = "workload.json", "truth.md", "setup.sql"


def write_workload(connection: str, output: Path, caller: Mapping[str, str], *, with_values: bool) -> Plan:
    """Write the folder ``output`` from what the server at ``connection`` remembers. ``caller`` are libpq's variables.

    Raises SpecError where it cannot be written, ConnectError, PreflightError, TargetError.
    """
    if output.exists():
        raise SpecError(f'"{output}" already exists', hint="Name another folder with --output.")
    if not output.parent.is_dir():
        raise SpecError(f'there is no folder "{output.parent}"')
    load = asyncio.run(_read(connection, caller, with_values=with_values))
    plan = make_plan(load, with_values=with_values)
    if not plan.scripts:
        raise TargetError(
            "the server remembers no statement that can be sent again",
            hint="pg_stat_statements has to be loaded, and the role to have pg_read_all_stats.",
        )
    drawn = {draw.name: write_files(plan, load, draw) for draw in DRAWS}
    try:
        with new_directory(output) as folder:
            for parts, text in _texts(plan, drawn, with_values=with_values):
                with folder.new_file(*parts) as file:
                    file.write(text.encode())
    except OSError as err:
        raise SpecError(f'cannot write "{output}": {err.strerror}') from err
    return plan


def _texts(plan: Plan, drawn: Mapping[str, Files], *, with_values: bool) -> Iterator[tuple[tuple[str, ...], str]]:
    """The files of the folder: the parts of their paths, and what is in them."""
    yield (RECORD,), record_of(plan, drawn, with_values=with_values)
    for draw in DRAWS:
        files = drawn[draw.name]
        yield (f"{draw.name}.toml",), experiment_text(plan, draw)
        yield (draw.name, SETUP), files.setup
        yield from (((draw.name, name), text) for name, text in files.scripts.items())


async def _read(connection: str, caller: Mapping[str, str], *, with_values: bool) -> Load:
    address = await find_server(connection, database=None, caller=caller, where=_WHERE)
    return await read_load(address.conninfo(), with_values=with_values)


def read_record(folder: Path) -> dict[str, Any]:
    """Raises SpecError where the folder has none that can be read."""
    hint = 'Name a folder that "pgtrial workload" wrote.'
    try:
        record = parse_json(read_file(folder / RECORD, limit=LARGEST))
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise SpecError(f'"{folder / RECORD}" is of another version', hint="Write the folder again.")
        return checked(record)
    except (OSError, ValueError) as err:
        raise SpecError(f'cannot read "{folder / RECORD}"', detail=str(err), hint=hint) from err


def check_workload(
    connection: str, folder: Path, caller: Mapping[str, str], *, clients: int, seconds: int
) -> tuple[Truth, ...]:
    """Send each drawn load to the copy at ``connection`` for so many ``seconds``, and write how true it was.

    Raises SpecError for a folder that is no such load, ConnectError, PreflightError, TargetError.
    """
    record = read_record(folder)
    refuse_changeable(folder, hint="Copy the folder into a directory of your own, and name the copy.")
    _refuse_code(folder, record)
    truths = asyncio.run(_check(connection, folder, record, caller, clients=clients, seconds=seconds))
    write_file(folder / TRUTH, truth_text(record, truths))
    return truths


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
    connection: str, folder: Path, record: Mapping[str, Any], caller: Mapping[str, str], *, clients: int, seconds: int
) -> tuple[Truth, ...]:
    address = await find_server(connection, database=None, caller=caller, where=_WHERE)
    truths = [await _try(address, folder, draw.name, record, clients=clients, seconds=seconds) for draw in DRAWS]
    _write_nearest(folder, nearest(record, truths))
    truths.append(await _try(address, folder, NEAREST, record, clients=clients, seconds=seconds))
    return tuple(truths)


async def _try(
    address: ServerAddress, folder: Path, draw: str, record: Mapping[str, Any], *, clients: int, seconds: int
) -> Truth:
    conninfo = address.conninfo()
    try:
        await execute_script(conninfo, _read_text(folder / draw / SETUP), name=f"{draw}/{SETUP}")
        before = await count_statements(conninfo)
        errors = await _send(address, folder / draw, record, clients=clients, seconds=seconds)
        after = await count_statements(conninfo)
    finally:
        await execute_script(conninfo, f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", name="the end")
    return Truth(
        draw=draw, matches=match(record, before, after), drawing=_share_of_drawing(before, after), errors=errors
    )


def _write_nearest(folder: Path, chosen: Mapping[str, str]) -> None:
    """One more load, of each script as it is in the drawn load that was ``chosen`` for it."""
    texts = {draw.name: _read_text(folder / draw.name / SETUP) for draw in DRAWS}
    try:
        remove_tree(folder, NEAREST)  # of an earlier check
        make_directory(folder, NEAREST)
        for script, draw in chosen.items():
            write_file(folder / NEAREST / f"{script}.sql", _read_text(folder / draw / f"{script}.sql"))
        write_file(folder / NEAREST / SETUP, setup_of(texts, chosen))
        first = DRAWS[0].name
        text = _read_text(folder / f"{first}.toml").replace(f'"{first}/', f'"{NEAREST}/')
        write_file(folder / f"{NEAREST}.toml", text.replace(f"production-{first}", f"production-{NEAREST}"))
    except OSError as err:
        raise SpecError(f'cannot write "{folder / NEAREST}": {err.strerror}') from err


def _read_text(path: Path) -> str:
    try:
        return read_file(path, limit=LARGEST).decode()
    except (OSError, ValueError) as err:
        raise SpecError(f'cannot read "{path}"', hint='Name a folder that "pgtrial workload" wrote.') from err


async def _send(
    address: ServerAddress, scripts: Path, record: Mapping[str, Any], *, clients: int, seconds: int
) -> tuple[str, ...]:
    """Errors, in pgbench's words."""
    weights = integer_weights([float(script["calls"]) for script in record["scripts"]])
    names = [f"{script['name']}.sql@{weight}" for script, weight in zip(record["scripts"], weights, strict=True)]
    arguments = ["--no-vacuum", "--protocol=extended", f"--client={clients}", f"--time={seconds}"]
    done = await LocalHost().run(
        [find_programs(None, may_run=False).path("pgbench"), *arguments, *(f"--file={name}" for name in names)],
        environment={**address.environment(address.database), "LC_ALL": "C"},
        directory=scripts,
        check=False,
    )
    return tuple(find_errors(done.stderr))


def _share_of_drawing(before: tuple[Statement, ...], after: tuple[Statement, ...]) -> float:
    def time(statements: tuple[Statement, ...], mark: str) -> float:
        return sum(each.time for each in statements if mark in each.text)

    whole = time(after, "") - time(before, "")
    return (time(after, f"FROM {SCHEMA}.s") - time(before, f"FROM {SCHEMA}.s")) / whole if whole > 0 else 0.0
