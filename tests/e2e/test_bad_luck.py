import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from pgtrial.hosts.processes import find_marked, identify


def wait_for(condition, *, seconds: float = 30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def result_folder(directory: Path) -> Path | None:
    found = sorted((directory / "results").glob("*/state.sqlite"))
    return found[0].parent if found else None


def run_states(folder: Path) -> list[tuple[int, int, str, str]]:
    with sqlite3.connect(folder / "state.sqlite") as db:
        return db.execute("SELECT slot, attempt, state, reason FROM run ORDER BY id").fetchall()


def work_directories(folder: Path) -> list[Path]:
    with sqlite3.connect(folder / "state.sqlite") as db:
        return [Path(path) for (path,) in db.execute("SELECT path FROM work_directory")]


def processes_of(folder: Path) -> list[int]:
    return [process.pid for process in find_marked(str(folder.resolve()))]


def measuring(directory: Path) -> Path | None:
    """The result folder, once its first run measures."""
    folder = result_folder(directory)
    return folder if folder is not None and list(folder.glob("runs/*/pgbench/*")) else None


def test_killed_pgtrial_leaves_nothing_running_and_resume_finishes(start_pgtrial, pgtrial, experiment_file, tmp_path):
    process = start_pgtrial("run", str(experiment_file()))
    wait_for(lambda: (folder := result_folder(tmp_path)) and any(row[2] == "done" for row in run_states(folder)))
    folder = wait_for(lambda: measuring(tmp_path))
    assert processes_of(folder)
    process.kill()
    process.wait()

    status = pgtrial("status", str(folder))

    assert status.returncode == 0, status.stderr
    assert "interrupted" in status.stdout
    assert f"pgtrial resume {folder}" in status.stdout
    assert processes_of(folder) == []
    before = [row for row in run_states(folder) if row[2] == "done"]
    assert before
    assert [row[2] for row in run_states(folder) if row[2] != "done"] == ["interrupted"]

    resumed = pgtrial("resume", str(folder))

    assert resumed.returncode == 0, resumed.stderr
    assert "interrupted attempt prepared" in resumed.stderr  # the data were not loaded again
    after = run_states(folder)
    assert after[: len(before)] == before
    assert sorted(row[0] for row in after if row[2] == "done") == [1, 2, 3, 4]
    assert not any(path.exists() for path in work_directories(folder))
    assert processes_of(folder) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_cleanly_and_resume_finishes(number, start_pgtrial, pgtrial, experiment_file, tmp_path):
    process = start_pgtrial("run", str(experiment_file(("blocks = 2", "blocks = 1"))))
    folder = wait_for(lambda: measuring(tmp_path))
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert processes_of(folder) == []
    assert not any(path.exists() for path in work_directories(folder))
    assert run_states(folder)[-1][2] == "interrupted"
    assert pgtrial("resume", str(folder)).returncode == 0


def test_server_that_dies_makes_the_run_invalid_and_it_is_repeated(start_pgtrial, experiment_file, tmp_path):
    process = start_pgtrial("run", str(experiment_file(("blocks = 2", "blocks = 1"))))
    folder = wait_for(lambda: measuring(tmp_path))
    pid = int((work_directories(folder)[0] / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == 0, stderr
    states = run_states(folder)
    assert [row[:3] for row in states[:2]] == [(1, 1, "invalid"), (1, 2, "done")]
    assert "server" in states[0][3] or "connection" in states[0][3]
    assert identify(pid) is None


def test_second_pgtrial_on_the_same_folder_is_refused(start_pgtrial, pgtrial, experiment_file, tmp_path):
    process = start_pgtrial("run", str(experiment_file(("blocks = 2", "blocks = 1"))))
    folder = wait_for(lambda: measuring(tmp_path))

    second = pgtrial("resume", str(folder))
    status = pgtrial("status", str(folder))

    assert second.returncode == 1
    assert "in use by another pgtrial" in second.stderr
    assert "running" in status.stdout
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr


def test_failing_transactions_make_the_run_invalid_until_repeats_are_used_up(pgtrial, tmp_path):
    # Deadlocks by design: two rows locked in either order.
    (tmp_path / "deadlock.sql").write_text(
        "\\set a random(1, 2)\nBEGIN;\n"
        "UPDATE pgbench_branches SET bbalance = 1 WHERE bid = :a;\n"
        "UPDATE pgbench_branches SET bbalance = 1 WHERE bid = 3 - :a;\nEND;\n"
    )
    (tmp_path / "e.toml").write_text(
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

    result = pgtrial("run", "e.toml")

    assert result.returncode == 1
    assert "was invalid 2 times" in result.stderr
    assert "transactions failed" in result.stderr
    assert "Traceback" not in result.stderr
    folder = result_folder(tmp_path)
    assert [row[:3] for row in run_states(folder)] == [(1, 1, "invalid"), (1, 2, "invalid")]
    assert processes_of(folder) == []
    assert not any(path.exists() for path in work_directories(folder))
    assert "invalid" in pgtrial("report", str(folder)).stdout


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 MB; needs root."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def test_disk_that_fills_up_is_one_clear_error(pgtrial, experiment_file, small_disk, tmp_path):
    filler = tmp_path / "fill.sql"
    filler.write_text("CREATE TABLE filler AS SELECT repeat(md5(i::text), 30) FROM generate_series(1, 1000000) AS i;\n")
    file = experiment_file(("scale = 1", 'scale = 1\nsetup = "fill.sql"'))
    tmp_path.chmod(0o755)

    result = pgtrial("run", str(file), "--work-directory", str(small_disk))

    assert result.returncode == 1
    assert "No space left on device" in result.stderr or "not enough space" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(small_disk.iterdir()) == []
    assert result_folder(tmp_path) is None
