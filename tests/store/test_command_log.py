import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pgtrial.errors import WorkloadError
from pgtrial.model.histogram import RELATIVE_ERROR, bucket_value
from pgtrial.model.run import Slice
from pgtrial.store import parquet
from pgtrial.store.command_line import LONGEST_INTERVAL, LONGEST_WHOLE, LineError, parse_line
from pgtrial.store.command_log import CommandLog, read_command
from pgtrial.store.transactions import IngestReport, ingest

STARTED = 1_767_225_600.0
HEARTBEAT = {"t": STARTED + 100}


def make_log(
    folder: Path,
    *lines: dict[str, Any],
    seconds: int = 10,
    rate: float | None = None,
    longest: float = LONGEST_INTERVAL,
) -> CommandLog:
    file = folder / "level0"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    window = (STARTED, STARTED + seconds)
    return CommandLog(level=0, scenario="command", files=(file,), window=window, rate=rate, longest=longest)


def request(after: float, latency: float = 0.01, **others: Any) -> dict[str, Any]:
    return {"t": STARTED + after, "latency": latency, **others}


def test_a_request_counts_in_the_second_in_which_it_ended(tmp_path: Path) -> None:
    log = make_log(tmp_path, request(-0.001), request(0.0), request(0.999), request(2.5, 0.2), HEARTBEAT)

    found = read_command(log)

    assert [(row.second, row.count) for row in found.rows] == [(0, 2), (2, 1)]
    assert found.rows[1].latency_sum == 0.2
    assert bucket_value(found.rows[1].buckets[0]) == pytest.approx(0.2, rel=RELATIVE_ERROR)
    assert (found.requests, found.first, found.last) == (4, STARTED, STARTED + 2.5)


def test_an_interval_is_spread_over_its_seconds_and_adds_up(tmp_path: Path) -> None:
    line = {"t": STARTED + 2.5, "seconds": 1.0, "latencies": {"0.001": 100, "0.1": 3}, "failed": 5}

    first, second = read_command(make_log(tmp_path, line, HEARTBEAT)).rows

    assert (first.second, second.second) == (1, 2)
    assert first.count + second.count == 103
    assert first.failed + second.failed == 5
    assert first.latency_sum + second.latency_sum == pytest.approx(0.4)
    assert abs(first.count - second.count) <= 1


def test_an_interval_that_begins_before_the_window_counts_in_part(tmp_path: Path) -> None:
    line = {"t": STARTED + 0.5, "seconds": 1.0, "latencies": [0.01]}
    many = {"t": STARTED + 0.5, "seconds": 1.0, "latencies": {"0.01": 100}}

    (row,) = read_command(make_log(tmp_path, many, HEARTBEAT)).rows

    assert (row.second, row.count) == (0, 50)
    assert read_command(make_log(tmp_path, line, HEARTBEAT)).requests == 1


def test_requests_may_be_counted_without_their_latencies(tmp_path: Path) -> None:
    counted = {"t": STARTED + 1, "seconds": 1, "count": 10}

    (row,) = read_command(make_log(tmp_path, counted, HEARTBEAT)).rows
    (mean,) = read_command(make_log(tmp_path, counted | {"mean": 0.5}, HEARTBEAT)).rows

    assert (row.count, row.latency_sum, row.buckets) == (10, None, ())
    assert (mean.count, mean.latency_sum, mean.buckets) == (10, 5.0, ())


def test_latencies_of_some_requests_are_not_those_of_all(tmp_path: Path) -> None:
    counted = {"t": STARTED + 1, "seconds": 1, "count": 10}

    for other in (request(0.5), counted | {"mean": 0.5}):
        with pytest.raises(WorkloadError, match="the latencies of some requests, and not those of others"):
            read_command(make_log(tmp_path, counted, other, HEARTBEAT))


def test_what_is_told_at_the_end_is_spread_over_all_the_measured_time(tmp_path: Path) -> None:
    whole = {"t": STARTED + 12, "seconds": 15, "count": 1500, "mean": 0.1, "failed": 15}

    found = read_command(make_log(tmp_path, whole, longest=LONGEST_WHOLE))

    assert [row.count for row in found.rows] == [100] * 10
    assert [row.failed for row in found.rows] == [1] * 10
    assert (found.first, found.last) == (STARTED, STARTED + 10)


def test_what_is_told_at_the_end_is_of_all_the_measured_time(tmp_path: Path) -> None:
    late = {"t": STARTED + 12, "seconds": 9, "count": 90}

    with pytest.raises(WorkloadError, match=r"begins 3\.0 s after the measured time has begun"):
        read_command(make_log(tmp_path, late, longest=LONGEST_WHOLE))


