"""Defect 4: an arm that fails where it is slow, and is repeated at once, showed only its good runs."""

import random
from dataclasses import replace

import numpy as np
import pytest

from calibration.trials import Row, compare, conclude, make_run, most, observe, percent, plan_trial, record
from pgtrial.analysis.effects.estimate import estimate_primary
from pgtrial.analysis.effects.failures import bound_primary
from pgtrial.analysis.effects.verdict import judge_claim
from pgtrial.model.metric import Better
from pgtrial.model.run import RunState
from pgtrial.model.verdict import Verdict

EXPERIMENTS = 400
SD = 0.03
FAILS_BELOW = -0.5  # SD of the machine's state


def simulate(seeds, *, blocks):
    """b is worse by exactly the margin, and dies where the machine is slow; its slot is repeated until it lives."""
    evidence = plan_trial(seeds, blocks=blocks)
    rng = np.random.default_rng(evidence.seed)
    runs, speeds, number = [], {}, 0
    for slot in evidence.slots:
        while True:
            number += 1
            state = rng.normal()
            has_died = slot.arm == "b" and state < FAILS_BELOW
            runs.append(make_run(slot, number=number, state=RunState.INVALID if has_died else RunState.DONE))
            if not has_died:
                break
        speeds[slot.number] = SD * state + (np.log(1 / 1.03) if slot.arm == "b" else 0.0)
    valid = tuple(run for run in runs if run.state is RunState.DONE)
    evidence = replace(evidence, runs=tuple(runs), valid=valid)
    return evidence, observe(evidence, speeds)


@pytest.mark.slow
def test_an_arm_that_dies_where_it_is_slow_is_not_called_as_good() -> None:
    told = []
    for blocks in (6, 12):
        seeds, plain, bounded = random.Random(4), 0, 0
        for _ in range(EXPERIMENTS):
            evidence, values = simulate(seeds, blocks=blocks)
            comparison, primary = compare(evidence, values), estimate_primary(evidence, values)
            found = bound_primary(evidence, primary)
            plain += conclude(evidence, comparison) is Verdict.SUPPORTED
            verdict, _ = judge_claim(
                evidence, comparison, better=Better.HIGHER, bounded=None if found is None else found.comparison
            )
            bounded += verdict is Verdict.SUPPORTED
        assert bounded < plain
        # Of six blocks the bounds themselves are uncertain.
        assert bounded <= most(EXPERIMENTS, 0.05 if blocks == 6 else 0.025)
        told.append(
            f"{percent(bounded, EXPERIMENTS)} ({blocks} blocks; without the bounds {percent(plain, EXPERIMENTS)})"
        )
    record(
        Row(
            number=4,
            defect=(
                "b, worse by the margin, dies where the machine is slow: “not worse” supported falsely (nominal 2.5 %)"
            ),
            before="11 to 12 %; 12 deaths in 18 attempts: SUPPORTED",
            after=", ".join(told),
        )
    )
