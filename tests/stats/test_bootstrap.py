import math

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from pgtrial.stats.bootstrap import draw_weights, known_from_draws, stretch_length
from pgtrial.stats.interval import t_quantile


def autoregressive(phi, count, rng):
    shocks = rng.normal(0, math.sqrt(1 - phi**2), count)
    shocks[0] = rng.normal()  # as spread as the whole series
    return lfilter([1], [1, -phi], shocks)


@pytest.mark.parametrize("phi", [0.5, 0.7, 0.8])
def test_stretches_of_a_known_process_have_the_best_length_that_theory_gives(phi):
    # For AR(1) the sums in Politis and White (2004) are geometric: b = (6 phi² / (1 - phi²)²)^(1/3) n^(1/3) for the
    # circular bootstrap, with the constant 4/3 of the correction.
    count = 2000
    rng = np.random.default_rng([1, int(10 * phi)])
    found = [stretch_length(autoregressive(phi, count, rng)) for _ in range(80)]

    best = (6 * phi**2 / (1 - phi**2) ** 2) ** (1 / 3) * count ** (1 / 3)
    # A series of this length does not show all lags, so the estimate is somewhat too short.
    assert 0.7 * best < np.median(found) < 1.1 * best


def test_white_noise_needs_hardly_any_stretch():
    rng = np.random.default_rng(2)

    assert np.median([stretch_length(rng.normal(0, 1, 1000)) for _ in range(50)]) < 4


@pytest.mark.parametrize("series", [[5.0] * 100, [1.0, 2.0, 3.0], [7.0]])
def test_what_does_not_vary_or_is_too_short_has_stretches_of_one(series):
    assert stretch_length(series) == 1


def test_the_unit_of_a_series_does_not_matter():
    x = autoregressive(0.6, 500, np.random.default_rng(4))

    assert stretch_length(1e6 * x + 3e7) == pytest.approx(stretch_length(x))


def test_draws_hold_as_many_values_as_the_run_in_stretches():
    weights = draw_weights(10, 4, rng=np.random.default_rng(1), draws=200)

    assert weights.shape == (200, 10)
    assert (weights.sum(axis=1) == 10).all()
    assert weights.mean() == pytest.approx(1)
    # Values of a stretch are different ones, so at least four of the ten places are in every draw.
    assert ((weights > 0).sum(axis=1) >= 4).all()


def test_the_same_seed_draws_the_same():
    one, other = (draw_weights(50, 5, rng=np.random.default_rng(9), draws=20) for _ in range(2))

    assert (one == other).all()


def test_too_few_stretches_know_no_error():
    drawn = np.random.default_rng(1).normal(0, 1, 100)

    assert known_from_draws(0.0, drawn, count=90, length=10) is None
    assert known_from_draws(0.0, drawn, count=100, length=10) is not None
    assert known_from_draws(0.0, np.zeros(100), count=100, length=10) is None
    assert known_from_draws(math.nan, drawn, count=100, length=10) is None


RUNS = 300


@pytest.mark.simulated
@pytest.mark.parametrize(("phi", "count"), [(0.0, 100), (0.3, 300), (0.5, 300), (0.7, 600)])
def test_the_interval_covers_the_level_of_the_run(phi, count):
    rng = np.random.default_rng([3, int(10 * phi), count])
    covered = known_runs = 0
    for _ in range(RUNS):
        x = 100 + autoregressive(phi, count, rng)
        length = math.ceil(stretch_length(x))
        drawn = draw_weights(count, length, rng=rng, draws=200) @ x / count
        known = known_from_draws(x.mean(), drawn, count=count, length=length)
        if known is None:
            continue
        known_runs += 1
        covered += abs(known.mean - 100) <= t_quantile(0.975, known.degrees) * known.error

    # A block bootstrap is known to fall short where noise is slow; by no more than four points here.
    assert known_runs > 0.8 * RUNS
    assert covered >= stats.binom.ppf(0.001, known_runs, 0.95 - 0.04)
