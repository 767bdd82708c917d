import asyncio
import mmap
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgtrial.engine.target.throwaway import start_server
from pgtrial.errors import SettingError
from pgtrial.hosts.base import Completed
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.base import KnobContext
from pgtrial.knobs.huge_pages import HugePages
from pgtrial.model.change import Change, JournalEntry, Outcome
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.throwaway import ThrowawayCluster

KNOB = HugePages()
OPS = Operations()
POOLS = "/sys/kernel/mm/hugepages"
SMALL, LARGE = f"{POOLS}/hugepages-2048kB", f"{POOLS}/hugepages-1048576kB"
PROGRAMS = Programs(directory=Path("/programs"), version="18.0", major=18, origin="test")
needs_pool = pytest.mark.skipif(
    not OPS.is_writable(f"{SMALL}/nr_hugepages"), reason="the pool of 2 MB pages cannot be changed here"
)
needs_large_pool = pytest.mark.skipif(
    not OPS.is_writable(f"{LARGE}/nr_hugepages"), reason="this processor has no 1 GB pages, or their pool is not ours"
)


@pytest.fixture
def most() -> list[int]:
    """How many huge pages the kernel of ``tree`` can make, and how many once memory has been compacted."""
    return [1_000_000, 0]


@pytest.fixture
def tree(tree, most: list[int]):
    """Pools with 10 pages of 2 MB, 6 of them in use, 1 of the others reserved, and 8 GB of memory."""
    set_pool(tree, nr=10, free=4, resv=1, surplus=0, nr_overcommit=0)
    tree.add(
        {
            "/proc/meminfo": "MemAvailable: 8388608 kB\n",
            "/proc/sys/vm/compact_memory": "",
            "/proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "/proc/self/cgroup": "0::/user/session\n",
            "/sys/fs/cgroup/cgroup.controllers": "cpu hugetlb\n",
        }
    )

    def compact(text: str) -> None:
        most[0] = max(most)
        tree.add({"/proc/sys/vm/compact_memory": text})

    def resize(text: str) -> None:
        """As set_max_huge_pages of mm/hugetlb.c."""
        now = pool(tree)
        used = now["nr"] - now["free"]
        size = min(int(text), max(most[0], now["nr"] - now["surplus"]))
        total = max(size, used)
        set_pool(tree, nr=total, free=total - used, surplus=total - size)

    tree.on_write |= {f"{SMALL}/nr_hugepages": resize, "/proc/sys/vm/compact_memory": compact}
    return tree


def set_pool(tree, **values: int) -> None:
    tree.add({f"{SMALL}/{name}_hugepages": f"{value}\n" for name, value in values.items()})


class Asked(LocalHost):
    """A host whose server says how many huge pages it needs."""

    asked: tuple[str, ...] = ()
    answer: str = ""

    async def run(self, argv: object, **_options: object) -> Completed:
        assert isinstance(argv, list)
        self.asked = tuple(str(word) for word in argv)
        return Completed(status=0, stdout=self.answer, stderr="LOG:  skipped\n")


def context(host: LocalHost, *, data: str | None = "/cluster/data") -> KnobContext:
    return KnobContext(host=host, token="test", directory="/cluster", data=data, programs=PROGRAMS)


def asking(tree, needed: int) -> Asked:
    host = Asked(ops=tree)
    host.answer = f"{needed}\n"
    return host


def plan(tree, needed: int, size: str = "2MB") -> tuple[Change, ...]:
    return tuple(asyncio.run(KNOB.plan(context(asking(tree, needed)), {"size": size})))


def entry(change: Change, got: Mapping[str, str] | None, *, boot: str | None = None) -> JournalEntry:
    return JournalEntry(
        id=1, t=0.0, host="local", boot_id=boot or OPS.boot_id(), folder="f", run=1, change=change, got=got
    )


def undo(ops: Operations, change: Change, got: Mapping[str, str] | None, **options: str) -> tuple[Outcome, str]:
    undone = asyncio.run(KNOB.undo(LocalHost(ops=ops), entry(change, got, **options)))
    return undone.outcome, undone.text


