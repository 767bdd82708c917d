"""Latency over time as a heat map: one chart per arm with the same axes and the same scale of colour."""

import json
import math
from itertools import pairwise

from pgtrial.findings.findings import Findings, LatencyMap
from pgtrial.language import ntr, tr
from pgtrial.report.charts.axis_labels import duration_label
from pgtrial.report.charts.base import Chart, Spec, arm_colours, shorten
from pgtrial.report.charts.ticks import place_logs
from pgtrial.report.charts.time_axis import MARGIN, time_channel, time_title, wrap_timed
from pgtrial.report.words import is_sliced
from pgtrial.units import format_count, format_duration

HEIGHT = 190
PALEST = 0.12  # opacity of a single transaction: still to be seen, on paper too


def heat_maps(findings: Findings) -> list[Chart]:
    """The arms that have one, in the order of the experiment."""
    found = [each for each in findings.latency_maps if each.start]
    if not found:
        return []
    times = (min(each.start[0] for each in found), max(each.end[-1] for each in found))
    latencies = (min(each.latency[0] for each in found), max(each.latency[-1] for each in found))
    most = max(count for each in found for column in each.counts for count in column)
    return [_heat_map(findings, each, times, latencies, most) for each in found]


def _heat_map(
    findings: Findings, found: LatencyMap, times: tuple[float, float], latencies: tuple[float, float], most: int
) -> Chart:
    colour = arm_colours(findings).get(found.arm, "#777777")
    message = _message(found)
    return Chart(
        title=f"{found.arm}: {message}",
        text=tr(
            "Heat map of latency over time of arm {arm}, {runs} together: {message}. The distributions above have the "
            "same latencies without time.",
            arm=found.arm,
            runs=ntr("{count} run", "{count} runs", found.runs),
            message=message,
        ),
        legend=tuple(
            (f"{colour}{round(255 * _opacity(count, most)):02x}", _count_text(count)) for count in _marked_counts(most)
        ),
        times=times,
        spec=wrap_timed(
            {
                "data": {"values": _columns(found)},
                "transform": [
                    {"flatten": ["row", "count"]},
                    {
                        "lookup": "row",
                        "from": {
                            "data": {"values": _rows(found)},
                            "key": "row",
                            "fields": ["low", "high", "range"],
                        },
                    },
                    {"calculate": _count_of_range(), "as": "text"},
                ],
                "mark": {"type": "rect", "color": colour, "clip": True},
                "encoding": {
                    "x": time_channel("start", title=time_title(is_sliced=is_sliced(findings))),
                    "x2": {"field": "end"},
                    "y": {
                        "field": "low",
                        "type": "quantitative",
                        "scale": {"type": "log", "domain": list(latencies), "nice": False},
                        "axis": {
                            "title": tr("latency (log scale)"),
                            "labelExpr": duration_label(),
                            "values": place_logs(*latencies),
                            "labelOverlap": True,
                            **MARGIN,
                        },
                    },
                    "y2": {"field": "high"},
                    "opacity": {
                        "field": "count",
                        "type": "quantitative",
                        "scale": {"type": "log", "domain": [1, max(most, 2)], "range": [PALEST, 1]},
                        "legend": None,
                    },
                    "tooltip": {"field": "text", "title": tr("transactions")},
                },
            },
            times,
            height=HEIGHT,
        ),
    )


def _count_of_range() -> str:
    """Expression for "12.3k of 1 ms to 2 ms": how many transactions a field has, and of which latency."""
    counted = f"replace({json.dumps(tr('{count} of {range}'))}, '{{count}}', format(datum.count, '.3~s'))"
    return f"replace({counted}, '{{range}}', datum.range)"


def _columns(found: LatencyMap) -> list[Spec]:
    """Fields with a transaction, column by column."""
    return [
        {
            "start": start,
            "end": end,
            "row": [row for row, count in enumerate(counts) if count],
            "count": [count for count in counts if count],
        }
        for start, end, counts in zip(found.start, found.end, found.counts, strict=True)
        if any(counts)
    ]


def _rows(found: LatencyMap) -> list[Spec]:
    """What the fields of a row have in common."""
    return [
        {"row": row, "low": shorten(low), "high": shorten(high), "range": _range_text(found, row)}
        for row, (low, high) in enumerate(pairwise(found.latency))
    ]


def _opacity(count: int, most: int) -> float:
    return PALEST + (1 - PALEST) * math.log(count) / math.log(max(most, 2))


def _marked_counts(most: int) -> tuple[int, ...]:
    """One transaction, the most there are in a field, and between them half-way in colour."""
    return tuple(sorted({1, round(math.sqrt(most)), most}))


def _count_text(count: int) -> str:
    return ntr("{number} transaction", "{number} transactions", count, number=format_count(count))


def _main_row(found: LatencyMap) -> int:
    """The row with the most transactions; the lower one of two that have as many."""
    sums = [sum(column) for column in zip(*found.counts, strict=True)]
    return sums.index(max(sums))


def _range_text(found: LatencyMap, row: int) -> str:
    low, high = format_duration(found.latency[row]), format_duration(found.latency[row + 1])
    return tr("{low} to {high}", low=low, high=high)


def _message(found: LatencyMap) -> str:
    """How long most transactions took, and the slowest, and when the first of these was."""
    row = max(row for column in found.counts for row, count in enumerate(column) if count)
    start = next(start for start, column in zip(found.start, found.counts, strict=True) if column[row])
    return tr(
        "most transactions take {most}, the slowest {slowest}, first at {time}",
        most=_range_text(found, _main_row(found)),
        slowest=_range_text(found, row),
        time=format_duration(start),
    )
