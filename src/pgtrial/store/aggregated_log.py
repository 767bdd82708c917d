"""Logs that pgbench wrote with --aggregate-interval: one line per interval, without percentiles.

A line is "interval_start transactions sum_latency sum_latency_2 min max", times in microseconds, then with --rate the
same four of the lag, and with --latency-limit the skipped transactions. From PostgreSQL 15 on all fields are always
there, and retries and failures after them. Source: PostgreSQL's doc/src/sgml/ref/pgbench.sgml, "Aggregated Logging".
"""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgtrial.errors import WorkloadError
from pgtrial.store.plain_run import PlainRun

_LINE = re.compile(rb"\d{9,} \d+ \d+ \d+ \d+ \d+( \d+)*\n?")
_BEFORE_15 = 11  # fields with a rate and a limit; skipped transactions are among the counted ones then
_LAG, _SKIPPED = 6, 10  # places of the first field of the lag, and of the skipped transactions
_FAILURES = slice(13, None)


def is_aggregated(line: bytes) -> bool:
    """Whether the first line of a log is that of an interval. One of a transaction begins with a client's number."""
    return _LINE.fullmatch(line) is not None


def read_aggregated(name: str, files: tuple[Path, ...]) -> PlainRun:
    """Throughput and mean latency of whole intervals, the logs of all threads added up.

    Threads begin within moments of each other, so that their intervals are taken for the same ones. Only those that all
    threads have count.
    """
    tables = [_read_lines(file) for file in files]
    width = _find_width(tables[0], files[0])
    origin = min(float(table[0, 0]) for table in tables)
    numbered = [np.round((table[:, 0] - origin) / width).astype(np.int64) for table in tables]
    first = max(int(numbers[0]) for numbers in numbered) + 1
    last = min(int(numbers[-1]) for numbers in numbered)
    if last - first < 1:
        raise WorkloadError(
            f'the log "{files[0]}" holds no whole interval of {width:g} s between its first and its last',
            hint="Let pgbench run longer, or choose a shorter --aggregate-interval.",
        )
    columns = np.zeros((last - first, tables[0].shape[1]))
    for table, numbers in zip(tables, numbered, strict=True):
        inside = (numbers >= first) & (numbers < last)
        np.add.at(columns, numbers[inside] - first, table[inside])
    fields = columns.shape[1]
    skipped = columns[:, _SKIPPED] if fields > _SKIPPED else np.zeros(len(columns))
    return PlainRun(
        name=name,
        files=tuple(str(file) for file in files),
        is_aggregated=True,
        started=origin + first * width,
        width=width,
        counts=columns[:, 1] - skipped if fields == _BEFORE_15 else columns[:, 1],
        latencies=columns[:, 2] / 1e6,
        failed=float(columns[:, _FAILURES].sum()),
        skipped=float(skipped.sum()),
        buckets=np.empty(0, dtype=np.int64),
        histogram=np.empty((last - first, 0)),
        clients=None,
        scripts=None,
        has_rate=bool(fields > _LAG and columns[:, _LAG].sum() > 0),
        logged_share=1.0,
    )


def _read_lines(path: Path) -> NDArray[np.float64]:
    """(intervals, fields) of a log, in order of time."""
    rows = []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not is_aggregated(line):
                shown = line[:80].decode("utf-8", "replace").rstrip()
                raise WorkloadError(
                    f'"{path}" has a line that is not one of an aggregated pgbench log',
                    detail=f'Line {number} is "{shown}".',
                )
            rows.append([float(field) for field in line.split()])
    fields = min(len(row) for row in rows)
    return np.array([row[:fields] for row in rows])


def _find_width(table: NDArray[np.float64], path: Path) -> float:
    """Length of an interval in seconds: the smallest step between two lines."""
    steps = np.diff(table[:, 0])
    steps = steps[steps > 0]
    if not steps.size:
        raise WorkloadError(
            f'the log "{path}" has one interval only, so its length is not known',
            hint="Let pgbench run longer, or choose a shorter --aggregate-interval.",
        )
    return float(steps.min())
