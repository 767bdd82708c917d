"""What a worker sends of a host: what is new there, whole, once, and only what it was asked for."""

import asyncio
import base64
import contextlib
import errno
import hashlib
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pgtrial.errors import PgTrialError, StoreError
from pgtrial.findings.caveat import caveat
from pgtrial.fleet import copies, remote
from pgtrial.fleet import joined as joined_module
from pgtrial.fleet.cluster import LostError
from pgtrial.fleet.copies import Copy
from pgtrial.fleet.fence import Fence
from pgtrial.fleet.gather import begun_blocks, digest_runs, gather_block
from pgtrial.fleet.hosts_file import Fleet, FleetHost, Offer
from pgtrial.fleet.joined import Joined, OfferedHosts, There
from pgtrial.fleet.tasks import serve
from pgtrial.model.caveat import STOPPED_FOR_HARM
from pgtrial.model.run import Phase, PhaseName, RunState
from pgtrial.store import layout, news
from pgtrial.store.journal_file import VARIABLE
from pgtrial.store.state import STOPPED, State
from pgtrial.store.transfer import FROM_HOST
from support import write_result_folder
from support.waiting import PATIENCE as WAITING

ARMS = 3  # of the simulated experiment
HOST = FleetHost(name="a", local=True)
NOTHING_YET = {"mark": {"created": "1111.0", "whole": {}}, "told": []}
DREADFUL = [None, "odd", "dreadful", "It is odd.", "", None]  # a caveat
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
        if what == "do":  # without a process of its own
            wanted = json.loads(request)
            answer = json.dumps(await remote._DEEDS[wanted["do"]](wanted))
        else:
            answer = await serve(what, request)
        answer = self.change(what, answer)
        self.asked.append(what)
        if what == "news":
            self.lengths.append(len(answer))
        return answer

    async def _next_look(self) -> None:
        raise TimeoutError  # nobody else comes


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
        found._there[HOST.name] = There(folder=str(self.there), worker="")
        return found

    def fetch(self, joined: Tapped, block: int, files: dict[str, str]) -> None:
        joined._there[HOST.name].block = block
        asyncio.run(joined._fetch(HOST.name, files))

    def end(self, joined: Tapped) -> PgTrialError | None:
        """Have what goes on there be ended, as where the host is lost; the copy is fenced after it."""

        async def end() -> PgTrialError | None:
            stays = await joined.end_worker(HOST.name)
            with contextlib.closing(State.open(self.main)) as state:
                done = state.done_blocks()
            fence = Fence(folder=self.main, caller={}, tell=lambda _: None)
            await fence.fence(self.copy, host=HOST.name, reason="it was lost", done=done)
            return stays

        return asyncio.run(end())

    def gather(self, block: int, files: dict[str, str]) -> int:
        with contextlib.closing(State.open(self.main, write=True)) as state:
            state.assign_block(block, HOST.name)
        return gather_block(self.copy, self.main, block=block, host=HOST.name, digests=files)


@pytest.fixture
def places(tmp_path, monkeypatch) -> Places:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    main = write_result_folder(tmp_path / "main", runs=0)
    with contextlib.closing(State.open(main, write=True)) as state:
        state.set_meta(created="1111.0")
    copy = Path(shutil.copytree(main, tmp_path / "copies" / HOST.name))
    found = Places(main=main, there=tmp_path / "there", copy=copy)
    there = remote._place(found.joined()._request(HOST.name, reason=""))
    return replace(found, there=Path(shutil.copytree(main, there)))


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
    with pytest.raises(LostError, match="it says that runs of block 5 are done, which it was not asked for"):
        places.fetch(places.joined(), 2, measure(places.there, 2))

    assert dump(places.copy) == before


@pytest.mark.parametrize("name", ["..", ".x", "a/b", "", "x" * 300, "nul\0", "\udc80"])
def test_a_file_that_can_have_no_such_name_is_refused(places, name):
    files = measure(places.there, 2)
    run = next(iter(files)).partition("/")[0]
    with pytest.raises(LostError, match="names a file that it was not asked for"):
        places.fetch(places.joined(), 2, {**files, f"{run}/{name}": "0"})


