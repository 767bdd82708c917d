"""On a real sshd: programs, files, sockets, and that nothing outlives the connection."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from pgtrial.errors import ConnectError, HostCommandError, LostHostError, StoreError, TargetError
from pgtrial.hosts.clock import measure_offset
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.processes import MARK, end_process, find_marked, identify, is_alive
from pgtrial.hosts.ssh import connection as ssh_connection
from pgtrial.hosts.ssh.host import RemoteOperations, SshHost, _make_directory
from support import wait_until

PIPE = asyncio.subprocess.PIPE


def wait_until_gone(pid: int) -> bool:
    return wait_until(lambda: identify(pid) is None)


def agent_of(host: SshHost) -> int:
    return int(host.ops.output(["sh", "-c", "echo $PPID"]))


# -- programs ------------------------------------------------------------------------------------------------------


def test_run_gives_status_and_both_outputs(remote, runner):
    completed = runner.run(remote.run(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False))

    assert (completed.status, completed.stdout, completed.stderr) == (3, "out\n", "err\n")


def test_program_that_fails_is_an_error_with_its_own_words(remote, runner):
    with pytest.raises(HostCommandError) as caught:
        runner.run(remote.run(["sh", "-c", "echo no such thing >&2; exit 3"]))

    assert caught.value.message == "sh ended with status 3"
    assert caught.value.detail == "no such thing"


def test_program_that_does_not_exist_is_an_error_that_names_host_and_program(remote, runner):
    with pytest.raises(HostCommandError) as caught:
        runner.run(remote.run(["/nowhere/program"]))

    assert caught.value.message == f'cannot start "/nowhere/program" on "{remote.name}": No such file or directory'


def test_no_word_of_a_program_is_taken_by_a_shell(remote, runner):
    nasty = ["$(id)", "`id`", "a;b", "'", '"', "*", "\\", "line\nbreak", "ünïcode", ""]

    completed = runner.run(remote.run(["printf", "%s|", *nasty], environment={"X": "$(id)"}))

    assert completed.stdout == "".join(f"{word}|" for word in nasty)


def test_large_output_comes_whole(remote, runner):
    """More than pipes and ssh's window of 2 MB hold, of each."""
    completed = runner.run(remote.run(["sh", "-c", "seq 400000; seq 400000 >&2"]))

    expected = "".join(f"{number}\n" for number in range(1, 400_001))
    assert completed.stdout == expected
    assert completed.stderr == expected


def test_bytes_go_through_a_program_unchanged(remote, runner):
    data = bytes(range(256)) * 20_000

    async def through_cat() -> tuple[bytes, int | None]:
        process = await remote.start(["cat"], role="test", stdin=PIPE, stdout=PIPE)
        out, _ = await process.communicate(data)
        return out, process.returncode

    assert runner.run(through_cat()) == (data, 0)


def test_lines_are_read_while_the_program_runs(remote, runner):
    async def talk() -> list[bytes]:
        process = await remote.start(["cat"], role="test", stdin=PIPE, stdout=PIPE)
        answers = []
        for word in (b"one\n", b"two\n"):
            process.stdin.write(word)
            await process.stdin.drain()
            answers.append(await process.stdout.readline())
        process.stdin.close()
        assert await process.wait() == 0
        return answers

    assert runner.run(talk()) == [b"one\n", b"two\n"]


def test_program_waits_for_a_reader_that_is_slow(remote, runner):
    """Or its output would fill the memory."""

    async def wait_for_it() -> int:
        process = await remote.start(["sh", "-c", "head -c 20000000 /dev/zero"], role="test", stdout=PIPE)
        await asyncio.sleep(1)
        assert process.returncode is None
        return len(await process.stdout.read())

    assert runner.run(wait_for_it()) == 20_000_000


