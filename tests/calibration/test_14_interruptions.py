"""Defect 14: who stops pgtrial while a run looks bad for what he wants, and resumes, chose which runs count."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from calibration.trials import Row, make_run, most, observe, percent, plan_trial, rate, record, spare_blocks_needed
from pgtrial.analysis.effects.estimate import estimate_primary
from pgtrial.analysis.effects.failures import bound_primary
from pgtrial.analysis.effects.verdict import judge_claim
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT, RULES, Rules
from pgtrial.model.run import RunRow, RunState, Slice
from pgtrial.model.verdict import Verdict

EXPERIMENTS, BEFORE, WITH_POWER = 1500, 300, 200
NOMINAL = 0.025
SD = 0.03
Stops = Callable[[str, float, int], bool]  # arm, its state in SD, how often he stopped that arm already -> stops it


def beyond(limit: float, *, each: int = 1000, arms: str = "ab") -> Stops:
    """Stops b where it is slow, a where it is fast, ``each`` so often at most."""
    return lambda arm, state, before: (
        arm in arms and before < each and (state < -limit if arm == "b" else state > limit)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """b is worse by the margin; "not worse" is wanted, or, where it ``refutes``, unwanted."""

    text: str
    stops: Stops
    method: str = "blocks"
    refutes: bool = False


CASES = (
    Case(text="once each, beyond 0.5 SD", stops=beyond(0.5, each=1)),
    Case(text="likewise, to refute", stops=beyond(0.5, each=1), refutes=True),
    Case(text="as often as he likes, beyond 1 SD", stops=beyond(1)),
    Case(text="beyond 0.5 SD", stops=beyond(0.5)),
    Case(text="the worse half", stops=beyond(0)),
    Case(text="only b, beyond 0.5 SD", stops=beyond(0.5, arms="b")),
    Case(
        text="in turns, blocks in which b looks bad, beyond 0.5 SD", stops=beyond(0.5, arms="b"), method="interleaved"
    ),
)


def nobody(*_: object) -> bool:
    return False


def simulate(
    seeds: random.Random, stops: Stops, *, blocks: int, method: str = "blocks", gain: float, sign: int = 1
) -> tuple[Evidence, Values]:
    """An experiment that is resumed until nobody stops it. ``gain`` is log(b / a); ``sign`` -1 stops the other way."""
    evidence = plan_trial(seeds, blocks=blocks, method=method)
    rng, shares = np.random.default_rng(evidence.seed), method != "blocks"
    slices = (Slice(level=0, number=0, started=0.0, counted=0.5, ended=1.0),) if shares else ()
    runs: list[RunRow] = []
    speeds: dict[int, float] = {}
    before = {"a": 0, "b": 0}
    units = [[slot] for slot in evidence.slots]
    if shares:
        units = [[slot for slot in evidence.slots if slot.block == block] for block in range(1, blocks + 1)]
    for unit in units:
        seen = "b" if shares else unit[0].arm
        while stops(seen, sign * (state := rng.normal()), before[seen]):
            before[seen] += 1
            runs += [
                make_run(slot, number=len(runs) + place, state=RunState.INTERRUPTED)
                for place, slot in enumerate(unit, 1)
            ]
        for slot in unit:
            runs.append(replace(make_run(slot, number=len(runs) + 1), slices=slices))
            speeds[slot.number] = (SD * state if slot.arm == seen else 0.0) + (gain if slot.arm == "b" else 0.0)
    valid = tuple(run for run in runs if run.state is RunState.DONE)
    evidence = replace(evidence, runs=tuple(runs), valid=valid)
    return evidence, observe(evidence, speeds)


def judge(evidence: Evidence, values: Values) -> Verdict:
    primary = estimate_primary(evidence, values)
    assert primary is not None
    bounded = bound_primary(evidence, primary)
    return judge_claim(evidence, primary.comparison, better=Better.HIGHER, bounded=bounded)[0]


def count(case: Case, blocks: int, experiments: int, *, rules: Rules) -> int:
    """False verdicts of so many experiments."""
    wanted = Verdict.REFUTED if case.refutes else Verdict.SUPPORTED
    seeds, sign = random.Random(14), -1 if case.refutes else 1
    found = 0
    for _ in range(experiments):
        evidence, values = simulate(
            seeds, case.stops, blocks=blocks, method=case.method, gain=-math.log1p(0.03), sign=sign
        )
        found += judge(replace(evidence, rules=rules), values) is wanted
    return found


def test_runs_that_are_stopped_where_they_look_bad_make_no_verdict() -> None:
    by_rules_5, now = (count(CASES[4], 6, 40, rules=rules) for rules in (RULES[5], CURRENT))

    assert by_rules_5 >= 15
    assert now <= 2


@pytest.mark.slow
def test_who_stops_pgtrial_at_will_gets_no_false_verdict_more_often_than_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spare_blocks_needed(monkeypatch)
    told, of_old, failed_before = [], [], 0
    for case in CASES:
        rates, rates_before = [], []
        for blocks in (6, 12):
            now = count(case, blocks, EXPERIMENTS, rules=CURRENT)
            before = count(case, blocks, BEFORE, rules=RULES[5])
            assert now <= most(EXPERIMENTS, NOMINAL)
            failed_before += before > most(BEFORE, NOMINAL)
            rates.append(f"{blocks} blocks {rate(now, EXPERIMENTS)}")
            rates_before.append(f"{blocks} blocks {rate(before, BEFORE)}")
        told.append(f"{case.text}: {', '.join(rates)}")
        of_old.append(f"{case.text}: {', '.join(rates_before)}")
    assert failed_before > len(CASES)  # the defect: in most of them, and least where only b is stopped
    power = []
    for blocks in (6, 12):
        seeds, found = random.Random(15), [0, 0]
        for _ in range(WITH_POWER):
            first = random.Random(seeds.randrange(2**31))
            for place, stops in enumerate((nobody, _killed_at(first.randrange(2 * blocks)))):
                evidence, values = simulate(random.Random(seeds.randrange(2**31)), stops, blocks=blocks, gain=2 * SD)
                found[place] += judge(evidence, values) is Verdict.SUPPORTED
        power.append(f"{percent(found[1], WITH_POWER)} instead of {percent(found[0], WITH_POWER)} ({blocks} blocks)")
        assert found[1] >= 0.75 * found[0]
    record(
        Row(
            number=14,
            defect="pgtrial is stopped while a run of b is slow, or one of a fast, and resumed; b is worse by exactly "
            "the margin: “not worse” supported, or refuted, falsely (nominal 2.5 %)",
            audit="two interruptions were none, and equal numbers no excess: 8.8 to 16 %",
            before=f"by rules 5: {'; '.join(of_old)}",
            after="; ".join(told)
            + f". One kill at random, b better than the bound by 2.1 SD of a block: decided in {', '.join(power)}",
        )
    )


def _killed_at(run: int) -> Stops:
    """Power fails in the run of this number, whatever it would have shown."""
    begun = iter(range(10**6))
    return lambda *_: next(begun) == run
