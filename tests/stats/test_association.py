import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import fft, stats
from scipy.signal import lfilter

from pgtrial.stats.association import DRAWS, LONGEST_GAP, SHORTEST_STRETCH, associate, associations
from pgtrial.stats.interval import benjamini_hochberg

values = st.lists(st.floats(-100, 100), min_size=SHORTEST_STRETCH, max_size=40, unique=True)


def seeded():
    return np.random.default_rng(7)


def noise(kind, count, length, rng):
    """Independent series, (count, length)."""
    name, _, parameter = kind.partition(" ")
    if name == "ar":
        phi = float(parameter)
        shocks = rng.normal(size=(count, length + 300)) * math.sqrt(1 - phi**2)
        return lfilter([1], [1, -phi], shocks)[:, 300:]
    if name == "smoothed":  # moving mean over this many values
        width = int(parameter)
        return lfilter(np.ones(width) / width, [1], rng.normal(size=(count, length + width)))[:, width:]
    if name == "wave":  # a rhythm of 30 whose phase and strength drift
        return lfilter([1], [1, -2 * 0.97 * math.cos(2 * math.pi / 30), 0.97**2], noise_white(count, length, rng))[
            :, 300:
        ]
    if name == "walk":
        return np.cumsum(rng.normal(size=(count, length)), axis=1)
    if name == "spikes":  # few of which are large
        return np.exp(1.5 * rng.normal(size=(count, length)))
    assert name == "counts"  # mostly zero, in clusters
    return rng.poisson(np.maximum(noise("ar 0.8", count, length, rng), 0) ** 2 * 0.3).astype(float)


def noise_white(count, length, rng):
    return rng.normal(size=(count, length + 300))


def quickly(first, second, draws=1):
    """associate with few draws, where the p-value does not matter or only has to be the same."""
    series = np.array([first, second], dtype=float)
    return associations(series, [(0, 1)], rng=seeded(), draws=draws)[0]


def most(count, probability):
    """What a right method exceeds once in two thousand tests."""
    return stats.binom.ppf(0.9995, count, probability)


def p_values(kind, length, *, count, strata=None, seed=1, draws=1999):
    """Of independent pairs: (spearman, pearson), each (count,)."""
    rng = np.random.default_rng([seed, length, *kind.encode()])
    series = noise(kind, 2 * count, length, rng)
    pairs = [(2 * i, 2 * i + 1) for i in range(count)]
    found = [one for one in associations(series, pairs, strata, rng=rng, draws=draws) if one.spearman is not None]
    return np.array([[one.spearman.p_value, one.pearson.p_value] for one in found]).T


@given(values, st.integers(0, 1000))
def test_in_one_stratum_they_are_the_correlations_of_scipy(first, seed):
    second = np.random.default_rng(seed).integers(0, 5, len(first)).tolist()  # with ties
    found = quickly(first, second)

    if len(set(second)) > 1:
        assert found.spearman.value == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-9)
        assert found.pearson.value == pytest.approx(stats.pearsonr(first, second).statistic, abs=1e-9)
        assert found.count == len(first)
    else:
        assert found.spearman is None


def test_strata_weigh_by_their_length():
    rng = seeded()
    first, second = rng.normal(size=(2, 50))
    strata = [1] * 30 + [2] * 20
    parts = [stats.spearmanr(first[part], second[part]).statistic for part in (slice(30), slice(30, 50))]

    found = associate(first, second, strata, rng=rng)

    assert found.spearman.value == pytest.approx((30 * parts[0] + 20 * parts[1]) / 50)


def test_differences_between_strata_do_not_count():
    rng = seeded()
    level = np.repeat([0, 100, 200], 60)
    x = rng.normal(size=180)
    opposed = associate(level + x, level - x + 0.1 * rng.normal(size=180), level, rng=rng)
    unrelated = associate(level + x, level + rng.normal(size=180), level, rng=rng)

    assert opposed.pearson.value < -0.9
    assert unrelated.spearman.p_value > 0.05
    assert abs(unrelated.spearman.value) < 0.2


def test_a_missing_value_leaves_out_its_pair():
    first, second = seeded().normal(size=(2, 40))
    first[[3, 17]] = math.nan
    second[[3, 30]] = math.nan
    known = ~np.isnan(first) & ~np.isnan(second)

    found = associate(first, second, rng=seeded())

    assert found.count == 37
    assert found.pearson.value == pytest.approx(stats.pearsonr(first[known], second[known]).statistic)


def test_a_long_gap_begins_a_new_stratum():
    first, second = seeded().normal(size=(2, 60))
    first[20 : 20 + LONGEST_GAP + 1] = math.nan
    strata = np.arange(60) >= 22

    assert associate(first, second, rng=seeded()) == associate(first, second, strata, rng=seeded())


def test_constant_and_short_strata_do_not_count():
    first, second = seeded().normal(size=(2, 60))
    strata = np.repeat([0, 1, 2], [30, 25, 5])
    first[30:55] = 3.0

    found = associate(first, second, strata, rng=seeded())

    assert found.count == 30
    assert found == associate(first[:30], second[:30], rng=seeded())


