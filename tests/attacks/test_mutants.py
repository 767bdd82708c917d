"""Damaged and forged folders, bundles, journals and files: no internal error, and little time and memory for each.

``make attack`` gives pgtrial 10,000 of them. Here each has a process of its own, and so has what they are made of.
"""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("kind", "number"), [("folder", 60), ("bundle", 50), ("state", 50), ("file", 50), ("resume", 40), ("findings", 40)]
)
def test_mutants_are_no_internal_error(kind: str, number: int) -> None:
    command = [sys.executable, "-m", "support.attack", "--seed", "20260120", "--workers", "1"]
    done = subprocess.run(
        [*command, "--only", kind, "--number", str(number)],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert f"{number} mutants, 0 problems" in done.stdout
