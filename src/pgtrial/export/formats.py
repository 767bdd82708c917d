"""The formats by name: what each is made of, and whether it is one text, one file, or a file per table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgtrial.errors import SpecError, StoreError
from pgtrial.export.csv import render_csv
from pgtrial.export.frames import write_rows
from pgtrial.export.jsonl import render_jsonl
from pgtrial.export.markdown import render_markdown
from pgtrial.export.notebook import SQL_TYPES
from pgtrial.export.prometheus import render_prometheus
from pgtrial.export.tables import Table, describe_columns, tables_of
from pgtrial.export.xlsx import render_xlsx
from pgtrial.findings.findings import Findings
from pgtrial.nearest import hint_name
from pgtrial.safe_files import make_directories, write_file

# Formats of one text about the whole, which can be printed.
TEXTS: dict[str, Callable[[Findings], str]] = {
    "markdown": render_markdown,
    "prometheus": render_prometheus,
    "jsonl": lambda findings: render_jsonl(_all_tables(findings)),
}
# Formats with a file per table, in a directory.
PER_TABLE = ("csv", "parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where an export went: one file, or a directory with so many of them."""

    path: Path
    files: int


def render_text(findings: Findings, form: str, tables: Sequence[str] = ()) -> str:
    """The text of a format that is one, or of the one table that is wanted as CSV."""
    if not tables:
        return TEXTS[form](findings)
    chosen = _choose(findings, tables)
    return render_csv(chosen[0]) if form == "csv" else render_jsonl(chosen)


def write_text(text: str, path: Path) -> Written:
    """Put a text at ``path``: whole, or not at all. Raises StoreError."""
    return _write(text.encode(), path)


def write_spreadsheet(findings: Findings, path: Path) -> Written:
    return _write(render_xlsx(findings), path)


def write_tables(findings: Findings, form: str, directory: Path, tables: Sequence[str] = ()) -> Written:
    """A file for each table, or each that is wanted, in a directory, which is made where it is not there."""
    chosen = _choose(findings, tables) if tables else _all_tables(findings)
    try:
        make_directories(directory)
    except OSError as err:
        raise StoreError(f'cannot make the directory "{directory}": {err.strerror}') from err
    for table in chosen:
        path = directory / f"{table.name}.{form}"
        if form == "csv":
            _write(render_csv(table).encode(), path)
        else:
            write_rows([(column.name, SQL_TYPES[column.kind]) for column in table.columns], table.rows, path)
    return Written(path=directory, files=len(chosen))


def _all_tables(findings: Findings) -> tuple[Table, ...]:
    tables = tables_of(findings)
    return (*tables, describe_columns(tables))


def _choose(findings: Findings, names: Sequence[str]) -> tuple[Table, ...]:
    known = {table.name: table for table in _all_tables(findings)}
    for name in names:
        if name not in known:
            raise SpecError(f'there is no table "{name}"', hint=hint_name(name, known, what="Tables are"))
    return tuple(known[name] for name in dict.fromkeys(names))


def _write(content: bytes, path: Path) -> Written:
    if path.is_dir():
        raise StoreError(f'cannot write "{path}": it is a directory', hint="Name a file.")
    try:
        write_file(path, content)
    except OSError as err:
        raise StoreError(f'cannot write "{path}": {err.strerror}') from err
    return Written(path=path, files=1)
