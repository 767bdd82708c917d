"""What the sampler costs the load: select-only at full CPU, with the sampler on and off in turn.

One pgbench and one sampler run all the time; the sampler is frozen and thawed (SIGSTOP, SIGCONT) in slices of a second,
in the orders on-off-off-on and off-on-on-off, drawn at random. Transactions count by their logged ends, without the
first 50 ms of a slice. Each block of four slices gives one log ratio. Beside it stands the CPU time of the sampler and
of its backend per second of sampling, which tells more than the ratio on a machine that others use too.

    PYTHONPATH=tests python benchmarks/observer.py [--blocks 60] [--slice 1.0] [--clients 4] [--postgres 15]
"""

import argparse
import asyncio
import math
import os
import random
import signal
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

from pgtrial.engine.sampler.control import Sampler, SamplerConfig, find_disks, find_server
from pgtrial.hosts.processes import end_process
from pgtrial.postgres.connect import SAMPLER
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import make_own
from pgtrial.stats.paired import compare_blocks
from pgtrial.store.parquet import connect
from support.cluster import running_cluster

SCALE = 10
DATABASE = "postgres"
GUARD = 0.05  # s at the start of a slice that are not counted
WARMUP = 5.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """tps of each block with and without the sampler, and CPU seconds per second of the sampler and its backend."""

    on: list[float]
    off: list[float]
    sampler_cpu: float
    backend_cpu: float


