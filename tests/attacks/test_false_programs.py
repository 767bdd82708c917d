"""A load generator that is not what it seems: it ends well and early, and says what it likes of what it did."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.hosts.local import server_account
from pgtrial.postgres.programs import Programs

pytestmark = pytest.mark.pg
TEXT = """
format = 1
experiment = {{ name = "false" }}
hypothesis = {{ claim = "b is better", arm = "b", expect = "better" }}
target = {{ postgres = "{programs}" }}
dataset = {{ kind = "sql", setup = "setup.sql" }}
design = {{ blocks = 1 }}
[workload]
clients = 1
duration = "5s"
warmup = 0
[[workload.scenario]]
name = "s"
file = "s.sql"
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "8MB"
"""
SUMMARY = r"""transaction type: s.sql
number of transactions actually processed: 5000
number of failed transactions: 0 (0.000%)
latency average = 1.000 ms
tps = 1000.000000 (without initial connection time)
"""
# Of the loads that are measured each does another thing.
FALSE = """#!/bin/sh
case "$*" in *--log*) ;; *) exec {real} "$@" ;; esac
number=1
while ! mkdir {out}/$number 2> /dev/null; do number=$((number + 1)); done
case $number in
1) {real} "$@" & sleep 1.2; kill -ALRM $!; wait $!; exit 0 ;;
2) {real} "$@" & sleep 1.2; kill -KILL $!; exit 0 ;;
3) cat {out}/summary; exit 0 ;;
esac
exec {real} "$@"
"""


@pytest.fixture
def place(storage: Path, programs: Programs) -> Iterator[Path]:
    place = storage / f"pgtrial-false-{os.getpid()}"
    place.mkdir(mode=0o755)
    (place / "bin").mkdir()
    (place / "out").mkdir()
    (place / "out" / "summary").write_text(SUMMARY)
    account = server_account()
    if account is not None:
        os.chown(place / "out", account.uid, account.gid)
    for program in programs.directory.iterdir():
        if program.name != "pgbench":
            (place / "bin" / program.name).symlink_to(program)
    pgbench = place / "bin" / "pgbench"
    pgbench.write_text(FALSE.format(real=programs.path("pgbench"), out=place / "out"))
    pgbench.chmod(0o755)
    (place / "e.toml").write_text(TEXT.format(programs=place / "bin"))
    (place / "setup.sql").write_text("SELECT 1;\n")
    (place / "s.sql").write_text("SELECT pg_sleep(0.005);\n")
    yield place
    subprocess.run(["rm", "-rf", place], check=True)


def test_what_ends_early_with_status_0_makes_the_run_invalid(place: Path) -> None:
    work = str(place / "work")
    done = subprocess.run(
        [sys.executable, "-m", "pgtrial", "run", "-q", "e.toml", "--allow-code", "--work-directory", work],
        cwd=place,
        env={**os.environ, "PGTRIAL_STATE_DIRECTORY": str(place / "state")},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    (folder,) = (place / "results").glob("false-*")
    with contextlib.closing(sqlite3.connect(folder / "state.sqlite")) as db:
        runs = db.execute("SELECT state, reason FROM run ORDER BY id").fetchall()
    assert done.returncode == 1
    assert [state for state, _ in runs] == ["invalid"] * 3, done.stderr
    assert all("before the end of its time" in reason for _, reason in runs)
