"""Whether a reference channel pays: fixed pieces of work beside a load, whose times tell how fast the machine is.

record: one throw-away server, pgbench's simple-update with 8 clients, nothing varied, and the probe beside it
(reference_channel.c, which says what it does). With --hog an arm of its own: runs of 15 s in an order that the product
draws, in half of which one more process steps through 64 MB for 30 % of its time, so that the arm is slower and the
probe tells so.

score: cuts recordings, resampled, into experiments as the product plans them, in which nothing differs, and compares
the product's interval with one whose block differences are rid of what the probe predicts. The slope is that of slices
inside runs, the block that is judged left out.

    PYTHONPATH=src:tests python benchmarks/reference_channel.py record FOLDER/calm.npz [--minutes 15] [--hog]
    PYTHONPATH=src:tests python benchmarks/reference_channel.py score FOLDER/calm.npz [MORE ...] [--experiments 1000]
"""

import argparse
import asyncio
import platform
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgtrial.design.plan import plan_schedule
from pgtrial.hosts.processes import end_process, find_server_children
from pgtrial.model.arm import Arm, Role
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import make_own
from pgtrial.store.parquet import connect
from support.cluster import running_cluster

Floats = NDArray[np.float64]

SOURCE = Path(__file__).with_suffix(".c")
CHANNELS = ("late", "arithmetic", "arithmetic-cpu", "walk", "walk-cpu", "read", "write", "steal", "others")
TICK = 0.25  # s
CLIENTS, SCALE = 8, 20
LEAD = 45.0  # s of load before what is kept: pages are written whole for the first time
RUN, GAP = 15.0, 2.0  # s of a run beside the arm that steps through memory, and between two
HOG = ("64", "0.3")  # MB, share of its time
# Neither a checkpoint nor vacuuming: a run of an experiment begins with a checkpoint, on data made afresh.
SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
}
DATABASE = "postgres"
ARMS = (Arm(name="plain", role=Role.CONTROL), Arm(name="changed", role=Role.CANDIDATE))


def planned_orders(blocks: int, seed: int) -> NDArray[np.bool_]:
    """Of each block, whether the arm comes after the control, as the product draws it: (blocks,)."""
    slots = plan_schedule(ARMS, blocks=blocks, seed=seed)
    return np.array([slot.position == 2 for slot in slots if slot.arm == ARMS[1].name])


async def record(destination: Path, minutes: float, *, with_hog: bool) -> None:
    """Write one recording: of each tick the transactions that ended in it, of each time the probe's readings."""
    with tempfile.TemporaryDirectory(prefix="pgtrial-reference-") as place:
        program = Path(place) / "reference_channel"
        subprocess.run(["cc", "-O2", "-o", program, SOURCE], check=True)
        async with running_cluster("reference", SETTINGS) as cluster:
            await cluster.host.run(
                [cluster.programs.path("pgbench"), "--initialize", "--quiet", f"--scale={SCALE}"],
                account=cluster.account,
                environment=cluster.environment(DATABASE),
                directory=cluster.directory,
            )
            await _beside_load(cluster, program, destination, 60 * minutes, with_hog=with_hog)


async def _beside_load(
    cluster: ThrowawayCluster, program: Path, destination: Path, seconds: float, *, with_hog: bool
) -> None:
    make_own(cluster.host, place := cluster.directory / "load", cluster.account)
    load = await cluster.host.start(
        [
            cluster.programs.path("pgbench"),
            *("--no-vacuum", "--protocol=prepared", "--builtin=simple-update", "--log", f"--log-prefix={place / 'log'}"),
            *(f"--client={CLIENTS}", "--jobs=1", f"--time={LEAD + seconds + 10:.0f}"),
        ],
        role="load",
        account=cluster.account,
        environment=cluster.environment(DATABASE),
        directory=cluster.directory,
    )
    runs: list[tuple[float, float, int]] = []
    try:
        await asyncio.sleep(LEAD)
        pids = [load.pid, *(child.pid for child in find_server_children(str(cluster.data)))]
        with ExitStack() as stack:
            output = stack.enter_context(tempfile.TemporaryFile("w+"))
            file = cluster.directory / "probe"
            words = [str(program), "probe", str(file), str(seconds), *map(str, pids)]
            probe = stack.enter_context(subprocess.Popen(words, stdout=output, start_new_session=True))
            stack.callback(probe.kill)
            if with_hog:
                runs = await _take_runs(program, seconds)
            status = await asyncio.to_thread(probe.wait)
            output.seek(0)
            lines = output.read().splitlines()
        if status != 0 or await load.wait() != 0:
            raise RuntimeError("the probe or the load has failed")
    finally:
        await end_process(load, patience=10)
    readings = np.array([line.split() for line in lines[:-1]], dtype=np.float64)
    first, last = np.ceil(readings[0, 0] / TICK), np.floor(readings[-1, 0] / TICK)
    counts = _count(sorted(place.glob("log.[0-9]*")), int(first), int(last))
    cost = float(lines[-1].split()[1]) / (readings[-1, 0] - readings[0, 0])
    np.savez_compressed(
        destination,
        begin=first * TICK,
        counts=counts,
        readings=readings,
        runs=np.array(runs).reshape(-1, 3),
        cost=cost,
        made=f"PostgreSQL {cluster.programs.version}, Linux {platform.release()}, {time.strftime('%F %T')}",
    )
    print(f"{destination}: {counts.sum() / counts.size / TICK:.0f} tps, the probe used {100 * cost:.2f} % of a CPU")


async def _take_runs(program: Path, seconds: float) -> list[tuple[float, float, int]]:
    """Begin, end and arm (1: the one that steps through memory) of the runs that fit into so many seconds."""
    runs = []
    blocks = int((seconds - 5) / (2 * (RUN + GAP)))
    for is_after in planned_orders(blocks, seed=int(time.time())):
        for arm in (0, 1) if is_after else (1, 0):
            hog = None
            if arm:
                hog = subprocess.Popen([program, "hog", str(RUN + GAP), *HOG], start_new_session=True)
            await asyncio.sleep(GAP)
            begin = time.time()
            await asyncio.sleep(RUN)
            runs.append((begin, time.time(), arm))
            if hog is not None:
                hog.kill()
                hog.wait()
    return runs


def _count(logs: list[Path], first: int, last: int) -> NDArray[np.int64]:
    """Transactions that ended in each tick from ``first`` to before ``last``."""
    with connect() as db:
        rows = db.execute(
            """
            SELECT floor((epoch + us / 1e6) / $tick)::BIGINT AS tick, count(*)
            FROM read_csv($logs, delim = ' ', header = false, columns = {
                'client': 'INT', 'number': 'BIGINT', 'time': 'BIGINT', 'script': 'INT', 'epoch': 'BIGINT', 'us': 'BIGINT'
            })
            GROUP BY tick
            """,
            {"tick": TICK, "logs": [str(path) for path in logs]},
        ).fetchall()
    found = dict(rows)
    return np.array([found.get(tick, 0) for tick in range(first, last)], dtype=np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure whether a reference channel pays.")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="a load and the probe beside it")
    recording.add_argument("file", type=Path, help="where it goes (.npz)")
    recording.add_argument("--minutes", type=float, default=15, help="(15)")
    recording.add_argument("--hog", action="store_true", help="an arm that steps through memory in half of the runs")
    options = parser.parse_args()
    if options.command == "record":
        asyncio.run(record(options.file, options.minutes, with_hog=options.hog))


if __name__ == "__main__":
    main()
