"""Which migrations are tried in which order, what the gate says of each, and the file in which that is kept."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from gallery.runs import newest_folder

from gym.live.runs import state_directory
from pgtrial.safe_files import write_file
from pgtrial.store.findings_file import read_findings
from pgtrial.store.journal_file import VARIABLE

FOLDER = Path(__file__).parent
GATE = FOLDER.parents[1] / "ci" / "gate.sh"
LONGEST = 20 * 60.0  # s, of one gate: a server that hangs does not hold up the series
_TO_PUT_BACK = 60.0  # s, for a gate that is ended
_FILES = ("gate.toml", "schema.sql", "history.sql", "buy.sql")


class Migration(StrEnum):
    """``BAD`` drops the index that most of the load is served by, ``HARMLESS`` adds a column that nothing reads."""

    BAD = "bad"
    HARMLESS = "harmless"

    @property
    def statement(self) -> str:
        return (FOLDER / f"{self}.sql").read_text(encoding="utf-8").strip().rstrip(";")

    @property
    def right_status(self) -> int:
        """What a gate that is right exits with: refuted, or supported."""
        return 3 if self is Migration.BAD else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the gate said of a migration: its exit status and, where there was an experiment, after / before.

    Times are in seconds since the epoch; ``disturbed`` is the share of the time in which the neighbour was busy.
    """

    number: int
    migration: Migration
    status: int
    started: float
    ended: float
    blocks: int | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    disturbed: float = 0.0

    @property
    def is_right(self) -> bool:
        return self.status == self.migration.right_status

    @property
    def seconds(self) -> float:
        return self.ended - self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """``each`` migrations of either kind, in an order that follows from the seed, and what has been said so far."""

    seed: int
    each: int
    machine: str
    judged: tuple[Judged, ...] = ()

    @property
    def plan(self) -> tuple[Migration, ...]:
        """In pairs, each in a drawn order: whenever a series is interrupted, there are as many of either kind."""
        rng = random.Random(self.seed)
        return tuple(one for _ in range(self.each) for one in rng.sample(list(Migration), len(Migration)))

    @property
    def remaining(self) -> Sequence[tuple[int, Migration]]:
        return list(enumerate(self.plan, start=1))[len(self.judged) :]


def write_series(series: Series, path: Path) -> None:
    write_file(path, json.dumps(asdict(series), indent=1) + "\n")


def read_series(path: Path) -> Series:
    found = json.loads(path.read_text(encoding="utf-8"))
    judged = tuple(Judged(**{**one, "migration": Migration(one["migration"])}) for one in found.pop("judged"))
    return Series(**found, judged=judged)


def judge(number: int, migration: Migration, results: Path, *, lock: int) -> Judged:
    """Run the gate as a pipeline does, in a folder of its own. It is ended with the caller, and puts all back."""
    place = results / f"{number:02d}-{migration}"
    if place.exists():
        shutil.rmtree(place)  # of an attempt that was interrupted
    place.mkdir(parents=True)
    for name in _FILES:
        shutil.copy(FOLDER / name, place / name)
    shutil.copy(FOLDER / f"{migration}.sql", place / "migration.sql")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # where this pgtrial is
        VARIABLE: str(state_directory(results)),
    }
    started = time.time()
    with (place / "printed.txt").open("wb") as output:
        process = subprocess.Popen(
            [GATE, "gate.toml", "migration.sql", "--revision", str(number)],  # none is another one's repetition
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[lock],
            start_new_session=True,  # a group to be told that it is over
        )
        try:
            status = process.wait(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            status = _end(process)
        except BaseException:
            _end(process)
            raise
    return _judged(number, migration, status, started, place)


def _end(process: "subprocess.Popen[bytes]") -> int:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        return process.wait(timeout=_TO_PUT_BACK)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


def _judged(number: int, migration: Migration, status: int, started: float, place: Path) -> Judged:
    said = Judged(number=number, migration=migration, status=status, started=started, ended=time.time())
    folder = newest_folder(place / "results")
    if folder is None:
        return said
    for effect in read_findings(folder).effects:
        if (effect.arm, effect.metric, effect.scenario, effect.load_level) == ("after", "pgbench.tps", None, "all"):
            return replace(said, blocks=effect.blocks, ratio=effect.ratio, low=effect.low, high=effect.high)
    return said
