import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgtrial.errors import SettingError
from pgtrial.hosts.linux.control_groups import hierarchies
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.processes import end_process
from pgtrial.hosts.ssh.host import SshHost
from pgtrial.knobs.base import KnobContext
from pgtrial.knobs.cgroup import Cgroup
from pgtrial.knobs.cgroup_limits import unlimited_reads
from pgtrial.model.change import Change, JournalEntry, Outcome
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from support import reached, wait_until

KNOB = Cgroup()
OPS = Operations()
DISK = Path(tempfile.gettempdir())  # memory has no block device to be limited


def entry(change: Change, got: Mapping[str, str] | None, *, boot: str | None = None) -> JournalEntry:
    return JournalEntry(
        id=1, t=0.0, host="local", boot_id=boot or OPS.boot_id(), folder="f", run=1, change=change, got=got
    )


# -- version 2, on a tree of files


class Version2(Operations):
    """A host with version 2 alone, played by files: the kernel makes a group's files and takes them with it."""

    files = ("cgroup.procs", "cpu.max", "io.max", "memory.max", "memory.current", "memory.events", "memory.reclaim")

    def __init__(self, root: Path, *, owner: int = 0) -> None:
        self.root, self.owner, self.refuse, self.boot = root, owner, 0, OPS.boot_id()
        self.killed: list[int] = []
        for name, text in {
            "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
            "27 1 8:0 / / rw - ext4 /dev/sda rw\n",
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
            "sys/fs/cgroup/cgroup.subtree_control": "cpu pids\n",
            "sys/dev/block/8:0/dev": "8:0\n",
            "sys/class/block/8:0/dev": "8:0\n",
        }.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def under(self, path: str) -> str:
        return f"{self.root}{path}" if path.startswith(("/proc/self", "/sys")) else path

    def read(self, path: str, limit: int | None = None) -> str:
        return super().read(self.under(path), limit)

    def exists(self, path: str) -> bool:
        return super().exists(self.under(path))

    def is_writable(self, path: str) -> bool:
        return self.owner == 0

    def resolve(self, path: str) -> str:
        return path

    def glob(self, pattern: str) -> list[str]:
        return []

    def user(self) -> int:
        return self.owner

    def device_of(self, path: str) -> tuple[int, int]:
        return 8, 0

    def boot_id(self) -> str:
        return self.boot

    def start_ticks(self, pid: int) -> int | None:
        return None if pid in self.killed else 1

    def signal(self, pid: int, ticks: int, number: int) -> bool:
        self.killed.append(pid)
        for procs in self.root.glob("sys/fs/cgroup/*/cgroup.procs"):
            left = [word for word in procs.read_text().split() if int(word) not in self.killed]
            procs.write_text("".join(f"{word}\n" for word in left))
        return True

    def write(self, path: str, text: str) -> None:
        if self.refuse:
            raise OSError(self.refuse, os.strerror(self.refuse), path)
        file = Path(self.under(path))
        if path.endswith("cgroup.subtree_control"):
            enabled = file.read_text().split()
            for word in text.split():
                if word[0] == "+":
                    enabled.append(word[1:])
                else:
                    enabled.remove(word[1:])
            text = " ".join(enabled)
        assert file.is_file(), path
        file.write_text(f"{text}\n")

    def make_directory(
        self, path: str, owner: tuple[int, int] | None = None, mode: int = 0o700, parents: bool = False
    ) -> None:
        super().make_directory(self.under(path), owner, mode, parents)
        enabled = Path(self.under("/sys/fs/cgroup/cgroup.subtree_control")).read_text().split()
        for name in self.files:
            if name.split(".")[0] in ("cgroup", *enabled):
                Path(self.under(path), name).write_text("")
        if "memory" in enabled:
            Path(self.under(path), "memory.events").write_text("low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n")
            Path(self.under(path), "memory.current").write_text("8192\n")

    def remove_directory(self, path: str) -> None:
        if Path(self.under(path), "cgroup.procs").read_text():
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        shutil.rmtree(self.under(path))


@pytest.fixture
def kernel(tmp_path: Path) -> Version2:
    return Version2(tmp_path)


