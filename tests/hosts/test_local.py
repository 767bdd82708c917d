import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pgtrial.errors import HostCommandError, StoreError
from pgtrial.hosts.local import LocalHost, LocalProcess, server_account
from pgtrial.hosts.processes import MARK, end_process, find_marked, identify, is_alive
from support import PATIENCE, wait_until


def test_run_gives_status_and_both_outputs():
    completed = asyncio.run(LocalHost().run(["sh", "-c", "echo out; echo err >&2"]))

    assert (completed.status, completed.stdout, completed.stderr) == (0, "out\n", "err\n")


def test_program_that_fails_is_an_error_with_its_own_words():
    with pytest.raises(HostCommandError) as caught:
        asyncio.run(LocalHost().run(["sh", "-c", "echo no such thing >&2; exit 3"]))

    assert caught.value.message == "sh ended with status 3"
    assert caught.value.detail == "no such thing"


def test_program_that_does_not_exist_is_an_error():
    with pytest.raises(HostCommandError) as caught:
        asyncio.run(LocalHost().run(["/nowhere/program"]))

    assert "/nowhere/program" in caught.value.message + caught.value.detail


def test_every_program_is_reported_when_it_starts():
    started = []
    host = LocalHost(on_start=lambda process, role: started.append((process, role)))

    asyncio.run(host.run(["sleep", "2"]))  # one that is over sooner may end before it is looked at

    assert [role for _, role in started] == ["sleep"]


def test_cancelling_a_run_ends_the_program():
    async def cancelled() -> object:
        started = []
        host = LocalHost(on_start=lambda process, _role: started.append(process))
        task = asyncio.create_task(host.run(["sleep", "60"]))
        while not started:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return started[0]

    assert not is_alive(asyncio.run(cancelled()))


def test_program_that_ignores_the_signal_is_killed():
    async def stubborn() -> int:
        process = await LocalHost().start(
            ["sh", "-c", "trap '' TERM; echo ready; sleep 60"], role="test", stdout=asyncio.subprocess.PIPE
        )
        await process.stdout.readline()
        return await end_process(process, patience=0.2)

    assert asyncio.run(stubborn()) == -signal.SIGKILL


def test_program_that_ends_just_before_a_signal_keeps_its_exit_status():
    async def hit_twice() -> int:
        process = await LocalHost().start(["sleep", "60"], role="test")
        os.kill(process.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        return await process.wait()

    async def hit_many() -> set[int]:
        return {await hit_twice() for _ in range(50)}

    assert asyncio.run(hit_many()) == {-signal.SIGKILL}


def test_programs_end_when_pgtrial_is_killed(tmp_path: Path):
    code = (
        "import asyncio, sys\n"
        "from pgtrial.hosts.local import LocalHost\n"
        "async def main():\n"
        f"    process = await LocalHost(mark={str(tmp_path)!r}).start(['sleep', '60'], role='test')\n"
        "    print(process.pid, flush=True)\n"
        "    await process.wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        wait_until(lambda: find_marked(str(tmp_path)))
        assert identify(child) is not None
        parent.kill()
        parent.wait()
        wait_until(lambda: identify(child) is None)

    assert identify(child) is None


def test_server_runs_as_another_user_only_when_pgtrial_is_root():
    account = server_account()

    assert (account is None) == (os.geteuid() != 0)
    if account is not None:
        completed = asyncio.run(LocalHost().run(["id", "-u"], account=account, directory=Path("/")))
        assert int(completed.stdout) == account.uid != 0


def test_cancelling_at_any_moment_of_a_start_ends_the_program(tmp_path: Path):
    """Also between the fork and the connection of the pipes, where asyncio alone would wait for ever."""

    async def cancelled_after(turns: int) -> None:
        host = LocalHost(mark=str(tmp_path))
        task = asyncio.create_task(
            host.start(["sleep", "60"], role="test", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        if not task.done():
            task.cancel()
        async with asyncio.timeout(PATIENCE):
            outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(outcome, LocalProcess):
            await end_process(outcome)

    for turns in range(12):
        asyncio.run(cancelled_after(turns))

    assert find_marked(str(tmp_path)) == ()


def test_program_that_cannot_be_written_down_is_ended(tmp_path: Path):
    def refuse(_process: object, _role: str) -> None:
        raise StoreError("the disk is full")

    with pytest.raises(StoreError):
        asyncio.run(LocalHost(mark=str(tmp_path), on_start=refuse).start(["sleep", "60"], role="test"))

    assert find_marked(str(tmp_path)) == ()


def test_callers_settings_of_postgresql_and_of_language_do_not_reach_a_program(monkeypatch: pytest.MonkeyPatch):
    for name in ("PGHOST", "PGPORT", "PGOPTIONS", "PGSERVICE", "PG_COLOR"):
        monkeypatch.setenv(name, "nonsense")
    monkeypatch.setenv("LANGUAGE", "de")
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    monkeypatch.setenv("OTHER", "kept")

    completed = asyncio.run(LocalHost(mark="here").run(["env"], environment={"PGUSER": "ours"}))

    variables = dict(line.split("=", 1) for line in completed.stdout.splitlines() if "=" in line)
    assert {name for name in variables if name.startswith("PG")} == {"PGUSER", MARK}
    assert variables[MARK] == "here"
    assert variables["LANGUAGE"] == ""
    assert variables["LC_ALL"] == "C.UTF-8"
    assert variables["OTHER"] == "kept"


def test_many_programs_leave_no_file_open():
    async def run_many() -> tuple[int, int]:
        host = LocalHost()
        await host.run(["true"])
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(20):
            await host.run(["true"])
            await end_process(await host.start(["sleep", "60"], role="test", stdout=asyncio.subprocess.PIPE))
        return before, len(list(Path("/proc/self/fd").iterdir()))

    before, after = asyncio.run(run_many())

    assert after <= before
