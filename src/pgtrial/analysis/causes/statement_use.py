"""What each statement of an arm does per call: time, rows, blocks and WAL, as pg_stat_statements counts them."""

import math
from pathlib import Path

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.slices import spans
from pgtrial.findings.naming import UNKNOWN_STATEMENT
from pgtrial.findings.session_time import StatementUse
from pgtrial.model.run import RunRow
from pgtrial.safe_files import is_plain
from pgtrial.store import layout, parquet
from pgtrial.store.run_rows import most_rows

MOST_STATEMENTS = 12  # of an arm, by the time they take
# From the first reading of a run to the last: what is divided by the calls needs no window. Of a server that is
# switched, in each of the arm's slices. A queryid is another one in another cluster, where names have other numbers, so
# statements are told by their texts.
_INCREASES = """
WITH spans AS (
    SELECT unnest(?::VARCHAR[]) AS filename, unnest(?::DOUBLE[]) AS since, unnest(?::DOUBLE[]) AS until
),
increases AS (
    SELECT query, max(calls) - min(calls) AS calls, max(exec_time) - min(exec_time) AS exec_time,
           max(rows) - min(rows) AS rows,
           max(shared_blks_hit) - min(shared_blks_hit) AS hit,
           max(shared_blks_read) - min(shared_blks_read) AS read,
           max(shared_blks_dirtied) - min(shared_blks_dirtied) AS dirtied,
           max(wal_bytes) - min(wal_bytes) AS wal_bytes
    FROM {files}
    JOIN spans USING (filename)
    WHERE t BETWEEN since AND until
    GROUP BY filename, since, queryid, query
)
SELECT query, sum(calls)::DOUBLE AS calls, sum(exec_time)::DOUBLE AS exec_time, sum(rows)::DOUBLE AS rows,
       sum(hit)::DOUBLE AS hit, sum(read)::DOUBLE AS read, sum(dirtied)::DOUBLE AS dirtied,
       sum(wal_bytes)::DOUBLE AS wal_bytes
FROM increases
WHERE calls > 0
GROUP BY query
ORDER BY exec_time DESC, query
"""


def describe_statements(evidence: Evidence) -> tuple[StatementUse, ...]:
    """Per arm, those that take most time first. () without pg_stat_statements. StoreError for a damaged file."""
    return tuple(use for arm in evidence.arms for use in _describe_arm(evidence, arm.name))


def _describe_arm(evidence: Evidence, arm: str) -> list[StatementUse]:
    most = most_rows(evidence.folder, evidence.valid, layout.STATEMENTS)
    files = _files(evidence, arm)
    wanted = [(str(path), *span) for path, run in files.items() for span in _spans(run)]
    columns = parquet.read(list(files), _INCREASES, [list(each) for each in zip(*wanted, strict=True)], most_rows=most)
    if not columns:
        return []
    names = ("calls", "exec_time", "rows", "hit", "read", "dirtied", "wal_bytes")
    rows = zip(columns["query"].tolist(), *(columns[name].tolist() for name in names), strict=True)
    total = sum(columns["exec_time"].tolist())
    return [
        StatementUse(
            arm=arm,
            statement=query or UNKNOWN_STATEMENT,
            calls=calls,
            share=time / total if total > 0 else 0.0,
            seconds=time / calls,
            rows=count / calls,
            blocks_hit=hit / calls,
            blocks_read=read / calls,
            blocks_dirtied=dirtied / calls,
            wal_bytes=wal / calls,
        )
        for query, calls, time, count, hit, read, dirtied, wal in list(rows)[:MOST_STATEMENTS]
    ]


def _spans(run: RunRow) -> list[tuple[float, float]]:
    return [(each.started, each.ended) for each in spans(run)] if run.is_switched else [(-math.inf, math.inf)]


def _files(evidence: Evidence, arm: str) -> dict[Path, RunRow]:
    paths = {layout.run_folder(evidence.folder, run.folder) / layout.STATEMENTS: run for run in evidence.runs_of(arm)}
    return {path: run for path, run in paths.items() if is_plain(path)}
