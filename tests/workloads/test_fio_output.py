import json

import pytest

from pgtrial.workloads.fio import find_errors, parse_progress, parse_summary

REPORT = {"fio version": "fio-3.33", "jobs": [{"error": 0, "read": {"total_ios": 1200}, "write": {"total_ios": 34}}]}


def said(report: object = REPORT, *, before: str = "", after: str = "") -> str:
    return f"{before}{json.dumps(report, indent=2)}\n{after}"


@pytest.mark.parametrize(
    ("line", "tps"),
    [
        ("Jobs: 1 (f=1): [r(1)][40.0%][r=117MiB/s][r=29.9k IOPS][eta 00m:06s]", 29_900),
        ("Jobs: 2 (f=2): [m(2)][5.0%][r=10.5MiB/s,w=10.7MiB/s][r=1344,w=1373 IOPS][eta 00m:19s]", 2717),
        ("Jobs: 1 (f=1): [W(1)][90.0%][w=1802MiB/s][w=231k IOPS][eta 00m:01s]\r", 231_000),
        ("Jobs: 1 (f=1)\rJobs: 1 (f=1): [r(1)][0.0%][r=8KiB/s][r=1 IOPS][eta 10m:01s]", 1),
        ("Jobs: 1 (f=1): [r(1)][0.0%][r=0KiB/s][r=0 IOPS][eta 10m:01s]", 0),
        ("Jobs: 8 (f=8): [r(8)][50.0%][r=9.1GiB/s][r=1.2M IOPS][eta 00m:01s]", 1_200_000),
    ],
)
def test_progress_is_requests_per_second(line: str, tps: float) -> None:
    progress = parse_progress(line)

    assert progress is not None
    assert progress.tps == pytest.approx(tps)
    assert progress.latency is None


@pytest.mark.parametrize("line", ["", "Jobs: 1 (f=0): [/(1)][-.-%][eta 00m:10s]", "fio: something [x IOPS", "\r"])
def test_other_lines_are_no_progress(line: str) -> None:
    assert parse_progress(line) is None


def test_the_summary_counts_the_requests_of_both_directions() -> None:
    assert parse_summary("", said()).processed == 1234
    assert parse_summary("", said(before="fio: a warning\n", after="more\n")).processed == 1234


@pytest.mark.parametrize("text", ["", "fio: bad option\n", "{\n  broken\n}\n", '{\n"jobs": ['])
def test_without_a_report_nothing_is_known(text: str) -> None:
    assert parse_summary("", text).processed is None


def test_a_warning_of_a_job_that_went_well_is_no_error() -> None:
    assert find_errors("", said(before="fio: this platform is slow\n")) == ()


def test_an_error_is_told_in_the_words_of_fio() -> None:
    failed = {"jobs": [{"error": 28}]}
    words = "fio: io_u error on file /data/files: No space left on device: write offset=0, buflen=8192\n"

    assert find_errors("", said(failed, before=words)) == (
        "io_u error on file /data/files: No space left on device: write offset=0, buflen=8192",
    )
    assert find_errors("", said(failed)) == ("a job ended with error 28",)


def test_one_that_was_ended_says_so_although_its_report_has_no_error() -> None:
    assert find_errors("", said(before="\nfio: terminating on signal 15\n")) == ("terminating on signal 15",)


def test_an_option_that_is_wrong_is_told_without_a_report() -> None:
    text = "fio: unrecognized option '--nonsense'\nuse --help\n"

    assert find_errors("", text) == ("unrecognized option '--nonsense'",)
