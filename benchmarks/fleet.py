"""What it costs to hand out blocks: simulated blocks of fixed length on workers of dask.distributed in one process.

    python benchmarks/fleet.py [--hosts 1 10 100] [--seconds 1] [--blocks 5]
    python benchmarks/fleet.py --idle 60

Each host has a worker with one thread and its token, as in a fleet, and runs so many blocks each of which sleeps. A
line for each number of hosts has the wall time against the ideal one, the CPU time and the memory that this process,
which is scheduler, workers and leader in one, takes for a block. Workers share the process here, so it is an upper
bound of what the scheduler and the leader take.

The last column is a simulation in which each block takes that CPU time before it begins: blocks one by one, and all
that wait together, between which dask lies. --simulate goes on with more hosts, by the CPU time of the last line.
--idle says what a scheduler and a worker take that have nothing to do, each a process as in a fleet.
"""

import argparse
import asyncio
import heapq
import importlib.util
import os
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pgtrial.fleet.cluster import Cluster
from pgtrial.fleet.dispatch import Dispatch, Handout
from pgtrial.fleet.node import SETTINGS, token

Pending = dict["asyncio.Task[None]", Handout]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Seconds of one measurement; ``memory`` in bytes, of the process when all blocks are done."""

    hosts: int
    blocks: int
    wall: float
    ideal: float
    cpu: float
    memory: int


async def measure(hosts: int, *, blocks_each: int, seconds: float) -> Figures:
    """Run ``blocks_each`` blocks per host."""
    from distributed import Client, Scheduler, Worker

    names = [f"h{number}" for number in range(hosts)]
    dispatch = Dispatch(blocks=range(1, hosts * blocks_each + 1), hosts=names)
    async with Scheduler(protocol="inproc", dashboard=False, dashboard_address="127.0.0.1:0") as scheduler:
        workers = [
            Worker(
                scheduler.address,
                nthreads=1,
                name=name,
                resources={token(name): 1},
                memory_limit=0,
                dashboard_address="127.0.0.1:0",
                heartbeat_interval="10s",
            )
            for name in names
        ]
        await asyncio.gather(*workers)
        async with Client(scheduler.address, asynchronous=True, set_as_default=False) as client:

            async def run(handout: Handout) -> None:
                await client.submit(
                    time.sleep,
                    seconds,
                    key=f"block-{handout.block}",
                    resources={token(handout.host): 1},
                    retries=0,
                    pure=False,
                )
                dispatch.finish(handout.host, handout.block)

            began, cpu = time.monotonic(), time.process_time()
            pending: Pending = {}
            while not dispatch.is_over:
                pending |= {asyncio.create_task(run(handout)): handout for handout in dispatch.hand_out()}
                done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    del pending[task]
                    task.result()
            wall, used = time.monotonic() - began, time.process_time() - cpu
            memory = resident()
        await asyncio.gather(*(worker.close() for worker in workers))
    return Figures(
        hosts=hosts,
        blocks=hosts * blocks_each,
        wall=wall,
        ideal=blocks_each * seconds,
        cpu=used,
        memory=memory,
    )


def simulate(hosts: int, *, blocks_each: int, seconds: float, cost: float, together: bool) -> float:
    """The wall time in s where a processor takes ``cost`` seconds for each block before it begins: for one after the
    other, or ``together``, for all that wait by then.
    """
    free, now, left = [0.0] * hosts, 0.0, hosts * blocks_each
    while left:
        now = max(now, free[0])
        count = min(left, sum(1 for at in free if at <= now) if together else 1)
        now, left = now + count * cost, left - count
        for _ in range(count):
            heapq.heapreplace(free, now + seconds)
    return max(free)


def resident() -> int:
    """Bytes of this process in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a process has used so far: seconds of CPU time, and how often one of its threads has waited."""

    cpu: float
    waits: int

    @classmethod
    def of(cls, pid: int) -> "Used":
        words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        status = [path.read_text(encoding="ascii") for path in Path(f"/proc/{pid}/task").glob("*/status")]
        waits = sum(int(text.split("voluntary_ctxt_switches:", 1)[1].split()[0]) for text in status)
        return cls(cpu=sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK"), waits=waits)


async def measure_idle(seconds: float) -> dict[str, tuple[Used, Used]]:
    """What a scheduler and a worker have used before and after so many ``seconds`` without a block."""
    with tempfile.TemporaryDirectory() as name:
        async with Cluster(Path(name) / "cluster") as cluster:
            await cluster.add_worker("h")
            assert cluster.scheduler is not None
            nodes = {"scheduler": cluster.scheduler.pid, "worker": cluster.workers["h"].pid}
            await asyncio.sleep(10)  # they have just started
            before = {node: Used.of(pid) for node, pid in nodes.items()}
            await asyncio.sleep(seconds)
            return {node: (before[node], Used.of(pid)) for node, pid in nodes.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--blocks", type=int, default=5, help="of each host (5)")
    parser.add_argument("--simulate", type=int, nargs="*", default=[], help="hosts of which there is a simulation only")
    parser.add_argument("--idle", type=float, help="seconds for which scheduler and worker are looked at instead")
    options = parser.parse_args()
    if importlib.util.find_spec("distributed") is None:
        sys.exit("this needs dask.distributed: pip install distributed")
    if options.idle:
        for node, (before, after) in asyncio.run(measure_idle(options.idle)).items():
            share, waits = (after.cpu - before.cpu) / options.idle, (after.waits - before.waits) / options.idle
            print(f"{node:9}  {100 * share:.2f} % of a core, wakes up {waits:.1f} times a second")
        return
    import dask

    quiet = {"distributed.logging": {"distributed": "critical"}}  # of a thousand that are closed some speak up
    dask.config.set({**SETTINGS, **quiet, "distributed.comm.require-encryption": False})  # nothing leaves the process
    print("hosts  blocks  wall s  of ideal  CPU per block  memory  simulated")
    cost, ideal = 0.0, options.blocks * options.seconds

    def simulated(hosts: int) -> str:
        length = {"blocks_each": options.blocks, "seconds": options.seconds}
        walls = (simulate(hosts, **length, cost=cost, together=together) for together in (False, True))
        return " to ".join(f"{wall / ideal:.3f}" for wall in walls)

    for hosts in options.hosts:
        found = asyncio.run(measure(hosts, blocks_each=options.blocks, seconds=options.seconds))
        cost = found.cpu / found.blocks
        print(
            f"{hosts:>5}  {found.blocks:>6}  {found.wall:>6.2f}  {found.wall / found.ideal:>8.3f}  "
            f"{1000 * cost:>10.1f} ms  {found.memory / 2**20:>4.0f} MB  {simulated(hosts)}",
            flush=True,
        )
    for hosts in options.simulate:
        print(f"{hosts:>5}  {hosts * options.blocks:>6}  {'':38}{simulated(hosts)}")


if __name__ == "__main__":
    main()
