from pathlib import Path

import pytest

from pgtrial.errors import StoreError
from pgtrial.export.redacted_files import learn_columns, redact_columns
from pgtrial.export.redaction import Names, PrivateNames, Redaction
from pgtrial.model.metric import Sample
from pgtrial.store import layout, parquet
from pgtrial.store.samples import StatementRow, WaitRow, write_samples, write_statements, write_waits

QUERY = "SELECT name FROM customers WHERE id = ?"


def rows(path: Path) -> list[dict[str, object]]:
    columns = parquet.read([path], "SELECT * EXCLUDE (filename) FROM {files}")
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*(list(map(plain, c)) for c in columns.values()), strict=True)
    ]


def plain(value: object) -> object:
    return value.item() if hasattr(value, "item") else value


def redact(path: Path, *kinds: Redaction) -> list[dict[str, object]]:
    known = PrivateNames(kinds=frozenset(kinds))
    learn_columns(path, known)
    out = path.parent / "out" / path.name
    out.parent.mkdir(exist_ok=True)
    redact_columns(path, out, Names(known=known))
    return rows(out)


def wait(t: float, *, application: str, query: str, event: str = "WALSync") -> WaitRow:
    return WaitRow(t, 10, "client backend", application, "active", "IO", event, query, 3)


def test_statements_become_names_and_numbers_stay(tmp_path: Path) -> None:
    path = tmp_path / layout.WAITS
    write_waits(
        [
            wait(1.0, application="pgtrial/read", query=QUERY),
            wait(2.0, application="psql on host=db7.corp", query=QUERY),
            wait(2.0, application="pgtrial/read", query="INSERT INTO customers VALUES (?)"),
            wait(3.0, application="pgtrial/read", query=""),
        ],
        path,
    )

    found = redact(path, *Redaction)

    assert [(row["t"], row["application"], row["sessions"]) for row in found] == [
        (1.0, "pgtrial/read", 3),
        (2.0, "pgtrial/read", 3),
        (2.0, "psql on host=host1", 3),
        (3.0, "pgtrial/read", 3),
    ]
    assert found[0]["query"] == found[2]["query"] != found[1]["query"]
    assert {row["query"] for row in found} == {"query1", "query2", ""}
    assert {row["wait_event"] for row in found} == {"WALSync"}


def test_counts_of_statements_stay_with_their_names(tmp_path: Path) -> None:
    path = tmp_path / layout.STATEMENTS
    write_statements([StatementRow(1.0, "77", 5, 6, 0.5, 1, 2, 3, 4, 5, 6, 7, QUERY)], path)

    (row,) = redact(path, Redaction.QUERIES)

    assert (row["queryid"], row["calls"], row["wal_bytes"], row["query"]) == ("77", 5, 7, "query1")


def test_only_relations_among_the_objects_of_samples_get_other_names(tmp_path: Path) -> None:
    path = tmp_path / layout.SAMPLES
    samples = [
        Sample(1.0, "pg_buffercache.buffers", "customers", 10.0),
        Sample(1.0, "pg_buffercache.buffers", "pgbench_accounts", 20.0),
        Sample(1.0, "pg_stat_progress_vacuum.workers", "public.customers/scanning heap", 1.0),
        Sample(1.0, "pg_stat_progress_vacuum.workers", "", 0.0),
        Sample(1.0, "disk.reads", "customers", 3.0),
        Sample(1.0, "pg_locks.waiting", "relation/ShareLock", 1.0),
    ]
    write_samples(samples, path)

    found = {(row["metric"], row["object"]): row["value"] for row in redact(path, *Redaction)}

    assert found == {
        ("pg_buffercache.buffers", "relation1"): 10.0,
        ("pg_buffercache.buffers", "pgbench_accounts"): 20.0,
        ("pg_stat_progress_vacuum.workers", "relation1/scanning heap"): 1.0,
        ("pg_stat_progress_vacuum.workers", ""): 0.0,
        ("disk.reads", "customers"): 3.0,
        ("pg_locks.waiting", "relation/ShareLock"): 1.0,
    }


def test_a_file_without_rows_stays_one(tmp_path: Path) -> None:
    path = tmp_path / layout.WAITS
    write_waits([], path)

    assert redact(path, *Redaction) == []


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / layout.WAITS
    path.write_bytes(b"PAR1 no")

    with pytest.raises(StoreError, match=layout.WAITS):
        learn_columns(path, PrivateNames(kinds=frozenset(Redaction)))
