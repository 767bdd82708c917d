from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.errors import WorkloadError
from pgtrial.model.histogram import FINE, bucket_value
from pgtrial.store import parquet
from pgtrial.store.fio_log import HistogramLog, read_histograms
from pgtrial.store.transactions import IngestReport, ingest

BUCKETS = 29 * 64
STARTED = 1_767_225_600


def line(t: float, counts: dict[int, int], direction: int = 0) -> str:
    """As fio writes it: milliseconds, direction, block size, and all buckets."""
    numbers = ", ".join(str(counts.get(bucket, 0)) for bucket in range(BUCKETS))
    return f"{round(t * 1000)}, {direction}, 8192, {numbers}\n"


def make_log(folder: Path, *threads: list[str], seconds: int = 10, interval: float = 0.25) -> HistogramLog:
    files = []
    for number, lines in enumerate(threads, start=1):
        files.append(folder / f"fio-level0-files_clat_hist.{number}.log")
        files[-1].write_text("".join(lines))
    return HistogramLog(
        level=0,
        scenario="files",
        files=tuple(files),
        window=(float(STARTED), float(STARTED + seconds)),
        interval=interval,
    )


def steady(count: int, *, start: float, end: float, interval: float = 0.25, bucket: int = 640) -> list[str]:
    steps = round((end - start) / interval)
    return [line(start + (step + 1) * interval, {bucket: count}) for step in range(steps)]


def test_a_steady_load_has_the_same_count_in_every_second(tmp_path: Path) -> None:
    log = make_log(tmp_path, steady(100, start=STARTED - 2.0, end=STARTED + 12.0))

    found = read_histograms(log)

    assert [row.second for row in found.rows] == list(range(10))
    assert {row.count for row in found.rows} == {400}
    assert {row.buckets for row in found.rows} == {(FINE + 640,)}
    assert found.requests == 14 * 400


def test_seconds_that_lines_do_not_end_with_are_cut_in_proportion(tmp_path: Path) -> None:
    # Lines end 100 ms after each whole second and quarter.
    log = make_log(tmp_path, steady(100, start=STARTED - 1.9, end=STARTED + 12.1))

    assert {row.count for row in read_histograms(log).rows} == {400}


def test_requests_of_a_stall_are_spread_over_it_and_none_is_lost(tmp_path: Path) -> None:
    lines = [line(STARTED + 1.0, {640: 7}), line(STARTED + 4.5, {640: 35, 900: 1})]
    found = read_histograms(make_log(tmp_path, lines))

    assert sum(row.count for row in found.rows) == 7 + 36
    by_second = {row.second: row.count for row in found.rows}
    assert by_second[0] == 7  # in the quarter before the line
    assert [by_second.get(second, 0) for second in (1, 2, 3)] == pytest.approx([10, 10, 10], abs=1)


def test_what_lies_outside_the_window_is_counted_as_outside(tmp_path: Path) -> None:
    log = make_log(tmp_path, steady(10, start=STARTED - 1.0, end=STARTED + 11.0))

    report = ingest([log], tmp_path / "transactions.parquet")

    assert (report.transactions, report.counted, report.outside_window) == (480, 400, 80)
    assert report.unlogged == 20


def test_of_a_process_that_has_told_all_its_latencies_none_is_missing_after_the_last_line(tmp_path: Path) -> None:
    lines = [line(STARTED + 0.25, {640: 50}), line(STARTED + 0.5, {640: 40, 700: 1})]
    log = make_log(tmp_path, lines)
    whole = {FINE + 640: 100, FINE + 700: 1, FINE + 800: 3}

    found = read_histograms(replace(log, window=(STARTED + 0.0, STARTED + 0.6), all_latencies=whole))
    at_once = read_histograms(replace(log, files=(), window=(STARTED + 0.0, STARTED + 0.02), all_latencies=whole))

    for each in (found, at_once):
        (row,) = each.rows
        assert dict(zip(row.buckets, row.bucket_counts, strict=True)) == whole
        assert (each.requests, each.unlogged) == (104, 0)
    with pytest.raises(WorkloadError, match="its report does not have"):
        read_histograms(replace(log, all_latencies={FINE + 640: 1}))


def test_threads_and_directions_are_added_up(tmp_path: Path) -> None:
    reads = steady(100, start=STARTED, end=STARTED + 10.0)
    writes = [line(STARTED + 0.25 * (step + 1), {700: 50}, direction=1) for step in range(40)]
    both = [text for pair in zip(reads, writes, strict=True) for text in pair]

    found = read_histograms(make_log(tmp_path, both, reads))

    assert {row.count for row in found.rows} == {1000}
    assert {row.bucket_counts for row in found.rows} == {(800, 200)}


def test_the_file_has_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "transactions.parquet"
    ingest([make_log(tmp_path, steady(100, start=STARTED, end=STARTED + 10.0))], path)

    rows = parquet.read([path], "SELECT * EXCLUDE (buckets, bucket_counts, filename) FROM {files} ORDER BY second")

    assert rows["count"].tolist() == [400] * 10
    assert rows["latency_sum"].tolist() == pytest.approx([400 * bucket_value(FINE + 640)] * 10)
    assert set(rows["scenario"].tolist()) == {"files"}
    assert rows["failed"].tolist() == rows["skipped"].tolist() == [0] * 10


def test_a_job_that_got_nothing_done_in_the_window_has_no_row(tmp_path: Path) -> None:
    log = make_log(tmp_path, [line(STARTED - 5.0, {640: 3})])

    assert read_histograms(log).rows == ()
    assert ingest([log], tmp_path / "transactions.parquet") == IngestReport(
        transactions=3, outside_window=3, counted=0, failed=0, skipped=0, first=None, last=None, unlogged=6
    )


def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="fio left no log of load level 0"):
        ingest([make_log(tmp_path)], tmp_path / "transactions.parquet")


@pytest.mark.parametrize(
    "text",
    [
        f"{STARTED * 1000}, 0, 8192, 1, 2, 3\n",
        "now, 0, 8192" + ", 0" * BUCKETS + "\n",
        f"{STARTED * 1000}, 0, 8192" + ", 0" * (BUCKETS - 1) + ", x\n",
        f"{STARTED * 1000}, 0, 8192" + ", 0" * (BUCKETS - 1) + ", -1\n",
        f"{STARTED * 1000}, 12345\n",
        "\n",
    ],
)
def test_a_line_that_is_no_histogram_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(WorkloadError, match="has a line that is not a histogram"):
        read_histograms(make_log(tmp_path, [text]))


def test_a_log_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    log = make_log(tmp_path, [line(STARTED + 1.0, {640: 7}).rstrip("\n")])

    with pytest.raises(WorkloadError, match=r"fio's log .* ends in the middle of a line"):
        read_histograms(log)
