"""The log of a server has what everybody wrote into it who may connect: reading one takes no more than its size."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.attack.logs import WAYS

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("way", WAYS)
def test_it_takes_little_time_and_memory(way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "support.attack.logs", way],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("held")
