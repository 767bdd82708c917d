import contextlib
import os
import sqlite3
import struct

import pytest

from pgtrial.errors import StoreError
from pgtrial.model.arm import Arm, Role
from pgtrial.model.fingerprint import Moment
from pgtrial.model.run import LoadLevel, Phase, PhaseName, RunState, Slice, Slot
from pgtrial.store.sqlite import connect_to_read
from pgtrial.store.state import State

ARMS = (
    Arm(name="a", role=Role.CONTROL),
    Arm(name="b", role=Role.CANDIDATE, own_settings={"work_mem": "8MB"}, own_knobs={"cgroup": {"cpus": "1"}}),
)
SLOTS = (Slot(number=1, block=1, position=1, arm="b"), Slot(number=2, block=1, position=2, arm="a"))


@pytest.fixture
def state(tmp_path):
    state = State.create(tmp_path)
    state.set_plan(ARMS, [LoadLevel(index=0, clients=2)], SLOTS)
    yield state
    state.close()


def test_plan_is_read_as_it_was_written(state):
    assert state.declared_arms() == (
        ("a", Role.CONTROL, {"postgresql": {}}),
        ("b", Role.CANDIDATE, {"postgresql": {"work_mem": "8MB"}, "cgroup": {"cpus": "1"}}),
    )
    assert state.slots() == SLOTS
    assert state.levels() == (LoadLevel(index=0, clients=2),)


def test_attempts_at_a_slot_are_counted(state):
    for outcome in (RunState.INVALID, RunState.DONE):
        run = state.begin_run(SLOTS[0], 1.0)
        state.end_runs([run.id], outcome, 2.0, "because")

    assert [(run.attempt, run.state, run.folder) for run in state.runs()] == [
        (1, RunState.INVALID, "0001-b-b1"),
        (2, RunState.DONE, "0001-b-b1-repeat1"),
    ]


def test_the_host_of_a_block_is_the_last_one_it_was_given_to(state, tmp_path):
    assert state.block_hosts() == {}
    assert "block_host" not in state.tables()

    state.assign_block(1, "db-01.example")
    state.assign_block(1, "db_02")

    assert state.block_hosts() == {1: "db_02"}
    with contextlib.closing(State.open(tmp_path)) as reader:
        assert reader.block_hosts() == {1: "db_02"}


@pytest.mark.parametrize("name", ["", "-o", ".ssh", "a b", "a/../b", "host\n", "х", "h" * 64])
def test_what_is_no_name_of_a_host_is_refused(state, name):
    with pytest.raises(StoreError, match="is not a name for a host"):
        state.assign_block(1, name)

    assert state.block_hosts() == {}


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (["UPDATE block_host SET host = '<script>'"], "table block_host, row 1, host: String should match"),
        (["UPDATE block_host SET block = 7"], "table block_host names block 7, which is not there"),
        (
            [
                "ALTER TABLE block_host RENAME TO b",
                "CREATE TABLE block_host AS SELECT * FROM b UNION ALL SELECT * FROM b",
            ],
            "table block_host has a row twice",
        ),
    ],
)
def test_hosts_that_cannot_be_are_damage(state, tmp_path, statements, said):
    state.assign_block(1, "one")
    state.close()
    _damage(tmp_path, *statements)

    with contextlib.closing(State.open(tmp_path)) as reader, pytest.raises(StoreError) as caught:
        reader.block_hosts()

    assert said in caught.value.message


def test_reader_sees_what_the_writer_has_written(state, tmp_path):
    reader = State.open(tmp_path)
    run = state.begin_run(SLOTS[0], 1.0)

    assert [row.id for row in reader.runs()] == [run.id]
    reader.close()


def test_finished_folder_is_one_file_that_can_be_read_where_nothing_can_be_written(state, tmp_path, monkeypatch):
    state.begin_run(SLOTS[0], 1.0)
    state.close()
    assert [path.name for path in tmp_path.iterdir()] == ["state.sqlite"]
    monkeypatch.setattr("os.access", lambda *_: False)

    reader = State.open(tmp_path)

    assert len(reader.runs()) == 1
    reader.close()
    assert [path.name for path in tmp_path.iterdir()] == ["state.sqlite"]


def test_reading_does_not_write(state, tmp_path):
    db = connect_to_read(tmp_path / "state.sqlite")

    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.execute("DELETE FROM run")
    db.close()


