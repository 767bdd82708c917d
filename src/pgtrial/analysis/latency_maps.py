"""What the heat maps show: how many transactions of an arm took how long, over the measured time."""

import math

import numpy as np

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.slices import windows
from pgtrial.findings.findings import LatencyMap
from pgtrial.model.histogram import row_bounds
from pgtrial.model.run import RunRow

MAX_COLUMNS = 100  # about; every load level begins with a column of its own


def map_latencies(evidence: Evidence, reduction: Reduction) -> tuple[LatencyMap, ...]:
    """One map for each arm with transactions, all its valid runs and all scenarios together."""
    found = (_map_arm(reduction, arm.name, evidence.runs_of(arm.name)) for arm in evidence.arms)
    return tuple(each for each in found if each is not None)


def _map_arm(reduction: Reduction, arm: str, runs: tuple[RunRow, ...]) -> LatencyMap | None:
    """Runs are laid on each other level by level; where a level begins is taken from the first run that has it."""
    known = [run for run in runs if any((run.id, window.level) in reduction.latency_rows for window in windows(run))]
    if not known:
        return None
    counted = max(sum(window.counted for window in windows(run)) for run in known)
    unit = max(reduction.widths[run.id] for run in known)  # of the bins; a column has whole ones, each the same number
    width = float(unit * math.ceil(counted / unit / MAX_COLUMNS))
    begins: dict[int, tuple[float, float]] = {}  # of each level, with its length
    cells: dict[tuple[int, int, int], int] = {}  # transactions by level, column in it, and row
    for run in known:
        for level, begin, length in _levels(run):
            first, longest = begins.get(level, (begin, length))
            begins[level] = first, max(longest, length)
            for index, row, count in reduction.latency_rows.get((run.id, level), np.empty((0, 3), np.int64)).tolist():
                column = int(index * reduction.widths[run.id] // width)
                cells[level, column, row] = cells.get((level, column, row), 0) + count
    rows = range(min(row for _, _, row in cells), max(row for _, _, row in cells) + 1)
    columns = sorted({(level, column) for level, column, _ in cells}, key=lambda each: (begins[each[0]][0], each[1]))
    starts = [begins[level][0] + column * width for level, column in columns]
    ends = [
        min(start + width, begins[level][0] + begins[level][1])
        for start, (level, _) in zip(starts, columns, strict=True)
    ]
    return LatencyMap(
        arm=arm,
        runs=len(known),
        latency=(row_bounds(rows[0])[0], *(row_bounds(row)[1] for row in rows)),
        start=tuple(round(start, 3) for start in starts),
        end=tuple(round(end, 3) for end in ends),
        counts=tuple(tuple(cells.get((level, column, row), 0) for row in rows) for level, column in columns),
    )


def _levels(run: RunRow) -> list[tuple[int, float, float]]:
    """(level, begin, length) of the measured windows, in seconds since the run's first measured second.

    As in the time series: the time of a run of slices is what counts of them, put end to end.
    """
    measured = windows(run)
    found, counted = [], 0.0
    for window in measured:
        begin = counted if run.slices else window.started - measured[0].started
        found.append((window.level, begin, window.counted))
        counted += window.counted
    return found
