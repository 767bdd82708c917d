"""Readings of a watched server to sums over minutes, and these to sums over hours.

A gauge keeps the number, the sum and the extremes of its readings. A counter keeps by how much it grew, and for how
long that is known: between two readings it is followed by a straight line, as in the analysis of runs. A step is not
known, and so in no sum, where the counter fell, where it took too long, and where the server was started anew, its
statistics were reset, or a clock was set in between. All steps that are known are in the sums, each once, so sums add
up over minutes and hours.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pgtrial.collectors import WATCHED
from pgtrial.collectors.base import ExtensionCollector
from pgtrial.model.metric import MetricKind
from pgtrial.store import parquet
from pgtrial.watch.layout import HOUR, MINUTE, SAMPLES, STATEMENTS, WAITS

LONGEST = 180.0  # s between two readings of what is read once in a minute …
LONGEST_OFTEN = 60.0  # … and of what is read with each tick
AROUND = 240.0  # s before and after an hour, of which readings may belong to steps that lie in it
SETTLED = AROUND + 60.0  # s after its end an hour's sums are what they will be

LIFE = "server_life."  # how the metrics begin that change when the server's counters begin anew
CLOCK = "watch.clock"  # s, by which the wall clock is ahead of the time since the machine was started
SESSION = "watch.session"  # when this pgtrial began to read, from where on it adds up what ended processes have used
POLLS = "sessions.polls"

_MOST_READINGS = 6_000_000  # of an hour and what is around it, in one column
_CLOCK_STEP = 0.2  # s
_COUNTS = (
    *("calls", "rows", "exec_time", "shared_blks_hit", "shared_blks_read", "shared_blks_dirtied"),
    *("shared_blks_written", "temp_blks_read", "temp_blks_written", "wal_bytes"),
)

_READINGS = "CREATE OR REPLACE TEMP TABLE readings AS SELECT * FROM {files} WHERE t >= ? AND t < ?"
# Within which something began anew: all of it is a gap for the counters that ``scope`` says.
_BREAKS = f"""
CREATE OR REPLACE TEMP TABLE breaks AS
SELECT begun, t AS ended,
       CASE WHEN metric = '{CLOCK}' THEN 'all' WHEN metric = '{SESSION}' THEN 'session' ELSE 'server' END AS scope
FROM (
    SELECT metric, t, value, lag(t) OVER read AS begun, lag(value) OVER read AS old
    FROM {{samples}}
    WHERE metric IN ('{CLOCK}', '{SESSION}') OR starts_with(metric, '{LIFE}')
    WINDOW read AS (PARTITION BY metric ORDER BY t)
)
WHERE abs(value - old) > CASE WHEN metric = '{CLOCK}' THEN {_CLOCK_STEP} ELSE 0 END
"""
_IS_SESSIONS = "(starts_with(metric, 'backend_cpu.') OR starts_with(metric, 'pg_wait_sampling.'))"
_IS_SERVERS = "(starts_with(metric, 'pg_') OR starts_with(metric, 'backend_cpu.'))"

_SAMPLES = f"""
WITH counted AS (
    SELECT metric, object, t, value, longest, lag(t) OVER read AS t0, lag(value) OVER read AS old
    FROM readings JOIN counters USING (metric)
    WINDOW read AS (PARTITION BY metric, object ORDER BY t)
), steps AS (
    SELECT * FROM counted
    WHERE t > t0 AND t - t0 <= longest AND value >= old AND NOT EXISTS (
        SELECT 1 FROM breaks
        WHERE begun < counted.t AND ended > counted.t0
          AND (scope = 'all' OR scope = 'server' AND {_IS_SERVERS} OR scope = 'session' AND {_IS_SESSIONS})
    )
), pieces AS (
    SELECT metric, object, unnest(range(floor(t0 / $step)::BIGINT, ceil(t / $step)::BIGINT)) AS number,
           t0, t, (value - old) / (t - t0) AS rate
    FROM steps
), inside AS (
    SELECT number * $step::DOUBLE AS place, metric, object, rate,
           least(t, (number + 1) * $step) - greatest(t0, number * $step) AS seconds
    FROM pieces
)
SELECT place AS t, metric, object, count(*) AS count, sum(rate * seconds) AS total, sum(seconds) AS seconds,
       NULL::DOUBLE AS low, NULL::DOUBLE AS high
