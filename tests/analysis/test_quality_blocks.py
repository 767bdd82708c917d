import math
from dataclasses import replace
from typing import Any

import pytest

from pgtrial.analysis.effects.estimate import Estimated
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.validity import blocks
from pgtrial.findings.findings import ArmFailures, Failures, Stopping
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from pgtrial.model.caveat import Severity
from pgtrial.model.run import RunRow, RunState

Assess = Any


def with_placebo(evidence: Evidence, values: Values, ratio: float) -> Values:
    """The same values, but the placebo's throughput is ``ratio`` times the control's, with 1 % of noise."""
    noise = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0)
    changed = dict(values)
    for (control, run), factor in zip(evidence.pairs("placebo"), noise, strict=True):
        changed[run.id, "pgbench.tps", None, ALL] = ratio * factor * values[control.id, "pgbench.tps", None, ALL]
    return changed


def test_a_clean_experiment_has_no_caveat_about_its_blocks(assess: Assess) -> None:
    clean = assess()

    for check in (
        blocks.check_blocks,
        blocks.check_placebo,
        blocks.check_primary_effect,
        blocks.check_completeness,
        blocks.check_invalid_runs,
        blocks.check_torn_blocks,
        blocks.check_level_drift,
        blocks.check_restore,
    ):
        assert list(check(clean)) == []


def test_one_block_is_too_few(assess: Assess, evidence: Evidence) -> None:
    valid = tuple(run for run in evidence.valid if run.slot.block == 1)
    (caveat,) = blocks.check_blocks(assess(valid=valid))

    assert (caveat.code, caveat.severity) == ("too-few-blocks", Severity.INVALID)
    assert "1 of 6" in caveat.text
    assert caveat.hint == 'Finish the schedule with "pgtrial resume".'


def test_a_schedule_of_one_block_cannot_be_mended_by_finishing_it(assess: Assess, evidence: Evidence) -> None:
    valid = tuple(run for run in evidence.valid if run.slot.block == 1)
    slots = tuple(run.slot for run in valid)
    (caveat,) = blocks.check_blocks(assess(valid=valid, slots=slots))

    assert caveat.hint == "Plan more blocks."


def test_a_lack_of_blocks_is_told_once(assess: Assess, evidence: Evidence) -> None:
    one = assess(valid=tuple(run for run in evidence.valid if run.slot.block == 1))

    assert [caveat.code for caveat in one.primary.effect.caveats] == ["no-interval"]
    assert list(blocks.check_primary_effect(one)) == []


def test_a_lack_of_values_in_enough_blocks_is_told(assess: Assess, evidence: Evidence, values: Values) -> None:
    rest = {key: value for key, value in values.items() if evidence.valid[key[0] - 1].slot.block == 1}

    assert [caveat.code for caveat in blocks.check_primary_effect(assess(values=rest))] == ["missing-blocks"]


def test_of_which_device_a_claim_is_is_told(assess: Assess, evidence: Evidence) -> None:
    hypothesis = evidence.experiment.hypothesis.model_copy(update={"metric": "iostat.w_await"})
    experiment = evidence.experiment.model_copy(update={"hypothesis": hypothesis})
    devices = {run.id: "loop1" if run.slot.arm == "off" else "loop0" for run in evidence.valid}
    claimed = replace(assess(), evidence=replace(evidence, experiment=experiment))

    (same,) = blocks.check_device(replace(claimed, devices=dict.fromkeys(devices, "vda")))
    (own,) = blocks.check_device(replace(claimed, devices=devices))

    assert same.code == own.code == "claimed-device"
    assert say(same.message) == "The claim names no device: iostat.w_await is of vda."
    assert say(own.message) == (
        "The claim names no device: iostat.w_await is of loop0 (on), loop1 (off) and loop0 (placebo)."
    )
    assert list(blocks.check_device(replace(assess(), devices=devices))) == []
    assert list(blocks.check_device(claimed)) == []


@pytest.mark.parametrize(("runs", "text"), [(0, "has no runs yet"), (18, "None of the 18 runs finished")])
def test_without_valid_runs_there_is_nothing_to_say(assess: Assess, evidence: Evidence, runs: int, text: str) -> None:
    (caveat,) = blocks.check_blocks(assess(valid=(), runs=evidence.runs[:runs], values={}))

    assert (caveat.code, caveat.severity) == ("no-runs", Severity.INVALID)
    assert text in caveat.text


