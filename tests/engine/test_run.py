"""The order of the steps of a run alone and of the runs of a block, with servers and a load that only take notes."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from pgtrial.engine import record as recorded
from pgtrial.engine.collect import InvalidRunError
from pgtrial.engine.events import ignore
from pgtrial.engine.loads.generators import LoadOutcome
from pgtrial.engine.measure import Measurement, Member, RunGroup
from pgtrial.engine.pages import PageWatch
from pgtrial.engine.record import RunContext, RunRecorder
from pgtrial.engine.run import Execution
from pgtrial.engine.sampler.control import SamplerReport
from pgtrial.engine.sampler.spool import Header, SpoolWriter
from pgtrial.engine.target.base import RunningServer
from pgtrial.errors import TargetError
from pgtrial.hosts.local import LocalHost
from pgtrial.model.arm import Arm, Role, Tables
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.model.run import PAGES, LoadLevel, Slot
from pgtrial.store import layout
from pgtrial.store.pgbench_log import LevelLog
from pgtrial.store.state import State
from pgtrial.workloads.base import Summary
from pgtrial.workloads.pgbench_output import OUTPUT

LEVEL = LoadLevel(index=0, clients=1)
SERVER = RunningServer(
    settings={},
    changes=(),
    version="16.4",
    version_num=160000,
    database="",
    control="",
    conninfo=lambda _database: "",
    environment={},
    directories=(),
    groups=(),
    confirmed=frozenset(),
)
WHOLE = SamplerReport(gaps=(), errors=(), ticks=1, late=0, caveats=())


@dataclass
class Servers:
    """Those of the arms; what happens to them is written to ``steps``."""

    steps: list[str]
    host: LocalHost = field(default_factory=LocalHost)
    dead: str = ""
    lost: str = ""
    fails: str = ""

    def _do(self, step: str) -> None:
        self.steps.append(step)
        if self.fails == step:
            raise TargetError(step)

    async def restore(self) -> None:
        self._do("restore")

    async def start(self, order: Sequence[str], runs: Mapping[str, int]) -> dict[str, RunningServer]:
        self._do("start")
        return dict.fromkeys(order, SERVER)

    def settle(self) -> None:
        self._do("settle")

    async def find_lost(self, name: str) -> str:
        self._do("look for what was lost")
        return self.lost

    def has_died(self, name: str) -> bool:
        return self.dead == name

    async def keep_log(self, name: str, destination: Path) -> None:
        self._do("keep log")

    async def stop(self, *, immediate: bool) -> tuple[()]:
        self._do("stop at once" if immediate else "stop in order")
        return ()


@dataclass
class Load:
    steps: list[str]
    output: Any = OUTPUT
    account: None = None

    def does(self, arm: Arm) -> frozenset[tuple[str, str]]:
        return frozenset()

    def logs(self, level: LoadLevel, generators: Sequence[Any], **_others: object) -> list[Any]:
        return []

    async def make_cold(self, arm: Arm) -> None:
        self.steps.append("empty caches")

    async def make_warm(self, arm: Arm, server: RunningServer) -> None:
        self.steps.append("fill caches")


@dataclass(slots=True, kw_only=True)
class Measured(Measurement):
    """One transaction of each arm."""

    steps: list[str]

    async def measure(self) -> dict[str, SamplerReport]:
        self.steps.append("measure")
        now = time.time()
        for member in self.group.members.values():
            writer = SpoolWriter(member.spool)
            header = Header(version_num=160000, interval=1.0, session_interval=0.1, sources=(), devices=(), absent={})
            writer.add_header(now, header)
            writer.close()
            log = member.log_folder / "log.1"
            log.write_text(f"0 1 1000 0 {int(now)} 0\n")
            member.logs.append(
                LevelLog(
                    level=0,
                    scenarios=("a",),
                    files=(log,),
                    window=(now - 2, now + 2),
                    latency_limit=None,
                    has_rate=False,
                    max_tries=1,
                )
            )
            outcome = LoadOutcome(
                started=now, all_started=now, first_ended=now, summaries=(Summary(processed=1),), errors=()
            )
            member.outcomes.append((LEVEL, outcome))
            member.counted_seconds = 4.0
        return dict.fromkeys(self.group.members, WHOLE)

    def _sampler_configs(self, clock_offset: float) -> Mapping[str, Any]:
        return {}

    async def _warm_up(self) -> None: ...

    async def _measure(self, level: LoadLevel) -> None: ...


@dataclass
class Bench:
    """Runs of some arms that can be executed."""

    folder: Path
    state: State
    steps: list[str]

    def context(self) -> RunContext:
        load: Any = Load(self.steps)
        return RunContext(
            workload=SimpleNamespace(duration=4.0, mix=None),  # type: ignore[arg-type]
            load=load,
            levels=(LEVEL,),
            seed=1,
            client_host=LocalHost(),
            baseline={},
            mark=str(self.folder),  # with none, what other tests have started would be ended as strays
            machine="",
            sysctls=(),
            restore="each-run",
        )

    def execute(
        self,
        *arms: str,
        restore: bool = True,
        keeps_data: bool = False,
        cache: Literal["as-is", "cold", "warm"] = "as-is",
        knobs: Mapping[str, Tables] | None = None,
        watches_pages: bool = False,
        **servers: str,
    ) -> dict[str, float]:
        context = self.context()
        found = [Arm(name=name, role=Role.CANDIDATE, knobs=(knobs or {}).get(name, {}), cache=cache) for name in arms]
        slots = [Slot(number=i, block=1, position=i, arm=name) for i, name in enumerate(arms, 1)]
        self.state.set_plan(found, [LEVEL], slots)
        rows = tuple(self.state.begin_run(slot, time.time()) for slot in slots)
        record = RunRecorder(context=context, state=self.state, runs=rows, tell=ignore)
        host = LocalHost()
        group = RunGroup(
            context=context,
            servers=Servers(self.steps, **servers),  # type: ignore[arg-type]
            record=record,
            members={
                arm.name: Member(
                    run=row,
                    arm=arm,
                    folder=layout.run_folder(self.folder, row.folder),
                    record=(own := replace(record, runs=(row,))),
                    pages=PageWatch(is_on=watches_pages, host=host, record=own),
                )
                for arm, row in zip(found, rows, strict=True)
            },
            block=1,
        )
        measurement = Measured(group=group, steps=self.steps)
        execution = Execution(group=group, measurement=measurement, restore=restore, keeps_data=keeps_data)
        return asyncio.run(execution.execute())

    def files(self) -> set[str]:
        return {path.name for path in self.folder.glob("runs/*/*")}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    state = State.create(tmp_path)
    yield Bench(tmp_path, state, [])
    state.close()


ARMS = [("on",), ("on", "off")]
each_kind = pytest.mark.parametrize("arms", ARMS, ids=["alone", "block"])


@each_kind
@pytest.mark.parametrize("cache", ["cold", "warm", "as-is"])
def test_the_steps_have_one_order(bench: Bench, arms: tuple[str, ...], cache: Literal["as-is", "cold", "warm"]) -> None:
    tps = bench.execute(*arms, cache=cache)

    count = len(arms)
    assert bench.steps == [
        "restore",
        *(["empty caches"] * count if cache == "cold" else []),
        "start",
        *(["fill caches"] * count if cache == "warm" else []),
        "measure",
        "settle",
        *["look for what was lost"] * count,
        *["keep log"] * count,
        "stop at once",
        *["keep log"] * count,
        "stop at once",  # once more, whatever happened before
    ]
    assert tps == dict.fromkeys(arms, 0.25)
    assert bench.files() == {layout.TRANSACTIONS, layout.SAMPLES, layout.WAITS}


@each_kind
def test_what_a_load_said_is_kept_with_the_run_of_its_arm(
    bench: Bench, arms: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = Measured.measure

    async def also_keep(self: Measured) -> dict[str, SamplerReport]:
        now = time.time()
        generator: Any = None
        said = "left out of {}\x1b[2J"
        summaries = tuple(Summary(processed=0, said=said.format(name)) for name in arms)
        outcome = LoadOutcome(started=now, all_started=now, first_ended=now, summaries=summaries, errors=())
        for name in arms:
            self._keep(name, LEVEL, [(owner, generator) for owner in arms], outcome, window=(now, now))
        return await measure(self)

    monkeypatch.setattr(Measured, "measure", also_keep)
    bench.execute(*arms)

    for run, name in enumerate(arms, 1):
        said = [data["text"] for _, kind, data in bench.state.events(run=run) if kind == "load-said"]
        assert said == [f"left out of {name}\\x1b[2J"]


@each_kind
def test_data_that_are_used_again_are_left_in_order(bench: Bench, arms: tuple[str, ...]) -> None:
    bench.execute(*arms, restore=False, keeps_data=True)

    assert "restore" not in bench.steps
    assert [step for step in bench.steps if step.startswith("stop")] == ["stop in order", "stop at once"]


@each_kind
@pytest.mark.parametrize(
    ("happens", "reason"),
    [({"dead": "on"}, "the server.* died"), ({"lost": "vm.swappiness is 60"}, "vm.swappiness is 60")],
)
def test_what_makes_a_run_untrue_is_found_after_the_end(
    bench: Bench, arms: tuple[str, ...], happens: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidRunError, match=reason):
        bench.execute(*arms, **happens)

    assert bench.steps[-1] == "stop at once"


@each_kind
def test_an_arm_with_a_value_that_nothing_set_is_not_measured(bench: Bench, arms: tuple[str, ...]) -> None:
    last = arms[-1]

    with pytest.raises(InvalidRunError, match=f'arm "{last}" declares cpu_frequency.governor = slow, which nothing'):
        bench.execute(*arms, knobs={last: {"cpu_frequency": {"governor": "slow"}}})

    assert "measure" not in bench.steps
    assert bench.steps[-1] == "stop at once"


@each_kind
@pytest.mark.parametrize("step", ["restore", "start"])
def test_whatever_fails_the_servers_are_stopped_and_raw_files_removed(
    bench: Bench, arms: tuple[str, ...], step: str
) -> None:
    with pytest.raises(TargetError, match=step):
        bench.execute(*arms, fails=step)

    assert bench.steps[-1] == "stop at once"
    assert bench.files() == set()


@each_kind
def test_pages_of_every_run_are_noted(bench: Bench, arms: tuple[str, ...]) -> None:
    bench.execute(*arms, watches_pages=True)

    for run in bench.state.runs():
        notes = [data["moment"] for _, kind, data in bench.state.events(run=run.id) if kind == PAGES]
        assert notes == ["before", "under load", "after"]


def test_a_value_that_somebody_else_has_changed_is_a_caveat_of_each_run(bench: Bench) -> None:
    slot = Slot(number=1, block=1, position=1, arm="a")
    bench.state.set_plan([Arm(name="a", role=Role.CANDIDATE)], [LEVEL], [slot])
    rows = tuple(bench.state.begin_run(slot, time.time()) for _ in range(2))
    change = Change(knob="sysctl", name="vm.swappiness", old={}, new={}, old_text="60", new_text="1")
    entry = JournalEntry(id=1, t=0.0, host="local", boot_id="", folder="", run=1, change=change, got={})
    record = RunRecorder(context=bench.context(), state=bench.state, runs=rows, tell=ignore)

    record.add_restored(
        (entry, Undone(outcome=outcome, text=outcome)) for outcome in (Outcome.RESTORED, Outcome.CHANGED)
    )

    noted = bench.state.caveats()
    assert [(run, caveat.code, caveat.text) for run, caveat in noted] == [
        (row.id, "changed-meanwhile", Outcome.CHANGED) for row in rows
    ]


def test_limits_are_those_of_the_control_group_of_each_runs_own_server(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arms that take turns have one machine, and each its group."""
    slots = [Slot(number=number, block=1, position=number, arm=arm) for number, arm in enumerate("ab", 1)]
    bench.state.set_plan([Arm(name=name, role=Role.CANDIDATE) for name in "ab"], [LEVEL], slots)
    rows = tuple(bench.state.begin_run(slot, time.time()) for slot in slots)
    record = RunRecorder(context=bench.context(), state=bench.state, runs=rows, tell=ignore)
    monkeypatch.setattr(recorded, "read_limits", lambda _ops, *, pid: {"limits/memory": f"of process {pid}"})
    for pid in ("11", "12"):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "postmaster.pid").write_text(f"{pid}\n")

    record.add_machine(LocalHost(), [(str(tmp_path / "11"),), (str(tmp_path / "12"),)])

    found = bench.state.fingerprints()
    assert [found[row.id]["limits/memory"] for row in rows] == ["of process 11", "of process 12"]