def test_writer_waits_for_a_program_that_does_not_read(remote, runner):
    async def wait_for_it() -> None:
        process = await remote.start(["sleep", "60"], role="test", stdin=PIPE)
        process.stdin.write(bytes(2_000_000))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await process.stdin.drain()
        await end_process(process)
        with pytest.raises(ConnectionResetError):
            await process.stdin.drain()

    runner.run(wait_for_it())


def test_input_that_nobody_reads_is_no_error(remote, runner):
    async def feed_in_vain() -> int | None:
        process = await remote.start(["true"], role="test", stdin=PIPE, stdout=PIPE)
        await process.communicate(bytes(2_000_000))
        return process.returncode

    assert runner.run(feed_in_vain()) == 0


def test_output_may_go_to_a_file_there(remote, runner, tmp_path):
    async def write() -> int:
        process = await remote.start(["sh", "-c", "echo out; echo err >&2"], role="test", output=tmp_path / "log")
        return await process.wait()

    assert runner.run(write()) == 0
    assert (tmp_path / "log").read_text() == "out\nerr\n"


def test_file_for_the_output_that_cannot_be_made_is_an_error(remote, runner, tmp_path):
    with pytest.raises(HostCommandError, match="No such file"):
        runner.run(remote.start(["true"], role="test", output=tmp_path / "nowhere/log"))


def test_program_ends_by_the_signal_it_gets(remote, runner):
    async def signalled() -> list[int]:
        statuses = []
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            process = await remote.start(["sleep", "60"], role="test")
            process.send_signal(number)
            statuses.append(await process.wait())
            with pytest.raises(ProcessLookupError):
                process.send_signal(number)
        return statuses

    assert runner.run(signalled()) == [-signal.SIGTERM, -signal.SIGINT, -signal.SIGQUIT]


def test_program_that_ignores_the_signal_is_killed_with_what_it_started(remote, runner, tmp_path):
    async def stubborn() -> int:
        process = await remote.start(
            ["sh", "-c", "trap '' TERM; sleep 60 & echo $!; wait; sleep 60"], role="test", stdout=PIPE
        )
        child = int(await process.stdout.readline())
        assert await end_process(process, patience=0.2) == -signal.SIGKILL
        return child

    assert wait_until_gone(runner.run(stubborn()))


def test_cancelling_a_run_ends_the_program(open_remote, runner):
    async def cancelled(host: SshHost, started: list) -> None:
        task = asyncio.create_task(host.run(["sleep", "60"]))
        while len(started) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started = []
    with open_remote(on_start=lambda process, role: started.append((process, role))) as host:
        runner.run(cancelled(host, started))

        assert [role for _, role in started] == ["ssh", "sleep"]
        assert not is_alive(started[1][0])


def test_program_that_cannot_be_written_down_is_ended(open_remote, runner, tmp_path):
    def refuse(_process: object, role: str) -> None:
        if role == "test":
            raise StoreError("the disk is full")

    with open_remote(mark=str(tmp_path), on_start=refuse) as host:
        with pytest.raises(StoreError):
            runner.run(host.start(["sleep", "60"], role="test"))

        assert [process.pid for process in find_marked(str(tmp_path))] == [host.connection.pid]


def test_program_has_the_hosts_environment_without_what_changes_its_words(open_remote, runner):
    with open_remote(mark="/results/here") as host:
        completed = runner.run(host.run(["env"], environment={"PGUSER": "ours"}))

    variables = dict(line.split("=", 1) for line in completed.stdout.splitlines() if "=" in line)
    assert {name for name in variables if name.startswith("PG")} == {"PGUSER", MARK}
    assert variables[MARK] == "/results/here"
    assert variables["LC_ALL"] == "C.UTF-8"
    assert "SSH_CONNECTION" in variables


def test_program_runs_as_another_user_in_its_directory(remote, runner, tmp_path):
    account = server_account(remote.ops)
    if account is None:
        pytest.skip("only root can run programs as another user")

    completed = runner.run(remote.run(["sh", "-c", "id -u; id -G; pwd"], account=account, directory=Path("/")))

    assert completed.stdout.split() == [str(account.uid), str(account.gid), "/"]


