"""On output of go-tpc 1.0.12 and four commits (682637f), with two threads on a server of one warehouse."""

import pytest

from pgtrial.store.command_line import LineError
from pgtrial.workloads.adapters import go_tpc


def test_an_interval_has_the_mean_of_all_operations_and_what_failed(tell, clock):
    """A session was ended in the second one; the summary at the end is passed over."""
    *told, last = tell(go_tpc.translator({}, now=clock), "go-tpc-1.0.12-4.txt")

    assert [(each.t, each.done, each.failed) for each in told] == [
        (1600000001, 240, 0),
        (1600000002, 316, 1),
        (1600000003, 443, 0),
        (1600000004, 746, 0),
    ]
    assert all(0.9 <= each.seconds <= 1.0 for each in told)
    assert told[0].mean == pytest.approx(1560.9 / 1000 / 240)
    # It was told to end: what it did after its last interval, of half a second, it tells in no line.
    assert (last.t, last.done, last.failed) == (pytest.approx(1600000004.3), 0, 0)


def test_the_times_of_keys_and_thoughts_are_no_transactions(tell, clock):
    first, last = tell(go_tpc.translator({}, now=clock), "go-tpc-1.0.12-4-wait.txt")

    assert (first.done, first.failed, first.mean) == (2, 0, pytest.approx(0.03115))
    assert last.done == 0


def test_it_is_called_with_what_it_needs():
    words = go_tpc.arrange(["go-tpc", "tpcc", "--warehouses=4"])

    assert words[:6] == ("env", "--unset=PGHOSTADDR", "go-tpc", "tpcc", "run", "--warehouses=4")
    assert {"--host={host}", "--threads={clients}", "--output=json", "--interval=0.5s"} <= {*words}
    assert "--ignore-error" in words  # else a worker ends with its first one, and the load is less from then on


@pytest.mark.parametrize("line", ['[{"Prefix": 1}]', "[{", '[{"Prefix":"[Current] ","Operation":"A"}]'])
def test_another_text_is_no_line_of_it(line):
    with pytest.raises(LineError, match="none that go-tpc prints"):
        go_tpc.translator({})(line)


def test_how_many_processors_it_takes_is_no_word_of_trouble():
    is_noise = go_tpc.ADAPTER.is_noise

    assert is_noise("maxprocs: Leaving GOMAXPROCS=2: CPU quota undefined")
    assert is_noise("2026/12/01 14:03:18 maxprocs: Leaving GOMAXPROCS=2: CPU quota undefined")
    assert not is_noise("[2026-12-01 14:14:01] run worker 1 stopped due to timeout after 1 iterations")