def test_facts_are_kept_by_moment(state):
    run = state.begin_run(SLOTS[0], 1.0)
    state.add_fingerprint({"kernel/release": "6.1"})
    state.add_fingerprint({"machine/CPU governor": "performance"}, run=run.id)
    state.add_fingerprint({"machine/CPU governor": "powersave"}, run=run.id, moment=Moment.AFTER)

    whole = {None: {"kernel/release": "6.1"}}
    assert state.fingerprints() == {**whole, run.id: {"machine/CPU governor": "performance"}}
    assert state.fingerprints(Moment.AFTER) == {**whole, run.id: {"machine/CPU governor": "powersave"}}


def test_folder_of_a_newer_format_is_refused(state, tmp_path):
    state.set_meta(format="99")

    with pytest.raises(StoreError, match="has format 99"):
        State.open(tmp_path)


def test_folder_that_cannot_be_looked_at_is_said(tmp_path):
    with pytest.raises(StoreError, match=r'cannot read ".*": File name too long'):
        State.open(tmp_path / ("x" * 300))


def _damage(folder, *statements):
    """Change the database of a folder behind pgtrial's back, also against its constraints."""
    with contextlib.closing(sqlite3.connect(folder / "state.sqlite", isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')')")
        db.execute("PRAGMA writable_schema = RESET")
        db.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            db.execute(statement)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE slot SET block = 'one' WHERE number = 2", "table slot, row 2, block: Input should be a valid integer"),
        ("UPDATE slot SET arm = '../../b' WHERE number = 1", "table slot, row 1, arm: String should match"),
        ("UPDATE run SET started = 9e999", "table run, row 1, started: Input should be a finite number"),
        ("UPDATE run SET slot = 77", "table run names slot 77, which is not there"),
        ("UPDATE run SET state = 'odd'", "table run, row 1, state: Input should be 'planned', "),
        ("UPDATE phase SET ended = started + 3e8", 'table phase: "measure" of run 1 lasts 3e+08 s'),
        ("UPDATE phase SET ended = started - 1e3", 'table phase: "measure" of run 1 lasts -1000 s'),
        ("ALTER TABLE run DROP COLUMN reason", "cannot read table run: no such column: reason"),
        ("DROP TABLE phase", "cannot read table phase: no such table: phase"),
        ("UPDATE run SET reason = CAST(x'ff' AS TEXT)", "cannot read table run: Could not decode to UTF-8"),
    ],
)
def test_what_is_damaged_is_named(state, tmp_path, statement, said):
    run = state.begin_run(SLOTS[0], 1000.0)
    state.add_phase(run.id, Phase(name=PhaseName.MEASURE, start=5000.0, end=5010.0, level=0))
    state.close()
    _damage(tmp_path, statement)

    with contextlib.closing(State.open(tmp_path)) as reader, pytest.raises(StoreError) as caught:
        reader.runs()

    assert said in caught.value.message
    assert caught.value.message.startswith(f'"{tmp_path}/state.sqlite" is damaged: ')


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("knobs", "[" * 40_000, "it is nested too deeply"),
        ("knobs", '[["sysctl", "a"]]', "it is not a JSON list of knob, name and value"),
        ("settings", '{"work_mem": 8}', "it is not a JSON object of texts"),
        ("name", "a b", "String should match"),
    ],
)
def test_declarations_of_arms_are_checked(state, tmp_path, column, value, said):
    state.close()
    _damage(tmp_path, f"UPDATE arm SET {column} = '{value}' WHERE position = 1")

    with contextlib.closing(State.open(tmp_path)) as reader, pytest.raises(StoreError) as caught:
        reader.declared_arms()

    assert f"table arm, row 2, {column}: " in caught.value.message
    assert said in caught.value.message


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW phase_ AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
        "CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM run; END",
        "CREATE VIRTUAL TABLE t USING fts5(x)",
        "ALTER TABLE phase ADD COLUMN x TEXT AS (hex(zeroblob(30000000)))",
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_database_with_more_than_tables_is_refused(state, tmp_path, statement, write):
    state.close()
    _damage(tmp_path, statement)

    with pytest.raises(StoreError, match=r"that pgtrial did not make|has a computed column"):
        State.open(tmp_path, write=write)


