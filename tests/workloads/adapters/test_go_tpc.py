import pytest

from pgtrial.store.command_line import LineError
from pgtrial.workloads.adapters import go_tpc


def test_an_interval_has_the_mean_of_all_operations_and_what_failed(tell, clock):
    (told,) = tell(go_tpc.translator({}, now=clock), "go-tpc.txt")  # the summary at the end is passed over

    assert (told.t, told.seconds, told.done, told.failed) == (1600000001, 1.0, 100, 2)
    assert told.mean == pytest.approx(0.015)


def test_it_is_called_with_what_it_needs():
    words = go_tpc.arrange(["go-tpc", "tpcc", "--warehouses=4"])

    assert words[:4] == ("go-tpc", "tpcc", "--warehouses=4", "run")
    assert {"--host={host}", "--threads={clients}", "--output=json", "--interval=1s"} <= {*words}


@pytest.mark.parametrize("line", ['[{"Prefix": 1}]', "[{", '[{"Prefix":"[Current] ","Operation":"A"}]'])
def test_another_text_is_no_line_of_it(line):
    with pytest.raises(LineError, match="none that go-tpc prints"):
        go_tpc.translator({})(line)
