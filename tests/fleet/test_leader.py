"""The leader of a fleet whose hosts are simulated: whatever they do, every block counts once, and nothing is lost."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import tempfile
import tomllib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgtrial.design.plan import make_plan
from pgtrial.engine.experiment import Permission
from pgtrial.engine.folder import load_stored
from pgtrial.engine.signals import until_signalled
from pgtrial.errors import ConnectError, PgTrialError, RestoreError, StoreError, TargetError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.fleet import experiment, fence, gather, hosts_file
from pgtrial.fleet.cluster import LostError
from pgtrial.fleet.dispatch import MOST_LOSSES
from pgtrial.fleet.experiment import Leader
from pgtrial.fleet.fence import Fence
from pgtrial.fleet.gather import digest_runs
from pgtrial.fleet.host_folders import fleet_directory, host_folders, keep_hosts, kept_hosts
from pgtrial.fleet.hosts_file import Fleet, FleetHost, HostsList, parse_fleet
from pgtrial.fleet.machines import HostMachine
from pgtrial.hosts.clock import ClockOffset
from pgtrial.model.run import RunState, Slot
from pgtrial.store import layout
from pgtrial.store.journal_file import VARIABLE
from pgtrial.store.plans import write_plan
from pgtrial.store.state import State

BLOCKS, ARMS = 4, 2
TEXT = f"""
format = 1
[experiment]
name = "small"
[workload]
mix = "select-only"
[arms.on.postgresql]
work_mem = "4MB"
[arms.off.postgresql]
work_mem = "8MB"
[design]
blocks = {BLOCKS}
seed = 7
"""
HOSTS = 'name = "a"\nssh = "ssh://a"', 'name = "b"\nssh = "ssh://b"'
# What a host does with a block that it is given.
DEEDS = ("done", "lost before", "lost in the middle", "lost at the end", "cut off", "out of order", "damaged", "half")
WELL = "done"


class Killed(BaseException):
    """What kill -9 does to the leader, but for what Python would still do."""


def fleet(*hosts: str) -> Fleet:
    return parse_fleet("".join(f"[[host]]\n{host}\n" for host in hosts or HOSTS), "hosts.toml")


class Simulated:
    """A cluster whose hosts do what they are told in ``deeds``, in order, and then well."""

    def __init__(self, deeds: Mapping[str, list[str]], *, killed_at: int | None = None) -> None:
        self.asks: Callable[[FleetHost], Awaitable[HostMachine]] = own_machine
        self.deeds = {host: list(each) for host, each in deeds.items()}
        self.killed_at = killed_at
        self.asked: list[tuple[str, int]] = []
        self.at_work: set[int] = set()
        self.has_ended = self.is_dead = False
        self.stays: dict[str, PgTrialError] = {}  # said in the end

    async def __aenter__(self) -> "Simulated":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def add_worker(self, host: str) -> None:
        pass

    async def end_worker(self, host: str) -> None:
        pass

    async def leave(self) -> dict[str, PgTrialError]:
        return self.stays

    def stop_waiting(self) -> None:
        pass

    async def ask_machine(self, host: FleetHost) -> HostMachine:
        return await self.asks(host)

    async def run_block(self, host: str, request: str) -> Mapping[str, object]:
        wanted = json.loads(request)
        place, block = Path(wanted["folder"]), wanted["block"]
        assert block not in self.at_work, "two attempts at a time"
        self.at_work.add(block)
        try:
            await asyncio.sleep(0)
            self.asked.append((host, block))
            if self.killed_at == len(self.asked) or self.is_dead:
                self.is_dead = True
                raise Killed
            return self._run(host, place, block)
        finally:
            self.at_work.discard(block)

    def _run(self, host: str, place: Path, block: int) -> Mapping[str, object]:
        deed = self.deeds[host].pop(0) if self.deeds.get(host) else WELL
        with contextlib.closing(State.open(place, write=True)) as state:
            done = {run.slot.number for run in state.runs() if run.state is RunState.DONE}
            slots = [slot for slot in state.slots() if slot.block == block and slot.number not in done]
            assert len(slots) == ARMS, "a block is not run whole"
            match deed:
                case "lost before":
                    raise LostError("its worker has ended")
                case "lost in the middle":
                    measure(state, place, slots[0])
                    state.begin_run(slots[1], 1000.0)
                    raise LostError("its worker has ended")
                case "cut off":
                    measure(state, place, slots[0])
                    return {"failed": "lost the connection", "detail": "", "hint": "", "may_return": True}
                case "out of order":
                    return {"failed": "no space", "detail": "", "hint": "Make some.", "may_return": False}
            for slot in slots[: 1 if deed == "half" else None]:
                measure(state, place, slot)
        if deed == "lost at the end":
            raise LostError("its worker has ended")
        files = digest_runs(place, block)
        if deed == "damaged":
            files = dict.fromkeys(files, "0" * 64)
        return {"done": block, "files": files}


def measure(state: State, place: Path, slot: Slot) -> None:
    run = state.begin_run(slot, 1000.0 + slot.number)
    folder = layout.run_folder(place, run.folder)
    folder.mkdir(parents=True)
    (folder / layout.TRANSACTIONS).write_text(f"{place.name} {run.folder}")
    state.add_event(1000.0, "note", run=run.id, host=place.name)
    state.add_settings(run.id, [("work_mem", "4MB", "configuration file")])
    state.add_fingerprint({"kernel/release": "6.1", "PostgreSQL/version": "15.7"}, run=run.id)
    state.end_runs([run.id], RunState.DONE, 1001.0 + slot.number)


@contextlib.contextmanager
def main_folder():
    """A result folder with a plan, and a state directory of its own."""
    with (
        tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as name,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(VARIABLE, f"{name}/state")
        patch.setattr(experiment, "RETURN_AFTER", (0.0, 0.0))
        folder = Path(name) / "results/small"
        (folder / layout.FILES).mkdir(parents=True)
        (folder / layout.EXPERIMENT).write_text(TEXT)
        with contextlib.closing(State.create(folder, durable=False)) as state:
            plan = make_plan(Experiment.model_validate(tomllib.loads(TEXT)))
            write_plan(state, replace(plan, attempts_before=0))
            state.set_meta(created="1000.0")  # its runs are counted outside of it
        yield folder


async def own_machine(host: FleetHost) -> HostMachine:
    """Each host is a machine of its own."""
    return machine(host.where)


def machine(boot: str, *, network: str = "net:[1]", ahead: float = 0.0) -> HostMachine:
    return HostMachine(boot=boot, begun=100.0, network=network, clock=ClockOffset(offset=ahead, error=0.001))


def lead(
    folder: Path,
    cluster: Simulated,
    hosts: Fleet | None = None,
    *,
    path: Path | None = None,
    scheduler: str | None = None,
    ask_machine: Callable[[FleetHost], Awaitable[HostMachine]] = own_machine,
) -> list[str]:
    cluster.asks = ask_machine
    told: list[str] = []
    hosts = hosts or fleet()
    keep_hosts(folder, hosts)
    with contextlib.closing(State.open(folder, write=True)) as state:
        leader = Leader(
            folder=folder,
            plan=load_stored(folder),
            hosts=HostsList(fleet=hosts, path=path, scheduler=scheduler),
            permission=Permission(),
            fence=Fence(folder=folder, caller={}, tell=lambda _: None),
            state=state,
            tell=told.append,
            make_cluster=lambda: cluster,  # type: ignore[arg-type,return-value]
        )
        asyncio.run(until_signalled(leader.run()))
    return told


def counted(folder: Path) -> dict[int, int]:
    with contextlib.closing(State.open(folder)) as state:
        return Counter(run.slot.number for run in state.runs() if run.state is RunState.DONE)


def assert_whole(folder: Path) -> None:
    """Each slot counts once; its file and its host are those that measured it, and a block is of one host."""
    assert counted(folder) == dict.fromkeys(range(1, BLOCKS * ARMS + 1), 1)
    with contextlib.closing(State.open(folder)) as state:
        hosts = state.block_hosts()
        for run in state.runs():
            if run.state is RunState.DONE:
                text = (layout.run_folder(folder, run.folder) / layout.TRANSACTIONS).read_text()
                assert text.split()[0] == hosts[run.slot.block]
                assert text.split()[1].startswith(f"{run.slot.number:04d}-")
                kinds = [kind for _, kind, _ in state.events(run=run.id)]
                assert sorted(kinds) == ["from-host", "note"]
                assert state.settings()[run.id] == {"work_mem": ("4MB", "configuration file")}
    assert not fleet_directory(folder).exists()


deeds = st.fixed_dictionaries({host: st.lists(st.sampled_from(DEEDS), max_size=4) for host in "ab"})


@given(deeds=deeds)
@settings(max_examples=8, deadline=None, derandomize=True)
def test_whatever_hosts_do_every_block_counts_once_or_waits_for_a_resume(deeds: dict[str, list[str]]) -> None:
    with main_folder() as folder:
        with contextlib.suppress(TargetError):  # no host is left
            lead(folder, Simulated(deeds))
        assert all(count == 1 for count in counted(folder).values())
        lead(folder, Simulated({}))

        assert_whole(folder)


@given(deeds=deeds, killed_at=st.integers(1, 6), in_rows=st.integers(0, 3))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_a_leader_that_is_killed_anywhere_is_resumed(deeds: dict[str, list[str]], killed_at: int, in_rows: int) -> None:
    with main_folder() as folder:
        cluster = Simulated(deeds, killed_at=killed_at)
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed, PgTrialError):
            if in_rows:
                patch.setattr(gather, "take_rows", dies_at(in_rows, gather.take_rows, cluster))
            patch.setattr(Fence, "fence", unless_dead(Fence.fence, cluster))
            lead(folder, cluster)
        assert all(count == 1 for count in counted(folder).values())
        lead(folder, Simulated({}))

        assert_whole(folder)


def dies_at(number: int, really: Callable[..., int], cluster: Simulated) -> Callable[..., int]:
    """Dies before the rows of so many blocks are written, when their files are."""
    calls = 0

    def die(*arguments: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == number:
            cluster.is_dead = True
        if cluster.is_dead:
            raise Killed
        return really(*arguments)

    return die


def unless_dead(really: Callable[..., Any], cluster: Simulated) -> Callable[..., Any]:
    """Whoever was killed puts nothing in order."""

    async def fence(*arguments: Any, **named: Any) -> Any:
        if cluster.is_dead:
            raise Killed
        return await really(*arguments, **named)

    return fence


def test_blocks_are_shared_and_hosts_pull_them() -> None:
    class AtTheSameTime(Simulated):
        """Its hosts are each given a block before any of them begins."""

        async def run_block(self, host: str, request: str) -> Mapping[str, object]:
            await both_have_one.wait()
            return await super().run_block(host, request)

    both_have_one = asyncio.Barrier(len(HOSTS))
    with main_folder() as folder:
        cluster = AtTheSameTime({})
        told = lead(folder, cluster)

        assert Counter(host for host, _ in cluster.asked) == {"a": 2, "b": 2}
        assert_whole(folder)
    assert any("(4 of 4 blocks)" in line for line in told)


def test_a_host_that_cannot_run_it_is_said_to_and_the_other_does_all() -> None:
    with main_folder() as folder:
        told = lead(folder, Simulated({"b": ["out of order"]}))

        assert_whole(folder)
        with contextlib.closing(State.open(folder)) as state:
            assert set(state.block_hosts().values()) == {"a"}
    assert "b gets no more blocks: no space. Make some." in told


def test_a_block_that_is_said_to_be_done_and_is_not_there_as_a_whole_goes_to_another_host() -> None:
    with main_folder() as folder:
        told = lead(folder, Simulated({"b": ["half"]}))

        assert_whole(folder)
    assert any("b gets no more blocks: it has not sent every run of block " in line for line in told)


def test_a_resume_reads_the_folder_of_each_host_once_for_its_name_however_many_hosts_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each host read those of all others, and all runs were read for each host: minutes with a hundred."""
    read: Counter[str] = Counter()

    def counting(really: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def call(folder: Path) -> Any:
            read[f"{really.__name__} {folder.name}"] += 1
            return really(folder)

        return call

    monkeypatch.setattr(experiment, "load_stored", counting(experiment.load_stored))
    monkeypatch.setattr(experiment, "done_blocks", counting(experiment.done_blocks))
    with main_folder() as folder:
        with pytest.raises(TargetError):
            lead(folder, Simulated({host: [WELL, "out of order"] for host in "abc"}), of_names("abc"))
        read.clear()
        lead(folder, Simulated({}), of_names("abcdefgh"))

        assert_whole(folder)
    assert max(read[f"load_stored {host}"] for host in "abc") == 1  # for its name; of its data there are none
    assert read["done_blocks small"] == 3  # before, at the beginning, and in the end


def of_names(names: str) -> Fleet:
    return fleet(*(f'name = "{name}"\nssh = "ssh://{name}"' for name in names))


def test_a_record_that_is_damaged_is_told_before_a_host_is_asked() -> None:
    with main_folder() as folder:
        with contextlib.closing(sqlite3.connect(folder / "state.sqlite")) as database, database:
            database.execute("INSERT INTO run (slot, attempt, state, started) VALUES (999, 1, 'done', 1.0)")
        with pytest.raises(StoreError, match="names slot 999, which is not there"):
            lead(folder, Simulated({}))


def test_a_host_that_comes_back_gets_blocks_again() -> None:
    with main_folder() as folder:
        told = lead(folder, Simulated({"a": ["cut off"]}), fleet(HOSTS[0]))

        assert_whole(folder)
        with contextlib.closing(State.open(folder)) as state:
            reasons = {run.reason for run in state.runs() if run.state is RunState.INTERRUPTED}
    assert "a gets blocks again." in told
    assert reasons == {"its block was given up on a: lost the connection"}


def test_what_a_host_is_found_to_have_done_when_another_has_its_block_is_an_attempt() -> None:
    class Late(Simulated):
        """The whole block of ``a`` appears in its folder when ``b`` is at it."""

        lost: Mapping[str, Any] | None = None
        stays_away = True

        async def run_block(self, host: str, request: str) -> Mapping[str, object]:
            wanted = json.loads(request)
            if host == "a" and self.lost is None:
                self.lost = wanted
                raise LostError("its worker is gone")
            if host == "b" and self.lost is not None and wanted["block"] == self.lost["block"]:
                b_has_it.set()
                await a_is_back.wait()
            return await super().run_block(host, request)

        async def end_worker(self, host: str) -> PgTrialError | None:  # type: ignore[override]
            if host != "a" or self.lost is None:
                return None
            if self.stays_away:
                self.stays_away = False
                return TargetError("no worker says that nothing goes on")
            if not b_has_it.is_set():
                await b_has_it.wait()
                place = Path(self.lost["folder"])
                with contextlib.closing(State.open(place, write=True)) as state:
                    for slot in state.slots(block=self.lost["block"]):
                        measure(state, place, slot)
            return None

        async def add_worker(self, host: str) -> None:
            if host == "a" and self.lost is not None:
                a_is_back.set()

    b_has_it, a_is_back = asyncio.Event(), asyncio.Event()
    with main_folder() as folder:
        lead(folder, Late({}))

        assert_whole(folder)


def test_a_host_that_is_lost_while_it_is_made_ready_is_asked_again() -> None:
    class Losing(Simulated):
        losses = 1

        async def add_worker(self, host: str) -> None:
            if host == "a" and self.losses:
                self.losses -= 1
                raise LostError("its worker is gone")

    with main_folder() as folder:
        told = lead(folder, Losing({}), fleet(HOSTS[0]))

        assert_whole(folder)
    assert "a is lost: its worker is gone." in told
    assert "a gets blocks again." in told


def test_a_host_that_is_always_lost_while_it_is_made_ready_gets_no_more() -> None:
    class Losing(Simulated):
        async def add_worker(self, host: str) -> None:
            if host == "a":
                raise LostError("its worker is gone")

    with main_folder() as folder:
        cluster = Losing({})
        told = lead(folder, cluster)

        assert_whole(folder)
    assert {host for host, _ in cluster.asked} == {"b"}
    assert told.count("a is lost: its worker is gone.") <= MOST_LOSSES


def test_a_host_that_leaves_the_list_while_it_is_made_ready_gets_no_block(monkeypatch) -> None:
    monkeypatch.setattr(hosts_file, "_EVERY", 0.01)
    with main_folder() as folder:
        listed = folder.parent / "hosts.toml"
        listed.write_text(listing(*HOSTS))

        class Slow(Simulated):
            """b is ready when it is off the list, and a has half of the blocks."""

            has_left = False

            async def add_worker(self, host: str) -> None:
                async with asyncio.timeout(60):
                    while host == "b" and len(self.asked) < 2:
                        await asyncio.sleep(0.01)

            async def end_worker(self, host: str) -> None:
                self.has_left |= host == "b"

            async def run_block(self, host: str, request: str) -> Mapping[str, object]:
                if not self.asked:
                    listed.write_text(listing(HOSTS[0]))
                async with asyncio.timeout(60):
                    while host == "a" and len(self.asked) == 2 and not self.has_left:
                        await asyncio.sleep(0.01)
                return await super().run_block(host, request)

        cluster = Slow({})
        told = lead(folder, cluster, fleet(*HOSTS), path=listed)

        assert_whole(folder)
    assert {host for host, _ in cluster.asked} == {"a"}
    assert "b gets no more blocks: it is not on the list any more." in told


def test_after_a_block_the_leader_reads_its_runs_and_those_of_no_other(monkeypatch) -> None:
    class Watched(Simulated):
        """Says when the leader is at work between two blocks."""

        leads = False

        async def run_block(self, host: str, request: str) -> Mapping[str, object]:
            self.leads = False
            try:
                return await super().run_block(host, request)
            finally:
                self.leads = True

        async def leave(self) -> dict[str, PgTrialError]:
            self.leads = False
            return await super().leave()

    cluster = Watched({})
    whole: list[str] = []
    for name in ("runs", "events", "slots", "fingerprints"):
        monkeypatch.setattr(State, name, unless_of_one(getattr(State, name), name, cluster, whole))
    with main_folder() as folder:
        lead(folder, cluster, fleet(HOSTS[0]))

        assert len(cluster.asked) == BLOCKS
    assert not whole


def unless_of_one(really: Callable[..., Any], name: str, cluster: Any, whole: list[str]) -> Callable[..., Any]:
    """Notes where all rows of a table are read while the cluster ``leads``."""

    def read(state: State, *arguments: Any, **of: Any) -> Any:
        if cluster.leads and not {"block", "run"} & of.keys():
            whole.append(name)
        return really(state, *arguments, **of)

    return read


def test_a_host_that_is_lost_and_does_its_blocks_goes_on() -> None:
    with main_folder() as folder:
        deeds = ["cut off", "done"] * (BLOCKS - 1) + ["cut off"]
        told = lead(folder, Simulated({"a": deeds}), fleet(HOSTS[0]))

        assert_whole(folder)
    assert sum(text.startswith("a is lost") for text in told) == BLOCKS > MOST_LOSSES


def test_where_no_host_is_left_the_reasons_are_told_and_others_go_on() -> None:
    with main_folder() as folder:
        with pytest.raises(TargetError) as caught:
            lead(folder, Simulated({"a": ["done", "out of order"], "b": ["out of order"]}))
        assert "no host is left" in caught.value.message
        assert caught.value.detail.splitlines() == ["a: no space.", "b: no space."]
        assert kept_hosts(folder) == fleet()
        lead(folder, Simulated({}), fleet('name = "c"\nssh = "ssh://c"'))

        assert_whole(folder)


def test_a_name_that_is_another_machine_now_gets_no_blocks() -> None:
    with main_folder() as folder:
        with pytest.raises(TargetError):
            lead(folder, Simulated({"a": ["out of order"]}), fleet(HOSTS[0]))
        assert set(host_folders(folder)) == {"a"}
        told = lead(folder, Simulated({}), fleet('name = "a"\nssh = "ssh://other"', HOSTS[1]))

        assert_whole(folder)
    assert any('host "a" was ssh://a, and is now ssh://other' in line for line in told)


def test_hosts_join_late_and_are_given_back_by_the_list() -> None:
    with main_folder() as folder:
        listed = folder.parent / "hosts.toml"
        listed.write_text(f"[[host]]\n{HOSTS[0]}\n")

        class Changing(Simulated):
            async def run_block(self, host: str, request: str) -> Mapping[str, object]:
                if not self.asked:
                    listed.write_text(f"[[host]]\n{HOSTS[1]}\n")  # a leaves, b comes
                return await super().run_block(host, request)

        cluster = Changing({})
        told = lead(folder, cluster, fleet(HOSTS[0]), path=listed)

        assert cluster.asked == [("a", 1), ("b", 2), ("b", 3), ("b", 4)]
        assert_whole(folder)
    assert "b joins." in told
    assert "a gets no more blocks: it is not on the list any more." in told


class Edited(Simulated):
    """Its list becomes another one when so many blocks were handed out; of ``waits`` the block of a number
    lasts until a host has one, too.
    """

    def __init__(self, listed: Path, edits: Mapping[int, str], *, waits: tuple[int, str] | None = None) -> None:
        super().__init__({})
        self.listed, self.edits, self.waits = listed, edits, waits

    async def run_block(self, host: str, request: str) -> Mapping[str, object]:
        number = len(self.asked)
        if (text := self.edits.get(number)) is not None:
            self.listed.write_text(text)
        if self.waits is not None and number == self.waits[0] and host != self.waits[1]:
            async with asyncio.timeout(60):
                while self.waits[1] not in [name for name, _ in self.asked[number:]]:
                    await asyncio.sleep(0.01)
        return await super().run_block(host, request)


def lead_edited(
    folder: Path, edits: Mapping[int, str], *hosts: str, waits: tuple[int, str] | None = None
) -> tuple[Edited, list[str]]:
    listed = folder.parent / "hosts.toml"
    listed.write_text(listing(*hosts))
    cluster = Edited(listed, edits, waits=waits)
    return cluster, lead(folder, cluster, fleet(*hosts), path=listed)


def listing(*hosts: str) -> str:
    return "".join(f"[[host]]\n{host}\n" for host in hosts)


RENAMED = 'name = "new"\nssh = "ssh://a"'


def test_a_host_that_is_renamed_meanwhile_keeps_its_name() -> None:
    with main_folder() as folder:
        cluster, told = lead_edited(folder, {0: listing(RENAMED)}, HOSTS[0])

        assert {host for host, _ in cluster.asked} == {"a"}
        assert_whole(folder)
    assert "new has the address of a, and keeps that name." in told


def test_a_host_that_was_renamed_before_a_resume_does_not_count_as_two() -> None:
    with main_folder() as folder:
        with pytest.raises(TargetError):
            lead(folder, Simulated({"a": ["done", "out of order"]}), fleet(HOSTS[0]))
        told = lead(folder, Simulated({}), fleet(RENAMED, HOSTS[1]))

        assert_whole(folder)
    assert any(text.startswith('new gets no blocks: "ssh://a" has run blocks as host "a".') for text in told)


def test_a_host_that_is_put_on_the_list_again_gets_blocks_again(monkeypatch) -> None:
    monkeypatch.setattr(hosts_file, "_EVERY", 0.01)
    with main_folder() as folder:
        edits = {0: listing(HOSTS[1]), 2: listing(*HOSTS)}
        _, told = lead_edited(folder, edits, *HOSTS, waits=(2, "a"))

        assert_whole(folder)
    assert "a is on the list again." in told


def test_an_address_that_is_changed_meanwhile_is_said_to_count_later() -> None:
    with main_folder() as folder:
        _, told = lead_edited(folder, {0: listing('name = "a"\nssh = "ssh://other"', HOSTS[1])}, *HOSTS)

        assert_whole(folder)
    assert "a is listed otherwise now; it stays what it was until pgtrial ends." in told


def test_a_list_that_is_wrong_meanwhile_stays_as_it_was() -> None:
    with main_folder() as folder:
        listed = folder.parent / "hosts.toml"
        listed.write_text(f"[[host]]\n{HOSTS[0]}\n")

        class Changing(Simulated):
            async def run_block(self, host: str, request: str) -> Mapping[str, object]:
                listed.write_text("nonsense")
                return await super().run_block(host, request)

        told = lead(folder, Changing({}), fleet(HOSTS[0]), path=listed)

        assert_whole(folder)
    assert any("has 1 error; it stays as it was" in line for line in told)


def test_a_host_that_cannot_be_put_back_is_an_error_at_the_end_and_costs_no_block(monkeypatch) -> None:
    async def undo(place: Path, **_: object) -> None:
        if place.name == "b":
            raise ConnectError("no route to b")

    with main_folder() as folder:
        with monkeypatch.context() as patch:
            patch.setattr(fence, "undo_own", undo)
            with pytest.raises(RestoreError, match="not everything could be put back on b: no route to b"):
                lead(folder, Simulated({"b": ["lost in the middle"]}))
        assert counted(folder) == dict.fromkeys(range(1, BLOCKS * ARMS + 1), 1)
        lead(folder, Simulated({}))  # when it can be reached again

        assert_whole(folder)


def test_a_host_of_which_a_cluster_knows_nothing_in_the_end_is_named_although_the_copy_here_is_in_order() -> None:
    cluster = Simulated({})
    cluster.stays = {"b": TargetError("no worker says anything")}
    with main_folder() as folder:
        with pytest.raises(RestoreError, match="not everything could be put back on b: no worker says anything"):
            lead(folder, cluster)
        lead(folder, Simulated({}))

        assert_whole(folder)


def test_a_host_that_could_not_be_put_back_while_it_was_cut_off_is_before_it_gets_blocks_again(monkeypatch) -> None:
    tried = []

    async def undo(place: Path, **_: object) -> None:
        if place.name == "b":
            tried.append(place)
            if len(tried) == 1:
                raise RestoreError("1 change could not be undone")

    with main_folder() as folder:
        monkeypatch.setattr(fence, "undo_own", undo)
        told = lead(folder, Simulated({"b": ["cut off"]}), fleet(HOSTS[1]))

        assert_whole(folder)
        assert told.index("b is lost, with block 1: lost the connection.") < told.index("b gets blocks again.")
        assert len(tried) > 1


def test_a_machine_under_two_addresses_gets_blocks_under_one_of_them():
    async def same(_host: FleetHost) -> HostMachine:
        return machine("boot")

    with main_folder() as folder:
        cluster = Simulated({})
        told = lead(folder, cluster, ask_machine=same)

        (only,) = {host for host, _ in cluster.asked}
        (other,) = {"a", "b"} - {only}
        assert any(
            text.startswith(f"{other} gets no blocks: it is the same machine as {only}, under another address.")
            for text in told
        )
        assert_whole(folder)


def test_hosts_that_share_a_kernel_are_said_to_disturb_each_other():
    async def container(host: FleetHost) -> HostMachine:
        return machine("boot", network=f"net:[{host.name}]")

    with main_folder() as folder:
        told = lead(folder, Simulated({}), ask_machine=container)

        (text,) = (text for text in told if "is on the same machine as" in text)
        assert text.endswith("in a network of its own: what one of them does disturbs the others.")
        assert_whole(folder)


def test_a_clock_that_is_off_is_said():
    async def behind(host: FleetHost) -> HostMachine:
        return machine(host.where, ahead=-5.0 if host.name == "b" else 0.9)

    with main_folder() as folder:
        told = lead(folder, Simulated({}), ask_machine=behind)

        (text,) = (text for text in told if "clock" in text)
        assert text.startswith("the clock of b is 5.0 s behind that of this machine")


def test_a_clock_of_a_worker_elsewhere_is_said():
    async def elsewhere(host: FleetHost) -> HostMachine:
        ahead = 5.0 if host.name == "b" else 0.9
        return replace(machine(host.where, ahead=-3.0), worker=ClockOffset(offset=ahead, error=0.01))

    with main_folder() as folder:
        told = lead(folder, Simulated({}), ask_machine=elsewhere)

        assert_whole(folder)
    clocks = {text.partition(";")[0] for text in told if "clock" in text}
    assert clocks == {
        "the clock of a is 3.0 s behind that of its worker",
        "the clock of b is 3.0 s behind that of its worker",
        "the clock of the worker of b is 5.0 s ahead of that of this machine",
    }


def test_a_clock_that_may_be_right_is_not_said_to_be_wrong():
    async def unsure(host: FleetHost) -> HostMachine:
        return replace(machine(host.where), clock=ClockOffset(offset=1.5, error=1.0))

    with main_folder() as folder:
        told = lead(folder, Simulated({}), ask_machine=unsure)

        assert_whole(folder)
    assert not [text for text in told if "clock" in text]


def test_a_worker_that_is_kept_awake_on_the_host_itself_is_said():
    class Scraped(Simulated):
        async def run_block(self, host: str, request: str) -> Mapping[str, object]:
            return {**await super().run_block(host, request), "awake": 10.0 if host == "b" else 0.0}

    with main_folder() as folder:
        told = lead(folder, Scraped({}))

        assert_whole(folder)
    (text,) = (text for text in told if "stand still" in text)
    assert text.startswith("the worker on b does not stand still while runs are measured")


@pytest.mark.parametrize(
    ("scheduler", "hint"),
    [
        (None, 'Run "pgtrial restore" when it can be reached, then'),
        ("tls://one:8786", 'by "pgtrial restore" on the machine of that worker, or by'),
    ],
)
def test_how_to_put_back_a_host_is_said_by_where_its_journal_is(scheduler: str | None, hint: str) -> None:
    cluster = Simulated({})
    cluster.stays = {"b": TargetError("no worker says anything")}
    with main_folder() as folder, pytest.raises(RestoreError) as caught:
        lead(folder, cluster, scheduler=scheduler)

    assert hint in caught.value.hint


def test_a_host_that_cannot_be_asked_gets_its_block_which_says_why():
    async def away(host: FleetHost) -> HostMachine:
        raise ConnectError(f'cannot reach "{host.where}"')

    with main_folder() as folder:
        lead(folder, Simulated({}), ask_machine=away)

        assert_whole(folder)


def test_virtual_machines_of_one_snapshot_are_two():
    first, later = machine("boot"), replace(machine("boot"), begun=160.0)

    assert not first.is_same(later)
    assert not first.has_kernel_of(later)


class Stopped(Simulated):
    """A signal comes at a ``moment``, once, and whatever is done then takes a while longer."""

    def __init__(
        self, moment: str, *, number: signal.Signals = signal.SIGINT, deeds: Mapping[str, list[str]] | None = None
    ) -> None:
        super().__init__(deeds or {})
        self.moment, self.number = moment, number
        self.was_opened = self.is_open = False
        self.passed: list[str] = []

    async def at(self, moment: str) -> None:
        if moment == self.moment:
            self.moment = ""
            os.kill(os.getpid(), self.number)
        for _ in range(20):
            await asyncio.sleep(0.001)
        self.passed.append(moment)

    def through(self, moment: str, really: Callable[..., Any]) -> Callable[..., Any]:
        async def pass_by(*arguments: Any, **named: Any) -> Any:
            await self.at(moment)
            return await really(*arguments, **named)

        return pass_by

    async def __aenter__(self) -> "Stopped":
        await self.at("opening")
        self.was_opened = self.is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.at("closing")
        self.is_open = False

    async def leave(self) -> dict[str, PgTrialError]:
        await self.at("leaving")
        return {}

    async def ask_machine(self, host: FleetHost) -> HostMachine:
        await self.at("asking")
        return await super().ask_machine(host)

    async def add_worker(self, host: str) -> None:
        await self.at("adding")


def lead_stopped(folder: Path, cluster: Stopped, hosts: Fleet | None = None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fence, "fence", cluster.through("fencing", Fence.fence))
        patch.setattr(Fence, "clear", cluster.through("clearing", Fence.clear))
        lead(folder, cluster, hosts)


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["leaving", "closing", "fencing", "clearing"])
def test_a_signal_behind_the_last_block_leaves_nothing_behind(moment: str, number: signal.Signals) -> None:
    with main_folder() as folder:
        cluster = Stopped(moment, number=number)
        with pytest.raises(KeyboardInterrupt):
            lead_stopped(folder, cluster)

        assert Counter(cluster.passed)["fencing"] == len(HOSTS)
        assert Counter(cluster.passed)["clearing"] == len(HOSTS)
        assert not cluster.is_open
        assert_whole(folder)


