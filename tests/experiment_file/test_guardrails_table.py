from typing import Any

import pytest

from pgtrial.engine.loads.base import followed
from pgtrial.experiment_file.crosscheck import crosscheck
from pgtrial.experiment_file.experiment import Experiment

SERVER = {"kind": "server", "connection": "service=shop", "settings": "server"}


def experiment_of(target: dict[str, Any], method: str, guardrails: dict[str, Any], **workload: Any) -> Experiment:
    return Experiment.model_validate(
        {
            "format": 1,
            "experiment": {"name": "x"},
            "target": target,
            "workload": {"mix": "select-only", "duration": "10min", **workload},
            "arms": {"a": {}, "b": {"postgresql": {"work_mem": "8MB"}}},
            "design": {"method": method},
            "guardrails": guardrails,
        }
    )


def problems(*tables: Any, **workload: Any) -> list[tuple[Any, str]]:
    experiment = experiment_of(*tables, **workload)
    return [(path, message) for path, message, _ in crosscheck(experiment, None)]


@pytest.mark.parametrize(
    "limit", [{"p99": "200ms"}, {"errors": "1%"}, {"replication_lag": "10s"}, {"active": 40}, {"p99": 1, "harm": "5%"}]
)
def test_one_limit_is_enough(limit: dict[str, Any]) -> None:
    assert problems(SERVER, "switchback", limit) == []


@pytest.mark.parametrize(
    ("target", "method", "limit", "said"),
    [
        ({}, "switchback", {"p99": "200ms"}, 'guardrails have no meaning with kind = "throwaway"'),
        (SERVER, "blocks", {"p99": "200ms"}, 'guardrails have no meaning with method = "blocks"'),
        (SERVER, "auto", {"p99": "200ms"}, 'guardrails have no meaning with method = "auto"'),
        (SERVER, "switchback", {"harm": "10%"}, "guardrails have no limit"),
        (SERVER, "switchback", {}, "guardrails have no limit"),
    ],
)
def test_guardrails_without_a_meaning_are_refused(
    target: dict[str, Any], method: str, limit: dict[str, Any], said: str
) -> None:
    assert problems(target, method, limit) == [(("guardrails",), said)]


@pytest.mark.parametrize(
    ("workload", "limit", "said"),
    [
        ({"rate": 3.3}, {"p99": "2s"}, [(("workload", "rate"), "of 3.3 transactions a second no 99th percentile")]),
        ({"rate": [50, 2]}, {"p99": "2s"}, [(("workload", "rate"), "of 2 transactions a second no 99th percentile")]),
        ({"rate": 4}, {"p99": "2s"}, []),
        ({"rate": 1}, {"active": 40}, []),
        ({"threads": 2, "clients": 2}, {"active": 40}, [(("workload", "threads"), "threads have no meaning")]),
    ],
)
def test_a_probe_of_which_too_little_is_known_is_refused(
    workload: dict[str, Any], limit: dict[str, Any], said: list[tuple[Any, str]]
) -> None:
    found = problems(SERVER, "switchback", limit, **workload)

    assert [path for path, _ in found] == [path for path, _ in said]
    assert all(message.startswith(words) for (_, message), (_, words) in zip(found, said, strict=True))


def test_a_load_that_guardrails_follow_has_one_log() -> None:
    guarded = experiment_of(SERVER, "switchback", {"p99": "2s"}, clients=8)

    assert followed(guarded).threads == 1
    assert followed(guarded.model_copy(update={"guardrails": None})).threads is None
