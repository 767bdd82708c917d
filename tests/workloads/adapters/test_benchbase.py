"""On output of BenchBase 2023 (d2ff90f), with two terminals and YCSB."""

import pytest

from pgtrial.store.command_line import READY, LineError, parse_line
from pgtrial.workloads.adapters import benchbase

CONFIGURATION = "<terminals>{clients}</terminals><work><time>{seconds}</time><rate>unlimited</rate></work>"


def test_it_begins_with_its_measurement_and_what_it_tried_again_has_not_failed(tell, clock):
    """The server rejected one deletion, and three that read and write a row; one of these may have been given up."""
    ready, failed = tell(benchbase.translator({}, now=clock), "benchbase-2023.txt")
    all_done = tell(benchbase.translator({"ycsb.xml": "<retries>4</retries>"}, now=clock), "benchbase-2023.txt")

    assert ready is READY
    assert (failed.failed, failed.done) == (1, 0)
    assert failed.t - failed.seconds == pytest.approx(1600000001)
    assert failed.seconds == pytest.approx(4.009204052)
    assert all_done == [READY]


def test_statements_and_connections_that_failed_are_told(tell, clock):
    """A table was not there for a moment, and a session was ended."""
    ready, lost, failed = tell(benchbase.translator({}, now=clock), "benchbase-2023-failures.txt")

    assert ready is READY
    assert (lost.failed, failed.failed) == (1, 2)


def test_a_transaction_ends_its_latency_after_its_start(captured):
    told = [parse_line(line) for line in benchbase.read(captured("benchbase-2023.raw.csv").splitlines())]

    assert len(told) == 40
    assert told[0].latencies == ((0.011066, 1),)
    assert told[0].t == pytest.approx(1796134340.798473 + 0.011066)


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
    assert benchbase.objection("tpcc.xml", CONFIGURATION, ()) == ""
    assert why in benchbase.objection("tpcc.xml", CONFIGURATION.replace(old, new), ())
    assert benchbase.objection("notes.txt", "anything", ()) == ""
