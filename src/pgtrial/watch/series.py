"""Series over the minutes, or hours, of a window, for comparisons and alarms; NaN where nothing is known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgtrial.collectors import blocking
from pgtrial.watch.layout import SAMPLES, STATEMENTS, WAITS
from pgtrial.watch.sums import POLLS
from pgtrial.watch.windows import Sums

Array = NDArray[np.float64]
COMMITS = "pg_stat_database.xact_commit"
COMMITS_NAME, ACTIVE_NAME, TIME_NAME = "commits", "active client sessions", "time at work per commit"
RUNNING = "CPU"  # what a session is said to wait for that waits for nothing
MOST = 1e100  # a server counts no further, and squares of it are still numbers
CLIENT_WORK = "backend_type IN ('client backend', 'parallel worker') AND state IN ('active', 'fastpath function call')"

EVENT = f"CASE WHEN wait_type = '' THEN '{RUNNING}' ELSE wait_type || '/' || wait_event END"

# Name, unit, and the counters of whose growth per second it is the sum.
RATES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("CPU in user mode", "cores", ("proc_stat.cpu_user", "proc_stat.cpu_nice")),
    ("CPU in the kernel", "cores", ("proc_stat.cpu_system", "proc_stat.cpu_irq", "proc_stat.cpu_softirq")),
    ("CPU stolen by the host", "cores", ("proc_stat.cpu_steal",)),
    ("CPU of the server", "cores", ("backend_cpu.run",)),
    ("waiting for a CPU, of the server", "sessions", ("backend_cpu.queue",)),
    ("device reads", "1/s", ("disk.reads",)),
    ("device writes", "1/s", ("disk.writes",)),
    ("bytes read from devices", "B/s", ("disk.read_bytes",)),
    ("bytes written to devices", "B/s", ("disk.write_bytes",)),
    ("all tasks stalled on I/O", "share", ("pressure.io_full_total",)),
    ("some task stalled on memory", "share", ("pressure.memory_some_total",)),
    ("WAL", "B/s", ("pg_stat_wal.wal_bytes",)),
    ("full pages in WAL", "1/s", ("pg_stat_wal.wal_fpi",)),
    ("checkpoints by time", "1/h", ("pg_stat_checkpointer.num_timed",)),
    ("checkpoints by request", "1/h", ("pg_stat_checkpointer.num_requested",)),
    ("rows read", "1/s", ("pg_stat_database.tup_returned",)),
    ("blocks read", "1/s", ("pg_stat_database.blks_read",)),
    ("blocks found in shared buffers", "1/s", ("pg_stat_database.blks_hit",)),
    ("bytes of temporary files", "B/s", ("pg_stat_database.temp_bytes",)),
    ("deadlocks", "1/s", ("pg_stat_database.deadlocks",)),
    ("rollbacks", "1/s", ("pg_stat_database.xact_rollback",)),
    ("buffers written by checkpoints", "1/s", ("pg_stat_checkpointer.buffers_written",)),
    ("connections opened", "1/s", ("pg_stat_database.sessions",)),
)


def empty(count: int) -> Array:
    return np.full(count, np.nan)


def series_of(found: Mapping[str, Any], keys: str, value: str, steps: int) -> dict[str, Array]:
    """By key a series of a column over the steps; NaN where there is no row, or no number in it."""
    result: dict[str, Array] = {}
    if not found:
        return result
    values = np.ma.filled(np.ma.asarray(found[value], dtype=np.float64), np.nan)
    values[~(np.abs(values) < MOST)] = np.nan  # also what is no number
    for key, place, each in zip(found[keys], found["place"], values, strict=True):
        result.setdefault(str(key), empty(steps))[int(place)] = each
    return result


_METRICS = (COMMITS, *(name for *_, names in RATES for name in names))


def read_rates(sums: Sums, metrics: Iterable[str] = _METRICS) -> dict[str, Array]:
    """By metric growth per second, over all objects together; NaN in a step of which nothing is known."""
    found = sums.read(
        SAMPLES,
        "place, metric, sum(total / seconds) AS rate",
        "seconds > 0 AND metric IN (SELECT unnest(?::VARCHAR[])) GROUP BY place, metric",
        list(metrics),
    )
    return series_of(found, "metric", "rate", sums.steps)


def rate_of(rates: Mapping[str, Array], metrics: Iterable[str], steps: int) -> Array:
    """The sum of those of the metrics that there are."""
    parts = [rates[metric] for metric in metrics if metric in rates]
    return sum(parts[1:], parts[0]) if parts else empty(steps)


def read_gauge(sums: Sums, metric: str) -> Array:
    """The mean of its readings in each step; NaN where there is none."""
    found = sums.read(
        SAMPLES, "place, metric, sum(total) / sum(count) AS mean", "metric = ? GROUP BY place, metric", metric
    )
    return series_of(found, "metric", "mean", sums.steps).get(metric, empty(sums.steps))


def growth_of(gauge: Array, step: int) -> Array:
    """By how much a gauge has grown per second since the step before in which it is known; NaN in the first one."""
    known = np.flatnonzero(np.isfinite(gauge))
    growth = empty(gauge.size)
    growth[known[1:]] = np.diff(gauge[known]) / (np.diff(known) * step)
    return growth


def read_polls(sums: Sums) -> Array:
    """How often sessions were polled; NaN where they were not."""
    found = sums.read(SAMPLES, "place, metric, total", "metric = ?", POLLS)
    polls = series_of(found, "metric", "total", sums.steps).get(POLLS, empty(sums.steps))
    return np.where(polls >= 1, polls, np.nan)


def read_waits(sums: Sums, polls: Array) -> dict[str, Array]:
    """By "type/event" the average number of client sessions; zero in a step that was polled and has none."""
    return _read_sessions(sums, polls, EVENT, CLIENT_WORK)


def read_work(sums: Sums, polls: Array) -> dict[str, Array]:
    """By statement, without literals, the average number of client sessions at work on it."""
    return _read_sessions(sums, polls, "query", CLIENT_WORK)


def read_background(sums: Sums, polls: Array) -> dict[str, Array]:
    """By what they do the average number of autovacuum's workers, and of sessions idle in a transaction."""
    doing = "CASE WHEN backend_type = 'client backend' THEN 'sessions idle in a transaction' ELSE query END"
    return _read_sessions(
        sums,
        polls,
        doing,
        "backend_type = 'autovacuum worker' AND query <> '' OR "
        "backend_type = 'client backend' AND starts_with(state, 'idle in transaction')",
    )


