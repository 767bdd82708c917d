import os
import signal
import subprocess
from pathlib import Path

import pytest

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


def test_signals_stop_cleanly_and_resume_finishes_also_without_a_reader(new_place, ended, gate):
    places = {number: new_place(number.name) for number in (signal.SIGTERM, signal.SIGHUP)}
    processes = {}
    for number, place in places.items():
        place.write_gated_experiment(gate, *ONE_BLOCK)
        processes[number] = place.start("run", "small.toml")
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
    process = places[signal.SIGTERM].start("resume", str(folder.path))
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
    dying = other.start("run", "small.toml")
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


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("--time=1", "a load generator ended after "),
        ("stop", "a load generator stood still for "),
    ],
)
def test_load_that_is_less_than_it_should_be_does_not_count(place, pg_config, fault, reason):
    """pgbench ends with status 0 before its time, or is stopped for a while as by a debugger."""
    programs = place.directory / "programs"
    programs.mkdir()
    for program in Path(pg_config).parent.iterdir():
        (programs / program.name).symlink_to(program)
    for name, text in (
        ("pg_config", f'[ "$*" != --bindir ] && exec {pg_config} "$@"\necho {programs}'),
        (
            "pgbench",
            f'case "$*" in *--log-prefix*) ;; *) exec {pg_config[:-9]}pgbench "$@" ;; esac\n'
            + (
                f'for each; do case "$each" in --time=*) each={fault} ;; esac; set -- "$@" "$each"; shift; done\n'
                if fault != "stop"
                else 'sh -c \'sleep 1; kill -STOP "$1"; sleep 4; kill -CONT "$1"\' - $$ &\n'
            )
            + f'exec {pg_config[:-9]}pgbench "$@"',
        ),
    ):
        (programs / name).unlink(missing_ok=True)
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    place.write_light_experiment(*ONE_BLOCK, ('duration = "1s"', 'duration = "6s"'))

    result = place.run("run", "small.toml", environment={"PG_CONFIG": str(programs / "pg_config")})

    runs = place.only_folder().runs()
    assert result.returncode != 0
    assert {state for _, _, state, _ in runs} == {"invalid"}
    assert all(reason in why for _, _, _, why in runs), runs
    place.only_folder().assert_nothing_left()
