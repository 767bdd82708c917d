"""How true to its times `pgtrial replay` is: a log of pgbench's, against the log that its replay makes.

Sessions of pgbench send TPC-B transactions at a rate to a server that logs all statements; the same tables are made
anew, and the log is replayed. Both logs tell in whole milliseconds when the server took each statement: what is
compared is the time between each statement and the one before, in its session and of all sessions together. The floor
is pgbench's own second run at the same times, from the same seed: so far apart are two logs of one load. Processors
that sleep between statements, those of a virtual machine above all, wake up late and differently each time; as root
they are kept awake meanwhile, in the kernel's way for measurements of latency (``/dev/cpu_dma_latency``).

    PYTHONPATH=tests python benchmarks/replay.py [--seconds 60] [--clients 8] [--rate 40] [--scale 1] [--rounds 1]
"""

import argparse
import asyncio
import itertools
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pgtrial.postgres.connect import execute
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.workloads.replay.log import read_log
from support.cluster import running_cluster

DATABASE = "postgres"
LOGGED = {"log_statement": "all", "fsync": "off", "shared_buffers": "256MB"}
_OWN = re.compile(r"\s*(?:SET|SHOW|DEALLOCATE|SELECT pg_catalog\.set_config)\b", re.IGNORECASE)


def statements(log: Path) -> dict[str, list[tuple[float, str]]]:
    """When the server took each statement, in seconds since the first, and its text, by session."""
    sessions = read_log(log, database=DATABASE).sessions
    return {
        each.name: [(one.due, one.text) for one in each.statements if not _OWN.match(one.text)] for each in sessions
    }


@contextmanager
def processors_awake() -> Iterator[None]:
    """Whether they were is printed: only root may ask for it, and not every kernel has it."""
    try:
        file = os.open("/dev/cpu_dma_latency", os.O_WRONLY | os.O_CLOEXEC)
    except OSError as err:
        print(f"processors may sleep ({err.strerror})")
        yield
        return
    try:
        os.write(file, struct.pack("i", 0))
        print("processors are kept awake")
        yield
    finally:
        os.close(file)  # which takes it back


def gaps(times: Iterable[float]) -> list[float]:
    ordered = sorted(times)
    return [later - earlier for earlier, later in itertools.pairwise(ordered)]


def pair(
    original: Mapping[str, Sequence[tuple[float, str]]], replayed: Mapping[str, Sequence[tuple[float, str]]]
) -> list[tuple[Sequence[tuple[float, str]], Sequence[tuple[float, str]]]]:
    """Sessions with the same statements: the values in them tell them apart."""
    by_text: dict[tuple[str, ...], list[Sequence[tuple[float, str]]]] = defaultdict(list)
    for session in replayed.values():
        by_text[tuple(text for _, text in session)].append(session)
    return [(one, by_text[texts].pop()) for one in original.values() if by_text[texts := tuple(t for _, t in one)]]


def differences(before: Sequence[float], after: Sequence[float]) -> str:
    found = sorted(abs(one - other) * 1000 for one, other in zip(before, after, strict=True))
    at = {share: found[int(share * (len(found) - 1))] for share in (0.5, 0.99, 0.999, 1.0)}
    return "  ".join(f"p{share * 100:g} {value:.1f} ms" for share, value in at.items())


async def measure(cluster: ThrowawayCluster, options: argparse.Namespace, place: Path) -> None:
    def run(*words: str) -> str:
        """What was said last."""
        environment = {**os.environ, **cluster.environment(DATABASE)}
        done = subprocess.run(words, check=False, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{words[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stderr.rpartition("\n")[0].rpartition("\n")[2]

    async def logged(name: str, *words: str) -> Path:
        """The log of one program, on new tables."""
        run(pgbench, "--initialize", "--quiet", f"--scale={options.scale}")
        current = cluster.log.with_suffix(".csv")
        begun = current.stat().st_size
        print(await asyncio.to_thread(run, *words))
        with current.open("rb") as file, (place / name).open("wb") as copy:
            file.seek(begun)
            shutil.copyfileobj(file, copy)
        return place / name

    pgbench = str(cluster.programs.path("pgbench"))
    load = f"--no-vacuum --client={options.clients} --rate={options.rate} --time={options.seconds}".split()
    load += ["--random-seed=1", f"--jobs={options.clients}"]  # a thread each: the seed tells it when to send
    await execute(cluster.conninfo(), "ALTER SYSTEM SET log_destination = csvlog")
    await execute(cluster.conninfo(), "SELECT pg_reload_conf()")
    original = statements(log := await logged("original.csv", pgbench, *load))
    print(f"{len(original)} sessions, {sum(map(len, original.values()))} statements")
    words = (sys.executable, "-m", "pgtrial", "replay", str(log), "--database", DATABASE)
    for _ in range(options.rounds):
        show("the original again", original, statements(await logged("again.csv", pgbench, *load)))
        show("its replay", original, statements(await logged("replayed.csv", *words)))


def show(
    name: str,
    original: Mapping[str, Sequence[tuple[float, str]]],
    other: Mapping[str, Sequence[tuple[float, str]]],
) -> None:
    pairs = pair(original, other)
    print(f"{name}: {sum(len(one) for one, _ in pairs)} statements of {len(pairs)} sessions")
    of_each = [[gap for both in pairs for gap in gaps(time for time, _ in both[side])] for side in (0, 1)]
    print("  in a session    ", differences(*of_each))
    of_all = [gaps(time for both in pairs for time, _ in both[side]) for side in (0, 1)]
    print("  of all sessions ", differences(*of_all), f" (mean {statistics.fmean(of_all[0]) * 1000:.1f} ms)")


async def with_cluster(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="pgtrial-replay-") as place:
        async with running_cluster("replay", LOGGED, postgres=options.postgres) as cluster:
            await measure(cluster, options, Path(place))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how true to its times a replay is.")
    parser.add_argument("--seconds", type=int, default=60, help="of the load (60)")
    parser.add_argument("--clients", type=int, default=8, help="its sessions (8)")
    parser.add_argument("--rate", type=float, default=40, help="transactions a second of all (40)")
    parser.add_argument("--postgres", default=None, help="major version or directory of programs (the first found)")
    parser.add_argument("--scale", type=int, default=1, help="of its tables: branches, which sessions wait for (1)")
    parser.add_argument("--rounds", type=int, default=1, help="of pgbench again and the replay (1)")
    options = parser.parse_args()
    with processors_awake():
        asyncio.run(with_cluster(options))


if __name__ == "__main__":
    main()
