from pathlib import Path
from typing import Any

import pytest

from pgtrial.engine.live.follower import SpoolReader
from pgtrial.engine.sampler.spool import FILE, SpoolWriter

COLUMNS = ["backend_type", "application", "state", "wait_type", "wait_event", "query", "sessions"]


def sessions(*rows: tuple[str, str, str, str, int], polls: int = 10) -> dict[str, Any]:
    """(application, state, wait type, wait event, sessions) as the sampler writes them."""
    return {
        "polls": polls,
        "columns": COLUMNS,
        "rows": [
            ["client backend", app, state, kind or None, event or None, "q", str(n)]
            for app, state, kind, event, n in rows
        ],
    }


@pytest.fixture
def writer(tmp_path: Path) -> SpoolWriter:
    return SpoolWriter(tmp_path)


def test_active_sessions_of_the_load_are_averaged_over_the_polls(tmp_path: Path, writer: SpoolWriter) -> None:
    writer.add(1.0, "proc_stat", 'cpu 1 2 3\nnot ,"sessions", of anybody')
    writer.add(
        1.0,
        "sessions",
        sessions(
            ("pgtrial/all", "active", "", "", 12),
            ("pgtrial/all", "active", "LWLock", "WALWrite", 25),
            ("pgtrial/all", "idle", "Client", "ClientRead", 40),
            ("psql", "active", "", "", 10),
        ),
    )
    writer.add(2.0, "sessions", sessions(("pgtrial/read", "active", "LWLock", "WALWrite", 5)))
    writer.flush()

    assert SpoolReader(folder=tmp_path).look() == (("LWLock:WALWrite", 1.5), ("CPU", 0.6))


def test_only_what_is_new_is_told(tmp_path: Path, writer: SpoolWriter) -> None:
    reader = SpoolReader(folder=tmp_path)
    assert reader.look() == ()

    writer.add(1.0, "sessions", sessions(("pgtrial/all", "active", "", "", 10)))
    writer.flush()
    assert reader.look() == (("CPU", 1.0),)
    assert reader.look() == ()

    writer.add(2.0, "sessions", sessions(("pgtrial/all", "active", "IO", "WALSync", 20)))
    writer.flush()
    assert reader.look() == (("IO:WALSync", 2.0),)


def test_a_line_that_is_not_whole_is_left_for_the_next_look(tmp_path: Path, writer: SpoolWriter) -> None:
    writer.add(1.0, "sessions", sessions(("pgtrial/all", "active", "", "", 10)))
    writer.flush()
    text = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(text[:40])
    reader = SpoolReader(folder=tmp_path)
    assert reader.look() == ()

    (tmp_path / FILE).write_bytes(text)
    assert reader.look() == (("CPU", 1.0),)


def test_of_very_much_only_the_end_is_read(tmp_path: Path, writer: SpoolWriter) -> None:
    writer.add(1.0, "sessions", sessions(("pgtrial/all", "active", "", "", 999)))
    writer.add(1.0, "proc_stat", "x" * (2 << 20))
    writer.add(2.0, "sessions", sessions(("pgtrial/all", "active", "", "", 10)))
    writer.flush()

    assert SpoolReader(folder=tmp_path).look() == (("CPU", 1.0),)
