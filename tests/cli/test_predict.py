"""pgtrial predict: from the folder of a ledger to what a change would bring."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.design.limits import limits_experiment
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.load import examine
from support import EXPERIMENT, Simulation, write_result_folder


def write_ledger(folder: Path, follow: Callable[[tuple[float, float]], float]) -> Path:
    """``follow``: throughput by how many times as long CPU time and flushes are."""
    source = examine(EXPERIMENT, Path("/")).experiment
    assert source is not None
    text = limits_experiment(source, resolve_arms(source), resources=["cpu", "flush"], duration=10)
    derived = examine(text, Path("/")).experiment
    assert derived is not None
    slowed = {arm.name: arm.knobs["slowdown"] for arm in resolve_arms(derived)}
    tps = {name: follow((float(table["cpu"]), float(table["flush"]))) for name, table in slowed.items()}
    simulation = Simulation(tps=tps, run_sd=0.01, slice_sd=0.01, seed=3)
    return write_result_folder(folder, text=text, simulation=simulation)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Throughput is as 1 / cpu^0.7 / flush^0.3."""
    return write_ledger(
        tmp_path_factory.mktemp("predict") / "folder", lambda times: 300 * times[0] ** -0.7 * times[1] ** -0.3
    )


def test_change_is_predicted_with_its_interval(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(folder), "--change", "cpu=0.8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ratio"] == pytest.approx(0.8**-0.7, rel=0.03)
    assert found["low"] < 0.8**-0.7 < found["high"]
    assert (found["arm"], found["confidence"]) == ("on", 0.9)


def test_prediction_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(folder), "--change", "cpu=0.7", "--change", "flush=1.5"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("throughput of on: ")
    assert "(90 % interval " in line


def test_what_was_not_tried_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["--change", "cpu=1.6", "--change", "flush=0.01"]

    assert main(["predict", str(folder), *changes]) == 0
    _, *notes = capsys.readouterr().out.splitlines()
    assert main(["predict", str(folder), *changes, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert [note.partition(" was tried")[0] for note in notes] == ["note: cpu", "note: flush"]
    assert "was tried up to 1.5 times" in notes[1]
    assert found["beyond"] == pytest.approx({"cpu": 1.5, "flush": 1.5})
    assert found["fits"] is True


def test_elasticities_that_change_within_the_step_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Throughput follows the longer of two times alone."""
    folder = write_ledger(tmp_path / "folder", lambda times: 300 / max(times))

    assert main(["predict", str(folder), "--change", "cpu=0.8"]) == 0
    assert "note: the elasticities change within the step" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ("memory=2", 2, 'the ledger has no "memory"'),
        ("cpu", 2, "is no NAME=FACTOR"),
        ("cpu=fast", 2, "is no NAME=FACTOR"),
        ("cpu=nan", 2, "is not from 0.01 to 100"),
        ("cpu=0", 2, "is not from 0.01 to 100"),
    ],
)
def test_wrong_change_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], change: str, status: int, message: str
) -> None:
    assert main(["predict", str(folder), "--change", change]) == status
    assert message in capsys.readouterr().err


def test_folder_without_a_ledger_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = write_result_folder(tmp_path / "other")
    assert main(["predict", str(other), "--change", "cpu=0.8"]) == 1
    assert "has no ledger to predict from" in capsys.readouterr().err
