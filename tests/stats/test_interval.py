import math

import numpy as np
import pytest
from scipy import stats

from pgtrial.stats.interval import mean_log_interval


def test_interval_of_the_geometric_mean_agrees_with_scipy():
    values = np.array([812.0, 790, 845, 901, 776])
    logs = np.log(values)
    low, high = stats.t.interval(0.9, 4, logs.mean(), stats.sem(logs))

    assert mean_log_interval(values, confidence=0.9) == pytest.approx((stats.gmean(values), np.exp(low), np.exp(high)))


def test_missing_observations_are_left_out():
    assert mean_log_interval([100, math.nan, 121]) == mean_log_interval([100, 121])
    assert mean_log_interval([100, 121])[0] == pytest.approx(110)


@pytest.mark.parametrize(
    ("values", "mean"), [([], None), ([math.nan], None), ([100, 0], None), ([100, -5], None), ([100, math.inf], None)]
)
def test_nothing_is_made_up_where_there_is_no_geometric_mean(values, mean):
    assert mean_log_interval(values) == (mean, None, None)


@pytest.mark.parametrize("values", [[250.0], [250.0, 250.0, 250.0]])
def test_without_spread_there_is_a_mean_but_no_interval(values):
    mean, low, high = mean_log_interval(values)

    assert mean == pytest.approx(250)
    assert (low, high) == (None, None)
