"""Experiments whose runs died or stood still: what the others say without them is chosen by its result."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from calibration.trials import make_run, observe, plan_trial
from pgtrial.analysis.compare.contrasts import describe_contrasts
from pgtrial.analysis.compare.groups import Group
from pgtrial.analysis.compare.indirect import compare_indirectly
from pgtrial.analysis.compare.subjects import Subject
from pgtrial.analysis.effects.estimate import estimate_primary
from pgtrial.analysis.effects.failures import bound_primary
from pgtrial.analysis.effects.verdict import judge_hypothesis
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import index_values, observation
from pgtrial.findings.caveat import caveat, caveat_in_words
from pgtrial.findings.comparison import Contrast
from pgtrial.findings.record import ALL
from pgtrial.model.caveat import Severity
from pgtrial.model.run import Phase, PhaseName, RunState
from pgtrial.model.verdict import Decision, Verdict

COUNT, BLOCKS, GAIN = 8, 6, 0.06
P99, MEAN = "pgbench.latency_p99", "pgbench.latency_mean"
SEEDS = random.Random(3)


def experiment(
    *,
    died: Sequence[str] = (),
    cut_off: int = 0,
    stood_still: int = 0,
    blocks: int = BLOCKS,
    invalid_for: str = "",
    key: str = "A",
) -> Subject:
    """One in which b is faster by GAIN, but for attempts of arms that ``died`` in its first block, attempts of b that
    were ``cut_off``, and b's first runs in which nothing ended.
    """
    evidence = plan_trial(SEEDS, blocks=blocks)
    first = {slot.arm: slot for slot in reversed(evidence.slots)}
    bad = [(first[arm], RunState.INVALID) for arm in died] + [(first["b"], RunState.INTERRUPTED)] * cut_off
    failed = [make_run(slot, number=1000 + number, state=state) for number, (slot, state) in enumerate(bad)]
    evidence = replace(evidence, runs=(*failed, *evidence.valid))
    noise = np.random.default_rng(evidence.seed).normal(0, 0.01, len(evidence.slots))
    speeds = {slot.number: noise[place] + GAIN * (slot.arm == "b") for place, slot in enumerate(evidence.slots)}
    stalled = {run.id for run in evidence.valid if run.slot.arm == "b" and run.slot.block <= stood_still}
    values = {at: 0.0 if at[0] in stalled else value for at, value in observe(evidence, speeds).items()}
    return subject_of(evidence, values, invalid_for=invalid_for, key=key)


def subject_of(evidence: Evidence, values: Any, *, invalid_for: str, key: str) -> Subject:
    estimated = estimate_primary(evidence, values)
    caveats = (caveat_in_words(invalid_for, Severity.INVALID, "It is invalid."),) if invalid_for else ()
    claim, _ = judge_hypothesis(evidence, estimated, caveats, bounded=bound_primary(evidence, estimated))
    findings = SimpleNamespace(
        hypothesis=claim,
        effects=() if estimated is None else (estimated.effect,),
        observations=[SimpleNamespace(metric=claim.metric)],
        experiment=SimpleNamespace(levels=evidence.levels, scenarios=evidence.scenarios, complete=True),
        stopping=None,
        caveats=caveats,
    )
    return Subject(key=key, folder=Path(), evidence=evidence, findings=cast(Any, findings))


def of_times(*, slower: float, lost: Mapping[str, float], key: str) -> Subject:
    """One whose claim is on p99, that of b ``slower`` times that of a; each arm lost a share of its transactions."""
    evidence = plan_trial(SEEDS, blocks=BLOCKS, metric=P99)
    noise = np.random.default_rng(evidence.seed).normal(0, 0.01, len(evidence.slots))
    observed = [
        observation(run, metric, None, ALL, value)
        for run, off in zip(evidence.valid, noise, strict=True)
        for metric, value in (
            (P99, 0.01 * (slower if run.slot.arm == "b" else 1) * float(np.exp(off))),
            ("pgbench.failures", lost.get(run.slot.arm, 0.0)),
        )
    ]
    found = subject_of(evidence, index_values(tuple(observed)), invalid_for="", key=key)
    found.findings.__dict__["observations"] = observed
    return found


def of_means(*, lost: Mapping[str, int], key: str, invalid_for: str = "") -> Subject:
    """One whose claim is on the mean latency, b's shorter by GAIN; of 1000 transactions of each run each arm lost
    so many in its first one.
    """
    evidence = plan_trial(SEEDS, blocks=BLOCKS, metric=MEAN)
    measured = (Phase(name=PhaseName.MEASURE, start=0.0, end=10.0, level=0),)
    runs = tuple(replace(run, phases=measured) for run in evidence.runs)
    evidence = replace(evidence, runs=runs, valid=runs)
    noise = np.random.default_rng(evidence.seed).normal(0, 0.01, len(evidence.slots))
    observed = []
    for run, off in zip(runs, noise, strict=True):
        share = lost.get(run.slot.arm, 0) / 1000 * (run.slot.block == 1)
        mean = 0.01 * float(np.exp(off - GAIN * (run.slot.arm == "b")))
        told = ((MEAN, mean), ("pgbench.failures", share), ("pgbench.tps", 100 * (1 - share)))
        observed += [observation(run, metric, None, at, value) for metric, value in told for at in (0, ALL)]
    found = subject_of(evidence, index_values(tuple(observed)), invalid_for=invalid_for, key=key)
    found.findings.__dict__["observations"] = observed
    return found


def group_of(*subjects: Subject, arm: str = "b") -> Group:
    return Group(workload={}, control={}, arm={"arm": arm}, members=tuple((each, "b") for each in subjects))


def claim_of(*subjects: Subject) -> Contrast:
    (found,) = describe_contrasts(group_of(*subjects))
    return found


def codes(contrast: Contrast) -> set[str]:
    return {each.code for each in contrast.caveats} & {"left-out-by-result", "unequal-failures", "unequal-losses"}


def sound(count: int = COUNT - 1) -> list[Subject]:
    return [experiment(key=f"S{number}") for number in range(count)]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"stood_still": 1}, "left-out-by-result"),
        ({"stood_still": BLOCKS}, "left-out-by-result"),
        ({"died": ["b", "b"]}, "unequal-failures"),
        ({"cut_off": 3}, "unequal-failures"),
        ({"invalid_for": "no-transactions"}, "left-out-by-result"),
    ],
)
def test_nothing_is_decided_where_one_experiment_went_badly(bad: dict[str, Any], code: str) -> None:
    good, found = claim_of(*sound(), experiment()), claim_of(*sound(), experiment(**bad))

    assert good.pooled is not None
    assert (good.pooled.decision, codes(good)) == (Decision.BETTER, set())
    assert found.pooled is not None
    assert (found.pooled.decision, codes(found)) == (Decision.INCONCLUSIVE, {code})


def test_failures_of_all_experiments_count_together() -> None:
    """A death of b in each of two: neither experiment alone says that b dies more often."""
    one_each = [experiment(died=["b"], key=key) for key in "AB"]
    in_both_arms = [experiment(died=["a"], key="A"), experiment(died=["b"], key="B")]

    assert all(each.findings.hypothesis.verdict is not Verdict.INVALID for each in one_each)
    decided = []
    for some in (one_each, in_both_arms):
        found = claim_of(*sound(COUNT - 2), *some)
        assert found.pooled is not None
        decided.append((found.pooled.decision, codes(found)))
    assert decided == [(Decision.INCONCLUSIVE, {"unequal-failures"}), (Decision.BETTER, set())]


def test_one_whose_arms_failed_unequally_is_no_reason_where_all_together_did_not() -> None:
    """It stays in the combined effect, whose interval bears what its failures may hide."""
    uneven = [experiment(died=[arm, arm], key=arm) for arm in ("a", "b")]
    assert all(each.findings.effects[0].fails_more for each in uneven)
    found = claim_of(*sound(COUNT - 2), *uneven)

    assert codes(found) == set()
    assert found.pooled is not None
    assert (found.pooled.experiments, found.pooled.decision) == (COUNT, Decision.BETTER)
    assert found.pooled.hidden_below == pytest.approx(np.mean([study.hidden_below for study in found.studies]))


@pytest.mark.parametrize(
    ("slower", "lost", "decision", "code"),
    [
        (0.8, {"b": 0.02}, Decision.INCONCLUSIVE, {"unequal-losses"}),
        (1.0, {"a": 0.02}, Decision.INCONCLUSIVE, {"unequal-losses"}),
        (1.2, {"b": 0.02}, Decision.WORSE, set()),  # what it lost would have taken longer still
        (0.8, {"a": 0.02, "b": 0.02}, Decision.BETTER, set()),
        (0.8, {}, Decision.BETTER, set()),
    ],
)
def test_a_time_is_decided_together_as_little_as_alone_where_transactions_were_lost(
    slower: float, lost: Mapping[str, float], decision: Decision, code: set[str]
) -> None:
    found = claim_of(*(of_times(slower=slower, lost=lost, key=f"S{number}") for number in range(COUNT)))

    assert found.pooled is not None
    assert (found.pooled.decision, codes(found)) == (decision, code)


@pytest.mark.parametrize(
    ("lost", "decision", "code"),
    [
        ([{"b": 4, "a": 0}, {"a": 4, "b": 0}, *[{"a": 1, "b": 1}] * 6], Decision.BETTER, set()),
        ([{"b": 2}] * 8, Decision.INCONCLUSIVE, {"unequal-losses"}),
        ([{"a": 2}] * 8, Decision.BETTER, {"unequal-losses"}),
        ([{"b": 60}, *[{}] * 7], Decision.INCONCLUSIVE, {"unequal-losses"}),
        ([{"b": 60}, {"a": 60}, *[{}] * 6], Decision.INCONCLUSIVE, {"unequal-losses"}),
        ([{}] * 8, Decision.BETTER, set()),
    ],
)
def test_transactions_that_all_experiments_lost_count_together_for_a_mean(
    lost: Sequence[Mapping[str, int]], decision: Decision, code: set[str]
) -> None:
    """Of 6000 of each arm 2 beside none are chance, and 4 are not; of all experiments it is the other way round.

    What the arms lost in different experiments makes up for nothing.
    """
    subjects = [of_means(lost=each, key=f"S{number}") for number, each in enumerate(lost)]
    (found,) = (one for one in describe_contrasts(group_of(*subjects)) if one.metric == MEAN)

    assert found.pooled is not None
    assert (found.pooled.decision, codes(found)) == (decision, code)


@pytest.mark.parametrize(
    ("others", "decision", "code"),
    [({"a": 1}, Decision.BETTER, set()), ({"b": 1}, Decision.INCONCLUSIVE, {"unequal-losses"})],
)
@pytest.mark.parametrize("invalid_for", ["failed-transactions", "skipped-transactions"])
def test_one_that_is_invalid_for_what_it_lost_counts_where_that_is_chance_in_all_together(
    invalid_for: str, others: Mapping[str, int], decision: Decision, code: set[str]
) -> None:
    rest = [of_means(lost=others, key=f"S{number}") for number in range(COUNT - 1)]
    bad = of_means(lost={"b": 4}, key="B", invalid_for=invalid_for)
    (found,) = (one for one in describe_contrasts(group_of(*rest, bad)) if one.metric == MEAN)

    assert found.pooled is not None
    assert (found.pooled.experiments, found.pooled.decision, codes(found)) == (COUNT, decision, code)


@pytest.mark.parametrize("void", [{"invalid_for": "foreign-data", "died": ["b", "b"]}, {"blocks": 1}])
def test_one_that_would_not_count_whatever_its_arms_had_done_is_left_out(void: dict[str, Any]) -> None:
    found = claim_of(*sound(), experiment(**void))

    assert found.pooled is not None
    assert (found.pooled.experiments, found.pooled.decision, codes(found)) == (COUNT - 1, Decision.BETTER, set())


def test_a_metric_that_another_question_did_not_look_at_is_not_missing() -> None:
    other = experiment()
    other = replace(other, findings=cast(Any, SimpleNamespace(**{**vars(other.findings), "effects": ()})))
    unseen = replace(other, findings=cast(Any, SimpleNamespace(**{**vars(other.findings), "observations": []})))

    assert codes(claim_of(*sound(), other)) == {"left-out-by-result"}
    assert codes(claim_of(*sound(), unseen)) == set()


def test_an_effect_that_slices_do_not_tell_of_is_left_out() -> None:
    other = experiment()
    (effect,) = other.findings.effects
    effect = effect.model_copy(update={"caveats": (caveat("untold-by-slices"),)})
    other = replace(other, findings=cast(Any, SimpleNamespace(**{**vars(other.findings), "effects": (effect,)})))
    found = claim_of(*sound(), other)

    assert found.pooled is not None
    assert (found.pooled.experiments, found.pooled.decision, codes(found)) == (COUNT - 1, Decision.BETTER, set())


def test_arms_are_not_compared_by_way_of_the_control_where_nothing_is_decided() -> None:
    def compared(bad: Subject) -> int:
        groups = [group_of(experiment(key="C"), arm="c"), group_of(experiment(key="A"), bad)]
        return len(compare_indirectly([(group, one) for group in groups for one in describe_contrasts(group)]))

    assert compared(experiment(key="B")) == 1
    assert compared(experiment(stood_still=1, key="B")) == 0
    assert compared(experiment(died=["b", "b"], key="B")) == 0
