"""Defect 1: what one slice leaves behind for the next came out as a gain of the arm that leaves it."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from scipy.signal import lfilter

from calibration.before import judged_as_before, turns_before
from calibration.trials import (
    TPS,
    Row,
    compare,
    conclude,
    misses,
    most,
    percent,
    plan_trial,
    record,
)
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values, index_values, observe_turns
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.slices import describe_slices
from pgtrial.analysis.validity.slices import find_reversal
from pgtrial.design.methods import plan_steps, turn_seed
from pgtrial.design.slices import Step
from pgtrial.findings.record import ALL
from pgtrial.model.rules import CURRENT, RULES
from pgtrial.model.run import Phase, PhaseName, Slice
from pgtrial.model.verdict import Verdict
from pgtrial.report.words import change_text
from pgtrial.stats.base import Comparison
from pgtrial.stats.slices import PARTS

EXPERIMENTS = 100
NULL_EXPERIMENTS = 400
LEFT_BEHIND = 0.1  # by which b slows down what comes after it, whoever runs it
STEP = 0.05  # s of the simulated machine
OWN_NOISE = 0.03  # of a step
RUN_NOISE = 0.01


def slow_down(steps, *, fade, delay, rng, of="b"):
    """Transactions of each arm by slice: washout, then quarters of what counts. The work ``of`` an arm lies on what
    comes later.
    """
    busy = np.concatenate([np.full(round(step.length / STEP), step.arms[0] == of) for step in steps])
    due = np.concatenate([np.zeros(round(delay / STEP)), busy])[: busy.size]
    kept = max(0.0, 1 - STEP / fade) if fade else 0.0
    rates, found = -LEFT_BEHIND * lfilter([1 - kept], [1, -kept], due), []
    for step in steps:
        count, washout = round(step.length / STEP), round(step.guard / STEP)
        own, rates = rates[:count], rates[count:]
        counts = 100 * STEP * np.exp(own + rng.normal(0, OWN_NOISE, count))
        quarters = [part.sum() for part in np.array_split(counts[washout:], PARTS)]
        found.append((counts[:washout].sum(), quarters))
    return found


def take_turns(planned: Evidence, block: int) -> tuple[Step, ...]:
    """The slices of a block."""
    names, seconds = [arm.name for arm in planned.arms], planned.experiment.workload.duration
    return plan_steps(planned.method, names, seconds=seconds, seed=turn_seed(planned.seed, block, 0), block=block)


def run_blocks(
    seeds: random.Random,
    *,
    blocks: int,
    fade: float,
    delay: float,
    duration: int = 10,
    of: str = "b",
    placebo: bool = False,
    expect: str = "not-worse",
    take_turns: Callable[[Evidence, int], tuple[Step, ...]] = take_turns,
) -> tuple[Evidence, Values, Reduction]:
    planned = plan_trial(seeds, blocks=blocks, method="interleaved", duration=duration, placebo=placebo, expect=expect)
    rng = np.random.default_rng(planned.seed)
    runs, values, parts, washouts = [], {}, {}, {}
    for block in range(1, blocks + 1):
        mine = {run.slot.arm: run for run in planned.runs if run.slot.block == block}
        names, steps = [arm.name for arm in planned.arms], take_turns(planned, block)
        told, at, slices = slow_down(steps, fade=fade, delay=delay, rng=rng, of=of), 0.0, {name: [] for name in names}
        for number, step in enumerate(steps):
            slices[step.arms[0]].append(
                Slice(level=0, number=number, started=at, counted=at + step.guard, ended=at + step.length)
            )
            at += step.length
        for name, run in mine.items():
            own = [each for each, step in zip(told, steps, strict=True) if step.arms[0] == name]
            luck = math.exp(rng.normal(0, RUN_NOISE))
            parts[run.id, 0] = luck * np.array([quarters for _, quarters in own])
            washouts[run.id, 0] = luck * sum(washout for washout, _ in own)
            values[run.id, TPS, None, ALL] = parts[run.id, 0].sum() / sum(each.seconds for each in slices[name])
            phase = Phase(name=PhaseName.MEASURE, start=0.0, end=at, level=0)
            runs.append(replace(run, phases=(phase,), slices=tuple(slices[name])))
    runs = sorted(runs, key=lambda run: run.id)
    evidence = replace(planned, runs=tuple(runs), valid=tuple(runs))
    reduction = Reduction(parts=parts, washout=washouts)
    return evidence, values | index_values(observe_turns(evidence, reduction)), reduction


MACHINES = (  # fade and delay in s, that is about in slices
    (0.125, 0.0, "it fades in ⅛ slice"),
    (0.25, 0.0, "¼"),
    (0.5, 0.0, "½"),
    (1.0, 0.0, "1"),
    (0.0, 0.5, "it comes after ½ slice"),
    (0.0, 1.0, "1"),
    (0.0, 2.0, "2"),
    (0.0, 4.0, "4"),
    (0.0, 7.0, "7"),
    (0.0, 8.0, "8"),
    (0.0, 10.0, "10"),
    (1.0, 2.0, "2 slices, and fades in 1"),
)


@dataclass(kw_only=True)
class Outcome:
    """Of experiments on one machine: logs of the effects, and how many intervals held the truth, verdicts were
    “supported”, and experiments noticed what is wrong: invalid today, a caveat of slices before.
    """

    effects: list[float] = field(default_factory=list)
    held: int = 0
    supported: int = 0
    noticed: int = 0

    def add(self, comparison: Comparison, *, is_supported: bool, is_noticed: bool) -> None:
        assert comparison.ratio is not None
        self.effects.append(math.log(comparison.ratio))
        self.held += not misses(comparison, math.log1p(-LEFT_BEHIND))
        self.supported += is_supported
        self.noticed += is_noticed

    @property
    def missed(self) -> int:
        return EXPERIMENTS - self.held

    @property
    def effect(self) -> float:
        return float(np.expm1(np.mean(self.effects)))

    @property
    def error(self) -> float:
        """Half of the interval of 95 % of the effect, in points."""
        return float(196 * np.std(self.effects, ddof=1) / np.sqrt(EXPERIMENTS))

    def tell(self, noticed: str) -> str:
        return (
            f"{change_text(1 + self.effect)}, the truth in {percent(self.held, EXPERIMENTS)} of the intervals, "
            f"supported in {percent(self.supported, EXPERIMENTS)}, {noticed} in {percent(self.noticed, EXPERIMENTS)}"
        )


def judge_now(fade: float, delay: float) -> Outcome:
    seeds, found = random.Random(1), Outcome()
    for _ in range(EXPERIMENTS):
        evidence, values, reduction = run_blocks(seeds, blocks=6, fade=fade, delay=delay)
        comparison, slices = compare(evidence, values), describe_slices(evidence, reduction)
        assert slices is not None
        assert comparison.ratio is not None
        is_reversed = find_reversal(slices.arms[0], comparison.ratio, margin=evidence.margin)
        is_supported = not is_reversed and conclude(evidence, comparison) is Verdict.SUPPORTED
        found.add(comparison, is_supported=is_supported, is_noticed=is_reversed)
    return found


def judge_as_before(fade: float, delay: float) -> Outcome:
    """On the same machines: turns as they were, the plain interval, and the contrast of halves of slices."""
    seeds, found = random.Random(1), Outcome()
    for _ in range(EXPERIMENTS):
        planned, values, reduction = run_blocks(seeds, blocks=6, fade=fade, delay=delay, take_turns=turns_before)
        evidence = judged_as_before(planned)
        comparison, slices = compare(evidence, values), describe_slices(evidence, reduction)
        assert slices is not None
        arm = slices.arms[0]
        assert arm.growth is not None
        assert arm.growth_low is not None
        assert arm.growth_high is not None
        is_noticed = not arm.growth_low <= 1 <= arm.growth_high and abs(arm.growth - 1) > evidence.margin / 2
        is_supported = conclude(evidence, comparison) is Verdict.SUPPORTED
        found.add(comparison, is_supported=is_supported, is_noticed=is_noticed)
    return found


@pytest.mark.slow
def test_what_a_slice_leaves_behind_is_not_a_gain_of_the_arm_that_leaves_it() -> None:
    told, of_old, supported, missed, error = [], [], [], 0, 0.0
    for fade, delay, name in MACHINES:
        old, new = judge_as_before(fade, delay), judge_now(fade, delay)
        of_old.append(f"{name}: {old.tell('a caveat')}")
        told.append(f"{name}: {new.tell('invalid')}")
        assert old.missed > most(EXPERIMENTS, 0.05)  # the defect
        if (fade, delay) == (0, 1):  # as the audit has it
            assert old.effect > 0
            assert old.supported > most(EXPERIMENTS, 0.025)
        assert new.missed <= most(EXPERIMENTS, 0.05)
        if fade <= 0.5 and delay <= 0.5:
            assert new.effect < -0.05
        missed += new.missed
        if delay < 2:
            assert new.supported == 0
        else:
            supported.append(new.supported)
        error = max(error, old.error, new.error)
    assert missed <= most(len(MACHINES) * EXPERIMENTS, 0.05)
    assert sum(supported) <= most(len(supported) * EXPERIMENTS, 0.025)
    record(
        Row(
            number=1,
            defect="b slows down what comes after it by 10 %, whoever runs it (turns, truth −10 %, “not worse by 3 %”)",
            audit="next slice: +2.5 %, supported in 100 %, no caveat",
            before="; ".join(of_old),
            after=f"{'; '.join(told)}. Of {EXPERIMENTS} experiments each, before and now: rates are known to "
            f"±{98 / math.sqrt(EXPERIMENTS):.0f} points at most, effects to ±{error:.1f}",
        )
    )


@pytest.mark.slow
def test_what_the_control_leaves_behind_among_three_arms_is_in_the_interval_of_b() -> None:
    told, of_old, wrong, wrong_before = [], [], 0, 0
    for fade, delay, name in (
        (0.0, 1.0, "it comes after 1 slice"),
        (0.0, 2.0, "2"),
        (1.0, 1.0, "1, and fades in 1"),
        (1.0, 2.0, "2, and fades in 1"),
    ):
        seeds, held, refuted = random.Random(15), [0, 0], [0, 0]
        for _ in range(EXPERIMENTS):
            evidence, values, reduction = run_blocks(
                seeds, blocks=6, fade=fade, delay=delay, of="a", placebo=True, expect="better"
            )
            slices = describe_slices(evidence, reduction)
            assert slices is not None
            arm = next(each for each in slices.arms if each.arm == "b")
            for place, rules in enumerate((RULES[6], CURRENT)):
                judged = replace(evidence, rules=rules)
                comparison = compare(judged, values)
                assert comparison.ratio is not None
                held[place] += not misses(comparison, -math.log1p(-LEFT_BEHIND))
                is_reversed = find_reversal(arm, comparison.ratio, margin=evidence.margin)
                refuted[place] += not is_reversed and conclude(judged, comparison) is Verdict.REFUTED
        for place, texts in enumerate((of_old, told)):
            texts.append(
                f"{name}: the truth in {percent(held[place], EXPERIMENTS)} of the intervals, refuted in "
                f"{percent(refuted[place], EXPERIMENTS)}"
            )
        assert EXPERIMENTS - held[1] <= most(EXPERIMENTS, 0.05)
        assert refuted[1] <= most(EXPERIMENTS, 0.025)
        wrong_before += refuted[0]
        wrong += refuted[1]
    assert wrong_before > most(4 * EXPERIMENTS, 0.025)  # the defect
    assert wrong <= most(4 * EXPERIMENTS, 0.025)
    record(
        Row(
            number=15,
            defect="the control slows down what comes after it by 10 %, whoever of three arms runs it (turns with a "
            "placebo, truth +11 %, “better by 3 %”)",
            before="; ".join(of_old),
            after="; ".join(told),
        )
    )


def drift_steps(steps, *, rng, slowness):
    """Transactions of each arm by slice where nothing passes from one to the next: noise alone, of the machine and own.

    slowness : time constant in s of the machine's autocorrelated noise; 0 for none.
    """
    total = sum(round(step.length / STEP) for step in steps)
    machine = np.zeros(total)
    if slowness:
        kept = math.exp(-STEP / slowness)
        shocks = rng.normal(0, 0.2 * math.sqrt(1 - kept**2), total)
        machine[0] = rng.normal(0, 0.2)
        for number in range(1, total):
            machine[number] = kept * machine[number - 1] + shocks[number]
    found, at = [], 0
    for step in steps:
        count, washout = round(step.length / STEP), round(step.guard / STEP)
        counts = 100 * STEP * np.exp(machine[at : at + count] + rng.normal(0, 0.1, count))
        found.append((counts[:washout].sum(), [part.sum() for part in np.array_split(counts[washout:], PARTS)]))
        at += count
    return found


@pytest.mark.slow
@pytest.mark.parametrize("slowness", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("blocks", [6, 12])
def test_equal_arms_are_called_reversed_no_more_often_than_the_interval_says(
    blocks: int, slowness: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "calibration.test_01_carry_over.slow_down",
        lambda steps, *, rng, **_: drift_steps(steps, rng=rng, slowness=slowness),
    )
    seeds, reversed_ = random.Random(5), 0
    for _ in range(NULL_EXPERIMENTS):
        evidence, values, reduction = run_blocks(seeds, blocks=blocks, fade=0.0, delay=0.0, duration=4)
        comparison, slices = compare(evidence, values), describe_slices(evidence, reduction)
        assert slices is not None
        assert comparison.ratio is not None
        reversed_ += find_reversal(slices.arms[0], comparison.ratio, margin=evidence.margin)
    assert reversed_ <= most(NULL_EXPERIMENTS, 0.05)
