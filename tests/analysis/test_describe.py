from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.analysis.describe import describe_experiment, describe_runs
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.observations import Values
from pgtrial.experiment_file.workload_table import WarmupTable
from pgtrial.findings.message import say
from pgtrial.model.run import LoadLevel, RunState


def test_the_experiment_is_told_in_plain_facts(evidence: Evidence) -> None:
    found = describe_experiment(evidence)

    assert (found.name, found.complete, found.method, found.restore) == ("commit", True, "blocks", "each-run")
    assert (found.blocks_planned, found.blocks_complete) == (6, 6)
    assert found.started is not None
    assert found.ended is not None
    assert found.started < found.ended
    assert [(arm.name, arm.role, arm.runs_done) for arm in found.arms] == [
        ("on", "control", 6),
        ("off", "candidate", 6),
        ("placebo", "placebo", 6),
    ]
    assert say(found.workload["scenarios"]) == "simple-update"
    assert say(found.workload["warm-up"]) == "until steady"
    assert found.target == {"kind": "throwaway", "postgres version": "15.7"}


def test_an_open_loop_has_its_rates_and_limits_told(mix_folder: Path) -> None:
    workload = describe_experiment(read_evidence(mix_folder)).workload

    assert say(workload["clients"]) == "4, 9"
    assert say(workload["rate"]) == "300, 600 transactions per second"
    assert say(workload["latency limit"]) == "1 s"
    assert say(workload["tries"]) == "at most 3"


def test_clients_of_arms_that_have_their_own_are_told(evidence: Evidence) -> None:
    levels = (LoadLevel(index=0, clients=40, by_arm=(40, 400)),)

    workload = describe_experiment(replace(evidence, levels=levels)).workload

    assert say(workload["clients"]) == "40 to 400 clients, by arm"


@pytest.mark.parametrize(
    ("warmup", "words"),
    [(0, "no warm-up"), (30.0, "30 s"), (WarmupTable(cap=120.0), "until steady, at most 2 min")],
)
def test_the_warm_up_is_told(evidence: Evidence, warmup: object, words: str) -> None:
    workload = evidence.experiment.workload.model_copy(update={"warmup": warmup})
    experiment = evidence.experiment.model_copy(update={"workload": workload})

    assert say(describe_experiment(replace(evidence, experiment=experiment)).workload["warm-up"]) == words


def test_every_attempt_is_listed_with_why_it_does_not_count(evidence: Evidence, values: Values) -> None:
    lost = replace(evidence.runs[0], state=RunState.INVALID, reason="the server ended")
    runs = describe_runs(replace(evidence, runs=(lost, *evidence.runs[1:])), values)

    assert (runs[0].state, runs[0].reason) == ("invalid", "the server ended")
    assert runs[1].tps == values[2, "pgbench.tps", None, "all"]
    assert runs[1].overhead == pytest.approx(4.5)
    assert [phase["name"] for phase in runs[1].phases][-2:] == ["measure", "stop"]


def test_an_experiment_that_has_not_begun_is_not_complete(evidence: Evidence) -> None:
    bare = describe_experiment(replace(evidence, slots=(), runs=(), valid=()))

    assert (bare.complete, bare.started, bare.ended) == (False, None, None)
