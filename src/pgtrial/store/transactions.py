"""Convert the logs of load generators to transactions.parquet: counts and latency histograms per second."""

import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import duckdb

from pgtrial.errors import StoreError, WorkloadError, first_line
from pgtrial.model.histogram import FINE, GAMMA
from pgtrial.safe_files import find_hole, open_single
from pgtrial.store.command_log import CommandLog, read_command, read_requests
from pgtrial.store.fio_log import HistogramLog, SecondRow, read_histograms
from pgtrial.store.log_reduction import FAILED, PARTS, SKIPPED
from pgtrial.store.parquet import connect, is_little, session, write_query
from pgtrial.store.pgbench_log import LevelLog, check_whole, explain_error, quote, read_logs, read_sums
from pgtrial.store.slices import create_table, placed

__all__ = ["CommandLog", "HistogramLog", "IngestReport", "LevelLog", "LoadLog", "ingest", "merge_reports"]

LoadLog = LevelLog | HistogramLog | CommandLog  # what a process of a load generator has logged at a load level

_COLUMNS = Path(__file__).with_name("columns.sql")
# In place of a latency bucket, beside FAILED and SKIPPED: for a line that says nothing.
_UNKNOWN = -3
_AT_ONCE = 100_000  # requests of a command


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """Summary of the logs.

    ``transactions`` are all lines, whatever became of the transaction, ``outside_window`` those that ended outside
    the measured window. Of the ones inside, ``counted`` succeeded, ``failed`` were given up, ``skipped`` not begun;
    ``first`` and ``last`` are the ends of the earliest and the latest, in seconds since the epoch, None without any.
    ``unlogged`` is how many more the generator may have done, because its log does not reach to its end.
    """

    transactions: int
    outside_window: int
    counted: int
    failed: int
    skipped: int
    first: float | None
    last: float | None
    unlogged: int = 0


def ingest(logs: Sequence[LoadLog], out: Path, *, slices: Path | None = None) -> IngestReport:
    """Read the logs and write ``out``, whose columns are in columns.sql; only the measured time is written.

    ``slices`` is the file of slices of a run that has them.

    Memory does not depend on the number of transactions, but on that of seconds times scenarios. Raises WorkloadError
    when a log is missing, cut off or has a line that is not a log line: nothing is written then, as numbers that miss
    transactions are wrong numbers. A log without any line is none of these: no transaction may have ended.
    """
    for log in logs:
        if not log.files:
            raise WorkloadError(f"{_program_of(log)} left no log of load level {log.level}")
    try:
        with _pinned(logs) as pinned, _database(pinned, out.parent) as db:
            for table in ("transactions", "slices"):
                db.execute(_table_definition(table))
            report = merge_reports([_ingest(db, log) for log in pinned])
            write_query(db, "SELECT * FROM transactions ORDER BY level, second, scenario", out)
            if slices is not None:
                write_query(db, "SELECT * FROM slices ORDER BY level, slice, part, scenario", slices)
    except OSError as err:
        raise StoreError(f'cannot write "{out}": {err.strerror}') from err
    except duckdb.Error as err:
        raise StoreError(f'cannot write "{out}": {first_line(err)}') from err
    return report


def _program_of(log: LoadLog) -> str:
    match log:
        case LevelLog():
            return "pgbench"
        case HistogramLog():
            return "fio"
        case CommandLog():
            return "the command"


