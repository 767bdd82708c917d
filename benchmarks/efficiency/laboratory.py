"""Twin clusters from one snapshot, and sessions in which they are at work by given steps."""

import asyncio
import tempfile
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from segments import DUET, Segment

from pgtrial.design.slices import split_cpus
from pgtrial.engine.host_facts import read_facts
from pgtrial.engine.loads.generators import run_generators
from pgtrial.engine.slicer.task import Task, Twin, take_turns
from pgtrial.errors import PreflightError, WorkloadError
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.hosts.base import Account, Host, HostProcess
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.model.run import LoadLevel, Slice
from pgtrial.postgres.connect import execute
from pgtrial.postgres.programs import Programs, find_programs, reachable_programs
from pgtrial.postgres.snapshot import Snapshot
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import prepare_directories, remove_directories
from pgtrial.store.parquet import connect
from pgtrial.store.pgbench_log import LevelLog
from pgtrial.store.slices import PARTS
from pgtrial.store.transactions import ingest
from pgtrial.workloads.pgbench import Generator, initialize_argv, plan_generators
from pgtrial.workloads.scenarios import Scenario

SCALE = 2
CLIENTS = 8
DATABASE = "postgres"
CONNECTING, WARMUP = 0.5, 1.5  # s with all arms at work
_SPARE = 3600  # s that the generators would run if nobody told them to end

# Nothing that comes once in minutes may come at all: sessions are too short to average over it. Without full page
# writes there is no first minute after a start in which every page is written to the WAL once.
SETTINGS = {
    "shared_buffers": "256MB",  # a scan of less than a quarter of it stays there
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "full_page_writes": "off",
    "autovacuum": "off",
    "log_checkpoints": "off",
}
NEVER = 10**9

