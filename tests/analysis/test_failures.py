"""Attempts that did not come to a good end bear on the verdict."""

from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.analysis.effects.estimate import Estimated, estimate_effects, estimate_primary
from pgtrial.analysis.effects.failures import bound_primary
from pgtrial.analysis.effects.verdict import judge_claim
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.observations import index_values, observe_runs, observe_turns
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.model.metric import Better
from pgtrial.model.rules import RULES
from pgtrial.model.run import RunState
from pgtrial.model.verdict import Decision, Verdict
from support import EXPERIMENT, INTERLEAVED, Simulation, write_result_folder


def read(folder: Path, text: str) -> tuple[Evidence, Estimated]:
    """A clear gain, and its estimate."""
    text = text.replace("placebo = true", "placebo = false").replace('"10s"', '"4s"')
    clear = Simulation(tps={"on": 500.0, "off": 1000.0}, run_sd=0.005)
    evidence = read_evidence(write_result_folder(folder, text=text, simulation=clear))
    reduction = reduce_runs(evidence)
    primary = estimate_primary(
        evidence, index_values((*observe_runs(evidence, reduction), *observe_turns(evidence, reduction)))
    )
    assert primary is not None
    return evidence, primary


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Evidence, Estimated]:
    return read(tmp_path_factory.mktemp("failures") / "alone", EXPERIMENT)


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> tuple[Evidence, Estimated]:
    return read(tmp_path_factory.mktemp("failures") / "turns", INTERLEAVED)


def with_ended(evidence: Evidence, arms: tuple[str, ...], count: int, state: RunState) -> Evidence:
    """The evidence with ``count`` more attempts of the arms, which ended so."""
    ended = [
        replace(run, id=1000 + number * len(arms) + place, state=state, slices=(), phases=())
        for number in range(count)
        for place, run in enumerate(each for each in evidence.runs[: len(evidence.arms)] if each.slot.arm in arms)
    ]
    return replace(evidence, runs=(*evidence.runs, *ended))


def judge(evidence: Evidence, primary: Estimated) -> tuple[Verdict, str | None]:
    return judge_claim(evidence, primary.comparison, better=Better.HIGHER, bounded=bound_primary(evidence, primary))


def test_an_arm_that_ends_badly_most_of_the_time_gets_no_verdict(alone: tuple[Evidence, Estimated]) -> None:
    evidence, primary = alone
    assert judge(evidence, primary) == (Verdict.SUPPORTED, None)

    failed = with_ended(evidence, ("off",), 12, RunState.INVALID)
    assert judge(failed, primary) == (Verdict.INCONCLUSIVE, "verdict.failures")
    both = with_ended(evidence, ("off", "on"), 12, RunState.INVALID)
    assert judge(both, primary) == (Verdict.SUPPORTED, None)


def test_two_deaths_of_an_arm_leave_no_verdict_where_the_other_has_none(alone: tuple[Evidence, Estimated]) -> None:
    evidence, primary = alone
    once, twice = (with_ended(evidence, ("off",), count, RunState.INVALID) for count in (1, 2))
    both = with_ended(with_ended(evidence, ("off",), 1, RunState.INVALID), ("off", "on"), 1, RunState.INVALID)

    assert judge(once, primary) == (Verdict.SUPPORTED, None)
    assert judge(twice, primary) == (Verdict.INCONCLUSIVE, "verdict.failures")
    assert judge(both, primary) == (Verdict.SUPPORTED, None)
    assert judge(replace(twice, rules=RULES[13]), primary) == (Verdict.SUPPORTED, None)


@pytest.mark.parametrize("state", [RunState.INVALID, RunState.INTERRUPTED])
def test_what_ends_badly_after_the_last_block_of_an_arm_says_nothing_of_it(
    alone: tuple[Evidence, Estimated], state: RunState
) -> None:
    evidence, primary = alone
    settled = replace(evidence, settled={"off": max(run.slot.block for run in evidence.runs)})
    later = replace(evidence.runs[0].slot, block=settled.settled["off"] + 1, arm="on")
    ended = [replace(evidence.runs[0], id=2000 + number, slot=later, state=state) for number in range(12)]
    assert judge(replace(settled, runs=(*settled.runs, *ended)), primary) == (Verdict.SUPPORTED, None)

    failed = with_ended(settled, ("off",), 12, RunState.INVALID)
    ended_as_often = [replace(run, state=RunState.INVALID) for run in ended]
    assert judge(replace(failed, runs=(*failed.runs, *ended_as_often)), primary)[0] is Verdict.INCONCLUSIVE


