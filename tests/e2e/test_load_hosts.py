"""A load that comes from other machines, which are network namespaces: together, by one clock, and let in alone."""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

from pgtrial.engine.loads.machines import TOGETHER
from support import wait_until
from support.namespaces import NamespaceHost, Namespaces, namespaces

AHEAD = 5  # s


@pytest.fixture(scope="module")
def machines() -> Iterator[Namespaces]:
    with namespaces("g", "h", ahead={"h": AHEAD}) as hosts:
        yield hosts


def write_experiment(place, machines: Namespaces, *replacements: tuple[str, str]) -> None:
    place.write_experiment(
        ("clients  = 2", "clients  = 4"),
        ('duration = "2s"', 'duration = "8s"'),
        ('warmup   = "1s"', "warmup = 0"),
        ("blocks = 2", "blocks = 1"),
        *replacements,
    )
    listed = json.dumps([host.ssh for host in machines.hosts])
    with (place.directory / "small.toml").open("a") as file:
        # Its log tells of each commit.
        file.write(f"\n[load]\nhosts = {listed}\n[target.postgresql]\nlog_min_duration_statement = 0\n")


def run_experiment(place, machines: Namespaces):
    return place.run("run", "small.toml", environment={"PGTRIAL_SSH": machines.ssh})


def commits(folder, run: str) -> list[float]:
    """When the server has committed a transaction of the load, as its log says."""
    found = []
    for line in (folder.path / "runs" / run / "server.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry.get("dbname") == "pgtrial" and entry.get("message", "").endswith("statement: END;"):
            found.append(datetime.strptime(f"{entry['timestamp']}+0000", "%Y-%m-%d %H:%M:%S.%f %Z%z").timestamp())
    return found


def assert_left_alone(machines: Namespaces) -> None:
    """Nothing runs there but what was there before."""
    for host in machines.hosts:
        assert wait_until(host.programs, lambda names: names <= {"sshd"}) == {"sshd"}


def counted(folder, run: str) -> int:
    file = folder.path / "runs" / run / "transactions.parquet"
    (row,) = duckdb.sql(f"SELECT sum(count) FROM '{file}'").fetchall()
    return int(row[0])


def test_two_machines_load_one_server_together(new_place, machines):
    place = new_place("load-hosts")
    write_experiment(place, machines)
    result = run_experiment(place, machines)

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    runs = folder.query(
        "SELECT printf('%04d-%s-b%d', slot.number, slot.arm, slot.block), phase.started, phase.ended, event.data"
        ", (SELECT count(*) FROM caveat WHERE caveat.run = run.id AND caveat.code = 'load-machines-apart')"
        " FROM run JOIN slot ON slot.number = run.slot JOIN phase ON phase.run = run.id AND phase.name = 'measure'"
        " JOIN event ON event.run = run.id AND event.kind = 'load-machines' WHERE run.state = 'done'"
    )
    assert len(runs) == 2
    for name, start, end, data, told in runs:
        event, at = json.loads(data), commits(folder, name)
        first, second = event["machines"]
        # On a busy machine they may start late, which is said then.
        doubt = sum(machine["error"][0] for machine in event["machines"])
        assert told == (event["skew"] > TOGETHER + doubt), event
        assert [round(offset) for offset in first["ahead"]] == [0, 0]
        assert [round(offset) for offset in second["ahead"]] == [AHEAD, AHEAD]
        # What all machines together have done is what the server has: at all, and in the time that is measured.
        assert first["processed"] + second["processed"] == len(at)
        assert counted(folder, name) == pytest.approx(sum(start <= t < end for t in at), rel=1e-3)
    assert_left_alone(machines)
    folder.assert_nothing_left()


def test_a_generator_that_is_killed_is_named_and_the_repeat_counts_its_own_transactions_alone(new_place, machines):
    place = new_place("load-hosts-generator-killed")
    write_experiment(place, machines)
    process = place.start("run", "small.toml", environment={"PGTRIAL_SSH": machines.ssh})
    place.wait_until(lambda folder: folder.query("SELECT 1 FROM run"))
    assert wait_until(lambda: [logged(host) for host in machines.hosts], all)
    os.kill(pgbench(machines.hosts[1]), signal.SIGKILL)
    result = place.finish(process)

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    (first, *others) = folder.runs()
    assert first[:3] == (1, 1, "invalid")
    assert f'on "{machines.hosts[1].ssh}": pgbench was killed by SIGKILL' in first[3]
    assert [(slot, state) for slot, _, state, _ in others] == [(1, "done"), (2, "done")]
    assert_left_alone(machines)
    folder.assert_nothing_left()


def pgbench(host: NamespaceHost) -> int:
    """The number of the load's process there, which is at work alone."""
    (found,) = [pid for pid in processes(host) if Path(f"/proc/{pid}/comm").read_text() == "pgbench\n"]
    return found


def logged(host: NamespaceHost) -> bool:
    """Whether a load has written to its log there."""
    with contextlib.suppress(OSError):  # a process has ended meanwhile
        return any(path.stat().st_size for pid in processes(host) for path in Path(f"/proc/{pid}/cwd").glob("level*"))
    return False


def processes(host: NamespaceHost) -> list[int]:
    return [int(pid) for path in host.group.rglob("cgroup.procs") for pid in path.read_text().split()]


def test_what_a_killed_pgtrial_has_on_machines_ends_and_resume_removes_it(new_place, machines):
    place = new_place("load-hosts-killed")
    write_experiment(place, machines)
    process = place.start("run", "small.toml", environment={"PGTRIAL_SSH": machines.ssh})
    place.wait_until(lambda folder: folder.query("SELECT 1 FROM run"))
    place.wait_until(lambda _: all("pgbench" in host.programs() for host in machines.hosts))
    process.kill()
    place.finish(process)
    assert_left_alone(machines)

    folder = place.only_folder()
    result = place.run("resume", str(folder.path), environment={"PGTRIAL_SSH": machines.ssh})
    assert result.returncode == 0, result.stderr
    assert sorted(slot for slot, _, state, _ in folder.runs() if state == "done") == [1, 2]
    assert_left_alone(machines)
    folder.assert_nothing_left()


def test_a_machine_that_cannot_be_reached_is_named_before_anything_is_made(new_place, machines):
    place = new_place("load-hosts-away")
    write_experiment(place, machines)
    host = machines.hosts[1]
    host.cut()
    try:
        result = run_experiment(place, machines)
    finally:
        host.mend()

    assert result.returncode == 1
    assert f'no connection to "{host.ssh}"' in result.stderr
    assert not place.folders()
    assert_left_alone(machines)
