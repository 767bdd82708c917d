"""Experiments on hosts that are network namespaces: end to end, and when somebody is killed in the middle."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import wait_until
from support.fleet import (
    BLOCKS,
    BLOCKS_TEXT,
    CHANGED,
    TUNED,
    assert_restored,
    assert_whole,
    counted,
    fleet_hosts,
    processes,
    settings,
    verdict,
    wait_for_runs,
)
from support.namespaces import Namespaces

NODE, SESSION = "pgtrial.fleet.node", "pgtrial.fleet.session"


@pytest.fixture(scope="module")
def two_hosts() -> Iterator[Namespaces]:
    with fleet_hosts("a", "b") as hosts:
        yield hosts


@pytest.fixture
def fleet_place(new_place, two_hosts):
    place = new_place("fleet")
    place.write_light_experiment(
        ("blocks = 2", BLOCKS_TEXT), ('duration = "2s"', 'duration = "1s"'), ('warmup   = "1s"', "warmup = 0")
    )
    (place.directory / "hosts.toml").write_text(two_hosts.listed())
    return place


def start(place, hosts: Namespaces, *arguments: str, **how: str):
    return place.start(*arguments, environment={"PGTRIAL_SSH": hosts.ssh, **how})


def run_command(place, hosts: Namespaces):
    return start(place, hosts, "run", "small.toml", "--allow-code", "--fleet", "hosts.toml")


def resume(place, hosts: Namespaces):
    folder = str(place.only_folder().path)
    return place.finish(start(place, hosts, "resume", folder, "--allow-code"))


def test_blocks_on_two_hosts_give_a_folder_as_ever(fleet_place, two_hosts):
    result = fleet_place.finish(run_command(fleet_place, two_hosts))

    assert result.returncode == 0, result.stderr
    assert_whole(fleet_place)
    folder = fleet_place.only_folder()
    assert {host for _, host in folder.query("SELECT block, host FROM block_host")} == {"a", "b"}
    assert (folder.path / "findings.json").is_file()
    assert f"({BLOCKS} of {BLOCKS} blocks)" in result.stderr
    again = resume(fleet_place, two_hosts)
    assert again.returncode == 0, again.stderr
    assert_whole(fleet_place)


def test_a_worker_that_is_killed_costs_a_block_and_nothing_else(fleet_place, two_hosts):
    process = run_command(fleet_place, two_hosts)
    wait_for_runs(fleet_place, 1)
    (victim, *_) = processes(fleet_place, NODE, "worker")
    os.kill(victim, signal.SIGKILL)
    result = fleet_place.finish(process)

    assert result.returncode == 0, result.stderr
    assert "is lost" in result.stderr
    assert_whole(fleet_place)


def test_a_client_that_is_killed_leaves_nothing_at_work_and_is_resumed(fleet_place, two_hosts):
    process = run_command(fleet_place, two_hosts)
    wait_for_runs(fleet_place, 3)
    process.kill()
    fleet_place.finish(process)
    assert wait_until(lambda: processes(fleet_place), lambda left: not left) == []
    result = resume(fleet_place, two_hosts)

    assert result.returncode == 0, result.stderr
    assert_whole(fleet_place)


def test_a_scheduler_that_is_killed_ends_the_experiment_and_it_is_resumed(fleet_place, two_hosts):
    process = run_command(fleet_place, two_hosts)
    wait_for_runs(fleet_place, 1)
    (victim,) = processes(fleet_place, NODE, "scheduler")
    os.kill(victim, signal.SIGKILL)
    result = fleet_place.finish(process)
    assert result.returncode == 1
    assert "the scheduler of the fleet has ended" in result.stderr
    assert wait_until(lambda: processes(fleet_place), lambda left: not left) == []

    result = resume(fleet_place, two_hosts)
    assert result.returncode == 0, result.stderr
    assert_whole(fleet_place)


def test_an_engine_that_is_killed_is_begun_again(fleet_place, two_hosts):
    process = run_command(fleet_place, two_hosts)
    wait_for_runs(fleet_place, 1)
    (victim, *_) = processes(fleet_place, SESSION)
    os.kill(victim, signal.SIGKILL)
    result = fleet_place.finish(process)

    assert result.returncode == 0, result.stderr
    assert_whole(fleet_place)


def test_a_host_without_room_is_left_out_and_said_to_be(fleet_place, two_hosts):
    text = two_hosts.listed().replace(
        f'ssh = "{two_hosts.hosts[1].ssh}"\n', f'ssh = "{two_hosts.hosts[1].ssh}"\nwork_directory = "/sys"\n'
    )
    (fleet_place.directory / "hosts.toml").write_text(text)
    result = fleet_place.finish(run_command(fleet_place, two_hosts))

    assert result.returncode == 0, result.stderr
    assert "b gets no more blocks: " in result.stderr
    assert {host for _, host in fleet_place.only_folder().query("SELECT block, host FROM block_host")} == {"a"}
    assert_whole(fleet_place)


def test_ctrl_c_puts_everything_back(fleet_place, two_hosts):
    process = run_command(fleet_place, two_hosts)
    wait_for_runs(fleet_place, 1)
    process.send_signal(signal.SIGINT)
    result = fleet_place.finish(process)

    assert result.returncode == 130, result.stderr
    assert wait_until(lambda: processes(fleet_place), lambda left: not left) == []
    result = resume(fleet_place, two_hosts)
    assert result.returncode == 0, result.stderr
    assert_whole(fleet_place)


def test_what_a_killed_fleet_has_changed_on_hosts_is_put_back_by_the_next(fleet_place, two_hosts, gate):
    """Nobody is left who could: not the leader, nor a worker, nor an engine."""
    fleet_place.write_gated_experiment(gate, ('duration = "2s"', 'duration = "1s"'), ("blocks = 2", BLOCKS_TEXT), TUNED)
    before = settings(two_hosts)
    changes = ("--allow-code", "--allow-host-changes")
    process = start(fleet_place, two_hosts, "run", "small.toml", *changes, "--fleet", "hosts.toml")
    wait_until(lambda: settings(two_hosts), lambda found: set(found) == {CHANGED})
    process.send_signal(signal.SIGSTOP)
    for pid in processes(fleet_place, NODE) + processes(fleet_place, SESSION):
        os.kill(pid, signal.SIGKILL)
    process.kill()
    fleet_place.finish(process)
    assert set(settings(two_hosts)) == {CHANGED}

    gate.unlink()
    folder = str(fleet_place.only_folder().path)
    result = fleet_place.finish(start(fleet_place, two_hosts, "resume", folder, *changes))
    assert result.returncode == 0, result.stderr
    assert_whole(fleet_place)
    assert_restored(two_hosts)
    assert settings(two_hosts) == before


def test_a_host_that_is_cut_off_loses_its_block_and_comes_back(fleet_place, two_hosts):
    host = two_hosts.hosts[1]
    (fleet_place.directory / "hosts.toml").write_text(f'[[host]]\nname = "b"\nssh = "{host.ssh}"\n')
    process = run_command(fleet_place, two_hosts)
    wait_for_runs(fleet_place, 1)
    host.cut()
    try:
        fleet_place.wait_until(lambda folder: any(state != "done" for _, _, state, _ in folder.runs()))
    finally:
        host.mend()
    result = fleet_place.finish(process)

    assert result.returncode == 0, result.stderr
    assert "b is lost, with block 1: " in result.stderr
    assert "lost the connection" in result.stderr
    assert "b gets blocks again." in result.stderr
    assert_whole(fleet_place)


def test_four_hosts_give_the_verdict_of_one_also_where_a_clock_is_wrong(new_place):
    blocks, ahead = 12, 5
    found = {}
    with fleet_hosts("a", "b", "c", "d", ahead={"d": ahead}) as hosts:
        for names in ("a", "abcd"):
            place = new_place(f"fleet-{names}")
            place.write_known_experiment(blocks)
            listed = [host for host in hosts.hosts if host.name in names]
            (place.directory / "hosts.toml").write_text(Namespaces(hosts=tuple(listed), ssh=hosts.ssh).listed())
            result = place.finish(run_command(place, hosts), timeout=1800)  # it has four times as many runs as others

            assert result.returncode == 0, result.stderr
            assert_whole(place, blocks=blocks)
            assert_restored(hosts)
            found[names] = verdict(place)
            per_host = Counter(host for _, host in place.only_folder().query("SELECT block, host FROM block_host"))
            assert per_host.keys() == set(names)
    assert found == {"a": "supported", "abcd": "supported"}
    assert "the clock of d is 5.0 s ahead" in result.stderr
    measured = place.only_folder().query(
        "SELECT block_host.host, json_extract(event.data, '$.ahead[0]') FROM run"
        " JOIN slot ON slot.number = run.slot JOIN block_host ON block_host.block = slot.block"
        " JOIN event ON event.run = run.id AND event.kind = 'clock' WHERE run.state = 'done'"
    )
    assert len(measured) == 2 * blocks
    assert {host: round(value) for host, value in measured} == {"a": 0, "b": 0, "c": 0, "d": ahead}


@pytest.fixture
def small_disk(enterable) -> Iterator[Path]:
    """A file system that has room for an experiment, and not for much more."""
    disk = enterable / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600m,mode=755", "tmpfs", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def fill(disk: Path) -> Path:
    """Leave no room on it, also where some has become free since the last time."""
    filler = disk / "somebody-else's"
    with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1 << 16)):
            pass
    return filler


def has_children(pid: int) -> bool:
    return any(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))


def on_disk(hosts: Namespaces, disk: Path, *names: str, full: str = "b") -> str:
    """hosts.toml, with the data of one of them on the disk."""
    return "".join(
        f'[[host]]\nname = "{host.name}"\nssh = "{host.ssh}"\n'
        + (f'work_directory = "{disk}"\n' if host.name == full else "")
        for host in hosts.hosts
        if host.name in names
    )


def test_a_disk_that_fills_up_leaves_its_host_out_and_the_others_go_on(fleet_place, two_hosts, small_disk):
    (fleet_place.directory / "hosts.toml").write_text(on_disk(two_hosts, small_disk, "a", "b"))
    process = run_command(fleet_place, two_hosts)
    fleet_place.wait_until(lambda _: list((fleet_place.directory / "state" / "fleet").glob("*/b/runs/*")))
    filler = fill(small_disk)
    result = fleet_place.finish(process)

    assert result.returncode == 0, result.stderr
    assert "b gets no more blocks: " in result.stderr
    assert os.strerror(errno.ENOSPC) in result.stderr
    assert_whole(fleet_place)
    assert_restored(two_hosts)
    assert list(small_disk.iterdir()) == [filler]


def test_a_full_disk_of_the_only_host_is_said_and_with_room_again_resume_finishes(fleet_place, two_hosts, small_disk):
    (fleet_place.directory / "hosts.toml").write_text(on_disk(two_hosts, small_disk, "b"))
    process = run_command(fleet_place, two_hosts)
    fleet_place.wait_until(lambda folder: sum(state == "done" for _, _, state, _ in folder.runs()) >= 2)
    filler = fill(small_disk)
    result = fleet_place.finish(process)
    assert result.returncode == 1, result.stderr
    assert "no host is left" in result.stderr
    assert os.strerror(errno.ENOSPC) in result.stderr
    assert_restored(two_hosts)
    assert list(small_disk.iterdir()) == [filler]

    filler.unlink()
    result = resume(fleet_place, two_hosts)
    assert result.returncode == 0, result.stderr
    assert_whole(fleet_place)
    assert_restored(two_hosts)


def test_four_hosts_under_every_fault_lose_nothing(new_place, small_disk):
    blocks, cut, names = 20, 30, "abcd"  # there are blocks left whenever a fault comes
    place = new_place("every-fault")
    place.write_known_experiment(blocks)
    file = place.directory / "small.toml"
    file.write_text(file.read_text().replace('duration = "1s"', 'duration = "3s"'))  # they last as long as the faults
    with (
        fleet_hosts(*names, ahead={"d": 5}) as hosts,
        (place.directory / "said").open("w") as said,
        contextlib.ExitStack() as begun,
    ):
        (place.directory / "hosts.toml").write_text(on_disk(hosts, small_disk, *names, full="c"))

        def go_on(*arguments: str) -> subprocess.Popen[str]:
            process = place.start(*arguments, environment={"PGTRIAL_SSH": hosts.ssh}, stderr=said.fileno())
            begun.enter_context(process)
            begun.callback(process.kill)  # before the hosts go, also where a fault finds nothing to harm
            return process

        def wait_for(*words: str) -> None:
            wait_until(lambda: Path(said.name).read_text(), lambda text: all(each in text for each in words))

        def fill_until_said() -> str:
            fill(small_disk)  # a server may give back what it no longer needs
            return Path(said.name).read_text()

        at_work: set[str] = set()

        def hosts_at_work() -> tuple[set[str], str]:
            """Those that have begun a run so far: what is gathered leaves its host's folder."""
            assert process.poll() is None, Path(said.name).read_text()
            at_work.update(path.parts[-3] for path in (place.directory / "state" / "fleet").glob("*/*/runs/*"))
            return at_work, Path(said.name).read_text()

        process = go_on("run", file.name, "--allow-code", "--fleet", "hosts.toml")
        wait_until(hosts_at_work, lambda found: found[0] == set(names))
        wait_until(fill_until_said, lambda text: "c gets no more blocks: " in text)
        hosts.hosts[1].cut()
        cut_at = time.monotonic()
        try:
            (victim, *_) = filter(has_children, processes(place, NODE, "worker"))  # not that of c
            os.kill(victim, signal.SIGKILL)
            wait_for("its worker has ended", "b is lost")
            wait_until(lambda: time.monotonic() - cut_at, lambda passed: passed >= cut)
        finally:
            hosts.hosts[1].mend()
        wait_for("b gets blocks again.")
        (victim,) = processes(place, NODE, "scheduler")
        os.kill(victim, signal.SIGKILL)
        assert place.finish(process).returncode == 1
        wait_for("the scheduler of the fleet has ended")

        folder = place.only_folder()
        before = len(counted(folder))
        process = go_on("resume", str(folder.path), "--allow-code")
        wait_until(lambda: len(counted(folder)), lambda found: found > before)
        process.kill()
        place.finish(process)
        assert before < len(counted(folder)) < 2 * blocks
        process = go_on("resume", str(folder.path), "--allow-code")
        assert place.finish(process).returncode == 0, Path(said.name).read_text()

        assert_whole(place, blocks=blocks)
        assert_restored(hosts)
        found = json.loads((folder.path / "findings.json").read_text())
        assert found["effects"][0]["ratio"] > 5
        # Two stops have cut off a run on each host. From half as many as there are blocks on, that allows no verdict.
        asked = found["hypothesis"]
        assert asked["verdict"] == "supported" or asked["reason"]["code"] in ("verdict.failures", "verdict.interrupted")
        assert "Traceback" not in Path(said.name).read_text()


def test_a_machine_with_two_addresses_is_one_host(fleet_place, two_hosts):
    host = two_hosts.hosts[0]
    twice = (
        f'[[host]]\nname = "a"\nssh = "{host.ssh}"\n[[host]]\nname = "again"\nssh = "ssh://root@{host.address}:22"\n'
    )
    (fleet_place.directory / "hosts.toml").write_text(twice)
    result = fleet_place.finish(run_command(fleet_place, two_hosts))

    assert result.returncode == 0, result.stderr
    assert "it is the same machine as" in result.stderr
    hosts = {name for _, name in fleet_place.only_folder().query("SELECT block, host FROM block_host")}
    assert len(hosts) == 1
    assert_whole(fleet_place)
