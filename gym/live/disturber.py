"""A neighbour that is never long the same: bursts of computing and of writing to the disk, at random times.

    python -m gym.live.disturber --seed 1 --log bursts.jsonl

It ends when told to, and with the process that started it; a burst is over after ten seconds at the latest in any case.
Every burst is one line of the log, as it begins: when it does, when it will be over, and what it does.
"""

import argparse
import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import numpy as np

LONGEST = 10.0  # s, of a burst and of a pause
_MEAN = 3.0  # s
_CHUNK = 1 << 18  # bytes between two calls of fsync
_ROOM = 32 * _CHUNK
_PR_SET_PDEATHSIG = 1  # prctl(2)


@contextlib.contextmanager
def disturbed(*, seed: int, log: Path) -> Iterator[None]:
    """The machine with that neighbour, until the block ends or this process does."""
    # The death signal comes first: a process that is killed at once leaves no neighbour either.
    program = [_setpriv(), "--pdeathsig", "TERM", sys.executable, "-m", __name__]
    process = subprocess.Popen([*program, "--seed", str(seed), "--log", str(log)])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _setpriv() -> str:
    found = shutil.which("setpriv")
    if found is None:
        raise FileNotFoundError('the program "setpriv" is missing; install the package util-linux')
    return found


def read_bursts(log: Path) -> list[tuple[float, float]]:
    """When bursts began and ended, in seconds since the epoch."""
    if not log.exists():
        return []
    lines = (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines())
    return [(line["start"], line["end"]) for line in lines]


def disturbed_share(bursts: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """Share of a time in which a burst was on; bursts of one neighbour do not overlap."""
    shared = sum(max(0.0, min(end, until) - max(start, since)) for since, until in bursts)
    return shared / (end - start) if end > start else 0.0


def compute(until: float, scratch: Path) -> None:
    """Use a CPU."""
    while time.monotonic() < until:
        sum(range(10_000))


def write(until: float, scratch: Path) -> None:
    """Write a little at a time, and have it on the disk each time."""
    content = os.urandom(_CHUNK)
    with scratch.open("wb", buffering=0) as file:
        while time.monotonic() < until:
            if file.tell() >= _ROOM:
                file.seek(0)
            file.write(content)
            os.fsync(file.fileno())


ACTS: Mapping[str, tuple[Callable[[float, Path], None], ...]] = {
    "computing": (compute,),
    "computing twice": (compute, compute),
    "writing": (write,),
    "both": (compute, write),
}


def burst(name: str, seconds: float, scratch: Path) -> None:
    """Do it for so long, each part in a process of its own that cannot outlive this one."""
    until = time.monotonic() + seconds
    children = [_fork(act, until, scratch) for act in ACTS[name]]
    try:
        while children:
            os.waitpid(children[-1], 0)
            children.pop()
    finally:
        for child in children:  # who is told to end does not leave them to the kernel, which takes its time
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _fork(act: Callable[[float, Path], None], until: float, scratch: Path) -> int:
    child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        act(until, scratch)
    finally:
        os._exit(0)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    rng = np.random.default_rng(options.seed)
    scratch = options.log.with_suffix(".scratch")
    try:
        with options.log.open("a", encoding="utf-8") as log:
            while True:
                time.sleep(min(rng.exponential(_MEAN), LONGEST))
                name, seconds = str(rng.choice(list(ACTS))), min(rng.exponential(_MEAN), LONGEST)
                start = time.time()
                log.write(json.dumps({"start": start, "end": start + seconds, "what": name}) + "\n")
                log.flush()
                burst(name, seconds, scratch)
    finally:
        scratch.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
