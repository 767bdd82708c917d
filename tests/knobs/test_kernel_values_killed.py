"""Whatever moment pgtrial is killed at, undoing leaves what was there before: properties of whole knobs."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pgtrial.hosts.local import LocalHost
from pgtrial.knobs.block_device import BlockDevice
from pgtrial.knobs.kernel_values import apply_values, read_chosen, undo_values
from pgtrial.knobs.sysctl import Sysctl
from pgtrial.model.change import Change, JournalEntry, Outcome


class Killed(BaseException):
    """In place of SIGKILL: nothing may catch it."""


def kill_at(tree, moment: int) -> None:
    """End the process at a moment: 2 n before the write number n takes effect, 2 n + 1 after it."""
    left = [moment]
    original = type(tree).write

    def write(path: str, text: str) -> None:
        if left[0] == 0:
            raise Killed
        original(tree, path, text)
        if left[0] == 1:
            raise Killed
        left[0] -= 2

    tree.write = write


def live_on(tree) -> None:
    tree.__dict__.pop("write", None)


DIRTY = ("/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes")
QUEUE = "/sys/block/vda/queue"

pair_states = st.one_of(
    st.tuples(st.integers(0, 100), st.just(0)), st.tuples(st.just(0), st.integers(8192, 99999))
).map(lambda values: (str(values[0]), str(values[1])))
pair_wishes = st.one_of(
    st.builds(lambda value: {"vm.dirty_ratio": str(value)}, st.integers(0, 100)),
    st.builds(lambda value: {"vm.dirty_bytes": str(value)}, st.integers(8192, 99999)),
)
queue_wishes = st.fixed_dictionaries(
    {},
    optional={
        "scheduler": st.sampled_from(["none", "mq-deadline", "bfq"]),
        "nr_requests": st.integers(4, 1024).map(str),
        "wbt_lat_usec": st.integers(-1, 9000).map(str),
        "max_sectors_kb": st.integers(4, 4096).map(str),
        "read_ahead_kb": st.integers(0, 1024).map(lambda pages: str(4 * pages)),
    },
)
kills = st.lists(st.integers(0, 8), max_size=3)
moments = st.none() | st.integers(0, 8)


def run_killed(bench, tree, wanted: dict[str, str], applying: int | None, undoing: list[int]) -> None:
    """Apply until it is killed, undo until that is killed, again and again, and at last undo to the end."""
    if applying is not None:
        kill_at(tree, applying)
    with suppress(Killed):
        bench.apply(wanted)
    live_on(tree)
    for moment in undoing:
        kill_at(tree, moment)
        with suppress(Killed):
            bench.undo()
    live_on(tree)
    for entry in reversed(bench.entries):
        assert bench.undo(entry).outcome in (Outcome.RESTORED, Outcome.ALREADY)


@settings(max_examples=150)
@given(old=pair_states, wanted=pair_wishes, applying=moments, undoing=kills)
def test_pair_is_as_before_wherever_pgtrial_was_killed(
    *, make_tree: Callable, bench: Callable, add_pair: Callable, old, wanted, applying, undoing
):
    tree = make_tree()
    add_pair(tree, *DIRTY, values=old)

    run_killed(bench(Sysctl(), tree), tree, wanted, applying, undoing)

    assert tuple(tree.read(path).strip() for path in DIRTY) == old


@settings(max_examples=150)
@given(before=queue_wishes, wanted=queue_wishes, applying=moments, undoing=kills)
def test_queue_is_as_before_wherever_pgtrial_was_killed(
    *, make_tree: Callable, bench: Callable, add_disk: Callable, before, wanted, applying, undoing
):
    tree = make_tree()
    add_disk(tree, "vda")
    bench(BlockDevice(), tree).apply({"device": "vda", **before})
    attributes = ("scheduler", "nr_requests", "wbt_lat_usec", "max_sectors_kb", "read_ahead_kb")
    old = [read_chosen(tree, f"{QUEUE}/{attribute}") for attribute in attributes]

    run_killed(bench(BlockDevice(), tree), tree, {"device": "vda", **wanted}, applying, undoing)

    assert [read_chosen(tree, f"{QUEUE}/{attribute}") for attribute in attributes] == old


@settings(max_examples=100)
@given(
    old=st.lists(st.integers(0, 3).map(str), min_size=1, max_size=4),
    data=st.data(),
    applying=moments,
    undoing=kills,
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
