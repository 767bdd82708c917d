import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from pgtrial.errors import StoreError
from pgtrial.export.redacted_files import copy_state, learn_state, redact_state
from pgtrial.export.redaction import Names, PrivateNames, Redaction
from pgtrial.findings.caveat import caveat_in_words
from pgtrial.model.arm import Arm, Role
from pgtrial.model.caveat import Severity
from pgtrial.model.run import LoadLevel, RunState, Slot
from pgtrial.store import layout
from pgtrial.store.state import State

TOLD = ("db7", "10.1.2.3", "hunter2xyz", "customers", "alice", "s3cr3t-command")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state with something to hide in every place that takes a text."""
    place = tmp_path / "folder"
    place.mkdir()
    with contextlib.closing(State.create(place)) as state:
        arms = (
            Arm(name="on", role=Role.CONTROL, own_settings={"archive_command": "cp %p s3cr3t-command"}),
            Arm(name="off", role=Role.CANDIDATE, own_knobs={"sql": {"apply": "CREATE INDEX ON customers (name)"}}),
        )
        slots = (Slot(number=1, block=1, position=1, arm="on"), Slot(number=2, block=1, position=2, arm="off"))
        state.set_plan(arms, (LoadLevel(index=0, clients=4, rate=None),), slots)
        state.set_meta(method="blocks", method_reason="host=db7.corp", calibration=json.dumps({"key": "host=db7.corp"}))
        state.assign_block(1, "db7.corp")
        run = state.begin_run(slots[0], 1.0)
        state.end_runs([run.id], RunState.INVALID, 2.0, 'ERROR:  relation "customers" does not exist at alice@db7.corp')
        state.add_event(1.5, "restored", run=run.id, text="password=hunter2xyz", n=1)
        state.add_event(1.6, "load-said", run=run.id, level=0, text="[parameters: {'name': 'alice'}] in customers")
        state.add_settings(
            run.id,
            [
                ("primary_conninfo", "host=db7.corp user=alice password=hunter2xyz", "file"),
                ("listen_addresses", "db7.corp,10.1.2.3", "file"),
                ("shared_buffers", "128MB", "default"),
            ],
        )
        state.add_setting_change(
            1.2, run=run.id, knob="sql", name="apply", old=None, new="CREATE INDEX ON customers (x)"
        )
        state.add_setting_change(
            1.2, run=run.id, knob="postgresql", name="archive_command", old="", new="s3cr3t-command"
        )
        state.add_fingerprint({"storage/data source": "db7.corp:/export", "PostgreSQL/version": "15.7"}, run=run.id)
        state.add_caveat(caveat_in_words("x", Severity.INFO, "LINE 1: SELECT * FROM customers", "alice@db7.corp"))
    return place


def redacted(folder: Path, *kinds: Redaction, is_of_program: bool = False) -> Path:
    out = folder.parent / layout.STATE
    copy_state(folder, out)
    known = PrivateNames(kinds=frozenset(kinds))
    learn_state(out, known)
    redact_state(out, Names(known=known), is_of_program=is_of_program)
    return out


def test_nothing_of_what_was_told_is_left_in_any_byte_of_the_file(folder: Path) -> None:
    content = redacted(folder, *Redaction).read_bytes().lower()

    assert [word for word in TOLD if word.encode() in content] == []


@pytest.mark.parametrize(("is_of_program", "is_left"), [(False, True), (True, False)])
def test_a_program_may_have_said_anything_of_why_a_run_failed(folder: Path, is_of_program: bool, is_left: bool) -> None:
    copy = redacted(folder, Redaction.QUERIES, is_of_program=is_of_program)

    with contextlib.closing(sqlite3.connect(copy)) as db:
        [(reason,)] = db.execute("SELECT reason FROM run WHERE state = 'invalid'")
    assert reason
    assert ("does not exist" in reason) is is_left


def test_what_is_left_still_is_a_state(folder: Path) -> None:
    redacted(folder, *Redaction)

    with contextlib.closing(State.open(folder.parent)) as state:
        on, off = state.declared_arms()
        assert (on[:2], off[:2]) == (("on", "control"), ("off", "candidate"))
        assert on[2]["postgresql"]["archive_command"].startswith("secret")
        assert off[2]["sql"]["apply"].startswith("query")
        (run,) = state.runs()
        assert run.state is RunState.INVALID
        assert state.settings()[run.id]["shared_buffers"] == ("128MB", "default")
        assert state.settings()[run.id]["listen_addresses"][0].count("host") == 2
        assert state.meta()["method"] == "blocks"
        assert state.meta()["format"] == "1"
        assert json.loads(state.meta()["calibration"])["key"].startswith("host=host")
        restored, said = (data for _, _, data in state.events(run=run.id))
        assert restored["n"] == 1
        assert (said["level"], said["text"][:5]) == (0, "query")
        assert state.fingerprints()[run.id]["PostgreSQL/version"] == "15.7"


def test_the_same_value_has_the_same_name_in_all_tables(folder: Path) -> None:
    path = redacted(folder, *Redaction)

    with contextlib.closing(sqlite3.connect(path)) as db:
        source = db.execute("SELECT value FROM fingerprint WHERE name = 'storage/data source'").fetchone()[0]
        reason = db.execute("SELECT reason FROM run").fetchone()[0]
        addresses = db.execute("SELECT value FROM setting WHERE name = 'listen_addresses'").fetchone()[0]

    host = source.partition(":")[0]
    assert reason.endswith(f"user@{host}")
    assert addresses.startswith(f"{host},host")
    with contextlib.closing(State.open(folder.parent)) as state:
        assert state.block_hosts() == {1: host}


def test_a_copy_of_an_old_folder_has_no_processes_and_directories_of_the_machine(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as db, db:
        db.execute("CREATE TABLE work_directory (path TEXT PRIMARY KEY, variant TEXT NOT NULL) STRICT")
        db.execute("INSERT INTO work_directory VALUES ('/var/tmp/db7', 'v')")

    copy_state(folder, folder.parent / layout.STATE)

    with contextlib.closing(State.open(folder.parent)) as state:
        assert state.settings()[1]["listen_addresses"][0] == "db7.corp,10.1.2.3"
    assert b"/var/tmp/db7" not in (folder.parent / layout.STATE).read_bytes()


def test_a_copy_has_what_is_still_in_the_write_ahead_log(folder: Path) -> None:
    with contextlib.closing(State.open(folder, write=True)) as state:
        state.set_meta(late="yes")
        assert (folder / f"{layout.STATE}-wal").exists()
        copy_state(folder, folder.parent / layout.STATE)

    with contextlib.closing(State.open(folder.parent)) as copy:
        assert copy.meta()["late"] == "yes"


def test_the_same_folder_gives_the_same_copy(folder: Path) -> None:
    first = redacted(folder, *Redaction).read_bytes()
    (folder.parent / layout.STATE).unlink()

    assert redacted(folder, *Redaction).read_bytes() == first


def test_a_damaged_state_is_an_error_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / layout.STATE).write_bytes(b"not a database" * 100)

    with pytest.raises(StoreError, match="cannot copy"):
        copy_state(tmp_path, tmp_path / "out.sqlite")
