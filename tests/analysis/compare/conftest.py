"""Simulated experiments that repeat each other, share a control, or have nothing in common; and logs of plain loads."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.compare.experiments import compare_experiments
from pgtrial.analysis.comparison_findings import ExperimentComparison
from pgtrial.analysis.findings import Findings
from support import EXPERIMENT, Simulation, write_result_folder

SHORT = EXPERIMENT.replace('"10s"', '"3s"').replace("blocks = 6", "blocks = 3")
OTHER_ARM = SHORT.replace(
    '[arms.off.postgresql]\nsynchronous_commit = "off"', "[arms.group.postgresql]\ncommit_delay = 100"
)
OTHER_LOAD = SHORT.replace("clients = 4", "clients = 8")


@pytest.fixture(scope="session")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write the folder of a simulated experiment under a name of its own."""
    place = tmp_path_factory.mktemp("results")

    def write_folder(name: str, *, text: str = SHORT, runs: int | None = None, **truth: object) -> Path:
        return write_result_folder(place / name, text=text, runs=runs, simulation=Simulation(**truth))  # type: ignore[arg-type]

    return write_folder


@pytest.fixture(scope="session")
def read() -> Callable[[Path], Findings]:
    """The findings of an experiment, analysed once however many tests look at it."""
    return cache(analyze)


@pytest.fixture(scope="session")
def compare(read: Callable[[Path], Findings]) -> Callable[..., ExperimentComparison]:
    """What compare_experiments says of these folders."""

    def compare_folders(*folders: Path) -> ExperimentComparison:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pgtrial.analysis.compare.subjects.analyze", read)
            return compare_experiments(folders)

    return compare_folders


@pytest.fixture(scope="session")
def monday(write: Callable[..., Path]) -> Path:
    return write("monday", seed=11)


@pytest.fixture(scope="session")
def tuesday(write: Callable[..., Path]) -> Path:
    """The same question on another machine."""
    facts = {arm: {"machine/CPUs": "4", "kernel/boot id": "other"} for arm in ("on", "off", "placebo")}
    return write("tuesday", seed=12, facts=facts, settings={arm: {"work_mem": "8MB"} for arm in facts})


@pytest.fixture(scope="session")
def wednesday(write: Callable[..., Path]) -> Path:
    return write("wednesday", seed=13, tps={"on": 480.0, "off": 1000.0})


@pytest.fixture(scope="session")
def other_arm(write: Callable[..., Path]) -> Path:
    """Another arm against the same control."""
    return write("other-arm", text=OTHER_ARM, seed=14, tps={"on": 500.0, "group": 700.0})


@pytest.fixture(scope="session")
def other_load(write: Callable[..., Path]) -> Path:
    return write("other-load", text=OTHER_LOAD, seed=15)


@pytest.fixture(scope="session")
def repeated(
    monday: Path, tuesday: Path, wednesday: Path, compare: Callable[..., ExperimentComparison]
) -> ExperimentComparison:
    return compare(monday, tuesday, wednesday)
