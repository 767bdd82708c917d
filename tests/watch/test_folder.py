"""The folder of a watch: what was written is there once, whoever is killed when, and sums are those of the readings."""

import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgtrial.errors import StoreError
from pgtrial.model.metric import Sample
from pgtrial.safe_files import new_path
from pgtrial.store.samples import StatementRow, WaitRow
from pgtrial.watch.folder import Ages, Mark, Rows, WatchFolder, open_folder, read_mark
from pgtrial.watch.layout import (
    DAY,
    HOUR,
    KINDS,
    MINUTE,
    SAMPLES,
    STATEMENTS,
    WAITS,
    day_name,
    file_name,
    hour_parts,
    look,
)
from pgtrial.watch.sums import CLOCK, LONGEST_OFTEN

MARK = Mark(server="db1:5432", database="shop")
START = 1795824000 + 3 * HOUR  # 2026-11-28 03:00 UTC
COUNTER, GAUGE, STARTED = "pg_stat_database.xact_commit", "proc_meminfo.free", "server_life.started"
COUNTERS = ((COUNTER, LONGEST_OFTEN), ("disk.reads", LONGEST_OFTEN))
LONG = Ages(readings=100 * DAY, minutes=100 * DAY, hours=1000 * DAY)


@contextmanager
def opened(root: Path, ages: Ages = LONG) -> Iterator[WatchFolder]:
    with open_folder(root, MARK, ages=ages, counters=COUNTERS, keep_free=0) as folder:
        yield folder


class Killed(BaseException):
    pass


class Kill:
    """From the ``steps``-th change of a name on, nothing happens any more."""

    def __init__(self, patch: pytest.MonkeyPatch, steps: int) -> None:
        self.left = steps
        for name in ("rename", "unlink", "mkdir", "rmdir"):
            patch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            if self.left <= 0:
                raise Killed
            self.left -= 1
            return call(*args, **options)

        return counted


def query(files: Sequence[Path], statement: str) -> list[tuple[Any, ...]]:
    if not files:
        return []
    with duckdb.connect() as db:
        listed = ", ".join(f"'{path}'" for path in files)
        return db.execute(statement.replace("{files}", f"read_parquet([{listed}])")).fetchall()


def readings(root: Path, kind: str) -> list[tuple[Any, ...]]:
    found = look(root)
    files = [
        root.joinpath(*hour_parts(hour), name) for hour, kinds in found.hours.items() for name in kinds[kind].readings
    ]
    columns = {
        SAMPLES: "t, metric, object, value",
        WAITS: ", ".join(WaitRow._fields),
        STATEMENTS: ", ".join(StatementRow._fields),
    }[kind]
    return sorted(query(files, f"SELECT {columns} FROM {{files}}"))


def minutes(root: Path, kind: str, columns: str) -> list[tuple[Any, ...]]:
    found = look(root)
    files = [
        root.joinpath(*hour_parts(hour), kinds[kind].minutes[1])  # type: ignore[index]
        for hour, kinds in found.hours.items()
        if kinds[kind].minutes is not None
    ]
    return sorted(query(files, f"SELECT {columns} FROM {{files}}"))


def hours(root: Path, kind: str, columns: str) -> list[tuple[Any, ...]]:
    files = [
        root / day_name(day) / kinds[kind].hours[1]  # type: ignore[index]
        for day, kinds in look(root).days.items()
        if kinds[kind].hours is not None
    ]
    return sorted(query(files, f"SELECT {columns} FROM {{files}}"))


def batch(t: float, value: float, *, started: float = 1.0, clock: float = 100.0) -> Rows:
    """What a tick may read."""
    return Rows(
        samples=[
            Sample(t, COUNTER, "", value),
            Sample(t, "disk.reads", "vda", 2 * value),
            Sample(t, GAUGE, "", value / 2),
            Sample(t, STARTED, "", started),
            Sample(t, CLOCK, "", clock),
            Sample(t, "sessions.polls", "", 5.0),
        ],
        waits=[WaitRow(t, 5, "client backend", "app", "active", "IO", "DataFileRead", "SELECT ?", int(value) % 7)],
        statements=[StatementRow(t, "1", int(value), 2, value / 10, 3, 4, 5, 6, 7, 8, 9, "SELECT $1")],
    )


