"""Call pgtrial for a case, with all that the case needs made before, and taken away after."""

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ground_truth.cases import Case
from ground_truth.needs import SwapAreaError, find_hindrance, find_problem, swap_area
from ground_truth.volumes import VolumeError, limited_volume

_HERE = Path(__file__).parents[1]
_INTERRUPTED = 130
_OTHERS = "in use by another experiment"
_MOST_CHARACTERS = 300  # of an error


class HindranceError(Exception):
    """A case cannot run here; the message says why."""


class NoResultError(HindranceError):
    """pgtrial ended before it could tell anything: it was interrupted, or another one is at work on the machine."""


class CallError(Exception):
    """What pgtrial said when it ended with an error, or without findings."""


@contextlib.contextmanager
def made_for(case: Case, place: Path, *, host_changes: bool) -> Iterator[tuple[str, ...]]:
    """Words to put before a command that runs the case; what the case needs is there until the end.

    HindranceError where it cannot run here.
    """
    hindrance = find_hindrance(case, host_changes=host_changes)
    if hindrance:
        raise HindranceError(hindrance)
    place.mkdir(parents=True, exist_ok=True)
    try:
        with contextlib.ExitStack() as stack:
            if "swap" in case.needs:
                stack.enter_context(swap_area(place))
            within: tuple[str, ...] = ()
            if case.outside:
                within = stack.enter_context(limited_volume(place, case.outside))
                if problem := find_problem(case):
                    raise HindranceError(problem)
            yield within
    except SwapAreaError as err:
        raise HindranceError(f"there is no swap, and none could be made: {err}") from err
    except VolumeError as err:
        raise HindranceError(f"no volumes could be made: {err}") from err


def permission(case: Case) -> tuple[str, ...]:
    """Options of a command that runs the case."""
    return ("--allow-code", *(["--allow-host-changes"] if case.changes_host else []))


def await_end(process: subprocess.Popen[bytes], *, seconds: float | None = None) -> int | None:
    """Its exit status; None if it was ended because ``seconds`` were over.

    Ctrl-C reaches it too; who ends this program in another way ends it as well. It is given the time to put all back.
    """
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()
        return None
    except KeyboardInterrupt:
        process.wait()
        raise
    except SystemExit:
        process.terminate()
        process.wait()
        raise


def call_pgtrial(place: Path, arguments: Sequence[str], *, within: Sequence[str] = ()) -> Path:
    """The newest result folder in ``place`` after pgtrial has run; what it prints goes to a file there.

    Ctrl-C reaches it too; who ends this program in another way ends it as well. It is given the time to put all back.
    """
    printed = place / "printed.txt"
    setpriv = shutil.which("setpriv") or "setpriv"
    with printed.open("w", encoding="utf-8") as output:
        command = [*within, setpriv, "--pdeathsig", "TERM", sys.executable, "-m", "pgtrial", *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=output)
        status = await_end(process)
    found = last_folder(place)
    if status != 0 or found is None:
        said = [line for line in printed.read_text(encoding="utf-8").splitlines() if line.startswith("error:")]
        if status == _INTERRUPTED or any(_OTHERS in line for line in said):
            raise NoResultError(said[0] if said else "it was interrupted")
        # What is kept of it names no place on this machine.
        raise CallError(said[0].replace(f"{_HERE}/", "")[:_MOST_CHARACTERS] if said else "it ended without an error")
    return found


def last_folder(place: Path) -> Path | None:
    """The newest result folder with findings; the time is part of the names."""
    return max((path.parent for path in place.glob("*/findings.json")), default=None)


def describe_machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} CPUs, {memory:.0f} GB of memory, Linux {platform.release()}"


def begin_run(digest: str) -> Callable[[], dict[str, Any]]:
    """What says, once a run is over, of what it was, and where and when it was made, as each record has it."""
    began, started = time.time(), time.monotonic()
    return lambda: {
        "machine": describe_machine(),
        "began": began,
        "seconds": time.monotonic() - started,
        "digest": digest,
    }
