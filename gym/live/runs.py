"""Run experiments by the command line, some of them at a time, and keep what came out of each."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gallery.runs import newest_folder

from gym.live.experiment import write_experiment
from gym.live.plan import PGBENCH, Trial
from gym.live.record import Record, Run
from pgtrial.findings.findings import Findings
from pgtrial.findings.record import ALL
from pgtrial.store.findings_file import read_findings
from pgtrial.store.journal_file import VARIABLE

LONGEST = 15 * 60.0  # s, of one experiment: a server that hangs does not hold up the series
PATIENCE = 120.0  # s, for experiments whose series was killed
_POLL = 0.2  # s between two looks at what has ended
_TO_PUT_BACK = 60.0  # s, for an experiment that is ended
_MOST_CHARACTERS = 200  # of an error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    trial: Trial
    place: Path
    process: "subprocess.Popen[bytes]"
    started: float  # s since the epoch
    deadline: float


class BusyError(Exception):
    """Experiments of an earlier call are still at work in the directory."""


@contextlib.contextmanager
def alone(results: Path) -> Iterator[int]:
    """A lock on the directory, to be handed to all that is started: it is held until the last of them has ended.

    Who was killed leaves experiments that are about to put all back: they are waited for, a while.
    """
    with (results / "lock").open("wb") as file:
        deadline = time.monotonic() + PATIENCE
        while not _lock(file.fileno()):
            if time.monotonic() > deadline:
                raise BusyError(f"experiments of another call are at work in {results}")
            time.sleep(_POLL)
        yield file.fileno()


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def run_all(
    trials: Sequence[Trial], results: Path, *, load: str = PGBENCH, jobs: int, may_begin: Callable[[], bool]
) -> Generator[Record, None, None]:
    """The records of the trials, as they end; ``jobs`` of them run at a time.

    Those that run when the caller ends, in whatever way, are ended with it, and put all back.
    """
    queue, running = list(trials), list[_Running]()
    with alone(results) as lock:
        _clear_up(results)
        try:
            while queue or running:
                while queue and len(running) < jobs and may_begin():
                    running.append(_begin(queue.pop(0), results, load=load, lock=lock))
                if not running:
                    return
                time.sleep(_POLL)
                for one in [one for one in running if _is_over(one)]:
                    running.remove(one)
                    yield _finish(one)
        finally:
            for one in running:
                one.process.terminate()
            for one in running:
                _await(one.process)


def _begin(trial: Trial, results: Path, *, load: str, lock: int) -> _Running:
    """Start an experiment in a folder that has nothing of an earlier attempt, which was interrupted."""
    place = results / trial.name
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(place)
    file = write_experiment(trial, place, load)
    setpriv = shutil.which("setpriv") or "setpriv"
    command = [setpriv, "--pdeathsig", "TERM", sys.executable, "-m", "pgtrial", "run", "--allow-code", str(file)]
    # Attempts at a claim are counted in the state directory: those of a series are no business of the user's. Each of
    # them is asked how often it errs by itself, so it is no other one's repetition.
    environment = {**os.environ, VARIABLE: str(state_directory(results)), "OPENBLAS_NUM_THREADS": "1"}
    with (place / "printed.txt").open("wb") as output:
        process = subprocess.Popen(
            [*command, "--results", str(place), "--quiet", "--revision", trial.name],
            stdout=output,
            stderr=output,
            env=environment,
            pass_fds=[lock],
        )
    return _Running(trial=trial, place=place, process=process, started=time.time(), deadline=time.monotonic() + LONGEST)


def state_directory(results: Path) -> Path:
    return results.resolve() / "state"


def _clear_up(results: Path) -> None:
    """Remove what a killed pgtrial of this series has left: servers, and their data."""
    environment = {**os.environ, VARIABLE: str(state_directory(results))}
    subprocess.run(
        [sys.executable, "-m", "pgtrial", "restore"], env=environment, check=False, stdout=subprocess.DEVNULL
    )


def _is_over(one: _Running) -> bool:
    if one.process.poll() is not None:
        return True
    if time.monotonic() < one.deadline:
        return False
    one.process.terminate()
    _await(one.process)
    return True


def _await(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(timeout=_TO_PUT_BACK)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _finish(one: _Running) -> Record:
    folder = newest_folder(one.place)
    if one.process.returncode != 0 or folder is None:
        printed = (one.place / "printed.txt").read_text(encoding="utf-8", errors="replace")
        said = [line for line in printed.splitlines() if line.startswith("error:")]
        reason = said[0][:_MOST_CHARACTERS] if said else f"exit status {one.process.returncode}"
        return Record.of(one.trial, started=one.started, ended=time.time(), reason=reason)
    return _record(one, read_findings(folder))


def _record(one: _Running, findings: Findings) -> Record:
    if findings.experiment.method != one.trial.method:  # a program on whose standstill a busy machine does not let tell
        reason = f"it ran as {findings.experiment.method}"
        return Record.of(one.trial, started=one.started, ended=time.time(), reason=reason)
    asked = findings.hypothesis
    effect = next(
        (
            each
            for each in findings.effects
            if (each.arm, each.metric, each.scenario, each.load_level) == (asked.arm, asked.metric, None, ALL)
        ),
        None,
    )
    return Record.of(
        one.trial,
        started=one.started,
        ended=time.time(),
        verdict=str(asked.verdict),
        ratio=effect.ratio if effect else None,
        low=effect.low if effect else None,
        high=effect.high if effect else None,
        error=effect.log_error if effect else None,
        degrees=effect.degrees if effect else None,
        blocks=tuple(effect.block_ratios) if effect else (),
        reason="" if effect else "no effect was estimated",
        runs=runs_of(findings),
    )


def runs_of(findings: Findings) -> tuple[Run, ...]:
    """The complete runs in the order in which they began, with what the hypothesis is about, which is throughput."""
    found = {
        each.run: each.value
        for each in findings.observations
        if (each.metric, each.scenario, each.load_level) == (findings.hypothesis.metric, None, ALL)
    }
    rows = sorted((row for row in findings.runs if row.id in found), key=lambda row: row.started or 0.0)
    return tuple(Run(arm=row.arm, block=row.block, throughput=found[row.id]) for row in rows)
