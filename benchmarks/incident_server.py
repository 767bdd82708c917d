"""A server of one's own with a load that swings, and a watch of it: where benchmarks plant incidents."""

import asyncio
import math
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg.types.numeric import Int4

from pgtrial.postgres.throwaway import ThrowawayCluster
from support.cluster import running_cluster

ROLE, DATABASE = "watcher", "shop"
RATE, CLIENTS = 30.0, 12  # transactions a second in the mean, and sessions that carry them out
SWING = 0.4  # of the rate, up and down
SETTLE = 20.0  # s until the watch reads as it does later
_PATIENCE = 200  # transactions that wait for a session; who comes then goes away
_MINUTE_NOISE = 0.05
_STEP = 0.05  # s between two looks at how many have come
_PERIODS = (20.0, 40.0)  # min
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "shared_buffers": "128MB",
    "max_parallel_workers_per_gather": "0",
    "autovacuum_naptime": "10s",
    # A limited disk shows in commits, as everything fits into memory.
    "fsync": "on",
    "synchronous_commit": "on",
}
# "filler" is larger than shared buffers, and nobody asks for it.
DATA = """
CREATE EXTENSION pg_stat_statements;
CREATE EXTENSION pg_prewarm;
CREATE EXTENSION pg_buffercache;
CREATE TABLE product (id int PRIMARY KEY, kind int NOT NULL, stock int NOT NULL);
CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL, placed int NOT NULL, total int NOT NULL);
CREATE TABLE event (id int PRIMARY KEY, customer int NOT NULL, kind int NOT NULL, body text NOT NULL);
CREATE TABLE filler (id int NOT NULL, body text NOT NULL);
INSERT INTO product SELECT n, n % 40, 1000000 FROM generate_series(1, 2000) AS n;
INSERT INTO orders SELECT n, n % 9973, n, n % 500 FROM generate_series(1, 60000) AS n;
INSERT INTO event SELECT n, n % 9973, n % 5, repeat('x', 400) FROM generate_series(1, 150000) AS n;
INSERT INTO filler SELECT n, repeat('y', 1000) FROM generate_series(1, 150000) AS n;
CREATE INDEX event_customer ON event (customer);
CREATE INDEX orders_placed ON orders (placed);
"""
# All that the load asks for, into shared buffers.
_WARM = """
SELECT sum(pg_prewarm(oid)) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i') AND relname ~ '^(product|orders|event)'
"""
Values = Callable[[np.random.Generator], tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    text: str
    weight: int
    values: Values


LOAD = (
    Statement(
        text="SELECT * FROM event WHERE customer = %s ORDER BY id DESC LIMIT 10",
        weight=16,
        values=lambda rng: (int(rng.integers(0, 9973)),),
    ),
    Statement(
        text="UPDATE product SET stock = stock - 1 WHERE id = %s",
        weight=10,
        values=lambda rng: (int(rng.integers(1, 21)),),
    ),
    Statement(
        text="SELECT customer, sum(total) FROM orders WHERE placed BETWEEN %s AND %s "
        "GROUP BY customer ORDER BY sum(total) DESC LIMIT 10",
        weight=4,
        values=lambda rng: (first := int(rng.integers(1, 20001)), first + 30000),
    ),
    Statement(
        text="SELECT sum(stock) FROM product WHERE kind = %s",
        weight=4,
        values=lambda rng: (int(rng.integers(0, 40)),),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swing:
    """How many transactions come in a second, by seconds since the start: a wave, a little otherwise each minute."""

    period: float
    phase: float
    noise: Sequence[float]

    def rate(self, seconds: float) -> float:
        wave = 1 + SWING * math.sin(2 * math.pi * (seconds / self.period + self.phase))
        return RATE * wave * self.noise[int(seconds // 60) % len(self.noise)]


def draw_swing(rng: np.random.Generator) -> Swing:
    return Swing(
        period=60 * float(rng.uniform(*_PERIODS)),
        phase=float(rng.uniform()),
        noise=tuple(float(each) for each in np.exp(_MINUTE_NOISE * rng.standard_normal(24 * 60))),
    )


STEADY = Swing(period=math.inf, phase=0.0, noise=(1.0,))


@dataclass(slots=True)
class Load:
    """Transactions that come whether or not those before them are done: times of arrival, and how long each took."""

    conninfo: str
    swing: Swing
    rng: np.random.Generator
    done: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=1_000_000))
    turned_away: int = 0

    async def run(self) -> None:
        queue: asyncio.Queue[float] = asyncio.Queue(_PATIENCE)
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._serve(queue))
            group.create_task(self._arrive(queue))

    async def _arrive(self, queue: asyncio.Queue[float]) -> None:
        start = before = time.monotonic()
        while True:
            await asyncio.sleep(_STEP)
            now = time.monotonic()
            for _ in range(self.rng.poisson(self.swing.rate(now - start) * (now - before))):
                try:
                    queue.put_nowait(time.time())
                except asyncio.QueueFull:
                    self.turned_away += 1
            before = now

    async def _serve(self, queue: asyncio.Queue[float]) -> None:
        """One session; another one where the server has ended it."""
        weights = np.array([each.weight for each in LOAD]) / sum(each.weight for each in LOAD)
        while True:
            with suppress(psycopg.OperationalError):
                async with await psycopg.AsyncConnection.connect(
                    self.conninfo, autocommit=True, application_name="shop"
                ) as connection:
                    while True:
                        arrived = await queue.get()
                        statement = LOAD[self.rng.choice(len(LOAD), p=weights)]
                        values = [Int4(each) for each in statement.values(self.rng)]
                        await connection.execute(statement.text.encode(), values, prepare=True)
                        self.done.append((arrived, time.time() - arrived))
            await asyncio.sleep(1)

    def between(self, start: float, end: float) -> tuple[float, float | None, float | None]:
        """How many came and were done by the second, and the median and the 99th percentile of how long they took."""
        times = [took for arrived, took in self.done if start <= arrived < end]
        if not times:
            return 0.0, None, None
        middle, late = (float(each) for each in np.quantile(times, (0.5, 0.99)))
        return len(times) / (end - start), middle, late


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedServer:
    """``dsn`` is that of the watch, and ``watch`` its process, None where there is none; ``control`` is one session for
    all that is to be sent and asked, so that looking at the server opens no connections.
    """

    cluster: ThrowawayCluster
    dsn: str
    load: Load
    control: psycopg.AsyncConnection
    watch: asyncio.subprocess.Process | None = None

    def check_watch(self) -> None:
        """RuntimeError where the watch has ended by itself: of what comes nothing would be known."""
        if self.watch is not None and self.watch.returncode is not None:
            raise RuntimeError(f"the watch has ended with exit code {self.watch.returncode}")

    async def connect(self, application: str, *, autocommit: bool = True) -> psycopg.AsyncConnection:
        return await psycopg.AsyncConnection.connect(
            self.cluster.conninfo(DATABASE), autocommit=autocommit, application_name=application
        )

    async def send(self, *statements: str) -> None:
        """Also where somebody was cut off in the middle of a statement: what is planted has to be undone."""
        if self.control.closed:
            async with await self.connect("incident") as connection:
                for statement in statements:
                    await connection.execute(statement.encode())
            return
        for statement in statements:
            await self.control.execute(statement.encode())

    async def warm(self) -> None:
        """Have all that the load asks for in shared buffers, as after a long calm time; what was there makes way in the
        second turn.
        """
        await self.send(_WARM, _WARM)

    async def ask(self, query: str) -> str:
        """The first column of the first row; "" where there is none."""
        row = await (await self.control.execute(query.encode())).fetchone()
        return "" if row is None or row[0] is None else str(row[0])


def with_parent(*argv: str) -> list[str]:
    """The command of a program that is told to end when this one does."""
    return [shutil.which("setpriv") or "setpriv", "--pdeathsig", "TERM", *argv]


@asynccontextmanager
async def watched_server(
    name: str,
    folder: Path | None,
    postgres: str | None,
    *,
    swing: Swing = STEADY,
    seed: Sequence[int] = (28,),
    settle: float = SETTLE,
) -> AsyncIterator[WatchedServer]:
    """A server with the load, and a watch of it that writes into ``folder``; None: it is not watched."""
    async with running_cluster(f"incidents-{name}", SETTINGS, postgres=postgres) as cluster:
        await _set_up(cluster)
        load = Load(cluster.conninfo(DATABASE), swing, np.random.default_rng(list(seed)))
        dsn = psycopg.conninfo.make_conninfo(cluster.conninfo(DATABASE), user=ROLE)
        async with (
            await psycopg.AsyncConnection.connect(
                cluster.conninfo(DATABASE), autocommit=True, application_name="incident"
            ) as control,
            background(load.run()),
            _watching(dsn, folder) as watch,
        ):
            server = WatchedServer(cluster=cluster, dsn=dsn, load=load, control=control, watch=watch)
            await server.warm()
            await asyncio.sleep(settle)
            yield server


@asynccontextmanager
async def _watching(dsn: str, folder: Path | None) -> AsyncIterator[asyncio.subprocess.Process | None]:
    if folder is None:
        yield None
        return
    watcher = await asyncio.create_subprocess_exec(
        *with_parent(sys.executable, "-m", "pgtrial", "watch", dsn),
        *("--output", str(folder), "--keep-free", "10MB"),
        start_new_session=True,  # Ctrl-C is for the benchmark, which ends the watch after what it has planted
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        yield watcher
    finally:
        with suppress(ProcessLookupError):
            watcher.terminate()
        await watcher.wait()


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do something meanwhile. Raises what it raised, at the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _set_up(cluster: ThrowawayCluster) -> None:
    async with await psycopg.AsyncConnection.connect(cluster.conninfo(), autocommit=True) as connection:
        await connection.execute(f"CREATE DATABASE {DATABASE}".encode())
        await connection.execute(f"CREATE ROLE {ROLE} LOGIN".encode())
        await connection.execute(f"GRANT pg_monitor, pg_read_all_data TO {ROLE}".encode())
    async with await psycopg.AsyncConnection.connect(cluster.conninfo(DATABASE), autocommit=True) as connection:
        await connection.execute(DATA.encode())
        await connection.execute(b"VACUUM ANALYZE")
        await connection.execute(b"CHECKPOINT")
