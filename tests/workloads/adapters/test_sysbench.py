"""On configurations as sysbench 1.0.20 reads them: a name up to its "=", without a space."""

import pytest

from pgtrial.workloads.adapters import sysbench


@pytest.mark.parametrize("line", ["rate=100", 'rate="100"', "rate= 100 # a second", "rate=0100"])
def test_a_rate_in_a_file_is_refused(line):
    assert "a rate of sysbench's own is not seen" in sysbench.objection(
        "a.cfg", f"tables=2\n{line}\n", ["--config-file=./a.cfg"]
    )


@pytest.mark.parametrize("line", ["rate=0", "rate=", "#rate=100", "rate_of=5", "rand-type=uniform"])
def test_a_configuration_without_a_rate_is_right(line):
    assert sysbench.objection("a.cfg", f"tables=2\n{line}\n", ["--config-file=./a.cfg"]) == ""


def test_a_file_that_is_not_named_as_the_configuration_may_have_any_lines():
    """Such as data of a script, or the script."""
    assert sysbench.objection("data.txt", "rate=100\n", ["sysbench", "own.lua", "--config-file=a.cfg"]) == ""
