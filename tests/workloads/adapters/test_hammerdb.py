import pytest

from pgtrial.store.command_line import READY, LineError
from pgtrial.workloads.adapters import hammerdb


def test_a_count_is_of_the_second_before_it(tell, clock):
    # The first line of HammerDB's counter is of no time: it only says that it counts.
    told = tell(hammerdb.translator({}, now=clock), "hammerdb-by-source.txt")

    assert told[0] is READY
    assert [(each.t, each.seconds, each.done, each.mean) for each in told[1:]] == [
        (1600000002, 1.0, 3221, None),
        (1600000003, 1.0, 3222, None),
    ]


def test_a_counter_that_does_not_tell_each_second_is_refused():
    times = iter([0.0, 10.0])
    translate = hammerdb.translator({}, now=lambda: next(times))

    translate("0 PostgreSQL tpm")
    with pytest.raises(LineError, match='needs "tcset refreshrate 1"'):
        translate("193260 PostgreSQL tpm")


def test_a_virtual_user_that_failed_makes_the_rest_worthless():
    with pytest.raises(LineError, match="a virtual user of HammerDB has failed"):
        hammerdb.translator({})("Vuser 2:FINISHED FAILED")
