from dataclasses import replace

import pytest

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.slices import counted_seconds, stretches, windows
from pgtrial.model.run import Phase, PhaseName, RunRow, Slice


def sliced(evidence: Evidence, *slices: tuple[int, int, float, float], guard: float = 0.1) -> RunRow:
    """A run of slices, each (level, number, started, ended); the windows are as long as the block."""
    levels = sorted({level for level, _, _, _ in slices})
    return replace(
        evidence.valid[0],
        phases=tuple(
            Phase(name=PhaseName.MEASURE, start=100.0 * (level + 1), end=100.0 * (level + 1) + 50, level=level)
            for level in levels
        ),
        slices=tuple(
            Slice(level=level, number=number, started=start, counted=start + guard, ended=end)
            for level, number, start, end in slices
        ),
    )


def test_without_slices_the_measured_window_is_all_there_is(evidence: Evidence) -> None:
    run = evidence.valid[0]
    (window,) = windows(run)

    assert stretches(run) == ()
    assert (window.counted, window.active, window.ended - window.started) == pytest.approx((10, 10, 10))
    assert counted_seconds(run, 0) == pytest.approx(10)


def test_measured_time_of_slices_is_what_counts_of_them(evidence: Evidence) -> None:
    run = sliced(evidence, (0, 0, 101.0, 102.0), (0, 3, 104.0, 105.5))
    (window,) = windows(run)

    assert window.counted == counted_seconds(run, 0) == pytest.approx(0.9 + 1.4)
    assert (window.started, window.ended) == (101.0, 105.5)
    assert window.active == pytest.approx(2.5)


def test_slices_that_no_other_arm_parts_are_one_stretch(evidence: Evidence) -> None:
    run = sliced(evidence, (0, 0, 1.0, 2.0), (0, 1, 2.1, 3.0), (0, 3, 4.0, 5.0))
    first, second = stretches(run)

    assert (first.started, first.ended, first.before) == (1.0, 3.0, 0.0)
    assert (second.started, second.before) == (4.0, 2.0)
    assert windows(run)[0].active == pytest.approx(3.0)


def test_each_level_has_its_own_part_of_the_arms_time(evidence: Evidence) -> None:
    # The first slice of a level may have the number after the last one's by chance.
    run = sliced(evidence, (0, 0, 1.0, 2.0), (0, 2, 3.0, 4.0), (1, 3, 10.0, 12.0))
    first, second = windows(run)

    assert (first.own_started, first.own_ended) == (0.0, 2.0)
    assert (second.own_started, second.own_ended) == (2.0, 4.0)
    assert (second.started, second.counted) == (10.0, pytest.approx(1.9))


def test_a_level_without_a_slice_has_no_measured_time(evidence: Evidence) -> None:
    run = sliced(evidence, (0, 0, 1.0, 2.0))
    more = replace(run, phases=(*run.phases, Phase(name=PhaseName.MEASURE, start=200.0, end=250.0, level=1)))

    assert [window.level for window in windows(more)] == [0]
