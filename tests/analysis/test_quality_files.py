"""What is said of latencies that fio tells only a part of."""

import tomllib
from collections.abc import Callable
from dataclasses import replace

import pytest

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.analysis.validity.runs import check_latencies
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.model.caveat import Severity

Assess = Callable[..., Assessment]

TEXT = """\
format = 1
[experiment]
name = "x"
[hypothesis]
metric = "METRIC"
[target.fio]
size = "1MB"
block_size = "8kB"
[workload]
kind = "fio"
[[workload.job]]
name = "log"
pattern = "write"
LOG
[[workload.job]]
name = "data"
pattern = "randread"
DATA
[arms.a]
[arms.b.memory_pressure]
share = "50%"
"""


@pytest.fixture
def check(assess: Assess, evidence: Evidence):
    def found(*, log: str = "", data: str = "", metric: str = "fio.bandwidth"):
        text = TEXT.replace("LOG", log).replace("DATA", data).replace("METRIC", metric)
        experiment = Experiment.model_validate(tomllib.loads(text))
        changed = replace(evidence, experiment=experiment, arms=resolve_arms(experiment))
        return list(check_latencies(replace(assess(), evidence=changed)))

    return found


def test_flushes_are_not_in_the_latency_of_a_write(check) -> None:
    (caveat,) = check(log="fsync = 1")

    assert (caveat.code, caveat.severity) == ("partial-latency", Severity.INFO)
    assert caveat.text.startswith("Latencies of log are those of the writes alone")
    assert "divided by them" in caveat.hint


def test_a_buffered_request_may_be_done_before_its_latency_begins(check) -> None:
    (caveat,) = check(data='engine = "libaio"\ndepth = 8')

    assert caveat.text.startswith("Latencies of data begin when the kernel has taken a request")


def test_it_is_grave_where_the_claim_is_about_a_latency(check) -> None:
    found = check(log="fsync = 8", data='engine = "io_uring"', metric="fio.latency_p99")

    assert [caveat.severity for caveat in found] == [Severity.WARNING] * 2


@pytest.mark.parametrize("data", ["", "direct = true", 'engine = "libaio"\ndirect = true'])
def test_whole_latencies_need_no_word(check, data: str) -> None:
    assert check(data=data, metric="fio.latency_p99") == []


def test_a_load_on_a_server_is_none_of_fio(assess: Assess) -> None:
    assert list(check_latencies(assess())) == []
