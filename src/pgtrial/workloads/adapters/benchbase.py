"""Have BenchBase write each transaction into a file, which it does at its end.

It times a transaction from when a worker takes it up, and throws away what queues beyond 10,000: with a rate its
latencies leave out the wait, and its throughput what it has thrown away. So it has to work without a rate. Which
transactions failed is not in the file, for it has those as well; it prints how many did. One that the server has
rejected it tries again, and writes with the time of all its tries; only what it then gives up has failed, of which
there are no more than rejections by tries. Source: BenchBase, ResultWriter.java (writeRaw, whose column of microseconds
has seconds), ThreadBench.java, WorkloadState.java, Worker.java (doWork) and DBWorkload.java (writeHistograms).
"""

import csv
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from pgtrial.experiment_file.command_checks import CONFIGURATION_OF_BENCHBASE
from pgtrial.store.command_line import LineError
from pgtrial.workloads.adapters.base import Adapter, Files, Left, Translate

_BEGUN = "Warmup complete, starting measurements"
_TIME = re.compile(r"Results\(.*\bnanoSeconds=(?P<ns>\d{1,18})")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")  # also where nobody sees it
_SECTION = re.compile(r"(?P<name>[A-Z][\w ()]+):$")
_ROW = re.compile(r"\S+ +\[ *(?P<count>\d{1,18})\]")
# Sections of its histograms; a transaction that was aborted has been rolled back as its benchmark wanted it.
_RETRIED = "Rejected Transactions (Server Retry)"
_FAILED = (_RETRIED, "Rejected Transactions (Retry Different)", "Unexpected SQL Errors", "Unknown Status Transactions")
_TRIES = 3  # of a transaction, unless its configuration says how many
_START, _LATENCY = "Start Time (microseconds)", "Latency (microseconds)"
_ELEMENT = r"<{0}>\s*(?P<text>[^<]*?)\s*</{0}>"
_NO_RATES = ("unlimited", "disabled")


def arrange(command: Sequence[str]) -> tuple[str, ...]:
    """``command`` is what starts BenchBase, with its benchmark and its configuration."""
    return (*command, "--create=false", "--load=false", "--execute=true", "--directory=results")


def objection(name: str, text: str, _words: Collection[str]) -> str:
    """What is wrong with a configuration, "" if nothing is."""
    if not name.endswith(CONFIGURATION_OF_BENCHBASE):
        return ""
    rates = [match["text"] for match in re.finditer(_ELEMENT.format("rate"), text)]
    if any(rate not in _NO_RATES for rate in rates) or not rates:
        return "<rate> is not unlimited: with a rate BenchBase leaves the wait in its queue out of its latencies"
    for element, wanted in (("time", "{seconds}"), ("terminals", "{clients}")):
        texts = {match["text"] for match in re.finditer(_ELEMENT.format(element), text)}
        if texts != {wanted}:
            return f"<{element}> has to be {wanted}, which stands for what pgtrial asks for"
    return ""


def translator(files: Files, now: Callable[[], float] = time.time) -> Translate:
    begun, seconds, section = 0.0, 0.0, ""
    said = [match["text"] for text in files.values() for match in re.finditer(_ELEMENT.format("retries"), text)]
    tries = max([int(text) for text in said if text.isascii() and text.isdigit()], default=_TRIES)

    def translate(line: str) -> str | None:
        nonlocal begun, seconds, section
        line = _COLOUR.sub("", line)
        if _BEGUN in line:
            begun = now()
            return json.dumps({"ready": True})
        if match := _TIME.search(line):
            seconds = int(match["ns"]) / 1e9
        elif match := _SECTION.match(line):
            section = match["name"]
        elif section in _FAILED and (match := _ROW.match(line)):
            failed = int(match["count"]) // (max(1, tries) if section == _RETRIED else 1)
            return json.dumps({"t": begun + seconds, "seconds": seconds, "failed": failed}) if failed else None
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
    fill=lambda name: name.endswith(CONFIGURATION_OF_BENCHBASE),
    objection=objection,
    translator=translator,
    ends_itself=True,
    left=Left(suffix=".raw.csv", read=read),
)