@pytest.mark.parametrize(
    ("first", "second"), [([], []), ([1.0] * 20, range(20)), (range(7), range(7)), ([math.nan] * 20, range(20))]
)
def test_without_values_that_vary_there_is_no_association(first, second):
    found = associate(np.array(first, float), np.array(second, float), rng=seeded())

    assert (found.spearman, found.pearson, found.count) == (None, None, 0)


def test_the_p_value_is_the_share_of_sign_patterns_that_are_as_far_from_zero():
    first, second = np.random.default_rng(3).normal(size=(2, 9))
    x, y = (fft.dct(series - series.mean(), norm="ortho")[1:] for series in (first, second))
    products = x * y / math.sqrt((x @ x) * (y @ y))
    signs = 1 - 2 * ((np.arange(256)[:, None] >> np.arange(8)) & 1)
    # 0.3 of the variance: the allowance for short slow series.
    sums = np.abs(signs @ products) * (1 + 0.3 * (products**2).sum())
    exact = (sums >= abs(products.sum()) - 1e-9).mean()

    found = associate(first, second, rng=seeded())

    assert found.pearson.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact / DRAWS))


def test_many_small_products_are_as_good_as_normal():
    first, second = np.random.default_rng(4).normal(size=(2, 2000))
    second += 0.03 * first
    correlation = stats.pearsonr(first, second).statistic

    found = associate(first, second, rng=seeded())

    assert found.pearson.p_value == pytest.approx(2 * stats.norm.sf(abs(correlation) * math.sqrt(2000)), abs=0.02)


def test_two_single_spikes_that_meet_may_do_so_by_chance():
    first, second = 0.01 * seeded().normal(size=(2, 300))
    first[200] = second[200] = 1

    found = associate(first, second, rng=seeded())

    assert found.pearson.value > 0.9
    assert found.pearson.p_value >= 1 / 300


def test_a_pair_has_the_same_result_in_whatever_company():
    series = seeded().normal(size=(5, 100))
    alone = associations(series, [(0, 3)], rng=seeded())
    together = associations(series, [(1, 2), (0, 3), (4, 4)], rng=seeded())

    assert together[1] == alone[0]


def test_a_series_and_itself_are_one_without_an_interval():
    series = seeded().normal(size=100)
    found = associate(series, 3 * series + 2, rng=seeded())

    assert found.spearman.value == pytest.approx(1)
    assert (found.spearman.low, found.spearman.high) == (None, None)
    assert found.spearman.p_value == 1 / (DRAWS + 1)


@given(values, st.floats(0.1, 10), st.integers(0, 1000))
def test_ranks_do_not_mind_how_a_series_is_scaled(first, factor, seed):
    second = np.random.default_rng(seed).normal(size=len(first))
    one = quickly(first, second, draws=499).spearman
    other = quickly(first, np.arctan(factor * second), draws=499).spearman
    turned = quickly(first, -second, draws=499).spearman

    assert other == one
    assert turned.value == pytest.approx(-one.value)
    assert turned.p_value == one.p_value
    if one.low is not None:
        assert (turned.low, turned.high) == (pytest.approx(-one.high), pytest.approx(-one.low))


def test_two_slow_drifts_are_no_association():
    time = np.arange(300)
    rng = seeded()

    found = associate(time + 20 * rng.normal(size=300), -time + 20 * rng.normal(size=300), rng=rng)

    assert found.spearman.value < -0.9
    assert found.spearman.p_value > 0.2


@pytest.mark.simulated
@pytest.mark.parametrize("length", [120, 300])
@pytest.mark.parametrize("kind", ["ar 0", "ar 0.95", "smoothed 60", "spikes"])
def test_independent_noise_is_seldom_called_associated(kind, length):
    for p in p_values(kind, length, count=300):
        assert (p < 0.05).sum() <= most(300, 0.05)
        assert (p < 0.01).sum() <= most(300, 0.01)
        assert sum(q < 0.05 for q in benjamini_hochberg(list(p))) <= 300 * 0.05


@pytest.mark.slow
@pytest.mark.parametrize("length", [120, 180, 300, 600])
@pytest.mark.parametrize(
    "kind", ["ar 0", "ar 0.5", "ar 0.8", "ar 0.9", "ar 0.95", "smoothed 60", "walk", "wave", "counts", "spikes"]
)
def test_of_1000_independent_pairs_no_more_than_the_nominal_share_is_called_associated(kind, length):
    for p in p_values(kind, length, count=1000, draws=DRAWS):
        assert (p < 0.05).sum() <= most(len(p), 0.05)
        assert (p < 0.01).sum() <= most(len(p), 0.01)
        assert sum(q < 0.05 for q in benjamini_hochberg(list(p))) <= len(p) * 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ar 0", "ar 0.9", "smoothed 60"])
