import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.stats.paired import EXACT_BLOCKS, RESAMPLES, sign_flip_p

# Differences in height of cross- and self-fertilised maize, eighths of an inch: Darwin (1876), in Fisher, "The Design
# of Experiments" (1935), section 17. Section 21: 1726 of the 32768 patterns have a sum at least as large either way.
DARWIN = np.array([49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48], dtype=float)


def test_fishers_count_for_darwins_maize():
    assert sign_flip_p(DARWIN) == 1726 / 32768


@given(st.lists(st.integers(min_value=-20, max_value=20), min_size=1, max_size=10))
def test_count_equals_that_over_all_patterns_also_with_ties_and_zeros(values):
    observed = abs(sum(values))
    patterns = itertools.product((-1, 1), repeat=len(values))
    extreme = sum(
        abs(sum(sign * value for sign, value in zip(signs, values, strict=True))) >= observed for signs in patterns
    )

    # Tenths have no exact binary form, so sums that are equal differ by rounding.
    assert sign_flip_p(np.array(values) / 10) == extreme / 2 ** len(values)


def test_smallest_p_is_both_patterns_of_one_sign():
    assert sign_flip_p(np.arange(1.0, 9)) == 2 / 2**8


def test_random_patterns_agree_with_all_patterns():
    differences = np.random.default_rng(2).normal(0.35, 1, EXACT_BLOCKS)
    # Two blocks with no difference at all change no sum, but take the test beyond its exact range.
    exact, random = sign_flip_p(differences), sign_flip_p(np.append(differences, [0, 0]))

    assert 0.01 < exact < 0.5
    assert random == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / RESAMPLES))


def test_random_patterns_are_never_impossible_and_always_the_same():
    differences = np.arange(1.0, 60)

    assert sign_flip_p(differences) == 1 / (RESAMPLES + 1)
    noisy = np.random.default_rng(3).normal(0.2, 1, 50)
    assert sign_flip_p(noisy) == sign_flip_p(noisy)
