"""Defect 22: ratios of blocks that resemble those of the blocks before, of which intervals are too narrow.

Where it is the machine that wanders, the order that is drawn takes it away. Where the effect itself does, because data
are carried over from run to run, nothing does: docs/exceptions.md has it.
"""

import math
import random

import numpy as np
import pytest

from calibration.before import judged_as_before, planned_as_before
from calibration.trials import Row, compare, misses, most, observe, percent, plan_trial, rate, record, second_runs

EXPERIMENTS = {10: 1500, 40: 300}
LIKENESS = 0.4  # autocorrelation from block to block
SD, NOISE = 0.02, 0.002  # of what wanders, and of a run
MOST_MISSED = 0.23  # of intervals, where the effect wanders
SAID = {10: 0.04, 40: 0.35}  # at least of these experiments that blocks resemble each other; 0.01 by chance


def wander(blocks, rng):
    """(blocks,) AR(1)"""
    found = rng.normal(0, SD, blocks)
    for block in range(1, blocks):
        found[block] = LIKENESS * found[block - 1] + math.sqrt(1 - LIKENESS**2) * found[block]
    return found


def count(blocks, *, is_effect, judged=lambda evidence: evidence):
    """How often the interval misses that there is no effect on average, and how often it is said that blocks resemble
    each other; what wanders is what b has more, or what the second run of a block has more, whoever runs it.

    ``judged`` plans and judges as before.
    """
    seeds, missed, said = random.Random(22), 0, 0
    for _ in range(EXPERIMENTS[blocks]):
        evidence = judged(plan_trial(seeds, blocks=blocks))
        rng = np.random.default_rng(evidence.seed)
        bears = np.array([slot.arm == "b" for slot in evidence.slots]) if is_effect else second_runs(evidence)
        wandering = wander(blocks, rng)[[slot.block - 1 for slot in evidence.slots]]
        speeds = wandering * bears + rng.normal(0, NOISE, len(evidence.slots))
        found = compare(evidence, observe(evidence, dict(enumerate(speeds, start=1))))
        missed += misses(found, 0.0)
        said += any(caveat.code == "autocorrelated-blocks" for caveat in found.caveats)
    return missed, said


@pytest.mark.slow
def test_a_machine_that_wanders_is_in_no_interval_and_an_effect_that_does_is_an_exception() -> None:
    machine, effect, shown, of_old = [], [], [], {True: [], False: []}
    for blocks, experiments in EXPERIMENTS.items():
        missed, _ = count(blocks, is_effect=False)
        assert missed <= most(experiments, 0.05)
        machine.append(f"{blocks} blocks {rate(missed, experiments)}")
        missed, said = count(blocks, is_effect=True)
        assert missed <= MOST_MISSED * experiments
        assert said > SAID[blocks] * experiments
        effect.append(f"{percent(missed, experiments)} ({blocks} blocks; it is said in {percent(said, experiments)})")
        shown.append(f"{blocks} blocks {rate(missed, experiments)}, said in {rate(said, experiments)}")
        for is_effect, judged in ((False, planned_as_before), (True, judged_as_before)):
            missed, said = count(blocks, is_effect=is_effect, judged=judged)
            assert not is_effect or missed > most(experiments, 0.05)  # the defect
            of_old[is_effect].append(f"{blocks} blocks {rate(missed, experiments)}, said in {rate(said, experiments)}")
    told = ", ".join(effect)
    record(
        Row(
            number=22,
            defect="what the second run of a block has more, or the effect, resembles that of the block before "
            "(autocorrelation 0.4): intervals of 95 % miss",
            audit="19 % (10 blocks; it is said in 10 %)",
            before=f"where the machine wanders so, in the order of seed 1: {', '.join(of_old[False])}; where the "
            f"effect does: {', '.join(of_old[True])}",
            after=f"where the machine wanders so: {', '.join(machine)}; where the effect does: {', '.join(shown)}: no "
            "order helps, and it is an exception",
            beyond=f"autocorrelation 0.4: {told}",
        )
    )
