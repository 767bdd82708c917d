import contextlib
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.errors import StoreError
from pgtrial.hosts.processes import ProcessId
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.store import journal_file
from pgtrial.store.journal import Journal
from pgtrial.store.journal_file import FILE, VARIABLE, state_directory
from pgtrial.store.journal_values import seal
from pgtrial.store.sqlite import connect

OWNER = ProcessId(pid=4711, start_ticks=99, boot_id="boot-1")
CHANGE = Change(
    knob="sysctl",
    name="vm.dirty_ratio",
    old={"/proc/sys/vm/dirty_ratio": "20", "/proc/sys/vm/dirty_bytes": "0"},
    new={"/proc/sys/vm/dirty_bytes": "1048576"},
    old_text="20",
    new_text="none",
)
RESTORED = Undone(outcome=Outcome.RESTORED)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the journal will be."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "lib" / "state"))
    return tmp_path / "lib" / "state"


@pytest.fixture
def journal(directory: Path):
    with Journal.open(write=True) as journal:
        yield journal


def begin(journal: Journal, *, host: str = "local", folder: str = "/results/a", change: Change = CHANGE):
    return journal.begin(change, host=host, boot_id="boot-2", folder=folder, run=3, owner=OWNER, t=12.5)


def test_an_entry_is_read_as_it_was_written(journal) -> None:
    entry = begin(journal)
    (record,) = journal.open_entries()

    assert record.entry == entry
    assert (entry.change, entry.host, entry.boot_id, entry.folder) == (CHANGE, "local", "boot-2", "/results/a")
    assert (entry.run, entry.t, entry.got) == (3, 12.5, None)
    assert (record.owner, record.outcome, record.text, record.ended) == (OWNER, None, "", None)


def test_a_confirmed_entry_has_what_was_there_then(journal) -> None:
    confirmed = journal.confirm(begin(journal), {"item": 'a "b"\nü'})

    assert confirmed.got == {"item": 'a "b"\nü'}
    assert journal.open_entries()[0].entry == confirmed


def test_what_failed_stays_open_until_it_is_restored(journal) -> None:
    entry = begin(journal)
    journal.end(entry, Undone(outcome=Outcome.FAILED, text="Read-only file system."), t=13.0)

    (record,) = journal.open_entries()
    assert (record.outcome, record.text, record.ended) == (Outcome.FAILED, "Read-only file system.", 13.0)

    journal.end(entry, RESTORED, t=14.0)
    assert journal.open_entries() == ()
    (record,) = journal.history(10)
    assert (record.outcome, record.text, record.ended) == (Outcome.RESTORED, "", 14.0)


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.FAILED])
def test_every_other_outcome_is_an_end(journal, outcome: Outcome) -> None:
    journal.end(begin(journal), Undone(outcome=outcome, text="Why."), t=13.0)

    assert journal.open_entries() == ()
    assert [(record.outcome, record.text) for record in journal.history(10)] == [(outcome, "Why.")]


def test_open_entries_are_newest_first_and_can_be_chosen(journal) -> None:
    begin(journal, folder="/results/a")
    begin(journal, folder="/results/b")
    begin(journal, folder="/results/b", host="ssh://db1")

    assert [record.entry.id for record in journal.open_entries()] == [3, 2, 1]
    assert [record.entry.id for record in journal.open_entries(host="local")] == [2, 1]
    assert [record.entry.id for record in journal.history(2)] == [3, 2]


def test_an_entry_that_is_gone_is_an_error(journal) -> None:
    entry = begin(journal)
    with journal.db:
        journal.db.execute("DELETE FROM entry")

    with pytest.raises(StoreError, match="has lost entry 1"):
        journal.confirm(entry, {})


def test_an_entry_is_on_disk_when_it_is_written(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda number: (synced.append(Path(f"/proc/self/fd/{number}").readlink()), fsync(number))[1]
    )
    with Journal.open(write=True) as journal:
        assert journal.db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert journal.db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL

    # The names of the directories and of the file; SQLite syncs what it writes itself.
    assert synced == [directory.parent.parent, directory.parent, directory]
    assert sorted(path.name for path in directory.iterdir()) == ["journal.sqlite", "restore.lock"]


