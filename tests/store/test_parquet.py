"""Sessions of a DuckDB that all of a process share."""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import duckdb
import numpy as np
import pytest

from pgtrial.errors import StoreError
from pgtrial.store import parquet


def test_what_a_session_makes_is_its_own_and_ends_with_it() -> None:
    with parquet.session() as one, parquet.session() as other:
        one.execute("CREATE TEMP TABLE own AS SELECT 1 AS x")
        other.execute("CREATE TEMP VIEW own AS SELECT 2 AS x")
        one.register("given", {"x": np.array([3])})

        assert one.execute("SELECT x FROM own").fetchall() == [(1,)]
        assert other.execute("SELECT x FROM own").fetchall() == [(2,)]
        with pytest.raises(duckdb.CatalogException):
            other.execute("SELECT x FROM given")
    with parquet.session() as later, pytest.raises(duckdb.CatalogException):
        later.execute("SELECT x FROM own")


def test_threads_have_sessions_at_the_same_time(tmp_path: Path) -> None:
    def write_and_read(number: int) -> int:
        path = tmp_path / f"{number}.parquet"
        with parquet.session() as db:
            db.execute("CREATE TEMP TABLE own AS SELECT ? AS x", [number])
            parquet.write_query(db, "SELECT x FROM own", path)
        return int(parquet.read([path], "SELECT x FROM {files}")["x"][0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write_and_read, range(20))) == list(range(20))


def test_a_forked_process_has_a_database_of_its_own() -> None:
    """That of its parent has threads, which are not copied: a query would wait for them for ever."""
    with parquet.session(threads=2) as db:
        db.execute("SELECT 1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # so Python 3.12 says of any fork beside threads
        child = os.fork()
    if child == 0:
        try:
            with parquet.session(threads=2) as db:
                ((total,),) = db.execute("SELECT sum(range) FROM range(1000000)").fetchall()
            os._exit(0 if total == 499999500000 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(("column", "is_damage"), [("metric", True), ("value", True), ("note", False)])
def test_a_value_that_each_row_has_is_not_missing(tmp_path: Path, column: str, is_damage: bool) -> None:
    whole, damaged = tmp_path / "whole.parquet", tmp_path / "damaged.parquet"
    rows = "SELECT i::DOUBLE AS t, 'm' AS metric, '' AS object, 1.0::DOUBLE AS value, 'n' AS note FROM range(10) r(i)"
    with parquet.session() as db:
        parquet.write_query(db, rows, whole)
        one = f'SELECT * REPLACE (CASE WHEN t <> 7 THEN "{column}" END AS "{column}") FROM ({rows})'
        parquet.write_query(db, one, damaged)
        with pytest.raises(StoreError, match=column) if is_damage else nullcontext():
            parquet.source(db, [whole, damaged], table="samples")
        parquet.source(db, [whole], table="samples")
