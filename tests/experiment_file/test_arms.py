from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.design.data_size import estimate_data_size, largest_files
from pgtrial.design.variants import host_knobs
from pgtrial.errors import SpecError
from pgtrial.experiment_file.arms import all_declared, arm_values, combination_names, complete_arm, resolve_arms
from pgtrial.experiment_file.experiment import Experiment, FactorTable
from pgtrial.experiment_file.load import parse_experiment
from pgtrial.knobs.values import value_text
from pgtrial.model.arm import Role, Variant

TEXT = """\
format = 1
[experiment]
name = "x"
[workload]
kind = "fio"
clients = 2
[[workload.job]]
name = "log"
pattern = "write"
size = "8MB"
fsync = 1
share = 3
[[workload.job]]
name = "data"
pattern = "randread"
size = "1GB"
[target.fio]
block_size = "4kB"
[arms.cold.fio]
cache = "cold"
[arms.direct.fio]
direct = true
block_size = "16kB"
[design]
cache = "warm"
"""


def experiment(**tables: Any) -> Experiment:
    head = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "select-only"}}
    return Experiment.model_validate(head | tables)


def factors(**levels: tuple[object, ...]) -> dict[str, FactorTable]:
    return {name: FactorTable(levels=values) for name, values in levels.items()}


def read(text: str = TEXT) -> Experiment:
    return parse_experiment(text, "x", Path("/")).experiment


