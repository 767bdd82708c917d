"""Directories of processes for what has no room in memory, and who removes them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pgtrial.store.spill import PREFIX, own_prefix

_OPEN = "import os, signal; from pgtrial.store import parquet; parquet.session(); "


@pytest.fixture
def run(tmp_path: Path):
    """Run a process that has opened DuckDB; the status with which it ends."""

    def run(then: str = "") -> int:
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        return subprocess.run([sys.executable, "-c", _OPEN + then], env=environment, check=False).returncode

    return run


def test_a_process_that_ends_in_order_leaves_nothing(run, tmp_path: Path) -> None:
    assert run("assert os.listdir(os.environ['TMPDIR'])") == 0
    assert run("from pgtrial.store.spill import remove_spill; remove_spill(); os._exit(0)") == 0

    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_has_left_is_removed_by_the_next(run, tmp_path: Path) -> None:
    spill = (
        "db = parquet.connect(threads=1); db.execute(\"SET memory_limit = '20MB'\"); "
        "db.execute('CREATE TEMP TABLE t AS SELECT random() AS a, hash(i)::text AS b FROM range(1000000) AS r(i)'); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )

    assert run(spill) == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert list(left.iterdir())
    assert run() == 0

    assert list(tmp_path.iterdir()) == []


def test_that_of_a_process_at_work_stays(run, tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"{_OPEN} print('open', flush=True); input()"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as at_work:
        assert at_work.stdout is not None
        at_work.stdout.readline()
        (its,) = tmp_path.iterdir()
        assert run() == 0
        assert list(tmp_path.iterdir()) == [its]
        at_work.communicate("\n")

    assert list(tmp_path.iterdir()) == []


def test_what_is_no_such_directory_stays(run, tmp_path: Path) -> None:
    own = own_prefix()
    elsewhere, foreign, mixed = tmp_path / "elsewhere", tmp_path / f"{own}foreign", tmp_path / f"{own}mixed"
    for directory in (elsewhere, foreign, mixed):
        directory.mkdir()
        (directory / "duckdb_temp_1_storage").write_text("")
    (tmp_path / f"{own}link").symlink_to(elsewhere)
    (tmp_path / f"{own}file").write_text("")
    (mixed / "precious").write_text("")
    if os.geteuid() == 0:
        os.chown(foreign, 65534, 65534)

    assert run() == 0

    assert (elsewhere / "duckdb_temp_1_storage").exists()
    assert [each.name for each in mixed.iterdir()] == ["precious"]
    assert (foreign / "duckdb_temp_1_storage").exists() == (os.geteuid() == 0)
    assert (tmp_path / f"{own}link").is_symlink()
    assert (tmp_path / f"{own}file").is_file()


def test_that_of_another_machine_stays_whose_locks_this_one_may_not_see(run, tmp_path: Path) -> None:
    its = tmp_path / f"{PREFIX}0123abcd-x"
    its.mkdir()
    (its / "duckdb_temp_1_storage").write_text("")

    assert run("assert len(os.listdir(os.environ['TMPDIR'])) == 2") == 0

    assert [each.name for each in its.iterdir()] == ["duckdb_temp_1_storage"]
    assert list(tmp_path.iterdir()) == [its]
