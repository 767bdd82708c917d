"""Combined experiments against other implementations, and what the intervals cover where errors are estimated."""

import math

import numpy as np
import pytest
from scipy import stats

from pgtrial.stats.meta import combine


def draw_studies(rng, *, count, blocks, tau, uneven=False):
    """Effects, errors and degrees of freedom of experiments around 0.1; a block's log ratio has an SD of 5 %.

    Where they are ``uneven``, that SD differs by a factor of 2.2 from experiment to experiment.
    """
    sd = 0.05 * np.exp(rng.normal(0, 0.8, (count, 1))) if uneven else 0.05
    ratios = 0.1 + rng.normal(0, tau, (count, 1)) + sd * rng.normal(size=(count, blocks))
    return ratios.mean(axis=1), ratios.std(axis=1, ddof=1) / math.sqrt(blocks), np.full(count, blocks - 1.0)


def test_another_implementation_finds_the_same_mean():
    rng = np.random.default_rng(5)
    for count in (2, 3, 6, 12):
        effects, errors, degrees = draw_studies(rng, count=count, blocks=6, tau=0.02, uneven=True)

        found = combine(effects, errors, degrees)
        other = stats.ttest_1samp(effects, 0.0)

        assert found.mean == pytest.approx(effects.mean())
        assert found.p_value == pytest.approx(other.pvalue)
        low, high = other.confidence_interval(0.95)
        assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
        assert found.error == pytest.approx(stats.sem(effects))


def test_equal_errors_make_it_an_analysis_of_variance():
    # Five experiments of six blocks; with equal variances in all of them F is the usual one, with 4 and 25 degrees.
    rng = np.random.default_rng(6)
    blocks = rng.normal(size=(5, 6))
    blocks = (blocks - blocks.mean(axis=1, keepdims=True)) / blocks.std(axis=1, ddof=1, keepdims=True)
    blocks = 0.05 * blocks + rng.normal(0.1, 0.03, (5, 1))

    found = combine(blocks.mean(axis=1), blocks.std(axis=1, ddof=1) / math.sqrt(6), [5] * 5)
    other = stats.f_oneway(*blocks)

    assert found.f == pytest.approx(other.statistic)
    assert found.f_p == pytest.approx(other.pvalue)


def test_uneven_errors_are_those_of_brown_and_forsythe():
    from statsmodels.stats.oneway import anova_oneway  # takes a second to load, in every process of the tests

    rng = np.random.default_rng(7)
    blocks = rng.normal(0, [[0.01], [0.02], [0.05], [0.2]], (4, 8)) + rng.normal(0, 0.02, (4, 1))

    found = combine(blocks.mean(axis=1), blocks.std(axis=1, ddof=1) / math.sqrt(8), [7] * 4)
    other = anova_oneway(list(blocks), use_var="bf")  # with the degrees of freedom of Mehrotra, which are Box's

    assert found.f == pytest.approx(other.statistic)
    assert found.f_p == pytest.approx(other.pvalue)


def test_heterogeneity_by_hand():
    found = combine([0.1, 0.2, 0.6], [0.1, 0.1, 0.1], [5, 5, 5])

    # The variance of the effects is 0.07, that of their errors 0.01.
    assert found.f == pytest.approx(7)
    assert found.tau == pytest.approx(math.sqrt(0.06))
    assert found.i2 == pytest.approx(6 / 7)
    half = stats.t.ppf(0.975, 2) * math.sqrt(0.07 * (1 + 1 / 3))
    assert found.prediction is not None
    assert found.prediction.high == pytest.approx(0.3 + half)
    assert combine([0.1, 0.2], [0.02, 0.03], [5, 5]).prediction is None


def test_the_same_effects_take_their_error_from_the_experiments():
    found = combine([0.1, 0.1, 0.1], [0.05, 0.05, 0.05], [5, 5, 5])

    assert found.tau == found.i2 == 0
    assert found.error == pytest.approx(0.05 / math.sqrt(3))