def on(kernel: Operations) -> KnobContext:
    return KnobContext(host=LocalHost(ops=kernel), token="t1", directory="/cluster")


def plan(kernel: Operations, **wanted: str) -> list[Change]:
    return list(asyncio.run(KNOB.plan(on(kernel), wanted)))


def apply(kernel: Operations, change: Change) -> Mapping[str, str]:
    return asyncio.run(KNOB.apply(on(kernel), change))


def undo(kernel: Operations, change: Change, got: Mapping[str, str] | None, **options: str) -> tuple[Outcome, str]:
    undone = asyncio.run(KNOB.undo(LocalHost(ops=kernel), entry(change, got, **options)))
    return undone.outcome, undone.text


CONTROL = "/sys/fs/cgroup/cgroup.subtree_control"
GROUP = "/sys/fs/cgroup/pgtrial-t1"


@pytest.mark.parametrize(
    ("named", "got"), [("/sys/fs/cgroup/user.slice", None), ("/sys/fs/cgroup/pgtrial-t2", {"group": GROUP})]
)
def test_an_entry_for_a_group_that_was_not_made_stays_open(kernel: Version2, named: str, got: dict[str, str] | None):
    _, group = plan(kernel, memory="1GB", read_iops="50")

    outcome, text = undo(kernel, replace(group, new={**group.new, "group": named}), got)

    assert (outcome, text[:40]) == (Outcome.FAILED, 'Its entry in the journal is damaged: "/s')


def test_version_2_there_and_back(kernel: Version2):
    enable, group = plan(kernel, memory="1GB", read_iops="50")
    gots = [apply(kernel, enable), apply(kernel, group)]

    assert kernel.read(CONTROL) == "cpu pids io memory\n"
    assert gots == [enable.new, group.new]
    assert kernel.read(f"{GROUP}/memory.max") == "1073741824\n"
    assert kernel.read(f"{GROUP}/io.max") == "8:0 rbps=max wbps=max riops=50 wiops=max\n"
    assert KNOB.groups(on(kernel), {"memory": "1GB", "read_iops": "50"}) == (GROUP,)
    assert asyncio.run(KNOB.still_applied(LocalHost(ops=kernel), entry(group, gots[1]))) == ""
    assert undo(kernel, group, gots[1]) == (Outcome.RESTORED, "")
    assert not kernel.exists(GROUP)
    assert undo(kernel, enable, gots[0]) == (Outcome.RESTORED, "")
    assert kernel.read(CONTROL) == "cpu pids\n"
    assert [undo(kernel, change, None)[0] for change in (group, enable)] == [Outcome.ALREADY] * 2


def test_changes_in_words(kernel: Version2):
    enable, group = plan(kernel, memory="1GB", cpus="1.5")

    assert (enable.name, enable.old_text, enable.new_text) == (
        "controllers of the control groups in /sys/fs/cgroup",
        "cpu pids",
        "cpu pids memory",
    )
    assert (group.name, group.old_text, group.new_text) == (
        "control group of the server (cpu, memory)",
        "none",
        "1 GB of memory and page cache, 1.5 CPUs",
    )


def test_limited_writes_need_the_memory_controller_as_well(kernel: Version2):
    enable, group = plan(kernel, write_iops="50")

    assert enable.new_text == "cpu pids io memory"
    assert group.name == "control group of the server (io)"


def test_controllers_that_are_enabled_are_left_alone(kernel: Version2):
    (group,) = plan(kernel, cpus="0.5")

    assert group.new == {"group": GROUP, "cpu.max": "50000 100000"}


@pytest.mark.parametrize("steps", [0, 1])
def test_enabling_that_was_cut_short(kernel: Version2, steps: int):
    enable, _ = plan(kernel, memory="1GB")
    if steps:
        kernel.write(CONTROL, "+memory")

    assert undo(kernel, enable, None)[0] is (Outcome.RESTORED if steps else Outcome.ALREADY)
    assert kernel.read(CONTROL).split() == ["cpu", "pids"]


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_group_that_was_cut_short(kernel: Version2, steps: int):
    """Killed before it was made, after, between two limits, and after both."""
    enable, group = plan(kernel, memory="1GB", cpus="1")
    apply(kernel, enable)
    names = list(group.new)[1:]
    if steps:
        kernel.make_directory(GROUP)
        for name in names[: steps - 1]:
            kernel.write(f"{GROUP}/{name}", group.new[name])

    assert undo(kernel, group, None)[0] is (Outcome.RESTORED if steps else Outcome.ALREADY)
    assert not kernel.exists(GROUP)


