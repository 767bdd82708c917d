import pytest

from pgtrial.store.command_line import READY, LineError, parse_line
from pgtrial.workloads.adapters import benchbase

CONFIGURATION = "<terminals>{clients}</terminals><work><time>{seconds}</time><rate>unlimited</rate></work>"


def test_it_begins_with_its_measurement_and_tells_at_its_end_what_failed(tell, clock):
    ready, failed = tell(benchbase.translator({}, now=clock), "benchbase.txt")

    assert ready is READY
    # What a benchmark rolls back as it is meant to is no failure.
    assert (failed.failed, failed.done) == (3, 0)
    assert failed.t - failed.seconds == pytest.approx(1600000001)
    assert failed.seconds == pytest.approx(60.000043)


def test_a_transaction_ends_its_latency_after_its_start(captured):
    told = [parse_line(line) for line in benchbase.read(captured("benchbase.raw.csv").splitlines())]

    assert [each.latencies for each in told] == [((0.00231, 1),), ((0.00412, 1),)]
    assert told[0].t == pytest.approx(1755880158.56952)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "Start Time (microseconds),Latency (microseconds)\nx,1\n", "a\n1\n2\n"])
def test_another_file_is_none_of_it(text):
    with pytest.raises(LineError, match="none that BenchBase writes"):
        list(benchbase.read(text.splitlines()))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("unlimited", "1000", "leaves the wait in its queue out of its latencies"),
        ("<rate>unlimited</rate>", "", "leaves the wait in its queue out of its latencies"),
        ("{seconds}", "60", "<time> has to be {seconds}"),
        ("{clients}", "8", "<terminals> has to be {clients}"),
    ],
)
def test_a_configuration_with_figures_that_would_be_wrong_is_refused(old, new, why):
    assert benchbase.objection("tpcc.xml", CONFIGURATION) == ""
    assert why in benchbase.objection("tpcc.xml", CONFIGURATION.replace(old, new))
    assert benchbase.objection("notes.txt", "anything") == ""