def test_a_placebo_beyond_the_margin_makes_the_method_invalid(
    assess: Assess, evidence: Evidence, values: Values
) -> None:
    (caveat,) = blocks.check_placebo(assess(values=with_placebo(evidence, values, 1.2)))

    assert (caveat.code, caveat.severity) == ("placebo-effect", Severity.INVALID)
    assert "beyond the margin of 5 %" in caveat.text


def test_a_placebo_inside_the_margin_is_a_warning(assess: Assess, evidence: Evidence, values: Values) -> None:
    (caveat,) = blocks.check_placebo(assess(values=with_placebo(evidence, values, 1.03)))

    assert (caveat.code, caveat.severity) == ("placebo-effect", Severity.WARNING)


def test_without_a_margin_a_placebo_effect_stays_a_warning(assess: Assess, evidence: Evidence, values: Values) -> None:
    hypothesis = evidence.experiment.hypothesis.model_copy(update={"margin": 0.0})
    experiment = evidence.experiment.model_copy(update={"hypothesis": hypothesis})
    (caveat,) = blocks.check_placebo(assess(experiment=experiment, values=with_placebo(evidence, values, 1.2)))

    assert caveat.severity is Severity.WARNING


def test_a_placebo_that_is_not_shown_to_be_the_same_is_told(assess: Assess, evidence: Evidence, values: Values) -> None:
    hypothesis = evidence.experiment.hypothesis.model_copy(update={"margin": 0.005})
    experiment = evidence.experiment.model_copy(update={"hypothesis": hypothesis})
    (caveat,) = blocks.check_placebo(assess(experiment=experiment, values=with_placebo(evidence, values, 1.0)))

    assert (caveat.code, caveat.severity) == ("placebo-unclear", Severity.WARNING)
    assert "the margin is 0.5 %" in caveat.text


def test_without_a_placebo_nothing_is_said_about_it(assess: Assess) -> None:
    assert list(blocks.check_placebo(replace(assess(), placebo=None))) == []


def test_caveats_of_the_primary_effect_are_caveats_of_the_experiment(assess: Assess, evidence: Evidence) -> None:
    valid = tuple(run for run in evidence.valid if run.slot.block <= 3)

    codes = {caveat.code for caveat in blocks.check_primary_effect(assess(valid=valid))}

    assert "few-blocks" in codes
    assert list(blocks.check_primary_effect(replace(assess(), primary=None))) == []


def test_an_unfinished_schedule_is_told(assess: Assess, evidence: Evidence) -> None:
    (caveat,) = blocks.check_completeness(assess(valid=evidence.valid[:-1]))

    assert caveat.code == "incomplete"
    assert caveat.text.startswith("1 of 18 planned runs have no valid data; 5 of 6 blocks")


def test_nothing_is_missing_once_the_rule_for_stopping_has_ended_the_experiment(
    assess: Assess, evidence: Evidence
) -> None:
    ended = Stopping(
        rule="decision",
        precision=None,
        spending="obrien-fleming",
        looks=(5, 6),
        blocks=5,
        ended=5,
        level=0.03,
        needed=None,
        text="After 5 of 6 blocks: the claim is supported.",
    )
    short = assess(valid=evidence.valid[:-1])
    going = ended.model_copy(update={"ended": None})

    assert list(blocks.check_completeness(replace(short, stopping=ended))) == []
    assert [c.code for c in blocks.check_completeness(replace(short, stopping=going))] == ["incomplete"]


@pytest.mark.parametrize(
    ("state", "severity"), [(RunState.INVALID, Severity.WARNING), (RunState.INTERRUPTED, Severity.INFO)]
)
def test_runs_that_do_not_count_are_told(
    assess: Assess, evidence: Evidence, state: RunState, severity: Severity
) -> None:
    lost = replace(evidence.runs[0], state=state)
    (caveat,) = blocks.check_invalid_runs(assess(runs=(lost, *evidence.runs[1:]), valid=evidence.valid[1:]))

    assert (caveat.code, caveat.severity, caveat.runs) == ("invalid-runs", severity, (lost.id,))
    assert lost.slot.arm in caveat.text


