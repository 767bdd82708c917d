import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgtrial.errors import StoreError, WorkloadError
from pgtrial.model.histogram import GAMMA, RELATIVE_ERROR, bucket_of, bucket_value
from pgtrial.model.run import Slice
from pgtrial.store import parquet
from pgtrial.store.transactions import IngestReport, LevelLog, ingest

START = 1_795_232_577
NOTHING = IngestReport(transactions=0, outside_window=0, counted=0, failed=0, skipped=0, first=None, last=None)


def log_of(*files: Path, **changes: Any) -> LevelLog:
    log = LevelLog(
        level=0,
        scenarios=("read", "write"),
        files=files,
        window=(START, START + 10.0),
        latency_limit=None,
        has_rate=False,
        max_tries=1,
    )
    return replace(log, **changes)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def rows_of(out: Path) -> list[dict[str, Any]]:
    with parquet.session() as db:
        result = db.execute("SELECT * FROM read_parquet(?) ORDER BY level, second, scenario", [str(out)])
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def test_a_transaction_counts_with_the_part_of_its_time_that_is_measured(tmp_path: Path) -> None:
    """Measured are 10 s. A client's line is its number, how long a transaction took, and when that ended."""
    ended = [(0, 2.0, 1.5), (0, 2.5, 4), (0, 8.0, 12), (1, 25.0, 20), (1, 1.0, 21), (2, 1.0, -1), (3, 0.0, 9.999999)]
    lines = [
        f"{client} 1 {lasted * 1e6:.0f} 0 {START + math.floor(end)} {end % 1 * 1e6:.0f}\n"
        for client, lasted, end in ended
    ]
    log = written(tmp_path / "log.1", "".join([*lines, f"4 1 failed 0 {START + 3} 0\n"]))

    report = ingest([log_of(log)], tmp_path / "out.parquet")

    rows = rows_of(tmp_path / "out.parquet")
    assert [(row["second"], row["count"], row["failed"], row["latency_sum"]) for row in rows] == [
        (1, 1, 0, 2.0),
        (3, 0, 1, 0.0),
        (4, 1, 0, 2.5),
        (9, 1, 0, 0.0),
    ]
    # Of what ended later, 6 of 8 s and 10 of 25 s were measured.
    assert [row["inside"] for row in rows] == pytest.approx([0.75, 0, 1, 1 + 0.75 + 0.4], abs=1e-5)
    assert rows[-1]["buckets"] == [0]
    assert (report.counted, report.failed, report.outside_window) == (3, 1, 4)


def test_logs_of_machines_are_merged_by_one_clock(tmp_path: Path) -> None:
    """The second clock is 5 s ahead, and its first transaction ended when that of the first machine did."""
    here = written(tmp_path / "here.1", f"0 1 1000 0 {START + 4} 500000\n")
    there = written(tmp_path / "there.1", f"0 1 1000 0 {START + 9} 500000\n0 2 1000 0 {START + 14} 999999\n")

    report = ingest([log_of(here), log_of(there, ahead=5.0)], tmp_path / "out.parquet")

    assert [(row["second"], row["count"]) for row in rows_of(tmp_path / "out.parquet")] == [(4, 1), (4, 1), (9, 1)]
    assert report.outside_window == 0


def test_a_transaction_that_waits_for_its_turn_is_not_at_work(tmp_path: Path) -> None:
    """Of 4 s it waited 3 s: all of its work was measured."""
    log = written(tmp_path / "log.1", f"0 1 4000000 0 {START + 2} 0 3000000\n")

    ingest([log_of(log, has_rate=True)], tmp_path / "out.parquet")

    assert [row["inside"] for row in rows_of(tmp_path / "out.parquet")] == [1.0]


# The lines below were written by pgbench 15, 16 and 18.