def test_what_others_have_enabled_since_stays(kernel: Version2):
    enable, _ = plan(kernel, memory="1GB")
    got = apply(kernel, enable)
    kernel.write(CONTROL, "+cpuset")

    assert undo(kernel, enable, got)[0] is Outcome.RESTORED
    assert kernel.read(CONTROL).split() == ["cpu", "pids", "cpuset"]


def test_controllers_that_others_use_by_now_stay(kernel: Version2):
    enable, _ = plan(kernel, memory="1GB")
    got = apply(kernel, enable)
    kernel.refuse = errno.EBUSY

    assert undo(kernel, enable, got) == (
        Outcome.CHANGED,
        f"Other control groups use memory by now; left enabled in {CONTROL}.",
    )


def test_after_a_reboot_nothing_is_touched(kernel: Version2):
    enable, group = plan(kernel, memory="1GB")
    gots = [apply(kernel, change) for change in (enable, group)]
    kernel.boot = "another"

    assert undo(kernel, group, gots[1])[0] is Outcome.REBOOTED
    assert undo(kernel, enable, gots[0]) == (Outcome.REBOOTED, f"memory in {CONTROL} was enabled since the reboot.")
    assert kernel.exists(GROUP)


def test_processes_that_are_left_are_ended(kernel: Version2):
    enable, group = plan(kernel, memory="1GB")
    apply(kernel, enable)
    apply(kernel, group)
    Path(kernel.under(f"{GROUP}/cgroup.procs")).write_text("41\n42\n")

    assert undo(kernel, group, None)[0] is Outcome.RESTORED
    assert kernel.killed == [41, 42]
    assert not kernel.exists(GROUP)


def test_page_cache_is_given_back_before_the_group_goes(kernel: Version2, monkeypatch: pytest.MonkeyPatch):
    enable, group = plan(kernel, memory="1GB")
    apply(kernel, enable)
    apply(kernel, group)
    reclaimed: list[str] = []
    remove = kernel.remove_directory

    def look_and_remove(path: str) -> None:
        reclaimed.append(kernel.read(f"{path}/memory.reclaim"))
        remove(path)

    monkeypatch.setattr(kernel, "remove_directory", look_and_remove)

    assert undo(kernel, group, None)[0] is Outcome.RESTORED
    assert reclaimed == ["8192\n"]


def test_process_that_does_not_end_is_named(kernel: Version2, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pgtrial.knobs.cgroup._PATIENCE", 0.1)
    monkeypatch.setattr(kernel, "signal", lambda *_: True)
    enable, group = plan(kernel, memory="1GB")
    apply(kernel, enable)
    apply(kernel, group)
    Path(kernel.under(f"{GROUP}/cgroup.procs")).write_text("41\n")

    assert undo(kernel, group, None) == (
        Outcome.FAILED,
        f'The control group "{GROUP}" cannot be removed: process 41 does not end.',
    )


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("memory.max", "max\n", f'"{GROUP}/memory.max" was made "1073741824" and is "max" now.'),
        (
            "memory.events",
            "oom 2\noom_kill 2\n",
            "The kernel ended 2 of the server's processes for want of memory in its group.",
        ),
    ],
)
def test_limit_that_did_not_hold_is_noticed(kernel: Version2, name: str, text: str, problem: str):
    enable, group = plan(kernel, memory="1GB")
    apply(kernel, enable)
    got = apply(kernel, group)
    Path(kernel.under(f"{GROUP}/{name}")).write_text(text)

    assert asyncio.run(KNOB.still_applied(LocalHost(ops=kernel), entry(group, got))) == problem


