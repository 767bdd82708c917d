"""Logs of somebody's own pgbench: found in folders, counted over whole seconds, refused where they are no logs."""

from pathlib import Path

import numpy as np
import pytest

from pgtrial.errors import StoreError, WorkloadError
from pgtrial.model.histogram import bucket_value
from pgtrial.store.plain_logs import read_plain_runs

START = 1_795_232_577


def lines(
    *, seconds: int, rate: int = 10, start: int = START, client: int = 0, time: int = 2000, rest: str = ""
) -> str:
    """``rate`` transactions per second, evenly, the first at the start; the last one begins a further second."""
    found = []
    for number in range(seconds * rate + 1):
        microseconds = number * 1_000_000 // rate + 500_000
        second, micro = divmod(microseconds, 1_000_000)
        found.append(f"{client} {number + 1} {time} 0 {start + second} {micro}{rest}\n")
    return "".join(found)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_only_whole_seconds_count(tmp_path):
    log = written(tmp_path / "pgbench_log.17", lines(seconds=20))

    (run,) = read_plain_runs(log)

    assert run.started == START + 1
    assert run.seconds == 19
    assert run.counts.tolist() == [10.0] * 19
    assert run.latencies.sum() == pytest.approx(190 * 0.002)
    assert (run.clients, run.scripts, run.has_rate, run.is_aggregated) == (1, 1, False, False)
    assert run.logged_share == pytest.approx(1)
    assert run.histogram.sum() == 190
    assert bucket_value(int(run.buckets[0])) == pytest.approx(0.002, rel=0.01)


def test_threads_of_a_process_are_one_run_and_other_processes_others(tmp_path):
    for name, client, start in (
        ("pgbench_log.100", 0, START),
        ("pgbench_log.100.1", 1, START),
        ("pgbench_log.200", 0, START + 100),
    ):
        written(tmp_path / name, lines(seconds=10, client=client, start=start))
    written(tmp_path / "pgbench.out", "tps = 42\n")
    written(tmp_path / "empty.300", "")

    first, second = read_plain_runs(tmp_path)

    assert (first.name, first.clients, first.counts.tolist()) == ("pgbench_log.100", 2, [20.0] * 9)
    assert (second.name, second.clients, second.started) == ("pgbench_log.200", 1, START + 101)


def test_a_log_that_is_named_brings_those_of_its_threads(tmp_path):
    written(tmp_path / "log.100", lines(seconds=10))
    written(tmp_path / "log.100.1", lines(seconds=10, client=1))
    written(tmp_path / "log.1000", lines(seconds=10))

    (run,) = read_plain_runs(tmp_path / "log.100")

    assert [Path(file).name for file in run.files] == ["log.100", "log.100.1"]


def test_processes_at_the_same_time_are_one_load(tmp_path):
    written(tmp_path / "log.1", lines(seconds=20))
    written(tmp_path / "log.2", lines(seconds=20, start=START + 5, time=9000))

    (run,) = read_plain_runs(tmp_path)

    assert (run.clients, run.started, run.seconds) == (2, START + 6, 14)
    assert run.counts.tolist() == [20.0] * 14
    assert run.histogram.sum() == 280
    assert len(run.buckets) == 2


@pytest.mark.parametrize(("rest", "has_rate"), [(" 0", False), (" 731", True), (" 731 0", True)])
def test_a_lag_says_that_a_rate_was_asked_for_and_a_retry_does_not(tmp_path, rest, has_rate):
    log = written(tmp_path / "log.1", lines(seconds=10, rest=rest))

    (run,) = read_plain_runs(log)

    assert run.has_rate is has_rate


def test_failed_and_skipped_transactions_are_counted_apart(tmp_path):
    text = lines(seconds=10).replace("0 31 2000", "0 31 failed").replace("0 41 2000", "0 41 skipped")
    (run,) = read_plain_runs(written(tmp_path / "log.1", text))

    assert (run.failed, run.skipped, run.counts.sum()) == (1, 1, 88)


def test_a_sample_of_the_transactions_is_seen_by_their_numbers(tmp_path):
    every = lines(seconds=100).splitlines(keepends=True)
    (run,) = read_plain_runs(written(tmp_path / "log.1", "".join(every[::5])))

    assert run.logged_share == pytest.approx(0.2, rel=0.01)


def test_a_long_log_has_wider_bins(tmp_path):
    (run,) = read_plain_runs(written(tmp_path / "log.1", lines(seconds=7300, rate=1)))

    assert run.width == 3
    assert run.counts.size == 2433
    assert set(run.counts.tolist()) == {3.0}


