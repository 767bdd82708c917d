import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from pgtrial.engine.restore import find_unrestored, forget, refuse_unrestored, undo_open
from pgtrial.errors import ConnectError, PreflightError, RestoreError, StoreError
from pgtrial.hosts.base import Host
from pgtrial.hosts.processes import ProcessId, identify
from pgtrial.knobs import HOST_KNOBS
from pgtrial.model.change import DUMP, OF_SERVERS, OWN_DATABASE, SERVER_COPY, Change, JournalEntry, Outcome, Undone
from pgtrial.postgres.existing.knobs import restoring_knobs
from pgtrial.store.journal import Journal

DEAD = ProcessId(pid=1, start_ticks=0, boot_id="an earlier boot")


def begin(
    journal: Journal, name: str, *, owner: ProcessId = DEAD, host: str = "local", knob: str = "first", path: str = ""
) -> JournalEntry:
    """Write down that a value was made "1"."""
    path = path or f"/nowhere/{name}"
    change = Change(knob=knob, name=name, old={path: "0"}, new={path: "1"}, old_text="0", new_text="1")
    entry = journal.begin(change, host=host, boot_id="boot-1", folder="/results/x", run=1, owner=owner, t=1.0)
    return journal.confirm(entry, change.new)


def outcomes(journal: Journal) -> dict[str, Outcome | None]:
    return {record.entry.change.name: record.outcome for record in reversed(journal.history(100))}


# -- before a run ------------------------------------------------------------------------------------------------


def test_with_nothing_open_a_run_may_start(journal) -> None:
    refuse_unrestored(journal)

    assert outcomes(journal) == {}


def test_what_was_left_keeps_a_run_from_starting(journal) -> None:
    begin(journal, "a")

    with pytest.raises(PreflightError, match="a host setting that an earlier experiment changed has not been") as found:
        refuse_unrestored(journal)
    assert found.value.detail == 'a from 0 to 1, for "/results/x".'
    assert found.value.hint == 'Run "pgtrial restore" first.'

    begin(journal, "b", host="ssh://db1")
    with pytest.raises(PreflightError, match="2 host settings that earlier experiments changed have not") as found:
        refuse_unrestored(journal)
    assert found.value.detail.splitlines()[0] == 'b from 0 to 1 on ssh://db1, for "/results/x".'


def test_what_is_in_use_is_said_to_be_in_use(journal, start_process) -> None:
    other = start_process()
    begin(journal, "a", owner=other)

    with pytest.raises(PreflightError, match=f'process {other.pid}, works in "/results/x"') as found:
        refuse_unrestored(journal)
    assert "would mix" in found.value.detail
    assert found.value.hint.startswith("Wait until it ends")


def test_own_changes_are_no_hindrance(journal) -> None:
    own = identify(os.getpid())
    begin(journal, "a", owner=own)

    refuse_unrestored(journal, own=own)
    with pytest.raises(PreflightError):
        refuse_unrestored(journal)


def test_other_hosts_can_be_left_out(journal) -> None:
    begin(journal, "a", host="ssh://db1")

    refuse_unrestored(journal, host="local")
    with pytest.raises(PreflightError):
        refuse_unrestored(journal, host="ssh://db1")


def test_all_that_changes_nothing_but_a_server_is_known_to_do_so() -> None:
    assert {knob.name for knob in restoring_knobs({})} - {knob.name for knob in HOST_KNOBS} == {*OF_SERVERS, DUMP}


@pytest.mark.parametrize("knob", sorted(OF_SERVERS))
def test_what_another_experiment_does_on_an_existing_server_is_no_hindrance_for_one_apart(
    journal, start_process, knob
) -> None:
    other = begin(journal, "a", owner=start_process(), knob=knob)

    refuse_unrestored(journal, is_apart=True)
    if knob not in (OWN_DATABASE, SERVER_COPY):
        with pytest.raises(PreflightError, match="in use by another experiment"):
            refuse_unrestored(journal)

    journal.end(other, Undone(outcome=Outcome.RESTORED), t=1.0)
    begin(journal, "b", knob=knob)
    with pytest.raises(PreflightError, match="has not been put back"):
        refuse_unrestored(journal, is_apart=True)
    begin(journal, "c", owner=start_process())
    with pytest.raises(PreflightError, match="in use by another experiment"):
        refuse_unrestored(journal, is_apart=True)


