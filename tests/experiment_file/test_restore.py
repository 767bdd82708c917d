from typing import Any

import pytest

from pgtrial.experiment_file.experiment import Experiment


@pytest.mark.parametrize("restore", ["each-run", "each-block", "never"])
@pytest.mark.parametrize(
    ("target", "own"),
    [({}, True), ({"kind": "server"}, True), ({"kind": "server", "database": "shop"}, False)],
    ids=["throwaway", "own database", "existing database"],
)
def test_an_existing_database_is_never_put_back(target: dict[str, Any], own: bool, restore: str) -> None:
    experiment = Experiment.model_validate(
        {
            "format": 1,
            "experiment": {"name": "x"},
            "workload": {"mix": "select-only"},
            "target": target,
            "design": {"restore": restore},
        }
    )

    assert experiment.restore == (restore if own else "never")