def test_a_part_is_cut_at_whole_bins(tmp_path):
    (run,) = read_plain_runs(written(tmp_path / "log.1", lines(seconds=20)))

    part = run.between(run.started + 4.5, run.ended)

    assert (part.started, part.seconds) == (START + 6, 14)
    with pytest.raises(StoreError, match="nothing is left"):
        run.between(run.started + 19, run.ended)


AGGREGATED = "".join(f"{START + 5 * k} 50 100000 300000000 900 9000{{}}\n" for k in range(10))
SINCE_15 = " 0 0 0 0 0 0 0 0 0"


@pytest.mark.parametrize("rest", ["", SINCE_15])
def test_an_aggregated_log_has_throughput_and_a_mean_but_no_percentiles(tmp_path, rest):
    (run,) = read_plain_runs(written(tmp_path / "log.1", AGGREGATED.format(*[rest] * 10)))

    assert run.is_aggregated
    assert (run.width, run.started, run.counts.size) == (5, START + 5, 8)
    assert run.counts.sum() / run.seconds == pytest.approx(10)
    assert run.latencies.sum() / run.counts.sum() == pytest.approx(0.002)
    assert run.buckets.size == 0
    assert run.clients is None


def test_aggregated_logs_of_threads_are_added_up_though_they_begin_a_second_apart(tmp_path):
    written(tmp_path / "log.1", AGGREGATED.format(*[""] * 10))
    later = "".join(f"{START + 1 + 5 * k} 30 100000 300000000 900 9000\n" for k in range(10))
    written(tmp_path / "log.1.1", later)

    (run,) = read_plain_runs(tmp_path)

    assert run.counts.tolist() == [80.0] * 8


def test_failures_and_skips_of_an_aggregated_log_are_told(tmp_path):
    rest = " 400 400 1 9 2 0 0 3 1"  # lag, skipped, retried, retries, serialization failures, deadlocks
    (run,) = read_plain_runs(written(tmp_path / "log.1", AGGREGATED.format(*[rest] * 10)))

    assert (run.failed, run.skipped, run.has_rate) == (32, 16, True)


def test_skipped_transactions_of_an_old_aggregated_log_are_not_counted(tmp_path):
    rest = " 400 400 1 9 2"
    (run,) = read_plain_runs(written(tmp_path / "log.1", AGGREGATED.format(*[rest] * 10)))

    assert run.counts.tolist() == [48.0] * 8


@pytest.mark.parametrize(
    ("name", "text", "error", "told"),
    [
        ("log.1", "no log at all\n", StoreError, "is not a log of pgbench"),
        ("log.1", "", StoreError, "is not a log of pgbench"),
        ("log.1", lines(seconds=10)[:-3], WorkloadError, "ends in the middle of a line"),
        ("log.1", lines(seconds=10) + "what is this\n", WorkloadError, "not one of a pgbench log"),
        ("log.1", lines(seconds=1, rate=5), WorkloadError, "no whole second"),
        ("log.1", AGGREGATED.format(*[""] * 10) + "x\n", WorkloadError, "not one of an aggregated"),
        ("log.1", f"{START} 50 100000 300000000 900 9000\n", WorkloadError, "one interval only"),
    ],
)
def test_what_is_no_whole_log_is_refused_with_its_name(tmp_path, name, text, error, told):
    path = written(tmp_path / name, text)

    with pytest.raises(error, match=told) as caught:
        read_plain_runs(path)

    assert name in caught.value.message


@pytest.mark.parametrize("name", ["missing", "folder"])
def test_a_place_without_logs_is_an_error_of_the_user(tmp_path, name):
    (tmp_path / "folder").mkdir()

    with pytest.raises(StoreError) as caught:
        read_plain_runs(tmp_path / name)

    assert "pgbench -l" in caught.value.hint


def test_aggregated_logs_that_overlap_are_not_guessed_at(tmp_path):
    written(tmp_path / "log.1", AGGREGATED.format(*[""] * 10))
    written(tmp_path / "log.2", AGGREGATED.format(*[""] * 10))

    with pytest.raises(StoreError, match="overlap in time"):
        read_plain_runs(tmp_path)


def test_a_name_with_wildcards_is_a_name(tmp_path):
    written(tmp_path / "a[1]" / "log*.1", lines(seconds=10))
    written(tmp_path / "a[1]" / "log*.1.1", lines(seconds=10, client=1))

    (run,) = read_plain_runs(tmp_path / "a[1]" / "log*.1")

    assert run.clients == 2
    assert np.isfinite(run.counts).all()