def test_pooling_strata_keeps_the_nominal_share(kind):
    for p in p_values(kind, 720, count=1000, strata=np.arange(720) // 120, draws=DRAWS):
        assert (p < 0.05).sum() <= most(1000, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
def test_missing_values_keep_the_nominal_share(share):
    rng = np.random.default_rng(11)
    series = noise("ar 0.9", 2000, 400, rng)
    series[rng.random(series.shape) < share / 2] = math.nan
    found = associations(series, [(2 * i, 2 * i + 1) for i in range(1000)], rng=rng)

    assert sum(one.spearman.p_value < 0.05 for one in found) <= most(1000, 0.05)


def together(kind, count, length, strength, rng):
    """Pairs with a correlation of ``strength``, both as slow as ``kind``."""
    first, other = noise(kind, count, length, rng), noise(kind, count, length, rng)
    return first, strength * first + math.sqrt(1 - strength**2) * other


@pytest.mark.parametrize(
    ("kind", "length", "strength", "power"),
    [("ar 0", 120, 0.4, 0.95), ("ar 0.8", 300, 0.5, 0.9), ("ar 0.95", 600, 0.7, 0.85), ("smoothed 60", 600, 0.95, 0.7)],
)
def test_true_associations_are_found(kind, length, strength, power):
    rng = np.random.default_rng(12)
    first, second = together(kind, 100, length, strength, rng)
    found = associations(np.vstack((first, second)), [(i, 100 + i) for i in range(100)], rng=rng, draws=1999)

    assert sum(one.spearman.p_value < 0.05 for one in found) >= power * 100


def coverage(kind, length, strength, *, count, seed=5):
    """Shares of intervals with the truth in them: (spearman, pearson)."""
    rng = np.random.default_rng([seed, length])
    first, second = together(kind, count, length, strength, rng)
    found = associations(np.vstack((first, second)), [(i, count + i) for i in range(count)], rng=rng, draws=1)
    ranks = 6 / math.pi * math.asin(strength / 2)
    return (
        np.mean([one.spearman.low <= ranks <= one.spearman.high for one in found]),
        np.mean([one.pearson.low <= strength <= one.pearson.high for one in found]),
    )


@pytest.mark.parametrize("kind", ["ar 0", "ar 0.9"])
def test_intervals_contain_the_truth(kind):
    assert min(coverage(kind, 300, 0.6, count=300)) >= 0.91


@pytest.mark.slow
@pytest.mark.parametrize("length", [120, 300, 600])
@pytest.mark.parametrize("strength", [0.0, 0.4, 0.8])
@pytest.mark.parametrize("kind", ["ar 0", "ar 0.5", "ar 0.9", "ar 0.95", "smoothed 60"])
def test_intervals_contain_the_truth_as_often_as_promised_or_nearly(kind, strength, length):
    for share in coverage(kind, length, strength, count=1000):
        assert 0.915 <= share <= 0.99


def block_length(series):
    """For the circular block bootstrap of a mean (Politis & White 2004, corrected by Patton, Politis & White 2009)."""
    n = series.size
    centred = series - series.mean()
    most_lags = math.ceil(math.sqrt(n)) + max(5, math.ceil(math.log10(n)))
    covariance = np.array([centred[: n - k] @ centred[k:] for k in range(min(2 * most_lags, n - 1) + 1)]) / n
    small = np.abs(covariance[1:] / covariance[0]) < 2 * math.sqrt(math.log10(n) / n)
    run = max(5, math.ceil(math.sqrt(math.log10(n))))
    quiet = next((k for k in range(most_lags) if small[k : k + run].all()), most_lags)
    width = min(2 * max(1, quiet), covariance.size - 1)
    taper = np.minimum(1, 2 * (1 - np.arange(1, width + 1) / width))
    lags = np.arange(1, width + 1)
    change = 2 * (taper * lags * covariance[1 : width + 1]).sum()
    level = covariance[0] + 2 * (taper * covariance[1 : width + 1]).sum()
    return min(math.ceil(3 * math.sqrt(n)), max(1, round((2 * change**2 / (4 / 3 * level**2) * n) ** (1 / 3))))


@pytest.mark.slow
def test_the_interval_covers_where_a_block_bootstrap_does_not():
    rng = np.random.default_rng(13)
    length, strength, hits = 120, 0.4, 0
    for first, second in zip(*together("ar 0.95", 400, length, strength, rng), strict=True):
        block = max(block_length(series) for series in (first, second, first * second))
        starts = rng.integers(0, length, (400, math.ceil(length / block)))
        drawn = ((starts[:, :, None] + np.arange(block)) % length).reshape(400, -1)[:, :length]
        x, y = (series[drawn] - series[drawn].mean(axis=1, keepdims=True) for series in (first, second))
        correlations = (x * y).sum(axis=1) / np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
        low, high = np.percentile(correlations, [2.5, 97.5])
        hits += low <= strength <= high

    assert hits / 400 < 0.85
    assert min(coverage("ar 0.95", length, strength, count=400)) > 0.92
