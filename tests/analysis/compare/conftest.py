"""Simulated experiments that repeat each other, share a control, or have nothing in common; and logs of plain loads."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from pgtrial.analysis.compare.experiments import compare_experiments, compare_subjects
from pgtrial.analysis.compare.subjects import Subject, letter, read_subjects
from pgtrial.analysis.comparison_findings import ExperimentComparison
from pgtrial.testing import EXPERIMENT, Simulation, write_result_folder

SHORT = EXPERIMENT.replace('"10s"', '"3s"')
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
def read() -> Callable[[Path], Subject]:
    """An experiment as it is compared, analysed once however many tests look at it."""

    @cache
    def read_once(folder: Path) -> Subject:
        (subject,) = read_subjects([folder])
        return subject

    return read_once


@pytest.fixture(scope="session")
def compare(read: Callable[[Path], Subject]) -> Callable[..., ExperimentComparison]:
    """What compare_experiments says of these folders."""
    return lambda *folders: compare_subjects(
        [replace(read(folder), key=letter(number)) for number, folder in enumerate(folders)]
    )


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
def repeated(monday: Path, tuesday: Path, wednesday: Path) -> ExperimentComparison:
    return compare_experiments([monday, tuesday, wednesday])
