"""Statements per call, from counts of pg_stat_statements that began before the runs."""

from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.causes.statement_use import describe_statements
from pgtrial.analysis.evidence import read_evidence
from pgtrial.findings.naming import UNKNOWN_STATEMENT
from pgtrial.report.html import render_html
from pgtrial.store import layout
from pgtrial.store.samples import StatementRow, write_statements
from support import write_result_folder


def row(t: float, query: str, calls: int, *, seconds: float, queryid: str = "1") -> StatementRow:
    """After ``calls`` of ``seconds`` each, two rows, ten hits, one read, three dirtied blocks and 100 bytes of WAL."""
    return StatementRow(
        t, queryid, calls, 2 * calls, seconds * calls, 10 * calls, calls, 3 * calls, 0, 0, 0, 100 * calls, query
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each run of "on" adds 1000 slow and 500 quick calls; the other arms have no file."""
    path = write_result_folder(tmp_path_factory.mktemp("statements") / "folder")
    for number, run in enumerate(read_evidence(path).runs_of("on")):
        rows = [
            *(row(t, "slow", 70 + 1000 * t, seconds=0.002, queryid=str(number)) for t in (0, 1)),
            *(row(t, "quick", 10 + 250 * t, seconds=0.001, queryid="2") for t in (0, 1, 2)),
            *(row(t, "idle", 5, seconds=1.0, queryid="3") for t in (0, 2)),
            *(row(t, "", 100 * t, seconds=0.0, queryid="") for t in (0, 1)),
        ]
        write_statements(rows, layout.run_folder(path, run.folder) / layout.STATEMENTS)
    return path


def test_increases_of_all_runs_are_divided_by_the_calls(folder: Path) -> None:
    slow, quick, unknown = describe_statements(read_evidence(folder))
    assert (slow.arm, slow.statement, slow.calls) == ("on", "slow", 6000)
    assert slow.seconds == pytest.approx(0.002)
    assert slow.share == pytest.approx(12 / 15)
    assert (slow.rows, slow.blocks_hit, slow.blocks_read, slow.blocks_dirtied) == (2, 10, 1, 3)
    assert slow.wal_bytes == 100
    assert (quick.statement, quick.calls) == ("quick", 3000)
    assert unknown.statement == UNKNOWN_STATEMENT


def test_page_has_the_table(folder: Path) -> None:
    page = render_html(analyze(folder))
    assert "Statements, per call" in page
    assert "<code>quick</code>" in page


def test_without_the_extension_there_is_none(tmp_path: Path) -> None:
    assert describe_statements(read_evidence(write_result_folder(tmp_path / "folder"))) == ()
