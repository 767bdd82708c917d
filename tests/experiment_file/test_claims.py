import pytest

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.load import examine

HEAD = """
format = 1
[experiment]
name = "x"
[workload]
mix = "oltp"
[arms.a]
[arms.b.postgresql]
work_mem = "8MB"
"""


def find(text: str) -> dict[str, SpecProblem]:
    return {problem.path: problem for problem in examine(HEAD + text, None).problems}


@pytest.mark.parametrize(
    "claim",
    [
        'metric = "iostat.r_await"\nexpect = "better"',
        'metric = "iostat.r_await/vda"\nexpect = "better"',
        'metric = "waits.IO"\nexpect = "lower"',
        'metric = "wait.IO/DataFileRead"\nexpect = "lower"',
        'metric = "waits.IO"\nscenario = "read"\nexpect = "lower"',
        'metric = "stability.lowest"\nexpect = "not-worse"',
        'metric = "cost.device_reads"\nexpect = "better"\nmargin = "10%"\n[[hypothesis.and]]\nmetric = "pgbench.tps"',
    ],
)
def test_a_claim_can_be_about_whatever_a_run_has_a_number_of(claim: str) -> None:
    assert not find(f"[hypothesis]\n{claim}\n")


@pytest.mark.parametrize(
    ("claim", "path", "message", "hint"),
    [
        ('metric = "iostat.r_awayt"', "hypothesis.metric", "unrecognized metric", '"iostat.r_await"'),
        ('metric = "waits.IO"\nexpect = "better"', "hypothesis.expect", "neither direction", '"lower" or "higher"'),
        ('metric = "vmstat.wa"\nscenario = "read"', "hypothesis.scenario", "of all scenarios together", ""),
        ('metric = "fio.iops"', "hypothesis.metric", 'not of kind "pgbench"', ""),
        (
            'metric = "pgbench.tps"\n[[hypothesis.and]]\nmetric = "pgbench.tps"',
            "hypothesis.and[0].metric",
            "claimed twice",
            "",
        ),
        (
            '[[hypothesis.and]]\nmetric = "vmstat.xx"',
            "hypothesis.and[0].metric",
            "unrecognized metric",
            "",
        ),
    ],
)
def test_what_is_wrong_is_told_where_it_stands(claim: str, path: str, message: str, hint: str) -> None:
    (problem,) = find(f"[hypothesis]\n{claim}\n").values()

    assert problem.path == path
    assert message in problem.message
    assert hint in problem.hint


def test_waits_of_a_scenario_need_sessions_of_its_own() -> None:
    claim = '[hypothesis]\nmetric = "waits.IO"\nscenario = "read"\nexpect = "lower"\n'
    shared = HEAD.replace('mix = "oltp"', 'mix = "oltp"\nshare = "transactions"')
    found = {problem.path: problem for problem in examine(shared + claim, None).problems}

    assert "where these share their sessions" in found["hypothesis.scenario"].message
