"""On output of k6 1.8.1 with xk6-sql 1.0.5, of two virtual users, of whose queries some divide by zero."""

import json

import pytest

from pgtrial.store.command_line import LineError, parse_line
from pgtrial.workloads.adapters import k6


@pytest.fixture
def translate():
    return k6.translator({})


def point(metric: str, value: float, *, user: str | None = "1", **tags: str) -> str:
    data = {"time": "2026-12-02T17:09:55.5Z", "value": value, "tags": {"group": "", **tags}}
    users = {} if user is None else {"metadata": {"vu": user}}
    return json.dumps({"metric": metric, "type": "Point", "data": data | users})


def iteration(user: str) -> str:
    return point("iteration_duration", 57.1, user=user, scenario="reads")


def test_an_iteration_is_a_request(tell, translate):
    told = tell(translate, "k6-1.8.1.txt")

    done = [each for each in told if not each.failed]
    assert (len(done), len(told)) == (27, 28)  # checks of one have failed
    assert (done[0].t, done[0].latencies) == (
        pytest.approx(1796231395.62007, abs=1e-5),
        ((pytest.approx(0.117406669), 1),),
    )


def test_an_error_in_an_iteration_is_a_failure(captured, tell, translate):
    """Its points are those of any iteration: the six are to be seen in the log alone."""
    log = captured("k6-1.8.1-errors.txt").splitlines()

    assert {translate(line) for line in log} == {None}
    told = tell(translate, "k6-1.8.1.txt")
    assert [each.failed for each in told] == [1] * 7 + [0] * 21


@pytest.mark.parametrize(
    "line",
    [
        r'time="t" level=error msg="level=error executor=a scenario=b" source=console',
        r'time="t" level=error msg="\" executor=a scenario=b" source=console',
        r'time="t" level=warning msg="slow" executor=constant-vus scenario=reads',
        r'time="t" level=error msg="test run was aborted because k6 received a \'terminated\' signal"',
    ],
)
def test_what_a_script_writes_and_a_warning_are_no_errors_of_iterations(translate, line):
    translate(line)

    assert "latency" in json.loads(translate(iteration("1")))


def test_checks_that_fail_are_one_failure_of_their_iteration(translate):
    fails = point("checks", 0, scenario="reads")

    told = [translate(line) for line in (fails, fails, iteration("2"), iteration("1"), iteration("1"))]

    assert ["failed" in json.loads(line) for line in told if line is not None] == [False, True, False]


def test_a_check_of_the_set_up_fails_no_iteration(translate):
    """It has no virtual user."""
    assert translate(point("checks", 0, user=None, group="::setup")) is None
    assert "latency" in json.loads(translate(iteration("1")))


def test_it_is_told_by_no_word_of_trouble_that_it_was_ended(captured):
    noise = [line for line in captured("k6-1.8.1-errors.txt").splitlines() if k6.ADAPTER.is_noise(line)]

    assert len(noise) == 1
    assert "received a 'terminated' signal" in noise[0]


def test_iterations_that_it_dropped_are_named(translate):
    line = (
        '{"metric":"dropped_iterations","type":"Point","data":{"time":"2026-12-02T17:12:02.061Z","value":1,'
        '"tags":{"scenario":"reads"}}}'
    )

    with pytest.raises(LineError, match="k6 has dropped 1 iterations that were due: it fell behind its rate"):
        translate(line)


@pytest.mark.parametrize(
    "line",
    ["{", '{"type":"Point"}', '{"type":"Point","metric":"iteration_duration","data":{"time":3,"value":1}}', "{}"],
)
def test_another_text_is_no_line_of_it(translate, line):
    with pytest.raises(LineError, match="none that k6 writes"):
        translate(line)


def test_what_it_tells_can_be_read(translate):
    assert parse_line(translate(iteration("1"))).latencies == ((pytest.approx(0.0571), 1),)


def test_the_scenarios_of_the_script_and_so_its_rate_are_kept():
    """k6 lets users, a duration, iterations or stages of the command replace all scenarios of the script."""
    words = k6.arrange(["k6", "run", "script.js"])

    assert words[:5] == ("env", "--unset=PGHOSTADDR", "k6", "run", "script.js")
    assert words[words.index("--out") + 1] == "json=-"
    assert not {"--vus", "-u", "--duration", "-d", "--iterations", "-i", "--stage", "-s"} & {*words}


def test_it_works_until_it_is_told_to_end():
    assert not k6.ADAPTER.ends_itself
    assert 105 in k6.ADAPTER.good_ends  # k6 was ended from outside