def test_closed_loop_log_is_counted_per_second_and_scenario(tmp_path: Path) -> None:
    log = written(
        tmp_path / "log.1",
        f"0 1 577 0 {START} 689532\n0 2 202 1 {START} 689745\n0 3 125 0 {START} 689872\n0 4 99 0 {START + 1} 1\n",
    )

    report = ingest([log_of(log)], tmp_path / "out.parquet")

    rows = rows_of(tmp_path / "out.parquet")
    assert [(row["second"], row["scenario"], row["count"]) for row in rows] == [
        (0, "read", 2),
        (0, "write", 1),
        (1, "read", 1),
    ]
    assert rows[0]["latency_sum"] == pytest.approx(702e-6)
    assert rows[0]["buckets"] == sorted([bucket_of(577), bucket_of(125)])
    assert rows[0]["bucket_counts"] == [1, 1]
    assert rows[0]["lag_sum"] is None, "there is no schedule to lag behind"
    assert (report.transactions, report.counted, report.first, report.last) == (
        4,
        4,
        START + 0.689532,
        START + 1.000001,
    )


def test_open_loop_log_has_lag_and_skipped_transactions(tmp_path: Path) -> None:
    log = written(
        tmp_path / "log.1",
        f"0 1 71 0 {START} 704770 71\n1 1 289 0 {START} 705320 93\n2 2 skipped 0 {START} 704787 0\n",
    )

    report = ingest([log_of(log, has_rate=True, latency_limit=0.0002)], tmp_path / "out.parquet")

    (row,) = rows_of(tmp_path / "out.parquet")
    assert (row["count"], row["skipped"], row["late"], row["failed"]) == (2, 1, 1, 0)
    assert row["lag_sum"] == pytest.approx(164e-6)
    assert (report.transactions, report.counted, report.skipped) == (3, 2, 1)


def test_retries_and_every_word_for_a_failure_are_counted(tmp_path: Path) -> None:
    log = written(
        tmp_path / "log.1",
        f"1 1 3727 0 {START} 749951 0\n0 1 4194 0 {START} 750395 1\n3 1 serialization 0 {START} 752763 3\n"
        f"4 1 deadlock 0 {START} 752764 3\n0 7 failed 0 {START} 782936 3\n",
    )

    report = ingest([log_of(log, max_tries=4)], tmp_path / "out.parquet")

    (row,) = rows_of(tmp_path / "out.parquet")
    assert (row["count"], row["failed"], row["retried"], row["retries"]) == (2, 3, 1, 10)
    assert sum(row["bucket_counts"]) == 2
    assert report.failed == 3


def test_lag_comes_before_retries(tmp_path: Path) -> None:
    log = written(tmp_path / "log.1", f"1 1 850 0 {START} 775614 70 2\n")

    ingest([log_of(log, has_rate=True, max_tries=3)], tmp_path / "out.parquet")

    (row,) = rows_of(tmp_path / "out.parquet")
    assert (row["lag_sum"], row["retries"]) == (70e-6, 2)


def test_fields_that_a_newer_pgbench_appends_are_passed_over(tmp_path: Path) -> None:
    log = written(tmp_path / "log.1", f"1 1 850 0 {START} 775614 what is this\n")

    assert ingest([log_of(log)], tmp_path / "out.parquet").counted == 1


def test_window_includes_its_first_microsecond_and_excludes_its_last(tmp_path: Path) -> None:
    lines = [(START, 499_999), (START, 500_000), (START + 1, 499_999), (START + 1, 500_000), (START + 2, 500_000)]
    log = written(tmp_path / "log.1", "".join(f"0 1 5 0 {epoch} {us}\n" for epoch, us in lines))

    report = ingest([log_of(log, window=(START + 0.5, START + 2.5))], tmp_path / "out.parquet")

    assert [(row["second"], row["count"]) for row in rows_of(tmp_path / "out.parquet")] == [(0, 2), (1, 1)]
    assert (report.transactions, report.outside_window, report.counted) == (5, 2, 3)


