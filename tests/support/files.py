"""The Parquet files of simulated runs: what each is to contain, as a query with its parameters, and writing them."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from pgtrial.model.histogram import bucket_of
from pgtrial.model.run import LoadLevel, Slice
from pgtrial.store import parquet
from support.simulation import Simulation

Query = tuple[str, list[Any]]  # with its parameters
_MOST_WRITTEN = 5000  # files of some kB
_POLLS = 10  # per second
_SIGMA = 0.5  # of the logarithm of a transaction's latency
_QUANTILES = tuple(NormalDist().inv_cdf((i + 0.5) / 40) for i in range(40))
_STEAL = ("proc_stat.cpu_steal", "all")
_SAMPLED = """
    (SELECT unnest(?::VARCHAR[]) AS metric, unnest(?::VARCHAR[]) AS object, unnest(?::DOUBLE[]) AS base,
            unnest(?::DOUBLE[]) AS rate)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow:
    """A row of transactions.parquet; see store/columns.sql."""

    level: int
    second: int
    scenario: str
    count: int
    latency: float  # s, mean
    failed: int = 0
    skipped: int = 0
    late: int = 0


def write_transactions(rows: Sequence[TransactionRow], path: Path) -> None:
    """Write transactions.parquet with log-normal latencies of the given means."""
    write_all({path: transactions_query(rows)})


def write_all(files: Mapping[Path, Query]) -> None:
    """Write every file by its query; what another experiment's files had in them before is only copied."""
    with parquet.session(threads=1) as db:
        for path, (query, parameters) in files.items():
            key = hashlib.sha256(repr((query, parameters)).encode()).digest()
            if key in _written:
                path.write_bytes(_written[key])
                continue
            parquet.write_query(db, query, path, parameters)
            if len(_written) < _MOST_WRITTEN:
                _written[key] = path.read_bytes()


# Contents of files by their queries.
_written: dict[bytes, bytes] = {}


def transactions_query(rows: Sequence[TransactionRow]) -> Query:
    known = {key: _histogram(*key) for key in {(row.count, row.latency) for row in rows}}  # most seconds are alike
    histograms = [known[row.count, row.latency] for row in rows]
    columns: dict[str, tuple[str, list[object]]] = {
        "level": ("INTEGER", [row.level for row in rows]),
        "second": ("INTEGER", [row.second for row in rows]),
        "scenario": ("VARCHAR", [row.scenario for row in rows]),
        "count": ("BIGINT", [row.count for row in rows]),
        "inside": ("DOUBLE", [float(row.count) for row in rows]),
        "latency_sum": ("DOUBLE", [row.count * row.latency for row in rows]),
        "failed": ("BIGINT", [row.failed for row in rows]),
        "skipped": ("BIGINT", [row.skipped for row in rows]),
        "late": ("BIGINT", [row.late for row in rows]),
        "retried": ("BIGINT", [0 for _ in rows]),
        "retries": ("BIGINT", [0 for _ in rows]),
        "lag_sum": ("DOUBLE", [0.0 for _ in rows]),
        "buckets": ("INTEGER[]", [list(found) for found in histograms]),
        "bucket_counts": ("BIGINT[]", [list(found.values()) for found in histograms]),
    }
    select = ", ".join(f"unnest(?::{kind}[]) AS {name}" for name, (kind, _) in columns.items())
    return f"SELECT {select}", [values for _, values in columns.values()]


def samples_query(
    rates: Mapping[tuple[str, str], float], gauges: Mapping[tuple[str, str], float], *, start: float, end: float
) -> Query:
    """Readings of counters that grow evenly, and of gauges, once per second from ``start`` to ``end``."""
    query = f"""
        SELECT ?::DOUBLE + step AS t, metric, object, base + rate * step AS value
        FROM {_SAMPLED}, range(?) AS steps (step)
    """
    return query, [start, *_sampled(rates, gauges), math.floor(end - start) + 1]


def _sampled(
    rates: Mapping[tuple[str, str], float], gauges: Mapping[tuple[str, str], float]
) -> tuple[list[object], ...]:
    """Parameters of _SAMPLED: a value is its base and its rate times the seconds since the first reading."""
    rows = [(*key, 1000.0, rate) for key, rate in rates.items()] + [(*key, value, 0.0) for key, value in gauges.items()]
    return tuple([row[column] for row in rows] for column in range(4))


