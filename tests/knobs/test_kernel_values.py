import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgtrial.errors import SettingError
from pgtrial.hosts.local import LocalHost
from pgtrial.knobs.kernel_values import (
    apply_values,
    find_drift,
    read_choices,
    read_chosen,
    read_setting,
    require_writable,
    same_value,
    undo_values,
)
from pgtrial.knobs.sysctl import Sysctl
from pgtrial.model.change import Change, JournalEntry, Outcome
from support.killing import KILLS, MOMENTS, Killed, kill_at, live_on

FILE, BESIDE = "/sys/one", "/sys/two"


def change_of(old: dict[str, str], new: dict[str, str]) -> Change:
    texts = {"old_text": " ".join(old.values()), "new_text": " ".join(new.values())}
    return Change(knob="test", name="the value", old=old, new=new, **texts)


def entry_of(change: Change, got: dict[str, str] | None) -> JournalEntry:
    return JournalEntry(
        id=1, t=0.0, host="local", boot_id="this boot", folder="/results", run=1, change=change, got=got
    )


ONE = change_of({FILE: "60"}, {FILE: "1"})


@pytest.mark.parametrize(
    ("now", "got", "outcome", "after"),
    [
        pytest.param("60", None, Outcome.ALREADY, "60", id="killed before the change"),
        pytest.param("1", None, Outcome.RESTORED, "60", id="killed after the change"),
        pytest.param("7", None, Outcome.RESTORED, "60", id="killed, and the kernel made something else of it"),
        pytest.param("1", {FILE: "1"}, Outcome.RESTORED, "60", id="as it was made"),
        pytest.param("60", {FILE: "1"}, Outcome.ALREADY, "60", id="put back by somebody else"),
        pytest.param("7", {FILE: "1"}, Outcome.CHANGED, "7", id="changed by somebody else"),
    ],
)
def test_undo_of_one_value(tree, now: str, got, outcome: Outcome, after: str):
    tree.add({FILE: f"{now}\n"})

    undone = undo_values(LocalHost(ops=tree), entry_of(ONE, got))

    assert undone.outcome is outcome
    assert tree.read(FILE).strip() == after


@pytest.mark.parametrize("got", [None, {FILE: "1"}])
@pytest.mark.parametrize(("now", "outcome"), [("60", Outcome.ALREADY), ("1", Outcome.REBOOTED)])
def test_undo_after_a_reboot_changes_nothing(tree, now: str, outcome: Outcome, got):
    tree.add({FILE: f"{now}\n"})
    tree.boot = "the next boot"

    undone = undo_values(LocalHost(ops=tree), entry_of(ONE, got))

    assert (undone.outcome, tree.read(FILE).strip()) == (outcome, now)
    assert undone.text == ("the value is 1 since the reboot." if outcome is Outcome.REBOOTED else "")


def test_change_by_somebody_else_is_told_with_all_values(tree):
    tree.add({FILE: "7\n"})

    undone = undo_values(LocalHost(ops=tree), entry_of(ONE, {FILE: "1"}))

    assert undone.text == f'the value was 60, and pgtrial made it 1; "{FILE}" is 7 now; left as it is.'


@pytest.mark.parametrize(("boot", "outcome"), [("this boot", Outcome.CHANGED), ("another", Outcome.REBOOTED)])
def test_undo_of_what_is_gone_is_not_tried_again(tree, boot: str, outcome: Outcome):
    tree.boot = boot

    undone = undo_values(LocalHost(ops=tree), entry_of(ONE, {FILE: "1"}))

    assert undone.outcome is outcome
    assert undone.text == f'the value is gone: there is no "{FILE}" any more.'


def test_what_is_left_of_a_change_of_which_a_part_is_gone_is_put_back(tree):
    tree.add({BESIDE: "1\n"})
    change = change_of({FILE: "60", BESIDE: "5"}, {FILE: "1", BESIDE: "1"})

    undone = undo_values(LocalHost(ops=tree), entry_of(change, {FILE: "1", BESIDE: "1"}))

    assert tree.read(BESIDE).strip() == "5"
    assert undone.outcome is Outcome.CHANGED
    assert undone.text == f'the value is gone: there is no "{FILE}" any more. The rest of it is as before.'