def test_a_file_of_another_block_is_refused(places):
    files = measure(places.there, 2)
    with pytest.raises(LostError, match=r'names a file that it was not asked for: "0013-.*"'):
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
        (lambda found: found["runs"][0].__setitem__(1, 999), "it says that runs of block 0 are done"),
        (lambda found: found["runs"][0].__setitem__(3, "splendid"), "table run, row 1, state: "),
        (lambda found: found["runs"].append(found["runs"][0]), "do not go on where they ended"),
        (lambda found: found.update(runs=[[0, *found["runs"][0][1:]]], rows={}), "do not go on where they ended"),
        (lambda found: found["runs"].append([9, *found["runs"][0][1:]]), "UNIQUE constraint failed"),
        (lambda found: found["runs"][0].__setitem__(4, 1e300), "table run, row 1, started: Input should be less"),
        (lambda found: found["runs"][0].__setitem__(5, -1.0), "table run, row 1, ended: "),
        (lambda found: found["rows"]["phase"]["rows"].append([77, "measure", 0, 1.0, 2.0]), "of a run that is not new"),
        (lambda found: found["rows"]["phase"]["rows"][0].__setitem__(1, "dawn"), "table phase, row 1, name: "),
        (lambda found: found["rows"]["phase"]["rows"][0].__setitem__(4, 1.0), 'table phase: "measure" of run 1 lasts'),
        (lambda found: found["rows"]["event"]["rows"][0].__setitem__(3, "no JSON"), "table event, row 1: "),
        (lambda found: found["rows"]["event"]["rows"][0].__setitem__(2, FROM_HOST), "a mark, which is not its own"),
        (lambda found: found["rows"]["setting"]["rows"][0].__setitem__(2, 5), "table setting, row 1, value: "),
        (lambda found: found["rows"]["fingerprint"]["rows"][0].__setitem__(3, None), "table fingerprint, row 1, value"),
        (lambda found: found["rows"]["setting_change"]["rows"][0].__setitem__(1, -1.0), "setting_change, row 1, t: "),
        (lambda found: found["rows"]["caveat"]["rows"].append(DREADFUL), "table caveat, row 1, severity: "),
        (lambda found: found["rows"]["phase"].update(columns=[], rows=[[]]), "table phase has no such columns"),
        (lambda found: found["rows"]["phase"].update(columns=["run", "pace"]), "table phase has no such columns"),
        (lambda found: found["rows"]["phase"]["columns"].pop(), "table phase has no such columns"),
        (lambda found: found["told"].update(method_guard="a while"), "could not convert"),
        (lambda found: found["told"].update(method="interleaved", method_slice="nan"), "a slice does not take nan s"),
        (lambda found: found["rows"]["phase"]["rows"].append([]), "table phase has a row of other columns"),
        (lambda found: found["rows"].update(slot={"columns": [], "rows": []}), 'there is no table "slot"'),
        (lambda found: found["told"].update(plan="another"), 'it tells of "plan"'),
        (lambda found: found.update(created="another"), "do not go on where they ended"),
        (lambda found: found.update(runs=[], rows={}, has_more=True), "do not go on where they ended"),
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
    joined._there[HOST.name].block = 2

    async def end(*_: object, **__: object) -> dict[str, object]:
        return {"is_known": True, "files": files}

    async def hear(*_: object, **__: object) -> None:
        pass

    monkeypatch.setattr(Tapped, "_do", end)
    monkeypatch.setattr(Tapped, "_hear", hear)

    assert asyncio.run(joined.end_worker(HOST.name)) is None
    assert joined._there[HOST.name].block is None
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


def away(*_: str) -> str:
    raise LostError("its worker is gone")


def states(folder: Path, block: int) -> list[tuple[int, str]]:
    with contextlib.closing(State.open(folder)) as state:
        return [(run.slot.number, run.state.value) for run in state.runs(block=block)]


def test_a_block_that_was_given_up_while_its_host_was_away_is_an_attempt_when_it_is_back(places, tmp_path):
    """Though it is whole there: another host has it by then."""
    other = Path(shutil.copytree(places.copy, tmp_path / "copies" / "b"))
    measure(places.there, 2)
    joined = places.joined(change=away)
    joined._there[HOST.name].block = 2
    assert places.end(joined) is not None
    files = measure(other, 2)
    with contextlib.closing(State.open(places.main, write=True)) as state:
        state.assign_block(2, "b")
    assert gather_block(other, places.main, block=2, host="b", digests=files) == ARMS
    joined.change = lambda _what, answer: answer
    assert places.end(joined) is None

    slots = [4, 5, 6]
    assert states(places.there, 2) == states(places.copy, 2) == [(slot, "interrupted") for slot in slots]
    assert sorted(states(places.main, 2)) == [(slot, state) for slot in slots for state in ("done", "interrupted")]
    assert joined._there[HOST.name].block is None


