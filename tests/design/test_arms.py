from collections.abc import Mapping
from typing import Any

import pytest

from pgtrial.errors import SpecError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.model.arm import Arm, Role


def experiment(**tables: Mapping[str, Any]) -> Experiment:
    head = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "olap"}}
    return Experiment.model_validate(head | tables)


def test_the_first_arm_is_the_control_and_values_become_text() -> None:
    arms = resolve_arms(
        experiment(arms={"b": {"postgresql": {"jit": False, "work_mem": "1MB"}}, "a": {"postgresql": {"jit": True}}})
    )

    assert arms == (
        Arm(name="b", role=Role.CONTROL, settings=(("jit", "off"), ("work_mem", "1MB"))),
        Arm(name="a", role=Role.CANDIDATE, settings=(("jit", "on"),)),
    )


def test_the_placebo_is_a_second_copy_of_the_control() -> None:
    arms = resolve_arms(experiment(arms={"a": {"postgresql": {"jit": False}}, "b": {}}, design={"placebo": True}))

    assert arms[-1] == Arm(name="placebo", role=Role.PLACEBO, settings=arms[0].settings)
    assert [arm.name for arm in arms] == ["a", "b", "placebo"]


def test_inherited_settings_come_first_and_are_overridden() -> None:
    arms = resolve_arms(
        experiment(
            arms={
                "a": {"postgresql": {"x": 1, "y": 1}},
                "b": {"inherit": "a", "postgresql": {"y": 2}},
                "c": {"inherit": "b", "postgresql": {"z": 3}},
            }
        )
    )

    assert dict(arms[2].settings) == {"x": "1", "y": "2", "z": "3"}


@pytest.mark.parametrize("parent", ["a", "none"])
def test_inheritance_from_itself_or_nobody_is_refused(parent: str) -> None:
    with pytest.raises(SpecError, match=f'"{parent}"'):
        resolve_arms(experiment(arms={"a": {"inherit": parent}, "b": {}}))


def test_factors_make_every_combination() -> None:
    arms = resolve_arms(experiment(factors={"x": {"levels": [1, 2]}, "y": {"levels": [3, 4, 5]}}))

    assert len(arms) == 6
    assert arms[0] == Arm(name="x=1,y=3", role=Role.CONTROL, settings=(("x", "1"), ("y", "3")))
    assert {arm.role for arm in arms[1:]} == {Role.CANDIDATE}


def test_an_arms_own_settings_override_the_common_ones() -> None:
    made = experiment(target={"postgresql": {"x": 1, "y": True}}, arms={"a": {}, "b": {"postgresql": {"y": False}}})
    a, b = resolve_arms(made)

    assert common_settings(made) == {"x": "1", "y": "on"}
    assert a.settings == {"x": "1", "y": "on"}
    assert b.settings == {"x": "1", "y": "off"}


def test_the_claim_is_about_the_second_arm_unless_it_says_otherwise() -> None:
    assert claimed_arm(experiment(arms={"a": {}, "b": {}, "c": {}})) == "b"
    assert claimed_arm(experiment(arms={"a": {}, "b": {}, "c": {}}, hypothesis={"arm": "c"})) == "c"
    assert claimed_arm(experiment(arms={"a": {}}, design={"placebo": True})) == "placebo"
