"""What a worker sends of a host: what is new there, whole, once, and only what it was asked for."""

import asyncio
import contextlib
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pgtrial.errors import StoreError
from pgtrial.fleet.cluster import LostError
from pgtrial.fleet.gather import begun_blocks, digest_runs, gather_block
from pgtrial.fleet.hosts_file import Fleet, FleetHost
from pgtrial.fleet.joined import Joined, OfferedHosts
from pgtrial.fleet.offers import Offer
from pgtrial.fleet.tasks import serve
from pgtrial.model.run import Phase, PhaseName, RunState
from pgtrial.store import layout, news
from pgtrial.store.state import STOPPED, State
from support import write_result_folder

ARMS = 3  # of the simulated experiment
HOST = FleetHost(name="a", local=True)
Change = Callable[[str, str], str]  # of an answer, by what was asked


def measure(folder: Path, block: int, *, state: RunState = RunState.DONE, slots: int = ARMS) -> dict[str, str]:
    """Have a host run a block, or some of it; the digests of its files."""
    with contextlib.closing(State.open(folder, write=True)) as record:
        for slot in record.slots(block=block)[:slots]:
            run = record.begin_run(slot, 1000.0 * slot.number)
            place = layout.run_folder(folder, run.folder)
            place.mkdir(parents=True)
            (place / layout.TRANSACTIONS).write_bytes(f"run {run.id} of block {block}".encode())
            record.add_phase(run.id, Phase(name=PhaseName.MEASURE, start=run.started, end=run.started + 9.0, level=0))
            record.add_settings(run.id, [(f"setting_{number}", str(run.id), "default") for number in range(20)])
            record.add_fingerprint({"fact": f"of {run.id}"}, run=run.id)
            record.add_event(run.started, "note", run=run.id, text="of the run")
            record.add_setting_change(run.started, run=run.id, knob="k", name="n", old=None, new="v")
            record.end_runs([run.id], state, run.started + 10.0)
        record.add_event(1.0, "hook", text=f"after block {block}")
    return digest_runs(folder, block)


