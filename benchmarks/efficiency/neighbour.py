"""A neighbour on the same machine that wants all CPUs in bursts, as in a cloud on a busy afternoon."""

import asyncio
import random
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pgtrial.engine.slicer.standstill import go_on, stop
from pgtrial.hosts.base import Host
from pgtrial.hosts.processes import end_process

SHORTEST, LONGEST = 0.2, 3.0  # s of a burst, and of a pause: evenly spread between them
_BUSY = "import os\nfor _ in range(os.cpu_count() - 1):\n    if os.fork() == 0: break\nwhile True: pass"


def neighbour_argv(cpus: int) -> list[str]:
    """stress-ng on so many CPUs, or a busy loop of Python's where it is not installed."""
    program = shutil.which("stress-ng")
    return [sys.executable, "-c", _BUSY] if program is None else [program, "--quiet", "--cpu", str(cpus)]


@asynccontextmanager
async def bursty_neighbour(host: Host, *, cpus: int, seed: str) -> AsyncIterator[None]:
    """It runs inside the context: one program throughout, which stands still in the pauses."""
    process = await host.start(neighbour_argv(cpus), role="neighbour")
    bursts = asyncio.create_task(_burst(process.pid, random.Random(seed)))
    try:
        yield
    finally:
        bursts.cancel()
        await asyncio.gather(bursts, return_exceptions=True)
        await end_process(process)


async def _burst(pid: int, rng: random.Random) -> None:
    while True:
        stopped = stop(pid, ())
        try:
            await asyncio.sleep(rng.uniform(SHORTEST, LONGEST))
        finally:
            go_on(stopped)  # also at the end: what stands still does not end
        await asyncio.sleep(rng.uniform(SHORTEST, LONGEST))
