"""A knob that somebody has declared, and that nothing turns: no run of it can count."""

import sys

import pytest

# Of a knob, only what cannot be left out: a name, words for the documentation, and a table of the experiment file.
PROGRAM = """
import sys
from typing import Annotated
import pgtrial.knobs as knobs
from pgtrial.knobs.declaration import About, Knob
from pgtrial.knobs.values import Name, Table

class CpuFrequencyTable(Table):
    governor: Name | None = None

class CpuFrequency(Knob):
    name = "cpu_frequency"
    about = About(sets="the governor", takes_effect="at once", rights="root", verified="never", undone="never")

class KnobTables(knobs.KnobTables):
    cpu_frequency: Annotated[CpuFrequencyTable, CpuFrequency()] = CpuFrequencyTable()

knobs.KnobTables, knobs.KNOBS = KnobTables, {**knobs.KNOBS, "cpu_frequency": CpuFrequency()}
from pgtrial.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def call(place):
    """Run a command of a pgtrial that has the knob, on an experiment of which both arms set it."""
    governors = [("on.postgresql]", "on.cpu_frequency]"), ("off.postgresql]", "off.cpu_frequency]")]
    values = [('synchronous_commit = "on"', 'governor = "slow"'), ('synchronous_commit = "off"', 'governor = "fast"')]
    place.write_light_experiment(*governors, *values)

    def run(*arguments: str):
        return place.finish(place.start_program(sys.executable, "-c", PROGRAM, *arguments))

    return run


def test_a_plan_says_that_nothing_sets_it(call):
    said = call("plan", "small.toml").stdout

    assert "not possible here: cpu_frequency: Nothing in pgtrial sets it." in said
    assert "Nothing on the host changes" not in said


def test_it_needs_the_permission_to_change_the_host(call, place):
    result = call("run", "small.toml")

    assert result.returncode == 2
    assert "cpu_frequency.governor = slow" in result.stderr
    assert "--allow-host-changes" in result.stderr
    assert place.folders() == []


def test_its_runs_are_invalid(call, place):
    result = call("run", "small.toml", "--allow-host-changes")

    assert result.returncode == 1
    runs = place.only_folder().runs()
    assert {state for _, _, state, _ in runs} == {"invalid"}
    for _, _, _, reason in runs:
        assert "cpu_frequency.governor" in reason
        assert "which nothing has set and read back" in reason
    place.only_folder().assert_nothing_left()
