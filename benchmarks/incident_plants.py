"""Incidents that are planted on a server: each is there while its block lasts, says how one sees it, and is undone.

``EXPECTED`` is what the page of a watch should point to, written down before any of it was run for the table.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from incident_server import DATABASE, LOAD, WatchedServer, background, with_parent

from pgtrial.hosts.linux.control_groups import groups_of, hierarchies
from pgtrial.hosts.linux.devices import disks_under
from pgtrial.hosts.processes import end_process, find_server_children
from pgtrial.watch.words import Suspicion

# What is seen of an incident that is there, in words; "" while it is not.
Look = Callable[[], Awaitable[str]]
Plant = Callable[[WatchedServer], AbstractAsyncContextManager[Look]]
GROUP = "pgtrial-incidents"
_IOPS = 8
_LEAST_WAIT = 0.02  # s that a commit waits at least for the limited disk
_NEIGHBOURS = 3  # for each CPU
_STORM = 25  # connections a second
_EVERY = 60.0  # s between two times at which the cache is emptied
_VERSIONS = 100  # of each row of "product" that nobody may remove
_BLOATED = 4 << 20  # bytes; without them it has 100 kB
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_IMPORT = "INSERT INTO import SELECT n, repeat('z', 1000) FROM generate_series(1, 8000) AS n"
_AUDIT = "SELECT kind, count(*) FROM event WHERE md5(body || id) LIKE 'a%' GROUP BY kind"
_PREWARM = "SELECT pg_prewarm('filler')"


async def _again(server: WatchedServer, application: str, pause: float, *statements: str) -> None:
    """The same statements again and again, by one session, with a pause after each."""
    async with await server.connect(application) as connection:
        while True:
            for statement in statements:
                await connection.execute(statement.encode())
                await asyncio.sleep(pause)


async def _reload(server: WatchedServer, *statements: str) -> None:
    await server.send(*statements, "SELECT pg_reload_conf()")


def _growing(server: WatchedServer, query: str, words: str, *, least: float) -> Look:
    """Seen when the number that the query gives has grown by so much since the first look."""
    first: list[float] = []

    async def look() -> str:
        now = float(await server.ask(query))
        first.append(now)
        grown = now - first[0]
        return f"{grown:.0f} {words}" if grown >= least else ""

    return look


@asynccontextmanager
async def lock_convoy(server: WatchedServer) -> AsyncIterator[Look]:
    """Somebody changes the products that are sold, and is slow to commit."""

    async def hold() -> None:
        async with await server.connect("incident", autocommit=False) as connection:
            while True:
                await connection.execute("UPDATE product SET kind = kind WHERE id <= 20")
                await asyncio.sleep(3)
                await connection.commit()
                await asyncio.sleep(1)

    async def look() -> str:
        waiting = int(await server.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
        return f"{waiting} sessions wait for locks" if waiting else ""

    async with background(hold()):
        yield look


@asynccontextmanager
async def checkpoint_storm(server: WatchedServer) -> AsyncIterator[Look]:
    """An import writes 8 MB a second, and max_wal_size is used up every few seconds."""
    view, column = (
        ("pg_stat_checkpointer", "num_requested")
        if int(await server.ask("SHOW server_version_num")) >= 170000
        else ("pg_stat_bgwriter", "checkpoints_req")
    )
    await _reload(
        server,
        "CREATE TABLE import (id int, body text)",
        "ALTER SYSTEM SET min_wal_size = '32MB'",
        "ALTER SYSTEM SET max_wal_size = '32MB'",
    )
    try:
        # The table is emptied now and then, which keeps it small.
        async with background(_again(server, "import", 1.0, *[_IMPORT] * 10, "TRUNCATE import")):
            yield _growing(server, f"SELECT {column} FROM {view}", "checkpoints were requested", least=3)
    finally:
        await _reload(server, "DROP TABLE import", "ALTER SYSTEM RESET min_wal_size", "ALTER SYSTEM RESET max_wal_size")


@asynccontextmanager
async def missing_index(server: WatchedServer) -> AsyncIterator[Look]:
    """An index is gone, and plans go to the whole table instead."""
    await server.send("DROP INDEX event_customer")

    async def look() -> str:
        plan = await server.ask(
            "EXPLAIN (FORMAT json) SELECT * FROM event WHERE customer = 1 ORDER BY id DESC LIMIT 10"
        )
        return "" if "event_customer" in plan else "no plan has the index"

    try:
        yield look
    finally:
        await server.send("CREATE INDEX event_customer ON event (customer)")


@asynccontextmanager
async def vacuum(server: WatchedServer) -> AsyncIterator[Look]:
    """Many rows of a large table were changed, and autovacuum is slow to clear up."""
    await server.send(
        "ALTER TABLE filler SET (autovacuum_vacuum_cost_delay = 50, autovacuum_vacuum_cost_limit = 60)",
        "UPDATE filler SET id = id WHERE id <= 60000",
    )

    async def look() -> str:
        pages = await server.ask(
            "SELECT heap_blks_scanned FROM pg_stat_progress_vacuum WHERE relid = 'filler'::regclass"
        )
        return f"autovacuum is at work on filler, {pages} blocks scanned" if pages else ""

    try:
        yield look
    finally:
        await server.send(
            "ALTER TABLE filler RESET (autovacuum_vacuum_cost_delay, autovacuum_vacuum_cost_limit)",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_progress_vacuum",
            "VACUUM filler",
        )


@asynccontextmanager
async def iops_limit(server: WatchedServer) -> AsyncIterator[Look]:
    """The disk allows the server a few requests a second."""
    with limited(server, _IOPS):

        async def look() -> str:
            started = time.monotonic()
            await server.send("UPDATE product SET stock = stock WHERE id = 2000")
            took = time.monotonic() - started
            return f"a commit takes {1000 * took:.0f} ms" if took > _LEAST_WAIT else ""

        yield look


@contextmanager
def limited(server: WatchedServer, iops: int) -> Iterator[Path]:
    """The processes of the server in a control group of their own, with a limit of the disk below their data."""
    ops, pid = server.cluster.host.ops, _postmaster(server)
    mount = next((each.mount for each in hierarchies(ops) if each.version == 1 and "blkio" in each.controllers), None)
    if mount is None:
        raise RuntimeError("a limit of the disk needs the controller blkio of control groups version 1")
    (before,) = (groups[0] for hierarchy, groups in groups_of(ops, pid) if "blkio" in hierarchy.controllers)
    disks = disks_under(ops, str(server.cluster.directory))
    group = Path(mount, GROUP)
    remove_group(group, Path(before))
    group.mkdir()
    try:
        _limit(group, disks, iops)
        for each in (pid, *(child.pid for child in find_server_children(str(server.cluster.data), ops))):
            _move(each, group)
        yield group
    finally:
        _limit(group, disks, 0)  # what waits for the disk goes on at once
        remove_group(group, Path(before))


def _limit(group: Path, disks: Sequence[str], iops: int) -> None:
    """Requests by the second; 0: as many as there are."""
    for disk in disks:
        number = Path("/sys/block", disk, "dev").read_text(encoding="utf-8").strip()
        for kind in ("read", "write"):
            Path(group, f"blkio.throttle.{kind}_iops_device").write_text(f"{number} {iops}", encoding="utf-8")


def remove_group(group: Path, to: Path) -> None:
    """Take all processes out of a group that may be there, and remove it; with it goes its limit."""
    while group.exists():
        for pid in Path(group, "cgroup.procs").read_text(encoding="utf-8").split():
            _move(int(pid), to)
        with suppress(OSError):  # a process has just begun in it
            group.rmdir()


def _move(pid: int, group: Path) -> None:
    with suppress(ProcessLookupError):
        Path(group, "cgroup.procs").write_text(str(pid), encoding="utf-8")


def _postmaster(server: WatchedServer) -> int:
    return int(Path(server.cluster.data, "postmaster.pid").read_text(encoding="utf-8").split()[0])


@asynccontextmanager
async def cpu_neighbour(server: WatchedServer) -> AsyncIterator[Look]:
    """Other programs want all CPUs."""
    count = _NEIGHBOURS * (os.cpu_count() or 1)
    # Each has a session of its own: the kernel may share CPUs out by sessions.
    programs = [
        await asyncio.create_subprocess_exec(*with_parent("sh", "-c", "while :; do :; done"), start_new_session=True)
        for _ in range(count)
    ]

    async def look() -> str:
        used = sum(_cpu_time(each.pid) for each in programs)
        return f"{count} other programs have used {used:.1f} s of CPU time" if used > 1 else ""

    try:
        yield look
    finally:
        for each in programs:
            each.send_signal(signal.SIGKILL)
        await asyncio.gather(*(each.wait() for each in programs))


def _cpu_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def connection_storm(server: WatchedServer) -> AsyncIterator[Look]:
    """A client without a pool opens a connection for each of its queries."""
    cluster = server.cluster
    script = cluster.directory / "storm.sql"
    script.write_text(f"\\set id random(0, 9972)\n{LOAD[0].text.replace('%s', ':id')};\n", encoding="utf-8")
    script.chmod(0o644)
    storm = await cluster.host.start(
        [
            cluster.programs.path("pgbench"),
            *("--no-vacuum", "--connect", f"--file={script}", f"--rate={_STORM}"),
            *("--client=8", "--jobs=1", "--time=86400"),
        ],
        role="load",
        account=cluster.account,
        environment=cluster.environment(DATABASE),
        directory=cluster.directory,
    )
    try:
        yield _growing(
            server,
            f"SELECT sessions FROM pg_stat_database WHERE datname = '{DATABASE}'",
            "connections were opened",
            least=2 * _STORM,
        )
    finally:
        await end_process(storm, patience=10)
        script.unlink()


@asynccontextmanager
async def temp_spill(server: WatchedServer) -> AsyncIterator[Look]:
    """work_mem becomes too small for the reports."""
    await _reload(server, "ALTER SYSTEM SET work_mem = '64kB'")
    try:
        yield _growing(
            server,
            f"SELECT temp_bytes FROM pg_stat_database WHERE datname = '{DATABASE}'",
            "bytes of temporary files were written",
            least=1 << 20,
        )
    finally:
        await _reload(server, "ALTER SYSTEM RESET work_mem")


@asynccontextmanager
async def held_wal(server: WatchedServer) -> AsyncIterator[Look]:
    """A replication slot from which nobody reads."""
    await server.send("SELECT pg_create_physical_replication_slot('forgotten', true)")
    try:
        yield _growing(
            server,
            "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) FROM pg_replication_slots",
            "bytes of WAL came to be held",
            least=8192,
        )
    finally:
        await server.send("SELECT pg_drop_replication_slot('forgotten')")


@asynccontextmanager
async def bloat(server: WatchedServer) -> AsyncIterator[Look]:
    """A transaction is left open while all products are changed many times: no old version of a row can be removed."""
    async with await server.connect("incident", autocommit=False) as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.execute("SELECT count(*) FROM product")

        async def look() -> str:
            size = int(await server.ask("SELECT pg_table_size('product')"))
            return f"product has {size} bytes" if size > _BLOATED else ""

        try:
            await server.send(*["UPDATE product SET stock = stock"] * _VERSIONS)
            yield look
        finally:
            await connection.rollback()
            await server.send("VACUUM FULL product", "ANALYZE product")


@asynccontextmanager
async def slow_statement(server: WatchedServer) -> AsyncIterator[Look]:
    """A new program asks what nobody has asked before, and reads a whole table for it."""
    async with background(_again(server, "audit", 0.5, _AUDIT)):
        yield _growing(
            server,
            "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%md5(body%' "
            "AND query NOT LIKE '%pg_stat_statements%'",
            "calls of a new statement",
            least=2,
        )


@asynccontextmanager
async def emptied_cache(server: WatchedServer) -> AsyncIterator[Look]:
    """Once a minute something else fills shared buffers, and the kernel's cache is dropped."""

    async def empty() -> None:
        while True:
            # Buffers that are used often stay until the clock has passed them five times.
            await server.send(*[_PREWARM] * 8)
            if _DROP_CACHES.exists() and os.geteuid() == 0:
                await asyncio.to_thread(_DROP_CACHES.write_text, "1")
            await asyncio.sleep(_EVERY)

    reads = _growing(
        server,
        "SELECT heap_blks_read FROM pg_statio_user_tables WHERE relname = 'event'",
        "blocks of event were read again",
        least=100,
    )
    async with background(empty()):
        yield reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a page that names an incident points to, and a word that the pointer's text has."""

    code: Suspicion
    word: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    plant: Plant
    expected: Expected


