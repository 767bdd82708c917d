"""What tests of knobs share: a context, the journal's entry of a change, and files of the kernel that have effects."""

import asyncio
import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.ssh.host import SshHost
from pgtrial.knobs.base import HostKnob, KnobContext
from pgtrial.model.change import Change, JournalEntry


class Bench:
    """Plan, apply and undo on one host, as the engine does it; ``entries`` is the journal."""

    def __init__(self, knob: HostKnob, ops: Operations, directory: str) -> None:
        self.knob, self.host = knob, LocalHost(ops=ops)
        self.context = KnobContext(host=self.host, token="token", directory=directory)
        self.entries: list[JournalEntry] = []

    def plan(self, wanted: Mapping[str, str]) -> list[Change]:
        return list(asyncio.run(self.knob.plan(self.context, wanted)))

    def begin(self, change: Change) -> JournalEntry:
        self.entries.append(self.entry(change, None))
        return self.entries[-1]

    def entry(self, change: Change, got: Mapping[str, str] | None) -> JournalEntry:
        return JournalEntry(
            id=len(self.entries) + 1,
            t=0.0,
            host="local",
            boot_id=self.host.ops.boot_id(),
            folder="/results",
            run=1,
            change=change,
            got=got,
        )

    def apply(self, wanted: Mapping[str, str]) -> list[JournalEntry]:
        """Confirmed entries. A change whose making fails stays in ``entries`` unconfirmed."""
        for change in self.plan(wanted):
            self.begin(change)
            got = asyncio.run(self.knob.apply(self.context, change))
            self.entries[-1] = self.entry(change, got)
        return self.entries

    def undo(self, entry: JournalEntry | None = None):
        """Undo one entry, or all, the last one first; the outcome of the last that was undone."""
        undone = None
        for each in reversed(self.entries if entry is None else [entry]):
            undone = asyncio.run(self.knob.undo(self.host, each))
        return undone


@pytest.fixture(scope="session")
def bench() -> Callable[..., Bench]:
    return lambda knob, ops, directory="/data": Bench(knob, ops, directory)


@pytest.fixture
def remote(sshd, monkeypatch: pytest.MonkeyPatch, runner: asyncio.Runner) -> Iterator[SshHost]:
    """This machine, reached by ssh."""
    monkeypatch.setenv("PGTRIAL_SSH", sshd.ssh())
    host = runner.run(SshHost.open(sshd.address))
    yield host
    runner.run(host.close())


@dataclass(kw_only=True)
class Forked:
    """A process of a test's own, and what it prints."""

    pid: int
    printed: IO[str]
    status: int | None = None  # as of subprocess

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.status is None:
            os.kill(self.pid, number)
            self.wait()

    def wait(self) -> int:
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status


@contextmanager
def _forked(work: Callable[[], None]) -> Iterator[Forked]:
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            sys.stdout = os.fdopen(writable, "w", buffering=1)
            work()
            sys.stdout.flush()
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(status)
    os.close(writable)
    with os.fdopen(readable) as printed:
        process = Forked(pid=pid, printed=printed)
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="session")
def forked() -> Callable[..., AbstractContextManager[Forked]]:
    """Context manager ``forked(work)``: a process that does the work, forked from this one, which has imported
    everything; at the end it is killed.
    """
    return _forked


@pytest.fixture
def own_kernel(settled_kernel: Callable[..., AbstractContextManager[None]]) -> Iterator[None]:
    """For a test that changes what holds for all of the machine: until its end nobody else does, or relies on it."""
    with settled_kernel(changing=True):
        yield


@pytest.fixture
def kept(own_kernel: None) -> Iterator[Callable[..., None]]:
    """``kept(path, …)``: values of the real kernel that are written back, in this order, after the test."""
    old: dict[str, str] = {}

    def keep(*paths: str, brackets: bool = False) -> None:
        for path in paths:
            text = Path(path).read_text().strip()
            old[path] = text.partition("[")[2].partition("]")[0] if brackets else text

    yield keep
    for path, value in old.items():
        if _value(path) != value:
            Path(path).write_text(f"{value}\n")
    assert {path: _value(path) for path in old} == old


