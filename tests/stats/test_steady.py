import math
import random
import subprocess
import sys
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.stats.steady import is_steady, steady_window


def simulate(shape, *, noise, seed, seconds=120):
    rng = random.Random(seed)
    return [1000 * shape(t + 0.5) * math.exp(rng.gauss(0, noise)) for t in range(seconds)]


def first_steady(series, **options):
    """Second at which the warm-up would end; the length of the series if never."""
    return next((n for n in range(1, len(series)) if is_steady(series[:n], **options)), len(series))


def ends(shape, *, noise, repeats=100, seconds=120, **options):
    """Sorted ends of simulated warm-ups."""
    return sorted(
        first_steady(simulate(shape, noise=noise, seed=seed, seconds=seconds), **options) for seed in range(repeats)
    )


def flat(_t):
    return 1.0


def approach(time_constant, *, start=0.5):
    return lambda t: 1 - (1 - start) * math.exp(-t / time_constant)


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.2])
def test_a_flat_load_is_steady_within_seconds_however_noisy(noise):
    found = ends(flat, noise=noise)

    assert median(found) <= 6
    assert found[94] <= 12


def test_a_cap_of_three_seconds_is_enough_with_a_window_of_three():
    found = ends(flat, noise=0.2, window=3)

    assert median(found) == 3
    assert found[90] <= 6


def test_a_slow_first_second_costs_a_second_or_two():
    found = ends(lambda t: 0.4 if t < 1 else 1.0, noise=0.1)

    assert median(found) <= 7


def test_a_visible_approach_is_waited_for():
    remaining = [1 - approach(3)(end) for end in ends(approach(3), noise=0.03)]

    assert median(remaining) < 0.03
    assert sorted(remaining)[90] < 0.06


def test_a_two_minute_warm_up_needs_a_window_to_match():
    wide = ends(approach(30), noise=0.1, window=30, seconds=240)
    remaining = [1 - approach(30)(end) for end in wide]

    assert median(remaining) < 0.06
    assert median(wide) > 50


def test_a_window_grown_with_the_measured_time_bounds_the_bias_in_noise():
    for measured in (30, 60, 180):
        time_constant = measured / 12
        found = ends(approach(time_constant), noise=0.2, window=steady_window(measured), repeats=40)
        # What is still missing at the end of the warm-up, on average over the measured time.
        biases = [(1 - approach(time_constant)(end)) * time_constant / measured for end in found]
        assert median(biases) < 0.01


def test_a_step_is_waited_for_where_the_window_reaches_it():
    found = ends(lambda t: 0.6 if t < 3 else 1.0, noise=0.05)

    # At the end of the warm-up most of the window lies behind the step.
    assert sum(end < 6 for end in found) <= 15
    assert found[95] <= 15


def test_a_slow_trend_is_not_steady_where_the_noise_shows_it():
    series = simulate(lambda t: 1 + 0.02 * t, noise=0.005, seed=2)

    assert first_steady(series[:30]) == 30


def test_a_certain_but_tiny_trend_is_steady():
    series = [1000 + t / 10 for t in range(20)]

    assert is_steady(series)
    assert not is_steady(series, tolerance=0)


def test_falling_throughput_is_not_steady_either():
    assert not is_steady([2000 * 0.9**t for t in range(8)])


def test_one_stalled_second_does_not_decide():
    assert is_steady([1000, 1010, 990, 1005, 0, 995, 1002, 998], window=8)


@pytest.mark.parametrize("series", [[], [1000] * 4, [0] * 30, [0, 0, 0, 1000, 0, 0], [math.nan] * 20])
def test_nothing_is_steady_before_it_has_begun(series):
    assert not is_steady(series)


def test_missing_seconds_are_not_counted_as_readings():
    assert not is_steady([1000, 1001, math.nan, 999, 1000])
    assert is_steady([1000, 1001, math.nan, 999, 1000, 1001, 1000] * 3)


@given(st.lists(st.floats(1, 1e6), min_size=3, max_size=40), st.floats(0.01, 100))
def test_the_unit_does_not_matter(series, factor):
    scaled = [value * factor for value in series]

    if all(
        (a < b) == (x < y) for a, x in zip(series, scaled, strict=True) for b, y in zip(series, scaled, strict=True)
    ):
        assert is_steady(series, window=3, tolerance=0) == is_steady(scaled, window=3, tolerance=0)


def test_a_window_too_small_for_a_trend_is_an_error():
    with pytest.raises(ValueError, match="at least 3"):
        is_steady([1, 2, 3], window=2)


@pytest.mark.parametrize(("measured", "window"), [(2, 3), (30, 4), (60, 8), (600, 60), (7200, 60)])
def test_window_grows_with_the_measured_time(measured, window):
    assert steady_window(measured) == window


def test_the_engine_can_import_the_rule_without_numpy_or_scipy():
    code = "import sys, pgtrial.stats.steady; print(any(m in sys.modules for m in ('numpy', 'scipy')))"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
