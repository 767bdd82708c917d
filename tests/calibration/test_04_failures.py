"""Defect 4: an arm that fails where it is slow, and is repeated at once, showed only its good runs."""

import math
import random
from dataclasses import dataclass, replace

import numpy as np
import pytest

from calibration.before import judged_as_before
from calibration.trials import Row, compare, conclude, make_run, most, observe, percent, plan_trial, rate, record
from pgtrial.analysis.effects.estimate import estimate_primary
from pgtrial.analysis.effects.failures import bound_primary
from pgtrial.analysis.effects.verdict import judge_claim
from pgtrial.model.metric import Better
from pgtrial.model.run import RunState, Slice
from pgtrial.model.verdict import Verdict
from pgtrial.stats.power import MoreBlocks

EXPERIMENTS = 2000
SD = 0.03
FAILS_BELOW = -0.5  # SD of the machine's state


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """b is worse by the margin in all its attempts. It dies where the ``state`` it is in is bad: the machine's, which
    bears on the arm that runs, or one of its own, in which it is slower by 30 %. Its end is recorded as ``ending``.
    """

    text: str
    method: str = "blocks"
    ending: RunState = RunState.INVALID
    own_state: bool = False


CASES = (
    Case(text="the machine is slow"),
    Case(text="likewise, ended with pgtrial", ending=RunState.INTERRUPTED),
    Case(text="in turns, itself is slow", method="interleaved"),
    Case(text="a third of its attempts are 30 % slower", own_state=True),
)


def simulate(seeds, case, *, blocks):
    """An experiment whose blocks, or slots where each has its time to itself, are repeated until b lives."""
    evidence = plan_trial(seeds, blocks=blocks, method=case.method)
    shares = case.method != "blocks"
    rng = np.random.default_rng(evidence.seed)
    slices = (Slice(level=0, number=0, started=0.0, counted=0.5, ended=1.0),) if shares else ()
    units = [[slot] for slot in evidence.slots]
    if shares:
        units = [[slot for slot in evidence.slots if slot.block == block] for block in range(1, blocks + 1)]
    runs, speeds = [], {}
    for unit in units:
        while True:
            state, is_bad = rng.normal(), rng.random() < 1 / 3
            has_b = any(slot.arm == "b" for slot in unit)
            has_died = has_b and (is_bad if case.own_state else state < FAILS_BELOW)
            for slot in unit:
                run = make_run(slot, number=len(runs) + 1, state=case.ending if has_died else RunState.DONE)
                runs.append(run if has_died else replace(run, slices=slices))
            if not has_died:
                break
        for slot in unit:
            noise = 0.2 * SD * rng.normal() if (shares and slot.arm == "a") or case.own_state else SD * state
            loss = 0.0 if case.own_state else math.log(1.03)  # there, what is lost is in the attempts that died
            speeds[slot.number] = noise - (loss if slot.arm == "b" else 0.0)
    valid = tuple(run for run in runs if run.state is RunState.DONE)
    evidence = replace(evidence, runs=tuple(runs), valid=valid)
    return evidence, observe(evidence, speeds)


def judge(evidence, values):
    """The verdict, with what failures may hide."""
    bounded = bound_primary(evidence, estimate_primary(evidence, values))
    return judge_claim(evidence, compare(evidence, values), better=Better.HIGHER, bounded=bounded)[0]


def judge_as_before(evidence, values):
    """The verdict, as if nothing had failed."""
    evidence = judged_as_before(evidence)
    return conclude(evidence, compare(evidence, values))


def judge_twelve_deaths():
    """Of an arm that is a fifth faster where it lives, and died in 12 of 18 attempts; before, and today."""
    evidence = plan_trial(random.Random(5))
    rng = np.random.default_rng(evidence.seed)
    deaths = [make_run(slot, number=100 + slot.number, state=RunState.INVALID) for slot in evidence.slots] * 2
    evidence = replace(evidence, runs=(*evidence.runs, *(run for run in deaths if run.slot.arm == "b")))
    values = observe(evidence, {slot.number: rng.normal(0.2 * (slot.arm == "b"), SD / 10) for slot in evidence.slots})
    return judge_as_before(evidence, values), judge(evidence, values)


@pytest.fixture(autouse=True)
def _without_forecasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that are still needed, and tests over the orders, take most of the time and are in no verdict."""
    unknown = MoreBlocks(blocks=None, reachable=False)
    monkeypatch.setattr("pgtrial.analysis.effects.estimate.blocks_needed", lambda *_, **__: unknown)
    monkeypatch.setattr("pgtrial.stats.paired.randomisation_p", lambda *_: 1.0)


@pytest.mark.slow
def test_an_arm_that_dies_where_it_is_slow_is_not_called_as_good() -> None:
    told, of_old, beyond = [], [], []
    for case in CASES:
        rates, rates_before, above = [], [], []
        for blocks in (6, 12):
            seeds, fooled, bounded = random.Random(4), 0, 0
            for _ in range(EXPERIMENTS):
                evidence, values = simulate(seeds, case, blocks=blocks)
                fooled += judge_as_before(evidence, values) is Verdict.SUPPORTED
                bounded += judge(evidence, values) is Verdict.SUPPORTED
            assert fooled > most(EXPERIMENTS, 0.025)  # the defect
            assert bounded < fooled
            rates.append(f"{blocks} blocks {rate(bounded, EXPERIMENTS)}")
            rates_before.append(f"{blocks} blocks {rate(fooled, EXPERIMENTS)}")
            # Few failures among six blocks are hardly more than chance; an arm's own bad state shows in no good run.
            limit = (0.25 if blocks == 6 else 0.05) if case.own_state else (0.04 if blocks == 6 else 0.025)
            assert bounded <= most(EXPERIMENTS, limit)
            if bounded > most(EXPERIMENTS, 0.025):
                above.append(f"{percent(bounded, EXPERIMENTS)} ({blocks} blocks)")
        told.append(f"{case.text}: {', '.join(rates)}")
        of_old.append(f"{case.text}: {', '.join(rates_before)}")
        if above:
            beyond.append(f"{case.text}: {', '.join(above)}")
    many_before, many = judge_twelve_deaths()
    assert many_before is Verdict.SUPPORTED
    assert many is Verdict.INCONCLUSIVE
    record(
        Row(
            number=4,
            defect=("b, worse by the margin, dies where it is slow: “not worse” supported falsely (nominal 2.5 %)"),
            audit="11 to 12 %; 12 deaths in 18 attempts: SUPPORTED",
            before=f"{'; '.join(of_old)}; 12 deaths in 18 attempts: {many_before}",
            after=f"{'; '.join(told)}; 12 deaths in 18 attempts: {many}",
            beyond="; ".join(beyond),
        )
    )