# pgbench's simple-update. Every :twice-th time it does its work twice, and is still one transaction of the log: the
# server has the same work to do, of the same kind, whatever limits it, and 1 / :twice of it does not count.
_WORK = r"""
\set aid random(1, 100000 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""
SCRIPT = f"{_WORK}\\set n :n + 1\n\\if mod(:n + 2 * :client_id, :twice) = 0\n{_WORK}\\endif\n"

# The control works in every case and has touched more pages than the others: all have to be in shared buffers before.
_WARM = "SELECT sum(abalance) FROM pgbench_accounts"

# Room for new versions beside the old ones, so that no update ever leaves its page: the control works more than the
# other arms, and its table has to stay what theirs are.
_ROOM = ("ALTER TABLE pgbench_accounts SET (fillfactor = 50)", "VACUUM (FULL, ANALYZE) pgbench_accounts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Settings of the server, and how many transactions there are to each that does its work twice."""

    settings: Mapping[str, str] = field(default_factory=dict)
    twice: int = NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Transactions that ended in a step: in each quarter of its counted time. ``piece`` counts the steps of a session,
    ``started`` is in seconds since the epoch, ``seconds`` the counted time.
    """

    method: str
    cases: tuple[str, ...]
    arm: str
    piece: int
    started: float
    seconds: float
    counts: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class Laboratory:
    """Made by ``open_laboratory``, which also removes it."""

    host: Host
    account: Account | None
    programs: Programs
    place: Path
    arms: Mapping[str, Arm]
    base: ThrowawayCluster
    twins: dict[str, ThrowawayCluster] = field(default_factory=dict)

    def make_cluster(self, name: str) -> ThrowawayCluster:
        directory, sockets = prepare_directories(self.host, self.place, name, self.account)
        return ThrowawayCluster(
            host=self.host,
            programs=self.programs,
            directory=directory,
            socket_directory=sockets,
            account=self.account,
        )

    async def prepare(self) -> None:
        """The data, once, and their snapshot."""
        self.base.write_settings({**SETTINGS, "fsync": "off"})
        await self.base.start()
        try:
            await self.host.run(
                initialize_argv(self.programs.path("pgbench"), scale=SCALE, foreign_keys=False),
                account=self.account,
                environment=self.base.environment(DATABASE),
                directory=self.base.directory,
            )
            for statement in _ROOM:
                await execute(self.base.conninfo(DATABASE), statement)
        finally:
            await self.base.stop()
        await Snapshot(host=self.host, cluster=self.base).take()

    @property
    def cpu_sets(self) -> tuple[tuple[int, ...], ...]:
        found = split_cpus(read_facts(self.host).cores, 2)
        if found is None:
            raise PreflightError("a duet needs two CPUs")
        return found

    async def session(self, segments: Sequence[Segment], *, seed: int) -> list[Counted]:
        """Put all data back, start all servers that the segments need, play the segments, count.

        Raises WorkloadError if any of the load fails.
        """
        wanted = {arm for segment in segments for step in segment.steps for arm in step.arms}
        names = [name for name in self.arms if name in wanted]
        for name in names:
            if name not in self.twins:
                self.twins[name] = self.make_cluster(f"{self.base.directory.name}-{len(self.twins)}")
        try:
            await asyncio.gather(*(self._start(name) for name in names))
            return await self._play(names, segments, seed)
        finally:
            await asyncio.gather(*(self.twins[name].stop(immediate=True) for name in names))

    async def _start(self, name: str) -> None:
        await Snapshot(host=self.host, cluster=self.twins[name], taken_of=self.base).restore()
        self.twins[name].write_settings({**SETTINGS, **self.arms[name].settings})
        await self.twins[name].start()
        await execute(self.twins[name].conninfo(DATABASE), _WARM)

    async def _play(self, names: Sequence[str], segments: Sequence[Segment], seed: int) -> list[Counted]:
        with tempfile.TemporaryDirectory(prefix="efficiency-logs-") as logs:
            generators = {name: self._generator(Path(logs), name, seed) for name in names}
            slices: dict[str, list[Slice]] = {name: [] for name in names}

            async def conduct(processes: Sequence[HostProcess]) -> None:
                await asyncio.sleep(CONNECTING + WARMUP)
                twins = {
                    name: Twin(server=self._server_pid(name), others=(process.pid,))
                    for name, process in zip(names, processes, strict=True)
                }
                first = 0
                for segment in segments:
                    task = Task(
                        twins=twins,
                        steps=segment.steps,
                        cpu_sets=self.cpu_sets if segment.method == DUET else (),
                    )
                    for name, found in (await take_turns(self.host, task, level=0)).items():
                        slices[name] += [replace(one, number=one.number + first) for one in found]
                    first += len(segment.steps)

            outcome = await run_generators(
                self.host,
                [generators[name] for name in names],
                environment={},
                conduct=conduct,
            )
            if outcome.errors:
                raise WorkloadError(outcome.errors[0])
            described = [(segment, number) for segment in segments for number in range(len(segment.steps))]
            counts = count(Path(logs), generators, slices)
        return [
            Counted(
                method=described[one.number][0].method,
                cases=described[one.number][0].cases[described[one.number][1]],
                arm=name,
                piece=one.number,
                started=round(one.started, 3),
                seconds=round(one.seconds, 6),
                counts=tuple(counts.get((name, one.number, part), 0) for part in range(PARTS)),
            )
            for name in names
            for one in slices[name]
        ]

    def _server_pid(self, name: str) -> int:
        process = self.twins[name].process
        assert process is not None  # it was started
        return process.pid

    def _generator(self, logs: Path, name: str, seed: int) -> Generator:
        (folder := logs / name).mkdir()
        variables = (("scale", str(SCALE)), ("twice", str(self.arms[name].twice)), ("n", "0"))
        (generator,) = plan_generators(
            [Scenario(name="update", script=SCRIPT, variables=variables)],
            LoadLevel(index=0, clients=CLIENTS),
            program=self.programs.path("pgbench"),
            workload=WorkloadTable(threads=1, protocol="prepared"),
            seconds=_SPARE,
            cpus=1,
            directory=str(folder),
            logged=True,
            seed=seed,
        )
        environment = self.twins[name].environment(DATABASE)
        return replace(generator, environment={**environment, **generator.environment})


def count(
    folder: Path, generators: Mapping[str, Generator], slices: Mapping[str, Sequence[Slice]]
) -> dict[tuple[str, int, int], int]:
    """Transactions that ended in a quarter of a slice of an arm: by (arm, number of the slice, quarter)."""
    logs = [
        LevelLog(
            level=level,  # stands for the arm
            scenarios=generator.scenario_names,
            files=tuple(sorted((folder / name).glob("level0-*"))),
            window=(slices[name][0].counted, slices[name][-1].ended),
            latency_limit=None,
            has_rate=False,
            max_tries=1,
            slices=tuple(slices[name]),
        )
        for level, (name, generator) in enumerate(generators.items())
    ]
    ingest(logs, folder / "transactions.parquet", slices=folder / "slices.parquet")
    with connect() as db:
        rows = db.execute(
            "SELECT level, slice, part, sum(count) FROM read_parquet(?) GROUP BY ALL", [str(folder / "slices.parquet")]
        ).fetchall()
    names = list(generators)
    return {(names[level], number, part): int(found) for level, number, part, found in rows}


@asynccontextmanager
async def open_laboratory(place: Path, postgres: str | None, arms: Mapping[str, Arm]) -> AsyncIterator[Laboratory]:
    """A laboratory with its data prepared; nothing of it is left afterwards."""
    host, account = LocalHost(), server_account()
    name = f"pgtrial-efficiency-{uuid.uuid4().hex[:8]}"
    work, sockets = prepare_directories(host, place, name, account)
    directories = {work, sockets}
    try:
        programs = await reachable_programs(host, find_programs(postgres), work=work, account=account)
        base = ThrowawayCluster(host=host, programs=programs, directory=work, socket_directory=sockets, account=account)
        laboratory = Laboratory(host=host, account=account, programs=programs, place=place, arms=arms, base=base)
        try:
            await base.initdb()
            await laboratory.prepare()
            yield laboratory
        finally:
            for twin in (base, *laboratory.twins.values()):
                await twin.stop(immediate=True)
                directories.update(twin.directories)
    finally:
        remove_directories(host, *directories)
