import math

import numpy as np
import pytest
from scipy import stats

from pgtrial.stats.plateau import CHANCE, FEWEST, find_plateau

LIMIT = 3000
# Reads per second of a device that a control group held at 3000, in 24 seconds of a run on a machine whose hypervisor
# hardly took any CPU time, and in 24 of the next run, where it took 5 to 15 % of a CPU in most of them; and what the
# same device did without the limit.
CLEAN = (
    *(2766, 3001, 3001, 3001, 2998, 3003, 3006, 2994, 2999, 3003, 2998, 2999),
    *(2908, 3010, 3082, 2975, 3026, 3003, 3005, 2992, 3072, 2932, 3021, 2996),
)
JITTERY = (
    *(3193, 3022, 2949, 3038, 3026, 2939, 2959, 3080, 2923, 2961, 3018, 2902),
    *(3025, 3025, 2971, 3046, 2990, 2944, 3017, 3039, 2983, 3008, 3012, 3087),
)
UNLIMITED = (
    *(10440, 8370, 9757, 4720, 3344, 3375, 4066, 3119, 4317, 3030, 5251, 5756, 5239, 5074, 5457, 4589),
    *(2990, 5797, 6521, 4164, 11483, 8475, 7592, 9107, 8669, 8298, 3498, 4411, 5559, 3075),
)


def demand(rate, seconds=300, seed=1, swing=0.0):
    """Requests per second that are asked for: Poisson, around a rate that swings slowly."""
    rng = np.random.default_rng(seed)
    waves = 1 + swing * np.sin(np.arange(seconds) / 20 + rng.uniform(0, 6))
    return rng.poisson(rate * waves).astype(float)


def limited(asked, limit=LIMIT, jitter=0.003, seed=2):
    return np.minimum(asked, limit * (1 + jitter * np.random.default_rng(seed).normal(size=asked.size)))


def slow_device(seconds, rng, *, rate, spread, phi):
    """What a device gets done that is always busy, and whose speed wanders (AR(1)): Poisson around that."""
    noise = rng.normal(0, spread * math.sqrt(1 - phi**2), seconds)
    speed = np.empty(seconds)
    level = rng.normal(0, spread)
    for second in range(seconds):
        level = phi * level + noise[second]
        speed[second] = level
    return rng.poisson(rate * np.maximum(0.05, 1 + speed)).astype(float)


def stolen(rates, rng, *, share):
    """The same on a machine whose CPUs are taken away for up to half of some seconds."""
    return rates * (1 - 0.5 * rng.uniform(size=rates.size) * (rng.uniform(size=rates.size) < share))


def read_late(served, rng, *, seconds, jitter):
    """Rates from a count that is read once a second, late by an exponential time with a mean of ``jitter`` seconds.

    served : the count as a function of time.
    """
    times = np.arange(seconds + 1) + rng.uniform() + rng.exponential(jitter, seconds + 1)
    return np.diff(served(times)) / np.diff(times)


def token_bucket(*, limit, refill, speed):
    """The count of a limiter that gives its tokens every ``refill`` seconds to a load that wants more of them, at the
    speed of the device below.
    """

    def served(times):
        number, since = np.divmod(times, refill)
        return limit * refill * number + np.minimum(limit * refill, speed * since)

    return served


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


@pytest.mark.simulated
def test_free_demand_scatters_like_poisson_noise():
    found = [find_plateau(demand(3000, seed=seed)) for seed in range(200)]

    assert np.mean([one.steadiness / one.free_steadiness for one in found]) == pytest.approx(1, abs=0.05)


def test_a_limit_below_which_demand_stays_is_not_seen():
    assert not find_plateau(limited(demand(2000))).is_plateau


@pytest.mark.simulated
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("rate", [100, 3000, 30000])
def test_device_whose_speed_wanders_has_no_plateau(rate, phi):
    rng = np.random.default_rng(11)
    found = [
        find_plateau(slow_device(int(rng.integers(60, 300)), rng, rate=rate, spread=0.03, phi=phi)) for _ in range(100)
    ]

    assert sum(one.is_plateau for one in found) <= 1


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_cpu_that_is_taken_away_makes_no_plateau(share):
    rng = np.random.default_rng(12)
    found = [
        find_plateau(stolen(slow_device(120, rng, rate=5000, spread=0.02, phi=0.3), rng, share=share))
        for _ in range(100)
    ]

    assert sum(one.is_plateau for one in found) <= 1


@pytest.mark.parametrize(("refill", "least"), [(0.1, 0.9), (1.0, 0.6)])
def test_tokens_that_come_in_lumps_and_are_read_late_make_a_plateau(refill, least):
    rng = np.random.default_rng(13)
    served = token_bucket(limit=LIMIT, refill=refill, speed=4 * LIMIT)
    found = [find_plateau(read_late(served, rng, seconds=120, jitter=0.003)) for _ in range(50)]

    assert np.mean([one.is_plateau for one in found]) >= least
    assert all(one.ceiling == pytest.approx(LIMIT, rel=0.02) for one in found if one.is_plateau)


def test_tokens_whose_readings_scatter_show_over_longer_times():
    rng = np.random.default_rng(14)
    # Each second is off by what the next makes up for, by more than Poisson noise.
    moved = rng.normal(0, 45, 601)
    values = LIMIT + np.diff(moved)

    found = find_plateau(values)

    assert found.is_plateau
    assert found.width > 1
    assert found.ceiling == pytest.approx(LIMIT, rel=0.01)


def test_device_that_was_limited_is_found_and_free_it_is_not():
    together = find_plateau([*CLEAN, math.nan, *JITTERY, math.nan, *CLEAN])

    assert find_plateau(CLEAN).is_plateau
    assert together.chance < 0.01
    assert together.ceiling == pytest.approx(LIMIT, rel=0.005)
    assert not find_plateau(JITTERY).is_plateau  # 24 seconds of this say too little
    assert not find_plateau(UNLIMITED).is_plateau


@pytest.mark.simulated
def test_chance_of_what_nobody_limits_is_rarely_as_small_as_it_says():
    rng = np.random.default_rng(15)
    chances = [find_plateau(rng.poisson(rng.uniform(5, 20000), 120).astype(float)).chance for _ in range(1000)]

    assert np.mean(np.array(chances) <= 0.05) <= 0.05
    assert np.mean(np.array(chances) <= CHANCE) <= 0.003


def test_nothing_is_averaged_across_a_gap():
    # Two runs, of which each second makes up for the one before; the last one of each is left over.
    run = [2900.0, 3100.0] * 20 + [2900.0]

    found = find_plateau([*run, math.nan, *run])

    assert (found.width, found.ceiling, found.pinned_share) == (2, 3000.0, 1.0)


def test_most_of_the_time_above_it_there_is_no_ceiling():
    rng = np.random.default_rng(16)
    values = np.where(np.arange(120) % 3 == 0, 1000.0, rng.uniform(2000, 8000, 120))

    assert not find_plateau(values).is_plateau


def test_bytes_per_second_are_judged_by_their_requests():
    request = 128 * 1024
    limit = 125 * 1024**2
    asked = demand(2000) * request

    assert find_plateau(limited(asked, limit), request=request).is_plateau
    assert find_plateau(limited(asked, limit), request=request).ceiling == pytest.approx(limit, rel=0.02)
    assert not find_plateau(asked, request=request).is_plateau


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
