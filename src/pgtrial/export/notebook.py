"""A result folder for a notebook: its findings, and its tables as Arrow data; see docs/python.md."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.slices import windows
from pgtrial.export.frames import Database, Frame
from pgtrial.export.tables import ColumnType, tables_of
from pgtrial.findings.findings import Findings
from pgtrial.model.verdict import Verdict
from pgtrial.safe_files import is_plain
from pgtrial.store import layout

SQL_TYPES = {
    ColumnType.TEXT: "VARCHAR",
    ColumnType.INTEGER: "BIGINT",
    ColumnType.NUMBER: "DOUBLE",
    ColumnType.TIME: "TIMESTAMP",
    ColumnType.TRUTH: "BOOLEAN",
}

# The files of a run, by the name of their table: columns, and what they are shown as.
_RUN = "r.arm, r.block"
_TIME = "make_timestamp(round(f.t * 1e6)::BIGINT) AS time, f.t - r.measured AS seconds"
_JOIN = "FROM {} AS f JOIN counted AS r USING (run)"
_SAMPLES = (("t", "DOUBLE"), ("metric", "VARCHAR"), ("object", "VARCHAR"), ("value", "DOUBLE"))
_WAITS = (
    ("t", "DOUBLE"),
    ("polls", "INTEGER"),
    *((name, "VARCHAR") for name in ("backend_type", "application", "state", "wait_type", "wait_event", "query")),
    ("sessions", "INTEGER"),
)
_TRANSACTIONS = (
    ("level", "INTEGER"),
    ("second", "INTEGER"),
    ("scenario", "VARCHAR"),
    ("count", "BIGINT"),
    ("latency_sum", "DOUBLE"),
    *((name, "BIGINT") for name in ("failed", "skipped", "late", "retried", "retries")),
    ("lag_sum", "DOUBLE"),
    ("buckets", "INTEGER[]"),
    ("bucket_counts", "BIGINT[]"),
)
_COUNTS = (
    *("calls", "rows", "shared_blks_hit", "shared_blks_read", "shared_blks_dirtied", "shared_blks_written"),
    *("temp_blks_read", "temp_blks_written", "wal_bytes"),
)
_STATEMENTS = (
    ("t", "DOUBLE"),
    ("queryid", "VARCHAR"),
    ("exec_time", "DOUBLE"),
    *((name, "BIGINT") for name in _COUNTS),
    ("query", "VARCHAR"),
)
_FILES = (
    ("samples", layout.SAMPLES, _SAMPLES, f"SELECT f.run, {_RUN}, {_TIME}, f.metric, f.object, f.value {_JOIN}"),
    ("sampled_waits", layout.WAITS, _WAITS, f"SELECT f.run, {_RUN}, {_TIME}, f.* EXCLUDE (run, t) {_JOIN}"),
    ("transactions", layout.TRANSACTIONS, _TRANSACTIONS, f"SELECT f.run, {_RUN}, f.* EXCLUDE (run) {_JOIN}"),
    ("statements", layout.STATEMENTS, _STATEMENTS, f"SELECT f.run, {_RUN}, {_TIME}, f.* EXCLUDE (run, t) {_JOIN}"),
)


@dataclass(frozen=True, slots=True)
class Results:
    """What an experiment found, and the data it was concluded from.

    ``findings`` is everything concluded, as in findings.json. Frames are tables: see pgtrial.export.frames. Those of
    samples, sessions, transactions and statements are of the runs that count.
    """

    folder: Path
    findings: Findings
    database: Database

    @property
    def verdict(self) -> Verdict:
        return self.findings.hypothesis.verdict

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tables, for table() and sql()."""
        return (*(each.name for each in tables_of(self.findings)), *(name for name, *_ in _FILES))

    def table(self, name: str) -> Frame:
        """A table by its name; KeyError, with the names there are, for another one."""
        if name not in self.names:
            raise KeyError(f"no table {name!r}; there are {', '.join(self.names)}")
        return self.database.frame(name)

    def sql(self, query: str) -> Frame:
        """What an SQL query over the tables selects, in DuckDB's dialect. StoreError for one that is wrong."""
        return self.database.select(query)

    @property
    def effects(self) -> Frame:
        """Arm against control by metric, scenario and load level, with intervals and decisions."""
        return self.table("effects")

    @property
    def runs(self) -> Frame:
        """Every attempt, valid or not."""
        return self.table("runs")

    @property
    def observations(self) -> Frame:
        """One number per run, metric, scenario and load level."""
        return self.table("observations")

    @property
    def samples(self) -> Frame:
        """Every reading of every metric; counters as counters."""
        return self.table("samples")

    @property
    def waits(self) -> Frame:
        """Average active sessions of the load by wait, and the same per transaction."""
        return self.table("waits")

    @property
    def sampled_waits(self) -> Frame:
        """The sessions as they were sampled, second by second."""
        return self.table("sampled_waits")

    @property
    def transactions(self) -> Frame:
        """Counts and latency histograms by load level, second and scenario."""
        return self.table("transactions")

    @property
    def statements(self) -> Frame:
        """What statements had done until then; empty without pg_stat_statements."""
        return self.table("statements")


def open_results(folder: Path) -> Results:
    """Analyse a result folder, which is only read, and open its tables. Raises StoreError."""
    findings = analyze(folder)
    database = Database.create()
    with contextlib.ExitStack() as undo:
        undo.callback(database.db.close)
        for each in tables_of(findings):
            database.add_table(each.name, [(column.name, SQL_TYPES[column.kind]) for column in each.columns], each.rows)
        _add_files(database, read_evidence(folder))
        undo.pop_all()
    return Results(folder=folder, findings=findings, database=database)


def _add_files(database: Database, evidence: Evidence) -> None:
    rows = []
    for run in evidence.valid:
        measured = windows(run)
        rows.append((run.id, run.slot.arm, run.slot.block, measured[0].started if measured else None))
    columns = (("run", "BIGINT"), ("arm", "VARCHAR"), ("block", "BIGINT"), ("measured", "DOUBLE"))
    database.add_table("counted", columns, rows)
    for name, file, file_columns, query in _FILES:
        paths = {run.id: layout.run_folder(evidence.folder, run.folder) / file for run in evidence.valid}
        database.add_files(name, file_columns, {run: path for run, path in paths.items() if is_plain(path)}, query)
