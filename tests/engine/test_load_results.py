"""Programs that tell of their requests: when they are ready, how they end, and what makes their words worthless."""

import csv
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pgtrial.engine.loads import results
from pgtrial.engine.loads.generators import LoadOutcome, run_generators
from pgtrial.hosts.base import Account
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.hosts.operations import LOAD
from pgtrial.hosts.processes import end, find_marked, find_of_role, identify
from pgtrial.store.command_line import LineError
from pgtrial.workloads.base import Generator, Results
from pgtrial.workloads.command import OUTPUT
from support import wait_until

# One request after the other, until the program is ended.
TELL = 'while :; do echo "{\\"t\\": $(date +%s.%N), \\"latency\\": 0.25}"; sleep 0.02; done'
ONCE = 'echo "{\\"t\\": $(date +%s.%N), \\"latency\\": 0.25}"'


@pytest.fixture
def play(tmp_path: Path, runner):
    """What becomes of a program that does what this script says for ``seconds``, and what was told each second."""

    def run(
        script: str,
        *,
        seconds: float = 0.0,
        needs_lag: bool = False,
        account: Account | None = None,
        looks: int = 10**6,
        longest: float = 2.0,
        translate: Callable[[str], str] = lambda line: line,
        **others: Any,
    ):
        """It is ended when it has been looked at ``looks`` times."""
        told: list[tuple[float, float | None]] = []

        def look(tps: float, latency: float | None) -> bool:
            told.append((tps, latency))
            return len(told) >= looks

        generator = Generator(
            program="/bin/sh",
            argv_tail=("-c", script),
            environment={"PLACE": str(tmp_path)},
            scenario_names=("command",),
            clients=1,
            directory="/",
            log_prefix=None,
            results=Results(
                seconds=seconds,
                record=str(tmp_path / "record"),
                translate=translate,
                needs_lag=needs_lag,
                longest=longest,
                **others,
            ),
        )
        outcome = runner.run(
            run_generators(
                LocalHost(mark=str(tmp_path)),
                [generator],
                environment={},
                account=account,
                output=OUTPUT,
                on_second=look,
            )
        )
        return outcome, told

    yield run
    wait_until(lambda: find_marked(str(tmp_path)), lambda left: left == ())  # what was killed needs a moment to be gone


def error_of(outcome: LoadOutcome) -> str:
    (error,) = outcome.errors
    return error


def test_a_program_works_for_its_time_and_is_told_to_end(play, tmp_path):
    begun = time.time()

    outcome, _ = play(TELL, seconds=1.5)

    (summary,) = outcome.summaries
    lines = (tmp_path / "record").read_text().splitlines()
    assert outcome.errors == ()
    assert summary.processed == len(lines) > 0
    assert summary.failed == 0
    assert outcome.first_ended - outcome.started >= 1.5 + results.SPARE
    assert begun <= outcome.started == outcome.all_started


def test_a_program_is_ended_when_what_it_did_is_enough(play):
    outcome, told = play(TELL, seconds=600, looks=2)

    assert len(told) == 2
    assert all(latency == pytest.approx(0.25) for tps, latency in told if tps > 0)
    assert outcome.errors == ()


def test_its_time_begins_when_it_is_ready(play):
    outcome, _ = play(f"begun=$(date +%s.%N); echo; sleep 1; echo '{{\"ready\": true}}'; {TELL}", seconds=0.1)

    assert outcome.errors == ()
    assert outcome.first_ended - outcome.started >= 0.1 + results.SPARE


def test_failures_are_counted(play):
    outcome, _ = play(f'{ONCE}; echo "{{\\"t\\": $(date +%s.%N), \\"failed\\": true}}"; sleep 60')

    (summary,) = outcome.summaries
    assert (summary.processed, summary.failed) == (1, 1)


