"""The sampler process on a real server, five times as fast as in an experiment."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgtrial.collectors import COLLECTORS, sessions
from pgtrial.collectors.base import FileCollector
from pgtrial.engine.collect import convert
from pgtrial.engine.sampler import control
from pgtrial.engine.sampler.config import RemoteReader
from pgtrial.engine.sampler.control import (
    Sampler,
    SamplerConfig,
    SamplerReport,
    find_disks,
    remote_reader,
)
from pgtrial.engine.sampler.files import reader_argv
from pgtrial.engine.sampler.spool import FILE, read_header, read_times
from pgtrial.errors import TargetError
from pgtrial.hosts.clock import HostClock, measure_offset
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.ssh.host import SshHost
from pgtrial.model.caveat import Severity
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.store import parquet
from support import reached, wait_until

INTERVAL = 0.2
DISK = Path(tempfile.gettempdir())  # memory has no block device
FILES = {collector.name for collector in COLLECTORS if isinstance(collector, FileCollector)}
HEAVY = {"pydantic", "duckdb", "numpy", "scipy", "click", "rich", "jinja2"}


@pytest.fixture(scope="module")
def cluster(
    programs: Programs, run_cluster: Callable[..., AbstractContextManager[ThrowawayCluster]]
) -> Iterator[ThrowawayCluster]:
    """A server for all tests that leave it alone."""
    with asyncio.Runner() as runner, run_cluster(programs, runner, place=DISK) as cluster:
        yield cluster


@pytest.fixture
def config(cluster: ThrowawayCluster, tmp_path: Path) -> SamplerConfig:
    (tmp_path / "spool").mkdir()
    disks = find_disks(Operations(), [str(cluster.data)])
    return SamplerConfig(
        conninfo=cluster.conninfo("template1"),
        version_num=cluster.programs.major * 10000,
        database="postgres",
        devices=disks.names,
        caveats=disks.caveats,
        spool=str(tmp_path / "spool"),
        interval=INTERVAL,
        session_interval=INTERVAL / 10,
    )


def reader_of(*, ahead: float = 0.0) -> RemoteReader:
    """A reader on "another" machine, which is this one with a clock that is ahead by so many seconds."""
    python, *options, program = reader_argv(sys.executable)
    shift = f"import time; now = time.time; time.time = lambda: now() + {ahead!r}"
    return RemoteReader(command=(python, *options, f"{shift}; {program}"), clock_offset=ahead)


@pytest.fixture(params=["here", "elsewhere"])
def any_config(request: pytest.FixtureRequest, config: SamplerConfig) -> SamplerConfig:
    """The files of the server's machine are read here, or by a reader elsewhere whose clock is an hour ahead."""
    return config if request.param == "here" else replace(config, remote=reader_of(ahead=3600.0))


def reader_under(sampler: Sampler) -> int:
    """Process id of the reader that a sampler has started."""
    (pid,) = Path(f"/proc/{sampler.pid}/task/{sampler.pid}/children").read_text().split()
    return int(pid)


async def sample(config: SamplerConfig, *, seconds: float) -> SamplerReport:
    sampler = Sampler()
    await sampler.start(config)
    await asyncio.sleep(seconds)
    return await sampler.stop()


async def wait_for_readings(config: SamplerConfig, *sources: str, since: float, count: int) -> None:
    """Until each of the sources has been read so many times since a moment."""

    def are_there() -> bool:
        found = Counter(source for t, source in read_times(Path(config.spool)) if t > since)
        return all(found[source] >= count for source in sources)

    await reached(are_there)


def server_sources(config: SamplerConfig) -> set[str]:
    return set(read_header(Path(config.spool)).sources) - FILES - {"pgbench_cpu"}


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
    wait_until(lambda: not is_running(pid))


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


def test_first_readings_are_on_disk_when_start_returns(any_config: SamplerConfig, runner: asyncio.Runner) -> None:
    sampler = Sampler()
    runner.run(sampler.start(any_config))
    spool = Path(any_config.spool)
    (first, *_), found = read_times(spool), {source for _, source in read_times(spool)}
    runner.run(sampler.stop())

    assert first[1] == "header"
    assert found == {"header", *read_header(spool).sources} - {sessions.NAME}


