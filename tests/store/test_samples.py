from functools import cache
from pathlib import Path

import pytest

from pgtrial.errors import StoreError
from pgtrial.model.metric import Sample
from pgtrial.store import parquet
from pgtrial.store.samples import StatementRow, WaitRow, write_samples, write_statements, write_waits

WAITS = [
    WaitRow(10.5, 10, "client backend", "pgtrial/a", "active", "", "", "SELECT ?", 7),
    WaitRow(10.5, 10, "checkpointer", "", "", "Activity", "CheckpointerMain", "", 10),
    WaitRow(9.5, 9, "client backend", "pgtrial/a", "active", "IO", "DataFileRead", "SELECT 'é'", 1),
]


@cache
def columns(table: str) -> list[tuple[str, str]]:
    """Names and types as columns.sql declares them."""
    with parquet.connect() as db:
        db.execute(Path(parquet.__file__).with_name("columns.sql").read_text())
        return [(name, kind) for name, kind, *_ in db.execute(f"DESCRIBE {table}").fetchall()]


def rows(path: Path) -> tuple[list[tuple[str, str]], list[tuple[object, ...]]]:
    with parquet.session() as db:
        described = db.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
        return [(name, kind) for name, kind, *_ in described], db.execute(f"SELECT * FROM '{path}'").fetchall()


def test_samples_are_written_with_the_declared_columns_by_metric(tmp_path: Path) -> None:
    samples = [Sample(2.5, "b", "", 1.0), Sample(1.5, "b", "", 0.1), Sample(1.0, "a", "vda/é", -3.0)]

    assert write_samples(samples, tmp_path / "samples.parquet") == 3

    found, values = rows(tmp_path / "samples.parquet")
    assert found == columns("samples")
    assert values == [(1.0, "a", "vda/é", -3.0), (1.5, "b", "", 0.1), (2.5, "b", "", 1.0)]


def test_waits_are_written_with_the_declared_columns_by_time(tmp_path: Path) -> None:
    assert write_waits(WAITS, tmp_path / "waits.parquet") == 3

    found, values = rows(tmp_path / "waits.parquet")
    assert found == columns("waits")
    assert values == sorted(WAITS)


def test_statements_are_written_with_the_declared_columns_by_time(tmp_path: Path) -> None:
    late = StatementRow(11.5, "-7", 3, 4, 0.25, 1, 2, 3, 4, 5, 6, 2**40, "SELECT 'é'")
    early = late._replace(t=1.5, calls=1, query="")

    assert write_statements([late, early], tmp_path / "statements.parquet") == 2

    found, values = rows(tmp_path / "statements.parquet")
    assert found == columns("statements")
    assert values == [early, late]


def test_nothing_read_makes_files_without_rows(tmp_path: Path) -> None:
    write_samples([], tmp_path / "samples.parquet")
    write_waits([], tmp_path / "waits.parquet")
    write_statements([], tmp_path / "statements.parquet")

    assert rows(tmp_path / "samples.parquet") == (columns("samples"), [])
    assert rows(tmp_path / "waits.parquet") == (columns("waits"), [])
    assert rows(tmp_path / "statements.parquet") == (columns("statements"), [])


def test_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write"):
        write_samples([Sample(1.0, "a", "", 1.0)], tmp_path / "none" / "samples.parquet")
