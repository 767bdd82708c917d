"""Experiments on hosts that are network namespaces: end to end, and when somebody is killed in the middle."""

import importlib.util
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import wait_until
from support.namespaces import Namespaces, namespaces
from support.programs import skip_for_want

BLOCKS = 3
RUNS = 2 * BLOCKS
NODE, SESSION = "pgtrial.fleet.node", "pgtrial.fleet.session"


@pytest.fixture(scope="module")
def two_hosts() -> Iterator[Namespaces]:
    if importlib.util.find_spec("distributed") is None:
        skip_for_want("dask.distributed", "pip install distributed cryptography", required_by="PGTRIAL_REQUIRE_FLEET")
    with namespaces("a", "b") as hosts:
        yield hosts


@pytest.fixture
def fleet_place(new_place, two_hosts):
    place = new_place("fleet")
    place.write_light_experiment(
        ("blocks = 2", f"blocks = {BLOCKS}"), ('duration = "2s"', 'duration = "1s"'), ('warmup   = "1s"', "warmup = 0")
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


def processes(place, *words: str) -> list[int]:
    """Of a place, those whose command line has all the words."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
            environment = (path / "environ").read_bytes()
        except OSError:
            continue
        if str(place.directory / "state").encode() in environment and all(word in " ".join(command) for word in words):
            found.append(int(path.name))
    return found


def counted(folder) -> dict[int, int]:
    """How many runs count, by slot."""
    return Counter(slot for slot, _, state, _ in folder.runs() if state == "done")


def assert_whole(place) -> None:
    """Every slot counts once, every block ran whole on one host, and nothing is left."""
    folder = place.only_folder()
    assert counted(folder) == dict.fromkeys(range(1, RUNS + 1), 1)
    hosts = dict(folder.query("SELECT block, host FROM block_host"))
    assert hosts.keys() == set(range(1, BLOCKS + 1))
    marks = folder.query(
        "SELECT DISTINCT slot.block, json_extract(event.data, '$.host') FROM run JOIN slot ON slot.number = run.slot"
        " JOIN event ON event.run = run.id AND event.kind = 'from-host' WHERE run.state = 'done'"
    )
    assert sorted(marks) == sorted(hosts.items())
    assert {path.parent.name for path in folder.path.glob("runs/*/transactions.parquet")} >= {
        f"{number:04d}-{arm}-b{block}{'' if attempt == 1 else f'-repeat{attempt - 1}'}"
        for number, arm, block, attempt in folder.query(
            "SELECT slot.number, slot.arm, slot.block, run.attempt FROM run JOIN slot ON slot.number = run.slot"
            " WHERE run.state = 'done'"
        )
    }
    assert wait_until(lambda: processes(place), lambda left: not left) == []
    folder.assert_nothing_left()
    assert not list((place.directory / "state" / "fleet").iterdir())


def wait_for_runs(place, number: int) -> None:
    """Until so many runs of the hosts are measured."""

    def begun() -> int:
        return len(list((place.directory / "state" / "fleet").glob("*/*/runs/*")))

    wait_until(begun, lambda found: found >= number)


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
