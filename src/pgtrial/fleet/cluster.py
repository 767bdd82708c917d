"""The machinery of a fleet on this machine: a scheduler, and for each host a worker that runs its blocks.

It has a certificate of its own: whoever has that takes part, nobody else gets a word in.
"""

import asyncio
import contextlib
import errno
import resource
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pgtrial.errors import PgTrialError, StoreError, TargetError
from pgtrial.fleet.extra import HOW
from pgtrial.fleet.fence import to_its_end
from pgtrial.fleet.hosts_file import FleetHost
from pgtrial.fleet.machines import HostMachine, ask_machine
from pgtrial.fleet.node import Node, configure, security, token
from pgtrial.fleet.tasks import run_block
from pgtrial.hosts.certificate import draw_key_pair
from pgtrial.safe_files import make_directory, remove_tree, write_file
from pgtrial.safe_text import parse_json

if TYPE_CHECKING:
    from distributed import Client

_STARTING = 60.0  # s, for each node, on a busy machine
_ENDING = 10.0  # s, for one that was told to end
# So many start at a time: each is busy with imports for a second or two, and hundreds at once would all be late.
STARTED_TOGETHER = 8


class LostError(PgTrialError):
    """A worker has ended in the middle of a block; whether that went on is not known."""


@dataclass(slots=True)
class Cluster:
    """A scheduler, its client, and the workers by host. Use ``start`` and ``close``, or it as a context.

    The key and whatever else they need lie in ``directory``, which is made in one that nobody else enters, in the place
    of what an earlier one has left there, and removed.
    """

    directory: Path
    workers: dict[str, Process] = field(default_factory=dict, init=False)
    scheduler: Process | None = field(default=None, init=False)
    client: "Client | None" = field(default=None, init=False)
    _node: Node | None = field(default=None, init=False)
    _asked: int = field(default=0, init=False)
    _limits: tuple[int, int] = field(default=(0, 0), init=False)  # of descriptors, as they were
    _starting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(STARTED_TOGETHER), init=False)

    async def __aenter__(self) -> "Cluster":
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Make a certificate, start the scheduler, and connect to it. Raises TargetError and StoreError."""
        from distributed import Client

        remove_tree(self.directory.parent, self.directory.name)
        try:
            make_directory(self.directory.parent, self.directory.name)
            made = await to_its_end(lambda: make_certificate(self.directory, now=datetime.now(UTC)))
        except OSError as err:
            raise StoreError(f'cannot write "{self.directory}": {err.strerror}') from err
        node = Node(key=str(made.key), certificate=str(made.certificate), directory=str(self.directory))
        configure()
        self._limits = raise_descriptors()
        self.scheduler, address = await _start("scheduler", node)
        self._node = replace(node, scheduler=address)
        # Known before it is connected: one that is given up meanwhile has to be closed, too.
        self.client = Client(address, security=security(node), asynchronous=True, set_as_default=False)
        await self.client

    async def add_worker(self, host: str) -> None:
        """Start a worker for a host, which has none that runs, when it is its turn. Raises TargetError."""
        assert self._node is not None
        async with self._starting:
            # What it starts, as a server on this machine, has what it would have without a fleet.
            self.workers[host], _ = await _start("worker", replace(self._node, name=host), limits=self._limits)

    async def end_worker(self, host: str) -> PgTrialError | None:
        """End the worker of a host, if it has one; its engine stops by itself then, and is waited for by ``Fence``."""
        process = self.workers.pop(host, None)
        if process is not None:
            await _end(process)
        return None

    async def leave(self) -> dict[str, PgTrialError]:
        """Nothing to do: all ends with its process."""
        return {}

    def stop_waiting(self) -> None:
        """Nothing to do: they end within seconds."""

    async def ask_machine(self, host: FleetHost) -> HostMachine:
        """Which machine a host is. Raises ConnectError and PreflightError."""
        return await ask_machine(host)

    async def run_block(self, host: str, request: str) -> Mapping[str, object]:
        """Have a host's worker run a block, once; what it answers. Raises LostError where the worker has ended."""
        assert self.client is not None
        self._asked += 1
        future = self.client.submit(
            run_block,
            request,
            key=f"block-{self._asked}",
            resources={token(host): 1},
            retries=0,
            pure=False,
        )
        asked = asyncio.ensure_future(_result(future))
        ends = [asyncio.ensure_future(each.wait()) for each in (self.workers[host], self.scheduler) if each]
        try:
            await asyncio.wait([asked, *ends], return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise LostError("its worker has ended" if ends[0].done() else "the scheduler has ended")
            return asked.result()
        finally:
            for each in (asked, *ends):
                each.cancel()
            await asyncio.gather(asked, *ends, return_exceptions=True)

    @property
    def has_ended(self) -> bool:
        """Whether the scheduler is gone, and with it all that it knew."""
        return self.scheduler is None or self.scheduler.returncode is not None

    async def close(self) -> None:
        """End everything, workers first: what their engines do is put back."""
        await asyncio.gather(*map(self.end_worker, list(self.workers)))
        if self.client is not None:
            with contextlib.suppress(Exception):  # of a connection that is gone
                await asyncio.wait_for(self.client.close(timeout=1), _ENDING)
            self.client = None
        if self.scheduler is not None:
            await _end(self.scheduler)
            self.scheduler = None
        remove_tree(self.directory.parent, self.directory.name)


async def _result(future: object) -> Mapping[str, object]:
    from distributed.client import FutureCancelledError
    from distributed.scheduler import KilledWorker

    try:
        answer = parse_json(await future)  # type: ignore[misc]  # as only an asynchronous client's can be
    except KilledWorker:
        raise LostError("its worker has ended") from None
    except FutureCancelledError:
        raise LostError("the scheduler has forgotten its block") from None
    except Exception as err:  # of the task: its machine has no memory, or no process more
        raise LostError(f"its worker could not run it: {type(err).__name__}: {err}") from err
    if not isinstance(answer, dict):
        raise LostError("its worker answers what pgtrial does not understand")
    return answer


def raise_descriptors() -> tuple[int, int]:
    """Let this process open as many files as it may: each host takes some. The limits, soft and hard, as they were."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    return limits


async def _start(kind: str, node: Node, *, limits: tuple[int, int] | None = None) -> tuple[Process, str]:
    """Start a node, if given with ``limits`` of descriptors of its own. Raises TargetError."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "pgtrial.fleet.node", kind),
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=True,  # Ctrl-C is for whoever leads
        )
    except OSError as err:
        raise TargetError(
            f"the {kind} of the fleet does not start: {err.strerror}",
            hint='Raise the limit of open files: "ulimit -n".' if err.errno in (errno.EMFILE, errno.ENFILE) else "",
        ) from err
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if limits is not None:
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
        process.stdin.write(node.line)
        await process.stdin.drain()
        line = await asyncio.wait_for(process.stdout.readline(), _STARTING)
    except (OSError, TimeoutError):
        line = b""
    except BaseException:
        await _end(process)
        raise
    if not line:
        await _end(process)
        raise TargetError(
            f"the {kind} of the fleet does not start",
            detail="What it said stands above." if process.returncode else "",
            hint=f"See whether its packages are whole: {HOW}.",
        )
    return process, line.decode().strip()


async def _end(process: Process) -> None:
    """End a node by closing its input, and by force where it does not."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _ENDING)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A key and a certificate that vouches for itself; both are files that only this user reads."""

    key: Path
    certificate: Path


def make_certificate(directory: Path, *, now: datetime) -> Certificate:
    """Write a new key and its certificate into a directory that only this user enters. Raises OSError.

    Everybody who takes part has the same one, so it is its own authority: the other side of a connection has to show a
    certificate that this one has signed, which only its own key can.
    """
    drawn = draw_key_pair("pgtrial fleet", now=now)
    made = Certificate(key=directory / "key.pem", certificate=directory / "certificate.pem")
    write_file(made.key, drawn.key)
    write_file(made.certificate, drawn.certificate)
    return made
