"""A Parquet file of some kilobytes may hold millions of values: what reading one takes grows with its size only."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "way",
    [
        *("padded", "padded-times", "padded-waits", "padded-transactions", "all"),
        *("rows", "lists", "texts", "objects", "events", "waits", "groups", "month", "hours"),
    ],
)
@pytest.mark.parametrize("command", ["report", "export"])
def test_it_takes_little_time_and_memory(way: str, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "support.attack.small_files", way, command],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("held")
    assert command == "export" or done.stdout.startswith("status 1,")
