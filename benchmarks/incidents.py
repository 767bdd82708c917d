"""Incidents planted on a server that is watched: what the incident's page names of them.

Two servers of one's own have a load that comes at a fixed rate, and `pgtrial watch` reads them. Calm times and
incidents take turns. Then each incident is compared with the calm time before it, as `pgtrial compare-times` does, and
each calm time with the one before it, of which nothing should be named.

    PYTHONPATH=src:tests python benchmarks/incidents.py FOLDER [--seconds 270] [--only-report]
"""

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psycopg

from pgtrial.hosts.processes import end_process
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.watch.compare import compare
from pgtrial.watch.windows import Window
from pgtrial.watch.words import Pointer, Suspicion, pointers, sentences
from support.cluster import running_cluster

ROLE, DATABASE = "watcher", "shop"
RATE, CLIENTS = 30, 12
SETTLE = 20.0  # s until the watch reads as it does later
GUARD = 10.0  # s between two times; whole minutes are compared, so most of them are longer
PLANS = {"north": ("lock convoy", "temp spill"), "south": ("slow statement", "dropped index")}
DATA = """
CREATE EXTENSION pg_stat_statements;
CREATE TABLE product (id int PRIMARY KEY, kind int NOT NULL, stock int NOT NULL);
CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL, placed int NOT NULL, total int NOT NULL);
CREATE TABLE event (id int PRIMARY KEY, customer int NOT NULL, kind int NOT NULL, body text NOT NULL);
INSERT INTO product SELECT n, n % 40, 1000 FROM generate_series(1, 2000) AS n;
INSERT INTO orders SELECT n, n % 9973, n, n % 500 FROM generate_series(1, 60000) AS n;
INSERT INTO event SELECT n, n % 9973, n % 5, repeat('x', 60) FROM generate_series(1, 150000) AS n;
CREATE INDEX event_customer ON event (customer);
CREATE INDEX orders_placed ON orders (placed);
ANALYZE;
"""
# Script, weight.
LOAD = {
    "look": (
        "\\set id random(0, 9972)\nSELECT * FROM event WHERE customer = :id ORDER BY id DESC LIMIT 10;\n",
        16,
    ),
    "sell": ("\\set id random(1, 20)\nUPDATE product SET stock = stock - 1 WHERE id = :id;\n", 10),
    "report": (
        """\\set first random(1, 20000)
SELECT customer, sum(total) FROM orders WHERE placed BETWEEN :first AND :first + 30000
GROUP BY customer ORDER BY sum(total) DESC LIMIT 10;
""",
        4,
    ),
}
Plant = Callable[[ThrowawayCluster, float], Awaitable[None]]


async def lock_convoy(cluster: ThrowawayCluster, until: float) -> None:
    """Somebody changes the products that are sold, and is slow to commit."""
    async with await psycopg.AsyncConnection.connect(cluster.conninfo(DATABASE)) as connection:
        while time.time() < until:
            await connection.execute("UPDATE product SET kind = kind WHERE id <= 20")
            await asyncio.sleep(3)
            await connection.commit()
            await asyncio.sleep(1)


async def temp_spill(cluster: ThrowawayCluster, until: float) -> None:
    """work_mem becomes too small for the reports."""
    await send(cluster, "ALTER SYSTEM SET work_mem = '64kB'")
    await asyncio.sleep(until - time.time())
    await send(cluster, "ALTER SYSTEM RESET work_mem")


async def slow_statement(cluster: ThrowawayCluster, until: float) -> None:
    """A new program asks what nobody has asked before, and reads a whole table for it."""
    async with await psycopg.AsyncConnection.connect(
        cluster.conninfo(DATABASE), autocommit=True, application_name="audit"
    ) as connection:
        while time.time() < until:
            await connection.execute("SELECT kind, count(DISTINCT body || customer) FROM event GROUP BY kind")
            await asyncio.sleep(0.5)


async def dropped_index(cluster: ThrowawayCluster, until: float) -> None:
    await send(cluster, "DROP INDEX event_customer")
    await asyncio.sleep(until - time.time())
    await send(cluster, "CREATE INDEX event_customer ON event (customer)")


PLANTS: dict[str, Plant] = {
    "lock convoy": lock_convoy,
    "temp spill": temp_spill,
    "slow statement": slow_statement,
    "dropped index": dropped_index,
}


async def send(cluster: ThrowawayCluster, statement: str) -> None:
    async with await psycopg.AsyncConnection.connect(cluster.conninfo(DATABASE), autocommit=True) as connection:
        await connection.execute(statement.encode())
        await connection.execute("SELECT pg_reload_conf()")


