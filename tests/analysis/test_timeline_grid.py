"""Rates and values by hand, and against a sum over steps that is written another way."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pgtrial.analysis.timeline_grid import Grid, find_rates, find_values, make_grids, measured_time, own_time
from pgtrial.model.run import Phase, PhaseName, RunRow, RunState, Slice, Slot

START = 1_767_225_600.25
NAN = math.nan


def make_run(*windows: tuple[float, float], slices: tuple[Slice, ...] = ()) -> RunRow:
    """A run whose load levels were measured from and to the given seconds after START."""
    return RunRow(
        id=1,
        slot=Slot(number=1, block=1, position=1, arm="on"),
        attempt=1,
        state=RunState.DONE,
        started=START - 10,
        ended=START + 100,
        reason="",
        phases=tuple(
            Phase(name=PhaseName.MEASURE, start=START + start, end=START + end, level=level)
            for level, (start, end) in enumerate(windows)
        ),
        slices=slices,
    )


def one_grid(seconds: float) -> Grid:
    (grid,) = make_grids(make_run((0.0, seconds)))
    return grid


def rates(grid: Grid, *readings: tuple[float, float]) -> list[float]:
    """Rates from readings, whose times are seconds after START."""
    t, value = np.array(readings, dtype=np.float64).reshape(-1, 2).T
    return find_rates(grid, START + t, value).tolist()


def values(grid: Grid, *readings: tuple[float, float]) -> list[float]:
    t, value = np.array(readings, dtype=np.float64).reshape(-1, 2).T
    return find_values(grid, START + t, value).tolist()


def near(*expected: float) -> object:
    return pytest.approx(list(expected), rel=1e-6, abs=1e-6, nan_ok=True)


def test_a_second_has_its_share_of_the_steps_that_it_lies_in() -> None:
    # Steps of a second each, from -0.25 on, with rises of 10, 20, 40 and 80.
    found = rates(one_grid(3), (-0.25, 5), (0.75, 15), (1.75, 35), (2.75, 75), (3.75, 155))

    assert found == near(0.75 * 10 + 0.25 * 20, 0.75 * 20 + 0.25 * 40, 0.75 * 40 + 0.25 * 80)


def test_rates_are_a_sum_over_steps(rng: np.random.Generator) -> None:
    for _ in range(20):
        t = np.cumsum(rng.uniform(0.2, 1.8, size=30)) - 2
        value = np.cumsum(rng.exponential(100.0, size=30))
        grid = one_grid(12)

        found = rates(grid, *zip(t, value, strict=True))

        # Seconds since the epoch have seven digits after the point.
        expected = [sum_over_steps(t, value, second) for second in range(12)]
        assert found == pytest.approx(expected, rel=1e-4)


def sum_over_steps(t: NDArray[np.float64], value: NDArray[np.float64], second: int) -> float:
    total = 0.0
    for k in range(len(t) - 1):
        shared = min(t[k + 1], second + 1) - max(t[k], second)
        total += max(shared, 0.0) / (t[k + 1] - t[k]) * (value[k + 1] - value[k])
    return total


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def test_a_reset_leaves_the_seconds_unknown_in_which_it_happened() -> None:
    found = rates(one_grid(4), (0, 100), (1, 110), (2, 3), (3, 13), (4, 23))

    assert found == near(10, NAN, 10, 10)


def test_a_reset_between_two_readings_that_are_not_aligned_spoils_two_seconds() -> None:
    found = rates(one_grid(4), (-0.5, 100), (0.5, 110), (1.5, 3), (2.5, 13), (3.5, 23), (4.5, 33))

    assert found == near(NAN, NAN, 10, 10)


@pytest.mark.parametrize(("length", "expected"), [(2.5, 10.0), (2.6, NAN)])
def test_a_gap_is_bridged_up_to_two_and_a_half_seconds(length: float, expected: float) -> None:
    found = rates(one_grid(5), (0, 0), (1, 10), (1 + length, 10 + 10 * length), (5, 50))

    assert found[0] == pytest.approx(10)
    assert found[1:3] == near(expected, expected)
    assert found[4] == pytest.approx(10)


def test_the_first_and_the_last_step_stand_for_what_lies_around_them() -> None:
    found = rates(one_grid(4), (0.5, 0), (1.5, 10), (2.5, 30), (3.5, 70))

    assert found == near(10, 15, 30, 40)


def test_readings_that_do_not_reach_that_far_leave_seconds_unknown() -> None:
    found = rates(one_grid(6), (2.0, 0), (3.0, 10), (4.0, 20))

    assert found == near(NAN, 10, 10, 10, 10, NAN)


@pytest.mark.parametrize("readings", [(), ((1.0, 5.0),), ((1.0, 5.0), (1.0, 6.0))])
def test_without_two_readings_there_is_no_rate(readings: tuple[tuple[float, float], ...]) -> None:
    assert rates(one_grid(2), *readings) == near(NAN, NAN)


def test_a_large_counter_loses_nothing() -> None:
    base = 2.0**52
    found = rates(one_grid(2), (0, base), (1, base + 3), (2, base + 4))

    assert found == near(3, 1)


def test_a_gauge_has_the_last_reading_before_the_middle_of_the_second() -> None:
    found = values(one_grid(3), (0.4, 1), (0.6, 2), (1.5, 3), (2.51, 4))

    assert found == near(1, 3, 3)


def test_a_gauge_is_unknown_without_a_reading_near() -> None:
    found = values(one_grid(6), (0.9, 1), (5.8, 2))

    # The first second takes the reading after its middle; 2.5 is 1.6 after the first, 3.5 is 2.3 before the second.
    assert found == near(1, 1, NAN, NAN, 2, 2)


def test_without_a_reading_a_gauge_is_unknown() -> None:
    assert values(one_grid(2)) == near(NAN, NAN)


def test_levels_of_a_run_have_their_own_seconds() -> None:
    first, second = make_grids(make_run((0.0, 3.0), (5.5, 7.5)))

    assert (first.level, first.started, first.offset, first.seconds) == (0, START, 0.0, 3)
    assert (second.level, second.started, second.offset, second.seconds) == (1, START + 5.5, 5.5, 2)
    assert first.middle.tolist() == [START + 0.5, START + 1.5, START + 2.5]
    assert second.begin.tolist() == [START + 5.5, START + 6.5]


@pytest.mark.parametrize(("length", "seconds"), [(2.9999999, 3), (3.0000001, 3), (3.9, 3), (0.5, 0)])
def test_only_whole_seconds_count(length: float, seconds: int) -> None:
    grid = one_grid(length)

    assert grid.seconds == seconds
    assert len(rates(grid, (0, 0), (1, 1), (2, 2), (3, 3))) == seconds
    assert len(values(grid, (0, 0), (1, 1))) == seconds


def sliced_run() -> RunRow:
    """Two slices of a second and of 1.4 s, of which 0.8 s and 1.2 s count; the arm stands still in between."""
    slices = (
        Slice(level=0, number=0, started=START, counted=START + 0.2, ended=START + 1.0),
        Slice(level=0, number=2, started=START + 2.0, counted=START + 2.2, ended=START + 3.4),
    )
    return make_run((0.0, 4.0), slices=slices)


def test_a_second_of_slices_is_put_together_from_what_counts_of_them() -> None:
    run = sliced_run()
    (grid,) = make_grids(run)
    # 10 per second in the first slice, 40 in the second: its guard time does not count either.
    clock = START + np.array([0.0, 0.5, 2.0, 2.5, 3.0])
    counter = np.array([0.0, 5.0, 10.0, 30.0, 50.0])

    found = find_rates(grid, own_time(run, clock), counter)

    assert (grid.seconds, grid.started, grid.offset) == (2, START + 0.2, 0.0)
    assert own_time(run, clock).tolist() == near(0.0, 0.5, 1.0, 1.5, 2.0)
    assert found.tolist() == near(0.8 * 10 + 0.2 * 40, 40)
    assert grid.middle.tolist() == near(0.7, 1.9)


def test_in_slices_the_longest_step_says_when_a_reading_is_due() -> None:
    run = sliced_run()
    (grid,) = make_grids(run)
    clock = START + np.array([0.9, 1.0, 2.9, 3.0])  # own time 0.9, 1.0, 1.9, 2.0

    found = find_rates(grid, own_time(run, clock), np.array([9.0, 10.0, 19.0, 20.0]))

    # The longest step is of 0.9 s: the second slice counts until 2.4, 0.4 s after the last reading.
    assert found.tolist() == near(10, 10)


def test_own_time_stands_still_with_the_arm() -> None:
    own = own_time(sliced_run(), START + np.array([-5.0, 0.4, 1.0, 1.7, 2.1, 9.0]))

    assert own[1:].tolist() == near(0.4, 1.0, 1.0, 1.1, 2.4)


def test_measured_time_of_a_run_is_since_its_first_level() -> None:
    run = make_run((0.0, 3.0), (5.5, 7.5))

    assert measured_time(run, START + 6.0) == pytest.approx(6.0)


def test_measured_time_of_a_run_of_slices_is_what_counted_until_then() -> None:
    found = [measured_time(sliced_run(), START + t) for t in (0.1, 0.7, 1.5, 2.7, 99.0)]

    assert found == near(0.0, 0.5, 0.8, 1.3, 2.0)


def test_what_slices_of_earlier_levels_count_comes_before_a_level() -> None:
    slices = (
        *sliced_run().slices,
        Slice(level=1, number=0, started=START + 10, counted=START + 10.5, ended=START + 12.5),
    )

    _, second = make_grids(make_run((0.0, 4.0), (10.0, 12.5), slices=slices))

    assert (second.offset, second.started, second.seconds) == (pytest.approx(2.0), START + 10.5, 2)
    assert second.reach() == second.reach(10.0) == (START + 10, START + 12.5)


def test_readings_around_a_window_tell_of_it() -> None:
    grid = one_grid(3)

    assert grid.reach() == (START - 2.5, START + 5.5)
    assert grid.reach(10.0) == (START - 25, START + 28)
