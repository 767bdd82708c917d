import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pgtrial.hosts import processes
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.processes import MARK, ProcessId, end, end_strays, find_marked, forget_input, identify, is_alive
from support import PATIENCE, wait_until


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: "/results/of this test"})
    arguments = Path(f"/proc/{process.pid}/cmdline")  # empty for a moment after Popen has seen that it runs
    wait_until(arguments.read_bytes)
    yield process
    process.kill()
    process.wait()


def test_process_is_identified_by_pid_start_and_boot(sleeper):
    identity = identify(sleeper.pid)

    assert identity is not None
    assert is_alive(identity)
    assert identity.pid == sleeper.pid


def test_process_of_another_host_is_asked_for_there(sleeper):
    class Elsewhere(Operations):
        def boot_id(self) -> str:
            return "another machine"

    there, here = identify(sleeper.pid, Elsewhere()), identify(sleeper.pid)

    assert there.boot_id == "another machine"
    assert is_alive(there, Elsewhere())
    assert not is_alive(there)
    assert end([there]) == ()
    assert end([here], ops=Elsewhere()) == ()
    assert sleeper.poll() is None


def test_same_pid_with_another_start_time_is_another_process(sleeper):
    identity = identify(sleeper.pid)
    other = ProcessId(pid=identity.pid, start_ticks=identity.start_ticks + 1, boot_id=identity.boot_id)

    assert not is_alive(other)
    assert end([other]) == ()
    assert sleeper.poll() is None


def test_process_of_an_earlier_boot_is_not_touched(sleeper):
    identity = identify(sleeper.pid)

    assert end([ProcessId(pid=identity.pid, start_ticks=identity.start_ticks, boot_id="earlier")]) == ()
    assert sleeper.poll() is None


def test_process_that_has_ended_is_not_identified():
    process = subprocess.Popen(["true"])
    process.wait()

    assert identify(process.pid) is None


def test_end_ends_and_says_what_was_alive(sleeper):
    identity = identify(sleeper.pid)

    assert end([identity]) == (identity,)
    assert sleeper.wait(timeout=PATIENCE) != 0


def test_end_kills_what_ignores_the_polite_signal():
    code = "import signal, time; signal.signal(signal.SIGQUIT, signal.SIG_IGN); print('x', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        identity = identify(process.pid)

        end([identity], patience=0.2)

        assert process.wait(timeout=PATIENCE) == -9


def test_marked_processes_are_found_by_their_environment(sleeper):
    found = wait_until(lambda: find_marked("/results/of this test"))

    assert [process.pid for process in found] == [sleeper.pid]
    assert find_marked("/results/of") == ()


def test_a_mark_that_no_environment_can_hold_is_found_nowhere():
    assert find_marked("/results/\ud800") == ()


def test_input_that_a_program_has_not_read_is_no_error_once_it_has_ended():
    async def feed() -> bool:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "", stdin=pipe, stdout=pipe, stderr=pipe)
        process.stdin.write(b"x" * 3_000_000)
        process.stdin.close()
        await process.communicate()
        with pytest.raises(ConnectionError):
            await process.stdin.wait_closed()  # what Python tells of it, if nobody asks
        await forget_input(process)
        return process.stdin.is_closing()

    assert asyncio.run(feed())


@pytest.mark.parametrize(("size", "ended"), [("0", ()), ("702", ("[sleep]",))])
def test_what_is_just_ending_by_itself_is_none_that_was_left_running(sleeper, monkeypatch, size, ended):
    """It has no command line any more; others have none yet, or took theirs away, and go by their program's name."""

    class Here(Operations):
        def read(self, path: str) -> str:
            told = {"cmdline": "", "statm": f"{size} 0 0 0 0 0 0\n"}.get(path.rpartition("/")[2])
            return super().read(path) if told is None else told

    looks = [(identify(sleeper.pid),), ()]
    monkeypatch.setattr(processes, "find_marked", lambda *_, **__: looks.pop(0))

    assert end_strays("/results/of this test", Here()) == ended
    assert sleeper.wait(PATIENCE) == -signal.SIGKILL


def test_what_was_left_running_is_ended_and_named(sleeper, monkeypatch):
    looks = [(identify(sleeper.pid),), ()]
    monkeypatch.setattr(processes, "find_marked", lambda *_, **__: looks.pop(0))

    assert end_strays("/results/of this test") == ("sleep 60",)
