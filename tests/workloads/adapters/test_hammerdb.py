"""On output of HammerDB 4.10, with two virtual users on one warehouse, ended by SIGTERM after ten seconds."""

import itertools

import pytest

from pgtrial.store.command_line import READY, LineError
from pgtrial.workloads.adapters import hammerdb


def test_a_count_is_of_the_second_before_it_and_procedures_that_failed_are_no_successes(tell):
    """The counter has them, too, as rollbacks."""
    halves = itertools.count()  # of a second, so that no two counts are too far apart
    # The first line of HammerDB's counter is of no time: it only says that it counts.
    ready, *told = tell(hammerdb.translator({}, now=lambda: next(halves) / 2), "hammerdb-4.10.txt")

    assert ready is READY
    assert [(each.done, each.failed) for each in told] == [
        *((2, 0), (387, 1), (631, 0), (656, 0), (779, 1), (788, 1), (752, 0), (648, 0), (676, 0))
    ]
    assert all(each.seconds == 0.5 and each.mean is None for each in told if each.done)


def test_a_counter_that_does_not_tell_each_second_is_refused():
    times = iter([0.0, 10.0])
    translate = hammerdb.translator({}, now=lambda: next(times))

    translate("0 PostgreSQL tpm")
    with pytest.raises(LineError, match='needs "tcset refreshrate 1"'):
        translate("193260 PostgreSQL tpm")


def test_a_virtual_user_that_failed_makes_the_rest_worthless():
    with pytest.raises(LineError, match="a virtual user of HammerDB has failed"):
        hammerdb.translator({})("Vuser 2:FINISHED FAILED")