FROM inside WHERE place >= $start AND place < $end GROUP BY place, metric, object
UNION ALL
SELECT floor(t / $step) * $step AS place, metric, object, count(*), sum(value), NULL, min(value), max(value)
FROM readings ANTI JOIN counters USING (metric)
WHERE t >= $start AND t < $end AND metric <> '{CLOCK}'
GROUP BY place, metric, object
"""
_WAIT_GROUP = "backend_type, application, state, wait_type, wait_event, query"
_WAITS = f"""
SELECT floor(t / $step) * $step AS t, {_WAIT_GROUP}, sum(sessions)::BIGINT AS sessions
FROM readings WHERE t >= $start AND t < $end GROUP BY ALL
"""
# What was not there at the reading before has counted nothing by then: the server forgets a statement with its counts.
_STATEMENTS = f"""
WITH times AS (
    SELECT t, lag(t) OVER (ORDER BY t) AS t0 FROM (SELECT DISTINCT t FROM readings)
), alike AS (
    SELECT t, queryid, {", ".join(f"sum({name}) AS {name}" for name in _COUNTS)}, max(query) AS query
    FROM readings GROUP BY t, queryid
), grown AS (
    SELECT times.t, times.t0, alike.queryid, alike.query,
           {", ".join(f"alike.{name} - coalesce(old.{name}, 0) AS {name}" for name in _COUNTS)}
    FROM alike JOIN times ON times.t = alike.t
    LEFT JOIN alike AS old ON old.t = times.t0 AND old.queryid = alike.queryid
    WHERE times.t - times.t0 <= {LONGEST} AND NOT EXISTS (
        SELECT 1 FROM breaks WHERE begun < times.t AND ended > times.t0 AND scope IN ('all', 'server')
    )
)
SELECT floor((t0 + t) / 2 / $step) * $step AS place, queryid, sum(t - t0) AS seconds,
       {", ".join(f"sum({name})::{'DOUBLE' if name == 'exec_time' else 'BIGINT'} AS {name}" for name in _COUNTS)},
       max(query) AS query
FROM grown
WHERE place >= $start AND place < $end AND calls > 0
  AND {" AND ".join(f"({name} >= 0) IS NOT FALSE" for name in _COUNTS)}