def test_program_begins_in_its_control_group(remote, runner):
    places = [path for path in map(Path, ("/sys/fs/cgroup/freezer", "/sys/fs/cgroup")) if (path / "tasks").exists()]
    places += [path for path in (Path("/sys/fs/cgroup"),) if (path / "cgroup.subtree_control").exists()]
    if not places or not os.access(places[0], os.W_OK):
        pytest.skip("no control groups that this user may make")
    group = places[0] / f"pgtrial-test-ssh-{os.getpid()}"
    group.mkdir()
    try:
        completed = runner.run(read_own_groups(remote, group))
    finally:
        group.rmdir()

    assert f"/{group.name}\n" in completed


async def read_own_groups(host: SshHost, group: Path) -> str:
    process = await host.start(["cat", "/proc/self/cgroup"], role="test", groups=[str(group)], stdout=PIPE)
    return (await process.communicate())[0].decode()


def test_control_group_that_does_not_exist_is_an_error_that_names_it(remote, runner):
    with pytest.raises(HostCommandError, match="/sys/fs/cgroup/nowhere"):
        runner.run(remote.start(["true"], role="test", groups=["/sys/fs/cgroup/nowhere"]))


def test_many_programs_leave_nothing_open_at_either_end(own_remote, runner):
    async def run_many() -> None:
        for _ in range(20):
            await own_remote.run(["true"])
            await end_process(await own_remote.start(["sleep", "60"], role="test", stdin=PIPE, stdout=PIPE))

    def open_files() -> tuple[int, int]:
        return tuple(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in (os.getpid(), agent_of(own_remote)))

    runner.run(run_many())
    before = open_files()
    runner.run(run_many())

    assert open_files() == before
    assert own_remote.connection._listeners == {}


# -- operations ----------------------------------------------------------------------------------------------------


def test_every_operation_goes_over_the_wire():
    names = [name for name in vars(Operations) if not name.startswith("_")]

    assert len(names) > 20
    assert [name for name in names if name not in vars(RemoteOperations)] == []


def test_operations_answer_as_they_do_here(remote, tmp_path):
    here, path = Operations(), str(tmp_path / "file")
    remote.ops.put(path, "one\ntwö\nthree\n", mode=0o640)

    assert Path(path).read_text() == "one\ntwö\nthree\n"
    assert (Path(path).stat().st_mode & 0o777) == 0o640
    assert remote.ops.read(path, 3) == "one"
    for call in (
        lambda ops: ops.boot_id(),
        lambda ops: ops.device_of(path),
        lambda ops: ops.cpus(),
        lambda ops: ops.uname(),
        lambda ops: ops.user(),
        lambda ops: ops.account("nobody"),
        lambda ops: ops.account("no such user"),
        lambda ops: ops.glob(str(tmp_path / "*")),
        lambda ops: ops.start_ticks(os.getpid()),
        lambda ops: ops.find_marked("no such mark"),
        lambda ops: ops.page_size(),
    ):
        assert call(remote.ops) == call(here)
        assert type(call(remote.ops)) is type(call(here))


def test_operation_that_fails_raises_what_it_raises_here(remote, tmp_path):
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory/file").touch()

    with pytest.raises(FileNotFoundError) as missing:
        remote.ops.read(str(tmp_path / "nothing"))
    with pytest.raises(FileExistsError):
        remote.ops.make_directory(str(tmp_path))
    with pytest.raises(OSError, match="not empty"):
        remote.ops.remove_directory(str(tmp_path / "directory"))
    assert missing.value.filename == str(tmp_path / "nothing")


def test_mistake_at_the_other_end_is_told_and_not_waited_for(remote):
    with pytest.raises(ConnectError, match="does not understand"):
        remote.ops.read()

    assert remote.ops.user() == os.geteuid()


