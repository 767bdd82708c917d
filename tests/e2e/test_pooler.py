"""Arms with PgBouncer in front of their server, from the file to the findings."""

import json
import os
import signal
from pathlib import Path

import pytest

from pgtrial.store.parquet import connect
from support import wait_until
from support.programs import needs_pgbouncer

pytestmark = needs_pgbouncer
SHORT = (('duration = "2s"', 'duration = "3s"'), ('warmup   = "1s"', "warmup = 0"), ("clients  = 2", "clients  = 3"))
POOLED = (
    "[arms.off.postgresql]",
    '[arms.off.pgbouncer]\npool_mode = "transaction"\npool_size = 1\n\n[arms.off.postgresql]',
)
PREPARED = ("[arms.on.postgresql]", '[target.workload]\nprotocol = "prepared"\n\n[arms.on.postgresql]')
BUSY = "BEGIN;\nSELECT pg_sleep(0.005);\nEND;\n"


def largest(run: Path, metric: str) -> float | None:
    with connect() as db:
        found = db.execute(f"SELECT max(value) FROM '{run}/samples.parquet' WHERE metric = ?", [metric]).fetchone()
    assert found is not None  # an aggregate has a row
    return found[0]


@pytest.mark.parametrize(("method", "own"), [("blocks", "\n[arms.off.workload]\nclients = 5\n"), ("interleaved", "")])
def test_an_arm_has_a_pooler_of_its_own(place, method: str, own: str) -> None:
    pooled = (POOLED[0], POOLED[1].replace("pool_size = 1\n", f"pool_size = 1\n{own}"))
    place.write_light_experiment(*SHORT, pooled, ("blocks = 2", f'blocks = 2\nmethod = "{method}"'))
    (place.directory / "light.sql").write_text(BUSY)

    result = place.run("run", "small.toml")

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    folder.assert_nothing_left()
    assert [row[2] for row in folder.runs()] == ["done"] * 4
    for run in (folder.path / "runs").iterdir():
        # Three clients, or the five of the arm, take turns at one session.
        waiting = (4 if own else 2) if "-off-" in run.name else None
        assert largest(run, "pgbouncer.clients_waiting") == waiting
        assert largest(run, "pgbouncer.servers") == (None if waiting is None else 1)
    if method == "blocks":
        found = json.loads((folder.path / "findings.json").read_text())
        means = {one["metric"]: {arm["arm"]: arm["mean"] for arm in one["arms"]} for one in found["metrics"]}
        assert means["pgbouncer.wait"].keys() == {"off"}
        assert 0.005 < means["pgbouncer.wait"]["off"] < means["pgbench.latency_mean"]["off"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ((POOLED[0], POOLED[1].replace("= 1", "= 200")), 'arm "off": max_connections is 100, 204 are needed'),
        (PREPARED, 'cannot have pool_mode = "transaction" with protocol = "prepared"'),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_measured(place, change, error: str) -> None:
    place.write_light_experiment(*SHORT, *([POOLED] if change is PREPARED else []), change)

    result = place.run("run", "small.toml")

    # A PgBouncer since 1.21 prepares the statements itself.
    assert result.returncode == 1 or (change is PREPARED and result.returncode == 0)
    assert error in result.stderr or result.returncode == 0
    for folder in place.folders():
        folder.assert_nothing_left()


def pid_of_pooler(folder) -> int | None:
    """Of one that serves already: its process has a configuration in a work directory of the experiment."""
    configurations = {str(work / "pgbouncer.ini") for work in folder.work_directories()}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
        except OSError:  # it has ended meanwhile
            continue
        if len(words) > 1 and words[0].endswith("pgbouncer") and words[1] in configurations:
            return int(process.name)
    return None


def test_run_whose_pooler_dies_does_not_count_and_says_so(place, ended) -> None:
    place.write_light_experiment(*SHORT, POOLED, ("blocks = 2", "blocks = 1"))
    process = place.start("run", "small.toml")
    ended.append(process)
    folder = place.wait_until(
        lambda folder: [*folder.path.glob("runs/*-off-*/pgbench/*")]  # its load writes its log
    )
    pid = wait_until(lambda: pid_of_pooler(folder), bool)
    assert pid is not None

    os.kill(pid, signal.SIGKILL)
    result = place.finish(process)

    assert result.returncode == 0, result.stderr
    (invalid,) = [row for row in folder.runs() if row[2] == "invalid"]
    assert "PgBouncer died" in invalid[3]
    folder.assert_nothing_left()