def cpu_seconds(pid: int) -> float:
    """Of a process with one thread. schedstat counts nanoseconds, where stat would count hundredths of a second."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) * 1e-9


def draw_order(blocks: int, rng: random.Random) -> list[bool]:
    """Sampler on or off, slice by slice: ABBA or BAAB in each block."""
    order: list[bool] = []
    for _ in range(blocks):
        first = rng.random() < 0.5
        order += [first, not first, not first, first]
    return order


async def measure(cluster: ThrowawayCluster, options: argparse.Namespace) -> Measured:
    order = draw_order(options.blocks, random.Random(options.seed))
    make_own(cluster.host, logs := cluster.directory / "load", cluster.account)  # whoever runs pgbench writes there
    log = logs / "log"
    load = await cluster.host.start(
        [
            cluster.programs.path("pgbench"),
            *("--select-only", "--no-vacuum", "--protocol=prepared", "--log", f"--log-prefix={log}"),
            *(f"--client={options.clients}", f"--jobs={min(2, options.clients)}"),
            f"--time={math.ceil(len(order) * options.slice + 2 * WARMUP)}",
        ],
        role="load",
        account=cluster.account,
        environment=cluster.environment(DATABASE),
        directory=cluster.directory,
    )
    try:
        await asyncio.sleep(WARMUP)
        start, on_seconds, cpu = await switch(cluster, order, length=options.slice)
        await load.wait()
    finally:
        await end_process(load, patience=10)
    tps = count(sorted(logs.glob("log.*")), order, start=start, length=options.slice)
    blocks = [range(first, first + 4) for first in range(0, len(order), 4)]
    return Measured(
        on=[statistics.fmean(tps[i] for i in block if order[i]) for block in blocks],
        off=[statistics.fmean(tps[i] for i in block if not order[i]) for block in blocks],
        sampler_cpu=cpu[0] / on_seconds,
        backend_cpu=cpu[1] / on_seconds,
    )


async def switch(
    cluster: ThrowawayCluster, order: list[bool], *, length: float
) -> tuple[float, float, tuple[float, float]]:
    """Freeze and thaw the sampler slice by slice: (start of the first slice, seconds thawed, CPU used meanwhile).

    A frozen sampler costs nothing, and thawed it goes on with its next tick: nothing starts or ends at a switch.
    """
    sampler = Sampler(cluster.host)
    (spool := cluster.directory / "spool").mkdir()
    async with await psycopg.AsyncConnection.connect(cluster.conninfo(), autocommit=True) as connection:
        disks = find_disks(cluster.host.ops, [str(cluster.data)])
        await sampler.start(
            SamplerConfig(
                conninfo=cluster.conninfo("template1"),
                version_num=connection.info.server_version,
                database=DATABASE,
                devices=disks.names,
                caveats=disks.caveats,
                spool=str(spool),
                server_pid=find_server(cluster.host.ops, [str(cluster.data)]),
                load_conninfo=cluster.conninfo(DATABASE),
            )
        )
        # The first one: others look for extensions, and go when there are none.
        found = await connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s ORDER BY backend_start LIMIT 1", [SAMPLER]
        )
        ((backend,),) = await found.fetchall()
    assert sampler.pid is not None  # it has started
    start = time.time() + length / 2  # its ticks then fall into the middle of a slice
    before = cpu_seconds(sampler.pid), cpu_seconds(backend)
    try:
        for number, on in enumerate(order):
            await asyncio.sleep(start + number * length - time.time())
            os.kill(sampler.pid, signal.SIGCONT if on else signal.SIGSTOP)
        await asyncio.sleep(start + len(order) * length - time.time())
        after = cpu_seconds(sampler.pid), cpu_seconds(backend)
    finally:
        os.kill(sampler.pid, signal.SIGCONT)
        await sampler.stop()
    return start, sum(order) * length, (after[0] - before[0], after[1] - before[1])


def count(logs: list[Path], order: list[bool], *, start: float, length: float) -> list[float]:
    """tps of each slice, from the logged ends of the transactions, the guard left out."""
    names = (
        "{'client': 'INT', 'number': 'BIGINT', 'time': 'BIGINT', 'script': 'INT', 'epoch': 'BIGINT', 'us': 'BIGINT'}"
    )
    with connect() as db:
        found = dict(
            db.execute(
                f"""
                SELECT slice, count(*)
                FROM (SELECT (epoch - $start + us / 1e6) / $length AS place, floor(place)::INT AS slice
                      FROM read_csv($logs, delim = ' ', header = false, columns = {names}))
                WHERE place >= 0 AND (place - slice) * $length >= $guard
                GROUP BY slice
                """,
                {"start": start, "length": length, "guard": GUARD, "logs": [str(path) for path in logs]},
            ).fetchall()
        )
    return [found.get(number, 0) / (length - GUARD) for number in range(len(order))]


async def with_cluster(options: argparse.Namespace) -> Measured:
    settings = {"fsync": "off", "shared_buffers": "512MB", "autovacuum": "off"}
    async with running_cluster("observer", settings, postgres=options.postgres) as cluster:
        await cluster.host.run(
            [cluster.programs.path("pgbench"), "--initialize", "--quiet", f"--scale={SCALE}"],
            account=cluster.account,
            environment=cluster.environment(DATABASE),
            directory=cluster.directory,
        )
        return await measure(cluster, options)


def estimate(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return "         – (too few blocks)"
    return f"{value:10.4f}  (95 % interval {low:.4f} to {high:.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the sampler costs the load.")
    parser.add_argument("--blocks", type=int, default=60, help="blocks of four slices, ABBA or BAAB (60)")
    parser.add_argument("--slice", type=float, default=1.0, help="length of a slice in seconds (1.0)")
    parser.add_argument("--clients", type=int, default=4, help="pgbench clients (4)")
    parser.add_argument("--postgres", default=None, help="major version or directory of programs (the first found)")
    parser.add_argument("--seed", type=int, default=20260120, help="of the order of the slices")
    options = parser.parse_args()
    measured = asyncio.run(with_cluster(options))

    effect = compare_blocks(measured.off, measured.on)
    print(f"tps without the sampler   {statistics.fmean(measured.off):10.0f}")
    print(f"tps with the sampler      {statistics.fmean(measured.on):10.0f}")
    print(f"ratio on / off            {estimate(effect.ratio, effect.low, effect.high)}, {effect.blocks} blocks")
    print(f"Hodges-Lehmann            {estimate(effect.hodges_lehmann, effect.hl_low, effect.hl_high)}")
    print(f"CPU of the sampler        {measured.sampler_cpu * 1000:10.2f}  ms/s")
    print(f"CPU of its backend        {measured.backend_cpu * 1000:10.2f}  ms/s")
    cpus = os.cpu_count() or 1
    share = (measured.sampler_cpu + measured.backend_cpu) / cpus
    print(f"both, of {cpus} CPUs          {share * 100:10.2f}  %")


if __name__ == "__main__":
    main()
