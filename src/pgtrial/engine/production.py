"""A load like that of an existing server: read what it remembers, and write scripts."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pgtrial.errors import SpecError, TargetError
from pgtrial.experiment_file.production_record import checked
from pgtrial.postgres.connect import as_answered
from pgtrial.postgres.existing.address import find_server
from pgtrial.postgres.production import Load, read_load
from pgtrial.safe_files import new_directory, read_file
from pgtrial.safe_text import parse_json
from pgtrial.workloads.production.draws import DRAWS
from pgtrial.workloads.production.record import (
    FORMAT,
    LARGEST,
    experiment_text,
    record_of,
)
from pgtrial.workloads.production.scripts import DerivedScripts, Files, derive_scripts, write_files

TYPED = "the command"  # that names the server
RECORD, TRUTH, SETUP = "workload.json", "truth.md", "setup.sql"


def write_workload(connection: str, output: Path, caller: Mapping[str, str], *, with_values: bool) -> DerivedScripts:
    """Write the folder ``output`` from what the server at ``connection`` remembers. ``caller`` are libpq's variables.

    Raises SpecError where it cannot be written, ConnectError, PreflightError, TargetError.
    """
    if output.exists():
        raise SpecError(f'"{output}" already exists', hint="Name another folder with --output.")
    if not output.parent.is_dir():
        raise SpecError(f'there is no folder "{output.parent}"')
    load = asyncio.run(_read(connection, caller, with_values=with_values))
    derived = derive_scripts(load, with_values=with_values)
    if not derived.scripts:
        raise TargetError(
            "the server remembers no statement that can be sent again",
            hint="pg_stat_statements has to be loaded, and the role to have pg_read_all_stats.",
        )
    drawn = {draw.name: write_files(derived, load, draw) for draw in DRAWS}
    try:
        with new_directory(output) as folder:
            for parts, text in _texts(derived, drawn, with_values=with_values):
                with folder.new_file(*parts) as file:
                    file.write(text.encode())
    except OSError as err:
        raise SpecError(f'cannot write "{output}": {err.strerror}') from err
    return derived


def _texts(
    derived: DerivedScripts, drawn: Mapping[str, Files], *, with_values: bool
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The files of the folder: the parts of their paths, and what is in them."""
    yield (RECORD,), record_of(derived, drawn, with_values=with_values)
    for draw in DRAWS:
        files = drawn[draw.name]
        yield (f"{draw.name}.toml",), experiment_text(derived, draw)
        yield (draw.name, SETUP), files.setup
        yield from (((draw.name, name), text) for name, text in files.scripts.items())


async def _read(connection: str, caller: Mapping[str, str], *, with_values: bool) -> Load:
    address = await find_server(connection, database=None, caller=caller, typed=TYPED)
    with as_answered():
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


def read_text(path: Path) -> str:
    """A file of such a folder, which may come from anybody. Raises SpecError."""
    try:
        return read_file(path, limit=LARGEST).decode()
    except (OSError, ValueError) as err:
        raise SpecError(f'cannot read "{path}"', hint='Name a folder that "pgtrial workload" wrote.') from err
