"""Defect 1 on a real server: an arm hands work over to programs that do it a second later, in the other arm's slices.

Nothing holds these programs back while their arm stands still. In slices of a second the arm that hands work over gains
from what it costs; in slices of twice the length it pays.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.model.verdict import Verdict
from pgtrial.store.journal_file import VARIABLE

FILES = Path(__file__).parent / "handed_over"
PATIENCE = 900.0  # s


@pytest.mark.slow
@pytest.mark.pg
def test_a_cost_that_falls_into_the_other_arms_slices_is_no_gain(tmp_path: Path) -> None:
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    result = subprocess.run(
        [sys.executable, "-m", "pgtrial", "run", "experiment.toml", "--allow-code", "--assert", "--results", "results"],
        cwd=tmp_path,
        env={**os.environ, VARIABLE: str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    (folder,) = (tmp_path / "results").iterdir()
    found = analyze(folder)
    primary = next(effect for effect in found.effects if effect.metric == found.hypothesis.metric)
    short, long = (
        np.mean([np.log(ratio) for ratio in primary.block_ratios[start::2] if ratio is not None]) for start in (0, 1)
    )
    print(f"in slices of 1 s {np.exp(short) - 1:+.1%}, of 2 s {np.exp(long) - 1:+.1%}")

    assert result.returncode in (3, 4, 5), result.stdout  # refuted, inconclusive or invalid
    assert long < short - 0.03
    assert long < 0
    assert found.hypothesis.verdict is not Verdict.SUPPORTED
    assert any(caveat.code.startswith("effect-grows-with-slices") for caveat in found.caveats)
