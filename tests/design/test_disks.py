"""What a disk class stands for in an arm, and what follows from arms with data of several sizes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgtrial.design.data_size import BYTES_PER_SCALE, CLUSTER_BYTES, arm_scales, cluster_size, estimate_data_size
from pgtrial.design.duration import LOAD_SECONDS_PER_SCALE, estimate_total
from pgtrial.design.levels import load_levels
from pgtrial.design.method_case import METHODS
from pgtrial.design.methods import judge_methods
from pgtrial.design.variants import host_knobs
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.generate import control_twice
from pgtrial.experiment_file.load import parse_experiment
from pgtrial.workloads.scenarios import Scenario, at_scale

DISKS = {
    "slow": {"size": "2GB", "read_iops": 3000, "write_bytes": "50MB"},
    "same-size": {"size": "2GB", "read_iops": 10000},
    "xfs": {"size": "2GB", "type": "xfs", "options": "noatime", "data": "/mnt/images"},
    "real": {"data": "/mnt/disk", "wal": "/mnt/wal", "read_iops": 16000},
}


def experiment(**tables: Mapping[str, Any]) -> Experiment:
    head = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "select-only"}}
    return Experiment.model_validate(head | tables)


def on_disks(**target: Any) -> Experiment:
    factor = {"knob": "storage", "levels": list(DISKS)}
    return experiment(disks=DISKS, factors={"disk": factor}, target=target)


def test_an_emulated_disk_is_a_file_system_in_an_image_and_limits_of_the_control_group() -> None:
    found = on_disks(cgroup={"memory": "256MB"})
    slow, _, xfs, real = resolve_arms(found)

    assert slow.knobs == {
        "cgroup": {"memory": "256MB", "read_iops": "3000", "write_bytes": "50MB"},
        "filesystem": {"type": "ext4", "size": "2GB"},
    }
    assert xfs.knobs["filesystem"] == {"type": "xfs", "size": "2GB", "options": "noatime"}
    assert xfs.variant.data == "/mnt/images"
    assert real.knobs == {
        "cgroup": {"memory": "256MB"},
        "storage": {"data": "/mnt/disk", "wal": "/mnt/wal"},
    }
    assert [arm.is_emulated for arm in (slow, xfs, real)] == [True, True, False]


def test_the_declared_class_stays_what_the_arm_declares() -> None:
    found = on_disks()
    arms = resolve_arms(found)

    assert [arm.name for arm in arms] == ["disk=slow", "disk=same-size", "disk=xfs", "disk=real"]
    assert arms[0].own_knobs["storage"] == {"disk": "slow"}
    assert [arm.disk for arm in arms] == list(DISKS)


def test_a_class_for_all_arms_stands_in_the_target() -> None:
    found = experiment(
        disks=DISKS, target={"storage": {"disk": "slow"}}, arms={"a": {}, "b": {"storage": {"disk": "real"}}}
    )
    a, b = resolve_arms(found)

    assert (a.disk, b.disk) == ("slow", "real")
    assert a.is_emulated
    assert not b.is_emulated


def test_arms_without_a_class_are_on_no_emulation() -> None:
    found = experiment(arms={"a": {}, "b": {"filesystem": {"type": "ext4", "size": "1GB"}}})

    assert [arm.disk for arm in resolve_arms(found)] == [None, None]
    assert not any(arm.is_emulated for arm in resolve_arms(found))


def test_classes_that_differ_in_limits_alone_share_an_image() -> None:
    found = on_disks()
    slow, same_size, *_ = arms = resolve_arms(found)

    assert slow.variant == same_size.variant
    assert len({arm.variant for arm in arms}) == 3
    assert host_knobs(slow) == {"cgroup": {"read_iops": "3000", "write_bytes": "50MB"}}


def test_arms_with_data_of_another_size_have_a_cluster_of_their_own() -> None:
    found = experiment(factors={"scale": {"knob": "dataset", "levels": [1, 20, 300]}}, dataset={"scale": 5})
    arms = resolve_arms(found)

    assert [arm.scale for arm in arms] == [1, 20, 300]
    assert [arm.variant.scale for arm in arms] == [1, 20, 300]
    assert len({arm.variant.key for arm in arms}) == 3


def test_arms_that_say_nothing_have_the_scale_of_the_dataset() -> None:
    found = experiment(arms={"a": {}, "b": {"dataset": {"scale": 7}}}, dataset={"scale": 5})

    assert arm_scales(resolve_arms(found)) == (5, 7)


def test_data_made_by_sql_have_no_scale() -> None:
    found = experiment(arms={"a": {}, "b": {}}, dataset={"kind": "sql", "setup": "x.sql"})

    assert resolve_arms(found)[0].variant.scale is None


def test_room_is_planned_for_the_largest_data_and_time_for_all_of_them() -> None:
    small = experiment(arms={"a": {}, "b": {}}, dataset={"scale": 10})
    both = experiment(factors={"scale": {"knob": "dataset", "levels": [10, 100]}})

    assert estimate_data_size(both, resolve_arms(both)) == CLUSTER_BYTES + 100 * BYTES_PER_SCALE["pgbench"]
    assert cluster_size("pgbench", 10) == estimate_data_size(small, resolve_arms(small))
    more, less = (estimate_total(one, resolve_arms(one), blocks=2).prepare for one in (both, small))
    assert more - less >= 100 * LOAD_SECONDS_PER_SCALE["pgbench"]


def test_arms_with_data_of_several_sizes_take_turns_only_if_somebody_asks_for_it() -> None:
    found = experiment(factors={"scale": {"knob": "dataset", "levels": [10, 20]}})
    judged = judge_methods(found, resolve_arms(found), load_levels(found.workload), None)

    assert {one.method for one in judged if one.valid and not one.doubtful} == {"blocks"}
    assert set(METHODS) > {"blocks"}


def test_scripts_run_on_tables_of_the_arms_own_scale() -> None:
    own = Scenario(name="own", script="", variables=(("scale", "10"), ("rows", "3")))
    builtin = Scenario(name="select-only", builtin="select-only")

    assert at_scale((own, builtin), 40) == (
        Scenario(name="own", script="", variables=(("scale", "40"), ("rows", "3"))),
        builtin,
    )
    assert at_scale([own], None) == (own,)


def test_a_calibration_keeps_the_class_of_the_control() -> None:
    text = """
        format = 1
        experiment = { name = "x" }
        [workload]
        mix = "select-only"
        [disks.slow]
        size = "1GB"
        read_iops = 100
        [arms.a.storage]
        disk = "slow"
        [arms.b]
    """
    made = parse_experiment(text, "x", Path("/")).experiment
    found = parse_experiment(control_twice(made, name="twice"), "twice", Path("/"), check_files=False).experiment

    assert [arm.disk for arm in resolve_arms(found)] == ["slow", "slow"]
