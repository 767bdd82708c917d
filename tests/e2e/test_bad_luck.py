import contextlib
import json
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pgtrial.hosts.operations import MARK, family
from pgtrial.hosts.processes import identify

QUICK = (('duration = "2s"', 'duration = "1s"'), ('warmup   = "1s"', "warmup = 0"))
ONE_BLOCK = (*QUICK, ("blocks = 2", "blocks = 1"))


def seeds(commands) -> tuple[set[str], set[str]]:
    """Random seeds of pgbench in warm-ups, and in what is measured."""
    warming: set[str] = set()
    measuring: set[str] = set()
    for command in commands:
        found = {part for part in command if part.startswith("--random-seed=")}
        (measuring if "--log" in command else warming).update(found)
    return warming, measuring


def test_killed_pgtrial_leaves_nothing_running_and_resume_finishes(place, ended):
    place.write_light_experiment(QUICK[0], ("seed   = 7", 'seed   = 7\nrestore = "each-block"'))
    process = place.start("run", "small.toml")
    ended.append(process)
    commands = []

    def is_second_run_measured(folder):
        commands.extend(folder.commands())
        return [row[2] for row in folder.runs()] == ["done", "running"] and folder.is_measured()

    folder = place.wait_until(is_second_run_measured)
    process.kill()
    process.communicate()
    warming, measured = seeds(commands)
    assert warming
    assert measured
    assert not warming & measured, "the warm-up must not touch the very rows that are measured"

    status = place.run("status", str(folder.path))

    assert status.returncode == 0, status.stderr
    assert "1 of 4 runs done, interrupted" in status.stdout
    assert f"pgtrial resume {folder.path}" in status.stdout
    assert [row[2] for row in folder.runs()] == ["done", "running"], "to look changes nothing"

    resumed = place.run("resume", str(folder.path))

    assert resumed.returncode == 0, resumed.stderr
    assert "interrupted attempt prepared" in resumed.stderr  # the data were not loaded again
    after = folder.runs()
    assert [row[2] for row in after[:2]] == ["done", "interrupted"]
    assert [(row[0], row[2]) for row in after[2:]] == [(2, "done"), (3, "done"), (4, "done")]
    folder.assert_nothing_left()
    # The data are restored for the first run of a block and of a resume; the next one finds them without a need of
    # recovery, which would be part of that run alone.
    restored = folder.query("SELECT run.id FROM run JOIN phase ON phase.run = run.id WHERE phase.name = 'restore'")
    assert restored == [(1,), (3,), (4,)]
    for log in folder.path.glob("runs/*/server.jsonl"):
        assert "not properly shut down" not in log.read_text()


@pytest.mark.usefixtures("hangups")
def test_signals_stop_cleanly_and_resume_finishes_also_without_a_reader(new_place, ended, gate):
    places = {number: new_place(number.name) for number in (signal.SIGTERM, signal.SIGHUP)}
    processes = {}
    for number, place in places.items():
        place.write_gated_experiment(gate, *ONE_BLOCK)
        processes[number] = place.start("run", "small.toml", "--allow-code")
        ended.append(processes[number])
    folders = {}
    for number, place in places.items():
        folders[number] = place.wait_until(lambda folder: folder.is_measured())
        processes[number].send_signal(number)
        processes[number].send_signal(number)  # impatience must not break the orderly stop
    for number, process in processes.items():
        result = places[number].finish(process)

        assert result.returncode == 130
        assert "Traceback" not in result.stderr
        assert folders[number].runs()[-1][2] == "interrupted"
        folders[number].assert_nothing_left()

    gate.unlink()
    folder = folders[signal.SIGTERM]
    process = places[signal.SIGTERM].start("resume", str(folder.path), "--allow-code")
    ended.append(process)
    with process:
        process.stderr.readline()
        process.stderr.close()  # the reader of the progress goes away
        process.stdout.read()

    assert process.returncode == 0
    assert [row[0] for row in folder.runs() if row[2] == "done"] == [1, 2]
    folder.assert_nothing_left()


