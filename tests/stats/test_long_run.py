import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pgtrial.stats.interval import difference, t_quantile
from pgtrial.stats.long_run import FEWEST, known_ratio, known_series, log_of, waves

REPEATS = 2000


def autoregressive(rng: np.random.Generator, count: int, phi: float) -> NDArray[np.float64]:
    noise = rng.normal(size=(REPEATS, count + 200))
    series = np.zeros_like(noise)
    for t in range(1, noise.shape[1]):
        series[:, t] = phi * series[:, t - 1] + noise[:, t]
    return series[:, 200:]


def coverage(series: NDArray[np.float64], truth: float = 0.0) -> float:
    held = 0
    for values in series:
        known = known_series(values)
        assert known is not None
        held += abs(known.mean - truth) <= t_quantile(0.975, known.degrees) * known.error
    return held / len(series)


def test_the_error_is_that_of_a_regression_on_cosines() -> None:
    """An independent way: least squares on the waves and a constant, solved by numpy."""
    values = np.random.default_rng(1).normal(3, 2, size=60).cumsum()
    known = known_series(values)
    assert known is not None
    n, b = 60, waves(60)
    design = np.array(
        [[1.0, *(math.cos(math.pi * j * (2 * t + 1) / (2 * n)) for j in range(1, b + 1))] for t in range(n)]
    )
    found = np.linalg.lstsq(design, values, rcond=None)[0]
    # Each wave has the square n / 2, so its coefficient of an orthonormal one is that times its root.
    long_run = np.mean((found[1:] * math.sqrt(n / 2)) ** 2)
    assert known.mean == pytest.approx(found[0])
    assert known.error == pytest.approx(math.sqrt(long_run / n))
    assert known.degrees == b == 6


def test_the_number_of_waves_is_the_recommended_one() -> None:
    """0.41 T^(2/3) for T = 60, 180 and 1440: Lazarus et al. 2018, equation 4."""
    assert [waves(count) for count in (FEWEST, 60, 180, 1440)] == [2, 6, 13, 52]


@pytest.mark.simulated
def test_intervals_of_independent_values_are_exact() -> None:
    held = coverage(np.random.default_rng(2).normal(size=(REPEATS, 60)))
    assert abs(held - 0.95) <= 3 * math.sqrt(0.95 * 0.05 / REPEATS)


@pytest.mark.simulated
@pytest.mark.parametrize(("phi", "least"), [(0.5, 0.92), (0.8, 0.86)])
def test_intervals_of_dependent_values_hold_nearly(phi: float, least: float) -> None:
    """Those that take the values for independent hold in 75 and 50 %."""
    series = autoregressive(np.random.default_rng(3), 60, phi)
    assert coverage(series) >= least
    naive = np.abs(series.mean(axis=1)) <= t_quantile(0.975, 59) * series.std(axis=1, ddof=1) / math.sqrt(60)
    assert naive.mean() < 0.8


@pytest.mark.simulated
def test_a_ratio_holds_where_both_parts_wander() -> None:
    rng = np.random.default_rng(4)
    calls = np.exp(0.3 * autoregressive(rng, 60, 0.5))
    times = calls * 0.02 * (1 + 0.1 * autoregressive(rng, 60, 0.5))
    held = 0
    for x, y in zip(times, calls, strict=True):
        known = known_ratio(x, y)
        assert known is not None
        held += abs(known.mean - 0.02) <= t_quantile(0.975, known.degrees) * known.error
    assert held / REPEATS >= 0.91


def test_the_ratio_of_two_means_is_a_difference_of_logarithms() -> None:
    rng = np.random.default_rng(5)
    first, second = known_series(rng.normal(100, 5, size=60)), known_series(rng.normal(110, 5, size=60))
    assert first is not None
    assert second is not None
    logs = [log_of(first), log_of(second)]
    assert logs[0] is not None
    assert logs[1] is not None
    found = difference(logs[0], logs[1])
    assert math.exp(found.mean) == pytest.approx(second.mean / first.mean)
    assert math.exp(found.interval.low) < 1.1 < math.exp(found.interval.high)


def test_what_has_no_spread_or_too_few_values_has_no_error() -> None:
    assert known_series([5.0] * 60) is None
    assert known_series([1.0, 2.0] * 4) is None
    assert known_series([1.0, math.nan] * 9) is None
    assert known_ratio([1.0] * 20, [0.0] * 20) is None
    below_zero = known_series([-1.0, -2.0] * 10 + [-3.0])
    assert below_zero is not None
    assert log_of(below_zero) is None


def test_a_gap_leaves_out_its_time() -> None:
    values = [float(each) for each in np.random.default_rng(6).normal(size=40)]
    with_gap = [*values[:20], math.nan, math.nan, *values[20:]]
    assert known_series(with_gap) == known_series(values)


@pytest.mark.simulated
def test_two_windows_that_are_alike_rarely_differ() -> None:
    series = 100 + autoregressive(np.random.default_rng(8), 120, 0.3)
    found = 0
    for values in series:
        first, second = known_series(values[:60]), known_series(values[60:])
        assert first is not None
        assert second is not None
        logs = log_of(first), log_of(second)
        assert logs[0] is not None
        assert logs[1] is not None
        interval = difference(logs[0], logs[1]).interval
        found += not interval.low <= 0 <= interval.high
    assert found / REPEATS <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / REPEATS) + 0.01