def test_an_entry_outlives_a_kill(directory: Path) -> None:
    code = (
        "import os, signal\n"
        "from pgtrial.model.change import Change\n"
        "from pgtrial.hosts.processes import ProcessId\n"
        "from pgtrial.store.journal import Journal\n"
        "change = Change(knob='k', name='n', old={}, new={'a': 'b'}, old_text='none', new_text='b')\n"
        "Journal.open(write=True).begin(change, host='local', boot_id='b', folder='f', run=None,\n"
        "    owner=ProcessId(pid=os.getpid(), start_ticks=1, boot_id='b'), t=1.0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == -9

    with Journal.open(write=False) as journal:
        (record,) = journal.open_entries()
    assert (record.entry.change.name, record.entry.run) == ("n", None)


def test_several_write_at_once_from_the_first_moment(directory: Path, tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "from pgtrial.model.change import Change, JournalEntry, Outcome, Undone\n"
        "from pgtrial.hosts.processes import ProcessId\n"
        "from pgtrial.store.journal import Journal\n"
        "change = Change(knob='k', name=sys.argv[1], old={}, new={}, old_text='', new_text='')\n"
        "open(sys.argv[1], 'w').close()\n"
        "while not os.path.exists('go'): time.sleep(0.001)\n"
        "with Journal.open(write=True) as journal:\n"
        "    for run in range(20):\n"
        "        entry = journal.begin(change, host='local', boot_id='b', folder='f', run=run,\n"
        "            owner=ProcessId(pid=os.getpid(), start_ticks=1, boot_id='b'), t=1.0)\n"
        "        journal.end(journal.confirm(entry, {}), Undone(outcome=Outcome.RESTORED), t=2.0)\n"
    )
    names = ["a", "b", "c"]
    writers = [subprocess.Popen([sys.executable, "-c", code, name], cwd=tmp_path) for name in names]
    try:
        while not all((tmp_path / name).exists() for name in names):
            assert all(writer.poll() is None for writer in writers)
        (tmp_path / "go").touch()
        assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()

    with Journal.open(write=False) as journal:
        found = sorted((record.entry.change.name, record.entry.run) for record in journal.history(1000))
        assert found == [(name, run) for name in names for run in range(20)]
        assert journal.open_entries() == ()
    assert list(directory.glob(".*")) == []  # where it was made


def test_reading_makes_nothing_and_finds_nothing(directory: Path) -> None:
    with Journal.open(write=False) as journal:
        assert journal.open_entries() == ()
        assert journal.history(1) == ()

    assert not directory.parent.exists()


def test_a_reader_sees_what_a_writer_has_written(journal) -> None:
    begin(journal)

    with Journal.open(write=False) as reader:
        assert len(reader.open_entries()) == 1
        with pytest.raises(StoreError, match=r"cannot write to the journal of host changes .*readonly"):
            begin(reader)


def test_what_a_directory_is_made_for_is_not_for_others(journal, directory: Path) -> None:
    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.parent.stat().st_mode & 0o777 == 0o700


# -- where it is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "state_home", "expected"),
    [
        (0, "/somewhere", "/var/lib/pgtrial"),
        (1000, "/somewhere", "/somewhere/pgtrial"),
        (1000, "relative", "/home/me/.local/state/pgtrial"),
        (1000, None, "/home/me/.local/state/pgtrial"),
    ],
)
def test_each_machine_and_user_has_one_place(
    user: int, state_home: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    if state_home is not None:
        monkeypatch.setenv("XDG_STATE_HOME", state_home)

    assert state_directory() == Path(expected)


def test_a_place_that_depends_on_the_current_directory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "state")

    with pytest.raises(StoreError, match='PGTRIAL_STATE_DIRECTORY is not an absolute path: "state"'):
        state_directory()


