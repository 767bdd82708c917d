from collections.abc import Mapping
from typing import Any

from pgtrial.design.variants import host_knobs
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment


def experiment(**tables: Mapping[str, Any]) -> Experiment:
    head = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "olap"}}
    return Experiment.model_validate(head | tables)


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
    assert len(variants_of(found, arms)) == len({variant.key for variant in variants}) == 4
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
    }
    assert host_knobs(b) == {"sysctl": {"vm.swappiness": "60", "vm.dirty_ratio": "10"}}
    assert a.knobs["sql"] == {"apply": "SELECT 1"}
