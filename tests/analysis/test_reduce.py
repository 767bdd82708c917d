import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pgtrial.analysis import readings
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.reduction import Reduction, Stall, Wait
from pgtrial.errors import StoreError
from pgtrial.model.metric import Sample
from pgtrial.store import layout, parquet
from pgtrial.store.samples import WaitRow, write_samples, write_waits
from support import EXPERIMENT, TransactionRow, write_result_folder, write_transactions
from support.folder import first_file, first_window

WAL = "pg_stat_wal.wal_bytes"
SHORT = EXPERIMENT.replace('"10s"', '"4s"')


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_result_folder(tmp_path_factory.mktemp("template") / "one", text=SHORT, runs=1)


@pytest.fixture
def one(template: Path, tmp_path: Path) -> Path:
    """A result folder of its own with one run of one level of 4 s."""
    return shutil.copytree(template, tmp_path / "it's one")


def reduce_folder(folder: Path) -> Reduction:
    return reduce_runs(read_evidence(folder))


def write_wal(folder: Path, readings: list[tuple[float, float]], name: str = "") -> None:
    write_samples((Sample(t, WAL, name, value) for t, value in readings), first_file(folder, layout.SAMPLES))


def test_totals_and_histograms_are_those_of_the_rows(one: Path) -> None:
    rows = [
        TransactionRow(level=0, second=0, scenario="a", count=100, latency=0.01, failed=1, late=3),
        TransactionRow(level=0, second=1, scenario="a", count=50, latency=0.01, skipped=2),
        TransactionRow(level=0, second=1, scenario="b", count=7, latency=0.5),
    ]
    write_transactions(rows, first_file(one, layout.TRANSACTIONS))

    reduction = reduce_folder(one)

    assert {key: total.count for key, total in reduction.totals.items()} == {
        (1, 0, None): 157,
        (1, 0, "a"): 150,
        (1, 0, "b"): 7,
    }
    everything = reduction.totals[1, 0, None]
    assert (everything.failed, everything.skipped, everything.late) == (1, 2, 3)
    assert everything.latency_sum == pytest.approx(150 * 0.01 + 7 * 0.5)
    assert reduction.histograms[1, 0, None].counts.sum() == 157
    assert reduction.histograms[1, 0, "b"].counts.sum() == 7
    assert (reduction.histograms[1, 0, None].buckets[1:] > reduction.histograms[1, 0, None].buckets[:-1]).all()


def test_rows_of_a_level_without_a_window_are_left_out(one: Path) -> None:
    rows = [TransactionRow(level=level, second=0, scenario="a", count=5, latency=0.01) for level in (0, 1)]
    write_transactions(rows, first_file(one, layout.TRANSACTIONS))

    assert set(reduce_folder(one).totals) == {(1, 0, None), (1, 0, "a")}


def test_a_second_has_its_own_95th_percentile(one: Path) -> None:
    rows = [
        TransactionRow(level=0, second=0, scenario="a", count=400, latency=0.001),
        TransactionRow(level=0, second=2, scenario="a", count=400, latency=0.1),
        TransactionRow(level=0, second=3, scenario="a", count=0, latency=1.0, failed=4),
    ]
    write_transactions(rows, first_file(one, layout.TRANSACTIONS))

    first, second, last = reduce_folder(one).bins[1, 0]

    assert (first.index, first.count, second.index) == (0, 400, 2)
    assert first.latency_p95 is not None
    # exp(0.5 · 1.645 - 0.5²/2) = 2.01 times the mean, for a log-normal latency with σ = 0.5.
    assert first.latency_p95 == pytest.approx(2.01 * 0.001, rel=0.08)
    assert second.latency_p95 == pytest.approx(100 * first.latency_p95, rel=0.03)
    assert (last.count, last.latency_mean, last.latency_p95) == (0, None, None)


@pytest.mark.parametrize(
    ("seconds", "stall"), [((0, 1, 2, 3), 0), ((0, 3), 2), ((2, 3), 2), ((0, 1), 2), ((1, 2), 1), ((), None)]
)
def test_seconds_in_a_row_without_a_transaction_are_a_stall(
    one: Path, seconds: tuple[int, ...], stall: int | None
) -> None:
    rows = [TransactionRow(level=0, second=second, scenario="a", count=9, latency=0.01) for second in seconds]
    write_transactions(rows, first_file(one, layout.TRANSACTIONS))

    found = reduce_folder(one).stalls.get((1, 0))
    assert (found and found.seconds) == stall