@contextmanager
def _pinned(logs: Sequence[LoadLog]) -> Iterator[Sequence[LoadLog]]:
    """The same logs with files that nobody can swap for others: whoever wrote them may be in the hands of a stranger.

    Errors name the files as they were called. Raises WorkloadError for what is no plain file, or was cut off.
    """
    names: dict[str, Path] = {}
    with ExitStack() as stack:

        def pin(log: LoadLog, path: Path) -> Path:
            try:
                file = stack.enter_context(open_single(path))
            except OSError as err:
                raise WorkloadError(f'cannot read {_program_of(log)}\'s log "{path}": {err.strerror}') from err
            if find_hole(file) is not None:  # a few bytes on the disk would take hours to read
                raise WorkloadError(f'{_program_of(log)}\'s log "{path}" has a hole, as no program leaves one in a log')
            if isinstance(log, LevelLog):
                check_whole(file, path, program=_program_of(log))
            pinned = Path(f"/proc/self/fd/{file.fileno()}")
            names[str(pinned)] = path
            return pinned

        pinned = [replace(log, files=tuple(pin(log, path) for path in log.files)) for log in logs]
        try:
            yield pinned
        except WorkloadError as err:
            raise WorkloadError(_renamed(err.message, names), detail=_renamed(err.detail, names)) from err


def _renamed(text: str, names: Mapping[str, Path]) -> str:
    return re.sub(r"/proc/self/fd/\d+", lambda found: str(names.get(found[0], found[0])), text)


