"""Record the noise of a real server: what a steady load gets done in each quarter of a second, on this machine.

One throw-away server and one pgbench for each load, nothing varied: whatever changes from one quarter of a second to
the next is the machine, the server and the load themselves.
"""

import asyncio
import gzip
import os
import platform
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgtrial.errors import WorkloadError
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.hosts.processes import end_process
from pgtrial.postgres.programs import find_programs, reachable_programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import make_own, prepare_directories, remove_directories
from pgtrial.store.parquet import connect

DATA = Path(__file__).parent / "data"
TICK = 0.25  # s
CLIENTS, SCALE = 2, 10
_DATABASE = "postgres"
_EDGE = 2.0  # s at both ends that are left out: connections are made, and clients end
_SELECT = "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLoad:
    """``text``: what is recorded; ``option``: pgbench's, for the ``script`` if there is one."""

    text: str
    option: str
    script: str = ""


_UPDATE = "--builtin=simple-update"
LOADS = {
    # Ten queries to a transaction, so that its log stays small.
    "reads": RecordedLoad(
        text="a real server's reads, recorded",
        option="--file=reads.sql",
        script=f"BEGIN;\n{_SELECT * 10}COMMIT;\n",
    ),
    "writes": RecordedLoad(text="a real server's writes, recorded", option=_UPDATE),
    "hours": RecordedLoad(text="a real server's writes, recorded for two hours", option=_UPDATE),
    "more-hours": RecordedLoad(
        text="a real server's mix of reads and writes, recorded for two hours", option="--builtin=tpcb-like"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """``counts``: transactions finished in each tick, without a gap. ``made``: how, a sentence on each line."""

    name: str
    made: str
    counts: NDArray[np.int64]


def record(seconds: float, loads: Sequence[str]) -> list[Recording]:
    """The loads of these names, one after the other, ``seconds`` of each."""
    return asyncio.run(_record(seconds, loads))


def write(recording: Recording, folder: Path = DATA) -> Path:
    """One file, the same for the same recording; returns its path."""
    path = folder / f"{recording.name}.txt.gz"
    comments = "".join(f"# {line}\n" for line in recording.made.splitlines())
    numbers = "\n".join(
        " ".join(map(str, row)) for row in np.array_split(recording.counts, max(1, len(recording.counts) // 40))
    )
    path.write_bytes(gzip.compress(f"{comments}{numbers}\n".encode(), mtime=0))
    return path


def read(name: str, folder: Path = DATA) -> Recording:
    """What ``write`` has written."""
    lines = gzip.decompress((folder / f"{name}.txt.gz").read_bytes()).decode().splitlines()
    made = "\n".join(line.removeprefix("# ") for line in lines if line.startswith("#"))
    numbers = [int(number) for line in lines if not line.startswith("#") for number in line.split()]
    return Recording(name=name, made=made, counts=np.array(numbers, dtype=np.int64))


async def _record(seconds: float, loads: Sequence[str]) -> list[Recording]:
    host, account = LocalHost(), server_account()
    name = f"pgtrial-gym-{uuid.uuid4().hex[:8]}"
    work, sockets = prepare_directories(host, Path(tempfile.gettempdir()), name, account)
    try:
        programs = await reachable_programs(host, find_programs(), work=work, account=account)
        cluster = ThrowawayCluster(
            host=host, programs=programs, directory=work, socket_directory=sockets, account=account
        )
        await cluster.initdb()
        cluster.write_settings({"shared_buffers": "256MB", "max_wal_size": "256MB", "checkpoint_timeout": "2min"})
        try:
            await cluster.start()
            await host.run(
                [programs.path("pgbench"), "--initialize", "--quiet", f"--scale={SCALE}"],
                account=account,
                environment=cluster.environment(_DATABASE),
                directory=work,
            )
            return [await _load(cluster, load, seconds) for load in loads]
        finally:
            await cluster.stop(immediate=True)
    finally:
        remove_directories(host, work, sockets)


async def _load(cluster: ThrowawayCluster, name: str, seconds: float) -> Recording:
    recorded = LOADS[name]
    make_own(cluster.host, place := cluster.directory / f"load-{name}", cluster.account)
    if recorded.script:
        cluster.host.ops.put(str(cluster.directory / "reads.sql"), recorded.script)
    load = await cluster.host.start(
        [
            cluster.programs.path("pgbench"),
            *("--no-vacuum", "--protocol=prepared", "--log", f"--log-prefix={place / name}"),
            *(f"--client={CLIENTS}", f"--jobs={CLIENTS}", recorded.option, f"--time={seconds + 2 * _EDGE:.0f}"),
        ],
        role="load",
        account=cluster.account,
        environment=cluster.environment(_DATABASE),
        directory=cluster.directory,
    )
    try:
        status = await load.wait()
    finally:
        await end_process(load, patience=10)
    if status != 0:
        raise WorkloadError(f"pgbench ended with status {status} before its time")
    counts = _count(sorted(place.glob(f"{name}.[0-9]*")))
    made = (
        f"Transactions finished in each {TICK:g} s by pgbench ({name}), in time order.\n"
        f"PostgreSQL {cluster.programs.version}, {os.cpu_count()} CPUs, Linux {platform.release()}, "
        f"{CLIENTS} clients, scale {SCALE}; other work shared the machine.\n"
        f"Made by python -m gym --record {seconds:g} --only {name}."
    )
    return Recording(name=name, made=made, counts=counts)


def _count(logs: list[Path]) -> NDArray[np.int64]:
    names = (
        "{'client': 'INT', 'number': 'BIGINT', 'time': 'BIGINT', 'script': 'INT', 'epoch': 'BIGINT', 'us': 'BIGINT'}"
    )
    with connect() as db:
        rows = db.execute(
            f"""
            SELECT floor((epoch + us / 1e6) / $tick)::BIGINT AS tick, count(*)
            FROM read_csv($logs, delim = ' ', header = false, columns = {names})
            GROUP BY tick
            """,
            {"tick": TICK, "logs": [str(path) for path in logs]},
        ).fetchall()
    found = dict(rows)
    first, last = (edge + sign * round(_EDGE / TICK) for edge, sign in ((min(found), 1), (max(found), -1)))
    return np.array([found.get(tick, 0) for tick in range(first, last)], dtype=np.int64)
