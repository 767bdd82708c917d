"""The limit of dirty pages after memory has been taken away: set anew by a value that changes and is set back."""

import asyncio

import pytest

from pgtrial.errors import SettingError
from pgtrial.hosts.local import LocalHost
from pgtrial.knobs.base import KnobContext
from pgtrial.knobs.dirty_limit import plan_limit
from pgtrial.knobs.memory_pressure import MemoryPressure
from pgtrial.model.change import JournalEntry, Outcome

RATIO, BYTES = "/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes"
KNOB = MemoryPressure()


@pytest.fixture
def written(tree):
    """What is written, in order; the kernel keeps it."""
    values: list[tuple[str, str]] = []

    def keep(path):
        def write(value: str) -> None:
            values.append((path, value))
            tree.add({path: f"{value}\n"})

        return write

    tree.on_write = {path: keep(path) for path in (RATIO, BYTES)}
    return values


def plan(tree):
    (change,) = plan_limit(tree, KNOB.name)
    return change


def apply(tree, change):
    return asyncio.run(KNOB.apply(KnobContext(host=LocalHost(ops=tree), token="t", directory="/tmp"), change))


def undo(tree, change, *, got):
    entry = JournalEntry(id=1, t=0.0, host="local", boot_id=tree.boot_id(), folder="f", run=1, change=change, got=got)
    return asyncio.run(KNOB.undo(LocalHost(ops=tree), entry)), entry


@pytest.mark.parametrize(
    ("ratio", "size", "expected"),
    [
        ("20", "0", [(RATIO, "21"), (RATIO, "20")]),
        ("100", "0", [(RATIO, "99"), (RATIO, "100")]),
        ("0", "8192000", [(BYTES, str(8192000 + 4096)), (BYTES, "8192000")]),
    ],
)
def test_the_value_that_is_in_effect_becomes_another_one_and_is_set_back(tree, written, ratio, size, expected):
    """The kernel sets its limit anew when the value changes, and not when the same is written."""
    tree.add({RATIO: f"{ratio}\n", BYTES: f"{size}\n"})

    change = plan(tree)
    got = apply(tree, change)

    assert written == expected
    assert got == change.new == change.old
    undone, entry = undo(tree, change, got=got)
    assert undone.outcome is Outcome.ALREADY
    assert asyncio.run(KNOB.still_applied(LocalHost(ops=tree), entry)) == ""
    assert written == expected


def test_it_comes_after_the_memory_that_is_taken(tree):
    tree.add(
        {
            RATIO: "20\n",
            BYTES: "0\n",
            "/proc/meminfo": "MemAvailable: 67108864 kB\n",
            "/proc/self/status": "CapEff:\t000001ffffffffff\n",
            "/proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "/proc/self/cgroup": "0::/\n",
            "/sys/fs/cgroup/cgroup.controllers": "cpu io memory\n",
        }
    )
    context = KnobContext(host=LocalHost(ops=tree), token="t", directory="/tmp")

    changes = asyncio.run(KNOB.plan(context, {"size": "64MB"}))

    assert [change.name for change in changes] == ["memory taken away", "limit of dirty pages"]


def test_who_was_killed_between_has_the_value_set_back(tree, written):
    tree.add({RATIO: "20\n", BYTES: "0\n"})
    change = plan(tree)
    tree.add({RATIO: "21\n"})

    undone, _ = undo(tree, change, got=None)

    assert undone.outcome is Outcome.RESTORED
    assert written == [(RATIO, "20")]


def test_an_arm_may_set_the_value_after_it(tree, written):
    tree.add({RATIO: "20\n", BYTES: "0\n"})
    change = plan(tree)
    got = apply(tree, change)
    tree.add({RATIO: "30\n"})
    entry = JournalEntry(id=1, t=0.0, host="local", boot_id=tree.boot_id(), folder="f", run=1, change=change, got=got)

    assert asyncio.run(KNOB.still_applied(LocalHost(ops=tree), entry)) == ""


def test_what_an_arm_or_somebody_else_has_set_since_is_left(tree, written):
    tree.add({RATIO: "20\n", BYTES: "0\n"})
    change = plan(tree)
    got = apply(tree, change)
    tree.add({RATIO: "5\n"})

    undone, _ = undo(tree, change, got=got)

    assert undone.outcome is Outcome.ALREADY
    assert tree.read(RATIO) == "5\n"


def test_a_kernel_that_does_not_set_it_back_is_an_error(tree):
    tree.add({RATIO: "20\n", BYTES: "0\n"})
    tree.on_write = {RATIO: lambda _value: tree.add({RATIO: "21\n"})}

    with pytest.raises(SettingError, match="limit of dirty pages: asked for 20, got 21"):
        apply(tree, plan(tree))


def test_a_kernel_that_refuses_it_is_an_error(tree):
    tree.add({RATIO: "20\n", BYTES: "0\n"})
    change = plan(tree)
    tree.closed = {RATIO}

    with pytest.raises(SettingError, match="limit of dirty pages cannot be changed here"):
        apply(tree, change)


def test_nothing_is_planned_where_it_cannot_be_written(tree):
    """As without root, who may lock memory if a limit allows it, and in most containers."""
    assert plan_limit(tree, KNOB.name) == ()
    tree.add({RATIO: "20\n", BYTES: "0\n"})
    tree.closed = {RATIO}
    assert plan_limit(tree, KNOB.name) == ()
