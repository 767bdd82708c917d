import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pgtrial.engine.events import HostChanged, HostRestored
from pgtrial.errors import PreflightError, RestoreError, SettingError, StoreError
from pgtrial.hosts.base import Host
from pgtrial.hosts.processes import ProcessId
from pgtrial.knobs.base import HostKnob, KnobContext, Note
from pgtrial.knobs.kernel_values import undo_values
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.store.journal import Journal

DEAD = ProcessId(pid=1, start_ticks=0, boot_id="an earlier boot")


def names(entries: Sequence[JournalEntry]) -> list[str]:
    return [entry.change.name for entry in entries]


def outcomes(journal: Journal) -> dict[str, Outcome | None]:
    return {record.entry.change.name: record.outcome for record in reversed(journal.history(100))}


# -- making and undoing ------------------------------------------------------------------------------------------


def test_changes_are_made_in_the_order_of_the_knobs_and_undone_in_reverse(place, journal, runner) -> None:
    told: list[object] = []
    changes = place.changes(journal, tell=told.append)

    made = runner.run(changes.make(place.context, place.wanted, run=7))

    assert place.values() == "111111"
    assert names(made) == ["a", "b", "c"]
    assert [record.entry for record in journal.open_entries()] == list(reversed(made))
    assert {(entry.run, entry.host, entry.boot_id, entry.folder) for entry in made} == {
        (7, "local", "boot-1", str(place.directory))
    }
    assert made[0].got == made[0].change.new

    undone = runner.run(changes.undo(made))

    assert place.values() == "000000"
    assert [(entry.change.name, each.outcome) for entry, each in undone] == [
        (name, Outcome.RESTORED) for name in ("c", "b", "a")
    ]
    assert journal.open_entries() == ()
    assert told == [HostChanged(entry=entry) for entry in made] + [
        HostRestored(entry=entry, undone=each) for entry, each in undone
    ]


def test_some_can_be_undone_and_the_rest_later_and_nothing_twice(place, journal, runner) -> None:
    changes = place.changes(journal)
    kept = runner.run(changes.make(place.context, {"first": {"a": "1"}}, run=None))
    made = runner.run(changes.make(place.context, {"first": {"b": "2"}, "second": {"c": "2"}}, run=1))

    assert names([entry for entry, _ in runner.run(changes.undo(made))]) == ["c", "b"]
    assert place.values() == "110000"
    assert runner.run(changes.undo(made)) == ()
    assert names([entry for entry, _ in runner.run(changes.undo())]) == ["a"]
    assert place.values() == "000000"
    assert runner.run(changes.undo(kept)) == ()


def test_a_value_that_is_changed_twice_comes_back(place, journal, runner) -> None:
    changes = place.changes(journal)
    runner.run(changes.make(place.context, {"first": {"a": "1"}}, run=None))
    runner.run(changes.make(place.context, {"second": {"a": "2"}}, run=1))

    runner.run(changes.undo())

    assert place.values() == "000000"


def test_what_a_later_change_went_on_from_holds_by_the_later_one(place, journal, runner) -> None:
    class Exact(type(place.knobs[0])):
        async def still_applied(self, host: Host, entry: JournalEntry) -> str:
            now = {path: host.ops.read(path).strip() for path in entry.change.new}
            return "" if now == entry.got else f"{entry.change.name} is {now[next(iter(now))]}."

    changes = place.changes(journal, knobs=(Exact("first"),))
    first = runner.run(changes.make(place.context, {"first": {"a": "1"}}, run=1))
    second = runner.run(changes.make(place.context, {"first": {"a": "2"}}, run=2))

    assert runner.run(changes.find_lost(first + second)) == ""
    (place.directory / "a.1").write_text("3\n")
    assert runner.run(changes.find_lost(first)) == ""
    assert runner.run(changes.find_lost(second)) == "a is 3."
    (place.directory / "a.1").write_text("2\n")
    runner.run(changes.undo(second))
    (place.directory / "a.1").write_text("3\n")
    assert runner.run(changes.find_lost(first)) == "a is 3."


def test_where_nothing_is_wanted_nothing_is_done(place, journal, runner) -> None:
    wanted = {"first": {}, "sql": {"apply": "x"}}

    assert runner.run(place.changes(journal).make(place.context, wanted, run=1)) == ()
    assert journal.history(1) == ()


# -- what goes wrong in making -----------------------------------------------------------------------------------


def test_an_error_while_planning_undoes_what_was_made(place, journal, runner) -> None:
    wanted = {"first": {"a": "1"}, "second": {"missing": "1"}}

    with pytest.raises(SettingError, match='no value "missing"'):
        runner.run(place.changes(journal).make(place.context, wanted, run=1))

    assert place.values() == "000000"
    assert outcomes(journal) == {"a": Outcome.RESTORED}


