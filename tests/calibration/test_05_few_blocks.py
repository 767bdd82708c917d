"""Defect 5: verdicts from two to five blocks, which a drift or a slow period fools."""

import random

import numpy as np
import pytest

from calibration.before import planned_as_before
from calibration.trials import Row, compare, conclude, misses, most, observe, plan_trial, rate, record
from pgtrial.model.verdict import Verdict

EXPERIMENTS = 1500
TOO_FEW = (2, 3, 4, 5)  # blocks


def drift(evidence, rng):
    """Two per cent per run, up or down."""
    return rng.choice((-1, 1)) * 0.02 * np.arange(len(evidence.slots))


def wave(evidence, rng):
    """A period of about a block."""
    return 0.05 * np.sin(np.pi * (np.arange(len(evidence.slots)) * rng.uniform(0.9, 1.1) + rng.uniform(0, 2)))


NOISE = {drift: 0.002, wave: 0.002}  # SD of a run, beside what the machine does


def measure(evidence, machine):
    rng = np.random.default_rng(evidence.seed)
    speeds = machine(evidence, rng) + rng.normal(0, NOISE[machine], len(evidence.slots))
    return observe(evidence, dict(enumerate(speeds, start=1)))


def count(blocks, machine, *, by_coin):
    """How many intervals miss that there is no effect, and how many experiments are decided; before, in orders by a
    ``coin`` for each block of seeds that are drawn, for it is not the order that this is about.
    """
    seeds, missed, decided = random.Random(6), 0, 0
    for _ in range(EXPERIMENTS):
        evidence = plan_trial(seeds, blocks=blocks)
        if by_coin:
            evidence = planned_as_before(evidence, seed=evidence.seed)
        found = compare(evidence, measure(evidence, machine))
        missed += misses(found, 0.0)
        decided += conclude(evidence, found) is not Verdict.INCONCLUSIVE
    return missed, decided


@pytest.mark.slow
def test_too_few_blocks_decide_nothing_and_enough_keep_their_promise() -> None:
    told, of_old = [], []
    for machine, name in ((drift, "drift"), (wave, "period")):
        fooled = {blocks: count(blocks, machine, by_coin=True) for blocks in (*TOO_FEW, 6)}
        assert fooled[3][0] > most(EXPERIMENTS, 0.05)  # the defect
        assert all(decided for _, decided in fooled.values())
        rates = ", ".join(f"{blocks} blocks {rate(missed, EXPERIMENTS)}" for blocks, (missed, _) in fooled.items())
        of_old.append(f"{name}: {rates}")
        assert [count(blocks, machine, by_coin=False)[1] for blocks in TOO_FEW] == [0] * len(TOO_FEW)
        missed, _ = count(6, machine, by_coin=False)
        assert missed <= most(EXPERIMENTS, 0.05)
        told.append(f"{name}: {rate(missed, EXPERIMENTS)}")
    record(
        Row(
            number=5,
            defect="few blocks under a drift, and with a period of about a block: intervals of 95 % miss",
            audit=(
                "drift 22.5, 12.7, 6.4 % (3, 4, 5 blocks), period 19.7, 10.9 % (3, 4); 2 blocks up to 49 %; a verdict "
                "from any number"
            ),
            before=f"a verdict from any number; {'; '.join(of_old)}",
            after=f"no verdict below 6 blocks (0 of {2 * len(TOO_FEW) * EXPERIMENTS}); 6 blocks: {', '.join(told)}",
        )
    )
