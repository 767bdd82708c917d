"""``captured/`` has what pgbench 15, 16 and 18 printed; the name is that of the situation, then the version."""

import math
import re
from pathlib import Path

import pytest

from pgtrial.workloads.pgbench_output import Progress, Summary, find_errors, parse_progress, parse_summary

CAPTURED = Path(__file__).with_name("captured")
VERSIONS = ("15", "16", "18")
LOST = [path for path in sorted(CAPTURED.glob("*.err")) if "pgbench: error" in path.read_text()]


def captured(situation: str, version: str, stream: str = "err") -> str:
    return (CAPTURED / f"{situation}.{version}.{stream}").read_text()


def progress_of(situation: str, version: str) -> list[Progress]:
    parsed = [parse_progress(line) for line in captured(situation, version).splitlines()]
    assert parsed
    return [progress for progress in parsed if progress is not None]


def summary_of(situation: str, version: str) -> Summary:
    return parse_summary(captured(situation, version, "out"))


# -- progress ---------------------------------------------------------------------------------------------------------


def test_progress_of_a_closed_loop_has_throughput_and_latency() -> None:
    line = "progress: 1795232576.688 s, 69666.8 tps, lat 0.028 ms stddev 0.147, 0 failed\n"

    assert parse_progress(line) == Progress(t=1795232576.688, tps=69666.8, latency=28e-6, failed=0)


def test_progress_of_an_open_loop_has_lag_and_skipped() -> None:
    line = "progress: 1795232578.697 s, 1951.9 tps, lat 0.097 ms stddev 0.124, 0 failed, lag 0.073 ms, 6 skipped"

    progress = parse_progress(line)

    assert progress is not None
    assert (progress.lag, progress.skipped, progress.retries) == (73e-6, 6, None)


def test_progress_with_retries_has_them() -> None:
    line = "progress: 1795232582.732 s, 3250.8 tps, lat 1.031 ms stddev 1.189, 1344 failed, 2962 retried, 6897 retries"

    progress = parse_progress(line)

    assert progress is not None
    assert (progress.failed, progress.retried, progress.retries) == (1344, 2962, 6897)


def test_a_second_without_a_transaction_has_no_latency() -> None:
    line = "progress: 1795232890.937 s, 0.0 tps, lat 0.000 ms stddev 0.000, 0 failed, lag 0.000 ms, 3 skipped"

    assert parse_progress(line) == Progress(t=1795232890.937, tps=0, latency=None, lag=None, failed=0, skipped=3)


def test_a_single_transaction_has_a_latency_though_its_deviation_is_no_number() -> None:
    progress = parse_progress("progress: 1795232892.937 s, 1.0 tps, lat 2505.972 ms stddev NaN, 0 failed")

    assert progress is not None
    assert progress.latency == pytest.approx(2.505972)


def test_fields_that_are_not_known_are_passed_over() -> None:
    line = "progress: 5.0 s, 10.0 tps, lat 1.000 ms stddev 0.1 p99 2.0, 7 lost, 2 failed, zig 5 ms, lag 0.5 ms, 3 zags"

    assert parse_progress(line) == Progress(t=5, tps=10, latency=1e-3, lag=5e-4, failed=2)


@pytest.mark.parametrize("line", ["", "pgbench (18.4)", "pgbench: error: x", "progress: soon", "LINE 1: progress: 1"])
def test_other_lines_are_no_progress(line: str) -> None:
    assert parse_progress(line) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "situation", ["plain", "rate", "serialization", "retried", "lag-and-retries", "ratefail", "idle"]
)
def test_each_progress_line_of_every_version_is_read(situation: str, version: str) -> None:
    lines = [line for line in captured(situation, version).splitlines() if line.startswith("progress")]

    found = progress_of(situation, version)

    assert len(found) == len(lines) > 0
    assert all(progress.failed is not None and math.isfinite(progress.tps) for progress in found)
    assert all((progress.skipped is not None) == ("skipped" in lines[0]) for progress in found)
    assert all((progress.retries is not None) == ("retries" in lines[0]) for progress in found)


# -- summary ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "situation", ["plain", "rate", "serialization", "retried", "lag-and-retries", "ratefail", "idle"]
)
def test_each_summary_of_every_version_is_read(situation: str, version: str) -> None:
    summary = summary_of(situation, version)

    assert summary.processed is not None
    assert summary.tps is not None
    assert summary.latency_mean is not None
    assert summary.processed > 0
    assert summary.tps > 0
    assert 0 < summary.latency_mean < 3
    assert (summary.skipped is None, summary.late is None) == (
        (situation not in {"rate", "ratefail", "lag-and-retries"},) * 2
    )
    assert (summary.retries is None) == (situation not in {"retried", "lag-and-retries"})
    assert (summary.deadlock_failures is None) == (situation not in {"serialization", "retried", "lag-and-retries"})


def test_counts_are_those_of_all_scripts_together() -> None:
    for version in VERSIONS:
        text = captured("ratefail", version, "out")
        sections = [
            int(n) for n in re.findall(r"^ - (?:number of transactions actually processed: )?(\d+)", text, re.M)
        ]
        total = parse_summary(text).processed
        assert total is not None
        assert total > max(sections)


