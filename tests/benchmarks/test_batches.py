"""Errors of means of polls: against textbook formulas, and against states that last longer than polls are apart."""

import math

import numpy as np
import pytest
from benchmarks.batches import mean_of_batches


def test_batches_of_equal_size_give_the_interval_of_their_mean() -> None:
    hits = [3.0, 5.0, 4.0, 6.0, 2.0]
    found = mean_of_batches(hits, [10.0] * 5)

    # t.ppf(0.975, 4) = 2.776445 of any table; the SD of 0.3, 0.5, 0.4, 0.6 and 0.2 is 0.158114.
    assert found.value == pytest.approx(0.4)
    assert found.half == pytest.approx(2.776445 * 0.158114 / math.sqrt(5), rel=1e-5)


def test_a_batch_with_more_polls_weighs_more() -> None:
    found = mean_of_batches([10.0, 0.0, 0.0, 0.0, 0.0], [10.0, 30.0, 30.0, 30.0, 0.0])

    assert found.value == pytest.approx(0.1)


def test_few_batches_have_no_interval_and_none_has_no_mean() -> None:
    assert math.isnan(mean_of_batches([1.0] * 4, [2.0] * 4).half)
    assert math.isnan(mean_of_batches([], []).value)


@pytest.mark.simulated
@pytest.mark.parametrize("together", [False, True])
def test_batches_hold_the_truth_where_a_binomial_error_does_not(together: bool) -> None:
    """Eight sessions in a state for 0.5 s on average, in one of ten moments; 60 s polled at random times of 100 ms."""
    rng = np.random.default_rng(20260120)
    share, held, polls, sessions, trials = 0.1, 5.0, 600, 8, 1500
    leave, enter = 1 / held, share / (1 - share) / held
    chains = 1 if together else sessions
    state = rng.random((trials, chains)) < share
    hits = np.empty((trials, polls))
    for poll in range(polls):
        draw = rng.random((trials, chains))
        state = np.where(state, draw >= leave, draw < enter)
        hits[:, poll] = state.sum(axis=1) * (sessions / chains)
    found = [mean_of_batches(each, [30.0] * 20) for each in hits.reshape(trials, 20, 30).sum(axis=2)]
    of_all = np.clip(hits.mean(axis=1) / sessions, 1e-12, 1)
    binomial = 1.96 * np.sqrt(of_all * (1 - of_all) / (polls * sessions)) * sessions
    errors = np.abs(hits.mean(axis=1) - share * sessions)

    assert np.mean([error <= each.half for error, each in zip(errors, found, strict=True)]) > 0.89
    assert np.mean(errors <= binomial) < 0.6