@pytest.mark.parametrize("change", [{"pid": 2**22 + 1}, {"start_ticks": 1}, {"boot_id": "an earlier boot"}])
def test_a_process_that_only_looks_like_the_owner_is_not_it(journal, change) -> None:
    own = identify(os.getpid())
    assert own is not None
    begin(journal, "a", owner=replace(own, **change))

    assert len(find_unrestored(journal).left) == 1


# -- undoing -----------------------------------------------------------------------------------------------------


def test_what_was_left_is_undone_newest_first(place, journal, runner) -> None:
    for name in ("a", "b"):
        place.set(name, "1")
        begin(journal, f"{name}.1", path=str(place.directory / f"{name}.1"))

    assert runner.run(place.undo_open(journal)) == [("b.1", Outcome.RESTORED), ("a.1", Outcome.RESTORED)]
    assert place.values() == "010100"
    assert runner.run(place.undo_open(journal)) == []


@pytest.mark.parametrize(
    "damage",
    [
        "old = '{'",
        "old = '[' || substr(hex(zeroblob(50000)), 1, 99999)",
        "new = '[1]'",
        "got = '{\"a\": 1}'",
        "old = x'ff00'",
        "knob = x'07'",
        "name = x'80'",
        "owner_pid = 'x'",
        "t = 'now'",
        "outcome = 'perhaps'",
    ],
)
def test_a_damaged_entry_keeps_its_bytes_and_hinders_no_other(place, journal, runner, damage) -> None:
    for name in ("a", "b"):
        place.set(name, "1")
        begin(journal, f"{name}.1", path=str(place.directory / f"{name}.1"))
    column = damage.partition(" ")[0]
    with journal.db as db:
        # As a disk damages it, which knows of no types.
        (schema,) = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'entry'").fetchone()
        db.execute("ALTER TABLE entry RENAME TO strict_entry")
        db.execute(schema.replace(") STRICT", ")"))
        db.execute("INSERT INTO entry SELECT * FROM strict_entry")
        db.execute("DROP TABLE strict_entry")
        db.execute(f"UPDATE entry SET {damage} WHERE id = 2")
    before = journal.db.execute(f"SELECT {column} FROM entry WHERE id = 2").fetchone()[0]

    with pytest.raises(RestoreError) as caught:
        runner.run(place.undo_open(journal))

    assert f"is damaged: {column} = " in caught.value.detail
    assert 'pgtrial restore --forget 2"' in caught.value.hint
    assert place.values() == "011100"  # the other is as it was
    if column != "outcome":
        assert journal.db.execute(f"SELECT {column} FROM entry WHERE id = 2").fetchone()[0] == before
    with pytest.raises(PreflightError):
        refuse_unrestored(journal)
    (forgotten,) = forget(journal, [2])
    assert forgotten.entry.id == 2
    refuse_unrestored(journal)


def test_what_is_in_use_is_left_alone(place, journal, runner, start_process) -> None:
    place.set("a", "1")
    begin(journal, "a.1", path=str(place.directory / "a.1"), owner=start_process())

    assert runner.run(place.undo_open(journal)) == []
    assert place.values() == "110000"
    assert outcomes(journal) == {"a.1": None}


def test_an_unknown_knob_fails_and_the_rest_is_undone(place, journal, runner) -> None:
    place.set("a", "1")
    begin(journal, "a.1", path=str(place.directory / "a.1"))
    begin(journal, "clock", knob="clock_source")

    with pytest.raises(RestoreError, match=r"^clock could not be put back to 0") as found:
        runner.run(place.undo_open(journal))

    assert 'does not know the knob "clock_source"' in found.value.detail
    assert outcomes(journal) == {"a.1": Outcome.RESTORED, "clock": Outcome.FAILED}


