import re
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from pgtrial.findings.findings import Effect, Findings
from pgtrial.store import layout
from pgtrial.store.findings_file import write_findings

TEXT = (Path(__file__).parents[2] / "docs" / "result-folder.md").read_text(encoding="utf-8")
DUCKDB, SQLITE = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)


def test_the_duckdb_queries_of_the_document_work(
    folder: Path, findings: Findings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The paths in the document are relative to the result folder.
    (tmp_path / layout.RUNS).symlink_to(folder / layout.RUNS)
    write_findings(findings, tmp_path)
    monkeypatch.chdir(tmp_path)

    with duckdb.connect() as db:
        rows = [db.execute(query).fetchall() for query in DUCKDB.split(";\n") if query.strip()]

    throughput, wal, waits, effects = rows
    assert len(throughput) == 18
    assert wal[1][1] == pytest.approx(600_000)
    assert [round(number, 1) for _, _, number in waits] == [1.6, 1.2, 0.4]
    assert len(effects) > 10


def test_the_sqlite_query_of_the_document_works(folder: Path) -> None:
    with closing(sqlite3.connect(f"{(folder / layout.STATE).as_uri()}?mode=ro", uri=True)) as db:
        rows = db.execute(SQLITE).fetchall()

    assert [(row[3], row[4]) for row in rows] == [("done", 10.0)] * 18


@pytest.mark.parametrize("record", [Findings, Effect])
def test_every_field_of_the_public_contract_is_documented(record: type[Findings] | type[Effect]) -> None:
    told = {"arm", "metric", "better", "scenario", "load_level", "confidence"}

    assert {name for name in record.model_fields if f"`{name}`" not in TEXT} <= told
