"""A clock that steps, a host that reboots, no root and an empty home, rights that are taken away in the middle."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgtrial
from pgtrial.cli.main import main
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.processes import identify
from pgtrial.model.run import RunState
from pgtrial.store.belongings import Belongings, Made
from pgtrial.store.state import State
from support import wait_until
from support.programs import skip_for_want

TEXT = """
format = 1
experiment = { name = "calm" }
hypothesis = { claim = "b is better", arm = "b", expect = "better" }
dataset = { scale = 1 }
design = { blocks = 1 }
workload = { mix = "select-only", clients = 1, duration = "3s", warmup = 0 }
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "8MB"
"""
# time(2) and its like as the C library has them, ahead by what a file says.
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long ahead(void) {
    char text[32] = {0};
    const char *path = getenv("CLOCK_AHEAD");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return 0;
    if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
    close(file);
    return atol(text);
}
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, at);
    if (id == CLOCK_REALTIME) at->tv_sec += ahead();
    return status;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


@pytest.fixture
def place(storage: Path) -> Iterator[Path]:
    place = storage / f"pgtrial-calm-{os.getpid()}"
    place.mkdir(mode=0o755)
    (place / "e.toml").write_text(TEXT)
    yield place
    subprocess.run(["rm", "-rf", place], check=True)


def start(
    place: Path, *command: str, program: tuple[str, ...] = (sys.executable,), **variables: str
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*program, "-m", "pgtrial", *command, "--work-directory", str(place / "work")],
        cwd=place,
        env={**os.environ, "PGTRIAL_STATE_DIRECTORY": str(place / "state"), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end_of(process: "subprocess.Popen[str]") -> tuple[int, str]:
    output, _ = process.communicate(timeout=400)
    assert "this is a bug" not in output, output
    assert "Traceback" not in output, output
    return process.returncode, output


def is_measuring(place: Path) -> bool:
    return any(place.glob("results/*/runs/*/pgbench/level0-*"))


@pytest.mark.pg
@pytest.mark.parametrize("step", [3600, -3600])
def test_a_clock_that_steps_makes_a_run_invalid_and_nothing_worse(place: Path, step: int) -> None:
    if shutil.which("cc") is None:
        skip_for_want("a C compiler", "apt install gcc libc6-dev")
    (place / "e.toml").write_text(TEXT.replace("blocks = 1", "blocks = 1, repeats = 0").replace("3s", "10s"))
    (place / "clock.c").write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", place / "clock.so", place / "clock.c", "-ldl"], check=True)
    (place / "ahead").write_text("0")
    variables = {"LD_PRELOAD": str(place / "clock.so"), "CLOCK_AHEAD": str(place / "ahead")}

    running = start(place, "run", "-q", "e.toml", **variables)
    wait_until(lambda: is_measuring(place) or running.poll() is not None)
    (place / "ahead").write_text(str(step))
    status, output = end_of(running)

    assert status == 1, output
    (folder,) = (place / "results").glob("calm-*")
    assert main(["status", str(folder)]) == 0
    with contextlib.closing(State.open(folder)) as state:
        (first, *_) = state.runs()
    assert first.state is RunState.INVALID
    assert f"the machine's clock jumped by {step}" in first.reason
    assert not list((place / "work").glob("pgtrial-*"))


@pytest.mark.pg
def test_after_a_reboot_nobody_is_taken_for_what_was_started_before(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same process ids may be anybody's, and what lay in memory is gone; so may the folder itself."""
    monkeypatch.setenv("PGTRIAL_STATE_DIRECTORY", str(place / "state"))
    (place / "results").mkdir()
    gone, there = place / "pgtrial-00000001", place / "pgtrial-00000002"
    (there / "data").mkdir(parents=True)
    innocent = subprocess.Popen(["sleep", "300"])
    try:
        found = identify(innocent.pid)
        assert found is not None
        belongings = Belongings.of(place / "results")
        for directory in (gone, there):
            belongings.add_directory(Made(path=directory, host="local"))
        belongings.add_process(found, "server")
        (place / "results").rmdir()
        monkeypatch.setattr(Operations, "boot_id", lambda _self: "the next boot")

        assert main(["restore"]) == 0

        assert innocent.poll() is None
        assert not there.exists()
        assert "cleared" in capsys.readouterr().out
        assert main(["restore"]) == 0
    finally:
        innocent.kill()
        innocent.wait()


