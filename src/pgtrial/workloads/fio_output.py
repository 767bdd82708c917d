"""Read what fio says: its progress, its summary as JSON, and its complaints.

Formats: eta.c (display_thread_status) and stat.c (show_thread_status_json) of fio 3.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from pgtrial.workloads.base import Output, Progress, Summary

_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
# "Jobs: 1 (f=1): [r(1)][40.0%][r=117MiB/s][r=29.9k IOPS][eta 00m:06s]"
_RATES = re.compile(r"\[(?P<rates>[^\[\]]*) IOPS\]")
_RATE = re.compile(r"[rwt]=(?P<number>[0-9.]+)(?P<unit>[kMG]?)(?=,|$)")


def parse_progress(line: str) -> Progress | None:
    """Requests per second of a line of progress, None if it is another line.

    fio goes back to the beginning of the line (carriage return) to write over what it wrote before.
    """
    match = _RATES.search(line.rstrip("\r").rpartition("\r")[2])
    if match is None:
        return None
    rates = [float(each["number"]) * _FACTORS[each["unit"]] for each in _RATE.finditer(match["rates"])]
    return Progress(t=None, tps=sum(rates), latency=None) if rates else None


def parse_summary(_stdout: str, stderr: str) -> Summary:
    """How many requests were done; None if fio was ended before it could say so."""
    report, _ = _split(stderr)
    if report is None:
        return Summary(processed=None)
    return Summary(
        processed=sum(
            job.get(direction, {}).get("total_ios", 0)
            for job in report.get("jobs", ())
            for direction in ("read", "write")
        )
    )


def find_errors(_stdout: str, stderr: str) -> Sequence[str]:
    """The words of fio, where it says that a job failed or says nothing at its end."""
    report, others = _split(stderr)
    failed = report is None or any(job.get("error", 0) for job in report.get("jobs", ()))
    said = tuple(line.removeprefix("fio: ") for line in others if line.startswith("fio: ")) if failed else ()
    if said or report is None or not failed:
        return said
    codes = [job["error"] for job in report["jobs"] if job.get("error", 0)]
    return (f"a job ended with error {codes[0]}",)


def _split(stderr: str) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The report, which is the JSON object from a line "{" to a line "}"; and the other lines."""
    lines = stderr.splitlines()
    if "{" not in lines or "}" not in lines:
        return None, tuple(lines)
    begin, end = lines.index("{"), len(lines) - lines[::-1].index("}")
    try:
        report = json.loads("\n".join(lines[begin:end]))
    except ValueError:
        return None, tuple(lines)
    return report, (*lines[:begin], *lines[end:])


OUTPUT = Output(
    program="fio",
    progress="stdout",
    parse_progress=parse_progress,
    parse_summary=parse_summary,
    find_errors=find_errors,
)
