"""A load on files, by the real fio."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.evidence import read_evidence
from pgtrial.cli.main import main
from pgtrial.model.run import PhaseName
from support.programs import needs_program

pytestmark = needs_program("fio", "apt install fio", required_by="PGTRIAL_REQUIRE_FIO")

TEXT = """\
format = 1
[experiment]
name = "cache"
[hypothesis]
claim = "what is in the page cache is read faster"
arm = "warm"
expect = "better"
[target]
directory = "{directory}"
[target.fio]
pattern = "randread"
size = "16MB"
block_size = "8kB"
[workload]
kind = "fio"
duration = "2s"
[arms.direct.fio]
direct = true
[arms.warm.fio]
cache = "warm"
[design]
blocks = 2
seed = 3
"""
SECONDS = 2


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory on a disk: not every kernel's file system in memory knows O_DIRECT, and it is no slower there."""
    with tempfile.TemporaryDirectory(prefix="pgtrial-test-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)  # as root, the load has an account of its own
        (folder / "data").mkdir()
        (folder / "e.toml").write_text(TEXT.format(directory=folder / "data"))
        yield folder


@pytest.fixture(scope="module")
def finished(place: Path) -> Path:
    assert main(["run", str(place / "e.toml"), "--results", str(place / "results"), "--quiet"]) == 0
    (folder,) = (place / "results").iterdir()
    return folder


def test_every_run_counts_and_has_every_second(finished: Path) -> None:
    findings = json.loads((finished / "findings.json").read_text())

    assert [run["state"] for run in findings["runs"]] == ["done"] * 4
    for run in sorted((finished / "runs").iterdir()):
        rows = duckdb.sql(
            f"SELECT second, count, latency_sum / count, list_sum(bucket_counts) FROM '{run}/transactions.parquet' "
            "ORDER BY second"
        ).fetchall()
        assert [second for second, *_ in rows] == list(range(SECONDS))
        assert all(count == in_buckets and 0 < latency < 1 for _, count, latency, in_buckets in rows)


def test_one_process_at_a_time_has_one_request_under_way(finished: Path) -> None:
    """Little's law: with one request at a time throughput times latency is 1, less what fio itself takes."""
    for run in (finished / "runs").iterdir():
        ((share,),) = duckdb.sql(f"SELECT sum(latency_sum) / {SECONDS} FROM '{run}/transactions.parquet'").fetchall()
        assert 0.1 < share < 1.05


def test_what_is_in_the_cache_is_read_faster_than_past_it(finished: Path) -> None:
    findings = json.loads((finished / "findings.json").read_text())
    (effect,) = (
        effect
        for effect in findings["effects"]
        if (effect["metric"], effect["scenario"], effect["load_level"]) == ("fio.bandwidth", None, "all")
    )

    assert effect["ratio"] > 1
    assert findings["hypothesis"]["metric"] == "fio.bandwidth"


def test_samples_are_there_and_no_server_is_missed(finished: Path) -> None:
    for run in (finished / "runs").iterdir():
        ((ticks,),) = duckdb.sql(
            f"SELECT count(*) FROM '{run}/samples.parquet' WHERE metric = 'proc_vmstat.nr_dirty_threshold'"
        ).fetchall()
        assert ticks >= 2
    codes = {caveat.code for caveat in analyze(finished).caveats}
    assert not codes & {"settings-unknown", "no-source", "no-samples"}


def test_nothing_is_left_beside_the_results(place: Path, finished: Path) -> None:
    assert list((place / "data").iterdir()) == []
    assert {path.name for run in (finished / "runs").iterdir() for path in run.iterdir()} == {
        "transactions.parquet",
        "samples.parquet",
        "waits.parquet",
    }


def test_a_place_that_takes_no_files_is_known_before_anything_is_measured(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = place / "bad.toml"
    file.write_text(TEXT.format(directory="/proc"))

    assert main(["run", str(file), "--results", str(place / "other"), "--quiet"]) == 1

    assert "/proc" in capsys.readouterr().err
    assert not (place / "other").exists() or list((place / "other").iterdir()) == []


def test_without_fio_the_error_says_so(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(place))

    assert main(["run", str(place / "e.toml"), "--results", str(place / "none"), "--quiet"]) == 1

    assert 'program "fio" not found' in capsys.readouterr().err
    assert not (place / "none").exists() or list((place / "none").iterdir()) == []


def test_a_given_amount_is_written_once_whatever_time_it_takes(place: Path) -> None:
    text = TEXT.replace('"randread"', '"write"\nonce = true').replace('duration = "2s"', 'duration = "30s"')
    (place / "once.toml").write_text(text.format(directory=place / "data"))

    assert main(["run", str(place / "once.toml"), "--results", str(place / "once"), "--quiet"]) == 0

    (folder,) = (place / "once").iterdir()
    evidence = read_evidence(folder)
    rates = {one.run: one.value for one in analyze(folder).observations if one.metric == "fio.bandwidth"}
    for run in evidence.valid:
        (measured,) = (phase for phase in run.phases if phase.name is PhaseName.MEASURE)
        assert measured.end - measured.start < 30
        assert rates[run.id] * (measured.end - measured.start) == pytest.approx(16 << 20, rel=0.001)
