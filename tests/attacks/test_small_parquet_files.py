"""A Parquet file of some kilobytes may hold millions of values: what reading one takes grows with its size only."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("way", "status"),
    [("rows", 1), ("lists", 1), ("texts", 1), ("objects", 1), ("events", 1), ("waits", 1), ("groups", 1), ("month", 1)],
)
@pytest.mark.parametrize("command", ["report", "export"])
def test_it_takes_little_time_and_memory(way: str, status: int, command: str) -> None:
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
    assert command == "export" or done.stdout.startswith(f"status {status},")
