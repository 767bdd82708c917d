"""What the leader of a fleet does after each block, by the number of blocks that are done already, and for each host
when it is resumed and when it ends.

    python benchmarks/fleet_leader.py [--done 10 100 980] [--blocks 10]
    python benchmarks/fleet_leader.py --hosts 10 40 [--planned 1000]

So many blocks are put into a result folder as ten hosts would have left them; then the leader hands out a few more to
one of these hosts, which is simulated and writes its runs at once. A line has the time from the end of a block until
the next one is handed out, the CPU time of it, and how many files, directories and databases are opened meanwhile.
With ``--hosts`` each of so many has done one block of a plan, which was taken in; nothing is left to be undone.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgtrial.design.plan import Plan, make_plan
from pgtrial.engine.experiment import Permission
from pgtrial.errors import PgTrialError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.fleet.experiment import Leader
from pgtrial.fleet.fence import Fence
from pgtrial.fleet.gather import digest_runs, gather_block
from pgtrial.fleet.host_folders import host_folder, keep_hosts
from pgtrial.fleet.hosts_file import Fleet, FleetHost, HostsList
from pgtrial.fleet.machines import HostMachine
from pgtrial.hosts.clock import ClockOffset
from pgtrial.model.run import Phase, PhaseName, RunState, Slot
from pgtrial.safe_text import parse_json
from pgtrial.store import layout
from pgtrial.store.journal_file import VARIABLE
from pgtrial.store.plans import write_plan
from pgtrial.store.state import State
from pgtrial.store.transfer import FROM_HOST

TEXT = """
format = 1
[experiment]
name = "leader"
[workload]
mix = "select-only"
[arms.on.postgresql]
work_mem = "4MB"
[arms.off.postgresql]
work_mem = "8MB"
[design]
blocks = {blocks}
seed = 7
"""
ARMS = 2
HOSTS = tuple(f"h{number}" for number in range(10))
# Rows of a run on throw-away servers, in round figures.
FACTS, SETTINGS, EVENTS = 120, 370, 30
OPENED = ("open", "os.listdir", "os.scandir", "sqlite3.connect")


@dataclass(slots=True)
class Meter:
    """What is spent and opened while it runs."""

    runs: bool = False
    seconds: float = 0.0
    cpu: float = 0.0
    opened: int = 0
    asked: int = 0
    _since: tuple[float, float] = (0.0, 0.0)

    def see(self, event: str, _arguments: object) -> None:
        if self.runs and event in OPENED:
            self.opened += 1

    def start(self) -> None:
        self._since, self.runs = (time.perf_counter(), time.process_time()), True

    def stop(self) -> None:
        if self.runs:
            self.runs = False
            self.seconds += time.perf_counter() - self._since[0]
            self.cpu += time.process_time() - self._since[1]


@dataclass(slots=True)
class Simulated:
    """A cluster whose one host writes the runs of a block at once."""

    meter: Meter
    has_ended: bool = field(default=False, init=False)

    async def __aenter__(self) -> "Simulated":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def add_worker(self, host: str) -> None:
        pass

    async def end_worker(self, host: str) -> PgTrialError | None:
        return None

    async def leave(self) -> dict[str, PgTrialError]:
        self.meter.stop()
        return {}

    def stop_waiting(self) -> None:
        pass

    async def ask_machine(self, host: FleetHost) -> HostMachine:
        return HostMachine(boot=host.name, begun=100.0, network="net:[1]", clock=ClockOffset(offset=0.0, error=0.001))

    async def run_block(self, host: str, request: str) -> Mapping[str, object]:
        self.meter.stop()
        wanted = parse_json(request)
        place, block = Path(wanted["folder"]), wanted["block"]
        with contextlib.closing(State.open(place, write=True)) as state:
            write_runs(state, place, [slot for slot in state.slots() if slot.block == block])
        files = digest_runs(place, block)
        self.meter.asked += 1
        if self.meter.asked > 1:  # after the first one, what was there before is read
            self.meter.start()
        return {"done": block, "files": files}


def write_runs(state: State, folder: Path, slots: list[Slot], *, born: str = "") -> None:
    """Runs as the engine records them; ``born``: of the folder from which they were taken into the main one."""
    for slot in slots:
        began = 1000.0 + 10 * slot.number
        run = state.begin_run(slot, began)
        layout.run_folder(folder, run.folder).mkdir(parents=True)
        if not born:
            (layout.run_folder(folder, run.folder) / layout.TRANSACTIONS).write_bytes(b"x" * 100_000)
        state.add_phase(run.id, Phase(name=PhaseName.MEASURE, start=began + 1, end=began + 9, level=0))
        state.add_settings(run.id, [(f"setting_{number}", "on", "default") for number in range(SETTINGS)])
        state.add_fingerprint({f"machine/fact {number}": "the same" for number in range(FACTS)}, run=run.id)
        for number in range(EVENTS):
            state.add_event(began, "note", run=run.id, number=number, text="something that was worth to be noted")
        if born:
            number = slot.block % len(HOSTS)
            there = (slot.block - (number or len(HOSTS))) // len(HOSTS) * ARMS + slot.position
            mark = json.dumps({"born": born, "host": HOSTS[number], "run": there}, sort_keys=True)
            event = (began, run.id, FROM_HOST, mark)
            state._db.execute("INSERT INTO event (t, run, kind, data) VALUES (?, ?, ?, ?)", event)
            state._db.commit()
        state.end_runs([run.id], RunState.DONE, began + 10)


@contextlib.contextmanager
def folder_with(done: int, plan: Plan) -> Iterator[Path]:
    """A result folder in which so many blocks are done, and its hosts' folders."""
    with tempfile.TemporaryDirectory() as name:
        os.environ[VARIABLE] = f"{name}/state"
        folder = Path(name) / "results/leader"
        (folder / layout.FILES).mkdir(parents=True)
        (folder / layout.EXPERIMENT).write_text(TEXT.format(blocks=plan.blocks))
        with contextlib.closing(State.create(folder, durable=False)) as state:
            write_plan(state, replace(plan, attempts_before=0))
            state.set_meta(created="1000.0")
            for block in range(1, done + 1):
                state.assign_block(block, HOSTS[block % len(HOSTS)])
        first = FleetHost(name=HOSTS[0], ssh="ssh://h0")
        keep_hosts(folder, Fleet(host=(first,)))
        slots = [slot for slot in plan.slots if slot.block <= done]
        place = host_folder(folder, first)
        fill(place, [slot for slot in slots if slot.block % len(HOSTS) == 0])
        with contextlib.closing(State.open(place)) as state:
            born = state.meta()["created"]
        fill(folder, slots, born=born)
        for path in (place / layout.RUNS).glob("*/*"):  # what was taken in is removed
            path.unlink()
        for path in (place / layout.RUNS).glob("*"):
            path.rmdir()
        yield folder