def test_sockets_lie_in_a_place_with_a_short_path(ssh_client, runner, tmp_path, monkeypatch):
    place = tmp_path / ("x" * 50)
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    address = ssh_client()

    host = runner.run(SshHost.open(address))
    runner.run(host.close())

    assert host.directory.parent == Path("/tmp")


def test_operations_can_be_called_from_any_thread(remote, tmp_path):
    (tmp_path / "file").write_text("text")
    read = []
    threads = [threading.Thread(target=lambda: read.append(remote.ops.read(str(tmp_path / "file")))) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert read == ["text"] * 8


def test_files_are_copied_from_the_host(remote, runner, tmp_path):
    data = os.urandom(3_000_000)
    (tmp_path / "there").write_bytes(data)

    runner.run(remote.copy_from(tmp_path / "there", tmp_path / "back"))

    assert (tmp_path / "back").read_bytes() == data


def test_clock_of_the_same_machine_is_not_ahead(remote):
    measured = measure_offset(remote)

    assert 0 < measured.error < 0.1
    assert abs(measured.offset) <= measured.error


# -- sockets -------------------------------------------------------------------------------------------------------


@pytest.fixture
def echo(tmp_path):
    """A Unix socket that gives back the first bytes it gets."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / ".s.test"))
        listening.listen()
        listening.settimeout(10)

        def answer() -> None:
            for _ in range(3):
                with listening.accept()[0] as connection:
                    if data := connection.recv(100):
                        connection.sendall(data)
                        return

        thread = threading.Thread(target=answer)
        thread.start()
        yield tmp_path / ".s.test"
        thread.join()


def test_socket_there_is_reached_through_one_here(remote, runner, echo):
    here = runner.run(remote.forward(echo))

    assert here.name == ".s.test"
    # The account of the load passes through, sees nothing else, and has the socket for itself.
    assert (here.parent.stat().st_mode & 0o066) == 0
    assert (here.stat().st_mode & 0o077) == 0
    assert runner.run(remote.forward(echo)) == here
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(here))
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"


def test_forwarding_that_sshd_refuses_is_an_error_that_says_how_to_allow_it(ssh_client, runner, tmp_path):
    address = ssh_client(key="restricted")

    async def forward() -> None:
        host = await SshHost.open(address)
        try:
            await host.forward(tmp_path / ".s.test")
        finally:
            await host.close()

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / ".s.test"))
        listening.listen()
        with pytest.raises(TargetError, match="does not let ssh reach the socket") as caught:
            runner.run(forward())

    assert "open failed" in caught.value.detail
    assert "AllowStreamLocalForwarding" in caught.value.hint


def test_another_program_can_use_the_connection_as_long_as_it_is_there(ssh_client, runner):
    address = ssh_client()

    async def use() -> tuple[str, ...]:
        host = await SshHost.open(address)
        completed = await LocalHost().run([*host.session_argv, "echo hello; exit 3"], check=False)
        assert (completed.stdout, completed.status) == ("hello\n", 3)
        await host.close()
        return host.session_argv

    gone = runner.run(LocalHost().run([*runner.run(use()), "echo hello"], check=False))

    assert (gone.stdout, gone.status) == ("", 255)


def test_path_that_ssh_would_take_apart_is_refused(remote, runner):
    with pytest.raises(TargetError, match="cannot forward the socket"):
        runner.run(remote.forward(Path("/tmp/a:b/.s.test")))


# -- nothing is left -----------------------------------------------------------------------------------------------


def test_closing_ends_what_runs_there_and_leaves_no_file_here(ssh_client, runner):
    address = ssh_client()

    async def leave_running() -> tuple[SshHost, int]:
        host = await SshHost.open(address)
        process = await host.start(["sleep", "60"], role="test", stdout=PIPE)
        await host.close()
        with pytest.raises(ConnectError):
            await process.wait()
        return host, process.pid

    host, pid = runner.run(leave_running())

    assert wait_until_gone(pid)
    assert not host.directory.exists()
    assert wait_until_gone(host.connection.pid)


def test_programs_end_when_ssh_is_killed_and_who_waits_is_told(own_remote, runner):
    async def kill_ssh() -> int:
        process = await own_remote.start(["sleep", "60"], role="test", stdout=PIPE)
        os.kill(own_remote.connection.pid, signal.SIGKILL)
        with pytest.raises(ConnectError, match=f'lost the connection to "{own_remote.name}"'):
            await process.wait()
        with pytest.raises(ConnectError):
            await process.stdout.read()
        with pytest.raises(LostHostError):
            own_remote.ops.clock()
        return process.pid

    assert wait_until_gone(runner.run(kill_ssh()))


def test_programs_end_when_the_agent_is_killed(own_remote, runner):
    """By the kernel, also after a change of user."""
    accounts = {None, server_account(own_remote.ops)}

    async def kill_agent() -> list[int]:
        processes = [
            await own_remote.start(["sleep", "60"], role="test", account=account, directory=Path("/"))
            for account in accounts
        ]
        os.kill(agent_of(own_remote), signal.SIGKILL)
        return [process.pid for process in processes]

    assert all(wait_until_gone(pid) for pid in runner.run(kill_agent()))


def test_programs_end_when_pgtrial_is_killed(ssh_client, tmp_path):
    code = (
        "import asyncio, sys\n"
        "from pgtrial.hosts.ssh.host import SshHost\n"
        "async def main():\n"
        f"    host = await SshHost.open({ssh_client()!r}, mark={str(tmp_path)!r})\n"
        "    process = await host.start(['sleep', '60'], role='test')\n"
        "    print(process.pid, host.connection.pid, flush=True)\n"
        "    await process.wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        child, ssh = map(int, parent.stdout.readline().split())
        assert {process.pid for process in find_marked(str(tmp_path))} == {child, ssh}
        parent.kill()

    assert wait_until_gone(child)
    assert wait_until_gone(ssh)


def test_what_a_neighbour_puts_beside_the_sockets_is_left_alone(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # sockets need a short path
        place = Path(name)
        monkeypatch.setattr(tempfile, "tempdir", name)
        for other in ("pgtrial-ssh-x", "pgtrial-ssh-1", "pgtrial-ssh-1-2-zz"):
            (place / other).mkdir()
        (place / "pgtrial-ssh-1-2-ab").symlink_to(place / "gone")
        before = set(place.iterdir())

        made = _make_directory()

        assert set(place.iterdir()) == {*before, made}


def test_sockets_of_a_pgtrial_that_was_killed_are_removed_by_the_next(ssh_client, runner):
    code = (
        "import asyncio, os, signal\n"
        "from pgtrial.hosts.ssh.host import SshHost\n"
        "async def main():\n"
        f"    host = await SshHost.open({ssh_client()!r})\n"
        "    print(host.directory, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    killed = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    left = Path(killed.stdout.strip())
    assert left.name.startswith("pgtrial-ssh-")

    runner.run(runner.run(SshHost.open(ssh_client())).close())

    assert not left.exists()


def test_host_that_hangs_is_an_error_after_the_time_limit(own_remote, runner, monkeypatch):
    agent = agent_of(own_remote)
    process = runner.run(own_remote.start(["sleep", "60"], role="test"))
    os.kill(agent, signal.SIGSTOP)
    try:
        with pytest.raises(ConnectError, match=f'"{own_remote.name}" does not answer within 0.3 s') as caught:
            own_remote.connection.ask({"call": "cpus", "args": [], "kwargs": {"dict": {}}}, limit=0.3)
        with pytest.raises(ConnectError):
            own_remote.ops.cpus()
        with pytest.raises(ConnectError):
            runner.run(process.wait())
    finally:
        os.kill(agent, signal.SIGCONT)

    assert "cpus()" in caught.value.detail
    assert wait_until_gone(process.pid)
    assert wait_until_gone(agent)


def test_agent_that_hears_nothing_ends_everything(open_remote, runner, monkeypatch):
    """As when the network is cut: its end of the connection stays open for hours."""
    monkeypatch.setattr(ssh_connection, "SILENCE", 1.0)
    with open_remote() as host:
        process = runner.run(host.start(["sleep", "60"], role="test"))
        os.kill(host.connection.pid, signal.SIGSTOP)
        try:
            assert wait_until_gone(process.pid)
        finally:
            os.kill(host.connection.pid, signal.SIGCONT)


def test_signs_of_life_keep_an_idle_connection(open_remote, runner, monkeypatch):
    monkeypatch.setattr(ssh_connection, "SILENCE", 4.0)
    monkeypatch.setattr(ssh_connection, "SIGN_OF_LIFE", 0.2)
    with open_remote() as host:
        time.sleep(4.5)

        assert host.ops.user() == os.geteuid()


# -- connections that are not made ---------------------------------------------------------------------------------


def refused(runner: asyncio.Runner, address: str) -> ConnectError:
    """The error of a connection that cannot be made; nothing of it is left."""
    before = sockets()
    with pytest.raises(ConnectError) as caught:
        runner.run(SshHost.open(address, mark="/results/refused"))
    assert all(wait_until_gone(process.pid) for process in find_marked("/results/refused"))
    assert sockets() == before
    assert caught.value.hint
    return caught.value


def sockets() -> set[Path]:
    """Directories of this process's connections."""
    return set(Path(tempfile.gettempdir()).glob(f"pgtrial-ssh-{os.getpid()}-*"))


def test_host_that_is_not_reached_is_a_clear_error(ssh_client, runner):
    ssh_client()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # not listening
        error = refused(runner, f"ssh://127.0.0.1:{nobody.getsockname()[1]}")

    assert error.message.startswith('no connection to "ssh://127.0.0.1:')
    assert "Connection refused" in error.detail


def test_host_that_accepts_but_says_nothing_is_a_clear_error(ssh_client, runner, monkeypatch):
    monkeypatch.setattr("pgtrial.hosts.ssh.host._OPEN_LIMIT", 0.5)
    ssh_client()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        error = refused(runner, f"ssh://127.0.0.1:{silent.getsockname()[1]}")

    assert "does not answer" in error.message


@pytest.mark.parametrize(
    ("client", "message", "told"),
    [
        ({"known_hosts": "other_known_hosts"}, 'the host key of "{}" has changed', "ssh-keygen -R"),
        ({"known_hosts": "no_known_hosts"}, 'the host key of "{}" is not known', "-p"),
        ({"key": "stranger"}, 'permission denied by "{}"', "Permission denied (publickey)"),
        ({"key": "no_python"}, 'no python3 on "{}"', "Install python3"),
        ({"key": "old_python"}, 'python3 on "{}" is too old', "this is 3."),
        ({"key": "forced"}, '"{}" does not run python3 for pgtrial', "This account is for mail only."),
    ],
)
def test_connection_that_is_of_no_use_is_a_clear_error(ssh_client, runner, client, message, told):
    address = ssh_client(**client)

    error = refused(runner, address)

    assert error.message == message.format(address)
    assert told in f"{error.detail} {error.hint}"


def test_machine_without_ssh_is_a_clear_error(runner, monkeypatch):
    monkeypatch.setenv("PGTRIAL_SSH", "/nowhere/ssh")

    error = refused(runner, "ssh://host")

    assert error.message == 'cannot start "/nowhere/ssh": No such file or directory'
    assert "PGTRIAL_SSH" in error.hint


def test_cancelling_while_it_connects_leaves_nothing(ssh_client, runner):
    address = ssh_client()

    async def cancelled() -> None:
        task = asyncio.create_task(SshHost.open(address, mark="/results/cancelled"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    runner.run(cancelled())

    assert find_marked("/results/cancelled") == ()