def test_a_user_without_a_home_is_told_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(Path, "home", fail)
    for name in (VARIABLE, "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(StoreError, match="no home directory") as found:
        state_directory()
    assert found.value.hint == "Name a directory with PGTRIAL_STATE_DIRECTORY."


# -- long values -------------------------------------------------------------------------------------------------

LONG = json.dumps({f"table public.t{i}": hashlib.md5(str(i).encode()).hexdigest() for i in range(5000)})


def with_long(journal: Journal) -> JournalEntry:
    return begin(journal, change=replace(CHANGE, old={**CHANGE.old, "catalogue": LONG}))


def make_old(journal: Journal) -> None:
    """What has no long values yet as the format before has it, and no larger than it has to be."""
    with contextlib.closing(sqlite3.connect(journal.path, isolation_level=None)) as db:
        db.execute("DROP TABLE long_value")
        db.execute("UPDATE meta SET value = '2' WHERE key = 'format'")
        db.execute("VACUUM")


def bytes_of(journal: Journal) -> int:
    """What its pages hold, those aside that are free."""
    ((pages, free, size),) = journal.db.execute(
        "SELECT page_count, freelist_count, page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
    )
    return int((pages - free) * size)


def test_a_long_value_is_stored_once_and_only_while_an_entry_needs_it(journal) -> None:
    empty = bytes_of(journal)
    entries = [with_long(journal) for _ in range(10)]
    for number in range(10):
        entries[0] = journal.confirm(entries[0], {"step": str(number)})

    assert [record.entry for record in journal.open_entries()] == list(reversed(entries))
    assert bytes_of(journal) - empty < len(LONG)
    for entry in entries[1:]:
        journal.end(entry, RESTORED, t=13.0)
    assert [record.entry for record in journal.open_entries()] == [entries[0]]
    journal.end(entries[0], Undone(outcome=Outcome.FAILED), t=13.0)
    assert [record.entry for record in journal.open_entries()] == [entries[0]]
    journal.end(entries[0], RESTORED, t=13.0)
    assert bytes_of(journal) - empty < 20_000
    assert {record.entry.damage for record in journal.history(20)} == {""}


def test_a_long_value_that_is_not_as_it_was_written_is_damage(journal) -> None:
    with_long(journal)
    short = begin(journal)
    with journal.db as db:
        db.execute("UPDATE long_value SET content = zeroblob(20)")

    newest, damaged = journal.open_entries()

    assert newest.entry == short
    assert "old" in damaged.entry.damage


def test_a_journal_of_the_format_before_is_read_and_written_on(journal, directory: Path) -> None:
    entry = begin(journal)
    with journal.db as db:
        old = json.dumps({**CHANGE.old, "catalogue": LONG})  # as that format has it
        db.execute("UPDATE entry SET old = ?", (old,))
        seal(db, entry.id)
    make_old(journal)
    journal.close()

    found = []
    for write in (False, True):
        with Journal.open(write=write) as again:
            (record,) = again.open_entries()
            found.append((record.entry.change.old["catalogue"], record.entry.damage))
            if write:
                with_long(again)
                again.end(record.entry, RESTORED, t=13.0)
                (newest,) = again.open_entries()
    assert found == [(LONG, "")] * 2
    assert newest.entry.change.old["catalogue"] == LONG


@pytest.mark.parametrize(("limit", "is_writable"), [("max_page_count = 1", True), ("query_only = ON", False)])
def test_a_journal_of_the_format_before_is_used_where_nothing_can_be_added_to_it(
    journal, directory: Path, monkeypatch: pytest.MonkeyPatch, limit: str, *, is_writable: bool
) -> None:
    """As on a disk that is full, or can only be read; a page in the middle of the file can be written all the same."""
    entry = begin(journal)
    make_old(journal)
    journal.close()

    def connect_in_need(path: Path, *, mode: str) -> sqlite3.Connection:
        db = connect(path, mode=mode)
        db.execute(f"PRAGMA {limit}")  # no fewer pages than there are
        return db

    monkeypatch.setattr(journal_file, "connect", connect_in_need)
    with Journal.open(write=True) as again:
        (record,) = again.open_entries()
        with contextlib.nullcontext() if is_writable else pytest.raises(StoreError, match="cannot write to"):
            again.end(record.entry, RESTORED, t=13.0)
        left = again.open_entries()
        (kept,) = again.db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()

    assert record.entry == entry
    assert len(left) == (0 if is_writable else 1)
    assert kept == "2"


def test_an_entry_whose_long_values_are_gone_with_their_table_is_damaged(journal) -> None:
    with_long(journal)
    make_old(journal)

    (record,) = journal.open_entries()

    assert "old" in record.entry.damage


# -- what is wrong with it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("written", "shown"), [("99", "format 99"), (None, "an unknown format")])
def test_a_newer_format_is_refused(journal, written: str | None, shown: str) -> None:
    with journal.db as db:
        db.execute("DELETE FROM meta")
        if written:
            db.execute("INSERT INTO meta VALUES ('format', ?)", (written,))

    for write in (False, True):
        with pytest.raises(StoreError, match=f"has {shown}, this pgtrial knows up to format 3"):
            Journal.open(write=write)


def test_a_file_that_is_no_database_is_said_to_be_none(directory: Path) -> None:
    directory.mkdir(parents=True, mode=0o700)
    (directory / "journal.sqlite").write_text("this is not a database, but it is long enough to be taken for one" * 20)

    for write in (False, True):
        with pytest.raises(StoreError, match=r"cannot open .*journal\.sqlite.*not a database") as found:
            Journal.open(write=write)
        assert "Find out what wrote to it." in found.value.hint


def test_a_directory_that_cannot_be_made_is_told_with_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "state"))

    with pytest.raises(StoreError, match=r'cannot open .*"/.*/file/state/journal.sqlite": Not a directory') as found:
        Journal.open(write=True)
    assert found.value.hint == "Make its directory writable, or name another one with PGTRIAL_STATE_DIRECTORY."


