from typing import Any

import pytest

from pgtrial.design.budget import is_open, settle_design
from pgtrial.design.duration import estimate_total
from pgtrial.design.levels import load_levels
from pgtrial.design.plan import Plan, make_plan
from pgtrial.design.registration import plan_digest
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment

WORK_MEM = {"a": {"postgresql": {"work_mem": "4MB"}}, "b": {"postgresql": {"work_mem": "8MB"}}}
CHECKPOINTS = {
    "a": {"postgresql": {"checkpoint_timeout": "30s"}},
    "b": {"postgresql": {"checkpoint_timeout": "60s"}},
}


def plan(budget: str, *, arms: dict[str, Any] = WORK_MEM, method: str = "blocks", **workload: Any) -> Plan:
    return make_plan(
        Experiment.model_validate(
            {
                "format": 1,
                "experiment": {"name": "x"},
                "workload": {"mix": "select-only", **workload},
                "dataset": {"scale": 10},
                "arms": arms,
                "design": {"budget": budget, "method": method, "seed": 1},
            }
        )
    )


@pytest.mark.parametrize("budget", ["4min", "5min", "10min", "1h"])
@pytest.mark.parametrize("arms", [WORK_MEM, CHECKPOINTS])
def test_a_budget_that_can_hold_six_blocks_has_six(budget: str, arms: dict[str, Any]) -> None:
    made = plan(budget, arms=arms)

    assert made.blocks >= 6
    assert made.estimate.total <= (made.experiment.design.budget or 0)


def test_short_runs_and_many_starts_are_preferred_to_few_long_runs() -> None:
    long, short = plan("20min", duration="30s"), plan("20min")

    assert short.blocks > 1.3 * long.blocks
    assert short.experiment.workload.duration < 20


def test_the_length_of_a_run_does_not_grow_with_the_budget() -> None:
    assert plan("30min").experiment.workload.duration == plan("2h").experiment.workload.duration


def test_what_builds_up_keeps_its_time_as_long_as_six_blocks_fit() -> None:
    assert plan("20min", arms=CHECKPOINTS).experiment.workload.duration == 30
    shorter = plan("7min", arms=CHECKPOINTS)
    assert shorter.blocks == 6
    assert 5 < shorter.experiment.workload.duration < 30


def test_a_duration_of_the_file_is_kept() -> None:
    made = plan("10min", duration="30s")

    assert made.experiment.workload.duration == 30
    assert made.method.duration is None
    assert not is_open(made.experiment)


def test_a_budget_for_few_blocks_gets_as_many_as_it_can_hold() -> None:
    made = plan("90s")

    assert 2 <= made.blocks < 6
    arms = made.arms
    assert estimate_total(made.experiment, arms, blocks=made.blocks + 1).total > 90


def test_slices_fit_into_the_duration_that_is_chosen() -> None:
    made = plan("5min", method="interleaved")

    assert made.blocks >= 6
    assert made.method.method == "interleaved"
    assert made.method.slice <= made.experiment.workload.duration


def test_what_is_registered_is_the_file_and_not_what_a_machine_makes_of_its_budget() -> None:
    made = plan("4min")
    declared = Experiment.model_validate(made.experiment.model_dump(mode="json", by_alias=True, exclude_unset=True))

    assert declared.workload.duration != made.experiment.workload.duration
    assert plan_digest(declared, made.arms) == plan_digest(made.experiment, made.arms)


def test_a_method_is_settled_for_the_chosen_duration() -> None:
    made = plan("4min", method="interleaved").experiment
    arms = resolve_arms(made)

    again, choice = settle_design(made, arms, load_levels(made.workload), None)

    assert again.workload.duration == choice.duration


def test_windows_of_a_soak_are_whole_seconds_as_runs_are() -> None:
    made = make_plan(
        Experiment.model_validate(
            {
                "format": 1,
                "experiment": {"name": "x"},
                "workload": {"mix": "select-only"},
                "arms": WORK_MEM,
                "design": {"soak": "3min", "windows": 8, "seed": 1},
            }
        )
    )

    assert made.experiment.workload.duration == 22
    assert made.blocks == 8
