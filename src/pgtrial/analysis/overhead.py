"""Where the time of the runs went."""

from pgtrial.analysis.evidence import Evidence, measured
from pgtrial.analysis.findings import Overhead
from pgtrial.model.run import RunRow

OTHER = "other"  # between the phases


def measured_seconds(run: RunRow) -> float:
    return sum(phase.end - phase.start for phase in measured(run))


def total_seconds(run: RunRow) -> float | None:
    """Time from begin to end; None for a run that has no end of its own."""
    return None if run.started is None or run.ended is None else run.ended - run.started


def overhead_seconds(run: RunRow) -> float | None:
    """Time of a run that was not measured load."""
    total = total_seconds(run)
    return None if total is None else total - measured_seconds(run)


def sum_overhead(evidence: Evidence) -> Overhead:
    """Seconds by phase over all runs that ended, valid or not; share of that time that is not measured load."""
    ended = [(run, total) for run in evidence.runs if (total := total_seconds(run)) is not None]
    by_phase: dict[str, float] = {}
    for run, total in ended:
        named = 0.0
        for phase in run.phases:
            by_phase[phase.name] = by_phase.get(phase.name, 0.0) + phase.end - phase.start
            named += phase.end - phase.start
        by_phase[OTHER] = by_phase.get(OTHER, 0.0) + total - named
    whole = sum(total for _, total in ended)
    share = 1 - sum(measured_seconds(run) for run, _ in ended) / whole if whole > 0 else None
    return Overhead(by_phase=by_phase, share=share)
