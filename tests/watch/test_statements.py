"""The statements of a watched server, and one over time: what was planted is what is shown."""

import json
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.errors import SpecError
from pgtrial.model.metric import Sample
from pgtrial.store.samples import StatementRow, WaitRow
from pgtrial.watch.folder import Ages, Mark, Rows, open_folder
from pgtrial.watch.layout import DAY, HOUR, MINUTE
from pgtrial.watch.statements import Statement, find_statement, read_history, read_window
from pgtrial.watch.sums import COUNTERS
from pgtrial.watch.windows import Window

START = 1795824000  # 2026-11-28 00:00 UTC
WHOLE = Window(START, START + 2 * HOUR)
SELL, LOOK = "UPDATE product SET stock = stock - ? WHERE id = ?", "SELECT stock FROM product WHERE id = ?"
GAP = (START + 30 * MINUTE, START + 40 * MINUTE)


def write(root: Path, *, maintain_at: float = 0.0) -> Path:
    """Two hours of polls each second. In the second one SELL waits for locks as often as it is at work otherwise.

    It is called twice a second, by two texts that are one without literals, takes 10 ms, then 20 ms, and 7 blocks.
    """
    rows = Rows()
    calls, busy = 0, 0.0
    for t in range(START, WHOLE.end + 1, 10):
        is_late = t > START + HOUR
        if t % MINUTE == 0:
            rows.statements += [
                StatementRow(t, "1", calls, calls, busy, 7 * calls, 0, 0, 0, 0, 0, 0, SELL.replace("?", "$1", 1)),
                StatementRow(t, "2", calls, calls, busy, 0, 7 * calls, 0, 0, 0, 0, 0, f"{SELL.replace('?', '$1')};"),
            ]
            rows.samples.append(Sample(t, "pg_stat_statements.calls", "", float(2 * calls)))
        calls, busy = calls + 10, busy + 10 * (0.02 if t >= START + HOUR else 0.01)
        if GAP[0] <= t < GAP[1]:
            continue
        rows.samples.append(Sample(t, "sessions.polls", "", 10.0))
        waits = [("", "", SELL, 5), ("IO", "DataFileRead", LOOK, 1)] + [("Lock", "tuple", SELL, 5)] * is_late
        rows.waits += [
            WaitRow(t, 10, "client backend", "app", "active", kind, event, query, sessions)
            for kind, event, query, sessions in waits
        ]
    mark = Mark(server="db1:5432", database="shop")
    with open_folder(root, mark, ages=Ages(), counters=COUNTERS, keep_free=0) as folder:
        folder.write(rows)
        if maintain_at:
            assert folder.maintain(maintain_at) == ()
    return root


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("watch") / "shop")


@pytest.fixture(scope="module")
def statements(shop: Path) -> tuple[Statement, ...]:
    return read_window(shop, WHOLE)


def test_statements_of_a_window_have_their_calls_and_waits(statements: tuple[Statement, ...]) -> None:
    sell, look = statements

    assert (sell.query, sell.queryids) == (SELL, ("1", "2"))
    assert sell.calls == pytest.approx(2.0, rel=0.02)
    assert sell.time == pytest.approx(0.015, rel=0.02)
    assert sell.blocks == pytest.approx(7.0)
    assert list(sell.waits) == ["CPU", "Lock/tuple"]
    assert sell.waits["CPU"] == pytest.approx(0.5, rel=0.02)
    assert sell.sessions == pytest.approx(sum(sell.waits.values()))
    assert (look.query, look.queryids, look.calls, look.time) == (LOOK, (), None, None)
    assert dict(look.waits) == {"IO/DataFileRead": pytest.approx(0.1)}


def test_history_shows_when_it_changed_and_by_which_wait(shop: Path) -> None:
    history = read_history(shop, WHOLE, SELL, by=10 * MINUTE)

    assert [step.start for step in history.steps] == list(range(START, WHOLE.end, 10 * MINUTE))
    assert history.waits == ("CPU", "Lock/tuple")
    before, after = history.steps[1], history.steps[-2]
    assert (before.time, after.time) == (pytest.approx(0.01), pytest.approx(0.02))
    assert (before.calls, after.calls) == (pytest.approx(2.0), pytest.approx(2.0))
    assert before.waits == (pytest.approx(0.5), pytest.approx(0.0))
    assert after.waits == (pytest.approx(0.5), pytest.approx(0.5))
    assert after.sessions == pytest.approx(1.0)


def test_a_gap_of_the_polls_is_a_gap_and_what_was_counted_meanwhile_is_known(shop: Path) -> None:
    gap = read_history(shop, WHOLE, SELL, by=10 * MINUTE).steps[3]

    assert gap.start == GAP[0]
    assert (gap.sessions, gap.waits) == (None, (None, None))
    assert gap.calls == pytest.approx(2.0)


def test_where_hours_are_left_steps_are_hours(tmp_path: Path) -> None:
    old = write(tmp_path / "old", maintain_at=START + 2 * DAY)
    mark = Mark(server="db1:5432", database="shop")
    with open_folder(old, mark, ages=Ages(readings=DAY, minutes=DAY), counters=COUNTERS, keep_free=0) as folder:
        for day in (3, 4, 5):
            folder.maintain(START + day * DAY)

    with pytest.raises(SpecError, match="sums of hours only"):
        read_history(old, WHOLE, SELL, by=10 * MINUTE)
    first, second = read_history(old, WHOLE, SELL, by=HOUR).steps
    assert (first.waits[1], second.waits[1]) == (pytest.approx(0.0), pytest.approx(0.5, rel=0.02))


def test_a_statement_is_meant_by_its_queryid_its_text_or_a_part(statements: tuple[Statement, ...]) -> None:
    for text in ("2", SELL, "update  PRODUCT"):
        assert find_statement(statements, text).query == SELL
    with pytest.raises(SpecError, match='2 statements have "product" in them') as several:
        find_statement(statements, "product")
    assert several.value.detail == f"{SELL}\n{LOOK}"
    with pytest.raises(SpecError, match='no statement of that time has "orders" in it'):
        find_statement(statements, "orders")


def test_the_command_lists_and_shows_one(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    window = ("--window", "2026-11-28T00:00/02:00")

    assert main(["statements", str(shop), *window]) == 0
    listed = capsys.readouterr().out
    assert "database shop at db1:5432" in listed
    assert listed.index(SELL) < listed.index(LOOK)

    assert main(["statements", str(shop), "UPDATE", *window, "--by", "1h"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (head,) = [line for line in lines if "sessions" in line and "calls" in line]
    assert head.split() == ["calls", "time", "blocks", "sessions", "CPU", "Lock", "tuple"]
    assert [line.split()[:2] for line in lines if line.strip().startswith("2026-11-28 0")] == [
        ["2026-11-28", "00:00"],
        ["2026-11-28", "01:00"],
    ]

    assert main(["statements", str(shop), "UPDATE", *window, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["waits"] == ["CPU", "Lock/tuple"]
    assert told["by"] == 5 * MINUTE
    assert len(told["steps"]) == 24


@pytest.mark.parametrize("words", [["--by", "90s"], ["UPDATE", "--by", "soon"], ["--by", "1h"]])
def test_what_is_no_step_is_a_usage_error(shop: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["statements", str(shop), "--window", "2026-11-28T00:00/02:00", *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")
