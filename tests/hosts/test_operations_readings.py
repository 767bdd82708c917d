import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pgtrial.hosts.operations import MARK, Operations
from support import wait_until

ops = Operations()


def test_many_files_are_read_at_once_and_what_cannot_be_read_is_left_out(tmp_path: Path):
    for name in ("a1", "a2", "b"):
        (tmp_path / name).write_text(f"text of {name}\n")
    (tmp_path / "a3").mkdir()

    found = ops.read_all([f"{tmp_path}/a*", f"{tmp_path}/b", f"{tmp_path}/gone", f"{tmp_path}/x*"])

    assert found == {f"{tmp_path}/{name}": f"text of {name}\n" for name in ("a1", "a2", "b")}


def test_no_more_than_wanted_is_read_of_a_file(tmp_path: Path):
    (tmp_path / "long").write_bytes(b"\xff" + b"x" * 100)

    assert ops.read_all([f"{tmp_path}/long"], limit=3) == {f"{tmp_path}/long": "\ufffdxx"}


def test_a_file_of_the_kernel_that_is_longer_than_a_page_is_read_to_its_end():
    assert len(ops.read_all(["/proc/self/smaps"])["/proc/self/smaps"]) > 20_000


def test_the_c_library_has_a_name_and_a_version():
    name, version = ops.libc().split()

    assert name
    assert version[0].isdigit()


def test_a_c_library_that_does_not_tell_has_none(monkeypatch: pytest.MonkeyPatch):
    def refuse(name: str) -> str:
        raise ValueError(name)

    monkeypatch.setattr(os, "confstr", refuse)

    assert ops.libc() == ""


def test_asking_whether_the_clock_is_kept_does_not_change_it():
    assert ops.is_clock_synchronized() in (True, False, None)
    assert ops.is_clock_synchronized() == ops.is_clock_synchronized()


def test_cpu_time_is_told_of_every_process_with_whose_it_is():
    busy = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ntime.sleep(60)"
    environment = {**os.environ, MARK: "test-cpu-times"}
    with (
        subprocess.Popen([sys.executable, "-c", busy], env=environment) as own,
        subprocess.Popen([sys.executable, "-c", busy]) as other,
    ):
        try:
            deadline = time.monotonic() + 30
            while True:
                found = {pid: rest for pid, *rest in ops.cpu_times("test-cpu-times")}
                if found[own.pid][-1] >= 0.25 and found[other.pid][-1] >= 0.25:
                    break
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            own.kill()
            other.kill()

    parent, ticks, whose, name, seconds = found[own.pid]
    assert (parent, whose) == (os.getpid(), "own")
    assert ticks > 0
    assert name.startswith("python")
    assert seconds < 10
    assert found[other.pid][2] == "other"
    assert found[os.getpid()][2] == "own"


def test_time_of_children_that_have_ended_is_that_of_their_parent():
    def seconds() -> float:
        return next(found[-1] for found in ops.cpu_times("") if found[0] == os.getpid())

    before = seconds()
    subprocess.run(
        [sys.executable, "-c", "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"],
        check=True,
    )

    assert seconds() >= before + 0.25


def test_a_name_may_hold_anything(tmp_path: Path):
    program = tmp_path / "a) S (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as process:
        try:
            wait_until(lambda: any(found[4] == "a) S (b" for found in ops.cpu_times("")))
        finally:
            process.kill()


def test_threads_of_the_kernel_are_the_kernels():
    kernels = [found for found in ops.cpu_times("") if found[4].startswith("kworker/")]
    if not kernels:
        pytest.skip("the kernel's threads cannot be seen here: this is a container with processes of its own")

    assert {found[3] for found in kernels} == {"kernel"}