def test_a_block_that_its_host_has_done_when_it_was_lost_counts_if_it_is_back_in_time(places):
    measure(places.there, 2)
    joined = places.joined()
    joined._there[HOST.name].block = 2
    assert places.end(joined) is None

    assert states(places.main, 2) == [(4, "done"), (5, "done"), (6, "done")]


def test_a_worker_that_says_that_a_block_was_done_that_was_given_up_is_not_believed(places):
    measure(places.there, 2)
    joined = places.joined(change=away)
    joined._there[HOST.name].block = 2
    places.end(joined)
    done = places.there.with_name("done")
    shutil.copytree(places.there, done)
    joined._there[HOST.name].folder = str(done)
    joined.change = lambda _what, answer: answer
    assert places.end(joined) is None

    assert states(places.copy, 2) == states(places.main, 2) == []


def test_runs_of_a_block_that_another_host_has_done_are_attempts_though_they_look_done(places, tmp_path):
    """As an older version took them in, after which no resume came to its end."""
    other = Path(shutil.copytree(places.copy, tmp_path / "copies" / "b"))
    files = measure(other, 2)
    measure(places.copy, 2)
    with contextlib.closing(State.open(places.main, write=True)) as state:
        state.assign_block(2, "b")
    assert gather_block(other, places.main, block=2, host="b", digests=files) == ARMS
    places.end(places.joined())

    assert states(places.copy, 2) == [(slot, "interrupted") for slot in (4, 5, 6)]


@pytest.mark.parametrize("answer", ["[]", "{}", "null", '{"news": []}', "nonsense", '{"news": "{}", "digest": 1}'])
def test_an_answer_without_rows_is_the_workers_fault(places, answer):
    files = measure(places.there, 2)
    with pytest.raises(LostError, match="what its worker sends does not fit"):
        places.fetch(places.joined(change=lambda what, found: answer if what == "news" else found), 2, files)


def test_a_piece_of_a_file_that_is_none_is_the_workers_fault(places):
    files = measure(places.there, 2)
    with pytest.raises(LostError, match="what its worker sends does not fit"):
        places.fetch(places.joined(change=lambda what, found: "=" if what == "piece" else found), 2, files)


@pytest.mark.parametrize("files", [None, [], {"a": 1}])
def test_digests_that_are_none_are_the_workers_fault(places, files):
    measure(places.there, 2)
    with pytest.raises(LostError, match="its worker does not say which files there are"):
        places.fetch(places.joined(), 2, files)


@pytest.mark.parametrize("answer", ["[]", "{}", "null", "nonsense", '{"is_known": 1}'])
def test_a_worker_that_answers_nonsense_is_waited_for_as_one_that_is_gone(places, answer):
    joined = places.joined(change=lambda _what, _answer: answer)
    joined._there[HOST.name].block = 2

    assert str(places.end(joined)).startswith("no worker that offers a says")


@pytest.mark.parametrize("answer", ["[]", "{}", '{"version": 1}', '{"machine": 1}', '{"machine": {"clock": {}}}', "x"])
def test_a_worker_that_answers_nonsense_is_lost(places, answer):
    joined = places.joined(change=lambda _what, _answer: answer)
    for ask in (joined.add_worker(HOST.name), joined.ask_machine(HOST)):
        with pytest.raises(LostError, match="what its worker sends does not fit"):
            asyncio.run(ask)


def test_a_worker_that_has_more_runs_for_ever_is_stopped(places, monkeypatch):
    """Others each time."""
    monkeypatch.setattr(copies, "_MOST_ATTEMPTS", 2)
    measure(places.there, 2)
    rounds = 0

    def change(found: dict) -> None:
        nonlocal rounds
        for run in found["runs"]:
            run[0] += ARMS * rounds
            run[2] += rounds
        for told in found["rows"].values():
            told["rows"] = []
        found["has_more"] = True
        rounds += 1

    answers = changed(change)
    with contextlib.closing(State.open(places.there)) as state:
        slots = len(state.slots())
    joined = places.joined()
    first = asyncio.run(joined._serve("", "news", json.dumps({"folder": str(places.there), **NOTHING_YET})))
    joined.change = lambda what, answer: answers(what, first) if what == "news" else answer
    with pytest.raises(LostError, match="it has more runs than the plan"):
        places.fetch(joined, 2, {})

    assert rounds == 2 * slots // ARMS + 1