class Oracle:
    """The sums of a counter by minute, step by step."""

    def __init__(self, ticks: Sequence[tuple[float, float]], breaks: Sequence[tuple[float, float]] = ()) -> None:
        self.totals: dict[float, float] = defaultdict(float)
        self.seconds: dict[float, float] = defaultdict(float)
        for (t0, old), (t, value) in pairwise(ticks):
            is_broken = any(begun < t and ended > t0 for begun, ended in breaks)
            if value < old or not 0 < t - t0 <= LONGEST_OFTEN or is_broken:
                continue
            minute = t0 // MINUTE * MINUTE
            while minute < t:
                part = min(t, minute + MINUTE) - max(t0, minute)
                self.totals[minute] += (value - old) * part / (t - t0)
                self.seconds[minute] += part
                minute += MINUTE


steps = st.lists(
    st.tuples(st.integers(1, 90), st.integers(-40, 100), st.booleans(), st.integers(0, 25)), min_size=2, max_size=6
)


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(steps=steps, offset=st.integers(3000, 3590))
def test_what_was_written_is_there_once_whenever_the_writer_is_killed(
    steps: list[tuple[int, int, bool, int]], offset: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "w"
        t, value = float(START + offset), 1000.0
        durable: set[tuple[Any, ...]] = set()
        ticks: list[tuple[float, float]] = []
        for wait, growth, is_killed, at in steps:
            t, value = t + wait, value + growth
            rows = batch(t, value)
            with pytest.MonkeyPatch.context() as patch:
                if is_killed:
                    Kill(patch, at)
                try:
                    with opened(root) as folder:
                        folder.write(rows)
                        folder.maintain(t + 4 * HOUR)
                except Killed:
                    pass
            there = readings(root, SAMPLES) if (root / "watch.json").exists() else []
            now = {(each.t, each.metric, each.object, each.value) for each in rows.samples}
            assert durable <= set(there) <= durable | now  # nothing is lost, nothing comes from nowhere …
            assert len(there) == len(set(there))  # … and nothing is there twice
            if len(there) > len(durable):
                assert set(there) == durable | now  # a part is there whole
                ticks.append((t, value))
            durable = set(there)
        with opened(root) as folder:
            assert folder.maintain(t + 30 * HOUR) == ()
        oracle = Oracle(ticks)
        columns = "t, total, seconds"
        where = f"{columns} FROM (SELECT * FROM {{files}} WHERE metric = '{COUNTER}') --"
        found = minutes(root, SAMPLES, where)
        assert [row[0] for row in found] == sorted(oracle.totals)
        assert [row[1] for row in found] == pytest.approx([oracle.totals[row[0]] for row in found])
        assert [row[2] for row in found] == pytest.approx([oracle.seconds[row[0]] for row in found])
        by_hour: dict[float, float] = defaultdict(float)
        for minute, total, _ in found:
            by_hour[minute // HOUR * HOUR] += total
        assert {row[0]: pytest.approx(row[1]) for row in hours(root, SAMPLES, where)} == by_hour
        polled = [row for row in readings(root, SAMPLES) if row[1] == "sessions.polls"]
        gauges = minutes(root, SAMPLES, "t, metric, count, total FROM (SELECT * FROM {files} WHERE seconds IS NULL) --")
        assert sum(row[3] for row in gauges if row[1] == "sessions.polls") == sum(row[3] for row in polled)
        waited = minutes(root, WAITS, "sessions")
        assert sum(row[0] for row in waited) == sum(row[-1] for row in readings(root, WAITS))


def write_day(root: Path, *, ages: Ages = LONG) -> list[tuple[float, float]]:
    """Two hours of readings, one each 30 s."""
    ticks = [(START + 1800.0 + 30 * number, 100.0 + 7 * number) for number in range(240)]
    with opened(root, ages) as folder:
        for first in range(0, len(ticks), 40):
            rows = Rows()
            for t, value in ticks[first : first + 40]:
                more = batch(t, value)
                rows.samples += more.samples
                rows.waits += more.waits
                rows.statements += more.statements
            folder.write(rows)
    return ticks


def test_hours_are_one_file_and_sums_are_kept_as_it_ages(tmp_path: Path) -> None:
    ages = Ages(readings=2 * DAY, minutes=10 * DAY, hours=100 * DAY)
    root = tmp_path / "w"
    ticks = write_day(root)
    grown = ticks[-1][1] - ticks[0][1]
    total = f"sum(total), sum(seconds) FROM (SELECT * FROM {{files}} WHERE metric = '{COUNTER}') --"

    with opened(root, ages) as folder:
        assert folder.maintain(START + 4 * HOUR) == ()
        place = root.joinpath(*hour_parts(START))
        assert sorted(path.name for path in place.iterdir()) == sorted(
            name for kind in KINDS for name in (file_name(kind, "", 2), file_name(kind, "minutes", 2))
        )
        assert [row[0] for row in minutes(root, SAMPLES, total)] == [pytest.approx(grown)]
        assert sum(row[0] for row in minutes(root, STATEMENTS, "calls")) == grown
        folder.maintain(START + 3 * DAY)
        assert readings(root, SAMPLES) == []  # as old as they may be
        assert [row[0] for row in minutes(root, SAMPLES, total)] == [pytest.approx(grown)]
        folder.maintain(START + 12 * DAY)
        assert minutes(root, SAMPLES, total) == []
        assert [row[0] for row in hours(root, SAMPLES, total)] == [pytest.approx(grown)]
        assert sum(row[0] for row in hours(root, STATEMENTS, "calls")) == grown
        folder.maintain(START + 102 * DAY)
        assert sorted(path.name for path in root.iterdir()) == ["watch.json", "watch.lock"]


def test_readings_that_come_late_are_added_to_sums_of_what_has_aged(tmp_path: Path) -> None:
    """As after a clock that stood a few days ahead."""
    root = tmp_path / "w"
    ticks = write_day(root)
    with opened(root, replace(LONG, readings=DAY)) as folder:
        folder.maintain(START + 3 * DAY)
        late = [(START + 60.0 * number, 5.0 * number) for number in range(4)]
        for t, value in late:
            folder.write(batch(t, value))
        folder.maintain(START + 4 * DAY)
        folder.maintain(START + 4 * DAY)

    total = f"sum(total) FROM (SELECT * FROM {{files}} WHERE metric = '{COUNTER}') --"
    assert minutes(root, SAMPLES, total) == [(pytest.approx(ticks[-1][1] - ticks[0][1] + 15.0),)]


@pytest.mark.parametrize("what", ["started", "clock"])
def test_a_counter_that_began_anew_is_a_gap_also_where_it_did_not_fall(tmp_path: Path, what: str) -> None:
    ticks = [(START + 10.0 * number, 100.0 * number) for number in range(12)]
    root = tmp_path / "w"
    with opened(root) as folder:
        for number, (t, value) in enumerate(ticks):
            folder.write(batch(t, value, **{what: 500.0 if number >= 6 else 100.0}))
        folder.maintain(START + 2 * HOUR)

    oracle = Oracle(ticks, [(ticks[5][0], ticks[6][0])])
    for metric, factor in ((COUNTER, 1.0), ("disk.reads", 2.0)):
        where = f"t, total, seconds FROM (SELECT * FROM {{files}} WHERE metric = '{metric}') --"
        found = minutes(root, SAMPLES, where)
        is_gap = metric == COUNTER or what == "clock"  # the machine goes on while its server starts anew
        expected = oracle if is_gap else Oracle(ticks)
        assert {row[0]: (row[1], row[2]) for row in found} == {
            minute: (pytest.approx(factor * total), pytest.approx(expected.seconds[minute]))
            for minute, total in expected.totals.items()
        }
    calls = sum(row[0] for row in minutes(root, STATEMENTS, "calls"))
    assert calls == 1000  # of 1100


def test_a_statement_that_is_new_has_begun_at_zero_and_one_that_fell_is_a_gap(tmp_path: Path) -> None:
    def row(t: float, queryid: str, calls: int) -> StatementRow:
        return StatementRow(t, queryid, calls, 0, calls / 10, 0, 0, 0, 0, 0, 0, 0, "")

    counts = {
        "old": (100, 110, 120, 130),
        "new": (None, None, 4, 9),
        "forgotten": (50, None, 3, 8),
        "fell": (9, 3, 5, 6),
    }
    rows = [
        row(START + 60.0 * place + 1, queryid, calls)
        for queryid, found in counts.items()
        for place, calls in enumerate(found)
        if calls is not None
    ]
    root = tmp_path / "w"
    with opened(root) as folder:
        folder.write(Rows(samples=batch(START + 1.0, 1.0).samples, statements=rows))
        folder.maintain(START + 2 * HOUR)

    found = minutes(root, STATEMENTS, "queryid, sum(calls), sum(seconds) FROM (SELECT * FROM {files}) GROUP BY ALL --")
    assert {row[0]: row[1:] for row in found} == {
        "old": (30, 180.0),
        "new": (9, 120.0),
        "forgotten": (8, 120.0),
        "fell": (3, 120.0),
    }


def test_one_folder_has_one_watch_of_one_server(tmp_path: Path) -> None:
    root = tmp_path / "w"
    with opened(root), pytest.raises(StoreError, match="another pgtrial watches into"), opened(root):
        pass
    assert read_mark(root) == MARK
    with (
        pytest.raises(StoreError, match='has what was read of database "shop" at db1:5432'),
        open_folder(root, replace(MARK, database="erp"), ages=LONG, counters=COUNTERS, keep_free=0),
    ):
        pass


@pytest.mark.parametrize(
    "name",
    ["notes.txt", "2026-13-01/05/samples-000001.parquet", "2026-11-28/05/evil.so", "2026-11-28/05/samples-1.parquet"],
)
def test_a_foreign_file_is_refused_by_name_and_stays(tmp_path: Path, name: str) -> None:
    path = tmp_path / "w" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")

    with pytest.raises(StoreError, match="is no file of a watch") as caught, opened(tmp_path / "w"):
        pass

    assert caught.value.message.split('"')[1] in {str(path), *map(str, path.parents)}
    assert path.read_text() == "mine"


def test_a_link_is_refused(tmp_path: Path) -> None:
    write_day(tmp_path / "theirs")
    root = tmp_path / "w"
    write_day(root)
    place = root.joinpath(*hour_parts(START))
    (place / "samples-part-000009.parquet").symlink_to(next((tmp_path / "theirs").rglob("samples-part*")))
    with pytest.raises(StoreError, match="samples-part-000009"):
        look(root)


def test_a_damaged_part_is_named_and_all_else_is_done(tmp_path: Path) -> None:
    root = tmp_path / "w"
    write_day(root)
    damaged = next(root.joinpath(*hour_parts(START)).glob("samples-part-*"))
    damaged.write_bytes(b"PAR1 no")
    with opened(root) as folder:
        failed = folder.maintain(START + 30 * HOUR)

    assert all(damaged.name in (each.message + each.detail) for each in failed)
    assert failed
    assert damaged.read_bytes() == b"PAR1 no"
    assert hours(root, WAITS, "sum(sessions)") != []


def test_a_disk_that_is_nearly_full_ends_the_watch_before_it_is(tmp_path: Path) -> None:
    root = tmp_path / "w"
    with opened(root):
        pass
    with (
        pytest.raises(StoreError, match="the watch has ended: the disk of") as caught,
        open_folder(root, MARK, ages=LONG, counters=COUNTERS, keep_free=1 << 60),
    ):
        pass
    assert "Free some space" in caught.value.hint


def test_a_folder_that_was_removed_ends_the_watch_with_its_name(tmp_path: Path) -> None:
    root = tmp_path / "watched"
    with opened(root) as folder:
        folder.write(batch(1000.0, 1.0))
        shutil.rmtree(root)

        with pytest.raises(StoreError, match=r"watched.* cannot be reached: No such file"):
            folder.write(batch(1005.0, 2.0))


def test_what_a_kill_left_over_is_removed(tmp_path: Path) -> None:
    root = tmp_path / "w"
    write_day(root)
    left = root.joinpath(*hour_parts(START), ".samples-000002.parquet-0123456789abcdef")
    left.mkdir()
    (left / "samples-000002.parquet").write_bytes(b"half")
    with opened(root):
        assert not left.exists()


def test_what_is_being_written_meanwhile_is_not_taken_for_left_over(tmp_path: Path) -> None:
    root = tmp_path / "w"
    write_day(root)
    path = root.joinpath(*hour_parts(START), "samples-000002.parquet")
    with opened(root) as folder:
        with new_path(path) as part:
            assert folder.maintain(START) == ()
            part.write_bytes(b"whole")

        assert path.read_bytes() == b"whole"
