from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.observations import index_values, observe_runs
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from support import Simulation, write_result_folder

TEXT = """\
format = 1
[experiment]
name = "sizes"
[hypothesis]
expect = "worse"
[workload]
kind = "fio"
duration = "10s"
clients = 2
[[workload.job]]
name = "log"
pattern = "write"
size = "1MB"
[[workload.job]]
name = "data"
pattern = "randread"
size = "1MB"
[arms.small.fio]
block_size = "4kB"
[arms.large.fio]
block_size = "16kB"
[design]
blocks = 6
"""
BLOCKS = {"small": 4096, "large": 16384}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    simulation = Simulation(tps={"small": 1000.0, "large": 100.0})
    return write_result_folder(tmp_path_factory.mktemp("files") / "r", text=TEXT, simulation=simulation)


@pytest.fixture(scope="module")
def evidence(folder: Path) -> Evidence:
    return read_evidence(folder)


@pytest.fixture(scope="module")
def reduction(evidence: Evidence) -> Reduction:
    return reduce_runs(evidence)


def test_a_load_on_files_has_metrics_of_its_own(evidence: Evidence, reduction: Reduction) -> None:
    metrics = {observation.metric for observation in observe_runs(evidence, reduction)}

    assert {"fio.bandwidth", "fio.iops", "fio.latency_mean", "fio.latency_p50", "fio.latency_p99"} <= metrics
    assert not [metric for metric in metrics if metric.startswith("pgbench.")]


def test_bandwidth_is_requests_times_their_size(evidence: Evidence, reduction: Reduction) -> None:
    values = index_values(observe_runs(evidence, reduction))

    for run in evidence.valid:
        size = BLOCKS[run.slot.arm]
        for scenario in (None, "log", "data"):
            for level in (0, ALL):
                requests = values[run.id, "fio.iops", scenario, level]
                assert values[run.id, "fio.bandwidth", scenario, level] == pytest.approx(requests * size)


def test_jobs_are_told_beside_all_of_them(evidence: Evidence, reduction: Reduction) -> None:
    values = index_values(observe_runs(evidence, reduction))

    parts = sum(values[1, "fio.iops", job, 0] for job in ("log", "data"))
    assert values[1, "fio.iops", None, 0] == pytest.approx(parts)


def test_the_verdict_is_about_bandwidth(folder: Path) -> None:
    findings = analyze(folder)

    # A tenth of the requests, each of four times the size.
    effect = next(
        effect
        for effect in findings.effects
        if (effect.metric, effect.scenario, effect.load_level) == ("fio.bandwidth", None, ALL)
    )
    assert effect.ratio == pytest.approx(0.4, rel=0.1)
    assert findings.hypothesis.verdict == "supported"
    assert "times as fast as small" in say(findings.hypothesis.reason)
    assert {series.metric for series in findings.series} == {"fio.iops", "fio.latency_mean", "fio.latency_p95"}
    assert findings.experiment.workload["kind"] == "fio"
    assert say(findings.experiment.workload["data"]) == "files of 2 MB"
    assert all(run.tps is not None for run in findings.runs)


def test_what_only_a_server_has_is_not_missed(folder: Path) -> None:
    codes = {caveat.code for caveat in analyze(folder).caveats}

    assert "settings-unknown" not in codes