def pool(ops: Operations, directory: str = SMALL) -> dict[str, int]:
    return {name: int(ops.read(f"{directory}/{name}_hugepages")) for name in ("nr", "free", "surplus")}


# -- what is planned


def test_pool_grows_by_what_is_needed_beyond_the_free_pages(tree):
    (change,) = plan(tree, 8)  # 3 of the pool's 10 are free and promised to nobody

    assert change.new == {f"{SMALL}/nr_hugepages": "15"}
    assert (change.name, change.old_text, change.new_text) == ("pool of 2MB pages", "10 pages", "15 pages")


def test_server_itself_is_asked(tree):
    host = asking(tree, 8)
    asyncio.run(KNOB.plan(context(host), {"size": "2MB"}))

    assert host.asked == (
        *("/programs/postgres", "-D", "/cluster/data"),
        *("-C", "shared_memory_size_in_huge_pages", "-c", "huge_page_size=2MB"),
    )


def test_free_pages_are_enough(tree):
    assert plan(tree, 3) == ()


def test_surplus_pages_are_in_use_and_do_not_count(tree):
    """They go into the pool as it grows, and back when it shrinks."""
    set_pool(tree, nr=10, free=0, resv=0, surplus=4)
    (change,) = plan(tree, 8)
    got = asyncio.run(KNOB.apply(context(LocalHost(ops=tree)), change))

    assert pool(tree) == {"nr": 18, "free": 8, "surplus": 0}
    assert undo(tree, change, got, boot="this boot")[0] is Outcome.RESTORED
    assert pool(tree) == {"nr": 10, "free": 0, "surplus": 4}


def test_without_a_cluster_as_many_as_the_server_needs(tree):
    (change,) = asyncio.run(KNOB.plan(context(LocalHost(ops=tree), data=None), {"size": "2MB"}))

    assert (change.old_text, change.new_text) == ("10 pages", "as many as the server needs")


def test_no_huge_pages_change_nothing_on_the_host(tree):
    assert asyncio.run(KNOB.plan(context(LocalHost(ops=tree)), {"size": "none"})) == ()


@pytest.mark.parametrize(
    ("size", "settings"),
    [
        ("none", {"huge_pages": "off"}),
        ("2MB", {"huge_pages": "on", "huge_page_size": "2MB"}),
        ("1GB", {"huge_pages": "on", "huge_page_size": "1GB"}),
    ],
)
def test_server_is_told_to_insist(size: str, settings: Mapping[str, str]):
    assert KNOB.settings({"size": size}) == settings


def test_page_size_that_the_machine_does_not_have(tree):
    with pytest.raises(SettingError, match="this machine has no huge pages of 1GB") as caught:
        plan(tree, 1, "1GB")

    assert caught.value.detail == "Its processor and kernel offer: 2048kB."


def test_more_than_the_memory_there_is_is_not_even_tried(tree):
    with pytest.raises(SettingError, match="needs 4997 more huge pages of 2MB, but only 8 GB of memory are available"):
        plan(tree, 5000)


def test_server_that_knows_no_huge_pages(tree):
    with pytest.raises(SettingError, match=r"PostgreSQL 18\.0 knows no huge pages on this machine"):
        plan(tree, -1)


@pytest.mark.parametrize("name", ["user/hugetlb.2MB.max", "user/session/hugetlb.2MB.rsvd.max"])
def test_control_group_that_allows_fewer(tree, name: str):
    tree.add({f"/sys/fs/cgroup/{name}": f"{14 << 20}\n"})

    with pytest.raises(SettingError, match="needs 16 MB of huge pages, and its control group allows 14 MB") as caught:
        plan(tree, 8)
    assert caught.value.detail == f'The limit is "/sys/fs/cgroup/{name}".'


def test_control_group_of_version_1_that_allows_fewer(tree):
    tree.add(
        {
            "/proc/self/mountinfo": "31 1 0:27 /docker/a /sys/fs/cgroup/hugetlb rw - cgroup cgroup rw,hugetlb\n",
            "/proc/self/cgroup": "5:hugetlb:/docker/a/b\n0::/docker/a\n",
            "/sys/fs/cgroup/hugetlb/b/hugetlb.2MB.limit_in_bytes": f"{14 << 20}\n",
        }
    )

    with pytest.raises(SettingError, match="its control group allows 14 MB"):
        plan(tree, 8)