def test_a_program_may_end_as_it_likes_once_it_is_told_to(play):
    outcome, _ = play(f"trap 'exit 0' TERM; {TELL}")

    assert outcome.errors == ()


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo nonsense; sleep 60", "printed a line that tells of no request: it is no JSON object. The line is 'non"),
        ('echo \'{"t": 1, "latency": 1}\'; sleep 60', '"t" is not when it ended, in seconds since 1970-01-01 UTC'),
        ('echo \'{"t": 1e12, "latency": 1}\'; sleep 60', '"t" is not when it ended, in seconds since 1970-01-01 UTC'),
        # The unit of a latency is easily taken for another one.
        (f"{ONCE.replace('0.25', '3.1')}; sleep 60", "a request that took 3.1 s would have begun before the program"),
        (
            'echo "{\\"t\\": $(date +%s), \\"latencies\\": {\\"0.1\\": 5, \\"45\\": 1}}"; sleep 60',
            "a request that took 45 s would have begun before the program",
        ),
        (
            'echo "{\\"t\\": $(date +%s), \\"seconds\\": 1, \\"count\\": 9, \\"mean\\": 31}"; sleep 60',
            "a request that took 31 s would have begun before the program",
        ),
        ("head -c 2000000 /dev/zero; sleep 60", "printed a line that tells of no request"),
        ("echo cannot connect >&2; exit 3", "cannot connect"),
        (
            "echo + PGPASSWORD=hunter2xyz psql postgresql://al:hunter2xyz@db >&2; exit 3",
            "=*** psql postgresql://al:***@db",
        ),
        ("exit 3", "it ended with status 3 and said nothing"),
        ("kill -9 $$", "it ended with status -9 and said nothing"),
        (f"{ONCE}; trap 'exit 7' TERM; while :; do sleep 0.05; done", "it ended with status 7 and said nothing"),
    ],
)
def test_what_makes_the_words_of_a_program_worthless(play, script, error):
    outcome, _ = play(script)

    assert error in error_of(outcome)


def test_a_request_at_a_rate_says_when_it_was_due(play):
    outcome, _ = play(TELL, needs_lag=True)

    assert 'it has no "lag"' in error_of(outcome)


def test_a_program_that_says_nothing_is_not_waited_for(play, monkeypatch):
    monkeypatch.setattr(results, "PATIENCE", 0.3)

    outcome, _ = play("exec sleep 600")

    assert "it printed nothing within 0.3 s" in error_of(outcome)


def test_what_a_program_waits_for_is_told_as_it_says_it(play, monkeypatch):
    monkeypatch.setattr(results, "PATIENCE", 0.5)

    outcome, _ = play("echo 'no answer from the broker, trying again' >&2; exec sleep 600")

    assert 'nothing within 0.5 s, but on its standard error "no answer from the broker, trying again"' in error_of(
        outcome
    )


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (
            "echo FATAL: no table; echo '  ^'; echo FATAL: no table; echo; echo a; echo b; echo c; exit 3",
            "FATAL: no table",
        ),
        ("echo; echo one; echo two; kill -9 $$", "one; two"),
        ("echo ERROR: PGPASSWORD=hunter2xyz; exit 3", "ERROR: PGPASSWORD=***"),
        ("echo FATAL: not that; echo but this >&2; exit 3", "but this"),
    ],
)
def test_a_program_that_fails_may_say_why_on_its_output(play, script, error):
    """As sysbench does, which prints "FATAL" there."""
    outcome, _ = play(script, translate=lambda line: None)

    assert error_of(outcome) == f"command: {error}"


def test_what_it_says_on_its_standard_error_may_tell_what_later_lines_mean(play):
    """Lines are whole though they are written, and may be read, in parts."""
    heard = list[str]()

    def translate(line: str) -> str | None:
        heard.append(line)
        return line if line.startswith("{") else None

    script = f"printf 'the fi' >&2; sleep 0.3; echo 'rst' >&2; echo last >&2; {ONCE}; sleep 60"
    outcome, _ = play(script, translate=translate, errors_tell=True)

    assert outcome.errors == ()
    assert [line for line in heard if not line.startswith("{")] == ["the first", "last"]
    assert outcome.summaries[0].processed == 1


