"""What cases need of the machine: whether it is there, and a swap area where the machine has none."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ground_truth.cases import Case

SWAP_BYTES = 1 << 30
_SWAP_NAME = "swap-area"


class SwapAreaError(Exception):
    """The kernel does not take the file as a swap area."""


def find_hindrance(case: Case, *, host_changes: bool) -> str:
    """Why a case cannot run here, in a sentence; "" if it can."""
    if not case.changes_host:
        return ""
    needs = ", ".join(case.needs)
    if os.geteuid() != 0:
        return f"it needs {needs}; run it as root"
    if not host_changes:
        return f"it needs {needs}; allow that with --allow-host-changes"
    return "" if case.outside else find_problem(case)  # what is made for it is not there yet


def find_problem(case: Case) -> str:
    """Why pgtrial cannot change the host as the case asks for, in a sentence; "" if it can."""
    planned = subprocess.run(
        [sys.executable, "-m", "pgtrial", "plan", "--json", str(case.file)], capture_output=True, text=True, check=False
    )
    if planned.returncode != 0:
        return planned.stderr.strip() or "pgtrial plan failed"
    changes = json.loads(planned.stdout)["host_changes"]
    return "; ".join(dict.fromkeys(f"{change['knob']}: {change['problem']}" for change in changes if change["problem"]))


@contextlib.contextmanager
def swap_area(directory: Path) -> Iterator[str]:
    """Memory to swap to, made for the time of a case where the machine has none; says what was made, or "".

    Raises SwapAreaError where the file system of ``directory`` is none that the kernel swaps to.
    """
    if len(Path("/proc/swaps").read_text(encoding="utf-8").splitlines()) > 1:
        yield ""
        return
    file = directory.resolve() / _SWAP_NAME
    try:
        _make(file)
        _call("mkswap", str(file))
        _call("swapon", str(file))
        yield f"{SWAP_BYTES >> 20} MB of swap in {file}"
    finally:
        if _is_in_use(file):
            _call("swapoff", str(file))
        file.unlink(missing_ok=True)


def _is_in_use(file: Path) -> bool:
    return any(line.split()[0] == str(file) for line in Path("/proc/swaps").read_text(encoding="utf-8").splitlines())


def _make(file: Path) -> None:
    """A file without holes, which the kernel asks for: written, not merely reserved."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as area:
        for _ in range(SWAP_BYTES >> 20):
            area.write(bytes(1 << 20))
        area.flush()
        os.fsync(area.fileno())


def _call(program: str, *arguments: str) -> None:
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if path is None:
        raise SwapAreaError(f'the program "{program}" is missing')
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SwapAreaError(done.stderr.strip())
