import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS

from pgtrial.stats.hosts import FEWEST_TO_PREDICT, compare_hosts, fit_hosts, predict_host
from pgtrial.stats.paired import compare_blocks


def draw(sizes, *, between=0.05, position=0.0, seed=1):
    """Log ratios, hosts, and whether the arm came second; in each host the orders take turns."""
    rng = np.random.default_rng(seed)
    hosts = [f"h{host}" for host, size in enumerate(sizes) for _ in range(size)]
    after = np.array([number % 2 == 0 for size in sizes for number in range(size)])
    own = np.repeat(rng.normal(0, between, len(sizes)), sizes)
    return 0.1 + own + rng.normal(0, 0.02, len(hosts)) + np.where(after, position, -position), hosts, after


def means_of(values, hosts):
    return np.array([values[np.array(hosts) == host].mean() for host in sorted(set(hosts))])


def indicators(hosts):
    return (np.array(hosts)[:, None] == sorted(set(hosts))).astype(float)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_with_equal_blocks_each_hosts_mean_is_one_observation(count):
    values, hosts, _ = draw([3] * count)
    known = stats.ttest_1samp(means_of(values, hosts), 0.0)
    low, high = known.confidence_interval(0.95)

    found = compare_hosts(np.ones(values.size), np.exp(values), hosts)

    assert (np.log(found.low), np.log(found.high)) == pytest.approx((low, high))
    assert found.p_value == pytest.approx(known.pvalue)
    assert (found.hosts, found.blocks, found.degrees) == (count, 3 * count, count - 1)


def test_what_the_place_in_the_block_does_is_no_noise():
    without, hosts, after = draw([4] * 5)
    strong, _, _ = draw([4] * 5, position=0.3)

    one, other = fit_hosts(without, hosts, after), fit_hosts(strong, hosts, after)

    assert other.mean == pytest.approx(one.mean)
    assert other.error == pytest.approx(one.error)
    assert other.within == pytest.approx(one.within)
    assert other.position - one.position == pytest.approx(0.3)
    assert one.method == other.method == "means"


def test_unequal_blocks_and_orders_are_fitted_with_the_place():
    values, hosts, after = draw([3, 3, 3, 3], position=0.3)

    found = fit_hosts(values, hosts, after)

    assert found.method == "reml"
    assert found.position == pytest.approx(0.3, abs=0.03)
    assert found.mean == pytest.approx(0.1, abs=0.1)
    assert fit_hosts(values, hosts).method == "means"


def test_one_block_on_each_host_is_a_plain_comparison():
    values, hosts, _ = draw([1] * 8)
    after = np.arange(8) % 2 == 0

    found = compare_hosts(np.ones(8), np.exp(values), hosts, after=after)
    plain = compare_blocks(np.ones(8), np.exp(values), after=after)

    assert (found.low, found.high, found.p_value) == pytest.approx((plain.low, plain.high, plain.p_value))
    assert fit_hosts(values, hosts, after).within is None


def test_prediction_is_of_one_more_host_and_needs_five():
    values, hosts, _ = draw([2] * 5)
    means = means_of(values, hosts)
    half = stats.t.ppf(0.975, 4) * means.std(ddof=1) * np.sqrt(1 + 1 / 5)

    found = fit_hosts(values, hosts).prediction

    assert (found.low, found.high) == pytest.approx((means.mean() - half, means.mean() + half))
    assert fit_hosts(*draw([2] * (FEWEST_TO_PREDICT - 1))[:2]).prediction is None


@pytest.mark.parametrize("sizes", [(3, 3, 3, 3, 3), (1, 1, 1, 1, 12), (1, 1, 2, 4, 8, 8)])
@pytest.mark.parametrize("between", [0.3, 3.0])
def test_predictions_hold_another_host_however_unequal_the_blocks_are(sizes, between):
    rng, times = np.random.default_rng(5), 2000
    errors = np.sqrt(between**2 + 1 / np.array(sizes))

    found = [predict_host(rng.normal(size=len(sizes)) * errors, confidence=0.95) for _ in range(times)]

    misses = sum(not each.low <= rng.normal(0, between) <= each.high for each in found)
    assert misses <= stats.binom.ppf(0.9999, times, 0.05)


def test_variances_are_those_of_an_analysis_of_variance():
    values, hosts, _ = draw([3] * 6)
    design = np.column_stack([np.ones(18), indicators(hosts)[:, 1:]])
    table = OLS(values, design).fit()
    inside, among = table.mse_resid, table.mse_model

    found = fit_hosts(values, hosts)

    assert found.within == pytest.approx(np.sqrt(inside))
    assert found.between == pytest.approx(np.sqrt((among - inside) / 3))
    assert found.within_interval.low == pytest.approx(np.sqrt(12 * inside / stats.chi2.ppf(0.975, 12)))
    f, chi = stats.f.ppf(0.975, 5, 12), stats.chi2.ppf(0.975, 5)
    assert found.between_interval.low == pytest.approx(np.sqrt(5 * (among - f * inside) / (3 * chi)))


def test_a_host_that_is_unlike_the_others_does_not_make_them_look_odd():
    values, hosts, _ = draw([3] * 6, between=0.0)
    values[np.array(hosts) == "h2"] -= 0.4

    found = {each.host: each for each in fit_hosts(values, hosts).hosts}

    assert [host for host, each in found.items() if each.p_differs <= 0.05] == ["h2"]
    assert found["h2"].difference == pytest.approx(-0.4, abs=0.05)
    assert found["h3"].difference == pytest.approx(0.0, abs=0.05)


def test_the_first_test_is_that_of_a_contrast_in_the_analysis_of_variance():
    values, hosts, _ = draw([2, 3, 4], between=0.0)
    known = OLS(values, indicators(hosts)).fit().t_test([[1, -0.5, -0.5]])

    found = fit_hosts(values, hosts).hosts[0]

    assert found.difference == pytest.approx(known.effect[0])
    assert found.p_differs == pytest.approx(min(1.0, 3 * float(known.pvalue)))


def test_two_hosts_that_differ_are_both_named():
    values, hosts, _ = draw([4, 4], between=0.0)
    values[:4] += 0.5

    assert [each.p_differs <= 0.05 for each in fit_hosts(values, hosts).hosts] == [True, True]


def test_one_host_of_several_has_a_ratio_and_no_interval():
    found = compare_hosts([1.0, 1.0, np.nan], [1.1, 1.2, 1.3], ["a", "a", "b"])

    assert (found.low, found.high, found.p_value) == (None, None, None)
    assert found.ratio == pytest.approx(np.sqrt(1.32))
    assert "one-host" in {each.code for each in found.caveats}


def test_hosts_without_any_spread_have_no_interval():
    found = compare_hosts(np.ones(6), np.full(6, 1.5), list("aabbcc"))

    assert (found.ratio, found.low, found.high) == (pytest.approx(1.5), None, None)
    assert [each.variant for each in found.caveats if each.code == "zero-variance"] == ["hosts"]


def test_a_value_of_zero_gives_no_ratio():
    found = compare_hosts([1.0, 1.0, 1.0], [1.0, 0.0, 1.0], ["a", "b", "b"])

    assert found.ratio is None
    assert [each.code for each in found.caveats] == ["no-log-ratio"]


@pytest.mark.parametrize("bad", [(["a"] * 3, 3), (["a", "b"], 3)])
def test_hosts_that_do_not_fit_are_refused(bad):
    hosts, count = bad
    with pytest.raises(ValueError, match="expected a host for each"):
        fit_hosts(np.zeros(count), hosts)