def test_processes_and_levels_stay_apart(tmp_path: Path) -> None:
    first = written(tmp_path / "a.1", f"0 1 5 0 {START} 0\n")
    second = written(tmp_path / "b.1", f"0 1 5 0 {START} 0\n0 2 5 0 {START} 0\n")
    logs = [
        log_of(first, scenarios=("read",)),
        log_of(second, scenarios=("write",)),
        log_of(second, scenarios=("write",), level=1),
    ]

    report = ingest(logs, tmp_path / "out.parquet")

    rows = rows_of(tmp_path / "out.parquet")
    assert [(row["level"], row["scenario"], row["count"]) for row in rows] == [
        (0, "read", 1),
        (0, "write", 2),
        (1, "write", 2),
    ]
    assert report.counted == 5


def test_every_latency_falls_into_the_bucket_of_the_model(tmp_path: Path) -> None:
    edges = {math.floor(GAMMA**i) + step for i in range(1, 1400) for step in (-1, 0, 1, 2)}
    latencies = sorted({0, 1, 2, 10**15} | {latency for latency in edges if latency < 10**12})
    log = written(
        tmp_path / "log.1", "".join(f"0 1 {latency} 0 {START + i} 0\n" for i, latency in enumerate(latencies))
    )

    ingest([log_of(log, window=(START, START + len(latencies)))], tmp_path / "out.parquet")

    found = [row["buckets"] for row in rows_of(tmp_path / "out.parquet")]
    assert found == [[bucket_of(latency)] for latency in latencies]
    assert all(
        abs(bucket_value(buckets[0]) * 1e6 / latency - 1) <= RELATIVE_ERROR + 1e-9
        for latency, buckets in zip(latencies, found, strict=True)
        if latency > 0
    )


@dataclass(frozen=True)
class Line:
    file: int
    time: int | str
    script: int
    offset: int  # µs since the window's start
    retries: int
    lag: int

    def text(self, *, has_rate: bool, max_tries: int) -> str:
        epoch, microsecond = divmod(START * 10**6 + self.offset, 10**6)
        fields: list[object] = [self.file, 1, self.time, self.script, epoch, microsecond]
        fields += [self.lag] * has_rate + [self.retries] * (max_tries != 1)
        return " ".join(map(str, fields)) + "\n"


LINES = st.builds(
    Line,
    file=st.integers(0, 2),
    time=st.one_of(
        st.integers(0, 10**9), st.integers(0, 5), st.sampled_from(["skipped", "failed", "serialization", "deadlock"])
    ),
    script=st.integers(0, 1),
    offset=st.integers(-2_000_000, 5_000_000),
    retries=st.integers(0, 3),
    lag=st.integers(0, 10**7),
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, max_size=60), has_rate=st.booleans(), max_tries=st.sampled_from([1, 3]))
def test_no_transaction_is_lost_or_counted_twice(
    tmp_path: Path, lines: list[Line], has_rate: bool, max_tries: int
) -> None:
    check_sums(tmp_path, lines, has_rate=has_rate, max_tries=max_tries)


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, max_size=60), has_rate=st.booleans(), max_tries=st.sampled_from([1, 3]))
def test_no_transaction_of_many_logs_is_lost_or_counted_twice(
    tmp_path: Path, lines: list[Line], has_rate: bool, max_tries: int
) -> None:
    check_sums(tmp_path, lines, has_rate=has_rate, max_tries=max_tries)


def part_of(line: Line, window: int, *, has_rate: bool) -> float:
    """Of its time, without that before its turn, the part between 0 and the window's length in µs."""
    if not isinstance(line.time, int):
        return 0.0
    began = line.offset - line.time + line.lag * has_rate
    if began >= line.offset:
        return float(0 <= line.offset < window)
    return max(0, min(line.offset, window) - max(began, 0)) / (line.offset - began)