@contextmanager
def _database(logs: Sequence[LoadLog], folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """One that puts into ``folder`` what has no room in memory; for little, that of the process, which is there."""
    if is_little(path for log in logs for path in log.files):
        with session(threads=1) as db:
            yield db
        return
    with connect() as db, tempfile.TemporaryDirectory(prefix=".ingest-", dir=folder) as spill:
        db.execute("SET temp_directory = ?", [spill])
        db.execute("SET preserve_insertion_order = false")
        yield db


def merge_reports(reports: Sequence[IngestReport]) -> IngestReport:
    """Merge the reports on several logs."""
    return IngestReport(
        transactions=sum(report.transactions for report in reports),
        outside_window=sum(report.outside_window for report in reports),
        counted=sum(report.counted for report in reports),
        failed=sum(report.failed for report in reports),
        skipped=sum(report.skipped for report in reports),
        first=min((report.first for report in reports if report.first is not None), default=None),
        last=max((report.last for report in reports if report.last is not None), default=None),
        unlogged=sum(report.unlogged for report in reports),
    )


def _ingest(db: duckdb.DuckDBPyConnection, log: LoadLog) -> IngestReport:
    match log:
        case LevelLog():
            return _ingest_log(db, log)
        case HistogramLog():
            return _ingest_histograms(db, log)
        case CommandLog():
            return _ingest_command(db, log)


def _ingest_histograms(db: duckdb.DuckDBPyConnection, log: HistogramLog) -> IngestReport:
    found = read_histograms(log)
    _insert_rows(db, log, found.rows)
    counted = sum(row.count for row in found.rows)
    return IngestReport(
        transactions=found.requests,
        outside_window=found.requests - counted,
        counted=counted,
        failed=0,
        skipped=0,
        first=found.first,
        last=found.last,
        unlogged=found.unlogged,
    )


def _ingest_command(db: duckdb.DuckDBPyConnection, log: CommandLog) -> IngestReport:
    if log.slices:
        return _ingest_requests(db, log)
    found = read_command(log)
    _insert_rows(db, log, found.rows)
    counted, failed = sum(row.count for row in found.rows), sum(row.failed for row in found.rows)
    return IngestReport(
        transactions=found.requests,
        outside_window=found.requests - counted - failed,
        counted=counted,
        failed=failed,
        skipped=0,
        first=found.first,
        last=found.last,
    )


def _ingest_requests(db: duckdb.DuckDBPyConnection, log: CommandLog) -> IngestReport:
    """Those of turns, as lines of pgbench's log. Whether the time in which the program stands still is in its
    latencies, and has to be taken out, was found out before.
    """
    db.execute("""
        CREATE OR REPLACE TEMP TABLE told (
            client INTEGER, number BIGINT, time VARCHAR, script INTEGER, epoch BIGINT, microsecond INTEGER,
            retries BIGINT
        )
    """)
    every = read_requests(log)
    while requests := list(islice(every, _AT_ONCE)):
        ended, latencies, retries = zip(*requests, strict=True)
        db.execute(
            """
            INSERT INTO told
            SELECT 0, 0, coalesce(latency::VARCHAR, 'failed'), 0, ended // 1000000, ended % 1000000, retries
            FROM (SELECT unnest(?::BIGINT[]) AS ended, unnest(?::BIGINT[]) AS latency, unnest(?::BIGINT[]) AS retries)
            """,
            [list(ended), list(latencies), list(retries)],
        )
    as_lines = LevelLog(
        level=log.level,
        scenarios=(log.scenario,),
        files=log.files,
        window=log.window,
        latency_limit=None,
        has_rate=False,
        max_tries=2,  # they have numbers of retries
        slices=log.slices,
        frozen=log.counts_standstill,
    )
    return _ingest_log(db, as_lines, lines="told")


def _insert_rows(db: duckdb.DuckDBPyConnection, log: HistogramLog | CommandLog, rows: Sequence[SecondRow]) -> None:
    if not rows:
        return
    db.execute(
        """
        INSERT INTO transactions BY NAME
        SELECT ?::INTEGER AS level, unnest(?::INTEGER[]) AS second, ?::VARCHAR AS scenario,
               unnest(?::BIGINT[]) AS count, unnest(?::DOUBLE[]) AS latency_sum, unnest(?::BIGINT[]) AS failed,
               0 AS skipped, 0 AS late, unnest(?::BIGINT[]) AS retried, unnest(?::BIGINT[]) AS retries,
               unnest(?::DOUBLE[]) AS lag_sum,
               unnest(?::INTEGER[][]) AS buckets, unnest(?::BIGINT[][]) AS bucket_counts
        """,
        [
            log.level,
            [row.second for row in rows],
            log.scenario,
            [row.count for row in rows],
            [row.latency_sum for row in rows],
            [row.failed for row in rows],
            [row.retried for row in rows],
            [row.retries for row in rows],
            [row.lag_sum for row in rows],
            [list(row.buckets) for row in rows],
            [list(row.bucket_counts) for row in rows],
        ],
    )


def _ingest_log(db: duckdb.DuckDBPyConnection, log: LevelLog, *, lines: str = "") -> IngestReport:
    """``lines`` is a table of what else would be read from the files."""
    if not any(path.stat().st_size for path in log.files):
        return merge_reports([])
    try:
        db.execute(
            f"CREATE OR REPLACE TEMP TABLE bucketed AS {_sums(log) if log.reduced else _bucketed(db, log, lines)}"
        )
    except (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.OutOfRangeException) as err:
        raise WorkloadError(
            f"pgbench's log of load level {log.level} has a line that is not a log line", detail=explain_error(err)
        ) from err
    _check_meaning(db, log)
    # In turns the beginning of what a command with a clock of its own tells is not known, nor how long a transaction
    # waited for its own.
    inside = (
        "NULL"
        if log.slices and ((lines and not log.frozen) or log.has_rate)
        else "coalesce(sum(inside) FILTER (bucket >= 0), 0)"
    )
    names = "[" + ", ".join(quote(name) for name in log.scenarios) + "]"
    db.execute(f"""
        INSERT INTO transactions BY NAME
        SELECT {log.level} AS level, place AS second, {names}[script + 1] AS scenario,
               coalesce(sum(lines) FILTER (ended_inside AND bucket >= 0), 0)              AS count,
               {inside} AS inside,
               coalesce(sum(latency) FILTER (ended_inside), 0) / 1e6                      AS latency_sum,
               coalesce(sum(lines) FILTER (ended_inside AND bucket = {FAILED}), 0)       AS failed,
               coalesce(sum(lines) FILTER (ended_inside AND bucket = {SKIPPED}), 0)      AS skipped,
               coalesce(sum(late) FILTER (ended_inside), 0)                               AS late,
               coalesce(sum(retried) FILTER (ended_inside AND bucket >= 0), 0)            AS retried,
               coalesce(sum(retries) FILTER (ended_inside), 0)                            AS retries,
               sum(lag) FILTER (ended_inside AND bucket >= 0) / 1e6                       AS lag_sum,
               coalesce(list(bucket ORDER BY bucket) FILTER (ended_inside AND bucket >= 0), []) AS buckets,
               coalesce(list(lines ORDER BY bucket) FILTER (ended_inside AND bucket >= 0), [])  AS bucket_counts
        FROM (SELECT *, second IS NOT NULL AS ended_inside FROM bucketed)
        WHERE place IS NOT NULL
        GROUP BY place, script
    """)
    if log.slices:
        db.execute(f"""
            INSERT INTO slices BY NAME
            SELECT {log.level} AS level, slice, part, {names}[script + 1] AS scenario,
                   sum(lines) AS count, sum(latency) / 1e6 AS latency_sum
            FROM bucketed
            WHERE slice IS NOT NULL AND bucket >= 0
            GROUP BY slice, part, script
        """)
    return _report(db)


def _bucketed(db: duckdb.DuckDBPyConnection, log: LevelLog, lines: str) -> str:
    """A query for the sums of a log's lines by second, slice, script and latency bucket."""
    # Their sum is missing where one of them is.
    numbers = ["client", "number", "ended", "retries", *(["lag"] if log.has_rate else [])]
    limit = "NULL" if log.latency_limit is None else str(round(log.latency_limit * 1e6))
    # The sums are of whole numbers below 2**53, so DOUBLE is exact, and quicker than the 128 bits of sum(BIGINT).
    return f"""
        SELECT second, place, slice, part, script,
               CASE WHEN latency > 1 THEN ceil(ln(latency) / {math.log(GAMMA)!r})
                    WHEN latency IS NOT NULL THEN 0
                    WHEN time IN ('failed', 'serialization', 'deadlock') THEN {FAILED}
                    WHEN time = 'skipped' THEN {SKIPPED}
                    ELSE {_UNKNOWN} END::SMALLINT    AS bucket,
               count(*)                              AS lines,
               count({" + ".join(numbers)})          AS complete,
               sum(latency::DOUBLE)                  AS latency,
               count(*) FILTER (latency > {limit})   AS late,
               count(*) FILTER (retries > 0)         AS retried,
               sum(retries::DOUBLE)                  AS retries,
               sum(lag::DOUBLE)                      AS lag,
               sum(inside)                           AS inside,
               min(ended)                            AS first,
               max(ended)                            AS last
        FROM {_placed(db, log, lines or read_logs(log))}
        GROUP BY ALL
    """


def _sums(log: LevelLog) -> str:
    """The same of a log that was reduced where it was written; what no log could have made is not complete."""
    start, end = (round(t * 1e6) for t in log.window)
    last = (end - start - 1) // 1_000_000
    return f"""
        SELECT second, place, NULL::INTEGER AS slice, NULL::INTEGER AS part, script, bucket,
               sum(lines)::BIGINT                    AS lines,
               sum(CASE WHEN coalesce(second, 0) BETWEEN 0 AND {last} AND coalesce(place, 0) BETWEEN 0 AND {last}
                             AND bucket < {FINE} AND lines > 0 AND inside BETWEEN 0 AND lines * {PARTS}
                        THEN lines ELSE 0 END)::BIGINT AS complete,
               sum(latency::DOUBLE)                  AS latency,
               sum(late)::BIGINT                     AS late,
               sum(retried)::BIGINT                  AS retried,
               sum(retries::DOUBLE)                  AS retries,
               sum(lag::DOUBLE)                      AS lag,
               sum(inside::DOUBLE) / {PARTS}         AS inside,
               min(first) + {start}                  AS first,
               max(last) + {start}                   AS last
        FROM {read_sums(log)}
        GROUP BY ALL
    """


def _placed(db: duckdb.DuckDBPyConnection, log: LevelLog, source: str) -> str:
    """The lines of a log as a table expression, with second (NULL outside the measured time), slice and part.

    ``inside`` is the part of a transaction's time that lies in the measured time, ``place`` the second to which that
    belongs, NULL where there is none. Parts are whole multiples of 2**-20, so that their sums are exact in any order.
    """
    lines = f"""
        (SELECT *, epoch * 1000000 + microsecond - {round(log.ahead * 1e6)} AS ended,
                TRY_CAST(time AS UBIGINT) AS latency
                {"" if log.max_tries != 1 else ", 0 AS retries"}
                {"" if log.has_rate else ", NULL::BIGINT AS lag"}
         FROM {source})
    """
    return f"""
        (SELECT * REPLACE (round(inside * 1048576) / 1048576 AS inside,
                           CASE WHEN second IS NOT NULL OR inside > 0 THEN coalesce(second, place) END AS place)
         FROM {_in_slices(db, log, lines) if log.slices else _in_window(log, lines)})
    """


def _in_slices(db: duckdb.DuckDBPyConnection, log: LevelLog, lines: str) -> str:
    create_table(db, log.slices)
    return placed(lines, frozen=log.frozen)


def _in_window(log: LevelLog, lines: str) -> str:
    start, end = (round(t * 1e6) for t in log.window)
    ends_inside = f"ended >= {start} AND ended < {end}"
    # A transaction of an open loop that waits for its turn is not at work yet.
    return f"""
        (SELECT *, NULL::INTEGER AS slice, NULL::INTEGER AS part,
                CASE WHEN {ends_inside} THEN (ended - {start}) // 1000000 END::INTEGER AS second,
                {(end - start - 1) // 1_000_000} AS place,
                CASE WHEN began < ended
                     THEN greatest(0, least(ended, {end}) - greatest(began, {start})) / (ended - began)
                     WHEN latency IS NOT NULL THEN ({ends_inside})::INTEGER END::DOUBLE AS inside
         FROM (SELECT *, ended - latency::BIGINT + coalesce(lag, 0) AS began FROM {lines}))
    """


def _report(db: duckdb.DuckDBPyConnection) -> IngestReport:
    row = db.execute(f"""
        SELECT coalesce(sum(lines), 0),
               coalesce(sum(lines) FILTER (second IS NULL), 0),
               coalesce(sum(lines) FILTER (second IS NOT NULL AND bucket >= 0), 0),
               coalesce(sum(lines) FILTER (second IS NOT NULL AND bucket = {FAILED}), 0),
               coalesce(sum(lines) FILTER (second IS NOT NULL AND bucket = {SKIPPED}), 0),
               min(first) FILTER (second IS NOT NULL) / 1e6,
               max(last) FILTER (second IS NOT NULL) / 1e6
        FROM bucketed
    """).fetchone()
    assert row is not None  # an aggregate has one row
    transactions, outside, counted, failed, skipped, first, last = row
    return IngestReport(
        transactions=transactions,
        outside_window=outside,
        counted=counted,
        failed=failed,
        skipped=skipped,
        first=first,
        last=last,
    )


def _check_meaning(db: duckdb.DuckDBPyConnection, log: LevelLog) -> None:
    """Lines of the right shape that say nothing: an empty field, an unknown word, a script that does not exist."""
    found = db.execute(
        f"""
        SELECT sum(lines - CASE WHEN script BETWEEN 0 AND ? - 1 AND bucket <> {_UNKNOWN} THEN complete ELSE 0 END)
        FROM bucketed
        """,
        [len(log.scenarios)],
    ).fetchone()
    assert found is not None  # an aggregate has one row
    if found[0]:
        raise WorkloadError(
            f"pgbench's log of load level {log.level} has lines that are not log lines: {found[0]}",
            detail=f"The files are {', '.join(str(path) for path in log.files)}.",
        )


def _table_definition(name: str) -> str:
    """The statement that makes a table of the session's own, out of columns.sql."""
    for statement in _COLUMNS.read_text(encoding="utf-8").split(";\n"):
        if f"CREATE TABLE {name} " in statement:
            return statement.replace("CREATE TABLE", "CREATE TEMP TABLE")
    raise StoreError(f'columns.sql does not define "{name}"')
