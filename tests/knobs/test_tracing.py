"""Tracefs is simulated: a directory in which making an instance makes its files, as the kernel does."""

import errno
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.collectors.throttling import COLLECTOR, parse
from pgtrial.errors import SettingError
from pgtrial.hosts.linux.mounts import mount_at
from pgtrial.hosts.operations import Operations
from pgtrial.knobs import tracing
from pgtrial.knobs.tracing import Tracing
from pgtrial.model.change import Outcome
from pgtrial.model.tracing import EVENT, FILTER, INSTANCE, TRACEFS
from support.killing import KILLS, MOMENTS, run_killed

ROOT = TRACEFS
# TRIGGER as the kernel shows it (event_hist_trigger_print in kernel/trace/trace_events_hist.c).
SHOWN = f"hist:keys=bdi:vals=hitcount,pause:sort=hitcount:size=2048 if {FILTER} [active]\n"


class Tracefs(Operations):
    """``root`` stands for /sys/kernel/tracing; ``refuses``: the kernel does not take what is written.

    ``has_histograms``: an event's directory in an instance has the file of the histogram. Without ``is_mounted`` the
    directory has nothing in it until tracefs is mounted there.
    """

    def __init__(
        self,
        root: Path,
        *,
        refuses: bool = False,
        has_histograms: bool = True,
        is_mounted: bool = True,
        uid: int = 0,
        may_mount: bool = True,
    ) -> None:
        self.root, self.refuses, self.has_histograms = root, refuses, has_histograms
        self.is_mounted, self.uid, self.was_unmounted, self.may_mount = is_mounted, uid, False, may_mount

    def _at(self, path: str) -> str:
        return path.replace(ROOT, str(self.root)) if path.startswith(ROOT) else path

    def user(self) -> int:
        return self.uid

    def mount(self, source: str, path: str, kind: str, flags: int, options: str) -> None:
        assert (path, kind) == (ROOT, "tracefs")
        if not self.may_mount:
            raise PermissionError(1, "Operation not permitted", path)
        self.is_mounted = True

    def unmount(self, path: str, detach: bool = False) -> None:
        assert path == ROOT
        self.is_mounted, self.was_unmounted = False, True

    def exists(self, path: str) -> bool:
        return (self.is_mounted or not path.startswith(ROOT)) and super().exists(self._at(path))

    def is_writable(self, path: str) -> bool:
        return super().is_writable(self._at(path))

    def read(self, path: str, limit: int | None = None) -> str:
        if path == "/proc/self/mountinfo":
            return f"30 20 0:12 / {ROOT} rw - tracefs tracefs rw\n" if self.is_mounted else ""
        if path == "/proc/filesystems":
            return "nodev\ttracefs\n\text4\n"
        return super().read(self._at(path), limit)

    def make_directory(
        self, path: str, owner: tuple[int, int] | None = None, mode: int = 0o700, parents: bool = False
    ) -> None:
        super().make_directory(self._at(path), owner, mode, parents)
        event = Path(self._at(path)) / EVENT
        event.mkdir(parents=True)
        (event / "trigger").write_text("# Available triggers:\n")
        (event / "enable").write_text("0\n")
        if self.has_histograms:
            (event / "hist").write_text("")

    def write(self, path: str, text: str) -> None:
        if not path.startswith(ROOT):
            super().write(path, text)
        elif self.refuses:
            raise OSError(22, "Invalid argument")
        elif path.endswith("/trigger"):
            kept = "# Available triggers:\n" if text.startswith("!") else SHOWN
            Path(self._at(path)).write_text(kept)
        else:
            Path(self._at(path)).write_text(text)

    def remove_directory(self, path: str) -> None:
        instance = Path(self._at(path))
        for file in sorted(instance.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        super().remove_directory(str(instance))


@pytest.fixture
def tracefs(tmp_path: Path) -> Path:
    (tmp_path / EVENT).mkdir(parents=True)
    (tmp_path / "instances").mkdir()
    return tmp_path


def test_pauses_are_counted_and_nothing_is_left(bench, tracefs: Path) -> None:
    ops = Tracefs(tracefs)
    table = bench(Tracing(), ops)

    (entry,) = table.apply({"throttling": "required"})

    assert entry.got == entry.change.new
    assert ops.read(f"{INSTANCE}/{EVENT}/trigger") == SHOWN
    assert table.undo().outcome is Outcome.RESTORED
    assert list((tracefs / "instances").iterdir()) == []
    assert table.undo().outcome is Outcome.ALREADY
    assert not ops.was_unmounted


def test_a_kernel_without_histograms_keeps_the_events_of_pauses_and_nothing_else(bench, tracefs: Path) -> None:
    ops = Tracefs(tracefs, has_histograms=False)
    table = bench(Tracing(), ops)

    (entry,) = table.apply({"throttling": "required"})

    assert entry.got == entry.change.new
    assert ops.read(f"{INSTANCE}/{EVENT}/filter").strip() == FILTER
    assert ops.read(f"{INSTANCE}/{EVENT}/enable").strip() == "1"
    assert table.undo().outcome is Outcome.RESTORED
    assert list((tracefs / "instances").iterdir()) == []


def test_tracefs_that_nobody_has_mounted_is_mounted_for_the_run(bench, tracefs: Path) -> None:
    ops = Tracefs(tracefs, is_mounted=False)
    table = bench(Tracing(), ops)

    (change,) = table.plan({"throttling": "if-possible"})
    assert not ops.is_mounted
    assert change.old == {TRACEFS: "not mounted"}
    (entry,) = table.apply({"throttling": "if-possible"})

    assert ops.is_mounted
    assert entry.got == entry.change.new
    assert table.undo().outcome is Outcome.RESTORED
    assert not ops.is_mounted
    assert table.undo().outcome is Outcome.ALREADY


def test_what_was_begun_and_not_confirmed_is_undone(bench, tracefs: Path) -> None:
    ops = Tracefs(tracefs, refuses=True, is_mounted=False)
    table = bench(Tracing(), ops)

    with pytest.raises(SettingError, match="cannot be counted here"):
        table.apply({"throttling": "required"})

    ops.refuses = False
    assert table.undo().outcome is Outcome.RESTORED
    assert list((tracefs / "instances").iterdir()) == []
    assert not ops.is_mounted


@pytest.mark.parametrize("is_mounted", [True, False])
def test_a_kernel_that_refuses_is_an_error_only_for_the_one_who_requires_it(
    bench, tracefs: Path, runner, is_mounted: bool
) -> None:
    ops = Tracefs(tracefs, refuses=True, is_mounted=is_mounted)
    table = bench(Tracing(), ops)

    (entry,) = table.apply({"throttling": "if-possible"})

    assert entry.got[INSTANCE].startswith("not counted: The kernel refuses")
    assert ops.is_mounted == is_mounted
    assert runner.run(Tracing().still_applied(table.host, entry)) == ""
    assert table.undo().outcome in (Outcome.ALREADY, Outcome.RESTORED)
    assert list((tracefs / "instances").iterdir()) == []


def test_a_container_in_which_root_may_not_mount_is_no_error_where_it_is_not_required(bench, tracefs: Path) -> None:
    ops = Tracefs(tracefs, is_mounted=False, may_mount=False)
    table = bench(Tracing(), ops)

    (entry,) = table.apply({"throttling": "if-possible"})

    assert entry.got[INSTANCE].startswith("not counted: ")
    assert table.undo().outcome is Outcome.ALREADY
    with pytest.raises(SettingError, match="cannot be counted here"):
        bench(Tracing(), ops).apply({"throttling": "required"})


def test_a_trigger_that_the_kernel_does_not_show_afterwards_is_an_error(bench, tracefs: Path, monkeypatch) -> None:
    monkeypatch.setitem(Tracefs.write.__globals__, "SHOWN", "# Available triggers:\n")

    with pytest.raises(SettingError, match="cannot be counted here"):
        bench(Tracing(), Tracefs(tracefs)).apply({"throttling": "required"})


def test_without_the_tracepoint_only_the_one_who_requires_it_is_refused(bench, tracefs: Path) -> None:
    (tracefs / EVENT).rmdir()
    refuse(bench(Tracing(), Tracefs(tracefs)))


def test_without_root_nothing_is_mounted(bench, tracefs: Path) -> None:
    refuse(bench(Tracing(), Tracefs(tracefs, is_mounted=False, uid=1000)))


def refuse(table) -> None:
    assert table.plan({"throttling": "if-possible"}) == []
    with pytest.raises(SettingError, match="cannot be counted here"):
        table.plan({"throttling": "required"})


def test_switched_off_it_changes_nothing(bench, tracefs: Path) -> None:
    assert bench(Tracing(), Tracefs(tracefs)).plan({"throttling": "off"}) == []


def test_somebody_who_removes_the_instance_is_noticed(bench, tracefs: Path, runner) -> None:
    ops = Tracefs(tracefs)
    table = bench(Tracing(), ops)
    (entry,) = table.apply({"throttling": "required"})

    assert runner.run(Tracing().still_applied(table.host, entry)) == ""
    ops.remove_directory(INSTANCE)
    assert runner.run(Tracing().still_applied(table.host, entry)).endswith("is gone.")


class Busy(Tracefs):
    """A reader has a file of the instance open for the first tries."""

    def __init__(self, root: Path, tries: float) -> None:
        super().__init__(root)
        self.tries = tries

    def remove_directory(self, path: str) -> None:
        self.tries -= 1
        if self.tries >= 0:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        super().remove_directory(path)


def test_a_reader_that_is_about_to_end_is_waited_for(bench, tracefs: Path) -> None:
    ops = Busy(tracefs, tries=3)
    table = bench(Tracing(), ops)
    table.apply({"throttling": "required"})

    assert table.undo().outcome is Outcome.RESTORED
    assert list((tracefs / "instances").iterdir()) == []


def test_a_reader_that_stays_is_told(bench, tracefs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_PATIENCE", 0.2)
    table = bench(Tracing(), Busy(tracefs, tries=math.inf))
    table.apply({"throttling": "required"})

    undone = table.undo()
    assert undone.outcome is Outcome.FAILED
    assert undone.text == f'"{INSTANCE}" cannot be removed: Device or resource busy.'


@pytest.mark.skipif(
    os.geteuid() != 0
    or "tracefs" not in Path("/proc/filesystems").read_text()
    or not os.access("/sys/kernel", os.W_OK),
    reason="tracing the kernel needs root, and a kernel with tracefs that is not that of a container's host",
)
def test_the_real_kernel_counts_and_is_as_before_afterwards(bench) -> None:
    ops = Operations()
    was_mounted = mount_at(ops, TRACEFS) is not None
    table = bench(Tracing(), ops)
    (entry,) = table.apply({"throttling": "required"})
    try:
        assert entry.got == entry.change.new
        source = next(path for path in (COLLECTOR.path, COLLECTOR.otherwise) if ops.exists(path))
        assert {reading.metric for reading in parse(ops.read(source))} >= {"throttling.pauses"}
    finally:
        undone = table.undo()

    assert undone.outcome is Outcome.RESTORED
    assert not ops.exists(INSTANCE)
    assert (mount_at(ops, TRACEFS) is not None) == was_mounted


@given(has_histograms=st.booleans(), is_mounted=st.booleans(), applying=MOMENTS, undoing=KILLS)
def test_nothing_is_left_wherever_pgtrial_was_killed(
    *, tmp_path_factory: pytest.TempPathFactory, bench, has_histograms, is_mounted, applying, undoing
) -> None:
    root = tmp_path_factory.mktemp("tracefs")
    (root / EVENT).mkdir(parents=True)
    (root / "instances").mkdir()
    ops = Tracefs(root, has_histograms=has_histograms, is_mounted=is_mounted)

    run_killed(bench(Tracing(), ops), {"throttling": "required"}, applying, undoing)

    assert ops.is_mounted == is_mounted
    assert list((root / "instances").iterdir()) == []
