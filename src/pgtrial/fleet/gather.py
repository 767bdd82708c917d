"""Results come home: the runs of a block go from a host's folder into the main one, checksummed, and once.

First the files take their names, then one transaction says that they are there. Whoever is killed between the two
leaves folders of runs that nobody knows, which the next attempt replaces.
"""

import contextlib
import hashlib
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pgtrial.engine.folder import note_begun
from pgtrial.errors import StoreError
from pgtrial.model.run import RunRow, RunState
from pgtrial.safe_files import make_directory, new_directory, open_file, remove_tree
from pgtrial.store import layout
from pgtrial.store.state import State
from pgtrial.store.transfer import Taken, known_marks, take_rows

_PIECE = 1 << 20  # bytes
_ONE = threading.Lock()  # takes runs in: who counts those that are there must not count another's
Digests = Mapping[str, str]  # SHA-256 by path below the folder of runs


def digest_runs(folder: Path, block: int) -> dict[str, str]:
    """Of all files of the runs of a block that are done."""
    with contextlib.closing(State.open(folder)) as state:
        runs = [run for run in state.runs(block=block) if run.state is RunState.DONE]
    return {f"{run.folder}/{path.name}": digest_file(path) for run in runs for path in _files(folder, run)}


def is_whole(folder: Path, block: int) -> bool:
    """Whether every run of a block is done in the folder."""
    with contextlib.closing(State.open(folder)) as state:
        wanted = {slot.number for slot in state.slots(block=block)}
        return wanted == {run.slot.number for run in state.runs(block=block) if run.state is RunState.DONE}


def begun_blocks(folder: Path) -> frozenset[int]:
    """Blocks of which the folder has runs."""
    with contextlib.closing(State.open(folder)) as state:
        return state.begun_blocks()


def done_blocks(folder: Path, *, host: str | None = None) -> frozenset[int]:
    """Blocks of which every run is done, or those on a host."""
    with contextlib.closing(State.open(folder)) as state:
        return state.done_blocks(host=host)


def gather_block(source: Path, folder: Path, *, block: int, host: str, digests: Digests | None = None) -> int:
    """Take all runs of a block that have ended into the main ``folder``; how many of them are new.

    With the ``digests`` that were made where its files were written, the block has to be whole, and they are compared.
    StoreError where they are not the same, or where a run of the block is done already; then nothing counts.
    """
    with _ONE:
        return _gather(source, folder, block=block, host=host, digests=digests)


def _gather(source: Path, folder: Path, *, block: int, host: str, digests: Digests | None) -> int:
    with contextlib.closing(State.open(source)) as own, contextlib.closing(State.open(folder)) as main:
        born = own.meta().get("created", "")
        runs = [run for run in own.runs(block=block) if run.state is not RunState.RUNNING]
        before = main.runs(block=block)
        known = {(mark, run.started) for run in before for mark in known_marks(main.events(run=run.id))}
        wanted = {slot.number for slot in main.slots(block=block)}
    attempts = {run.slot.number: 0 for run in runs}
    for run in before:
        attempts[run.slot.number] = max(attempts.get(run.slot.number, 0), run.attempt)
    found = []
    for run in runs:
        taken = Taken(run=run, attempt=attempts[run.slot.number] + 1, mark={"born": born, "host": host, "run": run.id})
        if (taken.mark_text, run.started) not in known:
            attempts[run.slot.number] += 1
            found.append(taken)
    every = (*before, *(taken.run for taken in found))
    if digests is not None and wanted != {run.slot.number for run in every if run.state is RunState.DONE}:
        raise StoreError(f"it has not sent every run of block {block}")
    if not found:
        return 0
    with contextlib.closing(State.open(source)) as own:
        own.refuse_damaged([taken.run.id for taken in found])
    for taken in found:
        _take_files(source, folder, taken, digests)
    new = take_rows(source, folder, found)
    with contextlib.closing(State.open(folder)) as main:
        note_begun(folder, main)
    for taken in found:
        remove_tree(source, layout.RUNS, taken.run.folder)
    return new


def _take_files(source: Path, folder: Path, taken: Taken, digests: Digests | None) -> None:
    """Copy the files of a run, under the name that it has in the main folder."""
    run = taken.run
    files = {path.name: path for path in _files(source, run)}
    if digests is not None and run.state is RunState.DONE:
        promised = {name.partition("/")[2] for name in digests if name.partition("/")[0] == run.folder}
        if promised != files.keys():
            raise StoreError(f'the files of "{run.folder}" are not those that the host has made')
    if not files:
        return
    name = replace(run, attempt=taken.attempt).folder
    with contextlib.suppress(FileExistsError):
        make_directory(folder, layout.RUNS)
    remove_tree(folder, layout.RUNS, name)  # of an attempt to take them that was cut off: nobody knows it
    try:
        with new_directory(folder / layout.RUNS / name) as directory:
            for each, path in files.items():
                digest = hashlib.sha256()
                with open_file(path) as reading, directory.new_file(each) as writing:
                    while piece := reading.read(_PIECE):
                        digest.update(piece)
                        writing.write(piece)
                wanted = None if digests is None else digests.get(f"{run.folder}/{each}")
                if wanted not in (None, digest.hexdigest()):
                    raise StoreError(f'"{run.folder}/{each}" is not what the host has written: its checksum differs')
    except OSError as err:
        raise StoreError(f'cannot take the files of "{run.folder}": {err.strerror}') from err


def _files(folder: Path, run: RunRow) -> list[Path]:
    place = layout.run_folder(folder, run.folder)
    return sorted(path for path in place.iterdir() if path.is_file()) if place.is_dir() else []


def digest_file(path: Path) -> str:
    """The SHA-256 of a file, by pieces."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
