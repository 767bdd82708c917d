from dataclasses import replace
from typing import Any

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.validity.blocks import FEWEST, check_counts
from pgtrial.experiment_file.hypothesis_table import AndTable
from pgtrial.model.caveat import Severity
from pgtrial.model.rules import RULES

Assess = Any
SECONDS = 10.0  # measured in each run of the simulated experiment


def with_count(evidence: Evidence, values: Values, count: float, *, arm: str, block: int) -> Values:
    """The same values, but so many transactions in one run."""
    (run,) = (run for run in evidence.valid if run.slot.arm == arm and run.slot.block == block)
    return {**values, (run.id, "pgbench.tps", None, 0): count / SECONDS}


def test_enough_transactions_are_not_worth_a_word(assess: Assess, evidence: Evidence, values: Values) -> None:
    assert list(check_counts(assess())) == []
    assert list(check_counts(assess(values=with_count(evidence, values, FEWEST, arm="off", block=1)))) == []


def test_few_transactions_are_told_with_what_one_of_them_is_worth(
    assess: Assess, evidence: Evidence, values: Values
) -> None:
    few = with_count(evidence, values, 5, arm="off", block=2)
    (caveat,) = check_counts(assess(values=few, rules=RULES[8]))

    assert (caveat.code, caveat.severity) == ("few-transactions", Severity.WARNING)
    assert "as few as 5 transactions ended" in caveat.text
    assert "20.0 %" in caveat.text


def test_where_each_counts_with_its_part_a_throughput_does_not_move_in_steps(assess, evidence, values) -> None:
    few = assess(values=with_count(evidence, values, 0.4, arm="off", block=2))
    unknown = replace(few.reduction.totals[evidence.valid[0].id, 0, None], inside=None)

    assert list(check_counts(few)) == []
    totals = few.reduction.totals | {(evidence.valid[0].id, 0, None): unknown}
    (caveat,) = check_counts(replace(few, reduction=replace(few.reduction, totals=totals)))
    assert "as few as 1 transactions ended" in caveat.text


def test_a_run_without_any_makes_the_verdict_invalid_and_is_named(
    assess: Assess, evidence: Evidence, values: Values
) -> None:
    (caveat,) = check_counts(assess(values=with_count(evidence, values, 0, arm="on", block=3)))
    (run,) = (run.id for run in evidence.valid if run.slot.arm == "on" and run.slot.block == 3)

    assert (caveat.code, caveat.severity, caveat.runs) == ("no-transactions", Severity.INVALID, (run,))
    assert "in 1 of 12 runs" in caveat.text


def test_the_placebo_has_no_part_in_the_claim(assess: Assess, evidence: Evidence, values: Values) -> None:
    assert list(check_counts(assess(values=with_count(evidence, values, 0, arm="placebo", block=1)))) == []


def test_the_scenario_of_the_claim_is_named(assess: Assess, evidence: Evidence, values: Values) -> None:
    hypothesis = evidence.experiment.hypothesis.model_copy(update={"scenario": "report"})
    experiment = evidence.experiment.model_copy(update={"hypothesis": hypothesis})
    counts = {
        (run, name, "report", level): value
        for (run, name, scenario, level), value in with_count(evidence, values, 3, arm="off", block=1).items()
        if scenario is None
    }
    found = replace(assess(), evidence=replace(evidence, experiment=experiment, rules=RULES[8]), values=counts)

    assert "3 transactions of report ended" in next(check_counts(found)).text


def test_a_claim_on_latency_needs_a_transaction_that_ended_in_each_run(assess, evidence, values) -> None:
    """By its parts a run has a throughput without one; its block would be left out, and it is one of the slow ones."""
    (run,) = (run.id for run in evidence.valid if run.slot.arm == "off" and run.slot.block == 3)
    known = {key: value for key, value in values.items() if key[0] != run or "latency" not in key[1]}
    slow = {"metric": "pgbench.latency_mean", "expect": "not-worse"}
    for claim in (slow, {"also": (AndTable.model_validate({**slow, "margin": 0.05}),)}):
        hypothesis = evidence.experiment.hypothesis.model_copy(update=claim)
        experiment = evidence.experiment.model_copy(update={"hypothesis": hypothesis})
        found = list(check_counts(replace(assess(values=known), evidence=replace(evidence, experiment=experiment))))

        assert [(each.code, each.severity, each.runs) for each in found] == [
            ("no-transactions", Severity.INVALID, (run,))
        ]
    assert list(check_counts(assess(values=known))) == []
