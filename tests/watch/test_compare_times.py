"""Two windows of a watched server's time: what is found of a planted difference, and of none."""

import json
import math
from pathlib import Path

import duckdb
import numpy as np
import pytest

from pgtrial.cli.main import main
from pgtrial.errors import SpecError, StoreError
from pgtrial.model.metric import Sample
from pgtrial.store.samples import StatementRow, WaitRow
from pgtrial.watch.compare import Comparison, compare
from pgtrial.watch.folder import Ages, Mark, Rows, open_folder
from pgtrial.watch.layout import DAY, HOUR
from pgtrial.watch.rows import Row
from pgtrial.watch.sums import COUNTERS, SETTLED
from pgtrial.watch.windows import Window, parse_window

START = 1795824000 + 3 * HOUR  # 2026-11-28 03:00 UTC
STEP = 15.0
A, B, C = (Window(START + hour * HOUR, START + (hour + 1) * HOUR) for hour in range(3))


def write(root: Path, *, gap: tuple[float, float] = (0.0, 0.0), maintain_at: float = 0.0) -> None:
    """Three hours; in the second one 20 % more commits, twice the time in the statement, and sessions wait for I/O."""
    rng = np.random.default_rng(11)
    rows, commits, calls, busy, noise = Rows(), 0.0, 0, 0.0, 0.0
    for number in range(round(3 * HOUR / STEP) + 1):
        t = START + number * STEP
        is_b = B.start <= t < B.end
        noise = 0.5 * noise + rng.normal()
        commits += STEP * (1.2 if is_b else 1.0) * 100 * math.exp(0.03 * noise)
        new = 10 + int(rng.integers(0, 3))
        calls, busy = calls + new, busy + new * (0.02 if is_b else 0.01) * math.exp(0.05 * rng.normal())
        if gap[0] <= t < gap[1]:
            continue
        rows.samples += [
            Sample(t, "pg_stat_database.xact_commit", "", commits),
            Sample(t, "sessions.polls", "", 15.0),
            Sample(t, "proc_meminfo.MemAvailable", "", 1e9 + 1e6 * rng.normal()),
            Sample(t, "pg_stat_database.deadlocks", "", 0.0),
        ]
        for event, mean in (("", 1.5), ("DataFileRead", 2.0 if is_b else 0.5)):
            sessions = int(rng.poisson(15 * mean))
            kind = "IO" if event else ""
            rows.waits.append(WaitRow(t, 15, "client backend", "app", "active", kind, event, "SELECT ?", sessions))
        rows.waits.append(WaitRow(t, 15, "client backend", "app", "idle", "Client", "ClientRead", "", 100))
        if number % 4 == 0:
            rows.samples.append(Sample(t, "pg_stat_statements.calls", "", float(calls)))
            rows.statements.append(StatementRow(t, "7", calls, 0, busy, 0, 0, 0, 0, 0, 0, 0, "SELECT $1 FROM item"))
    mark = Mark(server="db1:5432", database="shop")
    with open_folder(root, mark, ages=Ages(), counters=COUNTERS, keep_free=0) as folder:
        folder.write(rows)
        if maintain_at:
            assert folder.maintain(maintain_at) == ()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("watch") / "shop"
    write(root)
    return root


@pytest.fixture(scope="module")
def found(shop: Path) -> Comparison:
    return compare(shop, A, B)


def row(rows: tuple[Row, ...], name: str) -> Row:
    (one,) = (each for each in rows if each.name == name)
    return one


def holds(one: Row, truth: float) -> bool:
    assert one.low is not None
    assert one.high is not None
    return one.low <= truth <= one.high


def test_throughput_and_latency_by_littles_law(found: Comparison) -> None:
    commits = row(found.throughput, "commits")
    assert commits.a == pytest.approx(100, rel=0.03)
    assert commits.is_sure
    assert holds(commits, 1.2)
    active = row(found.throughput, "active client sessions")
    assert holds(active, 1.5)
    times = row(found.throughput, "time at work per commit")
    assert times.a == pytest.approx(0.02, rel=0.05)
    assert holds(times, (3.5 / 120) / (2.0 / 100))


def test_waits_are_the_difference_of_average_sessions(found: Comparison) -> None:
    io, cpu = row(found.waits, "IO/DataFileRead"), row(found.waits, "CPU")
    assert found.waits[0] == io
    assert (io.a, io.b) == (pytest.approx(0.5, abs=0.05), pytest.approx(2.0, abs=0.1))
    assert io.is_sure
    assert holds(io, 1.5)
    assert not cpu.is_sure
    assert len(found.waits) == 2  # who is idle does not wait


def test_statements_have_calls_and_time(found: Comparison) -> None:
    (statement,) = found.statements
    assert statement.query == "SELECT $1 FROM item"
    assert holds(statement.time, 2.0)
    assert statement.time.is_sure
    assert not statement.calls.is_sure
    assert (statement.share_a, statement.share_b) == (1.0, 1.0)


def test_what_never_happened_is_a_zero_and_what_was_not_read_is_none(found: Comparison) -> None:
    deadlocks = row(found.machine, "deadlocks")
    assert (deadlocks.a, deadlocks.b, deadlocks.low) == (0.0, 0.0, None)
    assert not any(each.name == "device reads" for each in found.machine)


