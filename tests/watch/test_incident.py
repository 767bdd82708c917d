"""An incident that was written into a folder: what is said of it, what it points to, and of a promise."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgtrial.cli.compare_times import choose_windows
from pgtrial.cli.main import main
from pgtrial.cli.options import WhichAlarm
from pgtrial.errors import SpecError
from pgtrial.model.metric import Sample
from pgtrial.model.verdict import Verdict
from pgtrial.store.samples import StatementRow, WaitRow
from pgtrial.watch.compare import Comparison, comparable_window, compare
from pgtrial.watch.folder import Ages, Mark, Rows, open_folder
from pgtrial.watch.layout import DAY, MINUTE
from pgtrial.watch.page import render_times
from pgtrial.watch.promise import Outcome, Promise, judge, promise_lines, read_promise
from pgtrial.watch.rows import Row
from pgtrial.watch.sums import COUNTERS
from pgtrial.watch.windows import Window, fine_step
from pgtrial.watch.words import NOTHING, Suspicion, pointers, sentences
from support import Simulation, write_result_folder
from support.incident import (
    AUDIT,
    LENGTH,
    LOOK,
    REPORT,
    SELL,
    START,
    STEP,
    A,
    B,
    audit,
    lock,
    wait,
    write,
    write_statements,
)


def codes(found: Comparison) -> list[Suspicion]:
    return [each.code for each in pointers(found)]


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("locked") / "shop"
    write(root, lock)
    return root


def test_who_held_the_lock_is_named_with_the_waits_that_it_made(locked: Path) -> None:
    found = compare(locked, A, B)
    said = " ".join(sentences(found))
    assert "Lock transactionid +" in said
    assert (
        f"“{SELL}” waited for a session that was idle in transaction, last with “UPDATE product SET kind = ?”" in said
    )
    assert codes(found) == [Suspicion.LOCKS]  # and no new statement: who waits had just been too fast for a poll
    total, *parts = found.latency
    assert total.change == pytest.approx(sum(part.change or 0.0 for part in parts))
    assert total.change == pytest.approx(3.5 / 50, rel=0.2)


def test_of_nothing_nothing_is_said(tmp_path: Path) -> None:
    write(tmp_path / "w")
    found = compare(tmp_path / "w", A, B)
    assert list(sentences(found)) == [NOTHING]
    assert pointers(found) == ()


def test_a_new_statement_is_one_that_was_not_sent_before(tmp_path: Path) -> None:
    write(tmp_path / "w", audit)
    (pointer,) = pointers(compare(tmp_path / "w", A, B))
    assert (pointer.code, pointer.statement) == (Suspicion.NEW_STATEMENT, AUDIT)


def test_what_never_happened_before_is_known_by_the_noise_of_when_it_did(tmp_path: Path) -> None:
    write(tmp_path / "w", spilled=3e6)
    found = compare(tmp_path / "w", A, B)
    assert codes(found) == [Suspicion.SPILL]
    (said,) = sentences(found)
    assert said.startswith("Bytes of temporary files: 0 B/s → ")


def test_more_rows_for_the_same_work(tmp_path: Path) -> None:
    write(tmp_path / "w", rows_read=3.0)
    assert codes(compare(tmp_path / "w", A, B)) == [Suspicion.ROWS]


def test_more_blocks_for_the_same_rows_are_bloat_or_a_plan_and_an_open_transaction_is_said(tmp_path: Path) -> None:
    def leave_open(rows: Rows, t: float, rng: np.random.Generator) -> None:
        seen = int(rng.integers(STEP - 2, STEP + 1))
        rows.waits.append(
            WaitRow(t, STEP, "client backend", "app", "idle in transaction", "Client", "ClientRead", LOOK, seen)
        )

    write(tmp_path / "w", blocks=3.0)
    write(tmp_path / "open", leave_open, blocks=3.0)
    alone, together = (pointers(compare(tmp_path / name, A, B)) for name in ("w", "open"))
    assert [each.code for each in alone] == [each.code for each in together] == [Suspicion.BLOAT]
    assert ["left open" in each.text for each in (*alone, *together)] == [False, True]
    write(tmp_path / "both", blocks=3.0, rows_read=3.0)
    assert codes(compare(tmp_path / "both", A, B)) == [Suspicion.ROWS]


@pytest.mark.parametrize(
    ("event", "is_named"), [("IO/WALSync", True), ("LWLock/WALWrite", True), ("IO/BufFileRead", False), ("", False)]
)
def test_waits_for_files_point_to_the_disk_but_for_temporary_ones(tmp_path: Path, event: str, is_named: bool) -> None:
    def slow(rows: Rows, t: float, rng: np.random.Generator) -> None:
        wait(rows, t, REPORT, event, int(rng.integers(10, 20)))

    write(tmp_path / "w", slow)
    assert codes(compare(tmp_path / "w", A, B)) == [Suspicion.DISK] * is_named


def test_connections_that_are_opened(tmp_path: Path) -> None:
    write(tmp_path / "w", opened=20.0)
    (pointer,) = pointers(compare(tmp_path / "w", A, B))
    assert pointer.code is Suspicion.CONNECTIONS
    assert "connections are opened (0" in pointer.text


def test_what_a_slot_holds_is_known_by_its_growth(tmp_path: Path) -> None:
    write(tmp_path / "w", held=3000.0)
    found = compare(tmp_path / "w", A, B)
    assert codes(found) == [Suspicion.SLOT]
    (said,) = sentences(found)
    assert said.startswith("Growth of WAL that a replication slot holds: 0 B/s → ")


def test_a_short_window_is_cut_finer_and_a_long_one_into_minutes() -> None:
    assert [fine_step(Window(0, minutes * MINUTE)) for minutes in (1, 3, 6, 9, 12, 18, 36, 600)] == [
        *(5, 5, 10, 15, 20, 30, 60, 60)
    ]


def test_the_page_and_the_document_say_the_same(
    locked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "incident.html"
    windows = ["2026-11-28T00:00/00:06", "2026-11-28T00:06/00:12"]
    assert main(["compare-times", str(locked), *windows, "--json", "-o", str(page)]) == 0
    document = json.loads(capsys.readouterr().out)
    html = page.read_text()
    assert document["points_to"][0]["code"] == "locks"
    assert "What it points to" in html
    assert "This is observation, not proof" in html
    assert "idle in transaction" in html
    assert "<script>window" not in html.partition("<main")[0]


def test_a_name_from_the_folder_writes_no_markup(tmp_path: Path) -> None:
    def attack(rows: Rows, t: float, rng: np.random.Generator) -> None:
        wait(rows, t, "<script>alert(1)</script>", "", int(rng.integers(3, 8)))

    write(tmp_path / "w", attack)
    page = tmp_path / "p.html"
    assert (
        main(
            ["compare-times", str(tmp_path / "w"), "2026-11-28T00:00/00:06", "2026-11-28T00:06/00:12", "-o", str(page)]
        )
        == 0
    )
    assert "<script>alert" not in page.read_text()


@pytest.mark.parametrize(("back", "words"), [(7 * DAY, "a week before"), (DAY, "the day before"), (0, "right before")])
def test_a_window_is_compared_with_the_nearest_that_is_like_it(tmp_path: Path, back: int, words: str) -> None:
    write(tmp_path / "w")
    if back:
        write(tmp_path / "w", start=START - back)
    a, said = comparable_window(tmp_path / "w", B)
    assert words in said
    assert (a.end - a.start, B.start - a.start) == (LENGTH, back or LENGTH)


def test_a_window_with_nothing_before_it(tmp_path: Path) -> None:
    write(tmp_path / "w")
    with pytest.raises(SpecError, match="could be compared with"):
        comparable_window(tmp_path / "w", A)


def time_row(low: float | None, high: float | None, ratio: float = 0.8) -> Row:
    return Row(name="time", unit="s", a=1.0, b=ratio, change=ratio, low=low, high=high, is_ratio=True)


def promise(*, faster: bool = True) -> Promise:
    ratio, low, high = (0.8, 0.75, 0.85) if faster else (1 / 0.8, 1 / 0.85, 1 / 0.75)
    return Promise(
        experiment="e",
        arm="x",
        verdict=Verdict.SUPPORTED,
        provisional=False,
        ratio=ratio,
        mean_low=ratio * 0.99,
        mean_high=ratio * 1.01,
        low=low,
        high=high,
        blocks=(ratio,),
    )


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.78, 0.9, Outcome.KEPT),
        (0.5, 0.6, Outcome.MORE),
        (0.9, 0.95, Outcome.LESS),
        (0.95, 1.05, Outcome.LESS),
        (1.1, 1.2, Outcome.LESS),
        (0.8, 1.1, Outcome.OPEN),
        (None, None, Outcome.OPEN),
    ],
)
def test_a_promise_is_judged_by_both_intervals(low: float | None, high: float | None, outcome: Outcome) -> None:
    row = time_row(low, high)
    assert judge(promise(), row) is outcome
    assert len(promise_lines(promise(), row)) == 3
    if low is not None and high is not None:  # and of what was to take longer
        mirrored = promise(faster=False), time_row(1 / high, 1 / low, 1.25)
        assert judge(*mirrored) is outcome


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment whose arm doubles throughput."""
    return write_result_folder(tmp_path_factory.mktemp("result") / "commit")