def test_what_cannot_be_read_on_its_standard_error_is_no_trouble(play):
    def translate(line: str) -> str:
        if line == "{":
            raise LineError("it is none")
        return line

    outcome, _ = play(f"echo '{{' >&2; {ONCE}; sleep 60", translate=translate, errors_tell=True)

    assert outcome.errors == ()
    assert outcome.summaries[0].processed == 1


def test_what_is_noise_is_not_told(play):
    noise = "echo noise at its start >&2"

    assert error_of(play(f"{noise}; exit 3", is_noise=lambda line: line.startswith("noise"))[0]) == (
        "command: it ended with status 3 and said nothing"
    )
    assert error_of(play(f"{noise}; exit 3")[0]) == "command: noise at its start"


def test_a_program_that_does_not_end_is_killed_and_does_not_count(play, monkeypatch):
    monkeypatch.setattr(results, "_LAST", 0.3)

    outcome, _ = play(f"trap '' TERM; {TELL}")

    assert "it did not end within 0.3 s of SIGTERM" in error_of(outcome)


def test_a_program_that_ends_early_is_seen_by_its_end(play):
    outcome, _ = play(ONCE, seconds=30)

    assert outcome.errors == ()
    assert outcome.first_ended < outcome.started + 30


def test_what_a_program_has_started_in_its_session_ends_with_it(play, tmp_path):
    play(f"sleep 600 & echo $! > $PLACE/child; {TELL}")

    child = int((tmp_path / "child").read_text())
    wait_until(lambda: identify(child) is None)


def test_a_program_that_leaves_its_session_is_found_by_its_output(play, tmp_path):
    outcome, _ = play(f"setsid sleep 600 & {TELL}", account=server_account())

    assert "has left a program running that holds its output open" in error_of(outcome)
    left = find_of_role(str(tmp_path), LOAD)
    assert len(left) == 1
    end(left)


def test_a_program_that_hides_is_found_by_what_it_was_started_for(play, tmp_path):
    # One after the other: without an environment a process is anybody's.
    for hidden in ("setsid sleep 600", "setsid env -i /bin/sleep 600"):
        outcome, _ = play(f"{hidden} >/dev/null 2>&1 & {TELL}", account=server_account())

        assert outcome.errors == ()
        left = find_of_role(str(tmp_path), LOAD)
        assert len(left) == 1
        end(left)


def test_a_program_that_works_from_its_start_on_and_ends_itself_is_left_to_it(play):
    # It would fail if it were told to end.
    whole = 'echo "{\\"t\\": $(date +%s.%N), \\"seconds\\": 2.5, \\"count\\": 7, \\"mean\\": 0.5}"'

    outcome, _ = play(
        f"trap 'exit 9' TERM; sleep 2; {whole}", seconds=0.5, longest=60.0, begins_silently=True, ends_itself=True
    )

    (summary,) = outcome.summaries
    assert outcome.errors == ()
    assert summary.processed == 7


def test_a_program_that_does_not_end_itself_is_ended(play, monkeypatch):
    monkeypatch.setattr(results, "_LAST", 0.2)

    outcome, _ = play("while :; do sleep 0.1; done", begins_silently=True, ends_itself=True)

    assert "it did not end within 0.2 s of its time" in error_of(outcome)


def test_an_interval_is_longer_only_where_all_is_told_at_the_end(play):
    outcome, _ = play('echo "{\\"t\\": $(date +%s.%N), \\"seconds\\": 30, \\"count\\": 1}"; sleep 60')

    assert '"seconds" is not between 0 and 2' in error_of(outcome)