GROUP BY place, queryid
"""
_MINUTES = {SAMPLES: _SAMPLES, WAITS: _WAITS, STATEMENTS: f"SELECT place AS t, * EXCLUDE (place) FROM ({_STATEMENTS})"}
_SUMS = {SAMPLES: "sample_sums", WAITS: "wait_sums", STATEMENTS: "statement_sums"}  # their tables in columns.sql
_KEYS = {SAMPLES: "metric, object", WAITS: _WAIT_GROUP, STATEMENTS: "queryid"}
_ADDED = {
    SAMPLES: "sum(count)::BIGINT AS count, sum(total) AS total, sum(seconds) AS seconds, min(low) AS low, "
    "max(high) AS high",
    WAITS: "sum(sessions)::BIGINT AS sessions",
    STATEMENTS: "sum(seconds) AS seconds, "
    + ", ".join(f"sum({name})::{'DOUBLE' if name == 'exec_time' else 'BIGINT'} AS {name}" for name in _COUNTS)
    + ", max(query) AS query",
}
_ORDER = {SAMPLES: "metric, object, t", WAITS: "ALL", STATEMENTS: "queryid, t"}
COUNTERS: tuple[tuple[str, float], ...] = tuple(
    (metric.name, LONGEST if isinstance(each, ExtensionCollector) else LONGEST_OFTEN)
    for each in WATCHED
    for metric in each.metrics
    if metric.kind is MetricKind.COUNTER
)


def merge(kind: str, files: Sequence[Path], out: Path) -> None:
    """Write the readings of several files as one, in the order in which they take least room. Raises StoreError."""
    with parquet.session(threads=1) as db:
        source = _source(db, files, kind)
        order = {SAMPLES: "metric, object, t", WAITS: f"{_WAIT_GROUP}, t", STATEMENTS: "queryid, t"}[kind]
        parquet.write_query(db, f"SELECT * EXCLUDE (filename) FROM {source} ORDER BY {order}", out)


def sum_minutes(
    kind: str,
    start: int,
    out: Path,
    *,
    readings: Sequence[Path],
    samples: Sequence[Path],
    counters: Iterable[tuple[str, float]],
    before: Sequence[Path] = (),
    step: int = MINUTE,
    end: int | None = None,
) -> None:
    """Write the minutes from ``start`` to ``end``, an hour later unless it is given, or ``step`` seconds each.

    Raises StoreError.

    ``readings`` are all of it and around it, ``samples`` those of kind samples, which say where something began anew.
    ``counters`` are the metrics that count, and how many seconds may lie between two of their readings. Sums of the
    same hour that were written ``before`` are added.
    """
    end = start + HOUR if end is None else end
    with parquet.session(threads=1) as db:
        query = _prepare(db, kind, start, end, readings=readings, samples=samples, counters=counters)
        parameters: dict[str, Any] = {"start": float(start), "end": float(end), "step": step}
        for name, value in parameters.items():
            query = query.replace(f"${name}", repr(value))
        if before:
            earlier = _source(db, before, kind, sums=True)
            query = f"SELECT * FROM ({query}) UNION ALL BY NAME SELECT * EXCLUDE (filename) FROM {earlier}"
            query = f"SELECT t, {_KEYS[kind]}, {_ADDED[kind]} FROM ({query}) GROUP BY t, {_KEYS[kind]}"
        parquet.write_query(db, f"SELECT * FROM ({query}) ORDER BY {_ORDER[kind]}", out)


def sum_hours(kind: str, minutes: Sequence[Path], out: Path) -> None:
    """Write the hours of the minutes in some files. Raises StoreError."""
    with parquet.session(threads=1) as db:
        source = _source(db, minutes, kind, sums=True)
        query = f"SELECT floor(t / {HOUR}) * {HOUR} AS t, {_KEYS[kind]}, {_ADDED[kind]} FROM {source} GROUP BY ALL"
        parquet.write_query(db, f"SELECT * FROM ({query}) ORDER BY {_ORDER[kind]}", out)


def read_sums(kind: str, files: Sequence[Path], query: str, parameters: Sequence[Any] = ()) -> dict[str, Any]:
    """Columns of a query on sums, which are ``{files}`` in it, as numpy arrays. Raises StoreError."""
    if not files:
        return {}
    with parquet.session(threads=1) as db:
        source = _source(db, files, kind, sums=True)
        return parquet.fetch(db, query.replace("{files}", source), parameters)


def read_readings(kind: str, files: Sequence[Path], columns: str) -> dict[str, Any]:
    """Columns of what was read, in the order of time, as numpy arrays. Raises StoreError."""
    if not files:
        return {}
    with parquet.session(threads=1) as db:
        return parquet.fetch(db, f"SELECT {columns} FROM {_source(db, files, kind)} ORDER BY t")


def _prepare(
    db: Any,
    kind: str,
    start: float,
    end: float,
    *,
    readings: Sequence[Path],
    samples: Sequence[Path],
    counters: Iterable[tuple[str, float]],
) -> str:
    """Make the tables that the query of the minutes, which is returned, reads."""
    around = [start - AROUND, end + AROUND]
    parquet.execute(db, _READINGS.replace("{files}", _source(db, readings, kind)), around)
    source = _source(db, samples, SAMPLES) if samples else "(SELECT '' AS metric, 0.0 AS t, 0.0 AS value LIMIT 0)"
    parquet.execute(
        db, _BREAKS.replace("{samples}", f"(SELECT * FROM {source} WHERE t >= {around[0]} AND t < {around[1]})")
    )
    names, longest = zip(*counters, strict=True)
    parquet.execute(db, "CREATE OR REPLACE TEMP TABLE counters (metric VARCHAR, longest DOUBLE)")
    parquet.execute(
        db, "INSERT INTO counters SELECT unnest(?::VARCHAR[]), unnest(?::DOUBLE[])", [list(names), list(longest)]
    )
    return _MINUTES[kind]


def _source(db: Any, files: Sequence[Path], kind: str, *, sums: bool = False) -> str:
    return parquet.source(db, files, table=_SUMS[kind] if sums else kind, free_values=_MOST_READINGS)
