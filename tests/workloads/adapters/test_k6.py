import pytest

from pgtrial.store.command_line import LineError
from pgtrial.workloads.adapters import k6


def test_an_iteration_is_a_request_and_a_check_that_fails_a_failure(tell):
    # The iteration of the set-up is none.
    told = tell(k6.translate, "k6-by-manual.txt")

    assert [(each.t, each.latencies, each.failed) for each in told] == [
        (pytest.approx(1748882695.879574, abs=1e-3), ((pytest.approx(0.0570746), 1),), 0),
        (1748882696.0, (), 1),
    ]


def test_iterations_that_it_dropped_are_named():
    line = '{"metric":"dropped_iterations","type":"Point","data":{"time":"2025-06-02T18:44:56+02:00","value":7}}'

    with pytest.raises(LineError, match="k6 has dropped 7 iterations that were due: it fell behind its rate"):
        k6.translate(line)


@pytest.mark.parametrize(
    "line",
    ["{", '{"type":"Point"}', '{"type":"Point","metric":"iteration_duration","data":{"time":3,"value":1}}', "{}"],
)
def test_another_text_is_no_line_of_it(line):
    with pytest.raises(LineError, match="none that k6 writes"):
        k6.translate(line)


def test_the_scenarios_of_the_script_and_so_its_rate_are_kept():
    """k6 lets users, a duration, iterations or stages of the command replace all scenarios of the script."""
    words = k6.arrange(["k6", "run", "script.js"])

    assert words[:5] == ("env", "--unset=PGHOSTADDR", "k6", "run", "script.js")
    assert words[words.index("--out") + 1] == "json=-"
    assert not {"--vus", "-u", "--duration", "-d", "--iterations", "-i", "--stage", "-s"} & {*words}


def test_it_works_until_it_is_told_to_end():
    assert not k6.ADAPTER.ends_itself
    assert 105 in k6.ADAPTER.good_ends  # k6 was ended from outside
