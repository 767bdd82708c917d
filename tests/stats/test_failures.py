import math
import random

import numpy as np
import pytest
from scipy import stats

from pgtrial.design.plan import plan_schedule
from pgtrial.model.arm import Arm, Role
from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT
from pgtrial.model.verdict import Verdict
from pgtrial.stats.equivalence import judge
from pgtrial.stats.failures import Attempts, bound_failures, excess_share, fails_more, failure_p, interrupted_share
from pgtrial.stats.paired import compare_blocks

ARMS = (Arm(name="a", role=Role.CONTROL), Arm(name="b", role=Role.CANDIDATE))
SD = 0.05  # of the machine's state, in logs
MARGIN = 0.05


def simulate(seed, blocks, *, correlation=0.0, fails_below=-0.5):
    """An experiment whose arm b is worse by exactly the margin, and fails where the machine is slow; repeated at once.

    Through the product's own schedule: the comparison, its log ratios, and the attempts of both arms.
    """
    rng = np.random.default_rng(seed)
    slots = plan_schedule(ARMS, blocks=blocks, seed=random.Random(seed).randrange(2**31))
    state, made, values = rng.normal(), {"a": 0, "b": 0}, {"a": np.empty(blocks), "b": np.empty(blocks)}
    for slot in slots:
        while True:
            state = correlation * state + math.sqrt(1 - correlation**2) * rng.normal()
            made[slot.arm] += 1
            if slot.arm == "a" or state > fails_below:
                break
        values[slot.arm][slot.block - 1] = math.exp(SD * state - (math.log1p(MARGIN) if slot.arm == "b" else 0))
    after = np.array([slot.position == 2 for slot in slots if slot.arm == "b"])
    comparison = compare_blocks(values["a"], values["b"], after=after)
    logs = np.log(values["b"] / values["a"]) - np.where(after, comparison.position, -comparison.position)
    return comparison, logs, [Attempts(made=made[arm], failed=made[arm] - blocks) for arm in "ab"]


def is_supported(comparison):
    bounds = CURRENT.log_bounds(MARGIN)
    return judge(comparison, expect="not-worse", bounds=bounds, better=Better.HIGHER) is Verdict.SUPPORTED


@pytest.mark.parametrize("correlation", [0.0, 0.5])
@pytest.mark.parametrize("blocks", [6, 12, 40])
def test_an_arm_that_fails_where_it_would_be_slow_is_not_called_as_good(blocks, correlation):
    plain = bounded = 0
    for seed in range(1000):
        comparison, logs, attempts = simulate(seed, blocks, correlation=correlation)
        plain += is_supported(comparison)
        bounded += is_supported(bound_failures(comparison, logs, share=excess_share(*attempts)))

    if correlation == 0.0:
        assert plain > 60  # the fault: nominal are 25
    # Nominal are 25; of six blocks it is 44, with failures that nothing connects.
    assert bounded <= stats.binom.ppf(0.9999, 1000, 0.044 if blocks == 6 else 0.025)


def test_an_arm_that_died_in_twelve_of_eighteen_attempts_is_bounded_by_almost_nothing():
    values = np.log(np.array([1.2, 1.21, 1.19, 1.2, 1.22, 1.18]))
    comparison = compare_blocks(np.ones(6), np.exp(values))
    share = excess_share(Attempts(made=6, failed=0), Attempts(made=18, failed=12))

    assert share == pytest.approx(14 / 20)
    found = bound_failures(comparison, values, share=share)
    # What is left is less than two blocks of six: the worst ones, or the best ones.
    lowest = (np.sort(values)[0] + 0.8 * np.sort(values)[1]) / 1.8
    assert found.low == pytest.approx(comparison.low * math.exp(lowest - values.mean()))
    assert found.low < comparison.low < comparison.high < found.high


def test_the_p_value_is_that_of_fishers_table():
    # Fisher's tea tasting: three of four against one of four.
    assert failure_p(Attempts(made=4, failed=1), Attempts(made=4, failed=3)) == pytest.approx(0.4857, abs=1e-4)


@pytest.mark.parametrize(
    ("control", "treated", "weighs_lone", "decides"),
    [
        (0, 2, True, True),
        (2, 0, True, True),
        (0, 2, False, False),
        (0, 1, True, False),
        (1, 3, True, False),  # what fails in both arms fails by chance, too
        (0, 3, False, True),
        (0, 0, True, False),
    ],
)
def test_two_failures_of_an_arm_decide_where_the_other_has_none(control, treated, weighs_lone, decides):
    arms = [Attempts(made=12 + failed, failed=failed) for failed in (control, treated)]

    assert fails_more(*arms, weighs_lone=weighs_lone) is decides


def test_equally_many_failures_change_nothing():
    comparison = compare_blocks(np.ones(6), np.exp(np.linspace(0.1, 0.2, 6)))
    share = excess_share(Attempts(made=8, failed=2), Attempts(made=8, failed=2))

    assert share == 0
    assert bound_failures(comparison, np.linspace(0.1, 0.2, 6), share=share) == comparison


@pytest.mark.parametrize(
    ("interrupted", "blocks", "share"),
    [(0, 6, 0.0), (1, 6, 1 / 3), (3, 6, 1.0), (9, 6, 1.0), (1, 40, 0.05), (1, 0, 1.0)],
)
def test_each_interruption_counts_as_two_blocks_that_are_missing(interrupted, blocks, share):
    assert interrupted_share(interrupted, blocks) == pytest.approx(share)


def test_where_everything_may_be_missing_nothing_is_known():
    comparison = compare_blocks(np.ones(6), np.exp(np.linspace(0.1, 0.2, 6)))
    found = bound_failures(comparison, np.linspace(0.1, 0.2, 6), share=1.0)

    assert (found.low, found.high) == (None, None)
    assert excess_share(Attempts(made=6, failed=6), Attempts(made=6, failed=0)) == 1
