"""Is an arm enough? Limits against the values of its blocks, through the product's own plan."""

import random
from dataclasses import replace

import numpy as np
import pytest

from calibration.trials import TPS, make_run, most, observe, plan_trial, take_blocks
from pgtrial.analysis.effects.acceptance import judge_acceptance
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.experiment_file.cause_tables import AcceptanceTable
from pgtrial.findings.caveat import caveat
from pgtrial.findings.questions import Acceptance
from pgtrial.model.run import RunState
from pgtrial.model.verdict import Verdict

SD = 0.05  # of a block's log throughput


def asking(evidence: Evidence, *wanted: dict[str, object]) -> Evidence:
    tables = tuple(AcceptanceTable.model_validate({"metric": TPS} | each) for each in wanted)
    return replace(evidence, experiment=evidence.experiment.model_copy(update={"acceptance": tables}))


def measure(evidence: Evidence, seed: int, **medians: float) -> Values:
    """Throughput of every run, around the median of its arm."""
    rng = np.random.default_rng(seed)
    speeds = {slot.number: np.log(medians[slot.arm]) + SD * rng.standard_normal() for slot in evidence.slots}
    return observe(evidence, speeds)


def only(found: tuple[Acceptance, ...], arm: str) -> Acceptance:
    (one,) = (each for each in found if each.arm == arm)
    return one


def test_each_arm_is_held_against_the_limit_by_itself() -> None:
    evidence = asking(plan_trial(random.Random(1)), {"at_least": 1000})

    found = judge_acceptance(evidence, measure(evidence, 2, a=1500, b=700), ())

    assert (only(found, "a").verdict, only(found, "b").verdict) == (Verdict.SUPPORTED, Verdict.REFUTED)
    low, high = ends(only(found, "a"))
    assert 1000 < low < 1500 < high


def test_at_most_is_the_other_side() -> None:
    evidence = asking(plan_trial(random.Random(1)), {"at_most": 1000, "arm": "b"})

    (found,) = judge_acceptance(evidence, measure(evidence, 1, a=1500, b=700), ())

    assert (found.arm, found.verdict, found.is_most) == ("b", Verdict.SUPPORTED, True)


@pytest.mark.parametrize("blocks", [6, 12])
def test_an_arm_at_the_limit_is_rarely_called_anything(blocks: int) -> None:
    """Both arms stand at the limit: any decision is false, and the interval of both rows holds 1000 in 95 %."""
    seeds, experiments, false, missed = random.Random(7), 400, 0, 0
    for number in range(experiments):
        evidence = asking(plan_trial(seeds, blocks=blocks), {"at_least": 1000})
        found = judge_acceptance(evidence, measure(evidence, number, a=1000, b=1000), ())
        false += any(each.verdict is not Verdict.INCONCLUSIVE for each in found)
        missed += any(not low <= 1000 <= high for low, high in map(ends, found))

    assert false <= most(experiments, 0.05)
    assert missed <= most(experiments, 0.05)


def ends(one: Acceptance) -> tuple[float, float]:
    assert one.value is not None
    assert one.value.low is not None
    assert one.value.high is not None
    return one.value.low, one.value.high


def test_few_blocks_decide_nothing() -> None:
    evidence = asking(plan_trial(random.Random(1), blocks=5), {"at_least": 1000})

    assert only(judge_acceptance(evidence, measure(evidence, 1, a=9000, b=9000), ()), "a").verdict is (
        Verdict.INCONCLUSIVE
    )


def test_while_blocks_are_to_come_the_interval_is_wider() -> None:
    whole = asking(plan_trial(random.Random(1), blocks=8), {"at_least": 1000, "arm": "a"})
    values = measure(whole, 1, a=1030, b=1000)
    (early,) = judge_acceptance(take_blocks(whole, 7), values, ())
    (late,) = judge_acceptance(whole, values, ())

    width = {number: ends(each)[1] / ends(each)[0] for number, each in enumerate((early, late))}
    assert width[0] > width[1]


def test_an_arm_that_failed_is_not_called_enough() -> None:
    evidence = asking(plan_trial(random.Random(1)), {"at_least": 1000})
    first = next(slot for slot in evidence.slots if slot.arm == "a")
    failed = make_run(first, number=99, state=RunState.INVALID)
    evidence = replace(evidence, runs=(*evidence.runs, failed))

    found = judge_acceptance(evidence, measure(evidence, 1, a=1500, b=1500), ())

    assert (only(found, "a").failed, only(found, "a").verdict) == (1, Verdict.INCONCLUSIVE)
    assert only(found, "b").verdict is Verdict.SUPPORTED


def test_what_makes_the_verdict_invalid_leaves_nothing_enough() -> None:
    evidence = asking(plan_trial(random.Random(1)), {"at_least": 1000})

    found = judge_acceptance(evidence, measure(evidence, 1, a=1500, b=1500), (caveat("post-hoc"),))

    assert {each.verdict for each in found} == {Verdict.INVALID}
