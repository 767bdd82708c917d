import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pgtrial.model.histogram import RELATIVE_ERROR, bucket_bounds, bucket_of
from pgtrial.stats.quantiles import histogram_quantile, median_interval, merge

latencies = st.lists(st.integers(min_value=1, max_value=10**9), min_size=1, max_size=200)


def histogram(microseconds):
    return np.unique([bucket_of(value) for value in microseconds], return_counts=True)


@given(latencies, st.floats(min_value=0, max_value=1))
def test_quantile_is_within_one_percent_of_the_exact_one(values, q):
    exact = np.quantile(np.array(values) * 1e-6, q)

    assert histogram_quantile(*histogram(values), q) == pytest.approx(exact, rel=RELATIVE_ERROR + 1e-9)


@pytest.mark.parametrize("q", [0.5, 0.95, 0.99, 0.999])
def test_quantiles_of_a_long_tail_are_within_one_percent(q):
    values = np.random.default_rng(6).lognormal(7, 1.5, 20_000).round().clip(1)

    assert histogram_quantile(*histogram(values), q) == pytest.approx(np.quantile(values, q) * 1e-6, rel=0.01)


@given(st.lists(latencies, min_size=1, max_size=4), st.floats(min_value=0, max_value=1))
def test_merged_histograms_are_the_histogram_of_everything(parts, q):
    everything = [value for part in parts for value in part]

    merged = merge(histogram(part) for part in parts)

    assert np.array_equal(merged, histogram(everything))
    assert histogram_quantile(*merged, q) == histogram_quantile(*histogram(everything), q)


def test_order_of_the_buckets_does_not_matter():
    assert histogram_quantile([300, 100, 200], [1, 5, 3], 0.6) == histogram_quantile([100, 200, 300], [5, 3, 1], 0.6)


def test_counts_above_the_range_of_32_bits_are_exact():
    low, high = bucket_bounds(200)

    # The median is the second of the upper bucket's three thousand million.
    assert low < histogram_quantile([100, 200], [3 * 10**9, 3 * 10**9 + 2], 0.5) < low + (high - low) * 1e-8


def test_shift_smaller_than_a_bucket_moves_the_quantile():
    rng = np.random.default_rng(1)
    latencies = rng.lognormal(7, 0.3, 20_000)
    before, after = (histogram_quantile(*histogram(latencies * factor), 0.5) for factor in (1, 1.002))

    assert after / before == pytest.approx(1.002, abs=0.001)


def test_nothing_has_no_quantile():
    assert histogram_quantile([], [], 0.5) is None
    assert histogram_quantile([100], [0], 0.5) is None
    assert [part.size for part in merge([])] == [0, 0]


@pytest.mark.parametrize("q", [-0.1, 1.1, 99])
def test_quantile_outside_its_range_is_an_error(q):
    with pytest.raises(ValueError, match="0 <= q <= 1"):
        histogram_quantile([1], [1], q)


@pytest.mark.parametrize(("count", "depth"), [(6, 1), (9, 2), (12, 3), (40, 14)])
def test_the_interval_of_a_median_is_that_of_the_tables(count, depth):
    """Of 95 %, as in table A-25b of Dixon & Massey, "Introduction to Statistical Analysis" (1969)."""
    interval = median_interval(np.arange(1.0, count + 1), confidence=0.95)

    assert (interval.low, interval.high) == (depth, count + 1 - depth)
    assert interval.confidence == pytest.approx(1 - 2 * stats.binom.cdf(depth - 1, count, 0.5))
    assert interval.confidence >= 0.95


def test_five_values_have_no_interval_of_their_median():
    assert median_interval(np.arange(5.0), confidence=0.95) is None


def test_a_median_is_in_its_interval_as_often_as_promised():
    rng = np.random.default_rng(1)
    found = [median_interval(rng.pareto(1, 12), confidence=0.95) for _ in range(2000)]

    assert sum(not each.low <= 1 <= each.high for each in found) <= stats.binom.ppf(0.9999, 2000, 0.05)