@pytest.mark.parametrize("error", [PermissionError(1, "not permitted"), SettingError("it is 2"), GeneratorExit()])
def test_an_error_while_applying_undoes_this_call_and_no_other(place, journal, runner, refuse, error) -> None:
    changes = place.changes(journal)
    runner.run(changes.make(place.context, {"first": {"a": "1"}}, run=None))
    refuse(error, "c.2", times=1)

    with pytest.raises(type(error)):
        runner.run(changes.make(place.context, {"first": {"b": "1"}, "second": {"c": "1"}}, run=1))

    assert place.values() == "110000"
    assert outcomes(journal) == {"a": None, "b": Outcome.RESTORED, "c": Outcome.RESTORED}


def test_when_undoing_fails_as_well_that_is_what_is_told(place, journal, runner, refuse, monkeypatch) -> None:
    async def fail(self: HostKnob, host: Host, entry: JournalEntry) -> Undone:
        return Undone(outcome=Outcome.FAILED, text="The device is busy.")

    monkeypatch.setattr(type(place.knobs[0]), "undo", fail)
    refuse(PermissionError(1, "Operation not permitted"), "b.2")

    with pytest.raises(RestoreError, match="2 changes of host settings could not be put back") as found:
        runner.run(place.changes(journal).make(place.context, place.wanted, run=1))

    assert found.value.detail == "b from 0 to 1: The device is busy.\na from 0 to 1: The device is busy."
    assert isinstance(found.value.__context__, PermissionError)
    assert outcomes(journal) == {"a": Outcome.FAILED, "b": Outcome.FAILED}


def test_a_change_that_cannot_be_written_down_is_not_made(place, journal, runner, monkeypatch) -> None:
    def begin(self: Journal, change: Change, **fields: Any) -> JournalEntry:
        if change.name == "c":
            raise StoreError("disk full")
        return begin_before(self, change, **fields)

    begin_before = Journal.begin
    monkeypatch.setattr(Journal, "begin", begin)

    with pytest.raises(StoreError, match="disk full"):
        runner.run(place.changes(journal).make(place.context, place.wanted, run=1))

    assert place.values() == "000000"
    assert outcomes(journal) == {"a": Outcome.RESTORED, "b": Outcome.RESTORED}


@pytest.mark.parametrize("methods", [("confirm",), ("confirm", "end")])
def test_a_change_that_cannot_be_confirmed_is_undone(place, journal, runner, methods, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreError("disk full")

    changes = place.changes(journal)
    with monkeypatch.context() as patch:
        for method in methods:
            patch.setattr(Journal, method, fail)
        with pytest.raises(StoreError, match="disk full"):
            runner.run(changes.make(place.context, place.wanted, run=1))
    assert place.values() == "000000"
    assert outcomes(journal) == {"a": None if "end" in methods else Outcome.RESTORED}

    runner.run(changes.undo())  # there is space again
    assert journal.open_entries() == ()


def test_an_observer_that_fails_leaves_nothing_changed(place, journal, runner) -> None:
    def fail(event: object) -> None:
        if isinstance(event, HostChanged):
            raise UnicodeError("a terminal from long ago")

    with pytest.raises(UnicodeError):
        runner.run(place.changes(journal, tell=fail).make(place.context, place.wanted, run=1))

    assert place.values() == "000000"


# -- what goes wrong in undoing ----------------------------------------------------------------------------------


def test_what_cannot_be_undone_keeps_nothing_else_from_being_undone(place, journal, runner, refuse) -> None:
    changes = place.changes(journal)
    made = runner.run(changes.make(place.context, place.wanted, run=1))
    refuse(OSError(30, "Read-only file system", "b.1"), "b.1")

    with pytest.raises(RestoreError) as found:
        runner.run(changes.undo(made))

    assert found.value.exit_code == 6
    assert found.value.message == "b could not be put back to 0"
    assert found.value.detail.startswith("b from 0 to 1: ")
    assert "Read-only file system" in found.value.detail
    assert '"pgtrial restore"' in found.value.hint
    assert place.values() == "001000"
    assert outcomes(journal) == {"a": Outcome.RESTORED, "b": Outcome.FAILED, "c": Outcome.RESTORED}


def test_what_failed_is_tried_again(place, journal, runner, refuse) -> None:
    changes = place.changes(journal)
    runner.run(changes.make(place.context, place.wanted, run=1))
    refuse(OSError(16, "Device or resource busy"), "b.1", times=1)
    with pytest.raises(RestoreError):
        runner.run(changes.undo())

    assert names([entry for entry, _ in runner.run(changes.undo())]) == ["b"]
    assert place.values() == "000000"
    assert journal.open_entries() == ()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SettingError("it is 2", detail="Asked for 1."), "It is 2. Asked for 1."),
        (OSError(5, "Input/output error", "/x"), '"/x": Input/output error.'),
        (ZeroDivisionError("division by zero"), "This is a bug in pgtrial's knob first: ZeroDivisionError: division"),
        (KeyError("token"), "This is a bug in pgtrial's knob first: KeyError: 'token'"),
    ],
)
def test_whatever_a_knob_raises_is_a_failure_of_its_own(place, runner, error, text, monkeypatch) -> None:
    async def fail(self: HostKnob, host: Host, entry: JournalEntry) -> Undone:
        if entry.change.name == "a":
            raise error
        return undo_values(host, entry)

    with Journal.open(write=True) as journal:
        changes = place.changes(journal)
        runner.run(changes.make(place.context, place.wanted, run=1))
        monkeypatch.setattr(type(place.knobs[0]), "undo", fail)

        with pytest.raises(RestoreError) as found:
            runner.run(changes.undo())

    assert found.value.detail.startswith(f"a from 0 to 1: {text}")
    assert place.values() == "110000"