@asynccontextmanager
async def watched_server(name: str, folder: Path, postgres: str | None) -> AsyncIterator[tuple[ThrowawayCluster, str]]:
    """A server with the load, and a watch of it that writes into ``folder``; the watch's connection string."""
    settings = {"shared_preload_libraries": "pg_stat_statements", "shared_buffers": "64MB", "fsync": "off"}
    async with running_cluster(f"incidents-{name}", settings, postgres=postgres) as cluster:
        await _set_up(cluster)
        scripts = cluster.directory / "load"
        scripts.mkdir()
        arguments = []
        for each, (text, weight) in LOAD.items():
            (scripts / f"{each}.sql").write_text(text, encoding="utf-8")
            (scripts / f"{each}.sql").chmod(0o644)
            arguments += ["-f", f"{scripts / each}.sql@{weight}"]
        scripts.chmod(0o755)
        load = await cluster.host.start(
            [
                cluster.programs.path("pgbench"),
                *("--no-vacuum", "--protocol=prepared", *arguments, f"--rate={RATE}"),
                *(f"--client={CLIENTS}", "--jobs=1", "--time=86400"),
            ],
            role="load",
            account=cluster.account,
            environment=cluster.environment(DATABASE),
            directory=cluster.directory,
        )
        dsn = psycopg.conninfo.make_conninfo(cluster.conninfo(DATABASE), user=ROLE)
        watcher = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pgtrial", "watch", dsn, "--output", str(folder), "--keep-free", "10MB")
        )
        try:
            await asyncio.sleep(SETTLE)
            yield cluster, dsn
        finally:
            with suppress(ProcessLookupError):
                watcher.terminate()
            await watcher.wait()
            await end_process(load, patience=10)


async def run_one(name: str, root: Path, seconds: float, postgres: str | None) -> None:
    times = []
    async with watched_server(name, root / name, postgres) as (cluster, _):
        for planted in ("", *(each for one in PLANS[name] for each in (one, ""))):
            start = time.time()
            if planted:
                await PLANTS[planted](cluster, start + seconds)
            else:
                await asyncio.sleep(seconds)
            times.append({"planted": planted, "start": start, "end": time.time()})
            (root / f"{name}.json").write_text(json.dumps(times), encoding="utf-8")
            await asyncio.sleep(GUARD)


async def _set_up(cluster: ThrowawayCluster) -> None:
    async with await psycopg.AsyncConnection.connect(cluster.conninfo(), autocommit=True) as connection:
        await connection.execute(f"CREATE DATABASE {DATABASE}".encode())
        await connection.execute(f"CREATE ROLE {ROLE} LOGIN".encode())
        await connection.execute(f"GRANT pg_monitor, pg_read_all_data TO {ROLE}".encode())
    async with await psycopg.AsyncConnection.connect(cluster.conninfo(DATABASE), autocommit=True) as connection:
        await connection.execute(DATA.encode())


async def run(root: Path, options: argparse.Namespace) -> None:
    root.mkdir(parents=True)
    async with asyncio.TaskGroup() as group:
        for name in PLANS:
            group.create_task(run_one(name, root, options.seconds, options.postgres))


# What the page should point to, and a word of the statement or of the holder that it should name.
EXPECTED = {
    "lock convoy": (Suspicion.LOCKS, "SET kind = kind"),
    "temp spill": (Suspicion.SPILL, "sum(total)"),
    "slow statement": (Suspicion.NEW_STATEMENT, "count(DISTINCT"),
    "dropped index": (Suspicion.ROWS, "FROM event"),
}


def report(root: Path) -> None:
    """Each time beside the calm one before it."""
    for name in PLANS:
        calm: Window | None = None
        for each in json.loads((root / f"{name}.json").read_text(encoding="utf-8")):
            window = Window(math.ceil(each["start"] / 60) * 60, math.floor(each["end"] / 60) * 60)
            if calm is not None:
                _report_one(root / name, each["planted"], calm, window)
            calm = calm if each["planted"] else window


def _report_one(folder: Path, planted: str, calm: Window, window: Window) -> None:
    found = compare(folder, calm, window)
    points = pointers(found)
    first = next((place for place, each in enumerate(points, start=1) if _is_it(planted, each)), None)
    print(
        f"\n{planted or 'nothing'}: {window} beside {calm}; named: {'no' if first is None else f'yes, place {first}'}"
    )
    for text in (*sentences(found), *(f"→ {each.code}: {each.text}" for each in points)):
        print(f"  {text}")


def _is_it(planted: str, pointer: Pointer) -> bool:
    code, word = EXPECTED.get(planted, (None, ""))
    return pointer.code is code and word in pointer.text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=270.0, help="of each time")
    parser.add_argument("--only-report", action="store_true", help="of a folder that is there")
    parser.add_argument("--postgres")
    options = parser.parse_args()
    if not options.only_report:
        asyncio.run(run(options.folder, options))
    report(options.folder)


if __name__ == "__main__":
    main()
