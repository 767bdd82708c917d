"""Whether a rhythm fools the sampler: what it sees of sessions, beside an observer that polls much more often.

Three loads have a rhythm of 100 ms: a limit of writes per second that the kernel gives out in slices, a CPU quota of
30 %, and a script that keeps in step with the clock. The observer polls at exponential times, every 5 ms on average
(Poisson arrivals see time averages: Wolff, Operations Research 30 (1982) 223-231), over a connection whose server
process is in none of the limited groups. Both look at the same sessions at the same time, so that a difference of any
part of their time is an error of the sampler.

    python benchmarks/rhythms.py [disk] [quota] [script] [--seconds 30] [--postgres 15]

Needs root and control groups of version 1, for the limits.
"""

import argparse
import asyncio
import errno
import os
import random
import select
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from batches import SampledMean, mean_of_batches

from pgtrial.collectors import sessions
from pgtrial.engine.sampler.control import Sampler, SamplerConfig
from pgtrial.engine.sampler.spool import read_records
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.hosts.processes import end_process
from pgtrial.postgres.programs import find_programs, reachable_programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import prepare_directories, remove_directories

DATABASE = "postgres"
CLIENTS = 8
BATCH = 1.5  # s, many times as long as any state here lasts
OFTEN = 0.005  # s, between two polls of the observer on average
WARMUP = 3.0  # s
PATIENCE = 30.0  # s, for the last process of a control group to end
CONTROL_GROUPS = Path("/sys/fs/cgroup")
_PARTS = """
SELECT CASE WHEN state = 'active' THEN coalesce(wait_event_type || ' ' || wait_event, 'CPU') ELSE state END
FROM pg_catalog.pg_stat_get_activity(NULL)
WHERE application_name = 'pgbench'
"""
# Of each 100 ms by the server's clock, a transaction of each client idles for about 30, and all clients together.
_IN_STEP = """BEGIN;
SELECT pg_catalog.pg_sleep(0.1 - extract(epoch FROM pg_catalog.clock_timestamp()) % 0.1);
\\sleep 30 ms
END;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``limits`` are by controller, the file and its text; {device} stands for the number of the disk."""

    name: str
    options: Sequence[str] = ()
    script: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


