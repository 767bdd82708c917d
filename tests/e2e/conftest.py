import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pgtrial.hosts.processes import MARK

EXPERIMENT = """
format = 1

[experiment]
name = "small"

[hypothesis]
claim  = "not waiting for the disk is faster"
arm    = "off"
expect = "better"
margin = "3%"

[dataset]
scale = 1

[workload]
mix      = "simple-update"
clients  = 2
duration = "2s"
warmup   = "1s"

[arms.on.postgresql]
synchronous_commit = "on"

[arms.off.postgresql]
synchronous_commit = "off"

[design]
blocks = 2
seed   = 7
"""


def marked_processes() -> list[str]:
    """Command lines of everything that was started for some result folder and still runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environment, command = (path / "environ").read_bytes(), (path / "cmdline").read_bytes()
        except OSError:
            continue
        if any(part.startswith(f"{MARK}=/".encode()) for part in environment.split(b"\0")) and command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


@pytest.fixture
def pgtrial(programs, tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line as a user does, in a directory of its own."""

    def run(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pgtrial", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "PGHOST": "nowhere.invalid", "COLUMNS": "100"},
        )

    return run


@pytest.fixture
def start_pgtrial(programs, tmp_path):
    """Start the command line and go on; ended after the test, if it still runs."""
    started = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "pgtrial", *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def experiment_file(tmp_path) -> Callable[..., Path]:
    """Write the small experiment with some of its text replaced."""

    def write(*replacements: tuple[str, str], more: str = "") -> Path:
        text = EXPERIMENT
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "small.toml"
        path.write_text(text + more)
        return path

    return write


@pytest.fixture
def work_base() -> Path:
    """Where work directories are made by default, for looking at what is left there."""
    return Path("/var/tmp")
