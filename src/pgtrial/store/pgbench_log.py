"""Read pgbench's per-transaction logs with DuckDB.

A line of a log is "client number time script epoch microsecond", then the schedule lag with --rate, then the number of
retries with --max-tries. Times are in microseconds; with a rate, ``time`` begins when the transaction was due, and so
includes the lag. ``epoch`` and ``microsecond`` are the end. In place of a time stands "skipped", or for a failed
transaction "failed", with --failures-detailed "serialization" or "deadlock". Source: PostgreSQL's doc/src/sgml/ref/
pgbench.sgml, "Per-Transaction Logging"; the format is the same from 15 to 18.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import duckdb

from pgtrial.errors import WorkloadError
from pgtrial.model.histogram import GAMMA
from pgtrial.model.run import Slice
from pgtrial.store.log_reduction import COLUMNS

_LONGEST_LINE = 1000  # bytes; ours have less than a hundred, and whoever writes the log may write anything
_FIELDS = {
    "client": "INTEGER",
    "number": "BIGINT",
    "time": "VARCHAR",
    "script": "INTEGER",
    "epoch": "BIGINT",
    "microsecond": "INTEGER",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLog:
    """The logs of one pgbench process at one load level.

    ``scenarios`` are in the order of pgbench's script numbers; ``files`` are the logs of its threads; ``window`` is the
    measured time, first second included, last excluded, in seconds since the epoch; ``latency_limit`` in seconds.
    The clock by which it was written was ``ahead`` of ours (s). Where it was ``reduced``, on another machine, the files
    have the sums of log_reduction.py, by our clock.
    With ``slices`` (in order of time) only their counted parts are measured time; ``frozen``: between them the clients
    stood still.
    """

    level: int
    scenarios: tuple[str, ...]
    files: tuple[Path, ...]
    window: tuple[float, float]
    latency_limit: float | None
    has_rate: bool
    max_tries: int
    slices: tuple[Slice, ...] = ()
    frozen: bool = True
    ahead: float = 0.0
    reduced: bool = False


def read_logs(log: LevelLog) -> str:
    """A DuckDB table expression over the lines of a log; at least one of its files has a line."""
    names = dict(_FIELDS)
    if log.has_rate:
        names["lag"] = "BIGINT"
    if log.max_tries != 1:
        names["retries"] = "INTEGER"
    files = [path for path in log.files if path.stat().st_size > 0]
    with files[0].open("rb") as file:
        found = len(file.readline(_LONGEST_LINE).split())
    # A newer pgbench may append fields; they are read by no one.
    names |= {f"unknown{i}": "VARCHAR" for i in range(found - len(names))}
    listed = ", ".join(quote(_without_wildcards(path)) for path in files)
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in names.items())
    return (
        f"read_csv([{listed}], columns = {{{columns}}}, auto_detect = false, header = false, delim = ' ',"
        " quote = '', escape = '', comment = '', strict_mode = true)"
    )


def read_sums(log: LevelLog) -> str:
    """A DuckDB table expression over the sums of a log that was reduced; at least one of its files has a line."""
    listed = ", ".join(quote(_without_wildcards(path)) for path in log.files if path.stat().st_size > 0)
    columns = ", ".join(f"{name}: 'BIGINT'" for name in COLUMNS)
    return (
        f"read_csv([{listed}], columns = {{{columns}}}, auto_detect = false, header = false, delim = ',',"
        " quote = '', escape = '', comment = '', strict_mode = true)"
    )


def reduction_of(log: LevelLog) -> str:
    """What log_reduction.py is asked for, to be told to it on the machine where the log is: JSON."""
    start, end = (round(t * 1e6) for t in log.window)
    return json.dumps(
        {
            "start": start,
            "end": end,
            "ahead": round(log.ahead * 1e6),
            "latency_limit": None if log.latency_limit is None else round(log.latency_limit * 1e6),
            "scripts": len(log.scenarios),
            "has_rate": log.has_rate,
            "has_retries": log.max_tries != 1,
            "gamma": GAMMA,
        }
    )


def check_whole(file: BinaryIO, path: Path, *, program: str) -> None:
    """A generator that is killed leaves a line that may still look like one, with a number that was cut off."""
    if file.seek(0, os.SEEK_END) == 0:
        return
    file.seek(-1, os.SEEK_END)
    if file.read(1) != b"\n":
        raise WorkloadError(
            f'{program}\'s log "{path}" ends in the middle of a line',
            detail=f"{program} was killed while it wrote, or the disk is full.",
        )


def explain_error(err: duckdb.Error) -> str:
    """Where and what the line is, without DuckDB's advice on options of its own."""
    text = str(err)
    found = [re.search(pattern, text) for pattern in (r"on Line: (.+)", r"Original Line: ?(.*)", r"file = (.+)")]
    number, line, file = (match[1].strip() if match else None for match in found)
    return text.splitlines()[0] if number is None else f'Line {number} of "{file}" is "{line}".'


def quote(text: str) -> str:
    """An SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _without_wildcards(path: Path) -> str:
    """A path that DuckDB does not take for a pattern."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))