def test_a_controller_that_was_taken_away_is_not_taken_for_the_group(kernel: Version2):
    enable, group = plan(kernel, memory="1GB")
    apply(kernel, enable)
    got = apply(kernel, group)
    Path(kernel.under(f"{GROUP}/memory.max")).unlink()  # as a manager of services does that wants no such controller

    assert asyncio.run(KNOB.still_applied(LocalHost(ops=kernel), entry(group, got))) == (
        f'"{GROUP}/memory.max" is gone: something else has taken the controller away from control groups.'
    )


def test_group_that_is_gone_is_noticed(kernel: Version2):
    enable, group = plan(kernel, memory="1GB")
    apply(kernel, enable)
    got = apply(kernel, group)
    kernel.remove_directory(GROUP)

    assert "is gone" in asyncio.run(KNOB.still_applied(LocalHost(ops=kernel), entry(group, got)))


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.EBUSY, "outside of the container"), (errno.EPERM, "as root"), (errno.EINVAL, "")]
)
def test_controllers_that_cannot_be_enabled(kernel: Version2, number: int, hint: str):
    enable, _ = plan(kernel, memory="1GB")
    kernel.refuse = number

    with pytest.raises(SettingError, match=r'the kernel refuses "\+memory" for ') as caught:
        apply(kernel, enable)
    assert hint in caught.value.hint
    assert caught.value.detail == f"{os.strerror(number)}."


def test_limit_that_the_kernel_makes_another(kernel: Version2, monkeypatch: pytest.MonkeyPatch):
    enable, group = plan(kernel, memory="1GB")
    apply(kernel, enable)
    write = kernel.write
    monkeypatch.setattr(kernel, "write", lambda path, text: write(path, "4096"))

    with pytest.raises(SettingError, match=f'"{GROUP}/memory.max" is "4096", asked for "1073741824"'):
        apply(kernel, group)


def test_group_that_is_there_already(kernel: Version2):
    enable, group = plan(kernel, memory="1GB")
    apply(kernel, enable)
    apply(kernel, group)

    with pytest.raises(SettingError, match=f'control group "{GROUP}" already exists'):
        apply(kernel, group)


def test_user_without_the_right_is_told_to_be_root(tmp_path: Path):
    with pytest.raises(SettingError, match="a control group for the server needs root") as caught:
        plan(Version2(tmp_path, owner=1000), memory="1GB")
    assert caught.value.hint == "Run pgtrial as root."


# -- on this kernel


