"""Claims of several metrics, and claims on what was sampled."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pgtrial.analysis.effects.claim import claims_of
from pgtrial.analysis.effects.estimate import estimate_primary
from pgtrial.analysis.effects.failures import bound_primary
from pgtrial.analysis.effects.parts import estimate_parts, judge_together
from pgtrial.analysis.effects.stopping import decide
from pgtrial.analysis.effects.verdict import judge_hypothesis, judge_part
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.experiment_file.hypothesis_table import AndTable
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from pgtrial.model.rules import RULES
from pgtrial.model.run import RunState
from pgtrial.model.verdict import Verdict

TPS, READS = "pgbench.tps", "iostat.r"
NOISE = (1.0, 1.012, 0.99, 1.006, 0.995, 1.002)


def claim(evidence: Evidence, *, also: Sequence[dict[str, object]] = (), **first: object) -> Evidence:
    parts = tuple(AndTable.model_validate(each) for each in also)
    hypothesis = evidence.experiment.hypothesis.model_copy(update={"also": parts, **first})
    return replace(evidence, experiment=evidence.experiment.model_copy(update={"hypothesis": hypothesis}))


def simulate(evidence: Evidence, ratios: dict[str, float], noise: dict[str, Sequence[float]] | None = None) -> Values:
    found: dict[tuple[int, str, str | None, int | str], float] = {}
    for metric, ratio in ratios.items():
        factors = (noise or {}).get(metric, NOISE)
        for (control, run), factor in zip(evidence.pairs("off"), factors, strict=True):
            found[control.id, metric, None, ALL] = 100.0
            found[run.id, metric, None, ALL] = 100.0 * ratio * factor
    return found


@pytest.fixture
def reads_and_speed(evidence: Evidence) -> Evidence:
    also = [{"metric": TPS, "expect": "not-worse", "margin": 0.05}]
    return claim(evidence, metric=READS, expect="lower", margin=0.1, also=also)


@pytest.mark.parametrize(
    ("reads", "speed", "verdict"),
    [
        (0.7, 1.0, Verdict.SUPPORTED),
        (0.7, 1.3, Verdict.SUPPORTED),
        (0.7, 0.8, Verdict.REFUTED),
        (1.0, 1.0, Verdict.REFUTED),
        (0.905, 1.0, Verdict.INCONCLUSIVE),
        (0.905, 0.8, Verdict.REFUTED),
    ],
)
def test_a_claim_of_two_metrics_holds_if_both_do(
    reads_and_speed: Evidence, reads: float, speed: float, verdict: Verdict
) -> None:
    values = simulate(reads_and_speed, {READS: reads, TPS: speed})
    parts = estimate_parts(reads_and_speed, values)

    finding, needed = judge_hypothesis(reads_and_speed, estimate_primary(reads_and_speed, values), (), parts=parts)

    assert finding.verdict is verdict
    assert finding.verdict is judge_together([judge_part(reads_and_speed, part)[0] for part in parts])
    assert [part.metric for part in finding.parts] == [READS, TPS]
    assert "of the 2 metrics" in say(finding.reason).lower() or "all 2 metrics" in say(finding.reason).lower()
    assert (needed.blocks is not None) == (verdict is Verdict.INCONCLUSIVE)


def test_a_metric_without_values_makes_the_whole_claim_invalid(reads_and_speed: Evidence) -> None:
    values = simulate(reads_and_speed, {READS: 0.7})
    parts = estimate_parts(reads_and_speed, values)
    finding, _ = judge_hypothesis(reads_and_speed, estimate_primary(reads_and_speed, values), (), parts=parts)

    assert finding.verdict is Verdict.INVALID
    assert "There is no ratio of pgbench.tps" in say(finding.reason) or "no ratio of pgbench.tps" in say(finding.reason)


def test_supporting_takes_the_full_level_and_refuting_a_share_of_it(reads_and_speed: Evidence) -> None:
    (reads, speed) = estimate_parts(reads_and_speed, simulate(reads_and_speed, {READS: 0.7, TPS: 0.97}))

    for part in (reads, speed):
        assert part.estimated is not None
        assert part.refuting is not None
        assert part.estimated.comparison.alpha == pytest.approx(0.05)
        assert part.refuting.alpha == pytest.approx(0.025)


def test_neither_verdict_is_given_by_chance_more_often_than_the_level(reads_and_speed: Evidence) -> None:
    """Both metrics at the end of their margins, on either side of it: 5 % in two tails, here 2.5 % of one claim."""
    rng = np.random.default_rng(5)
    wrong = {Verdict.SUPPORTED: 0, Verdict.REFUTED: 0}
    number, at_margin = 400, {READS: 1 / 1.1, TPS: 1 / 1.05}
    for _ in range(number):
        noise = {metric: np.exp(rng.normal(0, 0.03, 6)).tolist() for metric in at_margin}
        # A hair beyond the margin is a claim that is wrong, or right, in both.
        for verdict, shift in ((Verdict.SUPPORTED, {READS: 1.0, TPS: 2.0}), (Verdict.REFUTED, {READS: 1.0, TPS: 1.0})):
            truth = {metric: ratio * shift[metric] for metric, ratio in at_margin.items()}
            parts = estimate_parts(reads_and_speed, simulate(reads_and_speed, truth, noise))
            verdict_ = judge_together([judge_part(reads_and_speed, part)[0] for part in parts])
            wrong[verdict] += verdict_ is verdict

    # One-sided at 2.5 % each: four standard errors above it.
    assert wrong[Verdict.SUPPORTED] / number < 0.025 + 4 * (0.025 * 0.975 / number) ** 0.5
    assert wrong[Verdict.REFUTED] / number < 0.025 + 4 * (0.025 * 0.975 / number) ** 0.5


@pytest.mark.parametrize(
    ("expect", "ratio", "verdict"),
    [
        ("lower", 0.8, Verdict.SUPPORTED),
        ("lower", 1.0, Verdict.REFUTED),
        ("higher", 1.2, Verdict.SUPPORTED),
        ("higher", 0.8, Verdict.REFUTED),
    ],
)
def test_a_direction_is_claimed_of_a_metric_of_which_neither_is_better(
    evidence: Evidence, expect: str, ratio: float, verdict: Verdict
) -> None:
    asked = claim(evidence, metric="waits.LWLock", expect=expect, margin=0.1)
    finding, _ = judge_hypothesis(asked, estimate_primary(asked, simulate(asked, {"waits.LWLock": ratio})), ())

    assert finding.verdict is verdict
    assert "number of sessions in LWLock" in say(finding.reason)


def test_next_to_nothing_counts_as_the_floor(evidence: Evidence) -> None:
    asked = claim(evidence, metric="vmstat.wa", expect="better", margin=0.1)
    values = {key: value * 1e-6 for key, value in simulate(asked, {"vmstat.wa": 0.5}).items()}
    found = estimate_primary(asked, values)

    assert found is not None
    assert found.comparison.ratio == 1.0
    assert [each.metric.floor for each in claims_of(asked)] == [1e-3]


def test_a_rule_for_stopping_waits_for_the_last_metric(reads_and_speed: Evidence) -> None:
    design = reads_and_speed.experiment.design.model_copy(update={"stop": "decision", "looks": 1})
    asked = replace(reads_and_speed, experiment=reads_and_speed.experiment.model_copy(update={"design": design}))
    for reads, stops in ((0.7, True), (0.905, False)):
        values = simulate(asked, {READS: reads, TPS: 1.0})
        decision = decide(asked, estimate_primary(asked, values), estimate_parts(asked, values))
        assert decision.stop is stops


def refuted_speeds(evidence: Evidence, *, of_all: bool) -> list[float]:
    """At which throughputs of the arm the claim is refuted by it; ``of_all``: by the bounds at its share of the level
    as well.
    """
    found = []
    for speed in np.linspace(0.88, 0.96, 81):
        primary, part = estimate_parts(evidence, simulate(evidence, {READS: 0.7, TPS: float(speed)}))
        assert primary.estimated is not None
        assert part.estimated is not None
        assert part.refuting is not None
        finding, _ = judge_hypothesis(evidence, primary.estimated, (), parts=(primary, part))
        bounded = bound_primary(evidence, replace(part.estimated, comparison=part.refuting))
        assert bounded is not None
        assert bounded.comparison.high is not None
        if finding.verdict is Verdict.REFUTED and (not of_all or bounded.comparison.high < 1 / 1.05):
            found.append(float(speed))
    return found


def test_a_metric_refutes_at_its_share_of_the_level_with_failures_too(reads_and_speed: Evidence) -> None:
    """A run of the arm failed. At the full level it refutes with that, and at its share without: not with both."""
    death = next(run for run in reads_and_speed.runs if run.slot.arm == "off")
    died = replace(death, id=1000, state=RunState.INVALID, slices=(), phases=())
    failed = replace(reads_and_speed, runs=(*reads_and_speed.runs, died))
    of_old = replace(failed, rules=RULES[13])

    assert refuted_speeds(failed, of_all=False) == refuted_speeds(failed, of_all=True)
    assert set(refuted_speeds(of_old, of_all=False)) > set(refuted_speeds(of_old, of_all=True))
    assert refuted_speeds(of_old, of_all=True) == refuted_speeds(failed, of_all=True) != []


def test_a_rule_for_stopping_goes_on_where_failures_allow_no_decision(reads_and_speed: Evidence) -> None:
    design = reads_and_speed.experiment.design.model_copy(update={"stop": "decision", "looks": 1})
    asked = replace(reads_and_speed, experiment=reads_and_speed.experiment.model_copy(update={"design": design}))
    deaths = [
        replace(run, id=1000 + run.id, state=RunState.INVALID, slices=(), phases=())
        for run in asked.runs
        if run.slot.arm == "off"
    ]
    failed = replace(asked, runs=(*asked.runs, *deaths, *(replace(run, id=2000 + run.id) for run in deaths)))
    values = simulate(failed, {READS: 0.7, TPS: 1.0})
    primary, parts = estimate_primary(failed, values), estimate_parts(failed, values)

    assert judge_hypothesis(failed, primary, (), parts=parts)[0].verdict is Verdict.INCONCLUSIVE
    assert not decide(failed, primary, parts).stop
