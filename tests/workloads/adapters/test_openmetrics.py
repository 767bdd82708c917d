import pytest

from pgtrial.store.command_line import READY, LineError
from pgtrial.workloads.adapters import openmetrics


def test_the_text_at_the_end_tells_of_all_its_time(tell, clock):
    ready, whole = tell(openmetrics.translator({}, now=clock), "openmetrics.txt")

    assert ready is READY
    assert (whole.t, whole.seconds) == (1600000002, 1.0)  # since it was ready, which is later than it was created
    assert (whole.done, whole.failed) == (150, 4)
    assert whole.mean == pytest.approx(0.1)
    assert whole.latencies == ()


def test_without_times_there_are_none(clock):
    translate = openmetrics.translator({}, now=clock)

    assert translate('{"ready": true}') is not None
    assert translate("requests_total 7") is None
    assert "mean" not in translate("# EOF")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["requests_total 7", "# EOF"], 'has not said {"ready": true}'),
        (['{"t": 1600000000, "latency": 1}'], "stands before"),
        (["not a sample at all!"], "no sample of OpenMetrics"),
        (["requests_total many"], "its value is no number"),
        (["requests_total -1"], "its value is no number"),
        (['{"ready": true}', "requests_total 7", "requests_total 7"], "the same sample twice"),
        (['{"ready": true}', *["requests_total 7", "# EOF"] * 2], "a text behind its # EOF"),
        (['{"ready": true}', "memory 3", "# EOF"], "neither requests_total nor request_duration_seconds_count"),
    ],
)
def test_what_is_wrong_is_said(lines, why, clock):
    translate = openmetrics.translator({}, now=clock)

    with pytest.raises(LineError, match=why):
        _ = [translate(line) for line in lines]
