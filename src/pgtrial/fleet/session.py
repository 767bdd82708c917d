"""The engine at work for one host: ``python -m pgtrial.fleet.session FOLDER`` runs the blocks that it is told.

Its standard input is one line of permissions, then a line for each block; its end is the end. It answers on its
standard output, a line for each block that is done, or one that says why there will be no more. Where the input ends
while a block runs, the block is broken off, and everything is put back as at Ctrl-C: whoever started it may be killed.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from pgtrial.engine.events import Event, Preparing
from pgtrial.engine.experiment import Permission, run_experiment
from pgtrial.errors import ConnectError, PgTrialError
from pgtrial.fleet.freezer import Freezer
from pgtrial.fleet.gather import digest_runs
from pgtrial.safe_text import parse_json
from pgtrial.store.plans import read_plan
from pgtrial.store.spill import remove_spill

DONE, FAILED, DOING = "done", "failed", "doing"  # keys of the lines that it answers
_INTERRUPTED = 130


def permission_text(permission: Permission) -> str:
    """One line of JSON."""
    return json.dumps(
        {
            "work_base": None if permission.work_base is None else str(permission.work_base),
            "host_changes": permission.host_changes,
            "code": permission.code,
            "writes": permission.writes,
            "files": [str(path.absolute()) for path in permission.files],
        }
    )


def read_permission(text: str | bytes) -> Permission:
    """Of ``permission_text``. Raises ValueError."""
    match parse_json(text):
        case {
            "work_base": str() | None as base,
            "host_changes": bool(host_changes),
            "code": bool(code),
            "writes": bool(writes),
            "files": [*files],
        }:
            return Permission(
                work_base=None if base is None else Path(base),
                host_changes=host_changes,
                code=code,
                writes=writes,
                files=tuple(Path(str(file)) for file in files),
            )
    raise ValueError("these are no permissions")


@dataclass(slots=True, kw_only=True)
class Orders:
    """Blocks to be run, as they come on ``source``, and what is answered on ``out``."""

    folder: Path
    source: BinaryIO
    out: BinaryIO
    take_awake: Callable[[], float] = field(default=lambda: 0.0)  # of the worker, since it was asked last
    may_end: bool = field(default=False, init=False)  # with its input: it waits, or is coming to its end
    _told: list[int | None] = field(default_factory=list, init=False)  # None: no more
    _news: Callable[[], object] = field(default=lambda: None, init=False)

    def listen(self) -> None:
        """Take orders until there are no more; to be run in a thread of its own, from the beginning."""
        while line := self.source.readline():
            self._told.append(int(line))
            self._news()
        self._told.append(None)
        self._news()
        if not self.may_end:
            os.kill(os.getpid(), signal.SIGTERM)

    async def blocks(self) -> AsyncGenerator[int, None]:
        """The blocks, until there are no more."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        self._news = lambda: loop.call_soon_threadsafe(news.set)
        try:
            while True:
                self.may_end = True
                while not self._told:
                    news.clear()
                    if not self._told:
                        await news.wait()
                block = self._told.pop(0)
                if block is None:
                    return
                self.may_end = False
                yield block
                files = await asyncio.to_thread(digest_runs, self.folder, block)
                self.answer({DONE: block, "files": files, "awake": self.take_awake()})
        finally:
            self.may_end = True
            self._news = lambda: None

    def answer(self, what: dict[str, object]) -> None:
        """Write a line; whoever should read it may be gone."""
        with contextlib.suppress(OSError):
            self.out.write(json.dumps(what).encode() + b"\n")
            self.out.flush()

    def tell(self, event: Event) -> None:
        """What the host is doing before its first block: it can take long, and fail for want of something there."""
        if isinstance(event, Preparing):
            self.answer({DOING: event.step})


def main(folder: Path) -> int:
    """Run blocks until there are no more; the exit status."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else gets among the answers
    source = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    orders = Orders(folder=folder, source=source, out=out)
    stack = contextlib.ExitStack()
    try:
        permission = read_permission(source.readline())
        threading.Thread(target=orders.listen, daemon=True).start()
        is_here = read_plan(folder).experiment.target.host is None
        tells = [orders.tell]
        if is_here:
            freezer = stack.enter_context(Freezer(os.getppid()))
            tells.append(freezer.tell)
            orders.take_awake = freezer.take_awake
        run_experiment(folder, permission=permission, tell=partial(_tell_all, tells), blocks=orders.blocks())
    except PgTrialError as err:
        # What failed for want of a connection may work in a while.
        may_return = isinstance(err, ConnectError) or isinstance(err.__cause__, ConnectError)
        orders.answer({FAILED: err.message, "detail": err.detail, "hint": err.hint, "may_return": may_return})
        return err.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as err:
        orders.answer({FAILED: f"this is a bug in pgtrial: {type(err).__name__}: {err}", "detail": "", "hint": ""})
        raise
    finally:
        stack.close()
    return 0


def _tell_all(tells: Sequence[Callable[[Event], None]], event: Event) -> None:
    for tell in tells:
        tell(event)


if __name__ == "__main__":
    # Not by sys.exit: what the thread that still reads orders holds is not taken down in order, and libraries complain.
    status = main(Path(sys.argv[1]))
    remove_spill()
    os._exit(status)