@pytest.mark.parametrize(
    ("moment", "deeds"),
    [
        ("opening", {}),
        ("asking", {}),
        ("adding", {}),
        ("fencing", {"a": ["lost in the middle"] * 2, "b": ["cut off"] * 2}),
    ],
)
def test_a_signal_at_any_moment_fences_every_host_and_the_rest_is_resumed(
    moment: str, deeds: dict[str, list[str]]
) -> None:
    with main_folder() as folder:
        cluster = Stopped(moment, deeds=deeds)
        with pytest.raises(KeyboardInterrupt):
            lead_stopped(folder, cluster)

        assert not cluster.is_open
        assert not cluster.was_opened or "leaving" in cluster.passed
        assert Counter(cluster.passed)["fencing"] >= len(host_folders(folder))
        lead(folder, Simulated({}))
        assert_whole(folder)


def test_a_signal_while_a_host_is_put_back_does_not_hide_that_it_could_not_be(monkeypatch) -> None:
    async def undo(place: Path, **_: object) -> None:
        if place.name == "b":
            raise ConnectError("no route to b")

    monkeypatch.setattr(fence, "undo_own", undo)
    with main_folder() as folder:
        with pytest.raises(RestoreError):
            lead(folder, Simulated({"a": ["out of order"], "b": ["out of order"]}))
        cluster = Stopped("fencing")
        with pytest.raises(RestoreError, match="not everything could be put back on b: no route to b"):
            lead_stopped(folder, cluster)

        assert not cluster.asked


def test_a_signal_while_the_last_block_is_found_to_be_whole_leaves_nothing_behind() -> None:
    with main_folder() as folder:
        cluster = Stopped("fencing", deeds={"a": [WELL] * (BLOCKS - 1) + ["lost at the end"]})
        with pytest.raises(KeyboardInterrupt):
            lead_stopped(folder, cluster, fleet(HOSTS[0]))

        assert_whole(folder)
