"""Arms whose server has a standby, from the file to the findings, and what becomes of a run whose standby dies."""

import json
import os
import signal
from pathlib import Path

import pytest

from pgtrial.store.parquet import connect
from support import wait_until

SHORT = (('duration = "2s"', 'duration = "3s"'), ('warmup   = "1s"', "warmup = 0"))
# Each arm waits for its own disk in the same way, so that the standby is what they differ in.
STANDBY = (
    ('[arms.on.postgresql]\nsynchronous_commit = "on"', "[arms.on]"),
    ('[arms.off.postgresql]\nsynchronous_commit = "off"', '[arms.off.standby]\nmode = "{mode}"'),
)


def with_standby(mode: str) -> list[tuple[str, str]]:
    return [*SHORT, *((old, new.format(mode=mode)) for old, new in STANDBY)]


def lag(run: Path, metric: str) -> float | None:
    """Bytes by which the standby was behind at most; None where nothing was read."""
    with connect() as db:
        name = f"pg_stat_replication.{metric}"
        found = db.execute(f"SELECT max(value) FROM '{run}/samples.parquet' WHERE metric = ?", [name]).fetchone()
    assert found is not None  # an aggregate has a row
    return found[0]


def first_process_of_standby(folder) -> int | None:
    for work in folder.work_directories():
        data = work / "data"
        if (data / "standby.signal").exists() and (data / "postmaster.pid").exists():
            return int((data / "postmaster.pid").read_text().splitlines()[0])
    return None


@pytest.mark.parametrize(("mode", "names"), [("synchronous", "pgtrial_standby"), ("asynchronous", "")])
def test_an_arm_has_a_standby_whose_lag_is_sampled(place, mode: str, names: str) -> None:
    place.write_light_experiment(*with_standby(mode))

    result = place.run("run", "small.toml")

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    folder.assert_nothing_left()
    assert [row[2] for row in folder.runs()] == ["done"] * 4
    read = folder.query(
        "SELECT arm, setting.value FROM setting JOIN run ON run.id = run "
        "JOIN slot ON slot.number = slot WHERE name = 'synchronous_standby_names' ORDER BY 1"
    )
    assert set(read) == {("on", ""), ("off", names)}
    for run in (folder.path / "runs").iterdir():
        for metric in ("flush_bytes", "replay_bytes"):
            assert (lag(run, metric) is not None) == ("-off-" in run.name)
    found = json.loads((folder.path / "findings.json").read_text())
    assert found["experiment"]["method"] == "blocks"
    # Of kernel settings others may be at work on this machine.
    differing = [json.dumps(one) for one in found["caveats"] if one["code"] == "undeclared-difference"]
    assert not [one for one in differing if "standby" in one or "wal_" in one or "replica" in one]


def test_run_whose_standby_dies_does_not_count(place, ended) -> None:
    place.write_light_experiment(*with_standby("synchronous"), ("blocks = 2", "blocks = 1"))
    process = place.start("run", "small.toml")
    ended.append(process)
    folder = place.wait_until(lambda folder: [row for row in measured(folder) if "-off-" in row.name])
    pid = wait_until(lambda: first_process_of_standby(folder), bool)
    assert pid is not None

    os.kill(pid, signal.SIGKILL)
    result = place.finish(process)

    assert result.returncode == 0, result.stderr
    assert ("invalid", "the standby died") in {row[2:] for row in folder.runs()}
    assert sorted(row[2] for row in folder.runs()) == ["done", "done", "invalid"]
    folder.assert_nothing_left()


def measured(folder) -> list[Path]:
    """Folders of runs that are being measured: their load writes its log."""
    return [path.parents[1] for path in folder.path.glob("runs/*/pgbench/*")]


def test_server_that_allows_no_standby_is_refused_before_anything_is_measured(place) -> None:
    place.write_light_experiment(
        *with_standby("synchronous"),
        ("[arms.on]", '[target.postgresql]\nwal_level = "minimal"\nmax_wal_senders = 0\n\n[arms.on]'),
    )

    result = place.run("run", "small.toml")

    assert result.returncode == 1
    assert "the standby does not" in result.stderr
    for folder in place.folders():
        folder.assert_nothing_left()
