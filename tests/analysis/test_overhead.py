from dataclasses import replace

import pytest

from pgtrial.analysis.describe import overhead_seconds, sum_overhead
from pgtrial.analysis.evidence import Evidence
from pgtrial.model.run import PhaseName


def test_time_is_told_by_phase_and_what_is_between_them_as_other(evidence: Evidence) -> None:
    runs = tuple(
        replace(run, phases=tuple(phase for phase in run.phases if phase.name is not PhaseName.STOP))
        for run in evidence.runs
    )
    overhead = sum_overhead(replace(evidence, runs=runs))

    assert overhead.by_phase["measure"] == pytest.approx(18 * 10)
    assert overhead.by_phase["warm-up"] == pytest.approx(18 * 3)
    assert overhead.by_phase["other"] == pytest.approx(18 * 0.5)
    # Restore 0.5, start 0.3, warm-up 3, checkpoint 0.2 and 0.5 s after the load, for 10 s of load.
    assert overhead.share == pytest.approx(4.5 / 14.5)


def test_a_run_that_still_runs_is_left_out(evidence: Evidence) -> None:
    running = replace(evidence.runs[0], ended=None)

    assert overhead_seconds(running) is None
    assert sum_overhead(replace(evidence, runs=(running,))).share is None
