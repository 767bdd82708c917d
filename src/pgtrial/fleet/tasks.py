"""What a worker does: it has the engine run blocks, in a process of its own that stays for the next block.

Only texts go in and out: a request and an answer, both JSON. Importing this needs nothing of the fleet's extra, and
nothing of the engine.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pgtrial import __version__
from pgtrial.safe_text import parse_json
from pgtrial.store import layout

_LONGEST = 16 << 20  # bytes of an answer: of each file there is a checksum
_SELF = secrets.token_hex(8)  # of this process: the next one at the same address is another worker


@dataclass(slots=True, kw_only=True)
class EngineProcess:
    """The engine for one host's folder; what it is told and what it answers are lines on pipes."""

    process: "subprocess.Popen[bytes]"
    doing: str = field(default="", init=False)

    @classmethod
    def start(cls, folder: str, permission: str) -> "EngineProcess":
        command = [sys.executable, "-P", "-m", "pgtrial.fleet.session", folder]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        engine = cls(process=process)
        engine._write(permission)
        return engine

    def run(self, block: int) -> dict[str, object]:
        """Have a block run; the answer."""
        self._write(str(block))
        assert self.process.stdout is not None
        while line := self.process.stdout.readline(_LONGEST):
            try:
                answer = parse_json(line)
            except ValueError:  # it was killed in the middle of a line
                answer = None
            if not isinstance(answer, dict):
                self.process.kill()
                break
            if "doing" not in answer:
                return answer
            self.doing = str(answer["doing"])
        status = self.process.wait()
        return {
            "failed": f"the engine ended with status {status}",
            "detail": self.doing,
            "hint": "",
            "may_return": True,
        }

    def end(self) -> None:
        """Have it put everything back and end; who waits for its answer learns that there is none."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has something to say about that


_ENGINES: dict[str, EngineProcess] = {}  # by folder


def run_block(request: str) -> str:
    """Run a block of a host's folder: {"folder": …, "permission": …, "block": …}; the answer, with both in it.

    With a "worker" it is for that one alone, and "taken" are folders of runs that the leader has by now.
    """
    wanted = parse_json(request)
    folder, block = str(wanted["folder"]), int(wanted["block"])
    if wanted.get("worker", _SELF) != _SELF:
        return json.dumps({"failed": "its worker is another one now", "may_return": True})
    for name in wanted.get("taken", ()):
        shutil.rmtree(Path(folder) / layout.RUNS / Path(name).name, ignore_errors=True)
    engine = _ENGINES.get(folder)
    if engine is None:
        engine = _ENGINES[folder] = EngineProcess.start(folder, str(wanted["permission"]))
    answer = engine.run(block)
    if "failed" in answer:
        _ENGINES.pop(folder, None)
    return json.dumps({**answer, "folder": folder, "block": block})


# -- of a cluster that the user runs, whose workers may be anywhere ------------------------------------------


async def serve(what: str, request: str) -> str:
    """Answer a request of the leader, also while a block runs, for which the worker has one thread."""
    return await asyncio.to_thread(_SERVED[what], request)


def say_patience(dask_scheduler: object) -> float | None:
    """Seconds for which a scheduler lets its workers be silent, None for ever; it is called there."""
    found = getattr(dask_scheduler, "worker_ttl", None)
    return None if found is None else float(found)


def _say_who(_request: str) -> str:
    """Which worker this is, its version of pgtrial, and what its clock shows."""
    return json.dumps({"worker": _SELF, "version": __version__, "now": time.time()})


def _do(request: str) -> str:
    """Have pgtrial.fleet.remote do something, in a process of its own; its answer. First ends the engine of a "place",
    which puts back what it has changed.
    """
    place = "/".join(parse_json(request).get("place", ()))
    for folder in [each for each in _ENGINES if place and each.endswith(f"/{place}")]:
        _ENGINES.pop(folder).end()
    command = [sys.executable, "-P", "-m", "pgtrial.fleet.remote"]
    done = subprocess.run(command, input=f"{request}\n".encode(), stdout=subprocess.PIPE, check=False)
    return done.stdout.decode() or json.dumps({"failed": f"pgtrial ended with status {done.returncode} there"})


def _read_piece(request: str) -> str:
    """A piece of a file of a host's folder, in Base64: {"folder": …, "file": …, "from": …, "length": …}."""
    wanted = parse_json(request)
    with Path(wanted["folder"], wanted["file"]).open("rb") as file:
        file.seek(wanted["from"])
        return base64.b64encode(file.read(wanted["length"])).decode("ascii")


def _read_news(request: str) -> str:
    """What is new in the state of a host's folder, with a checksum: {"folder": …, "mark": …, "told": …}."""
    from pgtrial.store.news import Mark, read_news

    wanted = parse_json(request)
    text = json.dumps(asdict(read_news(Path(wanted["folder"]), Mark(**wanted["mark"]), told=wanted["told"])))
    return json.dumps({"news": text, "digest": hashlib.sha256(text.encode()).hexdigest()})


_SERVED: dict[str, Callable[[str], str]] = {
    "who": _say_who,
    "do": _do,
    "piece": _read_piece,
    "news": _read_news,
}
