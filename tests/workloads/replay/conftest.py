import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture
def write_log(tmp_path: Path) -> Write:
    """``write_log(rows)`` writes a csvlog of (seconds, session, message, …), and returns its path.

    Further values of a row: severity, detail, the statement of an error, and what the session does; ``database`` is of
    all sessions, or by session.
    """

    def write(
        rows: Sequence[tuple[object, ...]], *, database: str | dict[str, str] = "app", name: str = "app.csv"
    ) -> Path:
        path = tmp_path / name
        with path.open("w", newline="") as file:
            out = csv.writer(file)
            for seconds, session, message, *more in rows:
                severity, detail, query, command = (*more, *("LOG", "", "", "")[len(more) :])
                mine = database if isinstance(database, str) else database[str(session)]
                columns = [""] * 26
                columns[0] = f"2026-01-20 10:{int(float(seconds) // 60):02d}:{float(seconds) % 60:06.3f} UTC"
                columns[2], columns[5], columns[11], columns[13] = mine, str(session), severity, str(message)
                columns[14], columns[19], columns[7] = detail, query, command
                out.writerow(columns)
        return path

    return write
