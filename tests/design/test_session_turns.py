"""Arms of one existing server: which of them can take turns by their sessions."""

from dataclasses import replace
from typing import Any

import pytest

from pgtrial.design.levels import load_levels
from pgtrial.design.method_case import HostFacts
from pgtrial.design.methods import Judgement, judge_methods
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment

FACTS = HostFacts(
    local=True,
    cores=((0,), (1,)),
    memory_available=16 << 30,
    session_settings=frozenset({"jit", "work_mem", "temp_buffers", "debug_io_direct", "default_statistics_target"}),
)
RECONNECTING = {
    name: {"postgresql": {"jit": name}, "workload": {"connect": "each-transaction"}} for name in ("on", "off")
}
SHOP: dict[str, Any] = {"target": {"kind": "server", "database": "shop"}, "dataset": {"kind": "existing"}}


def judge(*, facts: HostFacts | None = FACTS, setting: str = "jit", **tables: Any) -> dict[str, Judgement]:
    head = {"format": 1, "experiment": {"name": "x"}, **SHOP, "design": {"method": "auto"}}
    head["workload"] = {"scenario": [{"name": "r", "file": "r.sql"}], "duration": "30s"}
    head["arms"] = {"a": {"postgresql": {setting: "1"}}, "b": {"postgresql": {setting: "2"}}}
    made = Experiment.model_validate({**head, **tables})
    found = judge_methods(made, resolve_arms(made), load_levels(made.workload), facts)
    return {judgement.method: judgement for judgement in found}


@pytest.mark.parametrize("facts", [FACTS, None], ids=["on its machine", "by the file alone"])
def test_arms_that_differ_by_their_sessions_take_turns_and_what_they_share_is_said(facts: HostFacts | None) -> None:
    found = judge(facts=facts)["interleaved"]

    assert found.valid
    assert not found.doubtful
    assert any("one server and its caches" in text for text in found.warnings)
    assert any("goes on in the next turn" in text for text in found.warnings)


def test_a_duet_of_sessions_is_for_who_asks_for_it() -> None:
    found = judge()["duet"]

    assert found.valid
    assert found.doubtful
    assert any("stay on all CPUs" in text for text in found.warnings)
    assert judge(workload={"mix": "select-only", "rate": 10, "duration": "30s"})["duet"].valid


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"setting": "checkpoint_timeout"}, "is not a setting that each session can have"),
        ({"setting": "default_statistics_target"}, "the sessions of all arms share that"),
        ({"setting": "debug_io_direct"}, "the sessions of all arms share that"),
        ({"target": {**SHOP["target"], "settings": "server"}}, "they change for the whole server"),
        ({"target": {**SHOP["target"], "writes": True}}, "keeps its locks"),
        ({"arms": {"a": {}, "b": {"sql": {"apply": "SELECT 1", "undo": "SELECT 1"}}}}, "is not a setting"),
        (
            {"workload": {"mix": "oltp"}, "target": {"kind": "server"}, "dataset": {"kind": "pgbench"}},
            "keeps its locks",
        ),
        ({"workload": {"mix": "select-only", "rate": 10}}, "keep arriving"),
    ],
)
def test_what_sessions_share_or_cannot_have_does_not_take_turns(tables: dict[str, Any], reason: str) -> None:
    found = judge(**tables)["interleaved"]

    assert not found.valid
    assert any(reason in text for text in found.reasons), found.reasons


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"setting": "checkpoint_timeout"}, "is not a setting that each session can have"),
        ({"setting": "debug_io_direct"}, "the sessions of all arms share that"),
        ({"target": {**SHOP["target"], "settings": "role"}}, "they change for the role"),
        ({"target": {**SHOP["target"], "writes": True}}, "wait for each other's locks"),
        ({"facts": replace(FACTS, cores=((0,),))}, "need at least 2 CPUs"),
        ({"arms": RECONNECTING}, "each transaction has a new one"),
    ],
)
def test_what_sessions_share_or_no_cpus_can_be_given_to_is_no_duet(tables: dict[str, Any], reason: str) -> None:
    found = judge(**tables)["duet"]

    assert not found.valid
    assert any(reason in text for text in found.reasons), found.reasons
