"""Folders whose files are small and become large when they are read: ``python -m support.attack.small_files``."""

import contextlib
import sqlite3
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import duckdb

from pgtrial.store import layout
from support.attack.__main__ import import_all
from support.attack.trial import attack
from support.folder import write_result_folder


def run_folder(folder: Path) -> Path:
    """That of the second run, whichever arm it is of."""
    [run] = folder.glob(f"{layout.RUNS}/0002-*")
    return run


def rewrite(path: Path, query: str, *, rows_of_a_group: int = 122_880) -> None:
    """Write a file anew, with what a query has of it (``old``)."""
    with duckdb.connect(":memory:", config={"threads": 1}) as db:
        db.execute(f"CREATE VIEW old AS SELECT * FROM '{path}'")
        db.execute(
            f"COPY ({query}) TO '{path}.new' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {rows_of_a_group})"
        )
    Path(f"{path}.new").replace(path)


def repeat(path: Path, times: int, *, rows: int = 20, where: str = "true", change: str = "") -> None:
    """Write some rows so many times; ``change`` says what differs in the one of number ``i``."""
    what = f"old.* REPLACE ({change})" if change else "old.*"
    rewrite(path, f"SELECT {what} FROM (FROM old WHERE {where} LIMIT {rows}) AS old, range({times}) AS r(i)")


def make_rows(folder: Path) -> None:
    """Of every kind of file: each row half a million times."""
    for name in (layout.SAMPLES, layout.WAITS, layout.TRANSACTIONS):
        repeat(run_folder(folder) / name, 500_000)


def pad(path: Path, size: int) -> None:
    """Make a file larger by bytes that nobody reads: between what it holds and what it says of that."""
    content = path.read_bytes()
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:end] + b"\0" * size + content[end:])


def make_padded(
    folder: Path, *, name: str = layout.SAMPLES, rows: int = 20, size: int = 2_000_000, change: str = ""
) -> None:
    """Two million rows, in a file that is as large as that of so many is."""
    path = run_folder(folder) / name
    repeat(path, 2_000_000 // rows, rows=rows, change=change)
    pad(path, size)


def make_hours(folder: Path) -> None:
    """Twelve million readings, each at a time of its own, in a file of megabytes of a run of two hours."""
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as db:
        db.execute("UPDATE phase SET ended = started + 7200 WHERE name = 'measure'")
        db.commit()
    path = run_folder(folder) / layout.SAMPLES
    repeat(path, 600_000, change="t + i / 1e2 AS t")
    pad(path, 4_000_000)


def make_all(folder: Path) -> None:
    """Of each run as many readings as are let through of one file alone."""
    for path in folder.glob(f"{layout.RUNS}/*/{layout.SAMPLES}"):
        repeat(path, 25_000)


def make_lists(folder: Path) -> None:
    """A histogram of twenty million buckets."""
    query = (
        "SELECT * REPLACE (list_resize([1], 20000000, 1) AS buckets, list_resize([1], 20000000, 1) AS bucket_counts)"
    )
    rewrite(run_folder(folder) / layout.TRANSACTIONS, f"{query} FROM old LIMIT 1")


def make_texts(folder: Path) -> None:
    """In each row the same text of a megabyte, which is in the file once."""
    query = "SELECT * REPLACE (repeat('x', 1000000) AS object) FROM old, range(50)"
    rewrite(run_folder(folder) / layout.SAMPLES, query)


def make_objects(folder: Path) -> None:
    """In each row another object, at another time."""
    change = "i::VARCHAR AS object, t + i / 1e5 AS t"
    repeat(run_folder(folder) / layout.SAMPLES, 60_000, rows=1, change=change)


def make_events(folder: Path) -> None:
    """In each row another wait, at another time."""
    change = "i::VARCHAR AS wait_event, t + i / 1e5 AS t"
    repeat(run_folder(folder) / layout.WAITS, 60_000, rows=1, where="state = 'active'", change=change)


def make_waits(folder: Path) -> None:
    """Six hundred times as many waits as there are, each with its own name."""
    change = "i::VARCHAR || wait_event AS wait_event"
    repeat(run_folder(folder) / layout.WAITS, 600, rows=1_000_000, change=change)


def make_groups(folder: Path) -> None:
    """Thousands of groups of rows, as small as DuckDB makes them: the footer is most of the file."""
    path = run_folder(folder) / layout.SAMPLES
    rewrite(path, "SELECT old.* FROM (FROM old LIMIT 1) AS old, range(6_000 * 2048)", rows_of_a_group=2048)


def make_month(folder: Path) -> None:
    """The runs say that they took a month."""
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as db:
        db.execute("UPDATE phase SET ended = started + 29 * 86400 WHERE name = 'measure' AND run = 2")
        db.commit()


WAYS: dict[str, Callable[[Path], None]] = {
    "rows": make_rows,
    "padded": make_padded,
    "padded-times": partial(make_padded, change="t + i / 1e6 AS t"),
    "padded-waits": partial(make_padded, name=layout.WAITS),
    "padded-transactions": partial(make_padded, name=layout.TRANSACTIONS, rows=10, size=30_000_000),
    "hours": make_hours,
    "all": make_all,
    "lists": make_lists,
    "texts": make_texts,
    "objects": make_objects,
    "events": make_events,
    "waits": make_waits,
    "groups": make_groups,
    "month": make_month,
}


def main(way: str, command: str) -> int:
    """Give pgtrial such a folder; says how it ended, and 1 if that took much."""

    def mutant(directory: Path) -> Sequence[Sequence[str]]:
        folder = write_result_folder(directory / "gift", runs=18 if way == "all" else 2)
        WAYS[way](folder)
        if command == "report":
            return (("report", str(folder), "-o", str(directory / "out.html")),)
        return (("export", str(folder), "--bundle", "--redact", "all", "-o", str(directory / "out.zip")),)

    import_all()
    outcome = attack(f"{way} {command}", mutant)
    print(f"status {outcome.status}, {outcome.seconds:.1f} s, {outcome.memory >> 20} MB: {outcome.problem or 'held'}")
    return bool(outcome.problem)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
