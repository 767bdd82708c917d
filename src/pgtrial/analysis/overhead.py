"""Where the time of the runs went."""

from collections.abc import Iterable

from pgtrial.analysis.evidence import Evidence, measured
from pgtrial.analysis.slices import windows
from pgtrial.findings.findings import Overhead
from pgtrial.model.run import PhaseName, RunRow

GUARD = "guard"  # inside the measured windows: what does not count around the counted parts of slices
OTHER = "other"  # between the phases

_Times = Iterable[tuple[float, float]]


def measured_seconds(run: RunRow) -> float:
    """Time of a run whose transactions count."""
    return sum(window.counted for window in windows(run))


def total_seconds(run: RunRow) -> float | None:
    """Time from begin to end; None for a run that has no end of its own."""
    return None if run.started is None or run.ended is None else run.ended - run.started


def overhead_seconds(run: RunRow) -> float | None:
    """Time of a run that was neither measured load nor the turn of another arm of its block."""
    total = total_seconds(run)
    if total is None:
        return None
    if not run.slices:
        return total - measured_seconds(run)
    stood_still = sum(phase.end - phase.start for phase in measured(run)) - sum(w.active for w in windows(run))
    return total - stood_still - measured_seconds(run)


def sum_overhead(evidence: Evidence) -> Overhead:
    """Seconds by phase over all runs that ended, valid or not; share of that time that is not measured load.

    Where runs of a block share their time, it counts once.
    """
    ended = [run for run in evidence.runs if run.started is not None and run.ended is not None]
    names = dict.fromkeys(phase.name for run in ended for phase in run.phases)
    by_phase = {
        str(name): _union((phase.start, phase.end) for run in ended for phase in run.phases if phase.name is name)
        for name in names
    }
    whole = _union((run.started, run.ended) for run in ended if run.started is not None and run.ended is not None)
    by_phase[OTHER] = max(0.0, whole - sum(by_phase.values()))
    counted = _union(times for run in ended for times in _counted(run))
    if any(run.slices for run in ended):
        by_phase[GUARD] = by_phase.get(PhaseName.MEASURE, 0.0) - counted
        by_phase[PhaseName.MEASURE.value] = counted
    return Overhead(by_phase=by_phase, share=1 - counted / whole if whole > 0 else None)


def _counted(run: RunRow) -> _Times:
    if run.slices:
        return [(each.counted, each.ended) for each in run.slices]
    return [(phase.start, phase.end) for phase in measured(run)]


def _union(times: _Times) -> float:
    """Length of what lies in at least one of the intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(times):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