def test_active_sessions_in_a_stall_are_those_of_seconds_that_lie_in_it_as_a_whole(one: Path) -> None:
    rows = [TransactionRow(level=0, second=second, scenario="a", count=9, latency=0.01) for second in (0, 3)]
    write_transactions(rows, first_file(one, layout.TRANSACTIONS))
    start, _ = first_window(one)
    waits = [
        WaitRow(start + 0.4, 10, "client backend", "pgtrial/all", "active", "", "", "SELECT ?", 40),
        WaitRow(start + 1.4, 10, "client backend", "pgtrial/all", "active", "", "", "SELECT ?", 3),
        WaitRow(start + 1.4, 10, "client backend", "pgtrial/all", "active", "IO", "WALSync", "END", 2),
        WaitRow(start + 1.4, 10, "client backend", "pgtrial/all", "idle", "Client", "ClientRead", "", 35),
        WaitRow(start + 1.4, 10, "client backend", "psql", "active", "", "", "SELECT ?", 10),
        WaitRow(start + 2.4, 10, "client backend", "pgtrial/all", "active", "", "", "SELECT ?", 40),
    ]
    write_waits(waits, first_file(one, layout.WAITS))

    assert reduce_folder(one).stalls[1, 0] == Stall(seconds=2, active=0.5)


def test_stall_in_which_nobody_was_asked_has_no_number_of_sessions(one: Path) -> None:
    rows = [TransactionRow(level=0, second=second, scenario="a", count=9, latency=0.01) for second in (0, 3)]
    write_transactions(rows, first_file(one, layout.TRANSACTIONS))
    first_file(one, layout.WAITS).unlink()

    assert reduce_folder(one).stalls[1, 0] == Stall(seconds=2)


