"""Machines from which the load comes, without machines."""

from pathlib import Path

import pytest

from pgtrial.engine.loads.machines import LoadMachine, MachineLoad, find_saturated, span
from pgtrial.hosts.clock import ClockOffset
from pgtrial.hosts.local import LocalHost
from pgtrial.postgres.programs import Programs

MACHINE = LoadMachine(
    host=LocalHost(),
    programs=Programs(directory=Path("/usr/bin"), version="17.2", major=17, origin="a test"),
    python="/usr/bin/python3",
    account=None,
    directory=Path("/var/tmp/load"),
    address="10.0.0.1",
    source="10.0.0.2",
    cpus=4,
)


def load(*begun: float, busy: float | None = None, offsets: tuple[float, float] = (0.0, 0.0)) -> MachineLoad:
    before, after = (ClockOffset(offset=offset, error=0.001) for offset in offsets)
    return MachineLoad(machine=MACHINE, before=before, begun=list(begun), after=after, busy=busy)


def test_the_span_of_starts_is_that_of_all_machines():
    assert span([load(10.004), load(10.0, 10.002)]) == (10.0, 10.004)


def test_a_clock_that_drifts_is_taken_in_the_middle_of_the_load():
    assert load(offsets=(5.0, 5.2)).ahead == pytest.approx(5.1)


def test_a_machine_without_cpu_time_left_is_named_and_no_other():
    (caveat,) = find_saturated([load(busy=0.5), load(busy=0.97), load(busy=None)])

    assert caveat.code == "load-machine-saturated"
    assert caveat.text.startswith('"local", from which load comes, used 97 % of its CPU time')


def test_what_is_known_of_a_machine_is_recorded():
    facts = load(10.0, busy=0.25, offsets=(5.0, 5.2)).facts()

    assert facts == {"host": "local", "begun": [10.0], "ahead": [5.0, 5.2], "error": [0.001, 0.001], "busy": 0.25}