def controllers_here() -> set[str]:
    return {name for found in hierarchies(OPS) if OPS.is_writable(found.mount) for name in found.controllers}


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip where the kernel lacks a controller, in either version, or lets us not use it."""
    here = controllers_here()
    missing = [name for name in names if not {name, {"io": "blkio"}.get(name, name)} & here]
    return pytest.mark.skipif(bool(missing), reason=f"no control groups for {', '.join(missing)} that we may change")


@pytest.fixture
def context() -> Iterator[KnobContext]:
    """On the disk of this machine; whatever is left of its groups at the end is removed."""
    directory = tempfile.mkdtemp(dir="/var/tmp")
    made = KnobContext(
        host=LocalHost(), token=f"test-{uuid.uuid4().hex[:8]}", directory=directory, data=directory, wal=directory
    )
    yield made
    shutil.rmtree(directory)
    for found in hierarchies(OPS):
        group = Path(found.mount, f"pgtrial-{made.token}")
        if group.exists():
            for pid in (group / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            wait_until((group / "cgroup.procs").read_text, lambda members: not members)
            group.rmdir()


async def turn(context: KnobContext, wanted: Mapping[str, str]) -> list[JournalEntry]:
    """Make the changes as the engine does."""
    entries = []
    for change in await KNOB.plan(context, wanted):
        entries.append(entry(change, await KNOB.apply(context, change)))
    return entries


async def turn_back(context: KnobContext, entries: list[JournalEntry]) -> list[Outcome]:
    return [(await KNOB.undo(context.host, each)).outcome for each in reversed(entries)]


@needs("memory", "cpu", "io")
def test_every_limit_is_read_back_and_its_group_removed(context: KnobContext):
    wanted = {
        "memory": "100000000B",
        "cpus": "0.75",
        "read_iops": "50",
        "write_iops": "40",
        "read_bytes": "8MB",
        "write_bytes": "4MB",
    }

    async def there_and_back() -> None:
        entries = await turn(context, wanted)
        groups = KNOB.groups(context, wanted)

        assert set(groups) == {each.change.new["group"] for each in entries if "group" in each.change.new}
        assert all(Path(group, "cgroup.procs").exists() for group in groups)
        assert [await KNOB.still_applied(context.host, each) for each in entries] == [""] * len(entries)
        assert await turn_back(context, entries) == [Outcome.RESTORED] * len(entries)
        assert not any(Path(group).exists() for group in groups)
        assert await turn_back(context, entries) == [Outcome.ALREADY] * len(entries)

    asyncio.run(there_and_back())


@needs("io")
def test_reads_are_as_slow_as_asked(context: KnobContext):
    """75 reads at 50 per second take about 1.5 s; the disk by itself needs a small part of that."""
    file = Path(context.directory, "data")
    file.write_bytes(os.urandom(75 * 4096))
    os.sync()
    command = ["dd", f"if={file}", "of=/dev/null", "bs=4k", "iflag=direct"]

    async def timed(groups: tuple[str, ...]) -> float:
        started = time.monotonic()
        process = await context.host.start(command, role="test", groups=groups)
        assert await process.wait() == 0
        return time.monotonic() - started

    async def all_of_them() -> tuple[float, float, float, float]:
        entries = await turn(context, {"read_iops": "50"})
        groups = tuple(KNOB.groups(context, {"read_iops": "50"}))
        try:
            limited = await timed(groups)
            with unlimited_reads(context.host.ops, groups):
                while_filling = min([await timed(groups) for _ in range(3)])
            assert [await KNOB.still_applied(context.host, each) for each in entries] == [""] * len(entries)
            return limited, while_filling, await timed(groups), min([await timed(()) for _ in range(3)])
        finally:
            await turn_back(context, entries)

    limited, while_filling, limited_again, free = asyncio.run(all_of_them())

    assert min(limited, limited_again) > 1.2
    assert max(free, while_filling) < limited / 2


@needs("memory")
def test_page_cache_counts_and_cannot_be_more_than_the_limit(context: KnobContext):
    """Also what was in the page cache before: it is charged to the group as soon as it is read again."""
    file = Path(context.directory, "data")
    file.write_bytes(os.urandom(24 << 20))

    async def read_all() -> int:
        entries = await turn(context, {"memory": "16MB"})
        (group,) = KNOB.groups(context, {"memory": "16MB"})
        try:
            process = await context.host.start(
                ["dd", f"if={file}", "of=/dev/null", "bs=64k"], role="test", groups=(group,)
            )
            assert await process.wait() == 0
            stat = dict(line.split() for line in Path(group, "memory.stat").read_text().splitlines())
            return int(stat.get("cache", stat.get("file", 0)))
        finally:
            await turn_back(context, entries)

    assert 8 << 20 < asyncio.run(read_all()) <= 16 << 20


@needs("memory")
def test_a_group_that_stands_still_keeps_its_pages_while_another_one_reclaims(context: KnobContext):
    """By which arms with groups of their own can take turns; what pgtrial has copied is charged to them, too."""
    contexts = []
    for number in range(2):
        directory = Path(context.directory, str(number))
        directory.mkdir()
        (directory / "data").write_bytes(os.urandom(48 << 20))
        at = str(directory)
        contexts.append(replace(context, token=f"{context.token}{number}", directory=at, data=at, wal=at))
    wanted = {"memory": "32MB"}

    async def read(own: KnobContext) -> None:
        argv = ["dd", f"if={own.directory}/data", "of=/dev/null", "bs=64k"]
        process = await own.host.start(argv, role="test", groups=KNOB.groups(own, wanted))
        assert await process.wait() == 0

    def cached(own: KnobContext) -> int:
        (group,) = KNOB.groups(own, wanted)
        stat = dict(line.split() for line in Path(group, "memory.stat").read_text().splitlines())
        return int(stat.get("cache", stat.get("file", 0)))

    async def take_turns() -> tuple[int, int, int]:
        entries = [await turn(own, wanted) for own in contexts]
        try:
            await read(contexts[0])
            before = cached(contexts[0])
            for _ in range(4):  # six times what the other group may have
                await read(contexts[1])
            return before, cached(contexts[0]), cached(contexts[1])
        finally:
            for own, made in zip(contexts, entries, strict=True):
                await turn_back(own, made)

    before, after, others = asyncio.run(take_turns())

    assert 24 << 20 < before <= 32 << 20
    assert after >= before - (1 << 20)  # other programs of the machine may want a little
    assert 24 << 20 < others <= 32 << 20


@needs("memory")
def test_process_that_the_kernel_ends_for_want_of_memory_is_noticed(context: KnobContext):
    async def too_much() -> tuple[int, str]:
        locked = "import ctypes; ctypes.CDLL(None).mlockall(3)"  # else a machine with swap would make room
        entries = await turn(context, {"memory": "32MB"})
        try:
            process = await context.host.start(
                [sys.executable, "-I", "-S", "-c", f"{locked}; b'x' * (64 << 20)"],
                role="test",
                groups=KNOB.groups(context, {"memory": "32MB"}),
            )
            status = await process.wait()
            return status, await KNOB.still_applied(context.host, entries[-1])
        finally:
            await turn_back(context, entries)

    status, problem = asyncio.run(too_much())

    assert status == -signal.SIGKILL
    assert problem == "The kernel ended 1 of the server's processes for want of memory in its group."


@needs("cpu")
@pytest.mark.parametrize("confirmed", [True, False])
def test_undoing_ends_what_still_runs_in_the_group(context: KnobContext, confirmed: bool):
    async def undone() -> tuple[list[Outcome], int]:
        entries = await turn(context, {"cpus": "1"})
        (group,) = KNOB.groups(context, {"cpus": "1"})
        process = await context.host.start(["sleep", "60"], role="test", groups=(group,))
        await reached(Path(group, "cgroup.procs").read_text)
        if not confirmed:
            entries = [replace(each, got=None) for each in entries]
        try:
            outcomes = await turn_back(context, entries)
        finally:
            status = await end_process(process)
        return outcomes, status

    outcomes, status = asyncio.run(undone())

    assert set(outcomes) == {Outcome.RESTORED}
    assert status == -signal.SIGKILL


@needs("memory", "cpu", "io")
def test_server_of_another_host_is_limited_alike(context: KnobContext, remote: SshHost, runner: asyncio.Runner):
    there = replace(context, host=remote)
    wanted = {"memory": "1GB", "cpus": "1", "read_iops": "500"}

    async def there_and_back() -> tuple[list[bool], list[Outcome]]:
        entries = await turn(there, wanted)
        groups = KNOB.groups(there, wanted)
        completed = await remote.start(["cat"], role="test", groups=groups, stdin=asyncio.subprocess.PIPE)
        await reached(lambda: all(Path(group, "cgroup.procs").read_text() for group in groups))
        outcomes = await turn_back(there, entries)
        assert await completed.wait() == -signal.SIGKILL
        return [Path(group).exists() for group in groups], outcomes

    left, outcomes = runner.run(there_and_back())

    assert not any(left)
    assert set(outcomes) == {Outcome.RESTORED}


@needs("cpu")
def test_undoing_does_not_wait_for_what_nobody_waits_for(context: KnobContext):
    """A process that has ended stays a member's name until its parent asks, but does not keep the group."""
    entries = asyncio.run(turn(context, {"cpus": "1"}))
    (group,) = KNOB.groups(context, {"cpus": "1"})
    code = "import sys, os; open(sys.argv[1] + '/cgroup.procs', 'w').write('0'); os.execvp('sleep', ['sleep', '60'])"
    with subprocess.Popen([sys.executable, "-c", code, group]) as process:
        wait_until(Path(group, "cgroup.procs").read_text)
        outcomes = asyncio.run(turn_back(context, entries))
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    assert set(outcomes) == {Outcome.RESTORED}
    assert state == "Z"
    assert not Path(group).exists()