def test_control_group_without_a_limit(tree):
    tree.add({"/sys/fs/cgroup/user/hugetlb.2MB.max": "max\n"})

    assert len(plan(tree, 8)) == 1


# -- a kernel that cannot


def test_kernel_that_finds_too_few_says_how_many_and_the_pool_goes_back(tree, most: list[int]):
    (change,) = plan(tree, 8)
    most[0] = 12

    with pytest.raises(SettingError, match="pool of 2MB pages: asked for 15 pages, got 12") as caught:
        asyncio.run(KNOB.apply(context(LocalHost(ops=tree)), change))
    assert "Reboot" in caught.value.hint
    assert "hugepages=" in caught.value.hint
    assert pool(tree) == {"nr": 10, "free": 4, "surplus": 0}
    assert undo(tree, change, None, boot="this boot")[0] is Outcome.ALREADY


def test_memory_in_pieces_is_moved_together_once(tree, most: list[int]):
    (change,) = plan(tree, 8)
    most[:] = 12, 20

    assert asyncio.run(KNOB.apply(context(LocalHost(ops=tree)), change)) == {f"{SMALL}/nr_hugepages": "15"}
    assert tree.read("/proc/sys/vm/compact_memory") == "1"


def test_large_pool_grows_in_steps(tree):
    """Each write holds pgtrial up until the kernel has collected the pages."""
    (change,) = plan(tree, 3000)
    resize, written = tree.on_write[f"{SMALL}/nr_hugepages"], []
    tree.on_write[f"{SMALL}/nr_hugepages"] = lambda text: (written.append(text), resize(text))

    asyncio.run(KNOB.apply(context(LocalHost(ops=tree)), change))

    assert written == ["2058", "3007"]
    assert pool(tree)["nr"] == 3007


def test_user_without_the_right_is_told_to_be_root_before_anything_is_done(tree):
    tree.uid = 1000

    with pytest.raises(SettingError, match="setting the pool of 2MB pages needs root") as caught:
        plan(tree, 8)
    assert caught.value.hint == "Run pgtrial as root."


def test_pool_that_the_kernel_does_not_let_change(tree):
    (change,) = plan(tree, 8)
    tree.closed.add(f"{SMALL}/nr_hugepages")

    with pytest.raises(SettingError, match=f'cannot change "{SMALL}/nr_hugepages"') as caught:
        asyncio.run(KNOB.apply(context(LocalHost(ops=tree)), change))
    assert caught.value.detail == "Permission denied."


# -- what is undone


@pytest.mark.parametrize(
    ("now", "got", "boot", "outcome"),
    [
        (15, 15, "this boot", Outcome.RESTORED),
        (15, None, "this boot", Outcome.RESTORED),
        (12, None, "this boot", Outcome.RESTORED),  # killed while the kernel collected pages
        (10, None, "this boot", Outcome.ALREADY),
        (10, 15, "this boot", Outcome.ALREADY),
        (20, 15, "this boot", Outcome.CHANGED),
        (0, 15, "before", Outcome.REBOOTED),
        (10, 15, "before", Outcome.ALREADY),
    ],
)
def test_undoing(tree, now: int, got: int | None, boot: str, outcome: Outcome):
    (change,) = plan(tree, 8)
    set_pool(tree, nr=now, free=max(0, now - 6))

    found, text = undo(tree, change, None if got is None else {f"{SMALL}/nr_hugepages": str(got)}, boot=boot)

    assert found is outcome
    assert bool(text) == (outcome in (Outcome.CHANGED, Outcome.REBOOTED))
    assert pool(tree)["nr"] == (now if outcome in (Outcome.CHANGED, Outcome.REBOOTED) else 10)


NODES = [f"/sys/devices/system/node/node{n}/hugepages/hugepages-2048kB/nr_hugepages" for n in (0, 1)]