def fill(folder: Path, slots: list[Slot], *, born: str = "") -> None:
    """Write runs, without a wait for the disk after each row."""
    with contextlib.closing(State.open(folder, write=True)) as state:
        database = state._db
        database.execute("PRAGMA synchronous = OFF")
        write_runs(state, folder, slots, born=born)


def measure(done: int, blocks: int) -> Meter:
    """The leader's work for so many more ``blocks``."""
    plan = make_plan(Experiment.model_validate(tomllib.loads(TEXT.format(blocks=done + blocks + 1))))
    meter = Meter()
    sys.addaudithook(meter.see)
    with folder_with(done, plan) as folder, contextlib.closing(State.open(folder, write=True)) as state:
        leader = Leader(
            folder=folder,
            plan=plan,
            hosts=HostsList(fleet=Fleet(host=(FleetHost(name=HOSTS[0], ssh="ssh://h0"),))),
            permission=Permission(),
            fence=Fence(folder=folder, caller={}, tell=lambda _: None),
            state=state,
            tell=lambda _: None,
            make_cluster=lambda: Simulated(meter),  # type: ignore[arg-type,return-value]
        )
        asyncio.run(leader.run())
    return meter


@contextlib.contextmanager
def folder_of_hosts(count: int, plan: Plan) -> Iterator[tuple[Path, Fleet]]:
    """A result folder with one block of each of so many hosts, whose folders are there."""
    fleet = Fleet(host=tuple(FleetHost(name=f"h{number}", ssh=f"ssh://h{number}") for number in range(count)))
    with tempfile.TemporaryDirectory() as name:
        os.environ[VARIABLE] = f"{name}/state"
        folder = Path(name) / "results/leader"
        (folder / layout.FILES).mkdir(parents=True)
        (folder / layout.EXPERIMENT).write_text(TEXT.format(blocks=plan.blocks))
        with contextlib.closing(State.create(folder, durable=False)) as state:
            write_plan(state, replace(plan, attempts_before=0))
            state.set_meta(created="1000.0")
        keep_hosts(folder, fleet)
        for block, host in enumerate(fleet.host, start=1):
            place = host_folder(folder, host)
            fill(place, [slot for slot in plan.slots if slot.block == block])
            with contextlib.closing(State.open(folder, write=True)) as state:
                state.assign_block(block, host.name)
            gather_block(place, folder, block=block, host=host.name)
        yield folder, fleet


def measure_hosts(count: int, planned: int) -> Meter:
    """What is looked at and put back for ``count`` hosts, once."""
    plan = make_plan(Experiment.model_validate(tomllib.loads(TEXT.format(blocks=planned))))
    meter = Meter()
    with folder_of_hosts(count, plan) as (folder, fleet), contextlib.closing(State.open(folder, write=True)) as state:
        leader = Leader(
            folder=folder,
            plan=plan,
            hosts=HostsList(fleet=fleet),
            permission=Permission(),
            fence=Fence(folder=folder, caller={}, tell=lambda _: None),
            state=state,
            tell=lambda _: None,
            make_cluster=lambda: Simulated(meter),  # type: ignore[arg-type,return-value]
        )

        async def look() -> None:
            meter.start()
            await leader._tidy()
            await leader._clear()
            meter.stop()

        asyncio.run(look())
    return meter


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--done", type=int, nargs="+", default=[10, 100, 980])
    parser.add_argument("--blocks", type=int, default=10, help="that are handed out (10)")
    parser.add_argument("--hosts", type=int, nargs="+", default=[], help="that are looked at instead")
    parser.add_argument("--planned", type=int, default=1000, help="blocks of their experiment (1000)")
    options = parser.parse_args()
    if options.hosts:
        print("hosts  time per host  CPU per host")
    for count in options.hosts:
        found = measure_hosts(count, options.planned)
        print(f"{count:>5}  {1000 * found.seconds / count:>10.1f} ms  {1000 * found.cpu / count:>9.1f} ms", flush=True)
    if options.hosts:
        return
    print("done  time per block  CPU per block  opened per block")
    for done in options.done:
        found = measure(done, options.blocks)
        print(
            f"{done:>4}  {1000 * found.seconds / options.blocks:>11.1f} ms  {1000 * found.cpu / options.blocks:>10.1f} "
            f"ms  {found.opened / options.blocks:>16.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