CASES = {
    case.name: case
    for case in (
        Case(
            name="disk",
            options=("--builtin=simple-update",),
            settings={"fsync": "on"},
            limits={"blkio": {"blkio.throttle.write_iops_device": "{device} 150"}},
        ),
        Case(
            name="quota",
            script="SELECT sum(i) FROM pg_catalog.generate_series(1, 20000) AS i;\n",
            limits={"cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "30000"}},
        ),
        Case(name="script", script=_IN_STEP),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Average sessions in a part of their time, as the observer and the sampler see them."""

    part: str
    observer: SampledMean
    sampler: SampledMean


Polls = dict[int, tuple[int, dict[str, int]]]  # by batch: the polls in it, and the sessions of all of them by part


class Observer(threading.Thread):
    """Polls sessions at random times until it is told to stop."""

    def __init__(self, conninfo: str, *, start: float) -> None:
        super().__init__()
        self.polls: Polls = {}
        self._start = start
        self._connection = psycopg.connect(conninfo, autocommit=True, application_name="observer")
        self.backend = self._connection.info.backend_pid
        self._end, self._ending = os.pipe()

    def run(self) -> None:
        rng = random.Random()
        with self._connection as connection:
            due = time.monotonic()
            while True:
                due += rng.expovariate(1 / OFTEN)
                if select.select([self._end], [], [], max(0.0, due - time.monotonic()))[0]:
                    return
                asked = time.time()
                add_poll(self.polls, asked - self._start, [row[0] for row in connection.execute(_PARTS, prepare=True)])

    def stop(self) -> None:
        os.close(self._ending)
        self.join()
        os.close(self._end)


def add_poll(polls: Polls, t: float, parts: Sequence[str], *, count: int = 1, times: int = 1) -> None:
    """``count`` polls at a time, in which sessions were in these parts ``times`` times in all."""
    number, found = polls.get(int(t / BATCH), (0, {}))
    for part in parts:
        found[part] = found.get(part, 0) + times
    polls[int(t / BATCH)] = number + count, found


def sampled(spool: Path, *, start: float) -> Polls:
    """What the sampler has polled."""
    polls: Polls = {}
    for t, _, payload in read_records(spool, sessions.NAME):
        add_poll(polls, t - start, (), count=payload["polls"])
        for group in sessions.COLLECTOR.parse(payload["columns"], payload["rows"]):
            if group.application == "pgbench":
                wait = f"{group.wait_type} {group.wait_event}" if group.wait_type else "CPU"
                part = wait if group.state == "active" else group.state
                add_poll(polls, t - start, [part], count=0, times=group.sessions)
    return polls


def compare(observer: Polls, sampler: Polls, *, batches: int) -> list[Seen]:
    """Parts of the time of sessions, the largest first; the first and the last batch are left out."""
    chosen = [number for number in range(1, batches - 1) if number in observer and number in sampler]
    parts = {part for polls in (observer, sampler) for number in chosen for part in polls[number][1]}

    def mean(polls: Polls, part: str) -> SampledMean:
        return mean_of_batches(
            [polls[number][1].get(part, 0) for number in chosen], [polls[number][0] for number in chosen]
        )

    seen = [Seen(part=part, observer=mean(observer, part), sampler=mean(sampler, part)) for part in parts]
    return sorted(seen, key=lambda each: -each.observer.value)


@contextmanager
def groups(case: Case, place: Path) -> Iterator[list[str]]:
    """Control groups with the case's limits; ``place`` is on the disk that is limited."""
    device = place.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    made: list[Path] = []
    try:
        for controller, files in case.limits.items():
            group = CONTROL_GROUPS / controller / f"rhythms-{uuid.uuid4().hex[:8]}"
            group.mkdir()
            made.append(group)
            for name, text in files.items():
                (group / name).write_text(text.format(device=number), encoding="ascii")
        yield list(map(str, made))
    finally:
        for group in made:
            remove(group)


def remove(group: Path) -> None:
    """Remove a control group once its last process has ended, for which it may need CPU time that it is kept from."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            group.rmdir()
        except OSError as err:
            if err.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


async def watch(case: Case, cluster: ThrowawayCluster, *, seconds: float) -> list[Seen]:
    """Run the load of a case on a cluster that runs, under both observers."""
    script = cluster.directory / "script.sql"
    script.write_text(case.script, encoding="utf-8")
    load = await cluster.host.start(
        [
            cluster.programs.path("pgbench"),
            *("--no-vacuum", f"--client={CLIENTS}", "--jobs=2", f"--time={seconds + WARMUP + 30:.0f}"),
            *((f"--file={script}",) if case.script else case.options),
        ],
        role="load",
        account=cluster.account,
        environment=cluster.environment(DATABASE),
        directory=cluster.directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    spool = cluster.directory / f"spool-{case.name}"
    spool.mkdir()
    sampler = Sampler(cluster.host)
    try:
        await asyncio.sleep(WARMUP)
        start = time.time()
        observer = Observer(cluster.conninfo(), start=start)
        for controller in case.limits:
            (CONTROL_GROUPS / controller / "cgroup.procs").write_text(str(observer.backend), encoding="ascii")
        observer.start()
        try:
            await sampler.start(
                SamplerConfig(
                    conninfo=cluster.conninfo("template1"),
                    version_num=cluster.programs.major * 10000,
                    database=DATABASE,
                    spool=str(spool),
                )
            )
            await asyncio.sleep(seconds)
            await sampler.stop()
        finally:
            observer.stop()
    finally:
        await end_process(load, patience=10)
    return compare(observer.polls, sampled(spool, start=start), batches=int(seconds / BATCH))


@contextmanager
def prepared(case: Case, postgres: str | None, runner: asyncio.Runner) -> Iterator[ThrowawayCluster]:
    """A cluster with data, in the groups of a case."""
    host, account = LocalHost(), server_account()
    work, sockets = prepare_directories(host, Path(tempfile.gettempdir()), f"rhythms-{uuid.uuid4().hex[:8]}", account)
    try:
        programs = runner.run(reachable_programs(host, find_programs(postgres), work=work, account=account))
        cluster = ThrowawayCluster(
            host=host, programs=programs, directory=work, socket_directory=sockets, account=account
        )
        runner.run(cluster.initdb())
        cluster.write_settings({"fsync": "off", "shared_buffers": "256MB", "autovacuum": "off"})
        runner.run(cluster.start())
        runner.run(
            host.run(
                [programs.path("pgbench"), "--initialize", "--quiet", "--scale=5"],
                account=account,
                environment=cluster.environment(DATABASE),
                directory=work,
            )
        )
        runner.run(cluster.stop())
        cluster.write_settings({"fsync": "off", "shared_buffers": "256MB", "autovacuum": "off", **case.settings})
        with groups(case, cluster.data) as limited:
            try:
                runner.run(cluster.start(groups=limited))
                yield cluster
            finally:
                runner.run(cluster.stop(immediate=True))
    finally:
        remove_directories(host, work, sockets)


def run_case(case: Case, *, seconds: float, postgres: str | None = None) -> list[Seen]:
    """What both see of a case, on a cluster of its own."""
    with asyncio.Runner() as runner, prepared(case, postgres, runner) as cluster:
        return runner.run(watch(case, cluster, seconds=seconds))


def main(say: Callable[[str], object] = print) -> None:
    parser = argparse.ArgumentParser(description="Compare what the sampler sees with an observer at random times.")
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="which of them (all)")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each case (30)")
    parser.add_argument("--postgres", default=None, help="major version or directory of programs (the first found)")
    options = parser.parse_args()
    for name in options.cases or CASES:
        say(f"{name}: average sessions of {CLIENTS}, ± half of the 95 % interval")
        for seen in run_case(CASES[name], seconds=options.seconds, postgres=options.postgres):
            if max(seen.observer.value, seen.sampler.value) >= 0.05:
                say(
                    f"  {seen.part:28} observer {seen.observer.value:6.2f} ± {seen.observer.half:4.2f}"
                    f"   sampler {seen.sampler.value:6.2f} ± {seen.sampler.half:4.2f}"
                )


if __name__ == "__main__":
    main()