def _read_sessions(sums: Sums, polls: Array, key: str, where: str, *values: str) -> dict[str, Array]:
    found = sums.read(
        WAITS, f"place, {key} AS key, sum(sessions)::DOUBLE AS sessions", f"({where}) GROUP BY place, {key}", *values
    )
    counts = series_of(found, "key", "sessions", sums.steps)
    return {each: np.nan_to_num(series) / polls for each, series in counts.items()}


def read_waits_of(sums: Sums, polls: Array, query: str) -> dict[str, Array]:
    """As ``read_waits``, of the sessions at work on one statement, which is without literals."""
    return _read_sessions(sums, polls, EVENT, f"({CLIENT_WORK}) AND query = ?", query)


def waits_of_work(sums: Sums, polls: Array) -> dict[str, dict[str, float]]:
    """By statement and "type/event" the average number of client sessions over all of the window."""
    found = sums.read(
        WAITS,
        f"query, {EVENT} AS event, sum(sessions)::DOUBLE AS sessions",
        f"({CLIENT_WORK}) GROUP BY query, {EVENT}",
    )
    total = float(np.nansum(polls))
    result: dict[str, dict[str, float]] = {}
    if found and total:
        for query, event, sessions in zip(found["query"], found["event"], found["sessions"], strict=True):
            result.setdefault(str(query), {})[str(event)] = float(sessions) / total
    return result


def read_blocking(sums: Sums) -> dict[str, Array]:
    """By who waits for whom (``collectors.blocking``) the average number of sessions that do."""
    found = sums.read(SAMPLES, "place, object, total, count::DOUBLE AS count", "metric = ?", blocking.SESSIONS)
    totals = series_of(found, "object", "total", sums.steps)
    readings = series_of(found, "object", "count", sums.steps).get("", empty(sums.steps))
    return {each: np.nan_to_num(series) / readings for each, series in totals.items() if each}


def active_sessions(waits: Mapping[str, Array], polls: Array) -> Array:
    """The average number of client sessions at work: the sum of all waits."""
    active: Array = sum(waits.values(), np.zeros(polls.size)) + np.where(polls > 0, 0.0, np.nan)
    return active


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A statement as pg_stat_statements has it: calls, seconds, rows and blocks of each step, and its text."""

    calls: Array
    times: Array
    rows: Array
    blocks: Array
    query: str


def read_statements(sums: Sums) -> dict[str, Counted]:
    """By queryid; a step in which nothing was read is a gap, and one in which others were read is zero."""
    was_read = statements_read(sums)
    found = sums.read(
        STATEMENTS,
        "place, queryid, calls::DOUBLE AS calls, exec_time, rows::DOUBLE AS rows, "
        "(shared_blks_hit + shared_blks_read)::DOUBLE AS blocks, query",
    )
    if not found or np.isnan(was_read).all():
        return {}
    calls, times, rows, blocks = (
        {
            key: np.where(np.isnan(series), was_read, series)
            for key, series in series_of(found, "queryid", column, sums.steps).items()
        }
        for column in ("calls", "exec_time", "rows", "blocks")
    )
    texts = {str(key): str(text) for key, text in zip(found["queryid"], found["query"], strict=True) if text}
    return {
        key: Counted(calls=calls[key], times=times[key], rows=rows[key], blocks=blocks[key], query=texts.get(key, ""))
        for key in calls
    }


def statements_read(sums: Sums) -> Array:
    """Zero in a step in which pg_stat_statements was read, so that a statement without a row was not called."""
    read = sums.read(SAMPLES, "DISTINCT place", "metric = 'pg_stat_statements.calls' AND seconds > 0")
    was_read = empty(sums.steps)
    if read:
        was_read[np.asarray(read["place"], dtype=int)] = 0.0
    return was_read