def set_nodes(tree, *counts: int) -> None:
    tree.add({path: f"{count}\n" for path, count in zip(NODES, counts, strict=False)})


@pytest.mark.parametrize(
    ("now", "written", "text"),
    [
        ((4, 6), [], ""),
        ((5, 5), [(1, 6), (0, 4)], ""),  # the kernel has taken one too many from the second, one too few from the first
        ((7, 3), [(1, 6), (0, 4)], ""),
    ],
)
def test_pages_are_back_on_the_memory_nodes_that_had_them(tree, now, written, text):
    set_nodes(tree, 4, 6)
    (change,) = plan(tree, 8)
    set_nodes(tree, *now)
    found: list[tuple[int, int]] = []

    def keep(node: int):
        return lambda value: (found.append((node, int(value))), tree.add({NODES[node]: f"{value}\n"}))

    tree.on_write |= {path: keep(node) for node, path in enumerate(NODES)}

    outcome, told = undo(tree, change, {f"{SMALL}/nr_hugepages": "15"}, boot="this boot")

    assert (outcome, told, found) == (Outcome.RESTORED if written else Outcome.ALREADY, text, written)


def test_a_node_without_memory_leaves_the_others_their_pages(tree):
    set_nodes(tree, 4, 6)
    (change,) = plan(tree, 8)
    set_nodes(tree, 7, 3)
    tree.on_write[NODES[1]] = lambda _value: tree.add({NODES[1]: "4\n"})  # all that it finds there

    outcome, told = undo(tree, change, None, boot="this boot")

    assert outcome is Outcome.RESTORED
    assert tree.read(NODES[0]).strip() == "6"  # 10 pages in all, as before
    assert told == "The pool of 2MB pages has its old size, but node0 has 6, not 4, node1 has 4, not 6 as before."


def test_surplus_pages_of_others_are_not_moved(tree):
    set_nodes(tree, 4, 6)
    (change,) = plan(tree, 8)
    set_nodes(tree, 7, 4)
    set_pool(tree, nr=11, surplus=1, nr_overcommit=8)

    assert undo(tree, change, None, boot="this boot") == (Outcome.ALREADY, "")
    assert [tree.read(path).strip() for path in NODES] == ["7", "4"]


def test_a_machine_with_one_node_has_only_the_pool(tree):
    set_nodes(tree, 10)
    (change,) = plan(tree, 8)

    assert set(change.old) == {f"{SMALL}/nr_hugepages", f"{SMALL}/surplus_hugepages"}


def test_pool_that_cannot_be_read_is_not_put_back(tree):
    (change,) = plan(tree, 8)
    shutil.rmtree(tree.at(SMALL))

    outcome, text = undo(tree, change, None, boot="this boot")

    assert outcome is Outcome.FAILED
    assert "No such file" in text


def test_pool_that_somebody_else_changed_during_the_run_is_noticed(tree):
    (change,) = plan(tree, 8)
    got = asyncio.run(KNOB.apply(context(LocalHost(ops=tree)), change))

    assert asyncio.run(KNOB.still_applied(LocalHost(ops=tree), entry(change, got))) == ""
    tree.write(f"{SMALL}/nr_hugepages", "14")
    assert (
        asyncio.run(KNOB.still_applied(LocalHost(ops=tree), entry(change, got)))
        == "The pool of 2MB pages was made 15 pages and has 14 now."
    )


# -- on this kernel


@pytest.fixture
def as_before(own_kernel: None) -> Iterator[dict[str, int]]:
    """The real pool of 2 MB pages, and its size put back whatever happens."""
    before = pool(OPS)
    yield before
    OPS.write(f"{SMALL}/nr_hugepages", str(before["nr"] - before["surplus"]))


def eight_more(before: Mapping[str, int]) -> Change:
    return Change(
        knob="huge_pages",
        name="pool of 2MB pages",
        old={f"{SMALL}/nr_hugepages": str(before["nr"]), f"{SMALL}/surplus_hugepages": str(before["surplus"])},
        new={f"{SMALL}/nr_hugepages": str(before["nr"] + 8)},
        old_text=f"{before['nr']} pages",
        new_text=f"{before['nr'] + 8} pages",
    )


