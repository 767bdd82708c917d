"""What an arm does in few of its runs: no method sees it where none had it, and none is fooled where one had."""

import math
import random

import numpy as np
import pytest

from calibration.trials import compare, conclude, most, observe, plan_trial
from pgtrial.model.verdict import Verdict

EXPERIMENTS, MARGIN = 500, 0.03
SHARE, DEPTH, SD = 0.1, 0.5, 0.003  # of b's runs that stall, by so much (log speed), and the noise of the others


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [6, 12])
def test_an_arm_that_stalls_at_times_passes_only_where_no_run_of_it_stalled(blocks: int) -> None:
    seeds, unseen, passed, fooled = random.Random(20), 0, 0, 0
    for _ in range(EXPERIMENTS):
        evidence = plan_trial(seeds, blocks=blocks, margin=MARGIN)
        rng = np.random.default_rng(evidence.seed)
        is_b = np.array([slot.arm == "b" for slot in evidence.slots])
        stalls = is_b & (rng.random(is_b.size) < SHARE)
        # On average over all of its runs b is worse by exactly the margin.
        own = DEPTH * SHARE - math.log1p(MARGIN)
        speeds = rng.normal(0, SD, is_b.size) + own * is_b - DEPTH * stalls
        values = observe(evidence, dict(enumerate(speeds, start=1)))
        is_supported = conclude(evidence, compare(evidence, values)) is Verdict.SUPPORTED
        unseen += not stalls.any()
        passed += is_supported and not stalls.any()
        fooled += is_supported and bool(stalls.any())
    print(f"{blocks} blocks: without a stall {unseen}, of which supported {passed}; with one supported {fooled}")

    assert abs(unseen / EXPERIMENTS - (1 - SHARE) ** blocks) < 0.1
    assert passed > 0.8 * unseen
    assert fooled <= most(EXPERIMENTS, 0.025)


@pytest.mark.slow
@pytest.mark.parametrize(("blocks", "most_often"), [(6, 0.09), (12, 0.085)])
def test_an_arm_that_is_slowed_by_little_mostly_and_by_much_at_times_passes_too_often(
    blocks: int, most_often: float
) -> None:
    """As docs/statistics.md says; where both arms are slowed so, their ratio is not skewed, and that does no harm."""
    seeds, passed = random.Random(21), {True: 0, False: 0}
    for _ in range(EXPERIMENTS):
        evidence = plan_trial(seeds, blocks=blocks, margin=MARGIN)
        rng = np.random.default_rng(evidence.seed)
        is_b = np.array([slot.arm == "b" for slot in evidence.slots])
        slowed = 0.03 * (rng.exponential(size=is_b.size) - 1)
        usual = rng.normal(0, SD, is_b.size) - math.log1p(MARGIN) * is_b
        for is_both in (True, False):
            values = observe(evidence, dict(enumerate(usual - slowed * (is_b | is_both), start=1)))
            passed[is_both] += conclude(evidence, compare(evidence, values)) is Verdict.SUPPORTED
    print(f"{blocks} blocks: b alone {passed[False]}, both {passed[True]} of {EXPERIMENTS}")

    assert most(EXPERIMENTS, 0.025) < passed[False] <= most(EXPERIMENTS, most_often)
    assert passed[True] <= most(EXPERIMENTS, 0.025)
