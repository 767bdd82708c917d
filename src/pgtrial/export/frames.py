"""Tables for notebooks: rows of Python values and Parquet files, in their own DuckDB."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from pgtrial.errors import StoreError, first_line
from pgtrial.safe_text import sql_name
from pgtrial.store import parquet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Frame:
    """A table that is read lazily.

    Pass it to anything that accepts Arrow data (the Arrow PyCapsule interface): ``pyarrow.table(frame)``,
    ``polars.DataFrame(frame)``. Times are UTC without a zone.
    """

    relation: duckdb.DuckDBPyRelation

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.relation.columns)

    def __len__(self) -> int:
        with _explained():
            ((count,),) = self.relation.aggregate("count(*)").fetchall()
        return int(count)

    def __repr__(self) -> str:
        types = ", ".join(
            f"{name} {str(kind).lower()}" for name, kind in zip(self.columns, self.relation.types, strict=True)
        )
        return f"<Frame of {len(self)} rows: {types}>"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        with _explained():
            return self.relation.__arrow_c_stream__(requested_schema)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per row, with plain Python values."""
        with _explained():
            found = self.relation.fetchall()
        return [dict(zip(self.columns, row, strict=True)) for row in found]

    def to_numpy(self) -> "dict[str, NDArray[Any] | np.ma.MaskedArray[Any, Any]]":
        """Map of column to array; masked where values are unknown."""
        with _explained():
            found: dict[str, Any] = self.relation.fetchnumpy()
        return found

    def to_arrow(self) -> Any:
        """A pyarrow.Table. Raises ImportError if pyarrow is not installed."""
        try:
            import pyarrow
        except ImportError as error:
            raise ImportError("to_arrow() needs the package pyarrow: pip install pyarrow") from error
        return pyarrow.table(self)

    def to_pandas(self) -> Any:
        """A pandas.DataFrame. Raises ImportError if pandas is not installed."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise ImportError("to_pandas() needs the package pandas: pip install pandas") from error
        with _explained():
            return self.relation.df()

    def to_polars(self) -> Any:
        """A polars.DataFrame. Raises ImportError if polars is not installed."""
        try:
            import polars
        except ImportError as error:
            raise ImportError("to_polars() needs the package polars: pip install polars") from error
        return polars.DataFrame(self)


@dataclass(frozen=True, slots=True)
class Database:
    """Named tables in memory, and views of files, that SQL can join. Columns are pairs of name and DuckDB type."""

    db: duckdb.DuckDBPyConnection

    @classmethod
    def create(cls) -> "Database":
        return cls(parquet.connect())

    def add_table(self, name: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]]) -> None:
        """A table of these rows. TIMESTAMP columns are given in seconds since the epoch."""
        self.db.execute(f"CREATE TABLE {sql_name(name)} AS {_select(columns)}", _by_column(columns, rows))

    def add_files(
        self, name: str, columns: Sequence[tuple[str, str]], files: Mapping[int, Path], query: str = "SELECT * FROM {}"
    ) -> None:
        """A view of one kind of Parquet file of several runs, with the run's id as the first column.

        ``query`` selects from those, which stand for "{}"; ``columns`` are the files' own, for the case that there is
        none of them.
        """
        if files:
            rows = [(run, str(path)) for run, path in files.items()]
            self.add_table(f"{name}_file", (("run", "BIGINT"), ("file", "VARCHAR")), rows)
            source = (
                f"(SELECT run, rows.* EXCLUDE (filename) FROM {parquet.source(self.db, list(files.values()))} AS rows "
                f"JOIN {sql_name(f'{name}_file')} ON file = filename)"
            )
        else:
            none = ", ".join(f"NULL::{kind} AS {sql_name(column)}" for column, kind in (("run", "BIGINT"), *columns))
            source = f"(SELECT {none} WHERE false)"
        try:
            self.db.execute(f"CREATE VIEW {sql_name(name)} AS {query.replace('{}', source)}")
        except duckdb.Error as err:
            raise StoreError(f"cannot read the result folder's {name}: {first_line(err)}") from err

    def frame(self, name: str) -> Frame:
        return self.select(f"SELECT * FROM {sql_name(name)}")

    def select(self, query: str) -> Frame:
        """The result of a query over the tables. Raises StoreError with DuckDB's message."""
        with _explained():
            found = self.db.sql(query)
        if found is None:
            raise StoreError("the query selects nothing", hint="Give a single SELECT.")
        return Frame(found)


def write_rows(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]], path: Path) -> None:
    """Write rows as a Parquet file; columns as those of a Database. Raises StoreError."""
    with parquet.session() as db:
        parquet.write_query(db, _select(columns), path, _by_column(columns, rows))


def _select(columns: Sequence[tuple[str, str]]) -> str:
    """The columns of parameters, one list for each."""
    parts = (
        f"make_timestamp(round(unnest(?::DOUBLE[]) * 1e6)::BIGINT) AS {sql_name(name)}"
        if kind == "TIMESTAMP"
        else f"unnest(?::{kind}[]) AS {sql_name(name)}"
        for name, kind in columns
    )
    return f"SELECT {', '.join(parts)}"


def _by_column(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]]) -> list[list[object]]:
    return [[row[place] for row in rows] for place in range(len(columns))]


@contextmanager
def _explained() -> Iterator[None]:
    """DuckDB's errors as ours."""
    try:
        yield
    except duckdb.Error as err:
        raise StoreError(f"cannot read the tables: {first_line(err)}") from err
