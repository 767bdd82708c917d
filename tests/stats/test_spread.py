import math

import numpy as np
import pytest

from pgtrial.findings.record import Estimate
from pgtrial.stats.interval import mean_and_sd, t_interval
from pgtrial.stats.slices import average_estimates, pool_groups, sd_interval


def test_chi_square_interval_has_the_published_quantiles() -> None:
    # Table of chi-square with 10 degrees of freedom: 3.247 and 20.483 at 0.025 and 0.975.
    interval = sd_interval(2.0, 10)

    assert interval.low == pytest.approx(2 * math.sqrt(10 / 20.483), rel=1e-4)
    assert interval.high == pytest.approx(2 * math.sqrt(10 / 3.247), rel=1e-4)


def test_chi_square_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    sds = rng.normal(0, 3, (4000, 6)).std(axis=1, ddof=1)
    covered = np.mean([(i := sd_interval(sd, 5, confidence=0.9)).low <= 3 <= i.high for sd in sds])

    assert abs(covered - 0.9) < 3 * math.sqrt(0.09 / 4000)


def test_a_single_group_is_an_ordinary_sample() -> None:
    values = [0.1, -0.2, 0.05, 0.3]
    pooled = pool_groups([values])
    mean, sd = mean_and_sd(values)

    assert pooled is not None
    assert (pooled.mean, pooled.sd, pooled.degrees, pooled.count) == (pytest.approx(mean), pytest.approx(sd), 3, 4)
    interval, expected = pooled.mean_interval(0.95), t_interval(mean, sd, 4, confidence=0.95)
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_what_a_group_has_in_common_is_no_noise_of_a_block() -> None:
    pooled = pool_groups([[1.0, 2.0, 3.0], [11.0, 13.0], [7.0]])

    # Squares about the groups' means: 2 and 2, with 2 + 1 degrees of freedom.
    assert pooled is not None
    assert (pooled.sd, pooled.degrees, pooled.count, pooled.mean) == (pytest.approx(math.sqrt(4 / 3)), 3, 5, 6.0)


def test_groups_without_two_values_tell_nothing() -> None:
    assert pool_groups([[1.0], []]) is None


def test_without_spread_there_is_no_interval() -> None:
    pooled = pool_groups([[0.1, 0.1], [0.1, 0.1]])

    assert pooled is not None
    assert pooled.mean_interval(0.95) is None


def of(values: list[float]) -> tuple[int, Estimate]:
    mean, sd = mean_and_sd(values)
    interval = t_interval(mean, sd, len(values), confidence=0.95)
    return len(values), Estimate(value=mean, low=interval.low, high=interval.high)


def test_the_average_of_one_estimate_is_that_estimate() -> None:
    _, one = of([1.0, 2.0, 4.0])
    found = average_estimates([of([1.0, 2.0, 4.0])], confidence=0.95, wanted=0.95)

    assert found is not None
    assert found.value == one.value
    assert (found.low, found.high) == (pytest.approx(one.low), pytest.approx(one.high))


def test_the_average_of_two_samples_has_welchs_interval() -> None:
    one, other = [1.0, 2.0, 4.0, 3.0], [0.0, 5.0, 2.0, 9.0]
    found = average_estimates([of(one), of(other)], confidence=0.95, wanted=0.99)
    (m1, s1), (m2, s2) = mean_and_sd(one), mean_and_sd(other)
    variance = (s1**2 / 4 + s2**2 / 4) / 4
    degrees = (s1**2 / 4 + s2**2 / 4) ** 2 / ((s1**2 / 4) ** 2 / 3 + (s2**2 / 4) ** 2 / 3)
    expected = t_interval((m1 + m2) / 2, math.sqrt(variance * (degrees + 1)), degrees + 1, confidence=0.99)

    assert found is not None
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_an_estimate_without_interval_leaves_none() -> None:
    single = (1, Estimate(value=3.0))

    assert average_estimates([of([1.0, 2.0, 3.0]), single], confidence=0.95, wanted=0.95) == Estimate(value=2.25)


def test_of_no_estimate_there_is_no_average() -> None:
    assert average_estimates([], confidence=0.95, wanted=0.95) is None