def test_undo_that_the_kernel_refuses_has_failed_with_its_reason(tree):
    tree.add({FILE: "1\n"})
    tree.closed.add(FILE)

    undone = undo_values(LocalHost(ops=tree), entry_of(ONE, {FILE: "1"}))

    assert undone.outcome is Outcome.FAILED
    assert undone.text == (
        f'The kernel refuses "60" for "{FILE}": Permission denied. the value is 1, not 60 as before.'
    )


def test_undo_of_several_goes_on_after_one_that_fails(tree):
    tree.add({FILE: "1\n", BESIDE: "2\n"})
    tree.closed.add(FILE)
    change = change_of({FILE: "60", BESIDE: "70"}, {FILE: "1", BESIDE: "2"})

    undone = undo_values(LocalHost(ops=tree), entry_of(change, {FILE: "1", BESIDE: "2"}))

    assert undone.outcome is Outcome.FAILED
    assert tree.read(BESIDE) == "70\n"


def test_undo_that_does_not_hold_has_failed(tree):
    tree.add({FILE: "1\n"})
    tree.on_write[FILE] = lambda _text: None

    undone = undo_values(LocalHost(ops=tree), entry_of(ONE, {FILE: "1"}))

    assert (undone.outcome, undone.text) == (Outcome.FAILED, "the value is 1, not 60 as before.")


def test_undo_of_what_cannot_be_read_has_failed(tree):
    def refuse(_ops, _path: str) -> str:
        raise OSError(errno.EIO, "Input/output error")

    undone = undo_values(LocalHost(ops=tree), entry_of(ONE, None), read=refuse)

    assert (undone.outcome, undone.text) == (Outcome.FAILED, f'"{FILE}" cannot be read: Input/output error.')


def test_file_that_lists_choices_is_undone_by_the_one_in_force(tree):
    tree.add({FILE: "always madvise [never]\n"})
    tree.on_write[FILE] = lambda text: tree.add({FILE: f"always [{text}] never\n"})
    change = change_of({FILE: "madvise"}, {FILE: "never"})

    undone = undo_values(LocalHost(ops=tree), entry_of(change, {FILE: "never"}), read=read_chosen)

    assert (undone.outcome, tree.read(FILE)) == (Outcome.RESTORED, "always [madvise] never\n")


def test_choice_in_force_and_all_choices(tree):
    tree.add({FILE: "none [mq-deadline] kyber\n", BESIDE: "128\n"})

    assert read_chosen(tree, FILE) == "mq-deadline"
    assert read_choices(tree, FILE) == ("none", "mq-deadline", "kyber")
    assert read_chosen(tree, BESIDE) == "128"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("32000 60999", "32000\t60999", True),
        ("0x10", "16", True),
        ("-1", "-1", True),
        ("1", "1 1", False),
        ("010", "10", False),
        ("bbr", "cubic", False),
        ("", "", True),
    ],
)
def test_values_are_the_same_to_the_kernel(one: str, other: str, same: bool):
    assert same_value(one, other) is same


def test_applying_gives_what_is_there_afterwards(tree):
    tree.add({FILE: "60\n", BESIDE: "5\n"})
    tree.on_write[FILE] = lambda text: tree.add({FILE: f"{text}\n", BESIDE: "9\n"})

    got = apply_values(tree, change_of({FILE: "60", BESIDE: "5"}, {FILE: "1"}))

    assert got == {FILE: "1", BESIDE: "9"}


def test_applying_what_the_kernel_rounds_says_what_was_asked_and_got(tree):
    tree.add({FILE: "60\n"})
    tree.on_write[FILE] = lambda _text: tree.add({FILE: "4\n"})

    with pytest.raises(SettingError) as caught:
        apply_values(tree, ONE, hint=lambda path: f"Mind {path}.")

    assert caught.value.message == "the value: asked for 1, got 4"
    assert caught.value.detail == f'The kernel rounded or limited what was written to "{FILE}".'
    assert caught.value.hint == f"Mind {FILE}."


def test_applying_what_the_kernel_refuses_stops_there(tree):
    tree.add({FILE: "60\n", BESIDE: "5\n"})

    def refuse(_text: str) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    tree.on_write[FILE] = refuse

    with pytest.raises(SettingError, match="the value cannot be set to 1 2") as caught:
        apply_values(tree, change_of({FILE: "60", BESIDE: "5"}, {FILE: "1", BESIDE: "2"}))

    assert caught.value.detail == f'The kernel refuses "1" for "{FILE}": Invalid argument.'
    assert tree.read(BESIDE) == "5\n"