def test_every_source_is_read_at_every_tick(any_config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path) -> None:
    begun = time.time()
    report = runner.run(sample(any_config, seconds=10 * INTERVAL))
    convert(Path(any_config.spool), folder=tmp_path)

    assert report.gaps == ()
    assert report.errors == ()
    assert report.ticks + (report.late or 0) >= 11  # one of them at the end, out of turn
    counts = query(
        tmp_path / "samples.parquet",
        # Autovacuum may be seen in between.
        "SELECT count(*) FROM {file} WHERE metric NOT LIKE 'pg_stat_progress_%' GROUP BY metric, object",
    )
    # What does not answer before the next tick, on a busy machine, is not asked again at that one. A reader elsewhere
    # has ticks of its own, which begin and end at other moments.
    most_ticks = report.ticks + (any_config.remote is not None)
    assert {count for (count,) in counts} <= set(range(report.ticks // 2, most_ticks + 1))
    metrics = {metric for (metric,) in query(tmp_path / "samples.parquet", "SELECT DISTINCT metric FROM {file}")}
    assert {str(metric).partition(".")[0] for metric in metrics} >= {"proc_stat", "pg_stat_database", "sessions"}
    (most,) = query(tmp_path / "waits.parquet", "SELECT max(polls) FROM {file}")
    # From one tick to the next there may be a fifth more than an interval, and one that was missed has its polls added.
    assert 5 <= int(str(most[0])) <= 13 + 10 * (report.late or 0)
    (checkpointers,) = query(
        tmp_path / "waits.parquet", "SELECT max(sessions - polls) FROM {file} WHERE backend_type = 'checkpointer'"
    )
    assert checkpointers == (0,)
    ((first, last),) = query(tmp_path / "samples.parquet", "SELECT min(t), max(t) FROM {file}")
    assert begun <= float(str(first)) <= float(str(last)) <= time.time()


def test_what_it_is_asked_to_read_now_is_read_when_it_answers_and_no_sum_of_sessions_goes_on(
    config: SamplerConfig, runner: asyncio.Runner
) -> None:
    async def ask() -> tuple[float, float]:
        sampler, begun = Sampler(), time.time()
        await sampler.start(config)
        await wait_for_readings(config, sessions.NAME, since=begun, count=2)
        asked, told = time.time(), await sampler.read_now()
        await wait_for_readings(config, sessions.NAME, since=told, count=2)
        await sampler.stop()
        return asked, told

    asked, told = runner.run(ask())

    times = read_times(Path(config.spool))
    read = {source for t, source in times if asked <= t <= told}
    assert read >= set(read_header(Path(config.spool)).sources) - {sessions.NAME, "pgbench_cpu"}
    # In the order in which they were written down: what began before is written before.
    is_before = [t <= told for t, _ in times]
    assert is_before == sorted(is_before, reverse=True)


def test_an_answer_that_came_too_late_is_none_to_the_next_question(
    config: SamplerConfig, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask_twice() -> tuple[float, float]:
        sampler = Sampler()
        await sampler.start(config)
        assert sampler.pid is not None
        with frozen(sampler.pid), monkeypatch.context() as impatient:
            impatient.setattr(control, "_READ_PATIENCE", 0.05)
            await sampler.read_now()
        asked = time.time()
        told = await sampler.read_now()
        await sampler.stop()
        return asked, told

    asked, told = runner.run(ask_twice())

    assert asked <= told <= time.time()


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
        await sampler.start(replace(config, conninfo=throwaway.conninfo("template1")))
        await throwaway.stop(immediate=True)
        await asyncio.sleep(5 * INTERVAL)
        await throwaway.start()
        sources = server_sources(config) - {sessions.NAME}
        await wait_for_readings(config, *sources, since=time.time(), count=2)
        return await sampler.stop()

    report = runner.run(restart())

    assert {gap.source for gap in report.gaps} == server_sources(config)
    last = dict(sorted((source, t) for t, source in read_times(Path(config.spool))))
    assert all(gap.end < last[gap.source] + INTERVAL for gap in report.gaps if gap.source != sessions.NAME)
    assert len(report.errors) == 1


def test_server_that_hangs_does_not_hold_up_the_machines_readings_and_is_told(
    config: SamplerConfig, runner: asyncio.Runner, throwaway: ThrowawayCluster, tmp_path: Path
) -> None:
    async def hang() -> tuple[SamplerReport, float]:
        sampler = Sampler()
        await sampler.start(replace(config, conninfo=throwaway.conninfo("template1")))
        with frozen(backend_of_sampler(throwaway)):
            await asyncio.sleep(6 * INTERVAL)
            over = time.time()
        await wait_for_readings(config, "pg_stat_wal", since=time.time(), count=3)
        return await sampler.stop(), over

    report, over = runner.run(hang())
    convert(Path(config.spool), folder=tmp_path)

    assert (report.gaps, report.errors) == ((), ())  # it was asked all the time
    assert [caveat.code for caveat in report.caveats if caveat.severity == Severity.WARNING] == ["unanswered"]
    (answers,) = query(
        tmp_path / "samples.parquet",
        f"SELECT count(*) FROM {{file}} WHERE metric = 'pg_stat_wal.wal_fpi' AND t >= {over}",
    )
    assert int(str(answers[0])) >= 2


def test_ticks_that_were_missed_have_no_readings(config: SamplerConfig, runner: asyncio.Runner) -> None:
    async def pause() -> tuple[SamplerReport, float]:
        begun = time.monotonic()
        sampler = Sampler()
        await sampler.start(config)
        assert sampler.pid is not None
        with frozen(sampler.pid):
            await asyncio.sleep(6 * INTERVAL)
        await asyncio.sleep(2 * INTERVAL)
        return await sampler.stop(), time.monotonic() - begun

    report, taken = runner.run(pause())

    assert {gap.source for gap in report.gaps} == set(read_header(Path(config.spool)).sources)
    assert report.late is not None
    assert report.late >= 4
    times = [t for t, source in read_times(Path(config.spool)) if source == "proc_stat"]
    assert len(times) == report.ticks <= taken / INTERVAL + 2 - report.late


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
        await wait_for_readings(config, "proc_stat", since=0.0, count=3)
        os.kill(sampler.pid, signal.SIGTERM)
        await asyncio.to_thread(wait_until_gone, sampler.pid)
        return await sampler.stop()

    report = runner.run(terminate())

    assert report.errors == ()
    assert len([source for _, source in read_times(Path(config.spool)) if source == "proc_stat"]) == report.ticks >= 4


def test_sampler_does_not_outlive_its_parent(any_config: SamplerConfig) -> None:
    config = replace(any_config, caveats=())  # a caveat in it could not be written as Python
    script = (
        "import asyncio, sys\n"
        "from pgtrial.engine.sampler.config import RemoteReader\n"
        "from pgtrial.engine.sampler.control import Sampler, SamplerConfig\n"
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
        others = [int(other) for other in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        assert len(others) == (any_config.remote is not None)
        parent.kill()
    for process in (pid, *others):
        wait_until_gone(process)

    assert b'"end",' in (Path(any_config.spool) / FILE).read_bytes().splitlines()[-1]


def test_reader_that_dies_is_an_error_and_a_gap_and_the_rest_goes_on(
    config: SamplerConfig, runner: asyncio.Runner
) -> None:
    async def kill_reader() -> SamplerReport:
        sampler = Sampler()
        await sampler.start(replace(config, remote=reader_of()))
        os.kill(reader_under(sampler), signal.SIGKILL)
        await wait_for_readings(config, "pg_stat_wal", since=time.time(), count=5)
        return await sampler.stop()

    report = runner.run(kill_reader())

    assert report.errors == ("the reader on the server's machine ended: status -9",)
    header = read_header(Path(config.spool))
    assert {gap.source for gap in report.gaps} == FILES & set(header.sources)
    assert report.ticks + (report.late or 0) >= 6


def test_reader_that_falls_silent_is_an_error_and_not_waited_for(config: SamplerConfig, runner: asyncio.Runner) -> None:
    async def freeze_reader() -> tuple[SamplerReport, float]:
        sampler = Sampler()
        await sampler.start(replace(config, remote=reader_of()))
        os.kill(reader_under(sampler), signal.SIGSTOP)
        await asyncio.sleep(4 * INTERVAL)
        begun = time.monotonic()
        return await sampler.stop(), time.monotonic() - begun

    report, taken = runner.run(freeze_reader())

    assert report.errors == ("the reader on the server's machine does not answer",)
    assert taken < 60  # it would never answer


def test_reader_at_the_end_of_an_ssh_connection(
    config: SamplerConfig, runner: asyncio.Runner, sshd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGTRIAL_SSH", sshd.ssh())

    async def lose_connection() -> tuple[SamplerReport, Path]:
        host = await SshHost.open(sshd.address)
        try:
            (good := Path(config.spool) / "good").mkdir()
            reader = remote_reader(host, clock_offset=measure_offset(host).offset)
            report = await sample(replace(config, spool=str(good), remote=reader), seconds=5 * INTERVAL)
            assert (report.errors, report.gaps) == ((), ())
            sampler = Sampler()
            await sampler.start(replace(config, remote=reader))
        finally:
            await host.close(at_once=True)
        await asyncio.sleep(2 * INTERVAL)
        return await sampler.stop(), good

    report, good = runner.run(lose_connection())

    assert set(read_header(good).foreign) == FILES & set(read_header(good).sources) != set()
    (error,) = report.errors
    assert error.startswith("the reader on the server's machine ended: ")


def test_host_that_is_this_machine_needs_no_reader() -> None:
    assert remote_reader(LocalHost(), clock_offset=0.0) is None


def test_ticks_that_a_reader_missed_are_late_and_a_gap(config: SamplerConfig, runner: asyncio.Runner) -> None:
    async def pause() -> SamplerReport:
        sampler = Sampler()
        await sampler.start(replace(config, remote=reader_of()))
        with frozen(reader_under(sampler)):
            await asyncio.sleep(6 * INTERVAL)
        await asyncio.sleep(2 * INTERVAL)
        return await sampler.stop()

    report = runner.run(pause())

    assert {gap.source for gap in report.gaps} == FILES & set(read_header(Path(config.spool)).sources)
    assert report.errors == ()
    assert report.late is not None
    assert report.late >= 4


def test_reader_does_not_outlive_a_sampler_that_is_killed(config: SamplerConfig, runner: asyncio.Runner) -> None:
    async def kill() -> int:
        sampler = Sampler()
        await sampler.start(replace(config, remote=reader_of()))
        assert sampler.pid is not None
        reader = reader_under(sampler)
        assert is_running(reader)
        os.kill(sampler.pid, signal.SIGKILL)
        await sampler.stop()
        return reader

    wait_until_gone(runner.run(kill()))


def test_reader_that_does_not_start_says_why(config: SamplerConfig, runner: asyncio.Runner) -> None:
    words = "ssh: connect to host db1 port 22: No route to host"
    reader = RemoteReader(command=("sh", "-c", f"echo '{words}' >&2; exit 255"), clock_offset=0.0)

    with pytest.raises(TargetError) as caught:
        runner.run(Sampler().start(replace(config, remote=reader)))

    assert caught.value.message == "the sampler does not start"
    assert caught.value.detail == f"the reader on the server's machine ended: {words}"


def test_clock_that_was_measured_twice_closes_gaps_that_drift_would_open(
    config: SamplerConfig, runner: asyncio.Runner
) -> None:
    async def drift() -> tuple[SamplerReport, SamplerReport, float]:
        """The reader's clock is taken to be right, then it turns out to be 4 intervals ahead."""
        reader = replace(reader_of(ahead=4 * INTERVAL), clock_offset=0.0)
        sampler = Sampler()
        await sampler.start(replace(config, remote=reader))
        await asyncio.sleep(5 * INTERVAL)
        stopped = time.time()
        wrong = await sampler.stop()
        return wrong, await sampler.stop(clock=HostClock.constant(4 * INTERVAL)), stopped

    wrong, right, stopped = runner.run(drift())

    assert {gap.source for gap in wrong.gaps} >= FILES & set(read_header(Path(config.spool)).sources)
    # Between the two stops nothing was read.
    assert [gap for gap in right.gaps if gap.source in FILES and gap.start < stopped] == []


def test_control_groups_of_the_server_are_read(
    any_config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path
) -> None:
    memory, cpu = tmp_path / "memory", tmp_path / "cpu"
    for group in (memory, cpu):
        group.mkdir()
    (memory / "memory.usage_in_bytes").write_text("4096\n")
    (cpu / "cpu.stat").write_text("nr_periods 30\nnr_throttled 16\nthrottled_time 1000000000\n")
    report = runner.run(sample(replace(any_config, groups=(str(memory), str(cpu))), seconds=2 * INTERVAL))
    convert(Path(any_config.spool), folder=tmp_path)

    found = query(
        tmp_path / "samples.parquet",
        "SELECT DISTINCT metric, value FROM {file} WHERE metric LIKE 'cgroup.%' ORDER BY 1",
    )
    assert found == [
        ("cgroup.cpu_periods", 30.0),
        ("cgroup.cpu_throttled_periods", 16.0),
        ("cgroup.cpu_throttled_time", 1.0),
        ("cgroup.memory_usage", 4096.0),
    ]
    assert not [caveat for caveat in report.caveats if "control group" in caveat.text]


@pytest.mark.parametrize(("reader", "who"), [(None, "this machine"), (reader_of(), "the server's machine")])
def test_what_cannot_be_read_on_a_machine_is_a_caveat_that_says_which(
    config: SamplerConfig, runner: asyncio.Runner, reader: RemoteReader | None, who: str
) -> None:
    config = replace(config, groups=("/nowhere",), remote=reader)
    report = runner.run(sample(config, seconds=INTERVAL))

    texts = [caveat.text for caveat in report.caveats if caveat.code == "no-source"]
    assert f"On {who} pgtrial's account cannot read statistics of the control group /nowhere." in texts


def test_directory_without_a_disk_is_a_caveat_that_says_why(
    config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path
) -> None:
    disks = find_disks(Operations(), [f"{tmp_path}/none", f"{tmp_path}/none"])
    report = runner.run(sample(replace(config, devices=disks.names, caveats=disks.caveats), seconds=INTERVAL))

    assert disks.names == ()
    assert [caveat.text for caveat in report.caveats if caveat.code == "no-device"] == [
        f'"{tmp_path}/none": No such file or directory. There are no disk metrics for it.'
    ]


def test_directories_of_one_file_system_without_a_device_are_one_caveat() -> None:
    (caveat,) = find_disks(Operations(), ["/proc", "/proc/self", "/proc/1"]).caveats

    assert caveat.text.startswith('The proc at "/proc"')


def test_database_that_is_not_there_is_a_gap(config: SamplerConfig, runner: asyncio.Runner) -> None:
    report = runner.run(sample(replace(config, database="nowhere"), seconds=4 * INTERVAL))

    assert [gap.source for gap in report.gaps] == ["pg_stat_database"]


def test_nothing_of_this_machine_is_taken_for_a_servers_that_is_not_here(
    config: SamplerConfig, runner: asyncio.Runner
) -> None:
    runner.run(sample(replace(config, machine=False), seconds=4 * INTERVAL))
    header = read_header(Path(config.spool))

    # The load generator is on this machine wherever the server is.
    assert {source for source in header.sources if not source.startswith("pg_")} == {"sessions", "pgbench_cpu"}


def test_server_that_is_not_there_is_named_in_its_own_words(tmp_path: Path, runner: asyncio.Runner) -> None:
    sampler = Sampler()
    config = SamplerConfig(
        conninfo=f"host={tmp_path} user=postgres dbname=postgres",
        version_num=150000,
        database="postgres",
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
    script = "import sys, pgtrial.engine.sampler.__main__; print(*{name.partition('.')[0] for name in sys.modules})"

    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert not HEAVY & set(found.stdout.split())