@pytest.mark.pg
def test_an_experiment_goes_on_after_a_kill_and_an_emptied_memory(place: Path) -> None:
    running = start(place, "run", "-q", "e.toml")
    wait_until(lambda: is_measuring(place) or running.poll() is not None)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    wait_until(lambda: not _servers(place))
    for left in (place / "work").iterdir():  # as of a tmpfs
        shutil.rmtree(left)
    (folder,) = (place / "results").glob("calm-*")

    status, output = end_of(start(place, "resume", "-q", str(folder)))

    assert status == 0, output
    assert not list((place / "work").iterdir())


def _servers(place: Path) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if path.readlink().is_relative_to(place / "work"):
                found.append(path)
    return found


def _python_for_others() -> str:
    """A Python that a user without rights may start, and that has what pgtrial needs."""
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    for python in (sys.executable, shutil.which("python3", path="/usr/bin") or sys.executable):
        tried = subprocess.run(
            [*_as_nobody(place=Path("/"), packages=packages), python, "-c", "import pgtrial.cli.run, duckdb, psycopg"],
            capture_output=True,
            check=False,
        )
        if tried.returncode == 0:
            return python
    return ""


def _as_nobody(*, place: Path, packages: str) -> list[str]:
    source = Path(pgtrial.__file__).parents[1]
    return [
        *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-i", f"HOME={place / 'home'}"),
        *(f"PATH={os.environ['PATH']}", f"PYTHONPATH={source}:{packages}", "PYTHONDONTWRITEBYTECODE=1"),
    ]


@pytest.fixture
def nobody(place: Path) -> list[str]:
    """A command line that starts Python as a user without rights, whose home is empty; the place is his."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else; all other tests run without root then")
    python = _python_for_others()
    if not python:
        skip_for_want("a Python that others may start", "chmod o+x the directories above it")
    (place / "home").mkdir()
    for path in (place, *place.iterdir()):
        os.chown(path, 65534, 65534)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    return [*_as_nobody(place=place, packages=packages), python]


@pytest.mark.pg
def test_without_root_and_with_an_empty_home(place: Path, nobody: list[str]) -> None:
    status, output = end_of(start(place, "run", "-q", "e.toml", program=tuple(nobody)))

    assert status == 0, output
    (folder,) = (place / "results").glob("calm-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not list((place / "work").iterdir())


@pytest.mark.pg
def test_without_a_home_it_says_what_to_do(place: Path, nobody: list[str]) -> None:
    (place / "home").rmdir()
    (place / "home").touch()

    status, output = end_of(start(place, "run", "-q", "e.toml", program=tuple(nobody)))

    assert status == 1
    assert "PGTRIAL_STATE_DIRECTORY" in output


@pytest.mark.pg
@pytest.mark.parametrize("taken", ["results/*/runs", "results/*", "results/*/state.sqlite", "work"])
def test_rights_that_are_taken_away_in_the_middle_are_said(place: Path, nobody: list[str], taken: str) -> None:
    running = start(place, "run", "-q", "e.toml", program=tuple(nobody))
    wait_until(lambda: is_measuring(place) or running.poll() is not None)
    assert running.poll() is None
    (path,) = place.glob(taken)
    mode = path.stat().st_mode
    path.chmod(0)
    os.chown(path, 0, 0)
    try:
        status, output = end_of(running)
    finally:
        os.chown(path, 65534, 65534)
        path.chmod(mode)

    assert status in (0, 1), output
    assert (status == 0) == ("error: " not in output), output
    assert "this is a bug" not in output
    assert _servers(place) == []

    # With the rights back it goes on, and clears what it could not.
    (folder,) = (place / "results").glob("calm-*")
    status, output = end_of(start(place, "resume", "-q", str(folder), program=tuple(nobody)))

    assert status == 0, output
    assert [*(place / "work").iterdir()] == []
    with contextlib.closing(State.open(folder)) as state:
        assert {run.slot.number for run in state.runs() if run.state is RunState.DONE} == {1, 2}
