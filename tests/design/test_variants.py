from typing import Any

import pytest

from pgtrial.design.variants import stays_as_prepared
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment


def stays(*, workload: dict[str, Any] | None = None, b: dict[str, Any] | None = None, **tables: Any) -> bool:
    experiment = Experiment.model_validate(
        {
            "format": 1,
            "experiment": {"name": "x"},
            "workload": workload or {"mix": "select-only"},
            "arms": {"a": {}, "b": b or {"postgresql": {"work_mem": "8MB"}}},
            **tables,
        }
    )
    return stays_as_prepared(experiment, resolve_arms(experiment))


def test_data_that_are_only_read_stay_as_they_were_prepared() -> None:
    assert stays()
    assert stays(workload={"scenario": [{"name": "read", "builtin": "select-only"}]})


@pytest.mark.parametrize(
    "tables",
    [
        {"workload": {"mix": "simple-update"}},
        {"workload": {"scenario": [{"name": "mine", "file": "mine.sql"}]}},
        {"b": {"sql": {"apply": "CREATE INDEX ON pgbench_accounts (bid)"}}},
        {"b": {"extensions": {"create": ["pg_trgm"]}}},
        {"b": {"server": {"postgres": "18"}}},
        {"b": {"sysctl": {"vm.swappiness": 1}}},
    ],
)
def test_data_that_may_differ_afterwards_are_put_back(tables: dict[str, Any]) -> None:
    assert not stays(**tables)
