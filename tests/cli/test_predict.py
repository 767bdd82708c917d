"""pgtrial predict: from the folder of a ledger to what a change would bring."""

import json
import math
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.design.limits import limits_experiment
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.load import examine
from support import EXPERIMENT, Simulation, write_result_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Throughput is as 1 / cpu^0.7 / flush^0.3."""
    source = examine(EXPERIMENT, Path("/")).experiment
    assert source is not None
    text = limits_experiment(source, resolve_arms(source), resources=["cpu", "flush"], duration=10)
    derived = examine(text, Path("/")).experiment
    assert derived is not None
    tps = {
        arm.name: 300 * math.prod(float(arm.knobs["slowdown"][key]) ** -e for key, e in (("cpu", 0.7), ("flush", 0.3)))
        for arm in resolve_arms(derived)
    }
    simulation = Simulation(tps=tps, run_sd=0.01, slice_sd=0.01, seed=3)
    return write_result_folder(tmp_path_factory.mktemp("predict") / "folder", text=text, simulation=simulation)


def test_change_is_predicted_with_its_interval(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(folder), "--change", "cpu=0.8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ratio"] == pytest.approx(0.8**-0.7, rel=0.03)
    assert found["low"] < 0.8**-0.7 < found["high"]
    assert (found["arm"], found["confidence"]) == ("on", 0.9)


def test_prediction_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(folder), "--change", "cpu=0.5", "--change", "flush=0.5"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("throughput of on: ")
    assert "(90 % interval " in line


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
