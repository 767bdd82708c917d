"""Statements per call, from counts of pg_stat_statements that began before the runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.causes.statements import describe_statements
from pgtrial.analysis.evidence import read_evidence
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.findings.naming import UNKNOWN_STATEMENT
from pgtrial.findings.session_time import StatementUse
from pgtrial.report.html import render_html
from pgtrial.store import layout
from pgtrial.store.samples import StatementRow, write_statements
from support import INTERLEAVED, Simulation, write_result_folder

TEXT = "UPDATE t SET n = n + ?"


def describe(folder: Path) -> tuple[StatementUse, ...]:
    evidence = read_evidence(folder)
    return describe_statements(evidence, reduce_runs(evidence))


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
            *(row(t, "slow", 70 + 1000 * min(t, 1), seconds=0.002, queryid=str(number)) for t in (0, 1, 2)),
            *(row(t, "quick", 10 + 250 * t, seconds=0.001, queryid="2") for t in (0, 1, 2)),
            *(row(t, "idle", 5, seconds=1.0, queryid="3") for t in (0, 1, 2)),
            *(row(t, "", 100 * t, seconds=0.0, queryid="") for t in (1, 2)),
        ]
        write_statements(rows, layout.run_folder(path, run.folder) / layout.STATEMENTS)
    return path


def test_increases_of_all_runs_are_divided_by_the_calls(folder: Path) -> None:
    slow, quick, unknown = describe(folder)
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
    assert describe(write_result_folder(tmp_path / "folder")) == ()


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs in turns. By the server's clock, which goes on while it is stopped, calls take twice what they do."""
    waits = {("active", "IO", "WALSync"): 0.2, ("active", "", ""): 0.3, ("idle", "Client", "ClientRead"): 0.5}
    path = write_result_folder(
        tmp_path_factory.mktemp("turns") / "folder",
        text=INTERLEAVED,
        simulation=Simulation(waits=waits),
    )
    for run in read_evidence(path).runs_of("on"):
        begun, ended = run.slices[0].started, run.slices[-1].ended
        moments = [begun - 10.0, begun + 1.0, ended + 2.0]
        rows = [
            *(row(t, TEXT, round(100 * (t - begun + 10.0)), seconds=2.0, queryid="1") for t in moments),
            *(row(t, "COMMIT", round(t > begun), seconds=0.001, queryid="2") for t in moments),
        ]
        write_statements(rows, layout.run_folder(path, run.folder) / layout.STATEMENTS)
    return path


def test_what_stands_still_has_its_times_from_the_sampled_sessions(turns: Path) -> None:
    evidence = read_evidence(turns)
    reduction = reduce_runs(evidence)
    runs = evidence.runs_of("on")
    sessions = {
        run.id: sum(group.sessions for group in reduction.sessions[run.id, 0] if group.state == "active")
        for run in runs
    }
    # All that is sampled is in one statement; the other one was counted too seldom to be what the sessions are in.
    groups = {key: tuple(replace(group, query=TEXT) for group in found) for key, found in reduction.sessions.items()}
    (use, commit) = describe_statements(evidence, replace(reduction, sessions=groups))

    # 100 calls in each second from the first slice to the last one, those of the warm-up left out.
    assert use.calls == pytest.approx(sum(100 * (run.slices[-1].ended - run.slices[0].started) for run in runs), abs=20)
    spent = sum(sessions[run.id] * sum(each.ended - each.started for each in run.slices) for run in runs)
    assert use.seconds == pytest.approx(spent / use.calls, rel=0.02)
    assert use.share == 1.0
    assert (use.rows, use.blocks_hit) == (pytest.approx(2), pytest.approx(10))
    assert (commit.seconds, commit.share) == (None, None)


def test_a_time_longer_than_any_transaction_is_not_known(turns: Path) -> None:
    evidence = read_evidence(turns)
    reduction = reduce_runs(evidence)
    groups = {
        key: tuple(replace(group, query="COMMIT") for group in found) for key, found in reduction.sessions.items()
    }

    assert all(use.seconds is None for use in describe_statements(evidence, replace(reduction, sessions=groups)))
