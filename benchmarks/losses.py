"""What a watch of another machine's server loses: 30 s without a network, a restart, kill -9, a full disk.

    PYTHONPATH=src:tests python benchmarks/losses.py [--cut 30] [--postgres 16]     # as root, four minutes

The server is behind a network namespace with an address of its own, and its machine is read there by ssh. In 30 s
without a network what is sent to that address vanishes, and nobody is told. The folder of the watch is a file system of
its own, which is filled up. A load commits 20 times a second all the time, but not while the server is away. Of each
event: for how long nothing was read, and whether a rate is zero then.
"""

import argparse
import asyncio
import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psycopg

from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.watch.layout import SAMPLES
from pgtrial.watch.series import COMMITS as COMMITTED
from pgtrial.watch.series import read_rates
from pgtrial.watch.windows import Window, window_sums
from support.cluster import running_cluster
from support.namespaces import NamespaceHost, namespaces
from support.watching import COMMITS, MACHINE, POLLS, reached_at, rows

SETTLE = 30.0  # s before the first event, and after each until the next one
PATIENCE = 180.0  # s until it reads again
KEEP_FREE, SIZE = 16, 64  # MB: what the watch leaves, and its file system
_READ = {"commits": COMMITS, "sessions": POLLS, "its machine": MACHINE}
_STEP = 5  # s, of rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    name: str
    start: float
    end: float


class Watch:
    """`pgtrial watch` in a process of its own, which is begun anew where an event has ended it."""

    def __init__(self, address: str, folder: Path, host: NamespaceHost, ssh: str) -> None:
        self._command = [sys.executable, "-m", "pgtrial", "watch", address, "--output", str(folder)]
        self._command += ["--keep-free", f"{KEEP_FREE}MB", "--host", host.ssh]
        self._environment = {**os.environ, "PGTRIAL_SSH": ssh, "OPENBLAS_NUM_THREADS": "1"}
        self.process = self.begin()

    def begin(self) -> "subprocess.Popen[bytes]":
        self.process = subprocess.Popen(self._command, env=self._environment)
        return self.process

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


async def _load(conninfo: str) -> None:
    while True:
        with contextlib.suppress(psycopg.Error):
            async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
                while True:
                    await connection.execute("SELECT 1")
                    await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)


@contextlib.contextmanager
def small_disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pgtrial-losses-") as place:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}m,mode=700", "tmpfs", place], check=True)
        try:
            yield Path(place)
        finally:
            subprocess.run(["umount", place], check=True)


async def _settled(folder: Path, after: float) -> None:
    """Until all is read again, and for some time more."""
    deadline = time.monotonic() + PATIENCE
    while any(not (found := rows(folder, SAMPLES, each)) or found[-1][0] <= after for each in _READ.values()):
        if time.monotonic() > deadline:
            raise SystemExit("error: the watch does not read again")
        await asyncio.sleep(1)
    await asyncio.sleep(SETTLE)


async def measure(
    cluster: ThrowawayCluster, watch: Watch, folder: Path, host: NamespaceHost, cut: float
) -> list[Event]:
    async def without_network() -> None:
        with host.losing_packets():
            await asyncio.sleep(cut)

    async def restart() -> None:
        await cluster.stop()
        await cluster.start()

    async def kill() -> None:
        os.kill(watch.process.pid, signal.SIGKILL)
        watch.process.wait()
        watch.begin()

    async def fill() -> None:
        full = folder.parent / "full"
        disk = os.statvfs(full.parent)
        free = disk.f_bavail * disk.f_frsize
        full.write_bytes(bytes(free - (KEEP_FREE - 1) * 1_000_000))
        status = await asyncio.to_thread(watch.process.wait, PATIENCE)
        print(f"full disk: the watch ended with exit code {status}, {full.stat().st_size / 1e6:.0f} MB were written")
        full.unlink()
        watch.begin()

    await _settled(folder, 0.0)
    events = []
    planned: dict[str, Callable[[], Awaitable[None]]] = {
        f"{cut:.0f} s without a network": without_network,
        "the server restarts": restart,
        "kill -9, and started again": kill,
        "a full disk, and started again": fill,
    }
    for name, happens in planned.items():
        start = time.time()
        await happens()
        events.append(Event(name=name, start=start, end=time.time()))
        await _settled(folder, events[-1].end)
    return events


def report(folder: Path, events: list[Event]) -> None:
    read = {name: np.array([t for t, _ in rows(folder, SAMPLES, each)]) for name, each in _READ.items()}
    print(f"| | took | nothing read of {' | of '.join(_READ)} | rates of zero |")
    print("|" + " --- |" * (len(_READ) + 3))
    for event in events:
        gaps = []
        for times in read.values():
            # A reading under way when it began may still have come.
            before, after = times[times <= event.start + 1].max(), times[times > event.end].min()
            inside = times[(times >= before) & (times <= after)]
            gaps.append(float(np.diff(inside).max()))
        window = Window(math.floor(event.start / 60) * 60 - 60, math.ceil((event.end + SETTLE) / 60) * 60)
        with window_sums(folder, window, _STEP, kinds=(SAMPLES,)) as sums:
            rates = read_rates(sums, [COMMITTED])[COMMITTED]
        cells = [f"{event.end - event.start:.1f} s", *(f"{each:.1f} s" for each in gaps)]
        print(f"| {event.name} | {' | '.join(cells)} | {int((rates == 0).sum())} |")


async def run(options: argparse.Namespace) -> None:
    with namespaces("db") as found, small_disk() as disk:
        (host,) = found.hosts
        folder = disk / "watch"
        async with running_cluster("losses", {"fsync": "off"}, postgres=options.postgres) as cluster:
            load = asyncio.create_task(_load(cluster.conninfo()))
            with reached_at(host, cluster) as address:
                watch = Watch(address, folder, host, found.ssh)
                try:
                    events = await measure(cluster, watch, folder, host, options.cut)
                finally:
                    watch.end()
                    load.cancel()
        report(folder, events)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cut", type=float, default=30.0, help="seconds without a network; default: 30")
    parser.add_argument("--postgres")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
