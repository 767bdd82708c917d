import math

import numpy as np
import pytest
from scipy import stats

from pgtrial.stats.plateau import FEWEST, find_plateau

LIMIT = 3000


def demand(rate, seconds=300, seed=1, swing=0.0):
    """Requests per second that are asked for: Poisson, around a rate that swings slowly."""
    rng = np.random.default_rng(seed)
    waves = 1 + swing * np.sin(np.arange(seconds) / 20 + rng.uniform(0, 6))
    return rng.poisson(rate * waves).astype(float)


def limited(asked, limit=LIMIT, jitter=0.003, seed=2):
    return np.minimum(asked, limit * (1 + jitter * np.random.default_rng(seed).normal(size=asked.size)))


@pytest.mark.parametrize("rate", [3300, 4000, 6000, 20000])
def test_demand_above_a_limit_is_pinned_to_it(rate):
    found = find_plateau(limited(demand(rate)))

    assert found.is_plateau
    assert found.ceiling == pytest.approx(LIMIT, rel=0.02)
    assert found.pinned_share > 0.95
    assert found.steadiness == pytest.approx(0.003, abs=0.002)
    assert found.free_steadiness == pytest.approx(1 / math.sqrt(LIMIT), rel=0.01)


def test_a_limit_that_is_reached_half_of_the_time_is_found():
    found = find_plateau(limited(demand(3000, swing=0.4, seconds=600)))

    assert found.is_plateau
    assert found.ceiling == pytest.approx(LIMIT, rel=0.02)
    assert 0.3 < found.pinned_share < 0.7


@pytest.mark.parametrize("rate", [10, 300, 3000, 30000])
@pytest.mark.parametrize("swing", [0, 0.1, 0.5])
def test_free_demand_has_no_plateau(rate, swing):
    assert not any(find_plateau(demand(rate, seed=seed, swing=swing)).is_plateau for seed in range(50))


def test_free_demand_scatters_like_poisson_noise():
    found = [find_plateau(demand(3000, seed=seed)) for seed in range(200)]

    assert np.mean([one.steadiness / one.free_steadiness for one in found]) == pytest.approx(1, abs=0.05)


def test_a_limit_below_which_demand_stays_is_not_seen():
    assert not find_plateau(limited(demand(2000))).is_plateau


def test_bytes_per_second_are_judged_by_their_requests():
    request = 128 * 1024
    limit = 125 * 1024**2
    asked = demand(2000) * request

    assert find_plateau(limited(asked, limit), request=request).is_plateau
    assert find_plateau(limited(asked, limit), request=request).ceiling == pytest.approx(limit, rel=0.02)
    assert not find_plateau(asked, request=request).is_plateau


def test_means_over_longer_times_are_judged_by_all_of_their_requests():
    means = demand(3000, 3000).reshape(-1, 10).mean(axis=1)

    assert not find_plateau(means, seconds=10).is_plateau
    assert find_plateau(means, seconds=10).free_steadiness == pytest.approx(1 / math.sqrt(30000), rel=0.02)


def test_missing_values_are_left_out():
    values = limited(demand(6000))
    gapped = np.insert(values, [5, 80], math.nan)

    assert find_plateau(gapped) == find_plateau(values)


@pytest.mark.parametrize("values", [[], [3000.0] * (FEWEST - 1), [math.nan] * 50, [0.0] * 50])
def test_without_rates_there_is_no_plateau(values):
    assert find_plateau(values) is None


def test_short_bursts_out_of_nothing_are_no_plateau():
    values = np.zeros(100)
    values[:10] = 3000

    found = find_plateau(values)

    assert (found.steadiness, found.is_plateau) == (math.inf, False)


@pytest.mark.slow
def test_of_many_free_demands_hardly_any_is_called_a_plateau():
    rng = np.random.default_rng(9)
    called = sum(
        find_plateau(demand(rng.uniform(20, 20000), int(rng.integers(30, 600)), seed)).is_plateau
        for seed in range(2000)
    )

    assert called <= stats.binom.ppf(0.9995, 2000, 0.01)
