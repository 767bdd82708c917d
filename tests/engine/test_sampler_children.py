"""The CPU time of processes, as the reader finds them: here children of the tests."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pgtrial.collectors import process_cpu
from pgtrial.engine.sampler import reader
from pgtrial.engine.sampler.control import find_server
from pgtrial.engine.sampler.reader import Children, find_children
from pgtrial.hosts.operations import Operations
from support import wait_until

BUSY = "while True: pass"
ALREADY_BUSY = "import time\nwhile time.process_time() < 0.3: pass"
Start = Callable[..., subprocess.Popen[bytes]]

BACKENDS, LOAD, _ = process_cpu.COLLECTORS


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python with a title, in place of a process of a server, or of another program's name."""
    started = []

    def start(title: str, script: str = BUSY, **options: Any) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [title, "-I", "-S", "-c", script],
            **{"executable": sys.executable, **options},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def of_server() -> Children:
    return Children("backend_cpu", os.getpid(), "", "")


def of_load(mark: str = "") -> Children:
    return Children("pgbench_cpu", os.getpid(), "pgbench", mark)


def lines(children: Children) -> dict[str, str]:
    """Title of each line by the number it begins with."""
    return {
        who: "".join(rest)
        for who, _, _, _, *rest in (line.split(maxsplit=4) for line in children.read().splitlines()[1:])
    }


def wait_for(children: Children, number: int, title: str) -> None:
    wait_until(lambda: lines(children), lambda found: found.get(str(number), "").startswith(title))


def wait_until_gone(path: Path) -> None:
    wait_until(lambda: not path.exists())


def used(children: Children, number: int) -> list[int]:
    (found,) = [line for line in children.read().splitlines() if line.startswith(f"{number} ")]
    return [int(word) for word in found.split()[1:3]]


def wait_until_used(children: Children, number: int) -> None:
    """Until some CPU time is told of a busy process: where many want a CPU its first turn may come late."""
    wait_until(lambda: used(children, number)[0])


def test_children_are_found_with_their_titles(start: Start) -> None:
    children, process = of_server(), start("postgres: pgtrial: checkpointer")

    wait_for(children, process.pid, "postgres: pgtrial: checkpointer")

    assert lines(children)[str(os.getpid())] == "itself"
    assert "ended" in lines(children)


def test_process_of_another_program_has_no_title(start: Start) -> None:
    process = start("postmaster")

    assert lines(of_server())[str(process.pid)] == ""


