"""Defect 8: the number of blocks still needed took the estimate for the truth, and named one on the bound."""

import random

import numpy as np
import pytest

from calibration.trials import Row, compare, conclude, observe, percent, plan_trial, record
from pgtrial.model.metric import Better
from pgtrial.model.verdict import Verdict
from pgtrial.stats.power import blocks_needed

EXPERIMENTS = 100
MARGIN = 0.03


def simulate(seeds, *, blocks, log_ratio, sd):
    evidence = plan_trial(seeds, blocks=blocks)
    noise = np.random.default_rng(evidence.seed).normal(0, sd / np.sqrt(2), len(evidence.slots))
    is_b = np.array([slot.arm == "b" for slot in evidence.slots])
    values = observe(evidence, dict(enumerate(noise + log_ratio * is_b, start=1)))
    return evidence, compare(evidence, values)


@pytest.mark.slow
def test_what_is_named_suffices_as_often_as_is_promised_and_on_the_bound_nothing_is_named() -> None:
    seeds, decided, named, undecided = random.Random(8), 0, 0, 0
    for _ in range(EXPERIMENTS):
        evidence, found = simulate(seeds, blocks=6, log_ratio=0.0, sd=0.05)
        needed = blocks_needed(found, expect="not-worse", bounds=evidence.bounds, better=Better.HIGHER, cap=120)
        if conclude(evidence, found) is not Verdict.INCONCLUSIVE or needed.blocks is None:
            continue
        named += 1
        again, fresh = simulate(seeds, blocks=6 + needed.blocks, log_ratio=0.0, sd=0.05)
        decided += conclude(again, fresh) is not Verdict.INCONCLUSIVE
    bounded, numbers = 0, []
    for _ in range(EXPERIMENTS):
        evidence, found = simulate(seeds, blocks=6, log_ratio=-np.log1p(MARGIN), sd=0.05)
        if conclude(evidence, found) is not Verdict.INCONCLUSIVE:
            continue
        undecided += 1
        needed = blocks_needed(found, expect="not-worse", bounds=evidence.bounds, better=Better.HIGHER, in_range=True)
        # A number without an upper end says "at least so many".
        bounded += needed.high is not None
        numbers.append(needed.blocks or np.inf)
    assert decided >= 0.7 * named
    assert bounded <= 0.5 * undecided
    assert np.median(numbers) > 100
    record(
        Row(
            number=8,
            defect=(
                "blocks still needed: a fresh experiment with as many decides (promised 80 %); a number is named "
                "although the truth is on the bound"
            ),
            before="80 to 98 %; in 83 %, as if it would do",
            after=(
                f"{percent(decided, named)} (named in {percent(named, EXPERIMENTS)}); in {percent(bounded, undecided)} "
                f"with an upper end, else “at least” (median {np.median(numbers):.0f} blocks)"
            ),
        )
    )