def test_pages_that_are_given_back_while_the_pool_is_read_are_not_counted_twice(tree, monkeypatch):
    (change,) = plan(tree, 8)
    tree.write(f"{SMALL}/nr_hugepages", "15")
    set_pool(tree, free=1)  # 14 of 15 are in use, so 4 of them are surplus once the pool has 10 again
    read = tree.read

    def read_and_end(path: str, limit: int | None = None) -> str:
        text = read(path, limit)
        if path.endswith("/nr_hugepages") and int(text) == 14:
            set_pool(tree, nr=10, free=4, surplus=0)  # the server has ended since
        return text

    monkeypatch.setattr(tree, "read", read_and_end)
    assert undo(tree, change, change.new, boot=tree.boot_id()) == (Outcome.RESTORED, "")


@needs_pool
def test_pool_of_eight_pages_and_back(as_before: dict[str, int]):
    change = eight_more(as_before)
    got = asyncio.run(KNOB.apply(context(LocalHost()), change))

    assert pool(OPS)["nr"] == as_before["nr"] + 8
    assert got == change.new
    assert undo(OPS, change, got) == (Outcome.RESTORED, "")
    assert pool(OPS) == as_before
    assert undo(OPS, change, got)[0] is Outcome.ALREADY


@needs_pool
def test_pages_of_a_process_that_lives_are_a_failure_until_it_ends(
    as_before: dict[str, int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pgtrial.knobs.huge_pages._PATIENCE", 0.2)
    change = eight_more(as_before)
    got = asyncio.run(KNOB.apply(context(LocalHost()), change))
    with mmap.mmap(-1, 8 << 21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000) as pages:  # MAP_HUGETLB
        for page in range(8):
            pages[page << 21] = 1

        assert undo(OPS, change, got) == (
            Outcome.FAILED,
            "The pool of 2MB pages has its old size, but 8 pages beyond it are still in use.",
        )
    assert undo(OPS, change, got) == (Outcome.ALREADY, "")
    assert pool(OPS) == as_before


def server_context(cluster: ThrowawayCluster) -> KnobContext:
    return KnobContext(
        host=cluster.host,
        token="test",
        directory=str(cluster.directory),
        account=cluster.account,
        programs=cluster.programs,
        data=str(cluster.data),
        conf=str(cluster.conf),
    )


async def run_in_huge_pages(cluster: ThrowawayCluster, size: str) -> tuple[JournalEntry, int]:
    """A server that was started in huge pages and then killed; the entry of its pool, and kB of its huge pages."""
    await cluster.stop(immediate=True)
    cluster.write_settings({"shared_buffers": "32MB", **KNOB.settings({"size": size})})
    context = server_context(cluster)
    (change,) = await KNOB.plan(context, {"size": size})
    got = await KNOB.apply(context, change)
    await start_server(cluster, groups=(), has_pool=True)
    assert cluster.process is not None
    pid = cluster.process.pid
    status = Path(f"/proc/{pid}/smaps").read_text()
    huge = sum(
        int(line.split()[1]) for line in status.splitlines() if line.startswith(("Shared_Hugetlb", "Private_Hugetlb"))
    )
    os.kill(pid, signal.SIGKILL)  # the others end when they notice
    return entry(change, got), huge


@needs_pool
def test_server_runs_in_huge_pages_and_its_pool_is_given_back_after_a_kill(
    each_programs: Programs,
    runner: asyncio.Runner,
    run_cluster: Callable[..., AbstractContextManager[ThrowawayCluster]],
    as_before: dict[str, int],
):
    with run_cluster(each_programs, runner) as cluster:
        journal, huge = runner.run(run_in_huge_pages(cluster, "2MB"))
        undone = runner.run(KNOB.undo(cluster.host, journal))
        runner.run(cluster.stop(immediate=True))

    assert huge > 8 * 1024  # kB; only pages that were touched count
    assert (undone.outcome, undone.text) == (Outcome.RESTORED, "")
    assert pool(OPS) == as_before


def has_gigabyte(others: int) -> bool:
    """Whether the kernel can make one page of 1 GB more than those that others have."""
    OPS.write("/proc/sys/vm/compact_memory", "1")
    try:
        OPS.write(f"{LARGE}/nr_hugepages", str(others + 1))
        return pool(OPS, LARGE)["nr"] > others
    finally:
        OPS.write(f"{LARGE}/nr_hugepages", str(others))


@needs_large_pool
@pytest.mark.usefixtures("own_kernel")
def test_server_runs_in_a_page_of_one_gigabyte(throwaway: ThrowawayCluster, runner: asyncio.Runner):
    before = pool(OPS, LARGE)
    if not has_gigabyte(before["nr"]):
        pytest.skip("this kernel finds no GB of memory in one piece, as long after its start")
    try:
        journal, huge = runner.run(run_in_huge_pages(throwaway, "1GB"))
        undone = runner.run(KNOB.undo(throwaway.host, journal))
    finally:
        OPS.write(f"{LARGE}/nr_hugepages", str(before["nr"]))

    assert huge == 1 << 20  # kB
    assert (undone.outcome, undone.text) == (Outcome.RESTORED, "")
    assert pool(OPS, LARGE) == before


@needs_pool
@pytest.mark.usefixtures("own_kernel")
def test_kernel_that_gives_less_than_asked_for_real(throwaway: ThrowawayCluster, runner: asyncio.Runner):
    """More than all memory would starve the machine, so the kernel is told a smaller number than is asked of it."""

    class Less(Operations):
        def write(self, path: str, text: str) -> None:
            super().write(path, str(int(text) - 4) if path.endswith("nr_hugepages") and int(text) > 4 else text)

    before = pool(OPS)
    runner.run(throwaway.stop(immediate=True))
    context = replace(server_context(throwaway), host=LocalHost(ops=Less()))
    (change,) = runner.run(KNOB.plan(context, {"size": "2MB"}))
    asked = int(change.new[f"{SMALL}/nr_hugepages"])

    with pytest.raises(SettingError, match=f"asked for {asked} pages, got {asked - 4}"):
        runner.run(KNOB.apply(context, change))
    assert pool(OPS) == before


@needs_pool
@pytest.mark.usefixtures("own_kernel")
def test_server_that_needs_more_than_all_memory(throwaway: ThrowawayCluster, runner: asyncio.Runner):
    runner.run(throwaway.stop(immediate=True))
    throwaway.write_settings({"shared_buffers": "1TB"})
    before = pool(OPS)

    with pytest.raises(SettingError, match=r"more huge pages of 2MB, but only [0-9.]+ [GM]B of memory are available"):
        runner.run(KNOB.plan(server_context(throwaway), {"size": "2MB"}))
    assert pool(OPS) == before


@needs_pool
def test_server_that_does_not_start_says_why(throwaway: ThrowawayCluster, runner: asyncio.Runner):
    runner.run(throwaway.stop(immediate=True))
    throwaway.write_settings({"shared_buffers": "nonsense"})

    with pytest.raises(SettingError, match="does not say how many huge pages of 2MB it needs") as caught:
        runner.run(KNOB.plan(server_context(throwaway), {"size": "2MB"}))
    assert "shared_buffers" in caught.value.detail


@needs_pool
def test_killed_pgtrial_is_undone_from_its_entry_alone(as_before: dict[str, int], forked: Any):
    """The pool has grown, but nobody has confirmed it."""
    change = eight_more(as_before)

    def apply() -> None:
        asyncio.run(KNOB.apply(KnobContext(host=LocalHost(), token="test", directory="/tmp"), change))
        os.kill(os.getpid(), signal.SIGKILL)

    with forked(apply) as process:
        status = process.wait()
    grown = pool(OPS)["nr"]

    assert status == -signal.SIGKILL
    assert grown == as_before["nr"] + 8
    assert undo(OPS, change, None) == (Outcome.RESTORED, "")
    assert pool(OPS) == as_before