@pytest.mark.parametrize(("pause", "is_told"), [(500.0, False), (3 * 3600.0, True)])
def test_a_block_that_was_gone_on_with_hours_later_is_told(
    assess: Assess, evidence: Evidence, pause: float, is_told: bool
) -> None:
    def later(run: RunRow) -> RunRow:
        assert run.started is not None
        assert run.ended is not None
        return replace(run, started=run.started + pause, ended=run.ended + pause)

    # Between two runs of the third block, and as long between the fifth and the sixth block.
    first = next(run for run in evidence.valid if run.slot.block == 3)
    valid = tuple(later(run) if run.id > first.id else run for run in evidence.valid)
    valid = tuple(later(run) if run.slot.block == 6 else run for run in valid)
    found = list(blocks.check_torn_blocks(assess(valid=valid)))

    assert [(caveat.code, caveat.severity) for caveat in found] == ([("torn-blocks", Severity.INFO)] if is_told else [])
    assert all("1 block was interrupted between its runs and gone on with 3 h" in caveat.text for caveat in found)
    assert all("later (3): " in caveat.text for caveat in found)


def test_a_trend_of_the_control_is_told(assess: Assess, evidence: Evidence, values: Values) -> None:
    changed = {key: value * 0.5 ** evidence.valid[key[0] - 1].slot.block for key, value in values.items()}
    (caveat,) = blocks.check_level_drift(assess(values=changed))

    assert (caveat.code, caveat.severity) == ("level-drift", Severity.INFO)
    assert "by −" in caveat.text


def test_without_an_effect_there_is_no_trend_to_look_for(assess: Assess) -> None:
    assert list(blocks.check_level_drift(replace(assess(), primary=None))) == []


@pytest.mark.parametrize("restore", ["each-block", "never"])
def test_data_that_are_not_put_back_before_each_run_are_told(assess: Assess, evidence: Evidence, restore: str) -> None:
    design = evidence.experiment.design.model_copy(update={"restore": restore})
    experiment = evidence.experiment.model_copy(update={"design": design})
    (caveat,) = blocks.check_restore(assess(experiment=experiment))

    assert caveat.code == "data-not-restored"


def test_data_that_no_session_can_change_need_not_be_put_back(assess: Assess, evidence: Evidence) -> None:
    design = evidence.experiment.design.model_copy(update={"restore": "never"})
    experiment = evidence.experiment.model_copy(update={"design": design})
    read_only = {"default_transaction_read_only": ("on", "client")}
    settings = {run.id: {**evidence.settings.get(run.id, {}), **read_only} for run in evidence.valid}

    assert list(blocks.check_restore(assess(experiment=experiment, settings=settings))) == []


def test_what_a_run_leaves_for_the_next_one_is_told_where_the_interval_has_it(assess: Assess) -> None:
    assessment = assess()
    effect = assessment.primary.effect.model_copy(update={"carry_over": 1.1})
    left = replace(assessment.primary.comparison, carry_over=math.log(1.1), hidden=(0.0, 0.05))

    known = replace(assessment, primary=Estimated(effect=effect, comparison=left))
    (caveat,) = blocks.check_carry_over(known)

    assert (caveat.code, caveat.severity) == ("left-for-next-run", Severity.INFO)
    assert "differs by +10.0 %" in caveat.text
    assert list(blocks.check_carry_over(assessment)) == []


@pytest.mark.parametrize(
    ("bounds", "text"), [((0.9, 1.2), "would lie between −10.0 %"), ((None, None), "nothing bounds")]
)
def test_runs_that_pgtrial_was_ended_in_are_told(
    bounds: tuple[float | None, float | None], text: str, assess: Assess
) -> None:
    arms = tuple(ArmFailures(arm=arm, attempts=6, failed=0) for arm in ("on", "off"))
    failures = Failures(arms=arms, p_value=1.0, interrupted=2, excess=0.0, low=bounds[0], high=bounds[1])
    (caveat,) = blocks.check_unequal_failures(replace(assess(), failures=failures))

    assert (caveat.code, caveat.severity) == ("interrupted-runs", Severity.WARNING)
    assert caveat.text.startswith("pgtrial was ended in the middle of 2 runs of on or off")
    assert text in caveat.text