def test_time_on_a_cpu_is_what_the_process_itself_counts(start: Start) -> None:
    script = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ntime.sleep(60)"
    process = start("postgres: walwriter", script, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    children = of_server()

    run, queue = used(children, process.pid)

    assert children.unit == "ns"
    assert 0.3e9 <= run <= 0.4e9
    assert queue >= 0


def test_kernel_without_that_file_tells_ticks(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ntime.sleep(60)"
    process = start("postgres: walwriter", script, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    read_text = reader._read_text
    monkeypatch.setattr(
        reader, "_read_text", lambda path, *rest, **more: "0 0 0" if "sched" in path else read_text(path, *rest, **more)
    )
    children = of_server()

    assert children.unit == "ticks"
    assert 28 <= sum(used(children, process.pid)) <= 40


def test_process_that_ends_is_in_the_sum_with_all_it_has_used(start: Start) -> None:
    children, follower = of_server(), BACKENDS.follow()

    def total() -> float:
        samples = list(follower(time.time(), children.read()))
        latest = max(sample.t for sample in samples)
        return sum(s.value for s in samples if s.t == latest and s.metric.endswith("run") and s.object != "postmaster")

    before = total()
    # Its title is never seen: it comes and goes between two readings.
    start("postgres: autovacuum worker shop", ALREADY_BUSY).wait()

    assert 0.28 <= total() - before <= 0.4


def test_child_that_the_kernels_list_lacks_is_read_all_the_same(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    process, children = start("postgres: walwriter"), of_server()
    wait_for(children, process.pid, "postgres: walwriter")
    monkeypatch.setattr(Children, "_list", lambda _self, _thread: "")

    assert str(process.pid) in lines(children)
    process.kill()
    process.wait()
    assert str(process.pid) not in lines(children)


def test_files_of_processes_that_have_ended_are_closed(start: Start) -> None:
    first, children = start("postgres: walwriter"), of_server()
    wait_for(children, first.pid, "postgres: walwriter")
    before = len(children.fds)
    later = start("postgres: checkpointer")
    wait_for(children, later.pid, "postgres: checkpointer")
    first.kill()
    first.wait()
    children.read()

    assert len(children.fds) == before
    assert f"/proc/{first.pid}" not in children.fds


def test_lists_of_threads_that_have_ended_are_closed() -> None:
    children = Children("pgbench_cpu", os.getpid(), "pgbench", "")
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    children.read()
    number = str(thread.native_id)

    assert number in children.lists
    over.set()
    thread.join()
    wait_until_gone(Path(f"/proc/{os.getpid()}/task/{number}"))
    children.read()
    assert number not in children.lists


def test_more_processes_than_files_may_be_open_are_read_all_the_same(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_MOST_OPEN", 1)
    processes, children = [start("postgres: walwriter") for _ in range(3)], of_server()
    for process in processes:
        wait_for(children, process.pid, "postgres: walwriter")

    assert len(children.fds) == 1
    for process in processes:
        wait_until_used(children, process.pid)


def test_kernel_that_does_not_list_children_is_searched_for_them(start: Start) -> None:
    process, children = start("postgres: walwriter"), of_server()
    children.can_list = False
    wait_for(children, process.pid, "postgres: walwriter")

    assert os.getppid() in children.others
    assert str(process.pid) not in map(str, children.others)
    later = start("postgres: checkpointer")
    wait_for(children, later.pid, "postgres: checkpointer")


def test_load_generators_are_known_by_their_name_and_read_by_thread(start: Start, tmp_path: Path) -> None:
    (tmp_path / "pgbench").symlink_to(Path(sys.executable).resolve())
    script = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\ntime.sleep(60)"
    other = start("pgbench")  # by its title only
    process, children = start("x", script, executable=tmp_path / "pgbench"), of_load()

    found = wait_until(lambda: lines(children), lambda found: len(found) >= 2)
    assert set(found) == {thread.name for thread in Path(f"/proc/{process.pid}/task").iterdir()}
    assert set(found.values()) == {"pgbench"}
    assert str(other.pid) not in found
    run, _ = LOAD.follow()(0.0, children.read())
    assert run.value > 0


def test_load_generators_of_another_server_are_left_out(start: Start, tmp_path: Path) -> None:
    (tmp_path / "pgbench").symlink_to(Path(sys.executable).resolve())
    for host in ("/tmp/a", "/tmp/ab"):
        start("x", executable=tmp_path / "pgbench", env={"PGHOST": host})
    everything, ours = of_load(), of_load("PGHOST=/tmp/a")

    wait_until(lambda: len(lines(everything)) >= 2)
    assert len(lines(ours)) == 1


def test_process_that_is_not_there_is_named_with_the_reason(start: Start) -> None:
    process = start("x", "")
    process.wait()

    found, absent = find_children([("backend_cpu", process.pid, "", "")])

    assert found == []
    assert absent == {"backend_cpu": f"/proc/{process.pid}/stat: No such file or directory"}


def test_server_is_known_by_the_file_in_its_data_directory(tmp_path: Path) -> None:
    ops = Operations()
    assert find_server(ops, []) is None
    assert find_server(ops, [str(tmp_path)]) is None
    (tmp_path / "postmaster.pid").write_text("4711\n/data\n1795231178\n")

    assert find_server(ops, [str(tmp_path), "/elsewhere"]) == 4711


def test_a_process_that_is_ending_is_left_out_where_its_environment_is_refused(monkeypatch):
    """Linux 6.18 refuses it to ordinary users once the memory is gone, before the process is."""
    read = reader._read_text

    def refuse(path: str, default: str | None = None) -> str:
        if path.endswith("/environ"):
            raise PermissionError(13, "Permission denied", path)
        return read(path, default)

    monkeypatch.setattr(reader, "_read_text", refuse)
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
            children = Children("load", os.getpid(), "sleep", "MARK=1")
            with pytest.raises(PermissionError):
                children.read()
            process.send_signal(signal.SIGKILL)
            wait_until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
            lines = children.read().splitlines()
        finally:
            process.kill()
    assert lines == [children.unit]