@needs("memory", "cpu")
@pytest.mark.parametrize("steps", range(6))
def test_pgtrial_killed_at_any_step_is_undone_from_unconfirmed_entries(context: KnobContext, steps: int, forked):
    """The child process is killed at its ``steps``-th call that changes something."""
    wanted = {"memory": "1GB", "cpus": "1"}

    class Deadly(Operations):
        left = steps

        def count(self) -> None:
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1

        def write(self, path: str, text: str) -> None:
            self.count()
            super().write(path, text)

        def make_directory(self, *arguments: Any, **options: Any) -> None:
            self.count()
            super().make_directory(*arguments, **options)

    async def make() -> None:
        deadly = KnobContext(host=LocalHost(ops=Deadly()), token=context.token, directory="/var/tmp")
        for change in await Cgroup().plan(deadly, wanted):
            await Cgroup().apply(deadly, change)

    changes = asyncio.run(KNOB.plan(context, wanted))
    with forked(lambda: asyncio.run(make())) as process:
        status = process.wait()

    assert status in (0, -signal.SIGKILL)
    assert (status == 0) == (steps >= sum(len(change.new) for change in changes))
    outcomes = asyncio.run(turn_back(context, [entry(change, None) for change in changes]))
    assert set(outcomes) <= {Outcome.RESTORED, Outcome.ALREADY}
    assert (Outcome.RESTORED in outcomes) == (steps > 0)
    assert not any(Path(found.mount, f"pgtrial-{context.token}").exists() for found in hierarchies(OPS))


