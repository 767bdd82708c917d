import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import curve_fit

from pgtrial.findings.message import say
from pgtrial.stats.scalability import crossings, fit_scalability

CLIENTS = np.array([1, 2, 4, 8, 16, 32])


def law(n, one, sigma, kappa):
    return one * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def blocks(sigma, kappa, *, count=6, noise=0.02, seed=1, clients=CLIENTS):
    rng = np.random.default_rng(seed)
    speeds, own = rng.normal(0, 0.05, (count, 1)), rng.normal(0, noise, (count, clients.size))
    return law(clients, 100, sigma, kappa) * np.exp(speeds + own)


@given(st.floats(0, 0.5), st.floats(0, 0.01))
def test_a_curve_without_noise_gives_its_parameters_back(sigma, kappa):
    found = fit_scalability(CLIENTS, [law(CLIENTS, 250, sigma, kappa)] * 3)

    assert found.fits
    assert found.one.value == pytest.approx(250, rel=1e-4)
    assert found.contention.value == pytest.approx(sigma, abs=1e-5)
    assert found.coherency.value == pytest.approx(kappa, abs=1e-6)
    assert found.error < 1e-4


def test_it_is_the_least_squares_fit_of_scipy_on_logs():
    table = blocks(0.05, 0.002, noise=0.05)
    means = np.log(table).mean(axis=0)
    (one, sigma, kappa), _ = curve_fit(lambda n, *p: np.log(law(n, *p)), CLIENTS, means, p0=(100, 0.1, 0.001))

    found = fit_scalability(CLIENTS, table)

    assert found.one.value == pytest.approx(one, rel=1e-4)
    assert found.contention.value == pytest.approx(sigma, rel=1e-3)
    assert found.coherency.value == pytest.approx(kappa, rel=1e-3)
    assert found.error == pytest.approx(
        np.abs(np.expm1(means - np.log(law(CLIENTS, one, sigma, kappa)))).max(), rel=1e-2
    )


@pytest.mark.parametrize(
    ("clients", "throughput", "sigma", "kappa"),
    [
        (
            [1, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64],
            [20, 78, 130, 170, 190, 200, 210, 230, 260, 280, 310],
            (5.002e-02, 3.209e-03),
            (4.708e-06, 6.923e-05),
        ),
        (
            [1, 18, 36, 72, 108, 144, 216],
            [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2],
            (1.705e-02, 3.318e-03),
            (7.892e-05, 2.492e-05),
        ),
    ],
)
def test_published_fits_are_reproduced_within_their_errors(clients, throughput, sigma, kappa):
    # Data sets "raytracer" and "specsdm91" of the R package usl 1.8.0, with the estimates and standard errors of its
    # vignette and its page; it fits on a linear scale and takes the throughput of one for exact.
    found = fit_scalability(clients, [throughput])

    assert found.fits
    assert abs(found.contention.value - sigma[0]) < 2 * sigma[1]
    assert abs(found.coherency.value - kappa[0]) < 2 * kappa[1]
    assert (found.one.low, found.peak.high) == (None, None)


def test_peak_and_knee_follow_from_the_parameters():
    found = fit_scalability(CLIENTS, [law(CLIENTS, 100, 0.04, 0.0024)] * 2)
    fine = np.linspace(1, 60, 59001)
    throughput = law(fine, 100, 0.04, 0.0024)

    assert found.peak.value == pytest.approx(fine[throughput.argmax()], abs=0.01)
    assert found.knee == pytest.approx(throughput.max() / 100, rel=1e-4)


def test_contention_alone_has_a_knee_and_no_peak():
    found = fit_scalability(CLIENTS, [law(CLIENTS, 100, 0.1, 0)] * 2)

    assert found.coherency.value == 0
    assert found.peak is None
    assert found.knee == pytest.approx(10, rel=1e-4)


def test_perfect_scaling_has_neither():
    found = fit_scalability(CLIENTS, [100.0 * CLIENTS] * 2)

    assert (found.contention.value, found.coherency.value) == (0, 0)
    assert (found.peak, found.knee) == (None, None)


def test_where_coherency_may_be_zero_the_peak_has_no_upper_end():
    found = fit_scalability(CLIENTS, blocks(0.05, 0.0001, noise=0.05, seed=2))

    assert found.coherency.low == 0
    if found.peak is not None:
        assert found.peak.high is None


def test_a_slow_block_bends_no_curve():
    table = blocks(0.05, 0.002)
    table[2] /= 3
    found, without = fit_scalability(CLIENTS, table), fit_scalability(CLIENTS, blocks(0.05, 0.002))

    assert found.contention.value == pytest.approx(without.contention.value, rel=1e-4)
    assert found.contention.high == pytest.approx(without.contention.high, rel=1e-3)


