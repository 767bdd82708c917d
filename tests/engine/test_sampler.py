"""The sampler process on a real server, five times as fast as in an experiment."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from pgtrial.collectors import COLLECTORS, sessions
from pgtrial.collectors.base import FileCollector
from pgtrial.engine.sampler_spool import FILE, read_header, read_times
from pgtrial.engine.sampling import Sampler, SamplerConfig, SamplerReport, convert
from pgtrial.errors import TargetError
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.store import parquet

INTERVAL = 0.2
FILES = {collector.name for collector in COLLECTORS if isinstance(collector, FileCollector)}
HEAVY = {"pydantic", "duckdb", "numpy", "scipy", "click", "rich", "jinja2"}


@pytest.fixture
def config(throwaway: ThrowawayCluster, tmp_path: Path) -> SamplerConfig:
    (tmp_path / "spool").mkdir()
    return SamplerConfig(
        conninfo=throwaway.conninfo("template1"),
        version_num=throwaway.programs.major * 10000,
        database="postgres",
        data_directories=(str(throwaway.data),),
        spool=str(tmp_path / "spool"),
        interval=INTERVAL,
        session_interval=INTERVAL / 10,
    )


async def sample(config: SamplerConfig, *, seconds: float) -> SamplerReport:
    sampler = Sampler()
    await sampler.start(config)
    await asyncio.sleep(seconds)
    return await sampler.stop()


def server_sources(config: SamplerConfig) -> set[str]:
    return set(read_header(Path(config.spool)).sources) - FILES


def query(path: Path, text: str) -> list[tuple[object, ...]]:
    with parquet.connect() as db:
        return db.execute(text.replace("{file}", f"'{path}'")).fetchall()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def backend_of_sampler(cluster: ThrowawayCluster) -> int:
    with psycopg.connect(cluster.conninfo()) as connection:
        found = connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'pgtrial sampler'")
        ((pid,),) = found.fetchall()
    return int(pid)


def test_first_readings_are_on_disk_when_start_returns(config: SamplerConfig, runner: asyncio.Runner) -> None:
    sampler = Sampler()
    runner.run(sampler.start(config))
    found = {source for _, source in read_times(Path(config.spool))}
    runner.run(sampler.stop())

    assert found == {"header", *read_header(Path(config.spool)).sources} - {sessions.NAME}


def test_every_source_is_read_at_every_tick(config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path) -> None:
    report = runner.run(sample(config, seconds=10 * INTERVAL))
    convert(Path(config.spool), tmp_path)

    assert report.gaps == ()
    assert report.errors == ()
    assert report.ticks + (report.late or 0) in {11, 12}  # one of them at the end, out of turn
    counts = query(tmp_path / "samples.parquet", "SELECT count(*) FROM {file} GROUP BY metric, object")
    assert {count for (count,) in counts} <= {report.ticks, report.ticks - 1}
    metrics = {metric for (metric,) in query(tmp_path / "samples.parquet", "SELECT DISTINCT metric FROM {file}")}
    assert {str(metric).partition(".")[0] for metric in metrics} >= {"proc_stat", "pg_stat_database", "sessions"}
    (most,) = query(tmp_path / "waits.parquet", "SELECT max(polls) FROM {file}")
    assert 5 <= int(str(most[0])) <= 10
    (checkpointers,) = query(
        tmp_path / "waits.parquet", "SELECT max(sessions - polls) FROM {file} WHERE backend_type = 'checkpointer'"
    )
    assert checkpointers == (0,)


def test_times_lie_in_the_tick_they_belong_to(config: SamplerConfig, runner: asyncio.Runner) -> None:
    before = time.time()
    runner.run(sample(config, seconds=5 * INTERVAL))
    times = [t for t, source in read_times(Path(config.spool)) if source == "pg_stat_wal"]

    assert all(before < t < time.time() for t in times)
    steps = [later - earlier for earlier, later in pairwise(times[:-1])]  # the last is read when it is told to end
    assert steps == pytest.approx([INTERVAL] * len(steps), abs=INTERVAL / 2)


def test_server_that_comes_back_is_read_again(
    config: SamplerConfig, runner: asyncio.Runner, throwaway: ThrowawayCluster
) -> None:
    async def restart() -> SamplerReport:
        sampler = Sampler()
        await sampler.start(config)
        await throwaway.stop(immediate=True)
        await asyncio.sleep(5 * INTERVAL)
        await throwaway.start()
        await asyncio.sleep(5 * INTERVAL)
        return await sampler.stop()

    report = runner.run(restart())

    assert {gap.source for gap in report.gaps} == server_sources(config)
    last = dict(sorted((source, t) for t, source in read_times(Path(config.spool))))
    assert all(gap.end < last[gap.source] + INTERVAL for gap in report.gaps if gap.source != sessions.NAME)
    assert len(report.errors) == 1


def test_server_that_hangs_does_not_hold_up_the_machines_readings(
    config: SamplerConfig, runner: asyncio.Runner, throwaway: ThrowawayCluster, tmp_path: Path
) -> None:
    async def hang() -> SamplerReport:
        sampler = Sampler()
        await sampler.start(config)
        with frozen(backend_of_sampler(throwaway)):
            await asyncio.sleep(6 * INTERVAL)
        await asyncio.sleep(4 * INTERVAL)
        return await sampler.stop()

    report = runner.run(hang())
    convert(Path(config.spool), tmp_path)

    assert {gap.source for gap in report.gaps} == server_sources(config)
    after = max(gap.end for gap in report.gaps)
    (answers,) = query(
        tmp_path / "samples.parquet",
        f"SELECT count(*) FROM {{file}} WHERE metric = 'pg_stat_wal.wal_fpi' AND t >= {after - 0.1}",
    )
    assert int(str(answers[0])) >= 2


def test_ticks_that_were_missed_have_no_readings(config: SamplerConfig, runner: asyncio.Runner) -> None:
    async def pause() -> SamplerReport:
        sampler = Sampler()
        await sampler.start(config)
        assert sampler.pid is not None
        with frozen(sampler.pid):
            await asyncio.sleep(6 * INTERVAL)
        await asyncio.sleep(2 * INTERVAL)
        return await sampler.stop()

    report = runner.run(pause())

    assert {gap.source for gap in report.gaps} == set(read_header(Path(config.spool)).sources)
    assert report.late is not None
    assert report.late >= 4
    times = [t for t, source in read_times(Path(config.spool)) if source == "proc_stat"]
    assert len(times) == report.ticks <= 6


def test_sampler_that_was_killed_is_an_error_and_a_gap(config: SamplerConfig, runner: asyncio.Runner) -> None:
    async def kill() -> SamplerReport:
        sampler = Sampler()
        await sampler.start(config)
        assert sampler.pid is not None
        os.kill(sampler.pid, signal.SIGKILL)
        await asyncio.sleep(4 * INTERVAL)
        return await sampler.stop()

    report = runner.run(kill())

    assert report.errors == ("the sampler ended before its time: it was killed",)
    assert {gap.source for gap in report.gaps} == set(read_header(Path(config.spool)).sources)
    assert report.late is None


def test_told_to_end_it_writes_what_it_has(config: SamplerConfig, runner: asyncio.Runner) -> None:
    async def terminate() -> SamplerReport:
        sampler = Sampler()
        await sampler.start(config)
        assert sampler.pid is not None
        await asyncio.sleep(2.5 * INTERVAL)
        os.kill(sampler.pid, signal.SIGTERM)
        await asyncio.to_thread(wait_until_gone, sampler.pid)
        return await sampler.stop()

    report = runner.run(terminate())

    assert report.errors == ()
    assert report.ticks + (report.late or 0) == 4
    assert len([source for _, source in read_times(Path(config.spool)) if source == "proc_stat"]) == report.ticks


def test_sampler_does_not_outlive_its_parent(config: SamplerConfig) -> None:
    script = (
        "import asyncio, sys\n"
        "from pgtrial.engine.sampling import Sampler, SamplerConfig\n"
        "async def main():\n"
        "    sampler = Sampler()\n"
        f"    await sampler.start({config!r})\n"
        "    print(sampler.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    wait_until_gone(pid)

    assert b'"end",' in (Path(config.spool) / FILE).read_bytes().splitlines()[-1]


def test_database_that_is_not_there_is_a_gap(config: SamplerConfig, runner: asyncio.Runner) -> None:
    report = runner.run(sample(replace(config, database="nowhere"), seconds=4 * INTERVAL))

    assert [gap.source for gap in report.gaps] == ["pg_stat_database"]


def test_server_that_is_not_there_is_named_in_its_own_words(tmp_path: Path, runner: asyncio.Runner) -> None:
    sampler = Sampler()
    config = SamplerConfig(
        conninfo=f"host={tmp_path} user=postgres dbname=postgres",
        version_num=150000,
        database="postgres",
        data_directories=(str(tmp_path),),
        spool=str(tmp_path),
    )

    with pytest.raises(TargetError) as caught:
        runner.run(sampler.start(config))

    assert caught.value.message == "the sampler does not start"
    assert ".s.PGSQL.5432" in caught.value.detail
    assert "Traceback" not in caught.value.detail
    assert sampler.pid is not None
    assert not is_running(sampler.pid)


def test_spool_that_cannot_be_written_is_named(config: SamplerConfig, runner: asyncio.Runner) -> None:
    Path(config.spool).rmdir()

    with pytest.raises(TargetError) as caught:
        runner.run(Sampler().start(config))

    assert caught.value.detail == f"No such file or directory: {config.spool}/{FILE}"


def test_sampler_imports_nothing_heavy() -> None:
    script = "import sys, pgtrial.engine.sampler; print(*{name.partition('.')[0] for name in sys.modules})"

    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert not HEAVY & set(found.stdout.split())
