"""Transactions that failed or were skipped, and next to nothing taken for something: what effects make of them."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from calibration.trials import TPS, conclude_about, plan_trial
from pgtrial.analysis.effects.comparison import compare_metric
from pgtrial.analysis.effects.contrasts import find_borne
from pgtrial.analysis.effects.estimate import estimate_effect, estimate_primary
from pgtrial.analysis.effects.lost import bear_mean, hides_times
from pgtrial.analysis.effects.verdict import judge_hypothesis
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import LOST, Values
from pgtrial.findings.findings import Effect
from pgtrial.findings.record import ALL
from pgtrial.model.rules import RULES
from pgtrial.model.run import Phase, PhaseName
from pgtrial.model.verdict import Decision, Verdict

P99 = "pgbench.latency_p99"
FAILED, SKIPPED = "pgbench.failures", "pgbench.skipped"
LOWEST = "stability.lowest"
Told = dict[tuple[int, str, str | None, int | str], float]


def measure(evidence: Evidence, lost: dict[str, float], *, what: str = FAILED, slower: float = 0.7) -> Told:
    """The p99 of b is ``slower`` times that of a."""
    rng = np.random.default_rng(1)
    found: Told = {}
    for run in evidence.valid:
        is_b = run.slot.arm == "b"
        found[run.id, P99, None, ALL] = 0.01 * (slower if is_b else 1) * math.exp(rng.normal(0, 0.01))
        found[run.id, TPS, None, ALL] = 500 * math.exp(rng.normal(0, 0.01))
        found[run.id, what, None, ALL] = lost.get(run.slot.arm, 0.0)
    return found


def effect_of_b(evidence: Evidence, values: Values, metric: str = P99) -> Effect:
    known = {each.name: each for each in evidence.load.every}
    arm = next(arm for arm in evidence.arms if arm.name == "b")
    return estimate_effect(evidence, values, arm=arm, metric=known[metric], scenario=None, level=ALL).effect


@pytest.mark.parametrize("what", [FAILED, SKIPPED])
def test_a_time_of_an_arm_that_lost_more_decides_nothing_for_it(what: str) -> None:
    evidence = plan_trial(random.Random(1), blocks=8)
    values = measure(evidence, {"b": 0.02}, what=what)

    found = effect_of_b(evidence, values)

    assert (found.decision, found.fails_more) == (Decision.INCONCLUSIVE, True)
    assert not effect_of_b(evidence, values, metric=TPS).fails_more
    assert find_borne(evidence, values, (P99, None, ALL))["b"].decides
    assert not find_borne(evidence, values, (TPS, None, ALL))["b"].decides


@pytest.mark.parametrize(
    ("lost", "slower", "decision"),
    [
        ({"b": 0.02}, 1.4, Decision.WORSE),  # what it lost would have taken longer still
        ({"a": 0.02}, 0.7, Decision.BETTER),
        ({"a": 0.02}, 1.4, Decision.INCONCLUSIVE),
        ({"a": 0.02, "b": 0.02}, 0.7, Decision.BETTER),
        ({"a": 0.02, "b": 0.0205}, 0.7, Decision.BETTER),  # of a hundredth, a twentieth
    ],
)
def test_what_was_lost_matters_where_it_may_turn_the_effect(
    lost: dict[str, float], slower: float, decision: Decision
) -> None:
    evidence = plan_trial(random.Random(1), blocks=8)

    assert effect_of_b(evidence, measure(evidence, lost, slower=slower)).decision is decision


@pytest.mark.parametrize(("reach", "decision"), [(0.05, Decision.BETTER), (0.4, Decision.INCONCLUSIVE)])
def test_few_lost_ones_are_in_the_interval(reach: float, decision: Decision) -> None:
    """Had they been the slowest, the p99 of b would be longer by so much."""
    evidence = plan_trial(random.Random(1), blocks=8)
    values = measure(evidence, {"b": 0.005})
    known = effect_of_b(evidence, values)
    lost: Told = {(run.id, P99 + LOST, None, ALL): reach for run in evidence.runs_of("b")}

    found = effect_of_b(evidence, values | lost)

    assert (found.decision, found.fails_more) == (decision, False)
    assert found.hidden_below == 0
    assert found.hidden_above == pytest.approx(reach)
    assert known.high is not None
    assert found.high == pytest.approx(known.high * math.exp(reach))
    assert find_borne(evidence, values | lost, (P99, None, ALL))["b"].up == pytest.approx(reach)


def test_fewer_failures_are_asked_for_and_not_more_blocks() -> None:
    evidence = plan_trial(random.Random(1), blocks=8, metric=P99, expect="better", margin=0.03)
    lost: Told = {(run.id, P99 + LOST, None, ALL): 0.4 for run in evidence.runs_of("b")}
    primary = estimate_primary(evidence, measure(evidence, {"b": 0.005}) | lost)

    _, needed = judge_hypothesis(evidence, primary, ())

    assert (needed.blocks, needed.text.code) == (None, "needed.failures")


def test_older_rules_do_not_ask_what_was_lost() -> None:
    evidence = plan_trial(random.Random(1), blocks=8)
    values = measure(evidence, {"b": 0.02})

    assert effect_of_b(of_rules(evidence, 14), values).decision is Decision.BETTER


def of_rules(evidence: Evidence, version: int) -> Evidence:
    return replace(evidence, rules=RULES[version])


@pytest.mark.parametrize(
    ("metric", "few", "many"),
    [
        ("pgbench.latency_p50", 0.49, 0.51),
        ("pgbench.latency_p95", 0.049, 0.051),
        (P99, 0.0099, 0.0101),
        ("pgbench.latency_p999", 0.00099, 0.00101),
    ],
)
def test_nothing_bounds_a_percentile_where_more_is_lost_than_is_slower(metric: str, few: float, many: float) -> None:
    evidence = plan_trial(random.Random(1))

    hides = [
        hides_times(evidence, measure(evidence, {"b": share}), "b", "a", (metric, None, ALL)) for share in (few, many)
    ]

    assert hides == [False, True]


@pytest.mark.parametrize(
    ("of_a", "of_b", "hides"),
    [
        (0, 2, False),  # of 60 000: which arm has so few is chance
        (0, 3, True),
        (0, 54, True),  # each of which may have waited for a second, as much as a hundred others take
        (54, 0, False),
        (54, 60, False),
        (54, 72, True),
    ],
)
def test_nothing_bounds_a_mean_where_more_is_lost_than_by_chance(of_a: int, of_b: int, *, hides: bool) -> None:
    """12 runs of each, with 5 000 transactions."""
    evidence = plan_trial(random.Random(1), blocks=12)
    phases = (Phase(name=PhaseName.MEASURE, start=0.0, end=10.0, level=0),)
    runs = tuple(replace(run, phases=phases) for run in evidence.runs)
    evidence = replace(evidence, runs=runs, valid=runs)
    values = measure(evidence, {"a": of_a / 60_000, "b": of_b / 60_000})
    values |= {(run, TPS, None, 0): 500.0 for run, metric, *_ in tuple(values) if metric == TPS}

    assert hides_times(evidence, values, "b", "a", ("pgbench.latency_mean", None, ALL)) is hides
    assert hides_times(evidence, values, "b", None, ("pgbench.latency_mean", None, ALL)) is (of_b > 2)


@pytest.mark.parametrize(
    ("of_b", "mean", "reach", "hides"),
    [
        (1, 0.01, 0.0, False),  # of 1 800 000: chance
        (36, 0.01, 0.02, False),
        (36, 0.0001, 0.0, True),
        (360, 0.01, 0.0, True),
    ],
)
def test_a_mean_bears_next_to_nothing_that_was_lost_as_if_each_had_lasted_as_long_as_its_run(
    of_b: int, mean: float, reach: float, *, hides: bool
) -> None:
    """A tenth of the mean at most: 12 runs of 150 000 transactions, of 10 s with the warm-up."""
    key = ("pgbench.latency_mean", None, ALL)
    evidence = plan_trial(random.Random(1), blocks=12, metric=key[0])
    phases = (
        Phase(name=PhaseName.WARMUP, start=0.0, end=4.0),
        Phase(name=PhaseName.MEASURE, start=4.0, end=10.0, level=0),
    )
    runs = tuple(replace(run, phases=phases) for run in evidence.runs)
    evidence = replace(evidence, runs=runs, valid=runs)
    rng, lost = np.random.default_rng(1), {"a": 0.0, "b": of_b / 1_800_000}
    values: Values = {
        (run.id, metric, None, level): value
        for run in runs
        for metric, value in (
            (key[0], mean * math.exp(rng.normal(0, 0.01))),
            (TPS, 25_000.0),
            ("pgbench.failures", lost[run.slot.arm]),
        )
        for level in (0, ALL)
    }
    comparison = compare_metric(evidence, values, "b", key, comparisons=1)

    assert hides_times(evidence, values, "b", "a", key) is hides
    assert bear_mean(evidence, values, "b", "a", key) == pytest.approx(math.log1p(reach), rel=0.02)
    assert comparison.hidden[1] == pytest.approx(math.log1p(reach), rel=0.02)


# A load of one transaction a second: none is not next to one.


def tell_lowest(evidence: Evidence, a: float, b: float) -> Values:
    rng = np.random.default_rng(2)
    return {
        (run.id, LOWEST, None, ALL): {"a": a, "b": b}[run.slot.arm] * math.exp(rng.normal(0, 0.03))
        for run in evidence.valid
    }


@pytest.mark.parametrize(
    ("a", "b", "expect", "verdict"),
    [
        (1.15, 0.0, "not-worse", Verdict.INCONCLUSIVE),
        (1.05, 0.1, "equivalent", Verdict.INCONCLUSIVE),
        (0.0, 1.15, "not-worse", Verdict.SUPPORTED),
        (2.0, 0.0, "not-worse", Verdict.REFUTED),
        (0.0, 0.0, "not-worse", Verdict.INCONCLUSIVE),
        (300.0, 300.0, "not-worse", Verdict.SUPPORTED),
    ],
)
def test_nothing_is_not_taken_for_next_to_something(a: float, b: float, expect: str, verdict: Verdict) -> None:
    evidence = plan_trial(random.Random(1), blocks=12, metric=LOWEST, expect=expect, margin=0.2)
    values = tell_lowest(evidence, a, b)

    comparison = compare_metric(evidence, values, "b", (LOWEST, None, ALL), comparisons=1)

    assert conclude_about(evidence, comparison) is verdict


def test_a_ratio_to_nothing_says_so() -> None:
    evidence = plan_trial(random.Random(1), blocks=12, metric=LOWEST, expect="not-worse", margin=0.2)
    values = tell_lowest(evidence, 1.15, 0.0)

    comparison = compare_metric(evidence, values, "b", (LOWEST, None, ALL), comparisons=1)
    of_old = compare_metric(of_rules(evidence, 14), values, "b", (LOWEST, None, ALL), comparisons=1)

    assert [(one.code, one.values["count"]) for one in comparison.caveats] == [("at-floor", 12)]
    assert comparison.low is not None
    assert comparison.low < 1e-6
    assert of_old.low is not None
    assert of_old.low > 0.8


def test_another_metric_is_asked_for_and_not_more_blocks() -> None:
    evidence = plan_trial(random.Random(1), blocks=12, metric=LOWEST, expect="not-worse", margin=0.2)
    primary = estimate_primary(evidence, tell_lowest(evidence, 1.15, 0.0))

    _, needed = judge_hypothesis(evidence, primary, ())

    assert (needed.blocks, needed.text.code) == (None, "needed.floor")
