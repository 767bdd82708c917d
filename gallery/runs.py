"""Run an experiment of the gallery by the command line, as a reader would, within a bound of time."""

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ground_truth.needs import SwapAreaError, swap_area
from ground_truth.runs import await_end

from gallery.entries import Entry
from pgtrial.store import layout
from pgtrial.units import format_duration

# What an experiment may take beyond its plan: servers that start slowly, and the analysis.
SLACK = 1.2


class State(StrEnum):
    DONE = "done"
    NOT_RUN = "not run"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of an experiment; ``folder`` has its findings, ``reason`` why there are none."""

    entry: Entry
    state: State
    reason: str = ""
    folder: Path | None = None

    @property
    def is_good(self) -> bool:
        """Nothing to mend. What a machine has not, or what there was no time for, is no fault."""
        return self.state in (State.DONE, State.NOT_RUN)


def judge_time(seconds: float, left: float) -> str:
    """Why an experiment of ``seconds`` is not begun with so many seconds left, "" if there is time for it."""
    if seconds * SLACK <= left:
        return ""
    planned, rest = format_duration(seconds), format_duration(max(left, 0.0))
    return f"it is planned for {planned}, and {rest} are left; run it by itself with --only"


def run_entry(entry: Entry, results: Path, *, left: float) -> Outcome:
    """Run the quick file, with leave to change the host; after ``left`` seconds it is ended, and puts all back."""
    place = results / entry.name
    place.mkdir(parents=True, exist_ok=True)
    before = newest_folder(place)
    permission = ["--allow-host-changes"] if entry.changes_host else []
    arguments = ["run", str(entry.quick), "--results", str(place), *permission, "--quiet"]
    printed = place / "printed.txt"
    try:
        with swap_area(place) if "swap" in entry.needs else contextlib.nullcontext():
            status = call_pgtrial(arguments, printed, seconds=left)
    except SwapAreaError as err:
        return Outcome(entry=entry, state=State.NOT_RUN, reason=f"there is no swap, and none could be made: {err}")
    if status is None:
        return Outcome(entry=entry, state=State.STOPPED, reason="the time was over")
    folder = newest_folder(place)
    if status != 0 or folder is None or folder == before:
        said = [line for line in printed.read_text(encoding="utf-8").splitlines() if line.startswith("error:")]
        reason = said[0] if said else f"pgtrial ended with status {status}"
        return Outcome(entry=entry, state=State.FAILED, reason=f"{reason}; see {printed}")
    return Outcome(entry=entry, state=State.DONE, folder=folder)


def call_pgtrial(arguments: Sequence[str], printed: Path, *, seconds: float) -> int | None:
    """Exit status of pgtrial, whose output goes to a file; None if it was ended because ``seconds`` were over."""
    with printed.open("w", encoding="utf-8") as output:
        process = subprocess.Popen([sys.executable, "-m", "pgtrial", *arguments], stdout=output, stderr=output)
        return await_end(process, seconds=max(seconds, 0.0))


def newest_folder(place: Path) -> Path | None:
    """The newest result folder with findings; the time is the last part of their names."""
    found = (path.parent for path in place.glob(f"*/{layout.FINDINGS}"))
    return max(found, key=lambda folder: folder.name.rpartition("-")[2], default=None)
