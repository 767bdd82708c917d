import contextlib
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import pgtrial.engine.calibration
import pgtrial.engine.host_facts
from pgtrial.analysis.calibration.promise import Calibration, find_calibration
from pgtrial.cli.calibrate import render_calibration
from pgtrial.cli.main import main
from pgtrial.design.method_case import HostFacts
from pgtrial.errors import WorkloadError
from pgtrial.store import layout
from pgtrial.store.calibrations import CALIBRATION
from pgtrial.store.journal_file import VARIABLE
from support import Simulation, write_result_folder
from support.experiments import load_experiment

pytestmark = pytest.mark.usefixtures("analysed_once")

TEXT = """\
format = 1
[experiment]
name = "x"
[hypothesis]
margin = "5%"
[dataset]
scale = 1
[workload]
mix = "select-only"
clients = 4
duration = "1s"
warmup = 0
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "64MB"
"""
ONE_CPU = HostFacts(local=True, cores=((0,),), memory_available=None)
BUDGET = "110s"  # for six blocks of each method, in one go


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    status: int
    out: str
    err: str
    folder: Path  # of the calibration
    kept: Calibration | None


def calibrate(place: Path, *options: str, run: Callable[[Path], None]) -> Outcome:
    """The command in a directory of its own; ``run`` stands for the servers: it does what is in a part's folder."""
    file = place / "x.toml"
    file.write_text(TEXT)
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setenv(VARIABLE, str(place / "state"))
        patch.setattr(pgtrial.engine.host_facts, "read_facts", lambda _host: ONE_CPU)
        patch.setattr(pgtrial.engine.calibration, "run_experiment", lambda folder, **_: run(folder))
        status = main(["calibrate", str(file), "--results", str(place / "results"), "--budget", BUDGET, *options])
        kept = find_calibration(load_experiment(file))
    folder = next((place / "results").iterdir(), place) if (place / "results").exists() else place
    return Outcome(status=status, out=out.getvalue(), err=err.getvalue(), folder=folder, kept=kept)


def simulate(folder: Path) -> None:
    text = (folder / layout.EXPERIMENT).read_text()
    shutil.rmtree(folder)
    run_sd = 0.05 if folder.name.startswith("blocks") else 0.005
    write_result_folder(folder, text=text, simulation=Simulation(tps={"control": 500.0}, run_sd=run_sd))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return calibrate(tmp_path_factory.mktemp("finished"), run=simulate)


def test_a_table_a_sentence_and_the_lines_of_the_file_are_printed(finished: Outcome) -> None:
    assert finished.status == 0
    lines = finished.out.splitlines()
    assert lines[2].split() == ["method", "blocks", "block", "SD", "per", "minute", "10", "min", "30", "min", "2", "h"]
    assert [line.split()[0] for line in lines[3:5]] == ["blocks", "interleaved"]
    assert '  [design]\n  method = "interleaved"\n  slice  = "500ms"\n  blocks = 6\n' in finished.out
    assert "Recommended: interleaved 500ms, 6 blocks, about " in finished.out
    assert "! Not calibrated: duet: 2 arms at once need at least 2 CPUs" in finished.out
    assert max(map(len, lines[:-1])) <= 80
    assert lines[-1] == f"calibration: {finished.folder}"


def test_parts_are_announced(finished: Outcome) -> None:
    assert "part 1 of 2: blocks-1, 6 blocks of runs of 1 s, about " in finished.err
    assert "part 2 of 2: interleaved-500ms-1, " in finished.err


def test_the_result_is_in_its_folder_and_kept_for_experiments(finished: Outcome) -> None:
    text = (finished.folder / CALIBRATION).read_text()

    assert finished.folder.name.startswith("x-calibration-")
    assert finished.kept == Calibration.model_validate_json(text)
    assert finished.kept.complete
    assert finished.kept.folder == finished.folder.name


def fail_at_slices(error: BaseException) -> Callable[[Path], None]:
    """Blocks are done; then comes an error."""

    def run(folder: Path) -> None:
        if folder.name.startswith("interleaved"):
            shutil.rmtree(folder)
            raise error
        simulate(folder)

    return run


def test_what_ended_early_shows_finished_methods_and_is_not_kept(tmp_path: Path) -> None:
    found = calibrate(tmp_path, run=fail_at_slices(KeyboardInterrupt()))

    assert found.status == 130
    assert "It ended early: only finished methods are shown." in found.out
    assert 'method = "blocks"' in found.out
    assert f'what is finished is kept in "{found.folder}"' in found.err
    assert found.kept is None


def test_json_is_what_is_stored(tmp_path: Path) -> None:
    found = calibrate(tmp_path, "--json", "--quiet", run=fail_at_slices(WorkloadError("the load failed")))

    assert found.status == 1
    assert found.err.endswith("error: the load failed\n")
    assert found.out == (found.folder / CALIBRATION).read_text()
    assert not json.loads(found.out)["complete"]


def test_what_fails_at_once_leaves_no_folder(tmp_path: Path) -> None:
    def run(folder: Path) -> None:
        shutil.rmtree(folder)
        raise WorkloadError("the load failed")

    found = calibrate(tmp_path, run=run)

    assert (found.status, found.out) == (1, "")
    assert found.err.endswith("error: the load failed\n")
    assert list((tmp_path / "results").iterdir()) == []


def test_a_margin_out_of_reach_and_a_method_with_doubts_are_told(finished: Outcome) -> None:
    assert finished.kept is not None
    blocks, interleaved = finished.kept.methods
    doubtful = interleaved.model_copy(update={"doubtful": True, "warnings": ("it may understate the effect",)})
    far = blocks.model_copy(update={"forecast": blocks.forecast.model_copy(update={"blocks": None, "seconds": None})})
    advice = finished.kept.recommendation.model_copy(
        update={"label": "blocks", "method": "blocks", "slice": None, "blocks": None, "seconds": None, "reason": "why"}
    )
    text = render_calibration(
        finished.kept.model_copy(update={"methods": (far, doubtful), "recommendation": advice}), finished.folder
    )

    assert "  interleaved 500ms*  " in text
    assert "* interleaved 500ms: it may understate the effect" in text
    assert "Recommended: blocks: why." in text
    assert '  [design]\n  method = "blocks"\n\n' in text


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ("1min", "error: a budget of 1 min is too small to calibrate blocks, interleaved-500ms"),
        ("ten", 'error: invalid value for "--budget": expected a time such as 30s or 10min'),
        ("0", 'error: invalid value for "--budget": a budget must be above 0'),
    ],
)
def test_a_budget_that_is_no_use_is_refused(tmp_path: Path, budget: str, message: str) -> None:
    found = calibrate(tmp_path, "--budget", budget, run=simulate)

    assert found.status == 2
    assert found.err.startswith(message)
    assert not (tmp_path / "results").exists()