INCIDENTS: Mapping[str, Incident] = {
    "lock convoy": Incident(plant=lock_convoy, expected=Expected(code=Suspicion.LOCKS, word="SET kind = kind")),
    "checkpoint storm": Incident(plant=checkpoint_storm, expected=Expected(code=Suspicion.CHECKPOINTS)),
    "missing index": Incident(plant=missing_index, expected=Expected(code=Suspicion.ROWS, word="FROM event")),
    "vacuum": Incident(plant=vacuum, expected=Expected(code=Suspicion.VACUUM, word="filler")),
    "IOPS limit": Incident(plant=iops_limit, expected=Expected(code=Suspicion.DISK)),
    "CPU neighbour": Incident(plant=cpu_neighbour, expected=Expected(code=Suspicion.CPU)),
    "connection storm": Incident(plant=connection_storm, expected=Expected(code=Suspicion.CONNECTIONS)),
    "temp spill": Incident(plant=temp_spill, expected=Expected(code=Suspicion.SPILL)),
    "replication slot": Incident(plant=held_wal, expected=Expected(code=Suspicion.SLOT)),
    "bloat": Incident(plant=bloat, expected=Expected(code=Suspicion.BLOAT)),
    "slow statement": Incident(plant=slow_statement, expected=Expected(code=Suspicion.NEW_STATEMENT, word="md5(body")),
    "cache emptied": Incident(plant=emptied_cache, expected=Expected(code=Suspicion.CACHE)),
}
