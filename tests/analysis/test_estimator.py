import shutil
from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.effects.stopping import FEWEST_BLOCKS, Estimator
from pgtrial.report.words import primary_effect
from pgtrial.store import layout
from pgtrial.store.plans import read_plan
from support import write_result_folder


def test_it_is_what_the_report_says_of_the_same_runs(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "stopped", runs=12)
    estimate = Estimator(folder=folder, plan=read_plan(folder)).estimate()
    effect = primary_effect(analyze(folder))

    assert estimate is not None
    assert effect is not None
    control, found = estimate
    assert (found.arm, control, found.metric) == ("off", "on", "pgbench.tps")
    assert (found.ratio, found.low, found.high) == pytest.approx((effect.ratio, effect.low, effect.high))
    assert (found.confidence, found.margin, found.blocks) == (0.95, 0.05, 4)


def test_there_is_none_before_three_blocks(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "stopped", runs=3 * (FEWEST_BLOCKS - 1))

    assert Estimator(folder=folder, plan=read_plan(folder)).estimate() is None


def test_a_run_is_read_once(tmp_path: Path) -> None:
    """The same experiment goes on, and what was read of its first blocks is not there any more."""
    whole = write_result_folder(tmp_path / "whole")
    folder = write_result_folder(tmp_path / "growing", runs=9)
    estimator = Estimator(folder=folder, plan=read_plan(folder))
    assert estimator.estimate() is not None

    early = {path.name for path in (folder / layout.RUNS).iterdir()}
    for name in early:
        (folder / layout.RUNS / name / layout.TRANSACTIONS).unlink()
    for path in (whole / layout.RUNS).iterdir():
        if path.name not in early:
            shutil.copytree(path, folder / layout.RUNS / path.name)
    shutil.copy(whole / layout.STATE, folder / layout.STATE)
    estimate, effect = estimator.estimate(), primary_effect(analyze(whole))

    assert estimate is not None
    assert effect is not None
    _, found = estimate
    assert found.blocks == 6
    assert (found.ratio, found.low, found.high) == pytest.approx((effect.ratio, effect.low, effect.high))


def test_blocks_are_as_many_as_status_waits_for() -> None:
    from pgtrial.cli import status

    assert status.FEWEST_BLOCKS == FEWEST_BLOCKS
