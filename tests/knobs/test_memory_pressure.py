import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgtrial.errors import SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.ssh.host import SshHost
from pgtrial.knobs.base import KnobContext
from pgtrial.knobs.memory_pressure import _HOLD, MemoryPressure, taken_memory
from pgtrial.model.change import Change, JournalEntry, Outcome
from support import wait_until

KNOB = MemoryPressure()
OPS = Operations()
needs_locking = pytest.mark.skipif(os.geteuid() != 0, reason="locking 64 MB of memory needs root")


class Told(Operations):
    """A host whose files say what a test wants."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def read(self, path: str, limit: int | None = None) -> str:
        return self.files[path] if path in self.files else super().read(path, limit)


def told(**values: str) -> LocalHost:
    files = {
        "/proc/meminfo": f"MemTotal: 16777216 kB\nMemAvailable: {values.get('available', '8388608')} kB\n",
        "/proc/self/status": f"CapEff:\t{values.get('capabilities', '000001ffffffffff')}\n",
        "/proc/self/limits": "Limit  Soft Limit  Hard Limit  Units\n"
        f"Max locked memory         {values.get('locked', '8388608')}              8388608              bytes\n",
    }
    return LocalHost(ops=Told(files))


def context(host: Host | None = None) -> KnobContext:
    return KnobContext(host=host or LocalHost(), token="test", directory="/tmp")


def entry(change: Change, got: Mapping[str, str] | None, *, boot: str | None = None) -> JournalEntry:
    return JournalEntry(
        id=1, t=0.0, host="local", boot_id=boot or OPS.boot_id(), folder="f", run=1, change=change, got=got
    )


def plan(wanted: Mapping[str, str], host: LocalHost | None = None) -> Change:
    change, *_ = asyncio.run(KNOB.plan(context(host), wanted))  # the limit of dirty pages, too
    return change


@pytest.fixture
def change() -> Iterator[Change]:
    """64 MB to take away; whatever holds it at the end of the test is ended."""
    change = plan({"size": "64MB"}, told())
    yield change
    for pid, ticks in OPS.find_argument(change.new["token"]):
        OPS.signal(pid, ticks, signal.SIGKILL)


def gone(token: str) -> bool:
    return wait_until(lambda: not OPS.find_argument(token))


# -- what is planned


def test_size_is_planned_in_whole_pages():
    change = plan({"size": "100000000B"}, told())

    assert int(change.new["bytes"]) == 100000000 // OPS.page_size() * OPS.page_size()
    assert (change.old, change.old_text, change.new_text) == ({}, "none", "95.4 MB")


def test_share_is_of_the_memory_that_is_available_and_shown_as_a_size():
    change = plan({"share": "0.5"}, told(available="8388608"))

    assert change.new["bytes"] == str(4 << 30)
    assert change.new_text == "4 GB (50 % of 8 GB available)"


def test_all_but_what_is_left_is_taken_away():
    change = plan({"leave": "734MB"}, told(available="8388608"))

    assert change.new["bytes"] == str((8 << 30) - (734 << 20))
    assert change.new_text == "7.28 GB (all but 734 MB of 8 GB available)"


def test_more_cannot_be_left_than_there_is():
    with pytest.raises(SettingError, match="cannot leave 9 GB of memory, only 8 GB are available"):
        plan({"leave": "9GB"}, told(available="8388608"))


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ({}, 0.0),
        ({"size": "1GB"}, 2**30),
        ({"share": "0.25"}, 2**30),
        ({"leave": "1GB"}, 3 * 2**30),
        ({"leave": "9GB"}, 0),
    ],
)
def test_what_is_taken_is_known_before_anything_is(wanted, taken):
    assert taken_memory(wanted, 4 * 2**30) == taken


def test_no_share_is_no_change():
    assert asyncio.run(KNOB.plan(context(), {"share": "0.0"})) == ()


def test_two_changes_are_told_apart():
    assert plan({"size": "1MB"}).new["token"] != plan({"size": "1MB"}).new["token"]


@pytest.mark.parametrize("wanted", [{"size": "8GB"}, {"share": "0.99"}, {"size": "1TB"}])
def test_more_than_there_is_is_refused_with_what_there_is(wanted: Mapping[str, str]):
    with pytest.raises(SettingError, match="only 8 GB are available") as caught:
        plan(wanted, told())

    assert caught.value.detail == "256 MB of them are kept for the server's start."


@pytest.mark.parametrize("name", ["memory.max", "memory.high"])
def test_limit_of_pgtrials_own_control_group_is_known_before_the_kernel_ends_all_of_it(tree, name: str):
    tree.add(
        {
            "/proc/meminfo": "MemAvailable: 67108864 kB\n",
            "/proc/self/status": "CapEff:\t000001ffffffffff\n",
            "/proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "/proc/self/cgroup": "0::/system.slice/job.service\n",
            "/sys/fs/cgroup/cgroup.controllers": "cpu io memory\n",
            f"/sys/fs/cgroup/system.slice/job.service/{name}": f"{4 << 30}\n",
        }
    )
    host = LocalHost(ops=tree)

    with pytest.raises(SettingError, match=r"the control group of pgtrial may have 4 GB") as caught:
        plan({"share": "50%"}, host)

    assert f"/system.slice/job.service/{name}" in caught.value.detail
    assert plan({"size": "3GB"}, host).new["bytes"] == str(3 << 30)


def test_limit_of_locked_memory_is_known_before_anything_is_started():
    with pytest.raises(SettingError, match="cannot lock 64 MB of memory, the limit is 8 MB") as caught:
        plan({"size": "64MB"}, told(capabilities="0000000000000000"))

    assert "ulimit -l" in caught.value.hint


@pytest.mark.parametrize("values", [{"locked": "unlimited"}, {"locked": str(1 << 30)}])
def test_user_who_may_lock_as_much_needs_not_be_root(values: Mapping[str, str]):
    assert plan({"size": "64MB"}, told(capabilities="0", **values)).new["bytes"] == str(64 << 20)


# -- what is done


@needs_locking
def test_memory_is_locked_and_given_back(change: Change):
    async def there_and_back() -> None:
        got = await KNOB.apply(context(), change)
        pid = int(got["pid"])

        assert f"VmLck:\t   {64 << 10} kB" in Path(f"/proc/{pid}/status").read_text()
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
        assert got["bytes"] == change.new["bytes"] == str(64 << 20)
        assert await KNOB.still_applied(LocalHost(), entry(change, got)) == ""

        assert (await KNOB.undo(LocalHost(), entry(change, got))).outcome is Outcome.RESTORED
        assert not Path(f"/proc/{pid}").exists()
        assert (await KNOB.undo(LocalHost(), entry(change, got))).outcome is Outcome.ALREADY

    asyncio.run(there_and_back())


@needs_locking
def test_undoing_leaves_no_open_files_and_no_children(change: Change):
    async def several() -> tuple[int, int]:
        counts = []
        for _ in range(3):
            got = await KNOB.apply(context(), change)
            await KNOB.undo(LocalHost(), entry(change, got))
            counts.append(len(list(Path("/proc/self/fd").iterdir())))
            with pytest.raises(ChildProcessError):
                os.waitpid(int(got["pid"]), os.WNOHANG)
        return counts[0], counts[-1]

    first, last = asyncio.run(several())

    assert last <= first


@needs_locking
def test_entry_that_was_not_confirmed_finds_the_process(change: Change):
    async def undone_early() -> None:
        got = await KNOB.apply(context(), change)

        assert (await KNOB.undo(LocalHost(), entry(change, None))).outcome is Outcome.RESTORED
        assert not Path(f"/proc/{got['pid']}").exists()

    asyncio.run(undone_early())


def test_entry_whose_change_was_never_made_is_as_before(change: Change):
    assert asyncio.run(KNOB.undo(LocalHost(), entry(change, None))).outcome is Outcome.ALREADY


def test_reboot_has_ended_it(change: Change):
    assert asyncio.run(KNOB.undo(LocalHost(), entry(change, None, boot="other"))).outcome is Outcome.REBOOTED


def test_pid_of_somebody_else_is_not_ended(change: Change):
    """The process has ended, and another one has its pid now."""
    got = {**change.new, "pid": str(os.getpid()), "start_ticks": "1"}

    assert asyncio.run(KNOB.undo(LocalHost(), entry(change, got))).outcome is Outcome.ALREADY


@needs_locking
def test_process_that_the_kernel_ends_is_noticed(change: Change):
    async def ended() -> str:
        got = await KNOB.apply(context(), change)
        os.kill(int(got["pid"]), signal.SIGKILL)
        await asyncio.sleep(0.1)
        assert (await KNOB.undo(LocalHost(), entry(change, got))).outcome is Outcome.ALREADY
        return await KNOB.still_applied(LocalHost(), entry(change, got))

    assert asyncio.run(ended()) == "Of 64 MB of memory taken away, 0 B are held now."


@needs_locking
def test_undoing_does_not_wait_for_what_nobody_waits_for(change: Change, forked: Any):
    """A killed process whose parent hangs stays in the process table, without memory."""

    def hold() -> None:
        command = [sys.executable, "-c", _HOLD, str(64 << 20), change.new["token"]]
        held = subprocess.Popen(command, stdout=subprocess.PIPE)
        held.stdout.readline()
        print(held.pid)
        time.sleep(60)

    with forked(hold) as parent:
        pid = int(parent.printed.readline())
        try:
            started = time.monotonic()
            undone = asyncio.run(KNOB.undo(LocalHost(), entry(change, None)))
            took = time.monotonic() - started
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        finally:
            parent.kill()

    assert undone.outcome is Outcome.RESTORED
    assert state == "Z"
    assert took < 30  # of the 60 s that its parent lives on


@needs_locking
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_pgtrial_leaves_no_process(number: signal.Signals, forked: Any):
    async def hold() -> None:
        context = KnobContext(host=LocalHost(), token="test", directory="/tmp")
        change, *_ = await KNOB.plan(context, {"size": "64MB"})
        await KNOB.apply(context, change)
        print(change.new["token"])
        await asyncio.sleep(60)

    with forked(lambda: asyncio.run(hold())) as parent:
        token = parent.printed.readline().strip()
        there = OPS.find_argument(token)
        parent.kill(number)

    assert len(there) == 1
    assert gone(token)


@needs_locking
def test_memory_of_another_host_is_taken_and_given_back(remote: SshHost, runner: asyncio.Runner):
    async def there_and_back() -> None:
        change, *_ = await KNOB.plan(context(remote), {"size": "64MB"})
        got = await KNOB.apply(context(remote), change)

        assert len(OPS.find_argument(change.new["token"])) == 1
        assert await KNOB.still_applied(remote, entry(change, got)) == ""
        assert (await KNOB.undo(remote, entry(change, None))).outcome is Outcome.RESTORED
        assert OPS.find_argument(change.new["token"]) == []

    runner.run(there_and_back())


@needs_locking
def test_memory_of_another_host_is_given_back_with_the_connection(remote: SshHost, runner: asyncio.Runner):
    change, *_ = runner.run(KNOB.plan(context(remote), {"size": "64MB"}))
    runner.run(KNOB.apply(context(remote), change))
    there = OPS.find_argument(change.new["token"])

    runner.run(remote.close())

    assert len(there) == 1
    assert gone(change.new["token"])


SLOW = "import time\nprint(4096, flush=True)\ntime.sleep(60)\n"


def test_cancelled_change_leaves_no_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pgtrial.knobs.memory_pressure._HOLD", SLOW)
    change = plan({"size": "64MB"}, told())

    async def cancelled() -> None:
        started = asyncio.Event()
        host = LocalHost(on_start=lambda _process, _role: started.set())
        task = asyncio.create_task(KNOB.apply(context(host), change))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())

    assert OPS.find_argument(change.new["token"]) == []


def test_kernel_that_finds_no_more_memory_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pgtrial.knobs.memory_pressure._HOLD", SLOW)
    monkeypatch.setattr("pgtrial.knobs.memory_pressure._PATIENCE", 0.5)
    change = plan({"size": "64MB"}, told())

    with pytest.raises(SettingError, match="cannot take 64 MB of memory away, got 4 kB") as caught:
        asyncio.run(KNOB.apply(context(), change))

    assert caught.value.detail == "The process that holds it said: nothing for 0.5 s."
    assert OPS.find_argument(change.new["token"]) == []


@needs_locking
def test_what_the_kernel_refuses_is_an_error_with_asked_and_got():
    """The limit is lower than it was when the change was planned."""
    planned = plan({"size": "64MB"})
    change = replace(planned, new={**planned.new, "bytes": str(256 << 40)})

    with pytest.raises(SettingError, match="cannot take 256 TB of memory away, got 0 B") as caught:
        asyncio.run(KNOB.apply(context(), change))

    assert "Cannot allocate memory" in caught.value.detail
    assert OPS.find_argument(change.new["token"]) == []


def test_user_without_the_right_gets_an_error_with_the_words_of_the_process():
    """With a planned size that the limit of locked memory does not allow."""
    if os.geteuid() != 0:
        pytest.skip("only root can take its own right to lock memory away")
    change = plan({"size": "64MB"})
    code = (
        "import asyncio, resource\n"
        "from pgtrial.errors import SettingError\n"
        "from pgtrial.hosts.local import LocalHost\n"
        "from pgtrial.knobs.base import KnobContext\n"
        "from pgtrial.knobs.memory_pressure import MemoryPressure\n"
        "from pgtrial.model.change import Change\n"
        "async def main():\n"
        "    context = KnobContext(host=LocalHost(), token='test', directory='/tmp')\n"
        "    try:\n"
        "        await MemoryPressure().plan(context, {'size': '64MB'})\n"
        "    except SettingError as err:\n"
        "        print(err.message)\n"
        f"    change = {change!r}\n"
        "    try:\n"
        "        await MemoryPressure().apply(context, change)\n"
        "    except SettingError as err:\n"
        "        print(err.message, err.detail)\n"
        "asyncio.run(main())\n"
    )
    command = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=1048576:1048576"]
    completed = subprocess.run(
        [*command, sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=30
    )

    assert completed.stderr == ""
    assert completed.stdout == (
        "cannot lock 64 MB of memory, the limit is 1 MB\n"
        "cannot take 64 MB of memory away, got 0 B "
        "The process that holds it said: [Errno 12] mlock: Cannot allocate memory.\n"
    )
