"""What a watch costs: CPU of the watcher and of its sessions, throughput in pairs, and bytes a day with 200 statements.

A server of one's own has a load of 200 different statements at full CPU, and `pgtrial watch` reads it as a role with
pg_monitor. The watcher is frozen and thawed (SIGSTOP, SIGCONT) slice by slice, in the orders on-off-off-on and
off-on-on-off, drawn at random; each block of four gives one log ratio of throughput. CPU time is that of the watcher's
process with all its threads and of its backends, per second of watching. What an hour costs once it is over, to be put
together and summed up, is measured on the readings of this run, and the bytes of a day are extrapolated from them: more
than they will be, for longer files compress better.

    PYTHONPATH=tests python benchmarks/watch.py [--minutes 10] [--slice 20] [--clients 2] [--postgres 16]
"""

import argparse
import asyncio
import math
import os
import random
import resource
import shutil
import signal
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from pgtrial.hosts.processes import end_process
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.stats.paired import compare_blocks
from pgtrial.watch.folder import Ages, open_folder, read_mark
from pgtrial.watch.layout import DAY, look
from pgtrial.watch.sums import COUNTERS
from support.cluster import running_cluster

STATEMENTS = 200
PER_SCRIPT = 4  # pgbench takes 128 scripts at most
ROLE = "watcher"
DATABASE = "shop"
GUARD = 1.0  # s at the start of a slice that are not counted
SETTLE = 15.0  # s until the watch reads as it does later
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Transactions per second of each block; CPU seconds per second of watching, for ``seconds``."""

    on: list[float]
    off: list[float]
    watcher_cpu: float
    backend_cpu: float
    seconds: float


def statements() -> list[str]:
    """Texts that the server tells apart: as many columns and conditions as no other has."""
    found = []
    for number in range(STATEMENTS):
        columns, conditions = number % 20 + 1, number // 20
        where = " AND ".join(["id = %s"] + ["n >= 0"] * conditions)
        found.append(f"SELECT {', '.join(['n'] * columns)} FROM item WHERE {where}")
    return found


def cpu_of(pid: int) -> float:
    """Seconds of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def backends(cluster: ThrowawayCluster) -> list[int]:
    with psycopg.connect(cluster.conninfo()) as connection:
        found = connection.execute("SELECT pid FROM pg_stat_activity WHERE usename = %s", (ROLE,)).fetchall()
    return [pid for (pid,) in found]


def note_backends(cluster: ThrowawayCluster, seconds: dict[int, float]) -> None:
    """Keep the CPU seconds of each session of the watcher as of now: one that was ended keeps what it had used."""
    for pid in backends(cluster):
        with suppress(FileNotFoundError):  # it has just ended
            used = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]
            seconds[pid] = int(used) * 1e-9


