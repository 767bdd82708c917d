from typing import Any

from pgtrial.experiment_file.experiment import Experiment


def experiment(**tables: Any) -> Experiment:
    head = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "select-only"}}
    return Experiment.model_validate(head | tables)


def test_every_value_is_found_with_its_place() -> None:
    made = experiment(
        target={"sysctl": {"vm.swappiness": 1}},
        factors={"n": {"knob": "cgroup", "setting": "cpus", "levels": [1, 2.5]}},
    )

    assert [(given.knob, given.key, given.value, given.path) for given in all_given(made)] == [
        ("sysctl", "vm.swappiness", "1", ("target", "sysctl", "vm.swappiness")),
        ("cgroup", "cpus", "1", ("factors", "n", "levels", 0)),
        ("cgroup", "cpus", "2.5", ("factors", "n", "levels", 1)),
    ]


def test_an_arm_has_what_is_common_then_what_it_inherits_then_its_own() -> None:
    made = experiment(
        target={"cgroup": {"memory": "1GB", "cpus": 1}, "sysctl": {"vm.swappiness": 0}},
        arms={
            "a": {"cgroup": {"memory": "2GB"}, "sysctl": {"vm.swappiness": 1}},
            "b": {"inherit": "a", "cgroup": {"memory": "3GB"}},
        },
    )

    places = {key: given.path[:2] for key, given in effective_arms(made)["b"].items()}
    assert places == {
        ("cgroup", "memory"): ("arms", "b"),
        ("cgroup", "cpus"): ("target", "cgroup"),
        ("sysctl", "vm.swappiness"): ("arms", "a"),
    }


def test_a_combination_has_one_level_of_every_factor() -> None:
    made = experiment(
        target={"cgroup": {"memory": "1GB"}},
        factors={
            "memory": {"knob": "cgroup", "levels": ["2GB", "3GB"]},
            "vm.swappiness": {"knob": "sysctl", "levels": [1, 60]},
        },
    )

    arms = effective_arms(made)
    assert [[given.value for given in arm.values()] for arm in arms.values()] == [
        ["2GB", "1"],
        ["2GB", "60"],
        ["3GB", "1"],
        ["3GB", "60"],
    ]


def test_what_cannot_be_resolved_does_no_harm() -> None:
    circle = experiment(
        arms={"a": {"inherit": "b", "cgroup": {"cpus": 1}}, "b": {"inherit": "a"}, "c": {"inherit": "x"}}
    )
    many = experiment(factors={f"f{n}": {"levels": [1, 2, 3]} for n in range(4)})

    assert {name: len(arm) for name, arm in effective_arms(circle).items()} == {"a": 1, "b": 1, "c": 0}
    assert effective_arms(many) == {}
