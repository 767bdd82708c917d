"""Elasticities against least squares by hand, a closed network by exact mean value analysis, and their coverage."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pgtrial.design.limits import two_level_design
from pgtrial.findings.record import Estimate
from pgtrial.stats.elasticity import fit_elasticities, predict_log_ratio
from support.closed_network import mean_values


def _design(resources: int) -> NDArray[np.float64]:
    return np.array(two_level_design(resources), dtype=np.float64)


def test_throughput_without_noise_gives_its_exponents() -> None:
    log_times = _design(4) * math.log(1.5)
    truth = np.array([0.6, 0.3, 0.1, 0.0])
    fitted = fit_elasticities(log_times, np.tile(7.0 - log_times @ truth, (3, 1)))
    assert [one.value for one in fitted.each] == pytest.approx(truth)
    assert fitted.total.value == pytest.approx(1.0)
    assert fitted.each[0].low is None
    assert fitted.misfit_p is None


def test_known_numbers_give_the_least_squares_of_a_textbook() -> None:
    """Two resources in two blocks, worked out by hand: the slopes are half the differences of means per step."""
    step = math.log(2)
    log_times = _design(2) * step  # (0, 0), (0, 1), (1, 0), (1, 1)
    logs = np.array([[1.0, 0.8, 0.5, 0.3], [1.2, 0.9, 0.7, 0.4]])
    fitted = fit_elasticities(log_times, logs)
    first = ((1.1 + 0.85) / 2 - (0.6 + 0.35) / 2) / step
    second = ((1.1 + 0.6) / 2 - (0.85 + 0.35) / 2) / step
    assert [one.value for one in fitted.each] == pytest.approx([first, second])
    # Block means 0.65 and 0.8; what is left of blocks by points is ±0.025 at each of the eight, with 3 degrees.
    variance = 8 * 0.025**2 / 3
    error = math.sqrt(variance / 2) / step
    assert fitted.degrees == 3
    assert fitted.each[0].high is not None
    assert fitted.each[0].high - first == pytest.approx(stats.t.ppf(1 - 0.05 / 4, 3) * error)
    assert fitted.total.high is not None
    assert fitted.total.high - fitted.total.value == pytest.approx(stats.t.ppf(0.975, 3) * error * math.sqrt(2))


@pytest.mark.parametrize("customers", [1, 4, 8])
def test_closed_network_has_the_queue_that_one_more_customer_adds_as_its_elasticity(customers: int) -> None:
    """Exact MVA: the elasticity is Q(N) - Q(N - 1), and with the delay of thinking they add up to 1."""
    demands = np.array([0.9e-3, 0.5e-3, 0.1e-3])
    _, more = mean_values(demands, customers)
    _, less = mean_values(demands, customers - 1)
    expected = more - less
    step = 1.001
    log_times = _design(3) * math.log(step)
    throughput = [mean_values(demands * np.exp(row), customers)[0] for row in log_times]
    fitted = fit_elasticities(log_times, np.log(np.array([throughput, throughput])))
    assert [one.value for one in fitted.each] == pytest.approx(expected, abs=1e-3)
    assert fitted.total.value == pytest.approx(1.0, abs=1e-6)


def test_what_is_not_slowed_is_missing_in_the_sum() -> None:
    log_times = _design(2) * math.log(1.5)
    demands = np.array([1e-3, 0.4e-3])
    throughput = [mean_values(demands * np.exp(row), 4, think=4e-3)[0] for row in log_times]
    fitted = fit_elasticities(log_times, np.log(np.array([throughput, throughput])))
    assert 0.2 < fitted.total.value < 0.8


def test_kink_is_told_as_a_misfit() -> None:
    """Throughput that follows the slower of two resources alone is no product of powers."""
    rng = np.random.default_rng(3)
    log_times = _design(2) * math.log(1.5)
    logs = -log_times.max(axis=1) + rng.normal(0, 0.01, (6, 4))
    fitted = fit_elasticities(log_times, logs)
    assert fitted.misfit_p is not None
    assert fitted.misfit_p < 0.001


@pytest.mark.simulated
def test_bend_of_one_time_alone_is_not_told() -> None:
    """A limit that is short only from 1.2 times on: two lengths of a time show its mean, as docs/causes.md says."""
    rng, runs, told = np.random.default_rng(11), 1000, 0
    log_times = _design(4) * math.log(1.5)
    times = np.exp(log_times)
    logs = -np.log(0.6 * times[:, 0] + 0.4 * np.maximum(1, times[:, 3] / 1.2))
    for _ in range(runs):
        fitted = fit_elasticities(log_times, logs + rng.normal(0, 0.05, (6, 8)))
        told += fitted.misfit_p is not None and fitted.misfit_p < 0.05
    alone = fit_elasticities(log_times, np.array([logs, logs])).each[3]
    assert alone.value == pytest.approx(0.21, abs=0.01)
    assert told <= 0.15 * runs


def test_points_that_do_not_tell_resources_apart_are_refused() -> None:
    both = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match="apart"):
        fit_elasticities(both, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="points"):
        fit_elasticities(both, np.zeros((2, 4)))


def test_one_block_has_no_interval() -> None:
    log_times = _design(2) * math.log(1.5)
    fitted = fit_elasticities(log_times, np.array([[0.0, -0.1, -0.2, -0.4]]))
    assert fitted.total.high is None
    assert fitted.lead_p is None


def test_one_resource_leads_nobody() -> None:
    log_times = _design(1) * math.log(1.5)
    fitted = fit_elasticities(log_times, np.array([[0.0, -0.4], [0.1, -0.2]]))
    assert fitted.lead_p is None
    assert fitted.misfit_p is None


@pytest.mark.simulated
def test_intervals_cover_together() -> None:
    rng = np.random.default_rng(20261124)
    log_times = _design(4) * math.log(1.5)
    truth = np.array([0.4, 0.4, 0.1, 0.1])
    runs, covered, sums = 2000, 0, 0
    for _ in range(runs):
        blocks = rng.normal(0, 0.3, (6, 1))
        fitted = fit_elasticities(log_times, blocks - log_times @ truth + rng.normal(0, 0.05, (6, 8)))
        covered += all(one.side(t) == 0 for one, t in zip(fitted.each, truth, strict=True))
        sums += fitted.total.side(1) == 0
    assert covered >= stats.binom.ppf(0.001, runs, 0.95)
    assert stats.binom.ppf(0.001, runs, 0.95) <= sums <= stats.binom.ppf(0.999, runs, 0.95)


@pytest.mark.simulated
@pytest.mark.parametrize("truth", [(0.5, 0.5), (0.4, 0.4, 0.2), (0.25, 0.25, 0.25, 0.25), (0.4, 0.4, 0.1, 0.1)])
def test_a_false_lead_is_rare(truth: tuple[float, ...]) -> None:
    """Of two that are alike, either may come out as the largest: with two resources that is no pair chosen before."""
    rng, runs, leads = np.random.default_rng(20261201), 1500, 0
    log_times = _design(len(truth)) * math.log(1.5)
    for _ in range(runs):
        fitted = fit_elasticities(log_times, -log_times @ truth + rng.normal(0, 0.05, (6, len(log_times))))
        leads += fitted.lead_p is not None and fitted.lead_p < 0.05
    assert leads <= stats.binom.ppf(0.999, runs, 0.05)


def _serial(log_times: NDArray[np.float64], shares: list[float]) -> NDArray[np.float64]:
    """Log throughput of one client, whose times follow each other."""
    return -np.log(1 - sum(shares) + np.exp(log_times) @ np.array(shares))


def test_prediction_of_times_one_after_the_other_is_their_sum() -> None:
    """Also where they are longer at first than the unit of their logs, and where a part of the time was not varied."""
    log_times = _design(2) * math.log(1.5)
    logs = np.tile(_serial(log_times, [0.5, 0.3]), (2, 1))
    found = predict_log_ratio(log_times + 3.0, logs + 7.0, np.log([0.5, 2.0]), confidence=0.9)
    assert found.value == pytest.approx(-math.log(0.2 + 0.25 + 0.6))
    assert found.low is None


def test_prediction_holds_times_that_multiply_that_add_up_and_that_hide() -> None:
    """Of half of a time whose elasticity is a half in the middle of the step, next to no noise left."""
    rng = np.random.default_rng(5)
    log_times = _design(1) * math.log(1.5)
    noise = rng.normal(0, 1e-5, (6, 2))
    for power in (1e-9, 1.0, 4.0):
        logs = -np.log(0.5 + 0.5 * np.exp(power * log_times[:, 0])) / power
        truth = -math.log(0.5 + 0.5 * 0.5**power) / power
        found = predict_log_ratio(log_times, logs + noise, np.log([0.5]), confidence=0.9)
        assert found.low is not None
        assert found.high is not None
        assert found.low - 1e-4 < truth < found.high + 1e-4


def test_no_change_of_a_time_changes_throughput_by_a_larger_factor() -> None:
    """Throughput that follows one time more than wholly, by noise; memory has no such bound."""
    log_times = _design(1) * math.log(1.5)
    logs = -1.4 * log_times[:, 0] + np.array([[0, 0.01], [0.01, 0], [0, 0.0]])
    shorter = predict_log_ratio(log_times, logs, np.log([0.5]), confidence=0.9)
    memory = predict_log_ratio(log_times, logs, np.log([0.5]), confidence=0.9, are_times=np.array([False]))
    assert shorter.high is not None
    assert memory.high is not None
    assert shorter.high < math.log(2) + 0.05
    assert memory.high > 1.3 * math.log(2)


@pytest.mark.parametrize(("factor", "bound"), [(2.0, -math.log(2)), (0.5, math.log(2))])
def test_prediction_lies_within_its_own_interval(factor: float, bound: float) -> None:
    """Also where noise lets throughput follow a time more than wholly, and where there is no noise at all."""
    rng = np.random.default_rng(13)
    log_times = _design(2) * math.log(1.3)
    change = np.array([math.log(factor), 0.0])
    for _ in range(50):
        logs = -log_times[:, 0] + rng.normal(0, 0.05, (5, 4))
        found = predict_log_ratio(log_times, logs, change, confidence=0.9)
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.value < found.high
        assert abs(found.value) <= abs(bound) + 1e-12
    alone = predict_log_ratio(log_times, -1.4 * log_times[:, :1].T, change, confidence=0.9)
    assert alone.value == pytest.approx(bound)
    assert alone.low is None


def test_points_that_do_not_tell_resources_apart_predict_nothing() -> None:
    with pytest.raises(ValueError, match="apart"):
        predict_log_ratio(np.array([[0.0, 0.0], [1.0, 1.0]]), np.zeros((2, 2)), np.zeros(2), confidence=0.9)


def _half(one: Estimate) -> float:
    assert one.low is not None
    assert one.high is not None
    return (one.high - one.low) / 2


def test_sum_and_lead_are_of_times_alone() -> None:
    """By an independent fit: what is no time has its own slope, and sum, error and lead are those of the others."""
    rng = np.random.default_rng(3)
    log_times = _design(3) * math.log(1.5)
    logs = -log_times @ np.array([0.3, 0.7, 0.9]) + rng.normal(0, 0.2, (6, 8))
    fitted = fit_elasticities(log_times, logs, are_times=np.array([True, True, False]))
    design = np.hstack([np.ones((48, 1)), np.tile(log_times, (6, 1))])
    slopes = -np.linalg.lstsq(design, (logs - logs.mean(axis=1, keepdims=True)).ravel(), rcond=None)[0][1:]
    assert [one.value for one in fitted.each] == pytest.approx(slopes)
    assert fitted.total.value == pytest.approx(slopes[:2].sum())
    # The columns are orthogonal, so the error of the sum of two is that of one times the root of 2.
    half = _half(fitted.each[0]) / stats.t.ppf(1 - 0.05 / 6, fitted.degrees) * math.sqrt(2)
    assert _half(fitted.total) == pytest.approx(half * stats.t.ppf(0.975, fitted.degrees))
    error = half / math.sqrt(2)
    lead = (slopes[1] - slopes[0]) / (error * math.sqrt(2))
    assert fitted.lead_p == pytest.approx(2 * stats.t.sf(lead, fitted.degrees))
