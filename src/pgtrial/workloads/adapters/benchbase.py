"""Have BenchBase write each transaction into a file, which it does at its end.

It times a transaction from when a worker takes it up, and throws away what queues beyond 10,000: with a rate its
latencies leave out the wait, and its throughput what it has thrown away. So it has to work without a rate. Which
transactions failed is not in the file; it prints how many did. Source: BenchBase, ResultWriter.java (writeRaw, whose
column of microseconds has seconds), ThreadBench.java, WorkloadState.java and DBWorkload.java
(writeHistograms).
"""

import csv
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from pgtrial.store.command_line import LineError
from pgtrial.workloads.adapters.base import Adapter, Files, Left, Translate

_CONFIGURATION = ".xml"
_BEGUN = "Warmup complete, starting measurements"
_TIME = re.compile(r"Results\(.*\bnanoSeconds=(?P<ns>\d{1,18})")
_SECTION = re.compile(r"(?P<name>[A-Z][\w ()]+):$")
_ROW = re.compile(r"\S+ +\[ *(?P<count>\d{1,18})\]")
# Sections of its histograms; a transaction that was aborted has been rolled back as its benchmark wanted it.
_FAILED = ("Rejected Transactions", "Unexpected SQL Errors", "Unknown Status Transactions")
_START, _LATENCY = "Start Time (microseconds)", "Latency (microseconds)"
_ELEMENT = r"<{0}>\s*(?P<text>[^<]*?)\s*</{0}>"
_NO_RATES = ("unlimited", "disabled")


def arrange(command: Sequence[str]) -> tuple[str, ...]:
    """``command`` is what starts BenchBase, with its benchmark and its configuration."""
    return (*command, "--create=false", "--load=false", "--execute=true", "--directory=results")


def objection(name: str, text: str) -> str:
    """What is wrong with a configuration, "" if nothing is."""
    if not name.endswith(_CONFIGURATION):
        return ""
    rates = [match["text"] for match in re.finditer(_ELEMENT.format("rate"), text)]
    if any(rate not in _NO_RATES for rate in rates) or not rates:
        return "<rate> is not unlimited: with a rate BenchBase leaves the wait in its queue out of its latencies"
    for element, wanted in (("time", "{seconds}"), ("terminals", "{clients}")):
        texts = {match["text"] for match in re.finditer(_ELEMENT.format(element), text)}
        if texts != {wanted}:
            return f"<{element}> has to be {wanted}, which stands for what pgtrial asks for"
    return ""


def translator(_files: Files, now: Callable[[], float] = time.time) -> Translate:
    begun, seconds, section = 0.0, 0.0, ""

    def translate(line: str) -> str | None:
        nonlocal begun, seconds, section
        if _BEGUN in line:
            begun = now()
            return json.dumps({"ready": True})
        if match := _TIME.search(line):
            seconds = int(match["ns"]) / 1e9
        elif match := _SECTION.match(line):
            section = match["name"]
        elif section.startswith(_FAILED) and (match := _ROW.match(line)):
            return json.dumps({"t": begun + seconds, "seconds": seconds, "failed": int(match["count"])})
        return None

    return translate


def read(lines: Iterable[str]) -> Iterator[str]:
    """The transactions of the file. Raises LineError."""
    for row in csv.DictReader(lines):
        try:
            latency = float(row[_LATENCY]) / 1e6
            yield json.dumps({"t": float(row[_START]) + latency, "latency": latency})
        except (KeyError, TypeError, ValueError) as err:
            raise LineError("it is none that BenchBase writes") from err


ADAPTER = Adapter(
    name="benchbase",
    arrange=arrange,
    fill=lambda name: name.endswith(_CONFIGURATION),
    objection=objection,
    translator=translator,
    ends_itself=True,
    left=Left(suffix=".raw.csv", read=read),
)