def check_sums(tmp_path: Path, lines: list[Line], *, has_rate: bool, max_tries: int) -> None:
    files = [tmp_path / f"log.{i}" for i in range(3)]
    for i, file in enumerate(files):
        file.write_text("".join(line.text(has_rate=has_rate, max_tries=max_tries) for line in lines if line.file == i))
    limit = 1000
    log = log_of(*files, window=(START, START + 3.0), latency_limit=limit / 1e6, has_rate=has_rate, max_tries=max_tries)

    report = ingest([log], tmp_path / "out.parquet")

    inside = [line for line in lines if 0 <= line.offset < 3_000_000]
    groups: dict[tuple[int, str], list[Line]] = defaultdict(list)
    for line in inside:
        groups[line.offset // 10**6, log.scenarios[line.script]].append(line)
    rows = {(row["second"], row["scenario"]): row for row in rows_of(tmp_path / "out.parquet")}
    after = {(2, log.scenarios[line.script]) for line in lines if line.offset >= 3_000_000}
    assert groups.keys() <= rows.keys() <= groups.keys() | after
    for name in log.scenarios:
        parts = [part_of(line, 3_000_000, has_rate=has_rate) for line in lines if log.scenarios[line.script] == name]
        mine = [row["inside"] for key, row in rows.items() if key[1] == name]
        assert sum(mine) == pytest.approx(sum(parts), abs=1e-5)
    for key, group in groups.items():
        row, succeeded = rows[key], [line for line in group if isinstance(line.time, int)]
        assert row["count"] + row["failed"] + row["skipped"] == len(group)
        assert row["count"] == len(succeeded)
        assert row["skipped"] == sum(line.time == "skipped" for line in group)
        assert row["late"] == sum(int(line.time) > limit for line in succeeded)
        assert row["latency_sum"] == pytest.approx(sum(int(line.time) for line in succeeded) / 1e6)
        histogram = dict(zip(row["buckets"], row["bucket_counts"], strict=True))
        assert histogram == Counter(bucket_of(int(line.time)) for line in succeeded)
        if max_tries != 1:
            assert row["retries"] == sum(line.retries for line in group)
            assert row["retried"] == sum(line.retries > 0 for line in succeeded)
        if has_rate and succeeded:
            assert row["lag_sum"] == pytest.approx(sum(line.lag for line in succeeded) / 1e6)
    assert report.transactions == len(lines)
    assert report.outside_window == len(lines) - len(inside)
    assert report.counted + report.failed + report.skipped == len(inside)


def test_logs_without_a_line_are_no_transactions(tmp_path: Path) -> None:
    files = [written(tmp_path / f"log.{i}", "") for i in range(2)]

    assert ingest([log_of(*files)], tmp_path / "out.parquet") == NOTHING
    assert rows_of(tmp_path / "out.parquet") == []


def test_a_thread_without_a_line_does_not_disturb_the_others(tmp_path: Path) -> None:
    files = [written(tmp_path / "log.0", ""), written(tmp_path / "log.1", f"0 1 5 0 {START} 0\n")]

    assert ingest([log_of(*files)], tmp_path / "out.parquet").counted == 1


GOOD = f"0 1 850 0 {START} 775614\n"
BAD = {
    "garbage": "garbage\n",
    "a word that is no number": f"a 1 850 0 {START} 775614\n",
    "a word that is no outcome": f"0 1 lost 0 {START} 775614\n",
    "a negative time": f"0 1 -3 0 {START} 775614\n",
    "an empty field": f"0 1 850 0 {START} \n",
    "too few fields": f"0 1 850 0 {START}\n",
    "too many fields": f"0 1 850 0 {START} 775614 7\n",
    "a script that does not exist": f"0 1 850 2 {START} 775614\n",
    "an end that no clock shows": f"0 1 850 0 {10**17} 775614\n",
    "zeros of a crashed file system": "\0" * 40 + "\n",
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD.keys())
def test_a_line_that_is_not_a_log_line_is_an_error_and_leaves_no_file(tmp_path: Path, line: str) -> None:
    log = written(tmp_path / "log.1", GOOD + line + GOOD)

    with pytest.raises(WorkloadError) as caught:
        ingest([log_of(log)], tmp_path / "out.parquet")

    assert "log of load level 0" in caught.value.message
    assert "\n" not in caught.value.message
    assert [path.name for path in tmp_path.iterdir()] == ["log.1"]


def test_the_error_names_the_line_and_the_file(tmp_path: Path) -> None:
    log = written(tmp_path / "log.1", GOOD + "garbage\n")

    with pytest.raises(WorkloadError) as caught:
        ingest([log_of(log)], tmp_path / "out.parquet")

    assert caught.value.detail == f'Line 2 of "{log}" is "garbage".'


def test_a_log_without_the_lag_that_was_asked_for_is_an_error(tmp_path: Path) -> None:
    log = written(tmp_path / "log.1", GOOD)

    with pytest.raises(WorkloadError, match="not a log line"):
        ingest([log_of(log, has_rate=True)], tmp_path / "out.parquet")


def test_a_line_that_was_cut_off_is_an_error_even_where_it_looks_whole(tmp_path: Path) -> None:
    log = written(tmp_path / "log.1", GOOD + GOOD[:-3])

    with pytest.raises(WorkloadError, match="ends in the middle of a line"):
        ingest([log_of(log)], tmp_path / "out.parquet")


def test_a_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="No such file"):
        ingest([log_of(tmp_path / "log.1")], tmp_path / "out.parquet")
    with pytest.raises(WorkloadError, match="left no log"):
        ingest([log_of()], tmp_path / "out.parquet")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    log = written(tmp_path / "log.1", GOOD)

    with pytest.raises(StoreError, match="cannot write"):
        ingest([log_of(log)], tmp_path / "nowhere" / "out.parquet")


