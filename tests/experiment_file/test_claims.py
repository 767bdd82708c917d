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


@pytest.mark.parametrize(
    "wanted",
    [
        'metric = "pgbench.latency_p99"\nat_most = "20ms"',
        'metric = "pgbench.latency_p99"\nat_most = 0.02\nscenario = "read"\narm = "b"',
        'metric = "pgbench.tps"\nat_least = 500',
        'metric = "iostat.util"\nat_most = "80%"',
    ],
)
def test_what_is_enough_can_be_said_of_every_metric(wanted: str) -> None:
    assert not find(f"[[acceptance]]\n{wanted}\n")


@pytest.mark.parametrize(
    ("wanted", "path", "message", "hint"),
    [
        ('metric = "pgbench.latency_p9"\nat_most = 1', "acceptance[0].metric", "unrecognized metric", "latency_p9"),
        ('metric = "fio.iops"\nat_least = 1', "acceptance[0].metric", "unrecognized metric", ""),
        ('metric = "pgbench.failures"\nat_most = "1%"', "acceptance[0].metric", "has no limit", "always told"),
        ('metric = "pgbench.tps"\nat_least = "20ms"', "acceptance[0].at_least", "wrong unit", "without a unit"),
        ('metric = "pgbench.latency_p99"\nat_most = "9%"', "acceptance[0].at_most", "wrong unit", '"5ms"'),
        ('metric = "pgbench.latency_p99"\nat_most = 0', "acceptance[0].at_most", "above 0", ""),
        ('metric = "pgbench.tps"\nat_most = 1\nat_least = 1', "acceptance[0]", 'either "at_most" or "at_least"', ""),
        ('metric = "pgbench.tps"', "acceptance[0]", 'either "at_most" or "at_least"', ""),
        ('metric = "pgbench.tps"\nat_least = 1\narm = "c"', "acceptance[0].arm", "does not exist", ""),
        ('metric = "pgbench.tps"\nat_least = 1\nscenario = "x"', "acceptance[0].scenario", "does not exist", ""),
        ('metric = "vmstat.wa"\nat_most = 1\nscenario = "read"', "acceptance[0].scenario", "all scenarios", ""),
    ],
)
def test_what_cannot_be_enough_is_told_where_it_stands(wanted: str, path: str, message: str, hint: str) -> None:
    (problem,) = find(f"[[acceptance]]\n{wanted}\n").values()
    assert problem.path == path
    assert message in problem.message
    assert hint in problem.hint


def test_one_bracket_is_told() -> None:
    (problem,) = find('[acceptance]\nmetric = "pgbench.tps"\nat_least = 1\n').values()
    assert "two brackets" in problem.hint
