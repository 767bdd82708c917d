"""pgtrial question against a real server: what it writes passes "pgtrial check", and what has no answer is said."""

import asyncio
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from pgtrial.cli.main import main
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.watch.folder import Rows
from pgtrial.watch.layout import MINUTE
from support.incident import LOOK, lock, wait, write, write_statements

pytestmark = pytest.mark.pg
WINDOWS = ("2026-11-28T00:00/00:06", "2026-11-28T00:06/00:12")
SHOP = """
CREATE EXTENSION pg_stat_statements;
CREATE TABLE event (id int PRIMARY KEY, customer int NOT NULL, body text NOT NULL);
INSERT INTO event SELECT n, n % 100, 'x' FROM generate_series(1, 2000) AS n;
ANALYZE;
"""


@pytest.fixture(scope="module")
def shop(
    programs: Programs, run_cluster: Callable[..., AbstractContextManager[ThrowawayCluster]]
) -> Iterator[ThrowawayCluster]:
    settings = {"shared_preload_libraries": "pg_stat_statements", "work_mem": "2MB"}
    with asyncio.Runner() as runner, run_cluster(programs, runner, settings=settings) as cluster:
        with psycopg.connect(cluster.conninfo(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE shop")
        with psycopg.connect(cluster.conninfo("shop"), autocommit=True) as connection:
            connection.execute(SHOP.encode())
            for customer in range(20):
                connection.execute("SELECT * FROM event WHERE customer = %s", [customer])
                connection.execute("UPDATE event SET body = 'y' WHERE id = %s", [customer])
                connection.execute("SELECT pg_sleep(%s)", [0.01])
        yield cluster


def ask(
    cluster: ThrowawayCluster, watched: Path, output: Path, windows: tuple[str, str] = WINDOWS
) -> dict[str, dict[str, Any]]:
    """The files of the questions by name, after each has passed "check"."""
    dsn = cluster.conninfo("shop")
    assert main(["question", str(watched), *windows, "--server", dsn, "-o", str(output)]) == 0
    subprocess.run(
        [cluster.programs.path("pg_dump"), "--format=custom", f"--file={output / 'copy.dump'}", dsn], check=True
    )
    found = {}
    for path in output.glob("question-*.toml"):
        assert main(["check", "--no-host", str(path)]) == 0
        found[path.stem.removeprefix("question-")] = tomllib.loads(path.read_text())
    return found


def test_an_index_that_is_missing_and_memory_that_is_too_small(
    shop: ThrowawayCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(rows: Rows, t: float, rng: np.random.Generator) -> None:
        wait(rows, t, LOOK, "", int(rng.integers(3, 8)))

    write(tmp_path / "w", look, always=((LOOK, 1),), rows_read=5.0, spilled=3e6)
    found = ask(shop, tmp_path / "w", tmp_path / "q")

    assert set(found) == {"rows", "spill"}
    rows, spill = found["rows"], found["spill"]
    assert rows["arms"]["indexed"]["sql"]["apply"] == 'CREATE INDEX ON "public"."event" ("customer"); ANALYZE'
    assert spill["arms"]["more_work_mem"]["postgresql"]["work_mem"] == "32MB"
    assert spill["target"]["postgresql"]["work_mem"] == "2MB"
    assert spill["hypothesis"]["expect"] == "better"
    assert sorted(each["share"] for each in spill["workload"]["scenario"])[-2:] == [20, 20]
    said = capsys.readouterr().out
    assert "pg_dump --format=custom" in said
    assert "% of the time): it calls pg_sleep, which may do more than read and write rows" in said
    (kept,) = re.findall(r"The load has ([\d.]+) % of the time", said)
    assert 0 < float(kept) < 99
    assert f"The load has {kept} % of the time" in rows["experiment"]["description"]


@pytest.mark.parametrize("are_seen", [False, True])
def test_a_plan_that_has_changed_is_asked_about_once(
    shop: ThrowawayCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], are_seen: bool
) -> None:
    """With many rows that are read, and sessions that are seen at it, it is known twice."""

    def look(rows: Rows, t: float, rng: np.random.Generator) -> None:
        wait(rows, t, LOOK, "", int(rng.integers(3, 8)))

    write_statements(tmp_path / "w", lasts=15 * MINUTE, blocks=50.0)
    if are_seen:
        write(tmp_path / "w", look, lasts=15 * MINUTE, always=((LOOK, 1),), rows_read=5.0)
    found = ask(shop, tmp_path / "w", tmp_path / "q", ("2026-11-28T00:00/00:15", "2026-11-28T00:15/00:30"))

    (one,) = found.values()
    assert set(found) == {"rows" if are_seen else "plan"}
    assert one["arms"]["indexed"]["sql"]["apply"] == 'CREATE INDEX ON "public"."event" ("customer"); ANALYZE'
    assert ("question-rows is about the same statement" in capsys.readouterr().out) is are_seen


def test_a_lock_is_no_question_of_a_setting(
    shop: ThrowawayCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "w", lock)
    assert ask(shop, tmp_path / "w", tmp_path / "q") == {}
    assert "no experiment: who holds a lock too long is the application's" in capsys.readouterr().out


def test_another_database_is_refused_and_nothing_is_written(
    shop: ThrowawayCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "w", lock)
    output = tmp_path / "q"
    assert main(["question", str(tmp_path / "w"), *WINDOWS, "--server", shop.conninfo(), "-o", str(output)]) == 2
    assert 'is database "postgres", and the watch is of "shop"' in capsys.readouterr().err
    assert not output.exists()
