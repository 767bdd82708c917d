"""What series do at marked seconds: every shift as the oracle, and the rate of false alarms in noise."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from pgtrial.stats.shifts import MarkedSeries, find_unlike


def slow_noise(rng: np.random.Generator, series: int, seconds: int, memory: float) -> Any:
    """AR(1) series with a variance of one."""
    values = rng.normal(size=(series, seconds))
    for second in range(1, seconds):
        values[:, second] = memory * values[:, second - 1] + np.sqrt(1 - memory**2) * values[:, second]
    return values


def marks(seconds: int, *starts: int, length: int = 1) -> Any:
    marked = np.zeros(seconds, bool)
    for start in starts:
        marked[start : start + length] = True
    return marked


def test_the_probability_is_the_share_of_shifts_that_deviate_as_far() -> None:
    rng = np.random.default_rng(1)
    values, marked = slow_noise(rng, 1, 80, 0.5), marks(80, 10, 50, length=4)
    values[0, marked] += 1.0
    centred = values[0] - values[0].mean()
    of_shifts = np.array([abs(np.roll(centred, -shift)[marked].sum()) for shift in range(80)])
    share = (of_shifts >= of_shifts[0] * (1 - 1e-9)).mean()

    (found,) = find_unlike([MarkedSeries(values=values, marked=marked)], rng=rng, draws=20_000)

    assert found is not None
    assert found.p_value == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 20_000) + 1e-4)
    assert found.marked == pytest.approx(values[0, marked].mean())
    assert found.rest == pytest.approx(values[0, ~marked].mean())
    assert found.lag == 0


def test_a_series_that_rises_some_seconds_before_is_found_at_that_lag() -> None:
    rng = np.random.default_rng(2)
    runs = []
    for _ in range(3):
        values, marked = slow_noise(rng, 5, 200, 0.3), marks(200, 40, 90, 160)
        values[3, np.roll(marked, -6)] += 5.0
        runs.append(MarkedSeries(values=values, marked=marked))

    found = find_unlike(runs, lags=range(2, 12), rng=rng)

    assert found[3] is not None
    assert (found[3].lag, found[3].p_value <= 0.01) == (6, True)
    assert found[3].marked - found[3].rest == pytest.approx(5.0, abs=1.5)
    assert all(each is not None and each.p_value > 0.05 for number, each in enumerate(found) if number != 3)


def test_what_does_not_vary_or_is_not_known_tells_nothing_and_what_is_missing_counts_nowhere() -> None:
    rng = np.random.default_rng(3)
    values, marked = slow_noise(rng, 4, 60, 0.0), marks(60, 20, 40, length=3)
    values[0], values[1], values[2, 41] = 0.1 + 0.2, np.nan, np.nan
    values[3, marked] += 9.0

    found = find_unlike([MarkedSeries(values=values, marked=marked)], rng=rng)

    assert found[:2] == (None, None)
    assert found[2] is not None
    assert found[2].marked == pytest.approx(np.nanmean(values[2, marked]))
    assert found[3] is not None
    assert found[3].p_value < 0.06  # sixty shifts, of which one is the marks' own


def test_without_marks_or_seconds_between_them_there_is_nothing_to_compare() -> None:
    rng = np.random.default_rng(4)
    values = slow_noise(rng, 2, 30, 0.0)

    assert find_unlike([], rng=rng) == ()
    assert find_unlike([MarkedSeries(values=values, marked=marks(30))], rng=rng) == ()
    assert find_unlike([MarkedSeries(values=values, marked=~marks(30))], rng=rng) == ()


@pytest.mark.simulated
@pytest.mark.parametrize("memory", [0.0, 0.6, 0.9])
@pytest.mark.parametrize(("runs", "lags"), [(1, (0,)), (4, (0,)), (3, tuple(range(2, 16)))])
def test_in_noise_something_is_found_no_more_often_than_promised(memory: float, runs: int, lags: Any) -> None:
    """Marks in clusters, as dips are; ten series; whatever is found in any of them is a false alarm."""
    rng = np.random.default_rng([runs, len(lags), int(10 * memory)])
    trials, alarms = 300, 0
    for _ in range(trials):
        noise = [
            MarkedSeries(
                values=slow_noise(rng, 10, 150, memory),
                marked=marks(150, *rng.integers(16, 145, 4), length=1 if lags[0] else int(rng.integers(1, 6))),
            )
            for _ in range(runs)
        ]
        found = find_unlike(noise, lags=lags, rng=rng, draws=399)
        alarms += any(each is not None and each.p_value <= 0.05 for each in found)

    assert alarms <= binom.ppf(0.9999, trials, 0.05)
