import math

import numpy as np
import pytest
from scipy import stats

from pgtrial.stats.interval import Known, difference, known_mean


def test_the_difference_of_two_means_is_that_of_welchs_test():
    rng = np.random.default_rng(3)
    first, second = rng.normal(1, 0.2, 5), rng.normal(1.3, 0.6, 9)
    oracle = stats.ttest_ind(second, first, equal_var=False)
    expected = oracle.confidence_interval(0.95)

    known = known_mean(first.tolist()), known_mean(second.tolist())
    assert known[0] is not None
    assert known[1] is not None
    found = difference(known[0], known[1])

    assert found.p_value == pytest.approx(oracle.pvalue)
    assert found.degrees == pytest.approx(oracle.df)
    assert (found.interval.low, found.interval.high) == pytest.approx((expected.low, expected.high))


def test_an_indirect_comparison_adds_the_errors():
    # Bucher et al. (1997): the variance of the indirect comparison is the sum of both.
    found = difference(Known(mean=0.1, error=0.03, degrees=50), Known(mean=0.3, error=0.04, degrees=50))

    assert found.mean == pytest.approx(0.2)
    assert found.error == pytest.approx(0.05)


def test_turning_the_comparison_round_turns_the_sign():
    one, other = Known(mean=0.1, error=0.03, degrees=4), Known(mean=0.3, error=0.01, degrees=9)
    forth, back = difference(one, other), difference(other, one)

    assert forth.interval.low == pytest.approx(-back.interval.high)
    assert forth.p_value == pytest.approx(back.p_value)


def test_tiny_errors_keep_their_degrees_of_freedom():
    found = difference(Known(mean=0, error=1e-100, degrees=3), Known(mean=1, error=1e-100, degrees=3))

    assert found.degrees == pytest.approx(6)
    assert math.isfinite(found.interval.low)


@pytest.mark.parametrize("values", [[], [0.1], [0.1, 0.1, 0.1]])
def test_a_mean_without_noise_is_not_known(values):
    assert known_mean(values) is None