def test_a_shift_of_all_effects_shifts_the_mean_and_nothing_else():
    studies = draw_studies(np.random.default_rng(4), count=6, blocks=6, tau=0.05)
    one, other = combine(*studies), combine(studies[0] + 3, *studies[1:])

    assert other.mean == pytest.approx(one.mean + 3)
    assert other.tau == pytest.approx(one.tau)
    assert other.f == pytest.approx(one.f)


@pytest.mark.parametrize(
    ("effects", "errors", "degrees"),
    [
        ([0.1], [0.1], [5]),
        ([0.1, 0.2], [0.1], [5, 5]),
        ([0.1, 0.2], [0.1, 0.0], [5, 5]),
        ([0.1, math.nan], [0.1, 0.1], [5, 5]),
        ([0.1, 0.2], [0.1, 0.1], [5, 0]),
        ([0.1, 0.2], [0.1, 0.1], [5]),
    ],
)
def test_what_cannot_be_combined_is_refused(effects, errors, degrees):
    with pytest.raises(ValueError, match="expected"):
        combine(effects, errors, degrees)


def test_the_mean_of_these_experiments_is_that_of_welch():
    # Two experiments: half the sum of two means, which is Welch's difference with the second one's sign turned.
    rng = np.random.default_rng(8)
    first, second = rng.normal(0.1, 0.05, 6), rng.normal(0.12, 0.1, 9)
    errors = [stats.sem(first), stats.sem(second)]

    found = combine([first.mean(), second.mean()], errors, [5, 8])
    low, high = stats.ttest_ind(first, -second, equal_var=False).confidence_interval(0.95)

    assert (found.of_these.low, found.of_these.high) == pytest.approx((low / 2, high / 2))
    assert found.of_these.high - found.of_these.low < (found.interval.high - found.interval.low) or found.f < 1


@pytest.mark.simulated
@pytest.mark.parametrize(("count", "blocks", "tau"), [(2, 6, 0.0), (2, 6, 0.05), (3, 12, 0.02)])
def test_the_mean_of_these_experiments_is_covered_whatever_others_show(count, blocks, tau):
    rng, covered = np.random.default_rng([9, count, blocks]), 0
    for _ in range(EXPERIMENTS):
        true = 0.1 + rng.normal(0, tau, (count, 1))
        ratios = true + 0.05 * rng.normal(size=(count, blocks))
        errors = ratios.std(axis=1, ddof=1) / math.sqrt(blocks)
        found = combine(ratios.mean(axis=1), errors, np.full(count, blocks - 1.0))
        covered += found.of_these.low <= true.mean() <= found.of_these.high

    assert stats.binom.ppf(0.001, EXPERIMENTS, 0.95) <= covered


EXPERIMENTS = 1000


@pytest.mark.simulated
@pytest.mark.parametrize(
    ("count", "blocks", "tau", "uneven"),
    [
        (2, 6, 0.0, False),
        (3, 6, 0.02, False),
        (8, 3, 0.0, False),  # covered in 89.3 % while weights were by estimated errors
        (8, 6, 0.02, False),
        (32, 6, 0.0, False),  # and this in 91.5 %
        (5, 6, 0.0, True),
        (16, 6, 0.02, True),
    ],
)
def test_the_intervals_cover_as_often_as_they_promise(count, blocks, tau, uneven):
    rng = np.random.default_rng([7, count, blocks, int(1000 * tau)])
    mean = following = alarms = 0
    for _ in range(EXPERIMENTS):
        found = combine(*draw_studies(rng, count=count, blocks=blocks, tau=tau, uneven=uneven))
        mean += found.interval.low <= 0.1 <= found.interval.high
        alarms += found.f_p < 0.05
        if found.prediction is not None:
            following += found.prediction.low <= 0.1 + rng.normal(0, tau) <= found.prediction.high

    fewest = stats.binom.ppf(0.001, EXPERIMENTS, 0.95)
    assert mean >= fewest
    assert following >= fewest or count == 2
    assert alarms <= stats.binom.ppf(0.999, EXPERIMENTS, 0.05) or tau > 0
