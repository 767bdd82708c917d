"""The SQL of the examples, on a real server: data that are made, what arms do to them, and scripts of the load."""

import asyncio
import subprocess
from pathlib import Path

import psycopg
import pytest

from pgtrial.engine.target.base import alter_database, undo_sql
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.load import examine
from pgtrial.postgres.connect import execute_script
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.workloads.scenarios import scenarios_of, setup_sql

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = [
    path
    for path in sorted(EXAMPLES.rglob("*.toml"))
    if (experiment := examine(path.read_text(encoding="utf-8"), path.parent).experiment) is not None
    and experiment.dataset.kind == "sql"
    and experiment.workload.kind == "pgbench"
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_the_sql_of_an_example_runs(
    path: Path, served: ThrowawayCluster, runner: asyncio.Runner, tmp_path: Path
) -> None:
    experiment = examine(path.read_text(encoding="utf-8"), path.parent).experiment
    assert experiment is not None
    with psycopg.connect(served.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE example")
    conninfo = served.conninfo("example")
    try:
        for name, script in setup_sql(experiment, path.parent):
            runner.run(execute_script(conninfo, script, name=name))
        for arm in resolve_arms(experiment):
            runner.run(alter_database(arm, conninfo))
            for scenario in scenarios_of(experiment, path.parent):
                script = tmp_path / "script.sql"
                script.write_text(scenario.script or "")
                once = [served.programs.path("pgbench"), "-n", "-t", "1", "-f", script, conninfo]
                done = subprocess.run(once, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr
            runner.run(undo_sql(arm, conninfo))
    finally:
        with psycopg.connect(served.conninfo(), autocommit=True) as connection:
            connection.execute("DROP DATABASE example WITH (FORCE)")
