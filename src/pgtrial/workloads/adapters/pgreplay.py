"""Have pgreplay replay the log of a server with its original timing, and read the report at its end.

The report has the number of statements, how many failed, and their mean time in whole milliseconds; its shares by time
have borders so far apart that no percentile follows from them. Its lag is in whole seconds, and is that of a statement
to when it was due, whether pgreplay was late or the server. Statements that failed in the original fail in the replay
as well: only the difference counts. Source: pgreplay 1.2.0, database.c (database_consumer_finish).
"""

import csv
import json
import re
import time
from collections.abc import Callable, Sequence

from pgtrial.store.command_line import LineError
from pgtrial.workloads.adapters.base import Adapter, Files, Translate

_CSV = ".csv"
_SEVERITY = 11  # column of the csvlog, by number: the file has no header (runtime-config-logging)
_LATE = 2  # s: below, a lag of whole seconds may be no more than a second that has just begun
_TIMES = {
    "seconds": re.compile(r"Total run time: (?P<time>.*)"),
    "lag": re.compile(r"Maximum lag behind schedule: (?P<time>.*)"),
}
_PART = re.compile(r"(?P<value>\d+(?:\.\d+)?) (?P<unit>day|hour|minute|second)s?")
_UNITS = {"day": 86400.0, "hour": 3600.0, "minute": 60.0, "second": 1.0}  # s
_LINES = {
    "count": re.compile(r"SQL statements executed: (?P<value>\d+)"),
    "failed": re.compile(r"\((?P<value>\d+) or [\d.]+% of these completed with error\)"),
    "mean": re.compile(r"Average SQL statement duration: (?P<value>\d+(?:\.\d+)?) seconds"),
}
_LAST = re.compile(r"\s*over 2\s+seconds: ")
_ERROR_LINE = re.compile(r"\d{4}-\d\d-\d\d [\d:.]+ \w+\|[^|]*\|[^|]*\|[0-9a-f.]+\|ERROR:  ")


def arrange(command: Sequence[str]) -> tuple[str, ...]:
    """``command`` is pgreplay, its options, and the log."""
    program, *words = command
    options = ["-c"] if words[-1:] and words[-1].endswith(_CSV) and "-c" not in words else []
    return (program, *options, "-h", "{host}", "-p", "{port}", *words)


def failures_of(files: Files) -> int:
    """Statements that failed in the original."""
    return sum(_failures(name, text) for name, text in files.items())


def _failures(name: str, text: str) -> int:
    if not name.endswith(_CSV):
        return sum(_ERROR_LINE.match(line) is not None for line in text.splitlines())
    rows = csv.reader(text.splitlines(keepends=True))
    return sum(len(row) > _SEVERITY and row[_SEVERITY] == "ERROR" for row in rows)


def translator(files: Files, now: Callable[[], float] = time.time) -> Translate:
    original = failures_of(files)
    found: dict[str, float] = {}

    def translate(line: str) -> str | None:
        for name, pattern in _TIMES.items():
            if (match := pattern.match(line)) is not None:
                parts = _PART.finditer(match["time"])
                found[name] = sum(float(part["value"]) * _UNITS[part["unit"]] for part in parts)
        for name, pattern in _LINES.items():
            if (match := pattern.match(line)) is not None:
                found[name] = float(match["value"])
        if _LAST.match(line) is None:
            return None
        return json.dumps(_whole(found, original, now()))

    return translate


def _whole(found: dict[str, float], original: int, ended: float) -> dict[str, float]:
    if "seconds" not in found or "count" not in found:
        raise LineError("the report of pgreplay is not whole")
    if found.get("lag", 0.0) >= _LATE:
        raise LineError(f"the replay was up to {found['lag']:g} s behind the log: it did not keep its timing")
    failed = int(found.get("failed", 0))
    told = {
        "t": ended,
        "seconds": found["seconds"],
        "count": int(found["count"]) - failed,
        "failed": abs(failed - original),
    }
    return told | {"mean": found["mean"]} if "mean" in found and told["count"] else told


ADAPTER = Adapter(name="pgreplay", arrange=arrange, translator=translator, ends_itself=True, begins_silently=True)