def dump(folder: Path) -> dict[str, list[str]]:
    """All rows of all tables, but for the numbers that events and changes have by themselves."""
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        rows = {name: database.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
    numbered = ("event", "setting_change")
    return {name: sorted(str(row[1:] if name in numbered else row) for row in found) for name, found in rows.items()}


@dataclass(slots=True, kw_only=True)
class Tapped(Joined):
    """A connection to a worker in this process, which ``change``s what it answers."""

    change: Change = field(default=lambda _what, answer: answer)
    asked: list[str] = field(default_factory=list, init=False)
    lengths: list[int] = field(default_factory=list, init=False)  # of answers with rows

    async def _serve(self, address: str, what: str, request: str) -> str:
        answer = self.change(what, await serve(what, request))
        self.asked.append(what)
        if what == "news":
            self.lengths.append(len(answer))
        return answer


@dataclass(frozen=True, kw_only=True)
class Places:
    main: Path
    there: Path  # the host's folder, as the worker has it
    copy: Path

    def joined(self, **how: Change) -> Tapped:
        found = Tapped(
            folder=self.main, places=self.copy.parent, hosts=OfferedHosts(fleet=Fleet(host=(HOST,))), longest=1.0, **how
        )
        found._offers[HOST.name] = Offer(host=HOST, address="tls://here", resource="host:a")
        found._remote[HOST.name] = (str(self.there), "")
        return found

    def fetch(self, joined: Tapped, block: int, files: dict[str, str]) -> None:
        joined._held[HOST.name] = block
        asyncio.run(joined._fetch(HOST.name, files))

    def gather(self, block: int, files: dict[str, str]) -> int:
        with contextlib.closing(State.open(self.main, write=True)) as state:
            state.assign_block(block, HOST.name)
        return gather_block(self.copy, self.main, block=block, host=HOST.name, digests=files)


@pytest.fixture
def places(tmp_path) -> Places:
    main = write_result_folder(tmp_path / "main", runs=0)
    with contextlib.closing(State.open(main, write=True)) as state:
        state.set_meta(created="1111.0")
    there = Path(shutil.copytree(main, tmp_path / "there"))
    return Places(main=main, there=there, copy=Path(shutil.copytree(main, tmp_path / "copies" / HOST.name)))


def test_a_copy_that_is_told_what_is_new_becomes_the_same_and_as_much_is_sent_each_time(places):
    joined = places.joined()
    for block in range(1, 7):
        files = measure(places.there, block)
        places.fetch(joined, block, files)
        assert places.gather(block, files) == ARMS

    assert dump(places.copy) == dump(places.there)
    assert max(joined.lengths) <= 1.05 * min(joined.lengths)  # some numbers have more digits
    with contextlib.closing(State.open(places.main)) as state:
        assert [run.slot.number for run in state.runs() if run.state is RunState.DONE] == list(range(1, 6 * ARMS + 1))


def test_attempts_at_blocks_that_others_have_by_now_come_too(places):
    measure(places.there, 1, slots=2)
    with contextlib.closing(State.open(places.there, write=True)) as state:
        state.give_up_block(1, "it was cut off")
    places.fetch(places.joined(), 2, measure(places.there, 2))

    with contextlib.closing(State.open(places.copy)) as state:
        assert [(run.state, run.reason) for run in state.runs(block=1)] == [
            (RunState.INTERRUPTED, "it was cut off")
        ] * 2


def test_many_runs_come_in_several_answers(places, monkeypatch):
    monkeypatch.setattr(news, "_MOST_RUNS", 2)
    joined = places.joined()
    places.fetch(joined, 1, measure(places.there, 1))

    assert joined.asked.count("news") == 2
    assert dump(places.copy) == dump(places.there)


def test_a_copy_that_was_made_anew_takes_all_that_the_host_has(places):
    """As when the state directory was lost: the host's runs go by when its own folder was made."""
    joined = places.joined()
    files = measure(places.there, 1)
    places.fetch(joined, 1, files)
    places.gather(1, files)
    shutil.rmtree(places.copy)
    shutil.copytree(places.main, places.copy)
    with contextlib.closing(State.open(places.copy, write=True)) as state:
        state.set_meta(created="2222.0")
    files = measure(places.there, 2)
    places.fetch(joined, 2, files)

    found, expected = dump(places.copy), dump(places.there)
    assert found.pop("block_host")  # it is a copy of the main folder, which no host's folder is
    assert found == expected
    assert places.gather(2, files) == ARMS
    assert places.gather(1, {}) == 0  # it is known


def test_runs_that_are_done_of_a_block_that_nobody_asked_for_are_refused(places):
    measure(places.there, 5)
    before = dump(places.copy)
    with pytest.raises(LostError, match="it has runs of block 5, and was asked for block 2"):
        places.fetch(places.joined(), 2, measure(places.there, 2))

    assert dump(places.copy) == before


def test_a_file_of_another_block_is_refused(places):
    files = measure(places.there, 2)
    with pytest.raises(LostError, match=r'names a file that is none of a run of block 2: "0013-.*"'):
        places.fetch(places.joined(), 2, {**files, f"0013-x-b5/{layout.TRANSACTIONS}": "0"})


def changed(change: Callable[[dict], object]) -> Change:
    """A worker that sends other rows, with a checksum that fits."""

    def answer(what: str, text: str) -> str:
        if what != "news":
            return text
        found = json.loads(json.loads(text)["news"])
        change(found)
        written = json.dumps(found)
        return json.dumps({"news": written, "digest": hashlib.sha256(written.encode()).hexdigest()})

    return answer


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found["runs"][0].__setitem__(1, 999), "it has runs of block 0"),
        (lambda found: found["runs"][0].__setitem__(3, "splendid"), "is not a valid RunState"),
        (lambda found: found["runs"].append(found["runs"][0]), "UNIQUE constraint failed"),
        (lambda found: found["rows"]["phase"]["rows"].append([77, "measure", 0, 1.0, 2.0]), "FOREIGN KEY"),
        (lambda found: found["rows"]["phase"]["rows"].append([]), "shorter"),
        (lambda found: found["rows"].update(slot={"columns": [], "rows": []}), 'there is no table "slot"'),
        (lambda found: found["told"].update(plan="another"), 'it tells of "plan"'),
        (lambda found: found.update(created="another"), "do not go on where they ended"),
        (lambda found: found.update(runs=[], has_more=True), "do not go on where they ended"),
        (lambda found: found.pop("rows"), "Field required"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_change_nothing(places, change, said):
    files, before = measure(places.there, 2), dump(places.copy)
    with pytest.raises(LostError, match=said):
        places.fetch(places.joined(change=changed(change)), 2, files)

    assert dump(places.copy) == before


def test_a_host_that_is_given_up_is_ended_although_what_it_sends_does_not_fit(places, monkeypatch):
    """Its worker says that nothing goes on: the block is free for others, without a wait."""
    files = measure(places.there, 2)
    joined = places.joined(change=changed(lambda found: found.update(created="another")))
    joined._held[HOST.name] = 2

    async def end(*_: object, **__: object) -> dict[str, object]:
        return {"is_known": True, "files": files}

    async def hear(*_: object, **__: object) -> None:
        pass

    monkeypatch.setattr(Tapped, "_do", end)
    monkeypatch.setattr(Tapped, "_hear", hear)

    assert asyncio.run(joined.end_worker(HOST.name)) is None
    assert joined._held == {}
    assert begun_blocks(places.copy) == frozenset()


def test_a_transfer_that_was_changed_on_its_way_is_noticed(places):
    def change(what: str, answer: str) -> str:
        return answer.replace("of the run", "of the gun") if what == "news" else answer

    with pytest.raises(LostError, match="the checksum of its rows differs"):
        places.fetch(places.joined(change=change), 2, measure(places.there, 2))


def test_a_transfer_that_is_cut_off_goes_on_with_what_is_not_there_yet(places):
    files = measure(places.there, 1)
    pieces = 0

    def change(what: str, answer: str) -> str:
        nonlocal pieces
        pieces += what == "piece"
        if pieces == ARMS:
            raise LostError("its worker is gone")
        return answer

    with pytest.raises(LostError, match="is gone"):
        places.fetch(places.joined(change=change), 1, files)
    joined = places.joined()
    places.fetch(joined, 1, files)

    assert joined.asked == ["news", "piece"]
    assert places.gather(1, files) == ARMS


def test_what_the_engine_has_decided_on_the_host_is_known_here(places):
    with contextlib.closing(State.open(places.there, write=True)) as state:
        state.set_meta(**{STOPPED: "for harm"}, method="blocks")
    places.fetch(places.joined(), 1, measure(places.there, 1))

    with contextlib.closing(State.open(places.copy)) as state:
        assert state.meta()[STOPPED] == "for harm"
        assert state.meta()["method"] == "blocks"


def test_a_copy_that_cannot_be_written_is_not_the_workers_fault(places, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(news, "connect", fail)
    with pytest.raises(StoreError, match="database or disk is full"):
        places.fetch(places.joined(), 1, measure(places.there, 1))
