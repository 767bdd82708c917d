import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibration.trials import TPS, compare, conclude, observe, plan_trial, take_blocks
from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.effects import stopping
from pgtrial.analysis.effects.estimate import Estimated, estimate_effects, estimate_primary, find_primary
from pgtrial.analysis.effects.stopping import decide, decide_stop, describe_stopping
from pgtrial.analysis.effects.verdict import judge_hypothesis
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.observations import Values, observation
from pgtrial.findings.findings import Observation
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT
from pgtrial.model.run import RunRow, RunState
from pgtrial.model.verdict import Verdict
from pgtrial.stats.power import MoreBlocks, blocks_needed, detectable_ratio
from pgtrial.stats.sequential import nominal_levels
from support import EXPERIMENT, Simulation, write_result_folder

within = CURRENT.log_bounds

BLOCKS = 20
DECISION = (
    EXPERIMENT.replace('"10s"', '"2s"')
    .replace("blocks = 6", f'blocks = {BLOCKS}\nstop = "decision"\nseed = 1')
    .replace("placebo = true", "placebo = false")
)
Stopped = Callable[..., tuple[Evidence, Estimated | None]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """All twenty blocks of on and off, with a rule that ends at a decision; what they measured is up to the test."""
    planned = read_evidence(write_result_folder(tmp_path_factory.mktemp("stopping") / "r", text=DECISION, runs=0))
    runs = tuple(
        RunRow(id=slot.number, slot=slot, attempt=1, state=RunState.DONE, started=0.0, ended=1.0, reason="")
        for slot in planned.slots
    )
    # As the rule itself looks: the blocks that are still to come are planned looks.
    return replace(planned, runs=runs, valid=runs, is_provisional=False)


@pytest.fixture
def after(recorded: Evidence) -> Stopped:
    """The experiment as it was after some blocks, with ratios of one's own and a changed design."""

    def build(ratios: list[float], **design: object) -> tuple[Evidence, Estimated | None]:
        experiment = recorded.experiment.model_copy(
            update={"design": recorded.experiment.design.model_copy(update=design)}
        )
        valid = tuple(run for run in recorded.valid if run.slot.block <= len(ratios))
        evidence = replace(recorded, experiment=experiment, valid=valid)
        values: Values = {
            (run.id, "pgbench.tps", None, ALL): 100 * (ratios[run.slot.block - 1] if run.slot.arm == "off" else 1)
            for run in valid
        }
        return evidence, estimate_primary(evidence, values)

    return build


def spread(middle: float, blocks: int, half: float = 0.02) -> list[float]:
    return [middle * math.exp(half * (-1) ** n) for n in range(blocks)]


def test_a_large_effect_ends_the_experiment_at_the_first_look(after: Stopped) -> None:
    decision = decide(*after(spread(2.0, 6)))

    assert (decision.stop, decision.look, decision.blocks) == (True, 1, 6)
    assert say(decision.reason) == "the claim is supported"
    assert decision.forecast == MoreBlocks(blocks=None, reachable=True)


def test_before_the_first_look_nothing_ends_it(after: Stopped) -> None:
    decision = decide(*after(spread(2.0, 4)))

    assert (decision.stop, decision.look) == (False, None)
    assert decision.forecast == MoreBlocks(blocks=2, reachable=True)
    assert say(decision.reason) == (
        "the next look is after block 6; about 2 more blocks if the effect and the noise are what they look like"
    )


def test_between_two_looks_nothing_ends_it(after: Stopped) -> None:
    evidence, primary = after(spread(2.0, 8), looks=2)

    assert evidence.looks == (10, 20)
    assert not decide(evidence, primary).stop
    assert decide(*after(spread(2.0, 10), looks=2)).look == 1


def test_what_an_ordinary_interval_would_decide_is_left_open_early(after: Stopped) -> None:
    ratios = [1.04, 1.16, 1.11, 1.08, 1.14, 1.09]
    evidence, primary = after(ratios)
    _, ordinary = after(ratios, stop="never")

    assert primary is not None
    assert ordinary is not None
    assert ordinary.effect.low is not None
    assert ordinary.effect.low > 1.05
    decision = decide(evidence, primary)
    assert not decision.stop
    assert decision.forecast.blocks is not None
    assert 0 < decision.forecast.blocks <= 14


def test_no_effect_refutes_or_runs_to_the_end(after: Stopped) -> None:
    decision = decide(*after(spread(1.0, 20, half=0.01)))
    unclear = decide(*after(spread(1.05, 20)))

    assert (decision.stop, say(decision.reason)) == (True, "the claim is refuted")
    assert (unclear.stop, unclear.look) == (False, 15)
    assert say(unclear.reason) == "the claim is not decided, and all blocks are run"


def test_an_effect_on_the_margin_is_not_likely_to_be_decided(after: Stopped) -> None:
    decision = decide(*after(spread(1.05, 8)))

    assert decision.forecast == MoreBlocks(blocks=None, reachable=False)
    assert say(decision.reason).endswith("no look is likely to end it before the last block")


def test_precision_ends_when_the_interval_is_narrow(after: Stopped) -> None:
    wide = decide(*after(spread(1.0, 6), stop="precision", precision=0.02))
    narrow = decide(*after(spread(1.0, 12), stop="precision", precision=0.02))

    assert not wide.stop
    assert say(wide.reason).startswith("half the interval is 3.8 %, more than the wished 2 %; about ")
    assert wide.forecast.blocks is not None
    assert (narrow.stop, narrow.look) == (True, 7)
    assert say(narrow.reason) == "half the interval is 1.7 %, within the wished 2 %"


def test_blocks_until_a_precision_are_not_told_as_those_until_a_decision(after: Stopped) -> None:
    for half, is_ended in ((0.02, False), (0.01, True)):
        evidence, primary = after(spread(1.045, 6, half=half), stop="precision", precision=0.02)
        stopping = describe_stopping(evidence, primary)
        assert primary is not None
        assert stopping is not None
        assert (stopping.ended is not None, stopping.needed is None) == (is_ended, is_ended)
        finding, needed = judge_hypothesis(evidence, primary, (), stopping)
        alone = blocks_needed(primary.comparison, expect="better", bounds=within(0.05), better=Better.HIGHER)

        assert finding.verdict is Verdict.INCONCLUSIVE
        assert needed.blocks == alone.blocks
        assert (needed.blocks or 0) > (stopping.needed or 0) + 20
        assert say(needed.text).startswith(f"about {alone.blocks} more blocks would decide the claim (")


def test_one_block_is_too_early_for_a_forecast(after: Stopped) -> None:
    for rule in ({}, {"stop": "precision", "precision": 0.02}):
        decision = decide(*after([1.5], **rule))
        assert not decision.stop
        assert say(decision.reason).endswith("it is too early for a forecast")


def test_without_a_rule_or_a_block_nothing_ends(after: Stopped) -> None:
    assert say(decide(*after(spread(2.0, 8), stop="never")).reason) == "there is no rule for stopping"
    assert say(decide(*after([])).reason) == "no block is complete"
    assert describe_stopping(*after(spread(2.0, 8), stop="never")) is None


def test_intervals_of_all_effects_have_the_level_of_the_look(recorded: Evidence) -> None:
    eight = replace(recorded, valid=tuple(run for run in recorded.valid if run.slot.block <= 8))
    values: Values = {
        (run.id, metric, None, ALL): 10 + run.id % 7 + 5 * (run.slot.arm == "off")
        for run in eight.valid
        for metric in ("pgbench.tps", "pgbench.latency_p95", "cost.wal_bytes")
    }
    estimated = estimate_effects(eight, values, scenarios=(None,))
    level = nominal_levels(recorded.looks, BLOCKS, alpha=0.05)[2]

    assert [one.comparison.confidence for one in estimated] == pytest.approx([1 - level] * 3)
    # What is promised for the experiment stays what was asked for.
    assert {one.effect.confidence for one in estimated} == {0.95}
    primary = find_primary(eight, estimated, arm="off")
    assert primary is not None
    assert estimate_primary(eight, values) == primary


def test_before_the_first_look_effects_have_no_interval(after: Stopped) -> None:
    _, primary = after(spread(2.0, 5))

    assert primary is not None
    assert (primary.effect.low, primary.effect.high) == (None, None)
    assert primary.effect.ratio == pytest.approx(2.0, rel=0.01)
    assert "no-look-yet" in {caveat.code for caveat in primary.effect.caveats}


def test_the_findings_tell_the_rule_and_its_end(after: Stopped) -> None:
    evidence, primary = after(spread(2.0, 7))
    found = describe_stopping(evidence, primary)
    open_ = describe_stopping(*after(spread(1.05, 20)))

    assert found is not None
    assert (found.rule, found.spending, found.precision) == ("decision", "obrien-fleming", None)
    assert (found.looks[0], found.looks[-1], found.blocks, found.ended, found.needed) == (6, 20, 7, 7, None)
    assert found.level == pytest.approx(nominal_levels(evidence.looks, BLOCKS, alpha=0.05)[1])
    assert say(found.text) == "After 7 of 20 blocks: the claim is supported."
    assert open_ is not None
    assert (open_.ended, open_.needed) == (None, None)


def test_a_result_folder_is_decided_as_it_is_analysed(tmp_path: Path) -> None:
    simulation = Simulation(tps={"on": 500.0, "off": 900.0})
    folder = write_result_folder(tmp_path / "r", text=DECISION.replace("= 20", "= 8"), runs=12, simulation=simulation)
    decision, findings = decide_stop(folder), analyze(folder)

    assert (decision.stop, decision.blocks, decision.look) == (True, 6, 1)
    assert say(decision.reason) == f"the claim is {findings.hypothesis.verdict.value}"


def test_what_can_be_detected_is_so_at_the_level_of_the_look(tmp_path: Path) -> None:
    text = DECISION.replace("= 20", "= 8")
    looked, early = (
        analyze(write_result_folder(tmp_path / str(runs), text=text, runs=runs, simulation=Simulation())).noise
        for runs in (12, 10)
    )
    level = nominal_levels((6, 7, 8), 8, alpha=0.05)[0]

    assert looked.detectable == pytest.approx(detectable_ratio(looked.sd_log_ratio, 6, confidence=1 - level, degrees=4))
    assert early.sd_log_ratio is not None
    assert early.detectable is None


def test_a_folder_without_a_complete_block_goes_on(tmp_path: Path) -> None:
    assert decide_stop(write_result_folder(tmp_path / "r", text=DECISION, runs=0)).stop is False


@pytest.mark.parametrize(("placebo", "more"), [(True, 0), (False, 1)])
def test_a_look_tells_what_runs_leave_from_the_runs_of_all_arms_as_the_report_does(
    monkeypatch: pytest.MonkeyPatch, placebo: bool, more: int
) -> None:
    seeds, stopped = random.Random(3), 0
    for number in range(25):
        whole = plan_trial(seeds, blocks=12, placebo=placebo, more=more, stop="decision")
        noise = np.random.default_rng(number).normal(0, 0.02, len(whole.slots))
        evidence = replace(take_blocks(whole, 9), is_provisional=False)
        values = observe(evidence, {slot.number: off for slot, off in zip(whole.slots, noise, strict=True)})

        def observed(looked_at: Evidence, values: Values = values) -> tuple[Observation, ...]:
            return tuple(observation(run, TPS, None, ALL, values[run.id, TPS, None, ALL]) for run in looked_at.valid)

        monkeypatch.setattr(stopping, "read_evidence", lambda *_, found=evidence: found)
        monkeypatch.setattr(stopping, "_observe", observed)
        decision, reported = decide_stop(Path()), conclude(evidence, compare(evidence, values))

        assert decision.stop is (reported is not Verdict.INCONCLUSIVE)
        stopped += decision.stop
    assert 0 < stopped < 25
