"""Machines from which the load comes, without machines."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.engine.loads.machines import LoadMachine, MachineLoad, fetch_sums, find_apart, find_saturated, span
from pgtrial.errors import WorkloadError
from pgtrial.hosts.clock import ClockOffset
from pgtrial.hosts.local import LocalHost
from pgtrial.postgres.programs import Programs
from pgtrial.store.pgbench_log import LevelLog
from pgtrial.store.transactions import ingest
from pgtrial.workloads.base import Generator

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


def test_starts_further_apart_than_the_clocks_leave_in_doubt_are_said():
    # By 1 ms of doubt of each of two clocks, and none where there is one.
    assert not [*find_apart([load(10.0), load(10.0119, 10.004)], level="2 clients")]
    assert [*find_apart([load(10.0, 10.0119), load(10.004)], level="2 clients")]
    (caveat,) = find_apart([load(10.0), load(10.0131), load(10.004)], level="2 clients")

    assert caveat.code == "load-machines-apart"
    assert caveat.text == (
        "2 clients: the machines from which load comes started 13.1 ms after each other, where 10 ms are together; "
        "their clocks are known to 2 ms."
    )


def test_what_is_known_of_a_machine_is_recorded():
    facts = load(10.0, busy=0.25, offsets=(5.0, 5.2)).facts()

    assert facts == {"host": "local", "begun": [10.0], "ahead": [5.0, 5.2], "error": [0.001, 0.001], "busy": 0.25}


# -- what has been logged there ------------------------------------------------------------------------------

START = 1_795_232_577


@pytest.fixture
def logged(tmp_path: Path) -> tuple[Path, Path, Generator, LevelLog]:
    """A machine's directory and ours, a generator that ran there, and what is to be known of its log."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    generator = Generator(
        program="pgbench",
        argv_tail=(),
        environment={},
        scenario_names=("read",),
        clients=2,
        directory=str(there),
        log_prefix="level0",
        machine=0,
    )
    log = LevelLog(
        level=0,
        scenarios=("read",),
        files=(),
        window=(START, START + 10.0),
        latency_limit=None,
        has_rate=False,
        max_tries=1,
    )
    return there, here, generator, log


def fetch(logged: tuple[Path, Path, Generator, LevelLog], ahead: float = 0.0) -> tuple[Generator, ...]:
    there, here, generator, log = logged
    machine = replace(MACHINE, python=sys.executable, directory=there)
    own = MachineLoad(machine=machine, before=ClockOffset(offset=ahead, error=0.001))
    return asyncio.run(fetch_sums([generator], [log], [own], here))


def test_the_sums_of_a_log_come_home_by_our_clock_and_nothing_stays_there(logged) -> None:
    there, here, _, log = logged
    (there / "level0.7").write_text(f"0 1 1000 0 {START + 6} 500000\n0 2 1000 0 {START + 16} 0\n")
    (there / "level0.7.1").write_text(f"1 1 1000 0 {START + 6} 900000\n")

    (found,) = fetch(logged, ahead=5.0)

    assert list(there.iterdir()) == []
    assert (found.directory, found.reduced) == (str(here / "machine0"), True)
    files = tuple((here / "machine0").iterdir())
    report = ingest([replace(log, files=files, reduced=True)], here / "out.parquet")
    assert (report.transactions, report.counted, report.outside_window) == (3, 2, 1)
    assert (report.first, report.last) == (START + 1.5, START + 1.9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "0 1 1000 0 1 5\n0 1 x 0 1 5\n",
            'level 0 has a line that is not a log line: Line 2 of "{file}" on "local" is ',
        ),
        ("0 1 1000 0 1", 'level 0 ends in the middle of a line: Line 1 of "{file}" on "local" is "0 1 1000 0 1".'),
    ],
)
def test_a_log_that_is_none_is_said_with_its_machine(logged, text: str, said: str) -> None:
    file = logged[0] / "level0.7"
    file.write_text(text)

    with pytest.raises(WorkloadError) as caught:
        fetch(logged)
    assert said.format(file=file) in f"{caught.value.message}: {caught.value.detail}"


def test_a_machine_that_cannot_reduce_a_log_says_why(logged) -> None:
    file = logged[0] / "level0.7"
    file.mkdir()

    with pytest.raises(WorkloadError) as caught:
        fetch(logged)
    assert caught.value.message == f'pgbench\'s log of load level 0 cannot be read: "{file}" on "local"'
    assert "Is a directory" in caught.value.detail