@pytest.fixture(scope="module")
def slowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A watch of a server whose commits take twice the time of A in B."""

    def slow(rows: Rows, t: float, rng: np.random.Generator) -> None:
        wait(rows, t, REPORT, "", int(rng.poisson(4)))

    root = tmp_path_factory.mktemp("slowed") / "shop"
    write(root, slow)
    return root


def test_a_change_is_held_against_what_its_experiment_promised(
    result: Path, slowed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = "2026-11-28T00:00/00:06", "2026-11-28T00:06/00:12"
    told = [["compare-times", str(slowed), *windows, "--promised", str(result)] for windows in ((b, a), (a, b))]
    assert main(told[0]) == 0
    printed = capsys.readouterr().out
    assert "Promised by commit, arm off (supported): time of a transaction −" in printed
    assert "It brought what was promised." in printed
    assert main(told[1]) == 3
    assert "It did not bring what was promised." in capsys.readouterr().out


def test_the_page_draws_what_was_seen_beside_what_was_promised(result: Path, slowed: Path, tmp_path: Path) -> None:
    page = tmp_path / "after.html"
    windows = ("2026-11-28T00:06/00:12", "2026-11-28T00:00/00:06")
    assert main(["compare-times", str(slowed), *windows, "--promised", str(result), "-o", str(page)]) == 0
    told, time, html = read_promise(result), compare(slowed, B, A).time, page.read_text()

    (spec,) = (
        json.loads(each)
        for each in re.findall(r'<script type="application/json">(.*?)</script>', html, flags=re.DOTALL)
        if "one more block" in each
    )
    effect, block, seen = spec["data"]["values"]
    (band,) = spec["layer"][0]["data"]["values"]
    assert (effect["low"], effect["high"]) == (
        pytest.approx(told.mean_low, rel=1e-3),
        pytest.approx(told.mean_high, rel=1e-3),
    )
    # Less time for more throughput; one more block is less sure than the mean of them.
    assert told.low < told.mean_low < told.ratio < told.mean_high < told.high < 1
    assert effect["blocks"] == pytest.approx(told.blocks, rel=1e-3)
    assert len(told.blocks) > 1
    assert band == {"low": told.low, "high": told.high}
    assert (block["low"], block["high"]) == (pytest.approx(told.low, rel=1e-3), pytest.approx(told.high, rel=1e-3))
    assert (seen["low"], seen["high"]) == (pytest.approx(time.low, rel=1e-3), pytest.approx(time.high, rel=1e-3))
    (text,) = re.findall(r'aria-label="(Forest plot [^"]*)"', html)
    assert all(row["label"] in text for row in (effect, block, seen))
    assert "It brought what was promised." in html
    assert "Promised by commit, arm off (supported)" in html


def test_what_was_seen_without_an_interval_or_not_at_all_is_said_as_such(locked: Path) -> None:
    mark, found = Mark(server="db1:5432", database="shop"), compare(locked, A, B)
    page = render_times(mark, replace(found, time=time_row(None, None)), [], promise())
    assert "A → B, time at work per commit: −20.0 % (without an interval)" in page
    page = render_times(mark, replace(found, time=replace(time_row(None, None), change=None)), [], promise())
    assert "What was seen is not known." in page
    assert "Did it bring" not in render_times(mark, found, [])


def test_what_is_not_decided_promises_nothing(locked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alike = write_result_folder(tmp_path / "alike", simulation=Simulation(tps={"on": 500.0, "off": 500.0}))
    windows = ("2026-11-28T00:00/00:06", "2026-11-28T00:06/00:12")
    assert main(["compare-times", str(locked), *windows, "--promised", str(alike)]) == 2
    assert "promises nothing: its interval includes no difference" in capsys.readouterr().err


def test_wrong_windows_are_usage_errors(locked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare-times", str(locked)]) == 2
    assert main(["compare-times", str(locked), "now-1h", "now-1h", "now-1h"]) == 2
    assert "give B, or A and B" in capsys.readouterr().err


def test_an_alarm_needs_calm_time_first(locked: Path) -> None:
    with pytest.raises(SpecError, match="too little calm time"):
        choose_windows(locked, (), WhichAlarm(number=1, calm=None, one_in=None))


QUARTER = 15 * MINUTE
TWO = Window(START, START + QUARTER), Window(START + QUARTER, START + 2 * QUARTER)


@pytest.mark.parametrize("rows_per_call", [1.0, 0.0])
def test_a_plan_that_has_changed_reads_more_blocks_for_the_same_rows(tmp_path: Path, rows_per_call: float) -> None:
    write_statements(tmp_path / "w", lasts=QUARTER, blocks=50.0, calls=0.5, rows_per_call=rows_per_call)
    (pointer,) = pointers(compare(tmp_path / "w", *TWO))
    assert (pointer.code, pointer.statement) == (Suspicion.PLAN, LOOK)
    (said,) = re.findall(r"reads (\S+) times as many blocks per call \((\S+) to (\S+)\)", pointer.text)
    times, low, high = (float(each) for each in said)
    assert times == pytest.approx(50, rel=0.05)
    assert low < 50 < high
    assert f"“{LOOK}”" in pointer.text
    assert "its plan has probably changed, or else its data" in pointer.text
    (change,) = re.findall(r"with (\S+) → (\S+) rows per call", pointer.text)
    assert [float(each) for each in change] == pytest.approx([0.975 * rows_per_call] * 2, rel=0.02)


@pytest.mark.parametrize(
    "change",
    [
        {"calls": 5.0},  # more of the same
        {"blocks": 30.0, "rows": 30.0},  # it is asked for more
        {"blocks": 1.5},  # as data grow
        {"blocks": 1 / 50},  # back again
        {},
    ],
)
def test_other_calls_and_other_rows_are_no_other_plan(tmp_path: Path, change: dict[str, float]) -> None:
    write_statements(tmp_path / "w", lasts=QUARTER, **change)
    found = compare(tmp_path / "w", *TWO)
    assert pointers(found) == ()
    look = next(each for each in found.statements if each.query.startswith("SELECT * FROM event"))
    assert look.calls.b == pytest.approx((look.calls.a or 0.0) * change.get("calls", 1.0), rel=0.05)
    assert look.blocks.change == pytest.approx(change.get("blocks", 1.0), rel=0.05)
    assert look.blocks_per_row.change == pytest.approx(change.get("blocks", 1.0) / change.get("rows", 1.0), rel=0.05)


def test_windows_that_are_too_short_point_to_no_plan(tmp_path: Path) -> None:
    write_statements(tmp_path / "w", blocks=50.0)
    assert pointers(compare(tmp_path / "w", A, B)) == ()


def test_statements_have_blocks_per_call(tmp_path: Path) -> None:
    root = tmp_path / "w"
    rows = Rows()
    for minute in range(13):
        t = float(START + minute * MINUTE)
        blocks = 100 * minute if minute < 6 else 100 * 6 + 1000 * (minute - 6)
        rows.samples += [
            Sample(t, "pg_stat_statements.calls", "", 10.0 * minute),
            Sample(t, "sessions.polls", "", 60.0),
        ]
        rows.statements.append(
            StatementRow(t, "7", 10 * minute, 0, 0.1 * minute, blocks, 0, 0, 0, 0, 0, 0, "SELECT $1")
        )
    with open_folder(
        root, Mark(server="db1:5432", database="shop"), ages=Ages(), counters=COUNTERS, keep_free=0
    ) as folder:
        folder.write(rows)
    (statement,) = compare(root, A, B).statements
    assert (statement.blocks.a, statement.blocks.b) == (pytest.approx(10, rel=0.01), pytest.approx(100, rel=0.01))