def test_a_summary_has_numbers_of_failures_retries_and_late_transactions() -> None:
    failed, retried, rated = (summary_of(situation, "15") for situation in ("serialization", "retried", "rate"))

    assert (failed.processed, failed.failed, failed.serialization_failures) == (5491, 14725, 14725)
    assert (retried.retried, retried.retries, retried.deadlock_failures) == (5952, 13927, 0)
    assert (rated.skipped, rated.late, rated.clients) == (17, 53, 4)
    assert rated.lag_mean == pytest.approx(74e-6)
    assert rated.connection_time == pytest.approx(7.295e-3)


def test_an_aborted_pgbench_has_a_summary_without_means() -> None:
    for version in VERSIONS:
        summary = summary_of("sqlerr", version)
        assert (summary.processed, summary.latency_mean, summary.tps) == (0, None, None)


def test_a_pgbench_that_was_ended_before_has_told_nothing() -> None:
    assert parse_summary("").processed is None
    assert parse_summary("pgbench (18.4)\n").processed is None


# -- errors -----------------------------------------------------------------------------------------------------------


def test_an_sql_error_comes_with_the_servers_own_lines() -> None:
    for version in VERSIONS:
        first, *_, last = find_errors(captured("sqlerr", version))
        message, line, caret = first.splitlines()
        assert re.fullmatch(
            r'client \d script 0 aborted in command 4 query 0: ERROR:  relation "no_such_table" does not exist', message
        )
        assert line.startswith("LINE 1: SELECT abalance FROM no_such_table")
        assert caret.strip() == "^"
        assert last == "Run was aborted; the above results are incomplete."


def test_detail_hint_and_context_stay_with_their_error_and_a_warning_is_none() -> None:
    for version in VERSIONS:
        error, aborted = find_errors(captured("raise", version))
        assert [line.partition(":")[0] for line in error.splitlines()[1:]] == ["DETAIL", "HINT", "CONTEXT"]
        assert "careful" not in error
        assert aborted.startswith("Run was aborted")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("situation", "words"),
    [
        ("refused", 'connection to server on socket "/run/nowhere/.s.PGSQL.5432" failed: No such file or directory'),
        ("manyclients", "FATAL:  sorry, too many clients already"),
        ("divzero", "division by zero"),
        ("nest", "client 0 aborted: end of script reached without completing the last transaction"),
        ("terminate", "FATAL:  terminating connection due to administrator command"),
        ("shutdown", "FATAL:  terminating connection due to administrator command"),
        ("crash", "perhaps the backend died while processing"),
        ("syntax", 'syntax.sql:1: invalid command in command "foo"'),
        ("empty", "empty command list for script"),
        ("nofile", "No such file or directory"),
    ],
)
def test_every_way_to_lose_clients_is_found(situation: str, words: str, version: str) -> None:
    errors = find_errors(captured(situation, version))

    assert any(words in error for error in errors)
    assert not any("progress:" in error or "WARNING" in error for error in errors)


@pytest.mark.parametrize("path", LOST, ids=lambda path: path.name)
def test_each_error_line_is_found_and_no_more(path: Path) -> None:
    text = path.read_text()

    lines = re.findall(r"^(?:pgbench: error: |(?=FATAL:))(.*)", text, re.MULTILINE)
    assert [error.splitlines()[0] for error in find_errors(text)] == lines


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "situation", ["plain", "rate", "serialization", "retried", "lag-and-retries", "ratefail", "idle"]
)
def test_failed_and_retried_transactions_are_no_errors(situation: str, version: str) -> None:
    assert find_errors(captured(situation, version)) == ()


def test_a_connection_refused_keeps_the_drivers_question() -> None:
    first, second = find_errors(captured("refused", "18"))

    assert first.endswith("\n\tIs the server running locally and accepting connections on that socket?")
    assert second == "could not create connection for setup"


def test_messages_of_threads_that_write_at_once_are_told_apart() -> None:
    # As pgbench 15 and 18 wrote them, with four and eight threads.
    text = (
        "pgbench:pgbench:  error: error: could not create connection for client 7\n"
        'connection to server on socket "/run/.s.PGSQL.5432" failed: FATAL:  sorry, too many clients already\n'
        "pgbench: error: pgbench:pgbench:pgbench: error: client 3 script 0 aborted in command 4 query 0: "
        'ERROR:  relation "x" does not exist\n'
        "LINE 1: SELECT 1 FROM x;\n"
        "                      ^\n"
        " error: client 4 script 0 aborted in command 4 query 0: ERROR:  no\n"
        "client 5 script 0 aborted in command 4 query 0: ERROR:  no\n"
        "pgbench: pgbench:error:  client 6 script 0 aborted in command 4 query 0: ERROR:  no\n"
        "pgbench:could not create connection for client 8\n"
    )

    errors = find_errors(text)

    assert [error.splitlines()[0].split(" script")[0].split(" on socket")[0] for error in errors] == [
        "could not create connection for client 7",
        "connection to server",
        "client 3",
        "client 4",
        "client 5",
        "client 6",
        "could not create connection for client 8",
    ]
    assert errors[2].splitlines()[1:] == ["LINE 1: SELECT 1 FROM x;", "                      ^"]


def test_a_warning_of_pgbench_is_no_error() -> None:
    text = (
        "pgbench: warning: scale option ignored, using count from pgbench_branches table (1)\npgbench: hint: Relax.\n"
    )

    assert find_errors(text) == ()
