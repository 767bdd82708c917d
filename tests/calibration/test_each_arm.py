"""Arms that end one by one, each at the first look at which the claim is decided for it: how often any of them is
wrong, and how many runs that saves.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest

from calibration.trials import TPS, Array, misses, most, plan_trial
from pgtrial.analysis.effects.estimate import compare_metric
from pgtrial.analysis.effects.verdict import judge_claim
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.design.plan import due_slots
from pgtrial.findings.record import ALL
from pgtrial.model.metric import Better
from pgtrial.model.verdict import Verdict
from pgtrial.stats.base import Comparison

BLOCKS = 20
EXPERIMENTS = 200
RUN_SD = 0.02 / np.sqrt(2)  # of a block's log ratio 2 %


@dataclass(frozen=True, kw_only=True)
class Arm:
    """An arm at its end: after its last block, with the verdict and the comparison that it has then."""

    block: int
    verdict: Verdict
    comparison: Comparison


def run_one_by_one(evidence: Evidence, log_speeds: Mapping[int, float]) -> tuple[dict[str, Arm], int]:
    """Each candidate at its end, and the runs that were made until the last one was decided."""
    values: Values = {(run.id, TPS, None, ALL): float(np.exp(log_speeds[run.slot.number])) for run in evidence.runs}
    settled, found, made = dict[str, int](), dict[str, Arm](), 0
    for block in range(1, BLOCKS + 1):
        due = {slot.number for slot in due_slots(evidence.slots, settled) if slot.block <= block}
        runs = tuple(run for run in evidence.runs if run.slot.number in due)
        made = len(runs)
        if block not in evidence.looks:
            continue
        part = replace(evidence, runs=runs, valid=runs)
        for arm in evidence.candidates:
            if arm.name in settled:
                continue
            comparison = compare_metric(part, values, arm.name, (TPS, None, ALL), comparisons=part.comparisons)
            verdict, _ = judge_claim(part, comparison, better=Better.HIGHER)
            found[arm.name] = Arm(block=block, verdict=verdict, comparison=comparison)
            if verdict is not Verdict.INCONCLUSIVE:
                settled[arm.name] = block
        if len(settled) == len(evidence.candidates):
            break
    return found, made


def draw(
    evidence: Evidence, effects: Mapping[str, float], *, place: float = 0.0, autocorrelation: float = 0.0
) -> Array:
    """Log throughput of each run, in the order of the slots: effects, noise and what the place in the block does."""
    noise = np.random.default_rng(evidence.seed).normal(0, RUN_SD, len(evidence.slots))
    for n in range(1, noise.size):
        noise[n] = autocorrelation * noise[n - 1] + np.sqrt(1 - autocorrelation**2) * noise[n]
    places = np.array([place * RUN_SD * (slot.position - 1) for slot in evidence.slots])
    return noise + places + np.array([effects.get(slot.arm, 0.0) for slot in evidence.slots])


NOISE = {"white": {}, "place": {"place": 1.0}, "autocorrelated": {"autocorrelation": 0.9}}


@pytest.mark.slow
@pytest.mark.parametrize("more", [1, 3])
@pytest.mark.parametrize("noise", NOISE)
def test_of_arms_that_are_all_alike_some_statement_is_rarely_wrong(more: int, noise: str) -> None:
    """Two and four arms that are the control: an arm ends as soon as it seems to differ, or at the last block."""
    seeds, wrong, missed = random.Random(more), 0, 0
    for _ in range(EXPERIMENTS):
        evidence = plan_trial(seeds, expect="different", margin=0, blocks=BLOCKS, stop="each-arm", more=more)
        speeds = draw(evidence, {}, **NOISE[noise])
        arms, _ = run_one_by_one(evidence, dict(enumerate(speeds, start=1)))
        assert len(arms) == more + 1
        wrong += any(arm.verdict is Verdict.SUPPORTED for arm in arms.values())
        missed += any(misses(arm.comparison, 0.0) for arm in arms.values())
    assert wrong <= most(EXPERIMENTS, 0.05)
    assert missed <= most(EXPERIMENTS, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("more", [1, 3])
def test_arms_on_the_bound_are_rarely_called_good_enough(more: int) -> None:
    seeds, wrong = random.Random(more), 0
    for _ in range(EXPERIMENTS):
        evidence = plan_trial(seeds, expect="not-worse", blocks=BLOCKS, stop="each-arm", more=more)
        speeds = draw(evidence, {arm.name: -np.log(1.03) for arm in evidence.candidates})
        arms, _ = run_one_by_one(evidence, dict(enumerate(speeds, start=1)))
        wrong += any(arm.verdict is Verdict.SUPPORTED for arm in arms.values())
    assert wrong <= most(EXPERIMENTS, 0.025)


@pytest.mark.parametrize("more", [1, 3])
def test_an_arm_that_is_soon_decided_saves_its_later_runs(more: int) -> None:
    """b is slower by 10 %, the others are like the control: as docs/statistics.md says."""
    seeds, made, longest, experiments = random.Random(more), 0, 0, 8
    for _ in range(experiments):
        evidence = plan_trial(seeds, expect="equivalent", blocks=BLOCKS, stop="each-arm", more=more)
        arms, runs = run_one_by_one(evidence, dict(enumerate(draw(evidence, {"b": np.log(0.9)}), start=1)))
        last = max(arm.block for arm in arms.values())
        assert arms["b"].verdict is Verdict.REFUTED
        assert runs == last + sum(arm.block for arm in arms.values())
        made += runs
        longest += last * (more + 2)
    assert made < 0.95 * longest
    assert longest < 0.85 * experiments * BLOCKS * (more + 2)