def test_windows_that_are_alike_differ_in_nothing(shop: Path) -> None:
    alike = compare(shop, A, C)
    assert not any(each.is_sure for each in (*alike.waits, *alike.machine))
    assert holds(row(alike.throughput, "commits"), 1.0)


def test_a_gap_is_left_out_and_said(tmp_path: Path) -> None:
    write(tmp_path / "w", gap=(A.start + 600.0, A.start + 1800.0))
    with_gap = compare(tmp_path / "w", A, B)
    assert with_gap.covered_a == pytest.approx(2 / 3)
    commits = row(with_gap.throughput, "commits")
    assert commits.a == pytest.approx(100, rel=0.03)
    assert row(with_gap.waits, "CPU").a == pytest.approx(1.5, abs=0.1)


def test_it_is_the_same_of_hours_that_are_summed_up(tmp_path: Path, found: Comparison) -> None:
    write(tmp_path / "w", maintain_at=START + 3 * HOUR + SETTLED + 1)
    later = compare(tmp_path / "w", A, B)
    for before, after in zip((*found.throughput, *found.waits), (*later.throughput, *later.waits), strict=True):
        assert (after.name, after.a, after.b) == (before.name, pytest.approx(before.a), pytest.approx(before.b))
        assert after.low == pytest.approx(before.low)


def test_of_what_has_aged_hours_are_left(tmp_path: Path) -> None:
    root = tmp_path / "w"
    write(root, maintain_at=START + 2 * DAY)
    ages = Ages(readings=DAY, minutes=DAY)
    mark = Mark(server="db1:5432", database="shop")
    with open_folder(root, mark, ages=ages, counters=COUNTERS, keep_free=0) as folder:
        for day in (3, 4, 5):
            folder.maintain(START + day * DAY)
    old = compare(root, A, B)
    assert old.step_a == HOUR
    commits = row(old.throughput, "commits")
    assert commits.change == pytest.approx(1.2, rel=0.02)
    assert commits.low is None


def test_a_time_of_which_there_is_nothing(shop: Path) -> None:
    with pytest.raises(StoreError, match="has nothing of 2026-11-20T03:00/04:00"):
        compare(shop, Window(A.start - 8 * DAY, A.end - 8 * DAY), B)


@pytest.mark.parametrize(
    ("text", "start", "minutes"),
    [
        ("2026-11-28T03:00/04:00", START, 60),
        ("2026-11-28T03:00:30/03:05:59", START + 60, 4),
        ("2026-11-28T23:00/01:00", START + 20 * HOUR, 120),
        ("2026-11-28T06:00+03:00/2026-11-28T04:00Z", START, 60),
        ("now-1h", START - HOUR, 60),
        ("now-25h/now-24h", START - 25 * HOUR, 60),
    ],
)
def test_windows_as_one_writes_them(text: str, start: int, minutes: int) -> None:
    window = parse_window(text, now=float(START))
    assert (window.start, window.minutes) == (start, minutes)


@pytest.mark.parametrize("text", ["", "yesterday", "now-1x", "now/now-1h", "2026-11-28T03:00/2026-13-01", "now-30s"])
def test_what_is_no_window_is_said_with_its_form(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_window(text, now=float(START))
    assert "2026-11-28T04:00/05:00" in caught.value.hint


def test_the_command_says_that_it_is_observation(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    windows = ["2026-11-28T03:00/04:00", "2026-11-28T04:00/05:00"]
    assert main(["compare-times", str(shop), *windows]) == 0
    printed = capsys.readouterr().out
    assert "database shop at db1:5432" in printed
    assert "This is observation, not proof" in printed
    (commits,) = (line for line in printed.splitlines() if line.startswith("  commits"))
    assert "/s" in commits
    assert "*" in commits

    assert main(["compare-times", str(shop), *windows, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert document["waits"][0]["name"] == "IO/DataFileRead"
    assert document["note"].startswith("This is observation, not proof")


def test_a_folder_of_another_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare-times", str(tmp_path), "now-2h/now-1h", "now-1h"]) == 1
    assert "watch.json" in capsys.readouterr().err


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "change",
    [
        "'inf'::DOUBLE AS total",
        "'nan'::DOUBLE AS total",
        "-total AS total",
        "0.0 AS seconds",
        "t + 59.9 AS t",
        "1e300 AS total",
        "'\x1b[2J' || metric AS metric",
    ],
)
def test_forged_sums_are_no_bug(tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str) -> None:
    root = tmp_path / "w"
    write(root, maintain_at=START + 3 * HOUR + SETTLED + 1)
    for path in root.rglob("samples-minutes-*.parquet"):
        with duckdb.connect() as db:
            db.execute(f"CREATE TABLE forged AS SELECT * REPLACE ({change}) FROM read_parquet('{path}')")
            db.execute(f"COPY forged TO '{path}' (FORMAT parquet)")
    assert main(["compare-times", str(root), "2026-11-28T03:00/04:00", "2026-11-28T04:00/05:00"]) in (0, 1)
    printed = capsys.readouterr()
    assert "this is a bug" not in printed.err
    assert "\x1b" not in printed.out + printed.err


def test_a_damaged_file_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "w"
    write(root)
    damaged = sorted(root.rglob("samples-part-*.parquet"))[0]
    damaged.write_bytes(damaged.read_bytes()[:1000])
    assert main(["compare-times", str(root), "2026-11-28T03:00/04:00", "2026-11-28T04:00/05:00"]) == 1
    assert damaged.name in capsys.readouterr().err