def test_failures_lag_and_retries_are_kept(tmp_path: Path) -> None:
    log = make_log(
        tmp_path,
        request(0.1, 0.6, lag=0.5),
        request(0.2, 0.3, lag=0.25, retries=3),
        {"t": STARTED + 0.3, "failed": True},
        HEARTBEAT,
    )

    (row,) = read_command(log).rows

    assert (row.count, row.failed, row.lag_sum, row.retried, row.retries) == (2, 1, 0.75, 1, 3)


def test_without_a_word_on_lag_it_is_not_known(tmp_path: Path) -> None:
    (row,) = read_command(make_log(tmp_path, request(0.1), HEARTBEAT)).rows

    assert row.lag_sum is None


def test_an_output_that_ends_before_the_measured_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"ends 5\.0 s before the end of the measured time"):
        read_command(make_log(tmp_path, request(1), request(5)))


@pytest.mark.parametrize("lines", [(), ({"ready": True},)])
def test_an_output_without_a_request_is_refused(tmp_path: Path, lines: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(WorkloadError, match="told of no request"):
        read_command(make_log(tmp_path, *lines))


def test_a_generator_that_falls_behind_its_rate_is_refused(tmp_path: Path) -> None:
    requests = [request(k / 90, lag=0.0) for k in range(900)]

    with pytest.raises(WorkloadError, match=r"fell behind its rate: 90 requests per second of 200"):
        read_command(make_log(tmp_path, *requests, HEARTBEAT, rate=200.0))
    assert read_command(make_log(tmp_path, *requests, HEARTBEAT, rate=90.0)).requests == 900


def test_a_generator_that_does_not_keep_to_its_rate_is_refused(tmp_path: Path) -> None:
    """It sends one after the other, as fast as it can: no open loop."""
    requests = [request(k / 190, 0.005, lag=0.0) for k in range(1900)]

    with pytest.raises(WorkloadError, match=r"did not keep its rate: 190 requests per second, of 20") as caught:
        read_command(make_log(tmp_path, *requests, HEARTBEAT, rate=20.0))
    assert caught.value.hint == "Let it send PGTRIAL_RATE requests per second, or leave rate out of [workload]."


def stalled(due: Sequence[float], *, begun: float, ended: float, is_honest: bool) -> list[dict[str, Any]]:
    """Requests of 5 ms, of which none is sent from ``begun`` until ``ended``; then all that is due is sent at once.

    One that is honest times them from when they were due.
    """
    found: list[dict[str, Any]] = []
    for number, time in enumerate(due):
        sent = ended + number * 1e-5 if begun <= time < ended else time
        since = time if is_honest else sent
        found.append(request(sent + 0.005, sent + 0.005 - since, lag=sent - since))
    return found


@pytest.mark.parametrize("arrivals", ["even", "random"])
def test_a_generator_that_stood_still_and_caught_up_is_refused(tmp_path: Path, arrivals: str) -> None:
    """All that was due has been sent in the end, and none of it was late by its own word."""
    rng = np.random.default_rng(1)
    due = [each / 100 for each in range(3000)] if arrivals == "even" else sorted(rng.uniform(0, 30, 3000).tolist())
    late = stalled(due, begun=10.0, ended=11.0, is_honest=False)
    honest = stalled(due, begun=10.0, ended=11.0, is_honest=True)

    with pytest.raises(
        WorkloadError, match=r"^the command paused: 0 of its requests were due in 1(\.0\d)? s, and 10\d by its rate$"
    ) as caught:
        read_command(make_log(tmp_path, *late, HEARTBEAT, seconds=30, rate=100.0))
    assert "coordinated omission" in caught.value.detail
    assert read_command(make_log(tmp_path, *honest, HEARTBEAT, seconds=30, rate=100.0)).requests == 3000


def test_a_load_that_pauses_on_purpose_is_told_that_it_has_no_rate(tmp_path: Path) -> None:
    """Nothing waited for it, and it leaves nothing out."""
    rng = np.random.default_rng(1)
    bursts = [(begin, begin + length) for begin, length in zip(range(0, 30, 2), rng.uniform(0.2, 1.8, 15), strict=True)]
    due = np.concatenate([rng.uniform(*burst, 200) for burst in bursts])
    sent = [request(float(each) + 0.005, 0.005, lag=0.0) for each in np.sort(due)]

    with pytest.raises(WorkloadError, match=r"^the command paused: ") as caught:
        read_command(make_log(tmp_path, *sent, HEARTBEAT, seconds=30, rate=100.0))
    assert "or it is meant to pause" in caught.value.detail
    assert caught.value.hint.endswith("leave rate out of [workload].")


def test_arrivals_at_random_may_be_more_than_the_rate(tmp_path: Path) -> None:
    # A hundred are due; 4 standard deviations and 5 % are 45 more.
    requests = [request((k + 0.5) * 10 / 145, lag=0.0) for k in range(145)]

    assert read_command(make_log(tmp_path, *requests, HEARTBEAT, rate=10.0)).requests == 145
    with pytest.raises(WorkloadError, match="did not keep its rate"):
        read_command(make_log(tmp_path, *requests, request(5, lag=0.0), HEARTBEAT, rate=10.0))


def test_batches_at_random_may_be_more_than_the_rate(tmp_path: Path) -> None:
    """Twelve of a hundred requests each came in a minute in which ten were due."""
    batches = [0, 3, 8, 9, 10, 22, 27, 35, 36, 44, 50, 58]
    requests = [request(second + k / 1000, lag=0.0) for second in batches for k in range(100)]
    log = make_log(tmp_path, *requests, HEARTBEAT, seconds=60, rate=1000 / 60)

    assert read_command(log).requests == 1200


def test_tries_that_failed_do_not_exceed_the_rate(tmp_path: Path) -> None:
    requests = [request(k / 20, lag=0.0) for k in range(200)]
    tries = [{"t": STARTED + k / 100, "failed": True} for k in range(1000)]

    assert read_command(make_log(tmp_path, *requests, *tries, HEARTBEAT, rate=20.0)).requests == 1200


def test_in_an_interval_what_was_due_before_the_measured_time_does_not_exceed_the_rate(tmp_path: Path) -> None:
    """They ended at its beginning, 0.1 s after that of the measured time, and took 0.5 s."""
    late = {"t": STARTED + 1.1, "seconds": 1.0, "latencies": {"0.5": 1000}, "lag": 0.4}
    requests = [request(k / 100, lag=0.0) for k in range(1000)]

    found = read_command(make_log(tmp_path, late, *requests, HEARTBEAT, rate=100.0))

    assert found.requests == 2000


def test_what_was_due_before_the_measured_time_does_not_exceed_the_rate(tmp_path: Path) -> None:
    """The server had stood still for ten seconds, and got round to a thousand requests at once."""
    late = [request(0.5, 1 + k / 100, lag=k / 100) for k in range(1000)]
    requests = [request(k / 100, lag=0.0) for k in range(1000)]

    found = read_command(make_log(tmp_path, *late, *requests, HEARTBEAT, rate=100.0))

    assert sum(row.count for row in found.rows) == 2000


def test_latencies_for_which_its_clients_have_no_time_are_refused(tmp_path: Path) -> None:
    """884 requests a second of 0.45 s each, by one client."""
    log = make_log(tmp_path, *[request(k / 884, 0.45) for k in range(8840)], HEARTBEAT)

    with pytest.raises(
        WorkloadError, match=r"cannot be: they are 3,888 s together, .* no more than 1 × 10 s"
    ) as caught:
        read_command(replace(log, clients=1))
    assert "A latency is in seconds" in caught.value.hint
    # A program may have several requests under way in each of its clients.
    assert read_command(replace(log, clients=4)).requests == 8840


def intervals(
    length: float, every: float, *, count: int = 100, jitter: Sequence[float] = (0.0,)
) -> list[dict[str, Any]]:
    """Lines of the twelve seconds around the measured time, of so many seconds each."""
    ends = np.arange(0.0, 12.01, every)
    return [
        {"t": STARTED + end + jitter[k % len(jitter)], "seconds": length, "count": count, "mean": 0.009}
        for k, end in enumerate(ends)
    ]


@pytest.mark.parametrize(("length", "every"), [(2.0, 1.0), (1.15, 1.0), (1.0, 0.05)])
def test_intervals_that_overlap_are_refused(tmp_path: Path, length: float, every: float) -> None:
    """The last two seconds each second: every request would count twice."""
    with pytest.raises(WorkloadError, match=r"intervals .* overlap: they are .* s together, of .* s") as caught:
        read_command(make_log(tmp_path, *intervals(length, every)))
    assert "one line" in caught.value.hint


def test_intervals_may_be_told_late_in_parts_or_with_gaps(tmp_path: Path) -> None:
    late = intervals(1.0, 1.0, jitter=(0.0, 0.3, 0.05, 0.2))
    tags = [{**line, "t": line["t"] + k / 1000} for line in intervals(1.0, 1.0) for k in range(5)]
    gaps = intervals(1.0, 1.5)

    for lines in (late, tags, gaps):
        assert read_command(make_log(tmp_path, *lines)).requests == 100 * len(lines)


def test_running_totals_are_refused_by_the_time_of_clients(tmp_path: Path) -> None:
    lines = intervals(1.0, 1.0)
    totals = [{**line, "count": 100 * k} for k, line in enumerate(lines, start=1)]

    assert read_command(replace(make_log(tmp_path, *lines), clients=1)).requests == 1300
    with pytest.raises(
        WorkloadError, match=r"cannot be: they are [45]\d s together, .* no more than 1 × 10 s"
    ) as caught:
        read_command(replace(make_log(tmp_path, *totals), clients=1))
    assert "no running totals" in caught.value.hint
    failed = {"t": STARTED + 11, "seconds": 1.0, "failed": 3}  # a summary beside lines of each request
    requests = [request(k / 884, 0.45) for k in range(8840)]
    assert read_command(replace(make_log(tmp_path, *requests, failed), clients=4)).requests == 8843
    waiting = [{**line, "lag": 0.008} for line in totals]
    assert read_command(replace(make_log(tmp_path, *waiting), clients=1)).requests == 9100


def test_latencies_may_begin_before_the_measured_time_or_when_a_request_was_due(tmp_path: Path) -> None:
    waited = [request(k, 3600.0) for k in range(2)]
    due = [request(k / 884, 0.45, lag=0.4) for k in range(8840)]
    counted = {"t": STARTED + 9, "seconds": 1, "count": 10, "mean": 0.1}

    assert read_command(replace(make_log(tmp_path, *waited, HEARTBEAT), clients=1)).requests == 2
    assert read_command(replace(make_log(tmp_path, *due, HEARTBEAT), clients=1)).requests == 8840
    assert read_command(replace(make_log(tmp_path, counted, HEARTBEAT), clients=1)).requests == 10


def test_an_ingested_output_has_the_rows_of_pgbench(tmp_path: Path) -> None:
    log = make_log(tmp_path, request(0.5), request(1.5), {"t": STARTED + 1.6, "failed": True}, request(-1), HEARTBEAT)

    report = ingest([log], tmp_path / "transactions.parquet")

    assert report == IngestReport(
        transactions=4,
        outside_window=1,
        counted=2,
        failed=1,
        skipped=0,
        first=STARTED + 0.5,
        last=STARTED + 1.6,
    )
    with parquet.connect() as db:
        rows = db.execute(
            "SELECT level, second, scenario, count, failed, late, retries FROM read_parquet(?) ORDER BY second",
            [str(tmp_path / "transactions.parquet")],
        ).fetchall()
    assert rows == [(0, 0, "command", 1, 0, 0, 0), (0, 1, "command", 1, 1, 0, 0)]


def test_of_turns_only_the_counted_parts_count_and_latencies_are_as_they_were_told(tmp_path: Path) -> None:
    slices = tuple(
        Slice(level=0, number=number, started=STARTED + start, counted=STARTED + start + 0.5, ended=STARTED + start + 1)
        for number, start in ((0, 0), (3, 3))
    )
    lines = [
        request(0.3),  # in the washout
        request(0.7, latency=0.02),
        request(3.1, latency=0.03),  # was in flight while the other arm had its turn
        request(3.6, latency=0.04, retries=2),
        {"t": STARTED + 3.7, "failed": True},
        HEARTBEAT,
    ]
    log = replace(make_log(tmp_path, *lines, seconds=4), slices=slices)

    report = ingest([log], tmp_path / "transactions.parquet", slices=tmp_path / "slices.parquet")

    assert (report.transactions, report.counted, report.failed, report.outside_window) == (5, 2, 1, 2)
    with parquet.connect() as db:
        sums = "sum(count), round(sum(latency_sum), 6), sum(retries), sum(failed)"
        rows = db.execute(f"SELECT {sums} FROM read_parquet(?)", [str(tmp_path / "transactions.parquet")]).fetchall()
        own = db.execute(
            "SELECT slice, sum(count), round(sum(latency_sum), 6) FROM read_parquet(?) "
            "WHERE part >= 0 GROUP BY 1 ORDER BY 1",
            [str(tmp_path / "slices.parquet")],
        ).fetchall()
    assert rows == [(2, 0.06, 2, 1)]
    assert own == [(0, 1, 0.02), (3, 1, 0.04)]


def test_of_turns_a_line_of_many_requests_is_refused(tmp_path: Path) -> None:
    lines = {"t": STARTED + 1, "seconds": 1, "latencies": [0.01, 0.01]}
    one = Slice(level=0, number=0, started=STARTED, counted=STARTED, ended=STARTED + 4)
    log = replace(make_log(tmp_path, lines, HEARTBEAT, seconds=4), slices=(one,))

    with pytest.raises(WorkloadError, match="tells of many requests at once"):
        ingest([log], tmp_path / "transactions.parquet", slices=tmp_path / "slices.parquet")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("hello", "it is no JSON object"),
        ("17", "it is no JSON object"),
        ("[" * 100_000, "it is no JSON object"),
        ('{"latency": 1}', 'it has no "t"'),
        ('{"t": "now", "latency": 1}', '"t" is no number'),
        ('{"t": NaN, "latency": 1}', '"t" is no number'),
        ('{"t": true}', '"t" is no number'),
        ('{"t": 1, "latency": -1}', "a latency is no time in seconds"),
        ('{"t": 1, "latency": Infinity}', "a latency is no time in seconds"),
        ('{"t": 1, "latency": 1, "latencies": []}', 'it has both "latency" and "latencies"'),
        ('{"t": 1, "latencies": 5}', '"latencies" is neither'),
        ('{"t": 1, "latencies": {"fast": 5}}', '"latencies" is neither'),
        ('{"t": 1, "latencies": {"0.1": 1.5}}', '"latencies" is neither'),
        ('{"t": 1, "latencies": {"0.1": -1}}', '"latencies" is neither'),
        ('{"t": 1, "latencies": {"0.1": 1000000000000}}', '"latencies" is neither'),
        ('{"t": 1, "failed": 1000000000000}', '"failed" is neither'),
        ('{"t": 1, "latencies": {"0.1": 5, "0.1": 7}}', '"latencies" has a time twice'),
        ('{"t": 1, "latencies": ["0.1"]}', "a latency is no time in seconds"),
        ('{"t": 1, "seconds": 60, "latencies": []}', '"seconds" is not between 0 and 2'),
        ('{"t": 1, "failed": -1}', '"failed" is neither'),
        ('{"t": 1, "failed": "yes"}', '"failed" is neither'),
        ('{"t": 1, "failed": false}', 'it says that a request did not fail, and has no "latency"'),
        ('{"t": 1, "latency": 1, "lag": -1}', '"lag" is no time in seconds'),
        ('{"t": 1, "latency": 0.004, "lag": 5}', '"lag" is longer than the latency'),
        ('{"t": 1, "latency": 1, "retries": -1}', '"retries" is no number of tries of one request'),
        ('{"t": 1, "latencies": [1], "retries": 1}', '"retries" is no number of tries of one request'),
        ('{"t": 1, "count": -1}', '"count" is no number of requests'),
        ('{"t": 1, "count": true}', '"count" is no number of requests'),
        ('{"t": 1, "count": 1, "latency": 1}', 'it has both "count" and latencies'),
        ('{"t": 1, "count": 1, "mean": -1}', "a latency is no time in seconds"),
        ('{"t": 1, "latency_s": 0.1}', 'it tells of no request, and "latency_s" is no key of a line'),
        ('{"t": 1, "mean": 1}', 'it has a "mean", and no "count" of what it is of'),
    ],
)
def test_a_line_that_tells_nothing_says_why(line: str, reason: str) -> None:
    with pytest.raises(LineError, match=reason):
        parse_line(line)


def test_with_a_rate_a_request_says_how_late_it_was_sent() -> None:
    with pytest.raises(LineError, match='it has no "lag"'):
        parse_line('{"t": 1, "latency": 1}', needs_lag=True)

    assert parse_line('{"t": 1, "latency": 1, "lag": 0}', needs_lag=True).lag == 0
    assert parse_line('{"t": 1, "failed": true}', needs_lag=True).failed == 1


def test_what_a_newer_program_adds_is_passed_over() -> None:
    told = parse_line('{"t": 1.5, "latency": 0.25, "name": "read"}')

    assert (told.t, told.latencies, told.failed) == (1.5, ((0.25, 1),), 0)
    assert math.isclose(parse_line('{"ready": true}').t, 0.0)


def test_a_line_of_more_requests_than_a_rate_has_is_refused_before_they_are_kept(tmp_path: Path) -> None:
    line = {"t": STARTED + 1, "latencies": {"0.001": 1_000_000_000}, "lag": 0.0}

    with pytest.raises(WorkloadError, match="more than twice as many requests as its rate asks for"):
        read_command(make_log(tmp_path, line, HEARTBEAT, rate=20.0))