def test_rollback_journal_that_names_a_file_elsewhere_deletes_nothing(tmp_path):
    """SQLite deletes the file that such a journal names as the one that holds several journals together."""
    victim, folder = tmp_path / "precious", tmp_path / "folder"
    victim.write_text("precious")
    folder.mkdir()
    State.create(folder).close()
    with contextlib.closing(sqlite3.connect(folder / "state.sqlite", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN")
        for number in range(300):
            db.execute("INSERT INTO meta VALUES (?, ?)", (str(number), "x" * 3000))
        torn = {name: (folder / name).read_bytes() for name in ("state.sqlite", "state.sqlite-journal")}
        db.execute("ROLLBACK")
    name = bytes(victim)
    page = 0x40000000 // 4096 + 1
    torn["state.sqlite-journal"] += struct.pack(
        f">I{len(name)}sII8s", page, name, len(name), sum(name), bytes.fromhex("d9d505f920a163d7")
    )
    for file, content in torn.items():
        (folder / file).write_bytes(content)

    with pytest.raises(StoreError, match=r"state.sqlite-journal, which pgtrial did not write"):
        State.open(folder)

    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["state.sqlite", "state.sqlite-wal", "state.sqlite-shm"])
@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/dev/zero"), os.mkfifo])
def test_files_of_the_database_are_plain(state, tmp_path, name, make):
    state.close()
    (tmp_path / name).unlink(missing_ok=True)
    make(tmp_path / name)

    with pytest.raises(StoreError, match=r"is not a plain file|is not a result folder"):
        State.open(tmp_path)


def test_blocks_that_are_begun_and_done_are_found_without_their_runs(tmp_path):
    slots = tuple(Slot(number=n, block=(n + 1) // 2, position=2 - n % 2, arm="ab"[n % 2]) for n in range(1, 9))
    with contextlib.closing(State.create(tmp_path)) as state:
        state.set_plan(ARMS, [LoadLevel(index=0, clients=2)], slots)
        assert state.begun_blocks() == state.done_blocks() == state.done_blocks(host="one") == frozenset()
        for slot in slots[:5]:
            outcomes = (RunState.INVALID, RunState.DONE) if slot.block < 3 else (RunState.DONE,)
            for outcome in outcomes:
                state.end_runs([state.begin_run(slot, 1.0).id], outcome, 2.0)
        state.begin_run(slots[5], 1.0)
        state.assign_block(1, "one")
        state.assign_block(2, "two")
        state.assign_block(3, "one")

        assert state.begun_blocks() == {1, 2, 3}
        assert state.done_blocks() == {1, 2}
        assert state.done_blocks(host="one") == {1}
        assert state.count_runs(RunState.RUNNING) == 1
        state._db.execute("DROP TABLE run")
        for find in (state.begun_blocks, state.done_blocks):
            with pytest.raises(StoreError, match="no such table"):
                find()


def test_runs_and_facts_of_one_block_are_read_without_those_of_others(tmp_path):
    slots = (*SLOTS, Slot(number=3, block=2, position=1, arm="a"), Slot(number=4, block=2, position=2, arm="b"))
    with contextlib.closing(State.create(tmp_path)) as state:
        state.set_plan(ARMS, [LoadLevel(index=0, clients=2)], slots)
        for slot in (*slots, slots[0]):
            run = state.begin_run(slot, 10.0 * slot.number)
            state.add_phase(run.id, Phase(name=PhaseName.MEASURE, start=1.0, end=2.0, level=0))
            state.add_slices(run.id, [Slice(level=0, number=run.id, started=1.0, counted=1.5, ended=2.0)])
            state.add_fingerprint({"kernel/release": "6.1"}, run=run.id)
        state.index_runs()
        state.index_runs()  # once is enough
        every = state.runs()

        assert state.slots(block=2) == slots[2:]
        assert state.runs(block=1) == tuple(run for run in every if run.slot.block == 1)
        assert [run.attempt for run in state.runs(block=1)] == [1, 1, 2]
        assert state.runs(block=7) == ()
        assert state.count_runs() == len(every) == 5
        assert state.fingerprints(run=3) == {3: {"kernel/release": "6.1"}}
    with contextlib.closing(State.open(tmp_path)) as state:
        assert state.runs() == every