def test_a_host_that_cannot_be_reached_fails_once_and_the_others_are_undone(place, journal, runner) -> None:
    place.set("a", "1")
    begin(journal, "a.1", path=str(place.directory / "a.1"))
    begin(journal, "b", host="ssh://db1")
    begin(journal, "c", host="ssh://db1")
    asked: list[str] = []

    @contextlib.asynccontextmanager
    async def host_of(name: str) -> AsyncIterator[Host]:
        asked.append(name)
        if name == "ssh://db1":
            raise ConnectError("no connection to ssh://db1", detail="No route to host.")
        yield place.host

    with pytest.raises(RestoreError, match="2 changes of host settings") as found:
        runner.run(undo_open(journal, knobs=place.knobs, host_of=host_of, tell=lambda *_: None))

    assert asked == ["ssh://db1", "local"]
    assert "c from 0 to 1 on ssh://db1: No connection to ssh://db1. No route to host." in found.value.detail
    assert outcomes(journal) == {"a.1": Outcome.RESTORED, "b": Outcome.FAILED, "c": Outcome.FAILED}


def test_what_was_changed_elsewhere_is_never_written_here(place, journal, runner) -> None:
    place.set("a", "1")
    begin(journal, "a.1", path=str(place.directory / "a.1"), host="ssh://db1")

    with pytest.raises(RestoreError, match=r"a\.1 could not be put back"):
        runner.run(place.undo_open(journal))

    assert place.values() == "110000"


def test_an_undo_that_is_interrupted_is_finished_and_the_next_is_not_begun(place, journal, runner, monkeypatch) -> None:
    for name in ("a", "b"):
        place.set(name, "1")
        begin(journal, f"{name}.1", path=str(place.directory / f"{name}.1"))
    begun, may_end, knob = asyncio.Event(), asyncio.Event(), type(place.knobs[0])
    at_once = knob.undo

    async def undo(*arguments: object) -> Undone:
        begun.set()
        await may_end.wait()
        return await at_once(*arguments)

    async def interrupt() -> None:
        undoing = asyncio.ensure_future(place.undo_open(journal))
        await begun.wait()
        undoing.cancel()
        await asyncio.sleep(0)  # it takes effect
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await undoing

    monkeypatch.setattr(knob, "undo", undo)
    runner.run(interrupt())

    assert place.values() == "110100"
    assert outcomes(journal) == {"a.1": None, "b.1": Outcome.RESTORED}


def test_a_journal_that_cannot_be_written_is_told_when_all_is_undone(place, journal, runner, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreError("disk full")

    for name in ("a", "b"):
        place.set(name, "1")
        begin(journal, f"{name}.1", path=str(place.directory / f"{name}.1"))
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "end", fail)
        with pytest.raises(StoreError, match="disk full"):
            runner.run(place.undo_open(journal))
    assert place.values() == "010100"

    assert [outcome for _, outcome in runner.run(place.undo_open(journal))] == [Outcome.ALREADY] * 2


def test_two_restores_do_not_mix(place, journal, runner) -> None:
    with journal.restoring(), pytest.raises(StoreError, match='another "pgtrial restore"'):
        runner.run(place.undo_open(journal))


# -- taking off the list -----------------------------------------------------------------------------------------


def test_what_cannot_be_undone_is_taken_off_the_list(journal) -> None:
    first, second, third = (begin(journal, name) for name in ("a", "b", "c"))

    assert [record.entry for record in forget(journal, [first.id, third.id])] == [first, third]

    assert [record.entry for record in journal.open_entries()] == [second]
    assert outcomes(journal) == {"a": Outcome.CHANGED, "b": None, "c": Outcome.CHANGED}


def test_what_is_not_on_the_list_or_in_use_is_not_taken_off(journal, start_process) -> None:
    left = begin(journal, "a")
    in_use = begin(journal, "b", owner=start_process())

    for number in (99, in_use.id):
        with pytest.raises(PreflightError, match=f"change {number} is not on the list") as found:
            forget(journal, [left.id, number])
        assert found.value.detail == f"Changes on the list: {left.id}."
    assert len(journal.open_entries()) == 2
