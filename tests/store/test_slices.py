"""Logs of an arm that took turns with another one, against the same arithmetic done line by line in Python."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

from pgtrial.model.run import Slice
from pgtrial.store import parquet
from pgtrial.store.pgbench_log import LevelLog
from pgtrial.store.transactions import ingest

START = 1_795_232_577


def slice_of(number: int, started: float, ended: float, guard: float = 0.1) -> Slice:
    return Slice(level=0, number=number, started=START + started, counted=START + started + guard, ended=START + ended)


# The arm is at work in seconds 0-1, 3-4 and 5-6.
SLICES = (slice_of(0, 0, 1), slice_of(3, 3, 4), slice_of(5, 5, 6))


def ingested(
    tmp_path: Path, lines: list[tuple[float, int]], slices: tuple[Slice, ...] = SLICES, *, frozen: bool = True
):
    """Lines are (end in seconds from START, latency in µs); rows of both files."""
    log = tmp_path / "log.1"
    micros = [(round(end * 1e6), latency) for end, latency in lines]
    log.write_text(
        "".join(
            f"0 {i} {latency} 0 {START + end // 1_000_000} {end % 1_000_000}\n"
            for i, (end, latency) in enumerate(micros)
        )
    )
    whole = LevelLog(
        level=0,
        scenarios=("read",),
        files=(log,),
        window=(slices[0].counted, slices[-1].ended),
        latency_limit=None,
        has_rate=False,
        max_tries=1,
        slices=slices,
        frozen=frozen,
    )
    out, sliced = tmp_path / "transactions.parquet", tmp_path / "slices.parquet"
    report = ingest([whole], out, slices=sliced)
    with parquet.session() as db:
        seconds = db.execute("SELECT second, count, latency_sum FROM read_parquet(?) ORDER BY 1", [str(out)]).fetchall()
        parts = db.execute(
            "SELECT slice, part, count, latency_sum FROM read_parquet(?) ORDER BY 1, 2", [str(sliced)]
        ).fetchall()
    return report, seconds, parts


def inside(tmp_path: Path, lines: list[tuple[float, int]], **how) -> list[tuple[int, float]]:
    """(second of measured time, transactions by the part of each that counts)"""
    ingested(tmp_path, lines, **how)
    with parquet.session() as db:
        rows = db.execute(
            "SELECT second, inside FROM read_parquet(?) ORDER BY 1", [str(tmp_path / "transactions.parquet")]
        )
        return rows.fetchall()


def test_a_transaction_counts_with_the_part_of_its_own_time_that_counts(tmp_path):
    # Begun at 0.9 s, ended at 3.5: at work for 0.6 s, of which 0.1 s of guard time do not count.
    assert inside(tmp_path, [(3.5, 2_600_000)]) == [(1, pytest.approx(0.5 / 0.6, abs=1e-5))]
    # Ended in guard time: what was before that counts.
    assert inside(tmp_path, [(3.05, 2_150_000)]) == [(0, pytest.approx(0.1 / 0.15, abs=1e-5))]
    # Ended after the last slice, and begun in it; and all in guard time.
    assert inside(tmp_path, [(6.5, 1_000_000)]) == [(2, pytest.approx(0.5, abs=1e-5))]
    assert inside(tmp_path, [(5.05, 10_000)]) == []
    # By the clock, where nothing stands still.
    assert inside(tmp_path, [(3.5, 2_600_000)], frozen=False) == [(1, pytest.approx(0.5 / 2.6, abs=1e-5))]


def test_only_what_ends_in_counted_time_counts(tmp_path):
    report, seconds, parts = ingested(tmp_path, [(0.05, 10), (0.1, 10), (0.999999, 10), (1.0, 10), (3.5, 10), (7, 10)])

    assert report.transactions == 6
    assert (report.counted, report.outside_window) == (3, 3)
    assert [(second, count) for second, count, _ in seconds] == [(0, 2), (1, 1)]  # 3.5 s is 1.3 s of counted time
    assert [(number, part, count) for number, part, count, _ in parts] == [(0, -1, 1), (0, 0, 1), (0, 3, 1), (3, 1, 1)]


def test_latency_is_without_the_standstill(tmp_path):
    # Begun at 0.9 s, stopped from 1 to 3, ended at 3.2: 0.1 s and 0.2 s. Begun at 0.8, over two stops to 5.5: 1.7 s.
    _, _, parts = ingested(tmp_path, [(3.2, 2_300_000), (5.5, 4_700_000)])

    assert [latency for *_, latency in parts] == pytest.approx([0.3, 1.7])


def test_before_the_first_slice_time_goes_on(tmp_path):
    _, _, parts = ingested(tmp_path, [(0.5, 1_500_000)])
    assert parts[0][3] == pytest.approx(1.5)


def test_slices_without_a_break_have_no_standstill(tmp_path):
    pair = (slice_of(0, 0, 5, guard=1), slice_of(1, 5, 10, guard=1))
    report, seconds, parts = ingested(tmp_path, [(4.5, 20_000), (6.5, 3_000_000)], pair)

    assert report.counted == 2
    assert [second for second, *_ in seconds] == [3, 4]
    assert [latency for *_, latency in parts] == pytest.approx([0.02, 3.0])


def test_many_lines_against_the_same_arithmetic_in_python(tmp_path):
    rng = random.Random(7)
    lines = sorted((rng.uniform(-0.5, 6.5), round(rng.expovariate(1 / 400_000))) for _ in range(3000))

    report, seconds, parts = ingested(tmp_path, lines)

    def own_time(t: float) -> float:
        """After the last slice it goes on."""
        if t < 0:
            return t
        return sum(max(0.0, min(t, s.ended - START) - (s.started - START)) for s in SLICES) + max(0.0, t - 6)

    def counted_time(t: float) -> float:
        return sum(max(0.0, min(t, s.ended - START) - (s.counted - START)) for s in SLICES)

    expected: dict[tuple[int, int], list[float]] = {}
    for end, latency in lines:
        for s in SLICES:
            if s.started - START <= end < s.ended - START:
                into = end - (s.counted - START)
                part = int(4 * into / s.seconds) if into >= 0 else -1
                expected.setdefault((s.number, part), []).append(own_time(end) - own_time(end - latency / 1e6))
    assert {(number, part): count for number, part, count, _ in parts} == {k: len(v) for k, v in expected.items()}
    for number, part, _, latency in parts:
        assert latency == pytest.approx(sum(expected[number, part]), abs=1e-3)
    counts = [
        (counted_time(end) - counted_time(end - latency / 1e6)) / (own_time(end) - own_time(end - latency / 1e6))
        for end, latency in lines
        if own_time(end) > own_time(end - latency / 1e6)
    ]
    assert sum(part for _, part in inside(tmp_path, lines)) == pytest.approx(sum(counts), rel=1e-4)
    counted = sum(len(found) for (_, part), found in expected.items() if part >= 0)
    assert report.counted == counted == sum(count for _, count, _ in seconds)
    assert all(later > earlier for (earlier, *_), (later, *_) in pairwise(seconds))
    assert seconds[-1][0] == 2  # 2.7 s of counted time