def test_wildcards_and_quotes_in_names_are_taken_as_they_stand(tmp_path: Path) -> None:
    odd, decoy = tmp_path / "a[b]c*d?'e {f}", tmp_path / "abcXd1'e {f}"
    odd.mkdir()
    decoy.mkdir()
    written(decoy / "log.1", GOOD * 5)
    log = written(odd / "log.1", GOOD)

    assert ingest([log_of(log, scenarios=("it's", "write"))], odd / "out.parquet").counted == 1
    assert rows_of(odd / "out.parquet")[0]["scenario"] == "it's"


def test_results_do_not_depend_on_how_lines_are_spread_over_files(tmp_path: Path) -> None:
    lines = [f"0 {i} {i * 37 % 5000} {i % 2} {START + i % 7} {i}\n" for i in range(2000)]
    together = written(tmp_path / "all.1", "".join(lines))
    apart = [written(tmp_path / f"part.{i}", "".join(itertools.islice(lines, i, None, 3))) for i in range(3)]

    assert ingest([log_of(together)], tmp_path / "a.parquet") == ingest([log_of(*apart)], tmp_path / "b.parquet")

    assert rows_of(tmp_path / "a.parquet") == rows_of(tmp_path / "b.parquet")


@pytest.mark.parametrize("slices", [False, True])
def test_results_do_not_depend_on_how_much_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slices: bool
) -> None:
    """Much is put into a file beside the result where it has no room in memory."""
    lines = [f"0 {i} {i * 37 % 5000} {i % 2} {START + i % 7} {i}\n" for i in range(2000)]
    log = log_of(written(tmp_path / "log.1", "".join(lines)))
    if slices:
        log = replace(
            log,
            slices=tuple(
                Slice(level=0, number=number, started=START + number, counted=START + number + 0.2, ended=START + end)
                for number, end in ((0, 1), (2, 4.5), (5, 7))
            ),
        )
    reports = []
    for name, little in (("little", parquet._LITTLE), ("much", 0)):
        monkeypatch.setattr(parquet, "_LITTLE", little)
        (tmp_path / name).mkdir()
        parts = tmp_path / name / "slices.parquet" if slices else None
        reports.append(ingest([log], tmp_path / name / "transactions.parquet", slices=parts))

    assert reports[0] == reports[1]
    assert reports[0].counted > 800
    names = ["slices.parquet"] * slices + ["transactions.parquet"]
    assert sorted(path.name for path in (tmp_path / "much").iterdir()) == names
    for name in names:
        with parquet.session() as db:
            little, much = (
                db.execute("SELECT * FROM read_parquet(?)", [str(tmp_path / folder / name)]).fetchall()
                for folder in ("little", "much")
            )
        assert little == much