def test_stop_before_the_first_run_leaves_no_folder(place, ended):
    place.write_experiment(*ONE_BLOCK, ("scale = 1", "scale = 20"))
    process = place.start("run", "small.toml")
    ended.append(process)
    folder = place.wait_until(lambda folder: any("--initialize" in command for command in folder.commands()))
    directories = folder.work_directories()
    process.send_signal(signal.SIGINT)
    result = place.finish(process)

    assert result.returncode == 130
    assert not any(path.exists() for path in directories)
    assert list((place.directory / "results").iterdir()) == []
    assert folder.commands() == []


@pytest.fixture(scope="module")
def ill(new_place, ended, gate):
    """Two experiments that are run at the same time: transactions fail in one; the server of the other is killed."""
    place, other = new_place("failing"), new_place("dying")
    # Deadlocks by design: two rows locked in either order.
    (place.directory / "deadlock.sql").write_text(
        "\\set a random(1, 2)\nBEGIN;\n"
        "UPDATE pgbench_branches SET bbalance = 1 WHERE bid = :a;\n"
        "UPDATE pgbench_branches SET bbalance = 1 WHERE bid = 3 - :a;\nEND;\n"
    )
    (place.directory / "e.toml").write_text(
        """
        format = 1
        experiment = { name = "deadlocks" }
        dataset = { scale = 2 }
        [target.postgresql]
        deadlock_timeout = "10ms"
        [workload]
        clients = 4
        duration = "1s"
        warmup = 0
        scenario = [{ name = "deadlock", file = "deadlock.sql" }]
        [arms.a]
        [arms.b.postgresql]
        work_mem = "8MB"
        [design]
        blocks = 2
        repeats = 1
        """
    )

    failing = place.start("run", "e.toml")
    other.write_gated_experiment(gate, *ONE_BLOCK)
    dying = other.start("run", "small.toml", "--allow-code")
    ended.extend([failing, dying])
    folder = other.wait_until(lambda folder: folder.is_measured())
    pid = int((folder.work_directories()[0] / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    gate.unlink()
    return (place, place.finish(failing)), (other, other.finish(dying), pid)


def test_server_that_dies_makes_the_run_invalid_and_it_is_repeated(ill):
    place, result, pid = ill[1]

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    states = folder.runs()
    assert [row[:3] for row in states[:2]] == [(1, 1, "invalid"), (1, 2, "done")]
    assert "the server died" in states[0][3]
    assert identify(pid) is None
    # What the server said is kept, also of a run that does not count.
    assert "ready to accept connections" in next(folder.path.glob("runs/0001-*-b1/server.jsonl")).read_text()


def test_failing_transactions_make_the_run_invalid_until_repeats_are_used_up(ill):
    place, result = ill[0]

    assert result.returncode == 1
    assert "was invalid 2 times" in result.stderr
    assert "transactions failed" in result.stderr
    assert "Traceback" not in result.stderr
    folder = place.only_folder()
    assert [row[:3] for row in folder.runs()] == [(1, 1, "invalid"), (1, 2, "invalid")]
    folder.assert_nothing_left()
    assert not list(folder.path.glob("runs/*/pgbench"))
    assert "invalid" in place.run("report", str(folder.path)).stdout


@pytest.fixture
def small_disk(enterable):
    """Mount a file system of some size; needs root."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mounted = []

    def mount(size):
        directory = enterable / "disk"
        directory.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", directory], check=True)
        mounted.append(directory)
        return directory

    yield mount
    for directory in mounted:
        subprocess.run(["umount", directory], check=True)


def test_disk_that_fills_up_is_one_clear_error(place, small_disk):
    disk = small_disk("440m")
    (place.directory / "fill.sql").write_text(
        "CREATE TABLE filler AS SELECT repeat(md5(i::text), 30) FROM generate_series(1, 1000000) AS i;\n"
    )
    place.write_experiment(("scale = 1", 'scale = 1\nsetup = "fill.sql"'))

    result = place.run("run", "small.toml", "--work-directory", str(disk))

    assert result.returncode == 1
    assert "No space left on device" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(disk.iterdir()) == []
    assert place.folders() == []


def test_disk_of_the_results_that_fills_up_is_one_clear_error(place, small_disk):
    disk = small_disk("300k")
    place.write_light_experiment(*QUICK)
    (place.directory / "results").symlink_to(disk)

    result = place.run("run", "small.toml")

    assert result.returncode == 1
    assert result.stderr.count("error:") == 1
    assert "Traceback" not in result.stderr
    assert "full" in result.stderr or "No space left on device" in result.stderr
    folder = place.only_folder()
    folder.assert_nothing_left()
    # Where nothing at all can be written, the run's end is not either; once there is space, the next command does it.
    subprocess.run(["mount", "-o", "remount,size=2m", disk], check=True)
    status = place.run("status", str(folder.path))
    assert "interrupted" in status.stdout
    assert [row[2] for row in folder.runs()].count("running") == 0


def find_generators(folder) -> list[int]:
    """Process ids of pgbench that was started for the folder, for what is measured."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_own = f"{MARK}={folder.path.resolve()}".encode() in (path / "environ").read_bytes().split(b"\0")
            command = (path / "cmdline").read_bytes().split(b"\0")
            if is_own and command[0].endswith(b"pgbench") and b"--log" in command:
                found.append(int(path.name))
    return found


@pytest.fixture(scope="module")
def halted(new_place, ended):
    """Two experiments at the same time: pgbench is told to end early, then made to stand still; the server of the other
    stands still in every run.
    """
    places = new_place("generator"), new_place("server")
    processes = []
    for place, blocks in zip(places, (1, 2), strict=True):
        place.write_light_experiment(
            ('duration = "2s"', 'duration = "6s"'), QUICK[1], ("blocks = 2", f"blocks = {blocks}")
        )
        processes.append(place.start("run", "small.toml"))
    ended.extend(processes)
    with ThreadPoolExecutor() as pool:
        harm_generator, harm_server = (
            pool.submit(harm, place) for harm, place in zip((_harm_generator, _harm_server), places, strict=True)
        )
        harm_generator.result()
        harm_server.result()
    return tuple((place, place.finish(process)) for place, process in zip(places, processes, strict=True))


def _wait_for_load(place, run) -> tuple[Any, list[int]]:
    """Wait until a run has been measured for more than its guard time of a second; the folder and pgbench's id."""
    folder = place.wait_until(
        lambda folder: folder.query("SELECT max(id) FROM run") == [(run,)] and find_generators(folder)
    )
    time.sleep(2.2)
    return folder, find_generators(folder)


def _harm_generator(place) -> None:
    _, pids = _wait_for_load(place, 1)
    os.kill(pids[0], signal.SIGALRM)  # it ends as at the end of its time, with status 0
    _, pids = _wait_for_load(place, 2)
    _stand_still(pids)


_STALLS = (2.0, 2.0, 2.0, 4.4)  # s; the last one is too long for the sampler not to notice


def _harm_server(place) -> None:
    for run in (1, 2, 3, 4):
        folder, _ = _wait_for_load(place, run)
        (data,) = (path / "data" for path in folder.work_directories() if (path / "data/postmaster.pid").exists())
        _stand_still(family(int((data / "postmaster.pid").read_text().split()[0])), seconds=_STALLS[run - 1])


def _stand_still(pids, *, seconds=2.5) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def test_generator_that_ends_early_or_stands_still_makes_the_run_invalid(halted):
    place, result = halted[0]

    assert result.returncode == 0, result.stderr
    states = place.only_folder().runs()
    assert [row[:3] for row in states] == [(1, 1, "invalid"), (1, 2, "invalid"), (1, 3, "done"), (2, 1, "done")]
    assert re.fullmatch(r"2 clients: pgbench ended [3-5]\.\d s before the end of its time", states[0][3])
    assert re.fullmatch(r"2 clients: pgbench stood still for [23]\.\d s", states[1][3])


def test_server_that_stands_still_is_told(halted):
    place, result = halted[1]

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    assert [row[3] for row in folder.runs() if row[2] != "done"] == []  # the reasons
    assert len(folder.runs()) == 4
    caveats = {each["code"]: each for each in json.loads((folder.path / "findings.json").read_text())["caveats"]}
    assert caveats["stalled"]["severity"] == "warning"
    assert caveats["unanswered"]["runs"] == [4]
    assert "In 4 of 4 runs no transaction ended for up to " in " ".join(
        place.run("report", str(folder.path)).stdout.split()
    )
