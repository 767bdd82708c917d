import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.analysis.causes.limit_rules.disturbances import contrast
from pgtrial.analysis.causes.limit_thresholds import Ramp

NUMBERS = st.floats(min_value=-1e6, max_value=1e6)


def mask(*spans: tuple[int, int], seconds: int = 100) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = np.zeros(seconds, dtype=np.bool_)
    for start, end in spans:
        found[start:end] = True
    return found


def test_depth_and_loss_are_those_of_the_series() -> None:
    where = mask((10, 30))
    found = contrast([(np.where(where, 40.0, 100.0), where)])

    assert found is not None
    assert (found.depth, found.share) == pytest.approx((0.6, 0.2))
    # 20 of 100 seconds have 60 % less.
    assert found.lost == pytest.approx(0.12)
    # Of 100 shifts only that by none has as much.
    assert found.chance == pytest.approx(0.01)


def test_runs_are_held_against_their_own_usual_throughput() -> None:
    where = mask((10, 30))
    slow, fast = (np.where(where, 0.5 * usual, usual) for usual in (10.0, 1000.0))
    found = contrast([(slow, where), (fast, where)])

    assert found is not None
    assert found.depth == pytest.approx(0.5)


def test_a_beat_that_comes_again_makes_more_shifts_fit() -> None:
    where = mask((0, 10), (25, 35), (50, 60), (75, 85))
    found = contrast([(np.where(where, 40.0, 100.0), where)])

    assert found is not None
    assert found.chance == pytest.approx(0.04)


@pytest.mark.parametrize("where", [mask((0, 2)), mask((0, 95)), mask(), mask((0, 100))])
def test_too_few_seconds_of_either_kind_say_nothing(where: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
    assert contrast([(np.full(100, 7.0), where)]) is None


def test_runs_that_stood_still_or_are_not_known_say_nothing() -> None:
    where = mask((10, 30))

    assert contrast([(np.zeros(100), where), (np.full(100, np.nan), where)]) is None


def test_autocorrelated_noise_is_rarely_taken_for_an_effect() -> None:
    """AR(1) with 0.9: a test of independent seconds would find something half of the time."""
    rng = np.random.default_rng(5)
    where = mask((20, 45))
    found = 0
    for _ in range(400):
        noise = np.zeros(100)
        for second in range(1, 100):
            noise[second] = 0.9 * noise[second - 1] + rng.normal(0, 5)
        result = contrast([(200 + noise, where)])
        assert result is not None
        found += result.chance <= 0.1
    # Nominal 10 %; shifts of one run join its end to its beginning, which costs a little.
    assert found / 400 <= 0.15


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_ramp_stays_between_none_and_all(low: float, high: float, value: float) -> None:
    if low == high:
        return
    assert 0 <= Ramp(low=low, high=high).weigh(value) <= 1


@pytest.mark.parametrize(("low", "high"), [(1.0, 3.0), (3.0, 1.0)])
def test_a_ramp_goes_from_none_to_all_in_either_direction(low: float, high: float) -> None:
    ramp = Ramp(low=low, high=high)

    assert [ramp.weigh(value) for value in (low, ramp.half, high)] == [0, 0.5, 1]
    assert ramp.weigh(low - 10 * (high - low)) == 0
    assert ramp.weigh(high + 10 * (high - low)) == 1