def test_every_value_is_found_with_its_place() -> None:
    made = experiment(
        target={"sysctl": {"vm.swappiness": 1}},
        factors={"n": {"knob": "cgroup", "setting": "cpus", "levels": [1, 2.5]}},
    )

    assert [(declared.knob, declared.key, declared.value, declared.path) for declared in all_declared(made)] == [
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

    places = {key: declared.path[:2] for key, declared in arm_values(made)["b"].items()}
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

    arms = arm_values(made)
    assert [[declared.value for declared in arm.values()] for arm in arms.values()] == [
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

    assert {name: len(arm) for name, arm in arm_values(circle).items()} == {"a": 1, "b": 1, "c": 0}
    assert arm_values(many) == {}


def test_every_combination_has_a_name_and_the_first_levels_come_first() -> None:
    made = experiment(factors={"shared_buffers": {"levels": ["128MB", "1GB"]}, "jit": {"levels": [False, True]}})
    arms = resolve_arms(made)

    assert [arm.name for arm in arms] == [
        "shared_buffers=128MB,jit=off",
        "shared_buffers=128MB,jit=on",
        "shared_buffers=1GB,jit=off",
        "shared_buffers=1GB,jit=on",
    ]
    assert arms[1].settings == {"shared_buffers": "128MB", "jit": "on"}


def test_a_factor_may_have_another_name_than_its_setting() -> None:
    arms = resolve_arms(experiment(factors={"cache": {"setting": "shared_buffers", "levels": [1024, 2048]}}))

    assert {arm.name: arm.settings for arm in arms} == {
        "cache=1024": {"shared_buffers": "1024"},
        "cache=2048": {"shared_buffers": "2048"},
    }


def test_names_that_would_be_too_long_or_alike_are_shortened() -> None:
    long = {"x" * 40: FactorTable(levels=("a", "b")), "y" * 40: FactorTable(levels=("c", "d"))}
    alike = factors(search_path=("a b", "a/b"))

    assert combination_names(long) == ["a,c", "a,d", "b,c", "b,d"]
    assert combination_names(alike) == ["combination-1", "combination-2"]


_TEXT = st.text(st.characters(categories=["L", "P"], include_characters=" "), max_size=40)


@given(st.lists(st.lists(_TEXT, min_size=2, max_size=3, unique=True), min_size=1, max_size=3))
def test_names_are_unique_and_fit_for_a_folder(levels: list[list[str]]) -> None:
    names = combination_names(factors(**{f"f{n}": tuple(values) for n, values in enumerate(levels)}))

    assert len({name.lower() for name in names}) == len(names)
    assert all(len(name) <= 63 and "/" not in name and name.isascii() and name.isprintable() for name in names)


def test_toml_values_become_the_text_that_postgresql_reads() -> None:
    assert [value_text(value) for value in (True, False, 8, 0.5, "64MB", "")] == ["on", "off", "8", "0.5", "64MB", ""]


def test_the_first_arm_is_the_control_and_values_become_text() -> None:
    b, a = resolve_arms(
        experiment(arms={"b": {"postgresql": {"jit": False, "work_mem": "1MB"}}, "a": {"postgresql": {"jit": True}}})
    )

    assert (b.name, b.role, b.own_settings) == ("b", Role.CONTROL, {"jit": "off", "work_mem": "1MB"})
    assert (a.name, a.role, a.own_settings) == ("a", Role.CANDIDATE, {"jit": "on"})


def test_the_placebo_is_a_second_copy_of_the_control() -> None:
    arms = resolve_arms(experiment(arms={"a": {"postgresql": {"jit": False}}, "b": {}}, design={"placebo": True}))

    assert (arms[-1].name, arms[-1].role, arms[-1].settings) == ("placebo", Role.PLACEBO, {"jit": "off"})
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
    assert (arms[0].name, arms[0].role, arms[0].settings) == ("x=1,y=3", Role.CONTROL, {"x": "1", "y": "3"})
    assert {arm.role for arm in arms[1:]} == {Role.CANDIDATE}


def test_an_arms_own_settings_override_the_common_ones() -> None:
    made = experiment(target={"postgresql": {"x": 1, "y": True}}, arms={"a": {}, "b": {"postgresql": {"y": False}}})
    a, b = resolve_arms(made)

    assert (a.own_settings, b.own_settings) == ({}, {"y": "off"})
    assert a.settings == {"x": "1", "y": "on"}
    assert b.settings == {"x": "1", "y": "off"}


def test_each_value_of_an_arm_has_its_place_in_the_file() -> None:
    made = experiment(
        target={"postgresql": {"x": 1, "y": 1}},
        arms={"a": {}, "b": {"inherit": "c"}, "c": {"postgresql": {"y": 2}, "sysctl": {"vm.swappiness": 1}}},
    )
    b = resolve_arms(made)[1]

    assert b.origin("postgresql", "x") == "target.postgresql.x"
    assert b.origin("postgresql", "y") == "arms.c.postgresql.y"
    assert b.origin("sysctl", "vm.swappiness") == 'arms.c.sysctl."vm.swappiness"'
    assert b.origin("sql", "apply") == "arms.b.sql.apply"


def test_a_level_that_its_knob_cannot_read_is_left_out() -> None:
    made = experiment(factors={"scale": {"knob": "dataset", "levels": ["none", 20]}}, dataset={"scale": 5})

    assert [arm.scale for arm in resolve_arms(made)] == [5, 20]
    assert [len(values) for values in arm_values(made).values()] == [0, 1]


def test_an_arm_of_an_old_folder_is_completed_from_the_experiment() -> None:
    made = experiment(target={"postgresql": {"x": 1}, "storage": {"wal": "/wal"}}, dataset={"scale": 3})
    arm = complete_arm(made, "a", Role.CONTROL, {"postgresql": {"y": "2"}, "cgroup": {"cpus": "1"}})

    assert arm.settings == {"x": "1", "y": "2"}
    assert arm.knobs == {"storage": {"wal": "/wal"}, "cgroup": {"cpus": "1"}}
    assert arm.variant == Variant(wal="/wal", scale=3)


def test_arms_share_a_cluster_unless_programs_places_or_file_system_differ() -> None:
    found = experiment(
        target={"postgres": "16"},
        arms={
            "a": {"postgresql": {"work_mem": "1MB"}, "sysctl": {"vm.swappiness": 1}},
            "b": {"server": {"postgres": "16"}, "filesystem": {"options": "noatime"}},
            "c": {"server": {"postgres": "18"}},
            "d": {"storage": {"wal": "/wal"}},
            "e": {"filesystem": {"type": "xfs", "size": "1GB"}},
        },
        design={"placebo": True},
    )
    arms = resolve_arms(found)
    variants = [arm.variant for arm in arms]

    assert variants[0] == variants[1] == variants[5]
    assert len(set(variants)) == len({variant.key for variant in variants}) == 4
    assert variants[2].postgres == "18"
    assert variants[3].wal == "/wal"
    assert dict(variants[4].filesystem) == {"type": "xfs", "size": "1GB"}


def test_a_file_system_of_its_own_is_not_made_for_each_run() -> None:
    found = experiment(
        target={"sysctl": {"vm.swappiness": 60, "vm.dirty_ratio": 10}},
        arms={
            "a": {"sysctl": {"vm.swappiness": 1}, "filesystem": {"options": "noatime"}, "sql": {"apply": "SELECT 1"}},
            "b": {"filesystem": {"type": "ext4", "size": "1GB"}},
        },
    )
    a, b = resolve_arms(found)

    assert host_knobs(a) == {
        "sysctl": {"vm.swappiness": "1", "vm.dirty_ratio": "10"},
        "filesystem": {"options": "noatime"},
        "cgroup": {"own_swappiness": "on"},
    }
    assert host_knobs(b) == {
        "sysctl": {"vm.swappiness": "60", "vm.dirty_ratio": "10"},
        "cgroup": {"own_swappiness": "on"},
    }
    assert a.knobs["sql"] == {"apply": "SELECT 1"}


def test_where_one_arm_sets_swappiness_all_have_a_group_in_which_it_governs() -> None:
    arms = {"a": {"cgroup": {"memory": "1GB"}}, "b": {"sysctl": {"vm.swappiness": 1}}}
    found = experiment(arms=arms, design={"placebo": True})

    a, b, placebo = resolve_arms(found)

    assert a.knobs["cgroup"] == placebo.knobs["cgroup"] == {"memory": "1GB", "own_swappiness": "on"}
    assert b.knobs["cgroup"] == {"own_swappiness": "on"}
    assert "cgroup" not in b.own_knobs


def test_a_server_that_is_there_stays_in_its_group() -> None:
    found = experiment(target={"kind": "server"}, arms={"a": {}, "b": {"sysctl": {"vm.swappiness": 1}}})

    assert [arm.knobs for arm in resolve_arms(found)] == [{}, {"sysctl": {"vm.swappiness": "1"}}]


def test_the_table_of_an_arm_holds_for_all_its_jobs() -> None:
    made = read()
    cold, direct = resolve_arms(made)

    assert [(job.name, job.block_size, job.direct) for job in cold.jobs] == [
        ("log", 4096, False),
        ("data", 4096, False),
    ]
    assert [(job.block_size, job.direct) for job in direct.jobs] == [(16384, True)] * 2


def test_what_a_job_does_not_say_has_its_default() -> None:
    made = read()
    log, data = resolve_arms(made)[0].jobs

    assert (log.fsync, log.share, log.engine, log.depth) == (1, 3.0, "psync", 1)
    assert (data.fsync, data.share) == (0, 1.0)
    assert (log.writes, data.writes) == (True, False)


def test_the_state_of_the_cache_is_the_arms_own_or_that_of_all() -> None:
    made = read()
    cold, direct = resolve_arms(made)

    assert (cold.cache, direct.cache) == ("cold", "warm")


def test_a_file_is_as_large_as_the_arm_with_the_largest_needs_it() -> None:
    text = TEXT.replace('size = "1GB"\n', "").replace("[arms.cold.fio]\n", "[arms.cold.fio]\nsize = '1GB'\n")
    text = text.replace('size = "8MB"\n', "").replace("[arms.direct.fio]\n", "[arms.direct.fio]\nsize = '2GB'\n")
    made = read(text)

    assert largest_files(resolve_arms(made)) == {"log": 2 << 30, "data": 2 << 30}
    assert estimate_data_size(made, resolve_arms(made)) == 4 << 30


@pytest.mark.parametrize("restore", ["each-run", "each-block", "never"])
@pytest.mark.parametrize(
    ("target", "own"),
    [({}, True), ({"kind": "server"}, True), ({"kind": "server", "database": "shop"}, False)],
    ids=["throwaway", "own database", "existing database"],
)
def test_an_existing_database_is_never_put_back(target: dict[str, Any], own: bool, restore: str) -> None:
    made = experiment(target=target, design={"restore": restore})

    assert made.restore == (restore if own else "never")