def prepare(cluster: ThrowawayCluster) -> None:
    with psycopg.connect(cluster.conninfo(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
        connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        connection.execute(f"GRANT pg_monitor TO {ROLE}")
    with psycopg.connect(cluster.conninfo(DATABASE), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements")
        connection.execute("CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL)")
        connection.execute("INSERT INTO item SELECT id, 0 FROM generate_series(1, 100000) AS id")


def commits(cluster: ThrowawayCluster) -> int:
    with psycopg.connect(cluster.conninfo()) as connection:
        query = "SELECT xact_commit FROM pg_stat_database WHERE datname = %s"
        found = connection.execute(query, (DATABASE,)).fetchone()
    assert found is not None
    return int(found[0])


async def measure(cluster: ThrowawayCluster, root: Path, options: argparse.Namespace) -> Measured:
    scripts = cluster.directory / "load"
    scripts.mkdir()
    arguments: list[str] = []
    texts = [f"{text.replace('%s', ':id')};\n" for text in statements()]
    for number in range(0, STATEMENTS, PER_SCRIPT):
        script = scripts / f"{number}.sql"
        together = "".join(texts[number : number + PER_SCRIPT])
        script.write_text(f"\\set id random(1, 100000)\n{together}", encoding="utf-8")
        script.chmod(0o644)
        arguments += ["-f", str(script)]
    scripts.chmod(0o755)
    blocks = max(1, round(options.minutes * 60 / (4 * options.slice)))
    rng = random.Random(options.seed)
    order = [(place in (0, 3)) == first for first in (rng.random() < 0.5 for _ in range(blocks)) for place in range(4)]
    load = await cluster.host.start(
        [
            cluster.programs.path("pgbench"),
            *("--no-vacuum", "--protocol=prepared", *arguments),
            *(f"--client={options.clients}", f"--jobs={options.clients}"),
            f"--time={math.ceil(len(order) * options.slice + 3 * SETTLE)}",
        ],
        role="load",
        account=cluster.account,
        environment=cluster.environment(DATABASE),
        directory=cluster.directory,
    )
    dsn = psycopg.conninfo.make_conninfo(cluster.conninfo(DATABASE), user=ROLE)
    watcher = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pgtrial", "watch", dsn, "--output", str(root), "--keep-free", "10MB")
    )
    try:
        counted = commits(cluster)
        await asyncio.sleep(SETTLE)
        if commits(cluster) - counted < STATEMENTS:
            raise SystemExit("error: the load does not run")
        sessions: dict[int, float] = {}
        note_backends(cluster, sessions)
        before = cpu_of(watcher.pid), sum(sessions.values())
        rates: list[float] = []
        for on in order:
            os.kill(watcher.pid, signal.SIGCONT if on else signal.SIGSTOP)
            await asyncio.sleep(GUARD)
            counted, since = commits(cluster), time.monotonic()
            await asyncio.sleep(options.slice - GUARD)
            rates.append((commits(cluster) - counted) / (time.monotonic() - since))
            note_backends(cluster, sessions)
        os.kill(watcher.pid, signal.SIGCONT)
        seconds = sum(order) * options.slice
        after = cpu_of(watcher.pid), sum(sessions.values())
    finally:
        os.kill(watcher.pid, signal.SIGCONT)
        watcher.terminate()
        await watcher.wait()
        await end_process(load, patience=10)
    four = [range(first, first + 4) for first in range(0, len(order), 4)]
    return Measured(
        on=[statistics.fmean(rates[i] for i in block if order[i]) for block in four],
        off=[statistics.fmean(rates[i] for i in block if not order[i]) for block in four],
        watcher_cpu=(after[0] - before[0]) / seconds,
        backend_cpu=(after[1] - before[1]) / seconds,
        seconds=seconds + SETTLE,
    )


def size(root: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in root.rglob(pattern))


def report(measured: Measured, root: Path) -> None:
    cpus = os.cpu_count() or 1
    print(
        f"watcher: {measured.watcher_cpu:.2%} of a CPU, its sessions {measured.backend_cpu:.2%}; of the machine's ",
        end="",
    )
    print(f"{cpus} CPUs together {(measured.watcher_cpu + measured.backend_cpu) / cpus:.2%}")
    found = compare_blocks(measured.off, measured.on)
    if found.ratio is not None and found.low is not None and found.high is not None:
        print(f"throughput with the watch / without: {found.ratio:.4f} ({found.low:.4f} to {found.high:.4f})")
    else:
        print(f"throughput with the watch / without: no interval of {found.blocks} blocks")
    parts = size(root, "*-part-*.parquet")
    with open_folder(root, read_mark(root), ages=Ages(), counters=COUNTERS, keep_free=0) as folder:
        before = resource.getrusage(resource.RUSAGE_SELF)
        failed = folder.maintain(time.time() + 2 * DAY - 7200)
        after = resource.getrusage(resource.RUSAGE_SELF)
    assert not failed, failed
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    factor = DAY / measured.seconds
    whole = sum(
        root.joinpath(path).stat().st_size
        for path in root.rglob("*.parquet")
        if not any(form in path.name for form in ("part", "minutes", "hours"))
    )
    minutes, hours = size(root, "*-minutes-*"), size(root, "*-hours-*")
    print(f"parts {parts:,} bytes in {measured.seconds:.0f} s; put together and summed up in {used:.2f} s of CPU")
    for name, found_bytes in (("readings", whole), ("minutes", minutes), ("hours", hours)):
        print(f"{name}: {found_bytes * factor / 1e6:.1f} MB a day")
    print(f"hours in the folder: {len(look(root).hours)}")


async def run(options: argparse.Namespace) -> None:
    settings = {"shared_preload_libraries": "pg_stat_statements", "fsync": "off"}
    async with running_cluster("watch", settings, postgres=options.postgres) as cluster:
        prepare(cluster)
        place = Path(tempfile.mkdtemp(prefix="pgtrial-watch-"))
        try:
            report(await measure(cluster, place / "shop", options), place / "shop")
            if options.keep:
                print(f"kept: {place}")
        finally:
            if not options.keep:
                shutil.rmtree(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--slice", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--postgres")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look at it")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
