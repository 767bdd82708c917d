"""Defect 7: who looks at each block, stops or extends when it suits, was told intervals that hold for one look."""

import random
from dataclasses import replace

import numpy as np
import pytest

from calibration.trials import Row, compare, conclude, most, observe, percent, plan_trial, record, take_blocks
from pgtrial.model.metric import Better
from pgtrial.model.rules import RULES
from pgtrial.model.verdict import Verdict
from pgtrial.stats.power import blocks_needed

EXPERIMENTS = 300
EXTENDED = 800
ONCE, OFTEN = 1, 10  # how often "about k more blocks" are had
MOST_BLOCKS = 30  # of an experiment that somebody makes for it
ALL_ATTEMPTS = 0.05  # in one direction: as much as the first attempt may err, for it and for all others together


def follow_advice(seeds: random.Random, *, rules: int) -> list[Verdict]:
    """Verdicts on b, which is worse by exactly the margin: of six blocks, and of each experiment with "about k more
    blocks" than the one before until one decides, none is named, or OFTEN were made.
    """
    found: list[Verdict] = []
    blocks = 6
    while len(found) <= OFTEN:
        evidence = replace(plan_trial(seeds, blocks=blocks, attempts_before=len(found)), rules=RULES[rules])
        noise = np.random.default_rng(evidence.seed).normal(0, 0.02, len(evidence.slots))
        is_b = np.array([slot.arm == "b" for slot in evidence.slots])
        values = observe(evidence, dict(enumerate(noise - np.log(1.03) * is_b, start=1)))
        comparison = compare(evidence, values)
        found.append(conclude(evidence, comparison))
        needed = blocks_needed(
            comparison,
            expect="not-worse",
            bounds=evidence.bounds,
            better=Better.HIGHER,
            confidence=evidence.confidence_of_more(comparison.confidence),
        )
        if found[-1] is not Verdict.INCONCLUSIVE or needed.blocks is None:
            break
        blocks = min(blocks + needed.blocks, MOST_BLOCKS)
    return found


def count_extended(*, rules: int) -> tuple[list[str], list[int]]:
    """False “supported” after the first experiment, after one more and after OFTEN more."""
    seeds = random.Random(70)
    told = [follow_advice(seeds, rules=rules) for _ in range(EXTENDED)]
    counts = [sum(Verdict.SUPPORTED in verdicts[: more + 1] for verdicts in told) for more in (0, ONCE, OFTEN)]
    return [percent(count, EXTENDED) for count in counts], counts


def row(told: list[str], before: list[str], now: list[str]) -> Row:
    return Row(
        number=7,
        defect=(
            "stopped by hand when it suits: “not worse” supported falsely (nominal 2.5 %); an effect of zero excluded "
            "(5 %); “about k more blocks” are had, once and up to ten times: “not worse” supported falsely (nominal "
            "2.5 % for the first experiment, 5 % for all)"
        ),
        before="at 20 blocks 11 % and 23 %, at 40 14 % and 29 %; blocks added to the experiment 4.8 % and 7.7 %, in "
        f"experiments anew, by rules 3, {before[1]} and {before[2]}",
        after=f"at 20 blocks {told[0]}, at 40 {told[1]}, and called provisional; a finished experiment takes no more "
        f"blocks, and experiments anew are attempts: {now[1]} and {now[2]}",
    )


@pytest.mark.slow
def test_whoever_stops_when_it_suits_is_rarely_fooled() -> None:
    """b is worse by exactly the margin; the experiment is stopped at the first look at which it seems not to be."""
    seeds, not_worse, nonzero, told = random.Random(7), {20: 0, 40: 0}, {20: 0, 40: 0}, []
    for _ in range(EXPERIMENTS):
        evidence = plan_trial(seeds, blocks=41)
        noise = np.random.default_rng(evidence.seed).normal(0, 0.02, len(evidence.slots))
        is_b = np.array([slot.arm == "b" for slot in evidence.slots])
        equal = observe(evidence, dict(enumerate(noise, start=1)))
        worse = observe(evidence, dict(enumerate(noise - np.log(1.03) * is_b, start=1)))
        first_not_worse = first_nonzero = 99
        for blocks in range(6, 41, 2):
            part = take_blocks(evidence, blocks)
            assert part.is_provisional
            if conclude(part, compare(part, worse)) is Verdict.SUPPORTED:
                first_not_worse = min(first_not_worse, blocks)
            found = compare(part, equal)
            if found.low is not None and found.high is not None and not found.low <= 1 <= found.high:
                first_nonzero = min(first_nonzero, blocks)
        for end in (20, 40):
            not_worse[end] += first_not_worse <= end
            nonzero[end] += first_nonzero <= end
    for end in (20, 40):
        assert not_worse[end] <= most(EXPERIMENTS, 0.025)
        assert nonzero[end] <= most(EXPERIMENTS, 0.05)
        told.append(f"{percent(not_worse[end], EXPERIMENTS)} and {percent(nonzero[end], EXPERIMENTS)}")
    before, fooled = count_extended(rules=3)
    assert fooled[2] > most(EXTENDED, 0.025)  # the defect
    now, fooled = count_extended(rules=max(RULES))
    assert fooled[0] <= most(EXTENDED, 0.025)
    assert fooled[2] <= most(EXTENDED, ALL_ATTEMPTS)
    record(row(told, before, now))
