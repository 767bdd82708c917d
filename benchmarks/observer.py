"""What the sampler costs the load: select-only at full CPU, with the sampler on and off in turn.

One pgbench runs all the time. Slices of a few seconds with and without the sampler follow each other in the orders
on-off-off-on and off-on-on-off, drawn at random; the first second of a slice is not counted. The throughput of each
pair of neighbouring slices gives one log ratio. Beside it stands the CPU time of the sampler and of its backend per
second, which tells more than the ratio on a machine that others use too.

    python benchmarks/observer.py [--pairs 20] [--seconds 5] [--clients 4] [--postgres 15]
"""

import argparse
import asyncio
import os
import random
import re
import statistics
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from pgtrial.engine.sampler_link import APPLICATION
from pgtrial.engine.sampling import Sampler, SamplerConfig
from pgtrial.hosts.local import LocalHost, end_process, server_account
from pgtrial.postgres.programs import find_programs
from pgtrial.postgres.reachable import reachable_programs
from pgtrial.postgres.throwaway import ThrowawayCluster, prepare_directories, remove_directories
from pgtrial.stats.paired import compare_blocks

SCALE = 10
DATABASE = "postgres"
PROGRESS = re.compile(r"progress: [0-9.]+ s, (?P<tps>[0-9.]+) tps")


@dataclass(slots=True, kw_only=True)
class Slices:
    """Mean tps per slice by state, in order of time, and CPU seconds per second of sampler and backend."""

    on: list[float] = field(default_factory=list)
    off: list[float] = field(default_factory=list)
    sampler_cpu: list[float] = field(default_factory=list)
    backend_cpu: list[float] = field(default_factory=list)


def cpu_seconds(pid: int) -> float:
    """Of a process with one thread. schedstat counts nanoseconds, where stat would count hundredths of a second."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) * 1e-9


def draw_order(pairs: int, rng: random.Random) -> list[bool]:
    """Sampler on or off, slice by slice."""
    order: list[bool] = []
    while len(order) < 2 * pairs:
        first = rng.random() < 0.5
        order += [first, not first, not first, first]
    return order[: 2 * pairs]


async def measure(cluster: ThrowawayCluster, options: argparse.Namespace) -> Slices:
    order = draw_order(options.pairs, random.Random(options.seed))
    load = await cluster.host.start(
        [
            cluster.programs.path("pgbench"),
            *("--select-only", "--no-vacuum", "--protocol=prepared", "--progress=1"),
            *(f"--client={options.clients}", f"--jobs={min(2, options.clients)}"),
            f"--time={(len(order) + 10) * options.seconds}",
        ],
        role="load",
        account=cluster.account,
        environment=cluster.environment(DATABASE),
        directory=cluster.directory,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        return await measure_slices(cluster, load, order=order, seconds=options.seconds)
    finally:
        await end_process(load, patience=10)


async def next_tps(load: asyncio.subprocess.Process) -> float:
    assert load.stderr is not None
    while line := await load.stderr.readline():
        match = PROGRESS.match(line.decode())
        if match is not None:
            return float(match["tps"])
    raise SystemExit("pgbench ended before its time")


async def measure_slices(
    cluster: ThrowawayCluster, load: asyncio.subprocess.Process, *, order: list[bool], seconds: int
) -> Slices:
    slices = Slices()
    for _ in range(seconds):
        await next_tps(load)  # warm-up
    async with await psycopg.AsyncConnection.connect(cluster.conninfo(), autocommit=True) as connection:
        for number, on in enumerate(order):
            if not on:
                slices.off.append(statistics.fmean([await next_tps(load) for _ in range(seconds)][1:]))
                continue
            sampler = Sampler()
            spool = cluster.directory / f"spool-{number}"
            spool.mkdir()
            await sampler.start(
                SamplerConfig(
                    conninfo=cluster.conninfo("template1"),
                    version_num=connection.info.server_version,
                    database=DATABASE,
                    data_directories=(str(cluster.data),),
                    spool=str(spool),
                )
            )
            found = await connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE application_name = %s", [APPLICATION]
            )
            ((backend,),) = await found.fetchall()
            await next_tps(load)
            before = cpu_seconds(sampler.pid or 0), cpu_seconds(backend)
            slices.on.append(statistics.fmean([await next_tps(load) for _ in range(seconds - 1)]))
            slices.sampler_cpu.append((cpu_seconds(sampler.pid or 0) - before[0]) / (seconds - 1))
            slices.backend_cpu.append((cpu_seconds(backend) - before[1]) / (seconds - 1))
            report = await sampler.stop()
            if report.errors or report.gaps:
                print(f"slice {number}: {report}")
    return slices


async def with_cluster(options: argparse.Namespace) -> Slices:
    host, account = LocalHost(), server_account()
    work, sockets = prepare_directories(
        Path(tempfile.gettempdir()), f"pgtrial-observer-{uuid.uuid4().hex[:8]}", account
    )
    try:
        programs = await reachable_programs(host, find_programs(options.postgres), work=work, account=account)
        cluster = ThrowawayCluster(
            host=host, programs=programs, directory=work, socket_directory=sockets, account=account
        )
        await cluster.initdb()
        cluster.write_settings({"fsync": "off", "shared_buffers": "512MB", "autovacuum": "off"})
        try:
            await cluster.start()
            await host.run(
                [programs.path("pgbench"), "--initialize", "--quiet", f"--scale={SCALE}"],
                account=account,
                environment=cluster.environment(DATABASE),
                directory=work,
            )
            return await measure(cluster, options)
        finally:
            await cluster.stop(immediate=True)
    finally:
        remove_directories(work, sockets)


def estimate(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return "         – (too few pairs)"
    return f"{value:10.4f}  (95 % interval {low:.4f} to {high:.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the sampler costs the load.")
    parser.add_argument("--pairs", type=int, default=20, help="pairs of slices, on and off (20)")
    parser.add_argument("--seconds", type=int, default=5, help="length of a slice (5)")
    parser.add_argument("--clients", type=int, default=4, help="pgbench clients (4)")
    parser.add_argument("--postgres", default=None, help="major version or directory of programs (the first found)")
    parser.add_argument("--seed", type=int, default=20260120, help="of the order of the slices")
    options = parser.parse_args()
    slices = asyncio.run(with_cluster(options))

    effect = compare_blocks(slices.off, slices.on)
    print(f"tps without the sampler   {statistics.fmean(slices.off):10.0f}")
    print(f"tps with the sampler      {statistics.fmean(slices.on):10.0f}")
    print(f"ratio on / off            {estimate(effect.ratio, effect.low, effect.high)}, {effect.blocks} pairs")
    print(f"Hodges-Lehmann            {estimate(effect.hodges_lehmann, effect.hl_low, effect.hl_high)}")
    sampler, backend = statistics.fmean(slices.sampler_cpu), statistics.fmean(slices.backend_cpu)
    print(f"CPU of the sampler        {sampler * 1000:10.2f}  ms/s")
    print(f"CPU of its backend        {backend * 1000:10.2f}  ms/s")
    cpus = os.cpu_count() or 1
    print(f"both, of {cpus} CPUs          {(sampler + backend) / cpus * 100:10.2f}  %")


if __name__ == "__main__":
    main()