def _value(path: str) -> str:
    text = Path(path).read_text().strip()
    return text.partition("[")[2].partition("]")[0] if "[" in text else text


@pytest.fixture(scope="session")
def add_pair() -> Callable[..., None]:
    """Adds a pair of settings of which one is in force, with the least that the absolute one may be."""

    def add(tree, ratio: str, absolute: str, *, least: int = 8192, values: tuple[str, str] = ("20", "0")) -> None:
        def write_ratio(text: str) -> None:
            changed = text != tree.read(ratio).strip()
            tree.add({ratio: f"{text}\n"})
            if changed:  # as in dirty_ratio_handler of mm/page-writeback.c
                tree.add({absolute: "0\n"})

        def write_absolute(text: str) -> None:
            if int(text) < least:
                raise OSError(errno.EINVAL, "Invalid argument")
            tree.add({ratio: "0\n", absolute: f"{text}\n"})

        tree.add({ratio: f"{values[0]}\n", absolute: f"{values[1]}\n"})
        tree.on_write |= {ratio: write_ratio, absolute: write_absolute}

    return add


@pytest.fixture(scope="session")
def add_disk() -> Callable[..., str]:
    """Adds a whole disk with a queue; the directory of the device in /sys."""
    return _add_disk


def _add_disk(tree, name: str, *, schedulers: str = "[none] mq-deadline bfq", wbt: bool = True) -> str:
    device = f"/sys/devices/virtual/block/{name}"
    queue = f"{device}/queue"
    tree.add({f"{device}/size": "2048\n", f"{queue}/read_ahead_kb": "128\n"})
    tree.link(f"/sys/block/{name}", device)
    tree.link(f"/sys/class/block/{name}", device)
    tree.add(
        {
            f"{queue}/scheduler": f"{schedulers}\n",
            f"{queue}/nr_requests": "128\n",
            f"{queue}/max_sectors_kb": "1280\n",
            f"{queue}/max_hw_sectors_kb": "4096\n",
        }
    )
    if wbt:
        tree.add({f"{queue}/wbt_lat_usec": "2000\n"})

    def write_scheduler(text: str) -> None:
        words = [word.strip("[]") for word in tree.read(f"{queue}/scheduler").split()]
        if text not in words:
            raise OSError(errno.EINVAL, "Invalid argument")
        listed = " ".join(f"[{word}]" if word == text else word for word in words)
        files = {"scheduler": listed, "nr_requests": "128" if text == "none" else "256"}
        if wbt:
            files["wbt_lat_usec"] = "0" if text == "bfq" else "2000"
        tree.add({f"{queue}/{attribute}": f"{value}\n" for attribute, value in files.items()})

    def write_requests(text: str) -> None:
        if int(text) > 1024:
            raise OSError(errno.EINVAL, "Invalid argument")
        tree.add({f"{queue}/nr_requests": f"{max(int(text), 4)}\n"})

    def write_throttling(text: str) -> None:
        tree.add({f"{queue}/wbt_lat_usec": f"{75000 if text == '-1' else text}\n"})

    def write_most(text: str) -> None:
        if not 4 <= int(text) <= 4096:
            raise OSError(errno.EINVAL, "Invalid argument")
        ahead = max(int(tree.read(f"{queue}/read_ahead_kb")), 128)
        tree.add({f"{queue}/max_sectors_kb": f"{text}\n", f"{queue}/read_ahead_kb": f"{ahead}\n"})

    def write_ahead(text: str) -> None:
        tree.add({f"{queue}/read_ahead_kb": f"{int(text) // 4 * 4}\n"})

    effects = {
        "scheduler": write_scheduler,
        "nr_requests": write_requests,
        "wbt_lat_usec": write_throttling,
        "max_sectors_kb": write_most,
        "read_ahead_kb": write_ahead,
    }
    tree.on_write |= {f"/sys/block/{name}/queue/{attribute}": effect for attribute, effect in effects.items()}
    return device