@pytest.mark.parametrize(
    ("uid", "message"), [(1000, "setting the value needs root"), (0, "the value cannot be changed here, not even")]
)
def test_want_of_rights_is_one_clear_error(tree, uid: int, message: str):
    tree.add({FILE: "60\n"})
    tree.closed.add(FILE)
    tree.uid = uid

    with pytest.raises(SettingError, match=message):
        apply_values(tree, ONE)
    with pytest.raises(SettingError, match=message):
        require_writable(tree, FILE, "the value")


def test_file_that_nobody_may_write_is_told_before_rights(tree):
    tree.add({FILE: "60\n"})
    tree.at(FILE).chmod(0o444)
    tree.uid = 1000

    with pytest.raises(SettingError, match="the value can only be read"):
        require_writable(tree, FILE, "the value")


def test_unreadable_file_is_an_error_with_the_reason(tree):
    def refuse(_ops, _path: str) -> str:
        raise OSError(errno.EINVAL, "Invalid argument")

    with pytest.raises(SettingError, match="the value cannot be read") as caught:
        read_setting(tree, FILE, "the value", read=refuse)

    assert caught.value.detail == f'"{FILE}": Invalid argument.'


@pytest.mark.parametrize(
    ("now", "told"), [("1", ""), ("7", f'"{FILE}" was made 1 and is 7 now.'), (None, f'"{FILE}" is gone.')]
)
def test_drift_since_the_change_is_told(tree, now: str | None, told: str):
    tree.add({} if now is None else {FILE: f"{now}\n"})

    assert find_drift(LocalHost(ops=tree), entry_of(ONE, {FILE: "1"})) == told


def test_undo_raises_nothing_of_its_own_for_a_knob(tree, bench: Callable):
    tree.add({"/proc/sys/vm/swappiness": "60\n", "/proc/self/cgroup": "0::/\n"})
    table = bench(Sysctl(), tree)
    (entry,) = table.apply({"vm.swappiness": "1"})
    tree.closed.add("/proc/sys/vm/swappiness")

    undone = asyncio.run(Sysctl().undo(table.host, entry))

    assert undone.outcome is Outcome.FAILED


def test_what_the_kernel_sets_along_by_itself_does_not_keep_the_value_from_coming_back(tree):
    """As vm.min_free_kbytes beside transparent huge pages, when memory comes or goes."""
    change = change_of({FILE: "madvise", BESIDE: "100"}, {FILE: "never"})
    tree.add({FILE: "never\n", BESIDE: "70\n"})

    undone = undo_values(LocalHost(ops=tree), entry_of(change, {FILE: "never", BESIDE: "50"}))

    assert undone.outcome is Outcome.RESTORED
    assert tree.read(FILE).strip() == "madvise"
    assert tree.read(BESIDE).strip() == "70"


@settings(max_examples=100)
@given(
    old=st.lists(st.integers(0, 3).map(str), min_size=1, max_size=4),
    data=st.data(),
    applying=MOMENTS,
    undoing=KILLS,
)
def test_independent_values_are_as_before_wherever_pgtrial_was_killed(
    make_tree: Callable, old, data, applying, undoing
):
    tree = make_tree()
    paths = [f"/sys/{number}" for number in range(len(old))]
    tree.add({path: f"{value}\n" for path, value in zip(paths, old, strict=True)})
    new = {path: data.draw(st.integers(0, 3).map(str)) for path in paths}
    change = Change(
        knob="test", name="values", old=dict(zip(paths, old, strict=True)), new=new, old_text="old", new_text="new"
    )
    entry = JournalEntry(
        id=1, t=0.0, host="local", boot_id=tree.boot, folder="/results", run=1, change=change, got=None
    )
    if applying is not None:
        kill_at(tree, applying)
    with suppress(Killed):
        entry = replace(entry, got=apply_values(tree, entry.change))
    for moment in undoing:
        kill_at(tree, moment)
        with suppress(Killed):
            undo_values(LocalHost(ops=tree), entry)
    live_on(tree)

    assert undo_values(LocalHost(ops=tree), entry).outcome in (Outcome.RESTORED, Outcome.ALREADY)
    assert [tree.read(path).strip() for path in paths] == old
