"""How many rows a file of a run may have: what an honest run of the length that is recorded could write at most."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pgtrial.model.run import PhaseName, RunRow
from pgtrial.store import layout

# Rows in a second. Of real runs, samples have some 350, waits 10, transactions and slices 6. A server of many disks and
# tables has a few times as many readings, many sessions have more waits, and pgbench takes at most 128 scenarios.
_MOST_ROWS = {
    layout.SAMPLES: 5_000,
    layout.WAITS: 5_000,
    layout.STATEMENTS: 5_000,
    layout.TRANSACTIONS: 1_000,
    layout.SLICES: 1_000,
}
_FREE_SECONDS = 10.0  # for each run, which is sampled a little longer than its phases last
_FREE_ROWS = {layout.STATEMENTS: 500_000}  # every statement is read at the begin and at the end, however short the run


def most_rows(folder: Path, runs: Iterable[RunRow], name: str) -> Mapping[Path, int]:
    """The most rows of a file of each run, by its path in the result folder."""
    return {
        layout.run_folder(folder, run.folder) / name: round(_MOST_ROWS[name] * (_length(run) + _FREE_SECONDS))
        + _FREE_ROWS.get(name, 0)
        for run in runs
    }


def _length(run: RunRow) -> float:
    """Seconds from the server's start to the end of the last phase; before that nothing is sampled."""
    at_work = [phase for phase in run.phases if phase.name is not PhaseName.RESTORE]
    begin = min((part.start for part in at_work), default=0.0)
    return max(0.0, max((part.end for part in at_work), default=begin) - begin)
