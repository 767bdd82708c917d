"""Plans that differ between arms, and the time that goes with them."""

import random
from dataclasses import replace

import pytest

from pgtrial.analysis.causes.explain import tell_why
from pgtrial.analysis.causes.plans import compare_plans
from pgtrial.analysis.causes.statements import compare_statements, tell_statements
from pgtrial.analysis.evidence import Event, Evidence
from pgtrial.analysis.reduction import Reduction, SessionGroup
from pgtrial.findings.message import say
from pgtrial.findings.record import Estimate
from pgtrial.findings.session_time import CPU, BudgetDifference, BudgetPart
from pgtrial.model.metrics import TPS
from pgtrial.model.run import RunRow

SCAN = "Aggregate\n  Seq Scan on items"
INDEX = "Aggregate\n  Index Scan using items_owner on items"
STATEMENT = "SELECT sum(qty) FROM items WHERE owner = :o"
SHOWN = "SELECT sum(qty) FROM items WHERE owner = ?"


def planned(evidence: Evidence, by_run: dict[int, str]) -> Evidence:
    return replace(
        evidence,
        events=tuple(
            Event(
                run=run,
                t=0.0,
                kind="plans",
                data={
                    "statements": [
                        {"scenario": "report", "statement": STATEMENT, "shown": [SHOWN], "shape": shape},
                        {"scenario": "report", "statement": "SELECT 1", "shown": ["SELECT ?"], "shape": "Result"},
                    ],
                    "reason": "",
                },
            )
            for run, shape in by_run.items()
        ),
    )


def shapes(evidence: Evidence, *, of_arm: str) -> dict[int, str]:
    """Those of one arm's runs use the index, and all others scan."""
    return {run.id: INDEX if run.slot.arm == of_arm else SCAN for run in evidence.valid}


def test_a_plan_that_differs_is_told_with_the_time_that_goes_with_it(evidence: Evidence, reduction: Reduction) -> None:
    arm = evidence.hypothesis_arm
    seen = SessionGroup(scenario="all", state="active", wait_type="", wait_event="", query=SHOWN, sessions=1.0)
    sessions = {(run.id, 0): (replace(seen, sessions=0.5 if run.slot.arm == arm else 2.0),) for run in evidence.valid}
    values = {(run.id, TPS.name, None, 0): 100.0 for run in evidence.valid}
    with_plans = planned(evidence, shapes(evidence, of_arm=arm))

    (found,) = [
        change
        for change in compare_plans(with_plans, replace(reduction, sessions=sessions), values)
        if change.arm == arm
    ]

    assert (found.control_plan, found.plan) == (SCAN, INDEX)
    assert (found.control_seconds, found.seconds) == pytest.approx((0.02, 0.005))
    text = say(found.text)
    assert "Seq Scan on items → Index Scan using items_owner on items" in text
    assert "a transaction spends 5 ms in it instead of 20 ms" in text
    assert text in say(tell_why(with_plans, (), (), plans=[found]))


def test_single_runs_with_another_plan_are_no_change(evidence: Evidence, reduction: Reduction) -> None:
    first, *_ = evidence.runs_of(evidence.hypothesis_arm)
    by_run = {run.id: SCAN for run in evidence.valid} | {first.id: INDEX}

    assert compare_plans(planned(evidence, by_run), reduction, {}) == ()
    assert compare_plans(evidence, reduction, {}) == ()


def with_runs(evidence: Evidence, count: int) -> Evidence:
    """The experiment with so many runs of each of two arms."""
    arm, control = evidence.hypothesis_arm, evidence.control
    assert control is not None
    runs = [
        replace(evidence.valid[0], id=2 * block + (name == arm), slot=replace(evidence.valid[0].slot, arm=name))
        for block in range(count)
        for name in (control.name, arm)
    ]
    arms = tuple(each for each in evidence.arms if each.name in (control.name, arm))
    return replace(evidence, arms=arms, runs=tuple(runs), valid=tuple(runs))