def test_what_a_program_left_in_a_file_is_read_when_it_has_ended(play, tmp_path):
    def left() -> Iterator[str]:
        yield (tmp_path / "left").read_text().strip()

    outcome, _ = play(f"trap '{ONCE} > $PLACE/left; exit 0' TERM; {TELL}", left=left)

    (summary,) = outcome.summaries
    assert outcome.errors == ()
    assert summary.processed == len((tmp_path / "record").read_text().splitlines())
    assert (tmp_path / "record").read_text().endswith((tmp_path / "left").read_text())  # behind what it has printed


def test_a_file_that_tells_nothing_makes_the_rest_worthless(play):
    def left() -> Iterator[str]:
        raise LineError("there are 0 files")

    outcome, _ = play(f"trap 'exit 0' TERM; {TELL}", left=left)

    assert "what it left in a file tells of no request: there are 0 files" in error_of(outcome)


def test_a_status_may_say_no_more_than_that_it_was_told_to_end(play):
    script = f"{ONCE}; trap 'exit 105' TERM; while :; do sleep 0.05; done"

    assert play(script, good_ends=frozenset({105}))[0].errors == ()


def test_a_program_that_never_stops_printing_is_still_told_to_end(play):
    outcome, _ = play("yes ''", begins_silently=True)

    assert outcome.errors == ()


@pytest.mark.parametrize("error", [OverflowError, ZeroDivisionError, RecursionError, csv.Error])
def test_a_line_that_an_adapter_cannot_read_is_told(play, error):
    def translate(_line: str) -> str:
        raise error

    outcome, _ = play("echo x; sleep 60", translate=translate)

    assert error_of(outcome) == (
        "command: it printed a line that tells of no request: what it says cannot be. The line is 'x'."
    )


@pytest.mark.parametrize("who", ["$$", "$child"])
def test_a_program_that_is_stopped_is_silent_then(play, who):
    """Also one that it has started; what there is of its requests would look like a slow server."""
    stop = f"(sleep 0.5; kill -STOP {who}; sleep 4; kill -CONT {who}) > /dev/null 2>&1 &"

    outcome, _ = play(f"sleep 900 > /dev/null 2>&1 & child=$!\n{stop}\n{TELL}", seconds=6)

    ((begin, end),) = outcome.silences
    assert outcome.started < begin < end < outcome.first_ended
    assert end - begin > 2


def test_a_program_that_is_not_stopped_for_long_is_not_silent(play):
    outcome, _ = play(f"(sleep 0.2; kill -STOP $$; sleep 0.6; kill -CONT $$) > /dev/null 2>&1 &\n{TELL}", seconds=2)

    assert outcome.silences == ()


@pytest.mark.parametrize("output", [1, 2])
def test_a_program_that_prints_much_is_not_held_up_by_its_pipe(play, monkeypatch, tmp_path, output):
    """It is read more often than others, which are left alone for longer."""
    monkeypatch.setattr(results, "_EVERY", 600.0)
    much = f"head -c 3000000 /dev/zero | tr '\\0' ' ' | fold -w 1000 >&{output}"

    outcome, _ = play(f"{ONCE}; {much}; touch $PLACE/through", seconds=60)

    assert outcome.errors == ()
    assert (tmp_path / "through").exists()


def test_a_program_whose_lines_have_no_time_is_read_more_often(play, monkeypatch, tmp_path):
    """What is read twice a second would be of a moment up to half a second later."""
    monkeypatch.setattr(results, "_EVERY", 600.0)

    def translate(line: str) -> str:
        (tmp_path / line).touch()
        return json.dumps({"t": time.time(), "latency": 0.001})

    wait = "echo {0}; while [ ! -e $PLACE/{0} ]; do sleep 0.01; done"
    waits = "; ".join(wait.format(each) for each in ("first", "second"))
    outcome, _ = play(f"{waits}; touch $PLACE/through", seconds=60, translate=translate, tells_no_time=True)

    assert outcome.errors == ()
    assert (tmp_path / "through").exists()