def steal(counters: Mapping[tuple[str, str], float], share: float) -> Mapping[tuple[str, str], float]:
    """The same counters with ``share`` of the CPU time stolen."""
    if not share:
        return counters
    cpus = {key for key in counters if key[0].startswith("proc_stat.cpu_")}
    taken = {key: rate * (1 - share) for key, rate in counters.items() if key in cpus}
    stolen = share * sum(counters[key] for key in cpus - {_STEAL})
    return {**counters, **taken, _STEAL: stolen}


def waits_query(
    waits: Mapping[tuple[str, str, str], float], levels: Sequence[tuple[LoadLevel, float]], *, seconds: int
) -> Query:
    """Sampled sessions of every load level, which begins at the given time, and one background process."""
    query = """
        SELECT start + step AS t, ?::INTEGER AS polls, backend_type, application, state, wait_type, wait_event,
               '' AS query, sessions
        FROM (SELECT unnest(?::DOUBLE[]) AS start, unnest(?::VARCHAR[]) AS backend_type,
                     unnest(?::VARCHAR[]) AS application, unnest(?::VARCHAR[]) AS state,
                     unnest(?::VARCHAR[]) AS wait_type, unnest(?::VARCHAR[]) AS wait_event,
                     unnest(?::INTEGER[]) AS sessions),
             range(?) AS steps (step)
    """
    rows: list[tuple[object, ...]] = []
    for level, start in levels:
        rows.append((start, "checkpointer", "", "", "Activity", "CheckpointerMain", _POLLS))
        rows += [
            (start, "client backend", "pgtrial/all", *kind, round(share * level.clients * _POLLS))
            for kind, share in waits.items()
        ]
    return query, [_POLLS, *(list(column) for column in zip(*rows, strict=True)), seconds]


def parts_query(rows: Sequence[tuple[object, ...]]) -> Query:
    kinds = ("INTEGER", "INTEGER", "INTEGER", "VARCHAR", "BIGINT", "DOUBLE")
    names = ("level", "slice", "part", "scenario", "count", "latency_sum")
    select = ", ".join(f"unnest(?::{kind}[]) AS {name}" for kind, name in zip(kinds, names, strict=True))
    return f"SELECT {select}", [list(column) for column in zip(*rows, strict=True)]


def shared_samples_query(simulation: Simulation, slices: Sequence[Slice], *, start: float) -> Query:
    """Readings once per second, or as soon as the arm goes on. A server's counters grow only while it is at work."""
    query = f"""
        SELECT t, metric, object,
               base + rate * CASE WHEN regexp_matches(metric, '^(pg|backend_cpu|pgbench_cpu)[_.]')
                                  THEN own ELSE t - ? END AS value
        FROM (SELECT unnest(?::DOUBLE[]) AS t, unnest(?::DOUBLE[]) AS own), {_SAMPLED}
    """
    times: list[float] = [start]
    owns, own = [0.0], 0.0
    for each in slices:
        t = max(each.started + 0.001, times[-1] + 1)
        while t < each.ended:
            times.append(t)
            owns.append(own + t - each.started)
            t += 1
        own += each.ended - each.started
    times.append(slices[-1].ended + 1)
    owns.append(own)
    return query, [start, times, owns, *_sampled(simulation.counters, simulation.gauges)]


def _histogram(count: int, mean: float) -> dict[int, int]:
    """Bucket to count of log-normal latencies, spread evenly over their quantiles."""
    median = mean / math.exp(_SIGMA**2 / 2)
    found: dict[int, int] = {}
    for index, z in enumerate(_QUANTILES):
        # Rounded so that the numbers add up to the count, with what is left spread over the whole distribution.
        number = (2 * (index + 1) * count + len(_QUANTILES)) // (2 * len(_QUANTILES))
        number -= (2 * index * count + len(_QUANTILES)) // (2 * len(_QUANTILES))
        if number:
            bucket = bucket_of(median * math.exp(_SIGMA * z) * 1e6)
            found[bucket] = found.get(bucket, 0) + number
    return found
