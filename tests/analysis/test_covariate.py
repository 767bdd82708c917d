import math

import numpy as np
import pytest
from scipy.stats import linregress
from scipy.stats import t as student

from pgtrial.analysis.effects.adjustment import adjust_for


def test_it_agrees_with_the_regression_of_scipy() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(0.3, 1, 12)
    y = 0.05 - 0.2 * x + rng.normal(0, 0.03, 12)
    oracle, t = linregress(x, y), student.ppf(0.975, 10)
    found = adjust_for(y, x)
    assert found is not None

    half, slope_half = t * oracle.intercept_stderr, t * oracle.stderr
    assert (math.log(found.ratio), found.slope) == pytest.approx((oracle.intercept, oracle.slope))
    assert math.log(found.low) == pytest.approx(oracle.intercept - half)
    assert math.log(found.high) == pytest.approx(oracle.intercept + half)
    assert (found.slope_low, found.slope_high) == pytest.approx((oracle.slope - slope_half, oracle.slope + slope_half))
    assert found.sd_after == pytest.approx(math.sqrt((1 - oracle.rvalue**2) * np.var(y) * 12 / 10))
    assert found.sd_after < found.sd_before


def test_several_comparisons_widen_the_interval_and_not_the_slopes() -> None:
    y, x = [0.1, 0.12, 0.05, 0.2, 0.11], [0.0, 0.1, -0.2, 0.4, 0.1]
    one, three = adjust_for(y, x), adjust_for(y, x, comparisons=3)
    assert one is not None
    assert three is not None

    assert three.low < one.low < one.ratio == three.ratio < one.high < three.high
    assert (three.slope_low, three.slope_high) == (one.slope_low, one.slope_high)


def test_blocks_without_a_ratio_or_a_covariate_are_left_out() -> None:
    y, x = [0.1, 0.12, 0.05, 0.2, math.nan, 0.3], [0.0, 0.1, -0.2, 0.4, 0.1, math.nan]

    assert adjust_for(y, x) == adjust_for(y[:4], x[:4])
    assert adjust_for(y[:3], x[:3]) is None


def test_a_covariate_that_never_differed_adjusts_nothing() -> None:
    assert adjust_for([0.1, 0.2, 0.3, 0.4, 0.5], [0.2] * 5) is None
    assert adjust_for([0.1, 0.2, 0.3, 0.4, 0.5], [0.0] * 5) is None


def test_each_block_has_a_difference() -> None:
    with pytest.raises(ValueError, match="got 2 for 3"):
        adjust_for([0.1, 0.2, 0.3], [0.0, 0.1])


def test_coverage_with_a_disturbance_that_the_covariate_explains() -> None:
    rng = np.random.default_rng(11)
    hits, widths, plain = 0, [], []
    for _ in range(600):
        x = rng.exponential(0.1, 8) - rng.exponential(0.1, 8)
        y = math.log(1.05) - 0.8 * x + rng.normal(0, 0.02, 8)
        found = adjust_for(y, x)
        assert found is not None
        hits += found.low <= 1.05 <= found.high
        widths.append(found.sd_after)
        plain.append(found.sd_before)

    # 570 of 600 are expected; fewer than 552 or more than 586 come once in a thousand times.
    assert 552 <= hits <= 586
    assert np.mean(widths) < 0.3 * np.mean(plain)