@needs("memory", "io")
def test_server_and_all_its_processes_run_in_the_group(
    programs: Programs,
    runner: asyncio.Runner,
    run_cluster: Callable[..., AbstractContextManager[ThrowawayCluster]],
    context: KnobContext,
):
    wanted = {"memory": "512MB", "read_iops": "1000"}

    async def restarted(cluster: ThrowawayCluster) -> tuple[list[JournalEntry], set[int], set[int]]:
        await cluster.stop(immediate=True)
        place = replace(context, host=cluster.host, directory=str(cluster.directory), data=str(cluster.data))
        entries = await turn(place, wanted)
        (group, *others) = KNOB.groups(place, wanted)
        await cluster.start(groups=(group, *others))
        assert cluster.process is not None
        children = Path(f"/proc/{cluster.process.pid}/task/{cluster.process.pid}/children").read_text().split()
        inside = set(map(int, Path(group, "cgroup.procs").read_text().split()))
        for other in others:
            assert inside <= set(map(int, Path(other, "cgroup.procs").read_text().split()))
        # A process that has ended since it was listed is no member any more.
        lasting = {pid for pid in (cluster.process.pid, *map(int, children)) if OPS.start_ticks(pid) is not None}
        return entries, inside, lasting

    with run_cluster(programs, runner, place=DISK) as cluster:
        entries, inside, expected = runner.run(restarted(cluster))
        os.kill(cluster.process.pid, signal.SIGKILL)
        outcomes = runner.run(turn_back(context, entries))

    assert len(expected) > 3
    assert expected <= inside
    assert set(outcomes) == {Outcome.RESTORED}


@pytest.mark.skipif(
    not any(found.version == 2 and "hugetlb" in found.controllers for found in hierarchies(OPS))
    or "hugetlb" not in controllers_here(),
    reason="no version 2 of control groups whose controllers we may enable",
)
def test_controllers_of_version_2_on_this_kernel(context: KnobContext):
    """With a controller that nobody else uses; the kernel treats all alike."""
    (mount,) = (found.mount for found in hierarchies(OPS) if found.version == 2)
    path = f"{mount}/cgroup.subtree_control"
    old = OPS.read(path).strip()
    assert "hugetlb" not in old.split()
    new = f"{old} hugetlb".strip()
    change = Change(knob="cgroup", name="controllers", old={path: old}, new={path: new}, old_text="", new_text="")
    try:
        got = asyncio.run(KNOB.apply(context, change))
        enabled = OPS.read(path).strip()
        undone = asyncio.run(KNOB.undo(context.host, entry(change, got)))
        left = OPS.read(path).strip()
    finally:
        if "hugetlb" in OPS.read(path).split():
            OPS.write(path, "-hugetlb")

    assert enabled == new
    assert (undone.outcome, left) == (Outcome.RESTORED, old)