def test_how_far_a_change_and_its_undoing_came_is_in_the_journal(place, journal, runner, monkeypatch) -> None:
    knob, seen = type(place.knobs[0]), []

    async def apply(self: HostKnob, context: KnobContext, change: Change) -> Mapping[str, str]:
        context.note({"applied": "half"})
        raise SettingError("the other half cannot be had")

    async def undo_in_steps(self: HostKnob, host: Host, entry: JournalEntry, note: Note) -> Undone:
        seen.append(entry.got)
        note({**(entry.got or {}), "undone": str(len(seen))})
        return Undone(outcome=Outcome.RESTORED if len(seen) == 3 else Outcome.FAILED)

    monkeypatch.setattr(knob, "apply", apply)
    monkeypatch.setattr(knob, "undo_in_steps", undo_in_steps)
    changes = place.changes(journal)
    for work in (changes.make(place.context, {"first": {"a": "1"}}, run=1), changes.undo()):
        with pytest.raises(RestoreError):
            runner.run(work)
    (record,) = journal.open_entries()
    assert record.entry.got == {"applied": "half", "undone": "2"}

    runner.run(changes.undo())

    assert seen == [{"applied": "half"}, {"applied": "half", "undone": "1"}, {"applied": "half", "undone": "2"}]
    assert journal.open_entries() == ()


def test_a_failure_is_told_even_if_nobody_can_be_told_of_the_rest(place, journal, runner, refuse) -> None:
    def fail(event: object) -> None:
        if isinstance(event, HostRestored):
            raise UnicodeError("a terminal from long ago")

    changes = place.changes(journal, tell=fail)
    runner.run(changes.make(place.context, place.wanted, run=1))
    refuse(OSError(30, "Read-only file system"), "b.1")

    with pytest.raises(RestoreError):
        runner.run(changes.undo())

    assert outcomes(journal) == {"a": Outcome.RESTORED, "b": Outcome.FAILED, "c": Outcome.RESTORED}


def test_what_somebody_else_has_changed_is_left_and_reported(place, journal, runner) -> None:
    changes = place.changes(journal)
    made = runner.run(changes.make(place.context, place.wanted, run=1))
    place.set("b", "7")

    undone = runner.run(changes.undo(made))

    assert place.values() == "007700"
    assert [(entry.change.name, each.outcome) for entry, each in undone] == [
        ("c", Outcome.RESTORED),
        ("b", Outcome.CHANGED),
        ("a", Outcome.RESTORED),
    ]
    assert "left as it is" in undone[1][1].text
    assert journal.open_entries() == ()


def test_after_a_reboot_what_is_there_is_left(place, journal, runner) -> None:
    changes = place.changes(journal)
    runner.run(changes.make(place.context, place.wanted, run=1))
    (place.directory / "boot").write_text("boot-2")
    place.set("a", "0")

    runner.run(changes.undo())

    assert outcomes(journal) == {"a": Outcome.ALREADY, "b": Outcome.REBOOTED, "c": Outcome.REBOOTED}


# -- cancellation ------------------------------------------------------------------------------------------------