def test_interruptions_of_both_arms_count_alike_and_a_single_one_does_not_cost_a_clear_verdict(
    alone: tuple[Evidence, Estimated],
) -> None:
    evidence, primary = alone
    blocks = len(evidence.pairs("off"))
    once = with_ended(evidence, ("off",), 1, RunState.INTERRUPTED)
    often = with_ended(evidence, ("off", "on"), blocks // 4 + 1, RunState.INTERRUPTED)

    found = bound_primary(once, primary)
    assert found is not None
    assert found.finding.interrupted == 1
    assert found.finding.excess == pytest.approx(2 / blocks)
    assert found.finding.low is not None
    assert primary.comparison.low is not None
    assert found.finding.low < primary.comparison.low
    assert judge(once, primary) == (Verdict.SUPPORTED, None)
    assert judge(often, primary) == (Verdict.INCONCLUSIVE, "verdict.interrupted")


def test_where_arms_share_the_time_an_interruption_is_one_of_both(turns: tuple[Evidence, Estimated]) -> None:
    evidence, primary = turns
    found = bound_primary(with_ended(evidence, ("off", "on"), 1, RunState.INTERRUPTED), primary)

    assert found is not None
    assert found.finding.interrupted == 1


def test_of_blocks_that_fail_it_is_taken_that_one_arm_failed(turns: tuple[Evidence, Estimated]) -> None:
    evidence, primary = turns
    assert judge(evidence, primary) == (Verdict.SUPPORTED, None)
    failed = with_ended(evidence, ("off", "on"), 12, RunState.INVALID)

    assert judge(failed, primary) == (Verdict.INCONCLUSIVE, "verdict.failures")
    found = bound_primary(failed, primary)
    assert found is not None
    assert [(each.arm, each.failed) for each in found.finding.arms] == [("on", 0), ("off", 12)]


def test_older_rules_do_not_weigh_them(turns: tuple[Evidence, Estimated], alone: tuple[Evidence, Estimated]) -> None:
    evidence, primary = turns
    failed = replace(with_ended(evidence, ("off", "on"), 12, RunState.INVALID), rules=RULES[2])
    assert bound_primary(failed, primary) is None

    evidence, primary = alone
    stopped = replace(with_ended(evidence, ("off",), 12, RunState.INTERRUPTED), rules=RULES[2])
    assert bound_primary(stopped, primary) is None


def test_no_effect_is_decided_of_an_arm_that_ends_badly_most_of_the_time(alone: tuple[Evidence, Estimated]) -> None:
    evidence, _ = alone
    values = index_values(observe_runs(evidence, reduce_runs(evidence)))
    failed = with_ended(evidence, ("off",), 12, RunState.INVALID)
    before, now, by_older_rules = (
        [one.effect for one in estimate_effects(each, values, scenarios=(None,))]
        for each in (evidence, failed, replace(failed, rules=RULES[4]))
    )

    assert {Decision.BETTER} <= {effect.decision for effect in before}
    assert {(effect.decision, effect.sure, effect.fails_more) for effect in now} == {
        (Decision.INCONCLUSIVE, False, True)
    }
    assert [effect.decision for effect in by_older_rules] == [effect.decision for effect in before]


def test_a_failure_in_excess_is_in_what_an_effect_may_hide(alone: tuple[Evidence, Estimated]) -> None:
    evidence, primary = alone
    failed = with_ended(evidence, ("off",), 1, RunState.INVALID)
    values = index_values(observe_runs(evidence, reduce_runs(evidence)))
    effect = next(
        one.effect
        for one in estimate_effects(failed, values, scenarios=(None,))
        if (one.effect.metric, one.effect.load_level) == ("pgbench.tps", "all")
    )

    assert effect.hidden_below > primary.effect.hidden_below
    assert effect.hidden_above > primary.effect.hidden_above
    assert not effect.fails_more


def test_by_rules_5_interruptions_of_both_arms_are_counted_together(alone: tuple[Evidence, Estimated]) -> None:
    evidence, primary = alone
    stopped = replace(with_ended(evidence, ("off",), 2, RunState.INTERRUPTED), rules=RULES[5])
    (row,) = (replace(run, id=2000, slot=replace(run.slot, arm="on")) for run in stopped.runs[-1:])
    both = replace(stopped, runs=(*stopped.runs, row))

    assert bound_primary(stopped, primary) is None
    found = bound_primary(both, primary)
    assert found is not None
    assert [(each.arm, each.failed) for each in found.finding.arms] == [("on", 1), ("off", 2)]
    assert bound_primary(replace(both, rules=RULES[4]), primary) is None
