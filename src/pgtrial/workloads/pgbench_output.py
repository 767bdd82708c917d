"""Parse pgbench's output by its field names; unknown fields are skipped.

The formats are those of PostgreSQL 15 to 18, src/bin/pgbench/pgbench.c: printProgressReport, printResults,
commandFailed.
"""

import re
from typing import Literal

from pgtrial.workloads.base import Output, Progress, Summary

__all__ = ["OUTPUT", "Progress", "Summary", "find_errors", "parse_progress", "parse_summary"]

_NUMBER = r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?"

_PROGRESS = re.compile(rf"progress: (?P<t>{_NUMBER}) s, (?P<tps>{_NUMBER}) tps, lat (?P<latency_ms>{_NUMBER}|NaN) ms")
_PROGRESS_FIELDS = {
    name: re.compile(pattern)
    for name, pattern in {
        "lag_ms": rf", lag (?P<value>{_NUMBER}) ms",
        "failed": r", (?P<value>[0-9]+) failed",
        "skipped": r", (?P<value>[0-9]+) skipped",
        "retried": r", (?P<value>[0-9]+) retried",
        "retries": r", (?P<value>[0-9]+) retries",
    }.items()
}

# Anchored at the start of a line: the sections for the single scripts have the same words behind " - ".
_SUMMARY_FIELDS = {
    name: re.compile(pattern, re.MULTILINE)
    for name, pattern in {
        "processed": r"^number of transactions actually processed: (?P<value>[0-9]+)",
        "failed": r"^number of failed transactions: (?P<value>[0-9]+)",
        "serialization_failures": r"^number of serialization failures: (?P<value>[0-9]+)",
        "deadlock_failures": r"^number of deadlock failures: (?P<value>[0-9]+)",
        "skipped": r"^number of transactions skipped: (?P<value>[0-9]+)",
        "late": r"^number of transactions above the [0-9.]+ ms latency limit: (?P<value>[0-9]+)",
        "retried": r"^number of transactions retried: (?P<value>[0-9]+)",
        "retries": r"^total number of retries: (?P<value>[0-9]+)",
        "clients": r"^number of clients: (?P<value>[0-9]+)",
        "latency_mean_ms": rf"^latency average = (?P<value>{_NUMBER}) ms",
        "lag_mean_ms": rf"^rate limit schedule lag: avg (?P<value>{_NUMBER})",
        "connection_time_ms": rf"^initial connection time = (?P<value>{_NUMBER}) ms",
        "tps": rf"^tps = (?P<value>{_NUMBER})",
    }.items()
}

# How a message begins. pgbench writes "pgbench: ", the level and the text one after the other, so the threads' messages
# interleave: "pgbench:pgbench:  error: error: client 1 …" on one line, "client 2 …" on another.
_PREFIX = re.compile(r"\s*(?:(?:pgbench|error|fatal|warning|info|hint|detail):\s*)+")
_WITHOUT_LEVEL = re.compile(r"client \d+ .*aborted|connection to server .*failed|could not create connection")
# The server's own words reach stderr without pgbench's name when the connection ends with them.
_SERVER_LAST_WORDS = re.compile(r"(?:FATAL|PANIC):  ")
_SERVER_NOTICE = re.compile(r"(?:WARNING|NOTICE|INFO|LOG|DEBUG):  ")


def parse_progress(line: str) -> Progress | None:
    """The numbers of a progress line, None if it is another line."""
    match = _PROGRESS.match(line)
    if match is None:
        return None
    found = {name: _find(pattern, line) for name, pattern in _PROGRESS_FIELDS.items()}
    tps = float(match["tps"])
    # pgbench prints 0 for the means where there was nothing to take a mean of.
    has_latency = tps > 0 and match["latency_ms"] != "NaN"
    return Progress(
        t=float(match["t"]),
        tps=tps,
        latency=float(match["latency_ms"]) / 1000 if has_latency else None,
        lag=_seconds(found["lag_ms"]) if has_latency else None,
        failed=_count(found["failed"]),
        skipped=_count(found["skipped"]),
        retried=_count(found["retried"]),
        retries=_count(found["retries"]),
    )


def parse_summary(stdout: str) -> Summary:
    """The numbers that pgbench prints at its end; all None if it was ended before."""
    found = {name: _find(pattern, stdout) for name, pattern in _SUMMARY_FIELDS.items()}
    return Summary(
        processed=_count(found["processed"]),
        tps=None if found["tps"] is None else float(found["tps"]),
        failed=_count(found["failed"]),
        skipped=_count(found["skipped"]),
        late=_count(found["late"]),
        retried=_count(found["retried"]),
        retries=_count(found["retries"]),
        serialization_failures=_count(found["serialization_failures"]),
        deadlock_failures=_count(found["deadlock_failures"]),
        clients=_count(found["clients"]),
        latency_mean=_seconds(found["latency_mean_ms"]),
        lag_mean=_seconds(found["lag_mean_ms"]),
        connection_time=_seconds(found["connection_time_ms"]),
    )


def find_errors(stderr: str) -> tuple[str, ...]:
    """Every error in pgbench's and the server's own words, in the order printed, each with its DETAIL and LINE lines.

    Any of them means that clients were lost, or that pgbench did not start: it goes on after no other kind of error.
    Notices and warnings of the server are none.
    """
    errors: list[str] = []
    inside = False  # an error, to which the lines that begin nothing belong
    for line in map(str.rstrip, stderr.splitlines()):
        text, begins = _begin_message(line)
        if begins:
            inside = begins == "error"
            if inside and text:
                errors.append(text)
        elif inside and errors:
            errors[-1] += f"\n{line}"
    return tuple(errors)


def _begin_message(line: str) -> tuple[str, Literal["error", "other", ""]]:
    """(text, what begins with this line): an error, something else, or ("") nothing, as it goes on."""
    if not line or line.startswith("progress: ") or _SERVER_NOTICE.match(line):
        return line, "other"
    prefix = _PREFIX.match(line)
    text = line[prefix.end() :] if prefix else line
    levels = set(re.findall(r"[a-z]+", prefix[0])) if prefix else set()
    if levels & {"error", "fatal"} or _WITHOUT_LEVEL.match(text) or _SERVER_LAST_WORDS.match(text):
        return text, "error"
    goes_on = prefix is None or levels & {"hint", "detail"}
    return line, "" if goes_on else "other"


def _find(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else match["value"]


def _count(text: str | None) -> int | None:
    return None if text is None else int(text)


def _seconds(milliseconds: str | None) -> float | None:
    return None if milliseconds is None else float(milliseconds) / 1000


OUTPUT = Output(
    program="pgbench",
    progress="stderr",
    is_prompt=True,
    parse_progress=parse_progress,
    parse_summary=lambda stdout, _stderr: parse_summary(stdout),
    find_errors=lambda _stdout, stderr: find_errors(stderr),
)