def test_an_answer_that_is_too_long_is_not_read(places, monkeypatch):
    monkeypatch.setattr(copies, "_LONGEST", 1000)
    with pytest.raises(LostError, match="its rows are more than 1000 bytes"):
        places.fetch(places.joined(), 2, measure(places.there, 2))


def test_a_file_without_an_end_is_not_read_to_its_end(places, monkeypatch):
    monkeypatch.setattr(joined_module, "_LARGEST_FILE", 100)
    monkeypatch.setattr(joined_module, "_PIECE", 40)
    endless = base64.b64encode(b"x" * 40).decode()
    with pytest.raises(LostError, match="has more than 100 bytes"):
        places.fetch(
            places.joined(change=lambda what, found: endless if what == "piece" else found),
            2,
            measure(places.there, 2),
        )


def test_a_file_that_cannot_be_written_here_is_not_the_workers_fault(places, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(copies, "write_file", fail)
    with pytest.raises(StoreError, match=r'cannot write ".*transactions\.parquet": No space left on device'):
        places.fetch(places.joined(), 2, measure(places.there, 2))


def test_a_host_that_cannot_be_left_does_not_keep_the_others_from_being_left(places, monkeypatch):
    left = []

    async def leave(_self: Joined, host: str) -> None:
        if host == "a":
            raise StoreError("cannot read")
        await asyncio.sleep(0)
        left.append(host)

    monkeypatch.setattr(Joined, "_leave", leave)
    joined = places.joined()
    joined._there["b"] = There(folder="", worker="")

    assert {host: str(err) for host, err in asyncio.run(joined.leave()).items()} == {"a": "cannot read"}
    assert left == ["b"]


def test_a_column_that_an_older_copy_does_not_have_comes_too(places):
    """The worker's engine has added it as it noted a caveat."""
    for folder in (places.copy, places.there):
        with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as database:
            database.execute("ALTER TABLE caveat DROP COLUMN said")
    files = measure(places.there, 1)
    with contextlib.closing(State.open(places.there, write=True)) as state:
        state.add_caveat(caveat(STOPPED_FOR_HARM, why="reasons"))
    places.fetch(places.joined(), 1, files)

    assert dump(places.copy) == dump(places.there)


def test_what_is_left_in_a_run_of_the_copy_and_is_not_promised_goes(places):
    files = measure(places.there, 1)
    name = next(iter(files)).partition("/")[0]
    stale = layout.run_folder(places.copy, name) / "stale.parquet"
    stale.parent.mkdir(parents=True)
    stale.write_text("of another state")
    places.fetch(places.joined(), 1, files)

    assert places.gather(1, files) == ARMS


def test_runs_are_said_to_be_here_only_when_their_rows_are(places, monkeypatch):
    """Else the worker removes files of which nobody knows here."""

    def fail(_self: Copy) -> None:
        raise StoreError("database or disk is full")

    monkeypatch.setattr(Copy, "add", fail)
    joined = places.joined()
    with pytest.raises(StoreError):
        places.fetch(joined, 1, measure(places.there, 1))
    assert joined._there[HOST.name].taken == []


def test_rows_that_are_being_added_are_there_before_anybody_fetches_again(places, monkeypatch):
    begun, may_go, done = threading.Event(), threading.Event(), []
    add = Copy.add

    def slow(self: Copy) -> None:
        begun.set()
        assert may_go.wait(WAITING)
        add(self)
        done.append(True)

    monkeypatch.setattr(Copy, "add", slow)
    joined, files = places.joined(), measure(places.there, 1)
    joined._there[HOST.name].block = 1

    async def cancel() -> None:
        fetching = asyncio.ensure_future(joined._fetch(HOST.name, files))
        await asyncio.to_thread(begun.wait, WAITING)
        fetching.cancel()
        await asyncio.sleep(0)
        may_go.set()
        await asyncio.wait([fetching])
        assert done

    asyncio.run(cancel())


def test_rows_that_no_pgtrial_could_read_are_not_taken_into_the_main_folder(places):
    files = measure(places.copy, 1)
    with contextlib.closing(sqlite3.connect(places.copy / layout.STATE)) as database, database:
        database.execute("INSERT INTO caveat (code, severity, text, hint) VALUES ('odd', 'dreadful', 'It is odd.', '')")
    before = dump(places.main)
    with pytest.raises(StoreError, match="table caveat, row 1, severity"):
        places.gather(1, files)

    assert {**dump(places.main), "block_host": []} == {**before, "block_host": []}