def test_a_long_run_has_wider_bins(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", text=EXPERIMENT.replace('"10s"', '"10min"'), runs=1)

    reduction = reduce_folder(folder)

    assert reduction.widths == {1: 2}
    assert len(reduction.bins[1, 0]) == 300


def test_an_increase_is_interpolated_at_the_ends_of_the_window(one: Path) -> None:
    start, end = first_window(one)
    # 2 B/s before the window's first reading, 8 B/s in the middle, 100 B/s over its end.
    write_wal(one, [(start - 1, 0), (start + 1, 4), (end - 1, 20), (end + 1, 220)])

    assert reduce_folder(one).increases[1, 0, WAL] == {"": pytest.approx(2 + 16 + 100)}


def test_readings_outside_the_window_do_not_matter(one: Path) -> None:
    start, end = first_window(one)
    write_wal(one, [(start - 2, 900), (start - 1, 0), (start, 10), (end, 50), (end + 1, 0)])

    assert reduce_folder(one).increases[1, 0, WAL] == {"": pytest.approx(40)}


def test_counter_reset_yields_no_increase(one: Path) -> None:
    start, end = first_window(one)
    write_wal(one, [(start - 1, 100), (start + 1, 120), (start + 2, 0), (end + 1, 30)])

    assert (1, 0, WAL) not in reduce_folder(one).increases


def test_a_reset_of_one_object_leaves_no_increase_of_the_counter(one: Path) -> None:
    start, end = first_window(one)
    samples = [
        *(Sample(t, "disk.reads", "vda", value) for t, value in ((start, 0), (end, 10))),
        *(Sample(t, "disk.reads", "vdb", value) for t, value in ((start, 9), (end, 0))),
    ]
    write_samples(samples, first_file(one, layout.SAMPLES))

    assert (1, 0, "disk.reads") not in reduce_folder(one).increases


@pytest.mark.parametrize("ends", [(1.5, 0.0), (0.0, -1.5)])
def test_readings_that_do_not_reach_over_the_window_yield_no_increase(one: Path, ends: tuple[float, float]) -> None:
    start, end = first_window(one)
    first, last = start + ends[0], end + ends[1]
    write_wal(one, [(first, 0), (first + 1, 10), (last - 1, 20), (last, 30)])

    reduction = reduce_folder(one)

    assert (1, 0, WAL) not in reduction.increases
    assert reduction.gaps[1] == pytest.approx(1.5)


def test_a_step_stands_for_the_rest_of_the_window_when_the_next_reading_was_not_due_yet(one: Path) -> None:
    start, end = first_window(one)
    # 10 B/s at first, 30 B/s at last; half a second of the window lies before the first reading, 0.75 s after the last.
    readings = [(start + 0.5, 0), (start + 1.5, 10), (end - 1.75, 20), (end - 0.75, 50)]
    write_wal(one, readings)

    assert reduce_folder(one).increases[1, 0, WAL] == {"": pytest.approx(50 + 0.5 * 10 + 0.75 * 30)}


def test_the_longest_gap_between_readings_is_kept(one: Path) -> None:
    start, end = first_window(one)
    write_wal(one, [(start - 1, 0), (start + 0.5, 1), (start + 3.5, 2), (end + 1, 3)])

    assert reduce_folder(one).gaps == {1: pytest.approx(3.0)}


def test_only_active_client_sessions_of_the_load_are_waits(one: Path) -> None:
    start, end = first_window(one)
    rows = [
        WaitRow(start, 10, "client backend", "pgtrial/all", "active", "", "", "SELECT ?", 20),
        WaitRow(start, 10, "client backend", "pgtrial/all", "active", "IO", "WALSync", "END", 5),
        WaitRow(start + 1, 10, "client backend", "pgtrial/all", "active", "IO", "WALSync", "END", 15),
        WaitRow(start, 10, "client backend", "pgtrial/all", "idle in transaction", "Client", "ClientRead", "", 10),
        WaitRow(start, 10, "client backend", "psql", "active", "", "", "SELECT ?", 10),
        WaitRow(start, 10, "parallel worker", "pgtrial/all", "active", "", "", "SELECT ?", 10),
        WaitRow(end, 10, "client backend", "pgtrial/all", "active", "", "", "SELECT ?", 1000),
    ]
    write_waits(rows, first_file(one, layout.WAITS))

    # 20 polls: 20 / 20 sessions on a CPU and (5 + 15) / 20 in WALSync.
    assert reduce_folder(one).waits == {
        (1, 0): (
            Wait(wait_type="", wait_event="", sessions=1.0),
            Wait(wait_type="IO", wait_event="WALSync", sessions=1.0),
        )
    }


def test_scatter_of_what_was_found_is_that_of_batches_of_the_seconds(one: Path) -> None:
    """Four seconds are four batches. One in which nothing was found is one too; of twice the polls more is expected."""
    start, _ = first_window(one)
    rows = [
        WaitRow(start, 10, "client backend", "pgtrial/a", "active", "IO", "WALSync", "END", 25),
        WaitRow(start, 10, "client backend", "pgtrial/b", "active", "IO", "WALSync", "COMMIT", 15),
        *(
            WaitRow(
                start + second, polls, "client backend", "pgtrial/a", "idle in transaction", "Client", "", "", found
            )
            for second, polls, found in ((0, 10, 4), (1, 10, 4), (2, 20, 8), (3, 10, 4))
        ),
        WaitRow(start, 10, "client backend", "pgtrial/a", "active", "", "", "SELECT ?", 20),
        WaitRow(start, 10, "client backend", "psql", "active", "IO", "WALSync", "END", 100),
    ]
    write_waits(rows, first_file(one, layout.WAITS))

    scatter = reduce_folder(one).scatter

    polls = np.array([10, 10, 20, 10])
    hits = np.array([40, 0, 0, 0])
    expected = 4 / 3 * float(((hits - 40 * polls / 50) ** 2).sum())
    assert scatter[1, 0, None]["IO", "WALSync"] == pytest.approx(expected)
    assert scatter[1, 0, None]["idle in transaction", ""] == pytest.approx(0, abs=1e-9)
    assert scatter[1, 0, "b"]["IO", "WALSync"] == pytest.approx(expected * (15 / 40) ** 2)
    assert set(scatter[1, 0, None]) == {("IO", "WALSync"), ("idle in transaction", "")}


def test_polls_without_an_active_session_are_known(one: Path) -> None:
    start, _ = first_window(one)
    rows = [WaitRow(start, 10, "checkpointer", "", "", "Activity", "CheckpointerMain", "", 10)]
    write_waits(rows, first_file(one, layout.WAITS))

    assert reduce_folder(one).waits == {(1, 0): ()}


def test_a_missing_transactions_file_is_named(one: Path) -> None:
    path = first_file(one, layout.TRANSACTIONS)
    path.unlink()

    with pytest.raises(StoreError) as caught:
        reduce_folder(one)

    assert str(path) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("file", "column", "said"),
    [
        (layout.TRANSACTIONS, "list_append(buckets, 7) AS buckets", "values of its histograms are missing"),
        (layout.TRANSACTIONS, "[2000000000 for b in buckets] AS buckets", "its histograms have latencies of no clock"),
        (layout.TRANSACTIONS, "[-1 for b in buckets] AS buckets", "its histograms have latencies of no clock"),
        (layout.TRANSACTIONS, "-1.0 AS inside", "its times or counts are no numbers"),
        (layout.TRANSACTIONS, "'nan'::DOUBLE AS inside", "its times or counts are no numbers"),
        (layout.SAMPLES, "value::VARCHAR AS value", 'values of "value" are no numbers'),
        (layout.SAMPLES, "-1e40 AS value", 'a reading of ".*" is 1e\\+40'),
    ],
    ids=[
        "a histogram that lacks a value",
        "a latency of years",
        "a latency before it began",
        "less than no part of a transaction",
        "a part that is no number",
        "a reading that is a text",
        "a reading of no machine",
    ],
)
def test_what_no_run_has_written_is_damage(one: Path, file: str, column: str, said: str) -> None:
    rewrite(first_file(one, file), f"REPLACE ({column})")

    with pytest.raises(StoreError, match=f"is damaged: {said}"):
        reduce_folder(one)