def slow(knob: HostKnob, method: str, name: str, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let a method of such knobs take its time with a change; the event is set once it has begun."""
    before, begun = getattr(type(knob), method), asyncio.Event()

    async def wait(self: HostKnob, where: Any, what: Any) -> Any:
        change = what.change if isinstance(what, JournalEntry) else what
        if change.name == name:
            begun.set()
            await asyncio.sleep(0.05)
        return await before(self, where, what)

    monkeypatch.setattr(type(knob), method, wait)
    return begun


async def cancel_after(begun: asyncio.Event, work: Any, *, times: int = 1) -> None:
    task = asyncio.ensure_future(work)
    await begun.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await task


def test_a_cancellation_while_applying_undoes_everything(place, journal, runner, monkeypatch) -> None:
    begun = slow(place.knobs[0], "apply", "b", monkeypatch)

    with pytest.raises(asyncio.CancelledError):
        runner.run(cancel_after(begun, place.changes(journal).make(place.context, place.wanted, run=1)))

    assert place.values() == "000000"
    assert outcomes(journal) == {"a": Outcome.RESTORED, "b": Outcome.ALREADY}


def test_undoing_goes_on_to_its_end_however_often_it_is_cancelled(place, journal, runner, monkeypatch) -> None:
    begun = slow(place.knobs[0], "undo", "b", monkeypatch)
    changes = place.changes(journal)
    runner.run(changes.make(place.context, place.wanted, run=1))

    with pytest.raises(asyncio.CancelledError):
        runner.run(cancel_after(begun, changes.undo(), times=3))

    assert place.values() == "000000"
    assert journal.open_entries() == ()


def test_a_failure_counts_more_than_a_cancellation(place, journal, runner, refuse, monkeypatch) -> None:
    begun = slow(place.knobs[0], "undo", "b", monkeypatch)
    changes = place.changes(journal)
    runner.run(changes.make(place.context, place.wanted, run=1))
    refuse(OSError(30, "Read-only file system"), "a.1")

    with pytest.raises(RestoreError):
        runner.run(cancel_after(begun, changes.undo()))

    assert outcomes(journal) == {"a": Outcome.FAILED, "b": Outcome.RESTORED, "c": Outcome.RESTORED}


# -- two at once -------------------------------------------------------------------------------------------------


def test_a_second_experiment_cannot_change_the_same_host(place, journal, runner, start_process) -> None:
    other = place.changes(journal, owner=start_process())
    runner.run(other.make(place.context, {"first": {"a": "1"}}, run=1))

    with pytest.raises(PreflightError, match=f"in use by another experiment: pgtrial, process {other.owner.pid}"):
        runner.run(place.changes(journal).make(place.context, {"first": {"b": "1"}}, run=1))

    assert place.values() == "110000"
    assert outcomes(journal) == {"a": None}

    runner.run(other.undo())
    runner.run(place.changes(journal).make(place.context, {"first": {"b": "1"}}, run=1))
    assert place.values() == "001100"


def test_an_experiment_that_begins_at_the_same_moment_gives_way(place, journal, runner, start_process, monkeypatch):
    knob, other = place.knobs[0], place.changes(journal, owner=start_process())
    plan = type(knob).plan

    async def plan_slowly(self: HostKnob, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        if "b" in wanted:
            await other.make(place.context, {"first": {"a": "1"}}, run=1)
        return await plan(self, context, wanted)

    monkeypatch.setattr(type(knob), "plan", plan_slowly)

    with pytest.raises(PreflightError, match="in use by another experiment"):
        runner.run(place.changes(journal).make(place.context, {"first": {"b": "1"}}, run=1))

    assert place.values() == "110000"
    assert outcomes(journal) == {"a": None, "b": Outcome.ALREADY}


def test_a_database_of_ones_own_keeps_nobody_away_and_is_no_leave_to_mix_changes(
    place, journal, runner, start_process, monkeypatch
) -> None:
    other = place.changes(journal, owner=start_process())
    monkeypatch.setattr("pgtrial.engine.restore.OWN_DATABASE", "first")
    runner.run(other.make(place.context, {"first": {"a": "1"}}, run=1))

    own = place.changes(journal)
    runner.run(own.make(place.context, {"second": {"c": "1"}}, run=1))
    with pytest.raises(PreflightError, match="in use by another experiment"):
        runner.run(other.make(place.context, {"second": {"c": "2"}}, run=1))
    runner.run(own.undo())
    runner.run(other.make(place.context, {"second": {"c": "2"}}, run=1))


def test_a_host_that_was_not_restored_is_not_changed_further(place, journal, runner) -> None:
    runner.run(place.changes(journal, owner=DEAD).make(place.context, {"first": {"a": "1"}}, run=1))

    with pytest.raises(PreflightError, match="has not been put back") as found:
        runner.run(place.changes(journal).make(place.context, {"first": {"b": "1"}}, run=1))

    assert found.value.detail == f'a from 0 to 1, for "{place.directory}".'
    assert place.values() == "110000"
