"""Generators that speak otherwise than pgbench: progress on standard output, the summary with the complaints."""

from pathlib import Path

import pytest

from pgtrial.engine.loads.generators import LoadOutcome, run_generators
from pgtrial.hosts.base import Host
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.ssh.host import SshHost
from pgtrial.workloads.base import Generator
from pgtrial.workloads.fio import OUTPUT

REPORT = '{\n"jobs": [{"error": 0, "read": {"total_ios": 30}}]\n}'
PROGRESS = "Jobs: 1 (f=1): [r(1)][50.0%][r=8KiB/s][r=10 IOPS][eta 00m:01s]"


@pytest.fixture
def play(tmp_path: Path, runner):
    """What becomes of programs that do what these scripts say, and what was told each second."""

    def run(*scripts: str, host: Host | None = None) -> tuple[LoadOutcome, list[tuple[float, float | None]]]:
        told: list[tuple[float, float | None]] = []
        generators = [
            Generator(
                program="/bin/sh",
                argv_tail=("-c", script),
                environment={},
                scenario_names=(f"job{k}",),
                clients=1,
                directory="/",
                log_prefix=None,
            )
            for k, script in enumerate(scripts)
        ]

        def listen(tps: float, latency: float | None) -> bool:
            told.append((tps, latency))
            return False

        outcome = runner.run(
            run_generators(
                host or LocalHost(mark=str(tmp_path)),
                generators,
                environment={},
                output=OUTPUT,
                on_second=listen,
            )
        )
        return outcome, told

    return run


def test_progress_of_all_is_added_up_and_has_no_latency(play) -> None:
    script = f"printf '\\r{PROGRESS}\\r\\n{PROGRESS}\\r\\n'; printf '%s\\n' '{REPORT}' > /dev/stderr"

    outcome, told = play(script.replace("50.0%", "50.0%%"), script.replace("50.0%", "50.0%%"))

    assert told == [(20, None), (20, None)]
    assert [summary.processed for summary in outcome.summaries] == [30, 30]
    assert outcome.errors == ()


def test_what_fails_is_told_in_the_words_of_the_program(play) -> None:
    outcome, _ = play("echo 'fio: no such place' >&2; exit 1")

    assert outcome.errors == ("job0: no such place",)
    assert outcome.summaries[0].processed is None


def test_a_program_that_says_nothing_is_named(play) -> None:
    outcome, _ = play("exit 3")

    assert outcome.errors == ("job0: fio ended with status 3 and printed nothing",)


STOPS = f"pid=$$; (sleep 3; kill -CONT $pid) >/dev/null 2>&1 & kill -STOP $$; printf '%s\\n' '{REPORT}' > /dev/stderr"


def test_a_program_that_is_stopped_before_its_first_line_stood_still(play) -> None:
    """It stops itself; who goes on with it is another process, which the program's end does not wait for."""
    stopped, _ = play(STOPS)
    went_on, _ = play(f"sleep 3; {STOPS.rpartition('; ')[2]}")

    ((since, until),) = stopped.silences
    assert until - since > 1.5
    assert went_on.silences == ()


def test_so_it_did_on_another_machine(play, sshd, runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGTRIAL_SSH", sshd.ssh())
    host = runner.run(SshHost.open(sshd.address))
    try:
        stopped, _ = play(STOPS, host=host)
    finally:
        runner.run(host.close())

    ((since, until),) = stopped.silences
    assert until - since > 1.5