def test_missing_observations_and_levels_are_left_out():
    table = [*(law(CLIENTS, speed, 0.05, 0.002) for speed in (100.0, 130.0, 60.0))]
    table = np.array(table)
    table[0, 5] = table[1, 0] = math.nan
    table[:, 2] = math.nan

    found = fit_scalability(CLIENTS, table)

    assert found.contention.value == pytest.approx(0.05, abs=1e-4)
    assert found.coherency.value == pytest.approx(0.002, abs=1e-5)


@pytest.mark.parametrize(
    ("clients", "throughput", "reason"),
    [
        ([1, 2, 4], [[100.0, 190, 350]], "3 load levels are too few"),
        ([1, 2, 4, 8], [[100.0, 190, math.nan, 350]], "3 load levels are too few"),
        ([], [[]], "0 load levels are too few"),
        ([1, 2, 4, 8], [[100.0, 0, 350, 500]], "zero has no logarithm"),
    ],
)
def test_what_cannot_be_fitted_says_why(clients, throughput, reason):
    found = fit_scalability(clients, throughput)

    assert not found.fits
    assert reason in say(found.reason)
    assert found.one is None


def test_throughput_that_grows_faster_than_clients_does_not_fit():
    found = fit_scalability([1, 2, 4, 8, 16], [[100.0, 260, 700, 1500, 2200]] * 2)

    assert "grows faster" in say(found.reason)


def test_a_curve_that_falls_off_a_cliff_does_not_fit():
    found = fit_scalability(CLIENTS, [[100.0, 200, 400, 800, 1600, 300]] * 2)

    assert "% off at" in say(found.reason)
    assert found.error > 0.1


def test_fewer_than_one_client_is_an_error():
    with pytest.raises(ValueError, match="at least one client"):
        fit_scalability([0, 1, 2, 3], [[1.0, 2, 3, 4]])


def coverage(sigma, kappa, count, *, experiments, noise=0.03):
    hits = np.zeros(4)
    peak = math.sqrt((1 - sigma) / kappa) if kappa else None
    for seed in range(experiments):
        found = fit_scalability(CLIENTS, blocks(sigma, kappa, count=count, noise=noise, seed=seed))
        truths = (100, sigma, kappa, peak)
        for i, (part, truth) in enumerate(
            zip((found.one, found.contention, found.coherency, found.peak), truths, strict=True)
        ):
            hits[i] += truth is None or part is None or part.side(truth) == 0
    return hits / experiments


@pytest.mark.simulated
def test_intervals_contain_the_truth():
    assert min(coverage(0.05, 0.002, 6, experiments=60)) >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("count", [4, 8])
@pytest.mark.parametrize(("sigma", "kappa"), [(0.05, 0.002), (0.2, 0.0), (0.0, 0.001), (0.02, 0.0002), (0.0, 0.0)])
def test_intervals_contain_the_truth_as_often_as_promised(sigma, kappa, count):
    least = stats.binom.ppf(0.0005, 500, 0.95) / 500

    assert min(coverage(sigma, kappa, count, experiments=500)) >= least


def test_curves_cross_where_the_log_ratio_is_zero():
    (found,) = crossings([1, 4, 16], [math.log(0.8), math.log(1 / 0.8), math.log(1.5)])

    assert found.clients == pytest.approx(2)  # half-way between 1 and 4 on the log scale
    assert (found.lower, found.upper, found.is_rising) == (0, 1, True)


def test_crossings_of_two_laws_are_found_between_the_levels():
    one, other = law(CLIENTS, 100, 0.01, 0.004), law(CLIENTS, 90, 0.05, 0.0005)
    (found,) = crossings(CLIENTS, np.log(one / other))
    fine = np.linspace(1, 32, 31001)
    difference = law(fine, 100, 0.01, 0.004) - law(fine, 90, 0.05, 0.0005)

    assert found.clients == pytest.approx(fine[np.flatnonzero(np.diff(np.sign(difference)))[0]], rel=0.1)
    assert not found.is_rising


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([0.1, 0.2, 0.3, 0.4], []),
        ([0.1, 0.0, 0.3, 0.4], []),
        ([0.1, 0.0, -0.3, -0.4], [2]),
        ([0.1, math.nan, -0.1, -0.4], [2]),
        ([0.0, 0.0, -0.1, -0.4], []),
        ([0.1, -0.1, 0.1, -0.1], [2**0.5, 8**0.5, 32**0.5]),
        ([], []),
    ],
)
def test_only_a_change_of_sign_is_a_crossing(ratios, expected):
    assert [one.clients for one in crossings([1, 2, 4, 8], ratios)] == pytest.approx(expected)