@pytest.mark.parametrize("codec", ["brotli", "gzip", "lz4", "snappy", "zstd"])
def test_a_file_that_unpacks_to_much_more_than_it_is_is_damage(one: Path, codec: str) -> None:
    path = first_file(one, layout.SAMPLES)
    table = pq.read_table(path)
    long = pa.array(["x" * 50_000_000, *[""] * (len(table) - 1)])
    pq.write_table(table.set_column(table.schema.get_field_index("object"), "object", long), path, compression=codec)
    assert path.stat().st_size < 5_000_000

    # Snappy takes a twentieth of it, which a file of honest texts might, too: there it is the length of the text.
    with pytest.raises(
        StoreError, match=r'is damaged: (its .* bytes hold 50,.* bytes of "object"|it has a text of 50,)'
    ):
        reduce_folder(one)


def test_counts_that_are_missing_where_the_file_does_not_say_so_are_damage(one: Path) -> None:
    path = first_file(one, layout.TRANSACTIONS)
    table = pq.read_table(path)
    column = table.schema.get_field_index("skipped")
    missing = pa.nulls(len(table), table.schema.field(column).type)
    pq.write_table(table.set_column(column, "skipped", missing), path, write_statistics=False)

    with pytest.raises(StoreError, match="is damaged: its times or counts are no numbers"):
        reduce_folder(one)


def rewrite(path: Path, how: str) -> None:
    name = str(path).replace("'", "''")
    with parquet.connect() as db:
        db.execute(f"CREATE TABLE t AS SELECT * {how} FROM '{name}'")
        path.unlink()
        db.execute(f"COPY t TO '{name}' (FORMAT parquet)")


def test_runs_of_an_earlier_pgtrial_do_not_tell_what_was_inside(tmp_path: Path) -> None:
    """Alone, and beside those of a later one that has gone on with the experiment."""
    folder = write_result_folder(tmp_path / "two", text=SHORT, runs=2)
    first, second = sorted(folder.glob(f"runs/*/{layout.TRANSACTIONS}"))

    rewrite(second, "EXCLUDE (inside)")
    mixed = reduce_folder(folder).totals
    rewrite(first, "EXCLUDE (inside)")
    old = reduce_folder(folder).totals

    assert mixed[1, 0, None].inside == mixed[1, 0, None].count
    assert [mixed[2, 0, None].inside, old[1, 0, None].inside, old[2, 0, None].inside] == [None, None, None]
    assert [old[run, 0, None].count for run in (1, 2)] == [mixed[run, 0, None].count for run in (1, 2)]


def test_a_damaged_file_is_named(one: Path) -> None:
    path = first_file(one, layout.TRANSACTIONS)
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(StoreError, match=r"transactions\.parquet"):
        reduce_folder(one)


def test_a_run_without_samples_still_counts_and_is_listed(one: Path) -> None:
    first_file(one, layout.SAMPLES).unlink()
    first_file(one, layout.WAITS).unlink()

    reduction = reduce_folder(one)

    assert reduction.totals[1, 0, None].count > 0
    assert (reduction.increases, reduction.gaps, reduction.waits) == ({}, {}, {})
    assert (reduction.without_samples, reduction.without_waits) == ((1,), (1,))


def test_without_valid_runs_nothing_is_read(tmp_path: Path) -> None:
    assert reduce_folder(write_result_folder(tmp_path / "r", runs=0)) == Reduction()


def test_every_run_of_a_simulation_is_reduced(evidence: Evidence, reduction: Reduction) -> None:
    assert {run for run, _, scenario in reduction.totals if scenario is None} == {run.id for run in evidence.valid}
    # 600 kB/s of WAL for 10 s, whatever the arm.
    assert all(reduction.increases[run.id, 0, WAL] == {"": pytest.approx(6e6)} for run in evidence.valid)


def leaves(value: object) -> Iterator[object]:
    match value:
        case Mapping():
            for key in sorted(value, key=str):
                yield key
                yield from leaves(value[key])
        case tuple():
            for each in value:
                yield from leaves(each)
        case np.ndarray():
            yield from value.ravel().tolist()
        case _:
            yield value


def test_what_is_too_much_for_memory_is_reduced_to_the_same(
    evidence: Evidence, mix_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (evidence, read_evidence(mix_folder)):
        monkeypatch.undo()
        kept = reduce_runs(each)
        monkeypatch.setattr(parquet, "_LITTLE", 0)
        monkeypatch.setattr(readings, "_TOGETHER", 0)  # s of measured time: each run alone
        read_again = reduce_runs(each)

        assert kept.waits
        for one, other in zip(leaves(asdict(read_again)), leaves(asdict(kept)), strict=True):
            assert one == (pytest.approx(other) if isinstance(other, float) else other)