def test_a_full_disk_is_told_and_nothing_is_half_written(journal) -> None:
    entry = begin(journal)
    (pages,) = journal.db.execute("PRAGMA page_count").fetchone()
    journal.db.execute(f"PRAGMA max_page_count = {pages}")
    large = Change(knob="k", name="n", old={"a": os.urandom(50_000).hex()}, new={}, old_text="", new_text="")

    with pytest.raises(StoreError, match=r"cannot write to the journal .*disk is full") as found:
        begin(journal, change=large)

    assert found.value.hint == "Free some space on its disk."
    assert [record.entry for record in journal.open_entries()] == [entry]


def test_a_journal_that_is_locked_for_long_is_told(journal) -> None:
    journal.db.execute("PRAGMA busy_timeout = 1")
    with contextlib.closing(sqlite3.connect(journal.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="database is locked") as found:
            begin(journal)

    assert "try again" in found.value.hint


@pytest.mark.parametrize("which", ["state", "state/journal.sqlite"])
@pytest.mark.parametrize("write", [False, True])
def test_a_journal_that_others_can_write_is_refused(journal, directory: Path, which: str, write: bool) -> None:
    path = directory.parent / which
    path.chmod(path.stat().st_mode | 0o020)

    with pytest.raises(StoreError, match=f'other users can write to "{path}"') as found:
        Journal.open(write=write)
    assert found.value.hint == f'Revoke that right: chmod go-w "{path}"'


def test_a_journal_of_another_user_is_refused(journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    with pytest.raises(StoreError, match="belongs to another user"):
        Journal.open(write=False)


def test_only_one_restores_at_a_time(journal) -> None:
    with (
        journal.restoring(),
        pytest.raises(StoreError, match='another "pgtrial restore" is running'),
        journal.restoring(),
    ):
        pass

    (journal.path.parent / "restore.lock").unlink()
    with journal.restoring():
        pass


def test_what_can_only_be_read_can_be_restored(journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)

    with journal.restoring():
        (journal.path.parent / "restore.lock").unlink()
    with pytest.raises(StoreError, match=r'cannot lock .*restore\.lock": No such file'), journal.restoring():
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("made", [True, False])
def test_root_keeps_no_journal_where_another_user_can_replace_it(directory: Path, *, made: bool) -> None:
    neighbours = directory.parent
    neighbours.mkdir(parents=True)
    if made:
        with Journal.open(write=True):
            pass
    os.chown(neighbours, 65534, 65534)

    with pytest.raises(StoreError, match=f'others may change "{neighbours}"'):
        Journal.open(write=True)
    assert directory.exists() == made
    if made:
        with pytest.raises(StoreError, match=f'others may change "{neighbours}"'):
            Journal.open(write=False)


def test_a_journal_without_a_column_has_damaged_entries(journal, directory: Path) -> None:
    begin(journal)
    with contextlib.closing(sqlite3.connect(directory / FILE)) as db, db:
        db.execute("ALTER TABLE entry RENAME COLUMN knob TO kn0b")

    with Journal.open(write=False) as again:
        (record,) = again.open_entries()

    assert record.entry.damage == "knob = None"


@pytest.mark.parametrize(
    ("column", "before", "after"),
    [
        ("old, new, got", "/vm/", "/wm/"),
        ("old", '"20"', '"60"'),
        ("old_text", "20", "60"),
        ("folder", "/results", "/result5"),
        ("boot_id", "boot-2", "boot-3"),
    ],
)
def test_an_entry_that_makes_sense_and_is_not_what_was_written_is_damaged(
    journal, directory: Path, column: str, before: str, after: str
) -> None:
    """A path that is another one, alike in all values, would be that of another file of the kernel."""
    entry = journal.confirm(begin(journal), {"/proc/sys/vm/dirty_ratio": "0"})
    other = begin(journal)
    with contextlib.closing(sqlite3.connect(directory / FILE)) as db, db:
        for each in column.split(", "):
            db.execute(f"UPDATE entry SET {each} = replace({each}, ?, ?) WHERE id = ?", (before, after, entry.id))

    with Journal.open(write=False) as again:
        damage = {record.entry.id: record.entry.damage for record in again.open_entries()}

    assert damage == {entry.id: "it is not as it was written", other.id: ""}


def test_a_journal_of_the_version_before_gets_checksums(journal, directory: Path) -> None:
    entry = begin(journal)
    with contextlib.closing(sqlite3.connect(directory / FILE)) as db, db:
        db.execute("ALTER TABLE entry DROP COLUMN seal")
        db.execute("UPDATE meta SET value = '1'")

    with Journal.open(write=False) as old:
        (unsealed,) = old.open_entries()
    with Journal.open(write=True) as again:
        newer = begin(again)
        records = again.open_entries()

    assert unsealed.entry == entry
    assert [record.entry for record in records] == [newer, entry]


def damage_page(path: Path) -> None:
    """Make one page unreadable that has entries of the folders "/results/3…"."""
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    # SQLite, "Database File Format", 1.6: the first byte of a page is 13 where it has rows of a table.
    leaves = [
        at
        for at in range(2 * size, len(content), size)
        if content[at] == 13 and b"/results/3" in content[at : at + size]
    ]
    content[leaves[0] : leaves[0] + 8] = b"\xff" * 8
    path.write_bytes(content)


def test_a_damaged_page_takes_no_entry_of_another_one_with_it(journal, directory: Path) -> None:
    entries = [begin(journal, folder=f"/results/{number}") for number in range(60)]
    journal.close()
    damage_page(directory / FILE)

    with Journal.open(write=False) as again:
        records = again.open_entries()
        newest = again.history(5)

    readable = [record.entry for record in records if not record.entry.damage]
    damaged = [record.entry.id for record in records if record.entry.damage]
    assert readable == [entry for entry in reversed(entries) if entry.id not in damaged]
    assert 0 < len(damaged) < 60
    assert [record.entry.id for record in newest] == [60, 59, 58, 57, 56]


def test_beside_a_damaged_page_an_entry_is_ended_for_good(journal, directory: Path) -> None:
    for number in range(60):
        begin(journal, folder=f"/results/{number}")
    newest = with_long(journal)
    journal.close()
    damage_page(directory / FILE)

    with Journal.open(write=True) as again:
        again.end(newest, RESTORED, t=13.0)
    with Journal.open(write=False) as again:
        (record,) = again.history(1)
        still_open = [record.entry.id for record in again.open_entries()]

    assert (record.entry.id, record.outcome, record.ended) == (newest.id, Outcome.RESTORED, 13.0)
    assert 60 in still_open
    assert newest.id not in still_open
