import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgtrial.errors import SettingError
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.kernel_values import read_choices, read_chosen
from pgtrial.knobs.transparent_huge_pages import TransparentHugePages
from pgtrial.model.change import Outcome
from support.killing import KILLS, MOMENTS, run_killed

OPS = Operations()
TOP = "/sys/kernel/mm/transparent_hugepage"
ENABLED, DEFRAG, SHMEM = f"{TOP}/enabled", f"{TOP}/defrag", f"{TOP}/shmem_enabled"
RESERVE = "/proc/sys/vm/min_free_kbytes"
CHOICES = {
    ENABLED: "always [madvise] never",
    DEFRAG: "always defer defer+madvise [madvise] never",
    SHMEM: "always within_size advise [never] deny force",
}
needs_rights = pytest.mark.skipif(
    not (OPS.exists(ENABLED) and OPS.is_writable(ENABLED)),
    reason="transparent huge pages: not in this kernel, or not to be changed without root or in a container",
)


NAMES = {"enabled": ENABLED, "defrag": DEFRAG, "shmem": SHMEM}
CHOSEN = st.fixed_dictionaries(
    {},
    optional={
        name: st.sampled_from(CHOICES[path].replace("[", "").replace("]", "").split()) for name, path in NAMES.items()
    },
)


def add_choices(tree):
    """Files of which a choice changes the reserve, as the kernel does it."""

    def choose(path: str):
        def write(text: str) -> None:
            words = [word.strip("[]") for word in tree.read(path).split()]
            tree.add({path: " ".join(f"[{word}]" if word == text else word for word in words) + "\n"})
            if path != DEFRAG:
                used = [read_chosen(tree, each) not in ("never", "deny") for each in (ENABLED, SHMEM)]
                tree.add({RESERVE: "67584\n" if any(used) else "19832\n"})

        return write

    tree.add({**{path: f"{text}\n" for path, text in CHOICES.items()}, RESERVE: "67584\n"})
    tree.on_write |= {path: choose(path) for path in CHOICES}
    return tree


@pytest.fixture
def host(tree):
    return add_choices(tree)


@pytest.fixture
def table(host, bench):
    return bench(TransparentHugePages(), host)


def test_change_holds_the_choice_and_the_reserve_that_goes_with_it(table):
    (change,) = table.plan({"enabled": "never"})

    assert change.name == "transparent_hugepage enabled"
    assert (change.old_text, change.new_text) == ("madvise", "never")
    assert (change.old, change.new) == ({ENABLED: "madvise", RESERVE: "67584"}, {ENABLED: "never"})


def test_defrag_has_nothing_to_do_with_the_reserve(table):
    (change,) = table.plan({"defrag": "never"})

    assert change.old == {DEFRAG: "madvise"}


def test_all_are_one_change_put_back_together(table, host):
    (entry,) = table.apply({"enabled": "never", "defrag": "defer", "shmem": "always"})

    assert entry.change.name == "transparent_hugepage enabled, defrag, shmem"
    assert (entry.change.old_text, entry.change.new_text) == ("madvise, madvise, never", "never, defer, always")
    assert [read_chosen(host, path) for path in CHOICES] == ["never", "defer", "always"]
    assert table.undo().outcome is Outcome.RESTORED
    assert [host.read(path).strip() for path in CHOICES] == list(CHOICES.values())


def test_reserve_that_the_kernel_does_not_put_back_itself_is_put_back(table, host):
    (entry,) = table.apply({"enabled": "never"})
    host.add({RESERVE: "67584\n"})
    entry = replace(entry, change=replace(entry.change, old={ENABLED: "madvise", RESERVE: "50000"}))

    assert table.undo(replace(entry, got={ENABLED: "never", RESERVE: "67584"})).outcome is Outcome.RESTORED
    assert host.read(RESERVE).strip() == "50000"


def test_what_is_so_already_is_no_change(table):
    assert table.plan({"enabled": "madvise", "shmem": "never"}) == []


def test_choice_that_this_kernel_does_not_know_lists_those_it_does(table, host):
    host.add({DEFRAG: "always [madvise] never\n"})

    with pytest.raises(SettingError, match='does not know "defer" for transparent_hugepage defrag') as caught:
        table.plan({"defrag": "defer"})

    assert caught.value.hint.endswith("It knows: always, madvise, never.")


def test_kernel_without_one_of_them(table, host):
    host.at(SHMEM).unlink()

    with pytest.raises(SettingError, match='does not know "advise" for transparent_hugepage shmem'):
        table.plan({"shmem": "advise"})


def test_kernel_without_transparent_huge_pages(tree, bench):
    with pytest.raises(SettingError, match="the kernel has no transparent huge pages") as caught:
        bench(TransparentHugePages(), tree).plan({"enabled": "never"})

    assert caught.value.detail == f'There is no directory "{TOP}".'


def test_nobody_but_root_is_told_so(table, host):
    host.uid = 1000

    with pytest.raises(SettingError, match="setting transparent_hugepage enabled needs root"):
        table.plan({"enabled": "never"})


@needs_rights
@pytest.mark.parametrize("name", NAMES)
def test_real_choice_is_set_and_put_back(bench, kept, name: str):
    path = NAMES[name]
    kept(path, brackets=True)
    kept(RESERVE)
    table = bench(TransparentHugePages(), OPS)
    before = OPS.read(path), OPS.read(RESERVE)
    new = next(word for word in reversed(read_choices(OPS, path)) if word != read_chosen(OPS, path))

    (entry,) = table.apply({name: new})
    assert read_chosen(OPS, path) == new
    assert asyncio.run(TransparentHugePages().still_applied(table.host, entry)) == ""

    assert table.undo().outcome is Outcome.RESTORED
    assert (OPS.read(path), OPS.read(RESERVE)) == before


@needs_rights
def test_real_change_in_every_state_of_undoing(bench, kept):
    kept(ENABLED, brackets=True)
    kept(RESERVE)
    knob, table = TransparentHugePages(), bench(TransparentHugePages(), OPS)
    before = read_chosen(OPS, ENABLED)
    new, other = [word for word in ("always", "madvise", "never") if word != before]
    (change,) = table.plan({"enabled": new})
    unconfirmed = table.begin(change)

    assert table.undo(unconfirmed).outcome is Outcome.ALREADY
    confirmed = replace(unconfirmed, got=asyncio.run(knob.apply(table.context, change)))
    assert table.undo(replace(confirmed, boot_id="another boot")).outcome is Outcome.REBOOTED
    assert read_chosen(OPS, ENABLED) == new
    assert table.undo(unconfirmed).outcome is Outcome.RESTORED

    asyncio.run(knob.apply(table.context, change))
    OPS.write(ENABLED, f"{other}\n")
    assert table.undo(confirmed).outcome is Outcome.CHANGED
    assert read_chosen(OPS, ENABLED) == other


@settings(max_examples=100)
@given(before=CHOSEN, wanted=CHOSEN, applying=MOMENTS, undoing=KILLS)
def test_choices_and_reserve_are_as_before_wherever_pgtrial_was_killed(
    *, make_tree, bench, before, wanted, applying, undoing
):
    tree = add_choices(make_tree())
    bench(TransparentHugePages(), tree).apply(before)
    old = {path: tree.read(path) for path in (*CHOICES, RESERVE)}

    run_killed(bench(TransparentHugePages(), tree), wanted, applying, undoing)

    assert {path: tree.read(path) for path in (*CHOICES, RESERVE)} == old