@pytest.mark.parametrize("count", [2, 3, 6, 12])
def test_plans_of_equal_arms_that_are_tossed_are_hardly_told(
    evidence: Evidence, reduction: Reduction, count: int
) -> None:
    """Of 400 experiments; 28 are the 95 % limit of 5 % of them."""
    experiment, coin = with_runs(evidence, count), random.Random(count)

    told = sum(
        bool(compare_plans(planned(experiment, {run.id: coin.choice([SCAN, INDEX]) for run in toss}), reduction, {}))
        for toss in [experiment.valid] * 400
    )

    assert told <= 28


def test_a_statement_that_a_script_has_three_times_is_no_three_runs(evidence: Evidence, reduction: Reduction) -> None:
    experiment = with_runs(evidence, 1)
    told = planned(experiment, shapes(experiment, of_arm=experiment.hypothesis_arm))
    thrice = tuple(replace(each, data={"statements": each.data["statements"] * 3}) for each in told.events)

    assert compare_plans(replace(told, events=thrice), reduction, {}) == ()


def test_a_plan_of_nearly_all_runs_is_told(evidence: Evidence, reduction: Reduction) -> None:
    experiment = with_runs(evidence, 6)
    arm = experiment.hypothesis_arm
    first, *_ = experiment.runs_of(arm)
    by_run = shapes(experiment, of_arm=arm)

    assert len(compare_plans(planned(experiment, by_run), reduction, {})) == 1
    assert len(compare_plans(planned(experiment, by_run | {first.id: SCAN}), reduction, {})) == 1


def test_a_part_that_is_larger_than_the_difference_is_no_share_of_it(evidence: Evidence) -> None:
    control = evidence.control
    assert control is not None
    parts = (
        BudgetPart(kind=CPU, event="", seconds=Estimate(value=-0.00144, low=-0.0016, high=-0.0013)),
        BudgetPart(kind="IO", event="WALSync", seconds=Estimate(value=0.00044, low=0.0003, high=0.0005)),
    )
    split = BudgetDifference(
        arm=evidence.hypothesis_arm,
        control=control.name,
        load_level="all",
        difference=Estimate(value=-0.001, low=-0.0011, high=-0.0009),
        parts=parts,
    )
    statements = {(control.name, 0): {(CPU, ""): {SHOWN: 2.0}}}

    text = say(tell_why(evidence, [split], (), statements=statements))

    assert f"CPU (mostly in “{SHOWN}”) alone 1.44 ms, for which other parts partly make up" in text
    assert "144 %" not in text


def test_the_statement_of_the_largest_rise_is_named_beside_the_one_that_improved(
    evidence: Evidence, reduction: Reduction
) -> None:
    arm = evidence.hypothesis_arm
    moved = "UPDATE items SET owner = ? WHERE id = ?"
    seen = SessionGroup(scenario="all", state="active", wait_type="", wait_event="", query=SHOWN, sessions=1.0)

    def groups(run: RunRow) -> tuple[SessionGroup, ...]:
        is_arm, noise = run.slot.arm == arm, 0.01 * (run.slot.block % 3)
        return (
            replace(seen, sessions=0.5 if is_arm else 2.0 + noise),
            replace(seen, sessions=(1.0 if is_arm else 0.2) + 2 * noise * is_arm, query=moved),
            replace(seen, sessions=0.1 + noise * (1 if run.slot.block % 2 == is_arm else -1), query="SELECT ?"),
        )

    sampled = replace(
        reduction,
        sessions={(run.id, 0): groups(run) for run in evidence.valid},
        polls={(run.id, 0): 100 for run in evidence.valid},
        totals={},
    )
    values = {(run.id, TPS.name, None, 0): 100.0 for run in evidence.valid}

    times = compare_statements(evidence, sampled, values)
    text = say(tell_why(evidence, (), (), times=times))

    assert times["SELECT ?"].side() == 0
    assert f"ms less in “{SHOWN}”, where most is saved, but 8" in text
    assert f"more in “{moved}”" in text
    rare = replace(sampled, polls=dict.fromkeys(sampled.polls, 1))
    assert "UPDATE" not in say(tell_statements(compare_statements(evidence, rare, values)) or "")
