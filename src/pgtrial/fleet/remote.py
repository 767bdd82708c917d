"""What a worker of a cluster of the user's does for a host beside running blocks: ``python -m pgtrial.fleet.remote``.

One line of JSON on its standard input says what, one on its standard output what came of it. The folder of a host is in
the state directory of the worker's machine; the leader has a copy, into which it takes what was measured.
"""

import asyncio
import base64
import contextlib
import json
import sys
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

from pgtrial.engine.events import ignore
from pgtrial.errors import ConnectError, PgTrialError, StoreError
from pgtrial.fleet.fence import Fence
from pgtrial.fleet.gather import digest_runs
from pgtrial.fleet.host_folders import DIRECTORY
from pgtrial.fleet.hosts_file import FleetHost
from pgtrial.fleet.machines import ask_machine
from pgtrial.postgres.connect import forget_caller
from pgtrial.safe_files import make_directory, remove_tree, write_file
from pgtrial.safe_text import parse_json
from pgtrial.store.belongings import Belongings
from pgtrial.store.journal_file import make_state_directory, state_directory
from pgtrial.store.state import State


async def _meet(request: dict[str, Any]) -> dict[str, object]:
    """Which machine a host is, as seen from here."""
    return {"machine": asdict(await ask_machine(FleetHost.model_validate(request["host"])))}


async def _take(request: dict[str, Any]) -> dict[str, object]:
    """Have the folder of a host: what an earlier worker left in it is ended and put back. Where there is none, a new
    one is made of the ``files``, if they are given.

    A block that is whole there, but that the leader does not have, does not count: another host may have it by now.
    """
    place = _place(request)
    if place.is_dir():
        with contextlib.closing(State.open(place)) as state:
            every = frozenset(slot.block for slot in state.slots())
        await _undo(place, request, refused=every)
        return {"folder": str(place)}
    if "files" not in request:
        return {"folder": None}
    part = place.with_name(f".{place.name}")
    try:
        make_state_directory(DIRECTORY)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        remove_tree(part.parent, part.name)
        part.mkdir(mode=0o700)
        for name, content in request["files"].items():
            _write(part, PurePosixPath(name), base64.b64decode(content))
        part.rename(place)
    except OSError as err:
        raise StoreError(f'cannot make "{place}": {err.strerror}') from err
    return {"folder": str(place)}


def _write(root: Path, name: PurePosixPath, content: bytes) -> None:
    if name.is_absolute() or ".." in name.parts:
        raise StoreError(f'"{name}" is no file of a folder')
    for number in range(1, len(name.parts)):
        with contextlib.suppress(FileExistsError):
            make_directory(root, *name.parts[:number])
    write_file(root / name, content)


async def _end(request: dict[str, Any]) -> dict[str, object]:
    """Nothing of a host goes on, and it is as it was, without its folder if it ``leaves``; the files of a block that
    are whole there. Blocks that are ``refused`` do not count, as the leader gave them up while it heard nothing.
    """
    place = _place(request)
    is_known, files = place.is_dir(), {}
    if is_known:
        await _undo(place, request, refused=frozenset(request["refused"]))
        if request["block"] is not None:
            files = digest_runs(place, request["block"])
        if request["leaves"]:
            await Fence(folder=None, caller={}, tell=ignore).clear(place, lambda: request["address"])
            Belongings.of(place).forget()
            remove_tree(place.parent, place.name)
            with contextlib.suppress(OSError):
                place.parent.rmdir()
    return {"is_known": is_known, "files": files}


async def _undo(place: Path, request: dict[str, Any], *, refused: frozenset[int] = frozenset()) -> None:
    fence = Fence(folder=None, caller=forget_caller(), tell=ignore)
    done = frozenset(request["done"])
    fenced = await fence.fence(place, host=place.name, reason=request["reason"], done=done, refused=refused)
    if fenced.stays is not None:
        raise fenced.stays


def _place(request: dict[str, Any]) -> Path:
    of, host = map(str, request["place"])
    if not of or not host or {"/", "."} & {*of, host[0]} or "/" in host:
        raise StoreError(f'"{of}/{host}" is no folder of a host')
    return state_directory() / DIRECTORY / of / host


_DEEDS = {"meet": _meet, "take": _take, "end": _end}


def main() -> None:
    request = parse_json(sys.stdin.buffer.readline())
    try:
        answer = asyncio.run(_DEEDS[request["do"]](request))
    except PgTrialError as err:
        answer = {
            "failed": err.message,
            "detail": err.detail,
            "hint": err.hint,
            "is_away": isinstance(err, ConnectError),
        }
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
