"""What limits a comparison of loads that were not made in blocks."""

from collections.abc import Iterator, Sequence

import numpy as np

from pgtrial.analysis.compare.log_run import FEWEST_SECONDS
from pgtrial.analysis.compare.log_side import Side
from pgtrial.analysis.compare.pooling import make_caveat
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.comparison import LogContrast
from pgtrial.model.caveat import Severity
from pgtrial.units import format_duration, format_percent

SAMPLED = 0.98  # share of the transactions in the log, below which it is a sample; lines may miss at the ends


def find_caveats(sides: Sequence[Side], contrasts: Sequence[LogContrast]) -> Iterator[CaveatFinding]:
    yield _unblocked(sides)
    if any(contrast.basis == "within" for contrast in contrasts):
        yield make_caveat(
            "within-logs",
            Severity.WARNING,
            "The intervals say how well each run knows its own level. Two runs of one and the same server differ by "
            "more than that, on shared machines by a multiple, and one run on each side cannot tell by how much.",
            "Run each side several times, in turns, and give all logs of a side in one folder.",
        )
    yield from _of_runs(sides)


def _unblocked(sides: Sequence[Side]) -> CaveatFinding:
    is_single = all(len(side.runs) == 1 for side in sides)
    runs = "Each side is a single run, and they were" if is_single else "The runs were"
    order = " ".join(_order(sides[0], side) for side in sides[1:])
    return make_caveat(
        "unblocked",
        Severity.WARNING,
        f"{runs} not made in blocks of random order. {order} Whatever changed on the machine from one to the "
        "other (its load, its caches, the data) is in the difference and cannot be told from it. So there is no "
        "verdict.",
        'For a verdict, make an experiment of it: "pgtrial run" makes both in blocks, in random order.',
    )


def _order(first: Side, second: Side) -> str:
    """How two sides lie in time."""
    begin, end = first.runs[0].run.started, first.runs[-1].run.ended
    start, stop = second.runs[0].run.started, second.runs[-1].run.ended
    if start >= end:
        return f"{second.key} came {format_duration(start - end)} after {first.key} had ended."
    if begin >= stop:
        return f"{first.key} came {format_duration(begin - stop)} after {second.key} had ended."
    together = any(
        one.run.started < other.run.ended and other.run.started < one.run.ended
        for one in first.runs
        for other in second.runs
    )
    if together:
        return f"{first.key} and {second.key} ran at the same time, and slowed each other down if on one machine."
    return f"{first.key} and {second.key} took turns in an order that nobody drew by lot."


def _of_runs(sides: Sequence[Side]) -> Iterator[CaveatFinding]:
    runs = [(side, measured) for side in sides for measured in side.runs]
    for side, measured in runs:
        run, name = measured.run, f"{side.key}: {measured.run.name}"
        if measured.trend is not None:
            direction = "rises" if measured.trend > 0 else "falls"
            yield make_caveat(
                "trend",
                Severity.WARNING,
                f"Throughput {direction} by {format_percent(abs(measured.trend))} over the log ({name}), so it has no "
                "one level, and no interval.",
                "Leave out the warm-up with --skip, or let it run longer.",
            )
        elif not measured.has_interval and len(side.runs) == 1:
            yield make_caveat(
                "no-interval-of-log",
                Severity.INFO,
                f"The log is too short for its own noise, {format_duration(run.seconds)} ({name}): no interval.",
                f"An interval needs {FEWEST_SECONDS} s at least, and more where throughput changes slowly.",
            )
        if run.logged_share < SAMPLED:
            yield make_caveat(
                "sampled-log",
                Severity.WARNING,
                f"About {format_percent(run.logged_share)} of the transactions are in the log ({name}), as with "
                "--sampling-rate; throughput is scaled up by that.",
            )
        if run.failed or run.skipped:
            yield make_caveat(
                "lost-transactions",
                Severity.WARNING,
                f"{run.failed:.0f} transactions failed and {run.skipped:.0f} were skipped ({name}); throughput and "
                "latencies are of the others.",
            )
        stalls = int(np.count_nonzero(run.counts == 0))
        if stalls:
            yield make_caveat(
                "stalls",
                Severity.INFO,
                f"No transaction ended for {format_duration(stalls * run.width)} in all ({name}).",
            )
    if any(measured.run.has_rate for _, measured in runs):
        yield make_caveat(
            "rate",
            Severity.WARNING,
            "pgbench was given a rate (--rate): throughput is what was asked for and says nothing of the server, "
            "unless it could not keep up. Latencies count from when a transaction was due.",
            "Compare latencies, or leave the rate out.",
        )
