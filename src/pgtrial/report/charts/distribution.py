"""Latency: its distributions, and heat maps of it over time."""

import json
import math
from itertools import pairwise

from pgtrial.findings.findings import Findings, LatencyMap
from pgtrial.findings.record import ALL
from pgtrial.language import ntr, tr
from pgtrial.report.charts.base import (
    OWN_COLOUR,
    SHARE_LABEL,
    Chart,
    Spec,
    arm_colours,
    arm_dashes,
    arm_legend,
    duration_label,
    is_plottable,
    place_logs,
    shorten,
    wrap_spec,
)
from pgtrial.report.charts.time_axis import MARGIN, time_channel, time_title, wrap_timed
from pgtrial.report.words import is_sliced, level_label
from pgtrial.units import format_count, format_duration

HALF = 0.5
MARKED_SHARES = (HALF, 0.95, 0.99)


def distribution_charts(findings: Findings) -> list[Chart]:
    """All scenarios together at each load level, then each scenario over all levels."""
    keys = sorted(
        {(item.scenario, item.load_level) for item in findings.distributions},
        key=lambda key: (key[0] is not None, key[0] or "", key[1] != ALL, str(key[1]).zfill(9)),
    )
    one_level = len(findings.experiment.levels) < 2
    several = len(findings.experiment.scenarios) > 1
    wanted: list[tuple[str | None, int | str]] = []
    for scenario, level in keys:
        if scenario is None and (level == ALL or not one_level or (None, ALL) not in keys):
            wanted.append((scenario, level))
        if scenario is not None and several and (level == ALL or (scenario, ALL) not in keys):
            wanted.append((scenario, level))
    charts = (_distribution(findings, scenario, level) for scenario, level in wanted)
    return [chart for chart in charts if chart is not None]


def _distribution(findings: Findings, scenario: str | None, level: int | str) -> Chart | None:
    colours, dashes = arm_colours(findings), arm_dashes(findings)
    rows: list[Spec] = []
    for item in findings.distributions:
        if (item.scenario, item.load_level) != (scenario, level):
            continue
        points = [
            (shorten(latency), round(share, 5))
            for latency, share in zip(item.latency, item.share, strict=True)
            if is_plottable(latency)
        ]
        if points:
            rows.append(
                {
                    "arm": item.arm,
                    "colour": colours.get(item.arm, "currentColor"),
                    "dash": dashes.get(item.arm, [1, 0]),
                    "latency": [latency for latency, _ in points],
                    "share": [share for _, share in points],
                }
            )
    if not rows:
        return None
    title, text = _say(scenario, level_label(findings, level), _median_text(rows))
    return Chart(
        title=title,
        text=text,
        legend=arm_legend(findings, (row["arm"] for row in rows)),
        spec=_share_lines(rows),
    )


def _share_lines(rows: list[Spec]) -> Spec:
    """Cumulative distributions: a line per arm, from its ``latency`` (s, sorted) and ``share`` of transactions."""
    ends = [latency for row in rows for latency in row["latency"]]
    extent = (min(ends), max(ends))
    return wrap_spec(
        {
            "data": {"values": rows},
            "layer": [
                {
                    "data": {"values": [{"share": share} for share in MARKED_SHARES]},
                    "mark": {"type": "rule", "strokeDash": [2, 3], "opacity": 0.4},
                    "encoding": {"y": {"field": "share", "type": "quantitative"}},
                },
                {
                    "transform": [{"flatten": ["latency", "share"]}],
                    "mark": {"type": "line", "strokeWidth": 2},
                    "encoding": {
                        "x": {
                            "field": "latency",
                            "type": "quantitative",
                            "scale": {"type": "log", "nice": False, "domain": list(extent)},
                            "axis": {
                                "title": tr("latency (log scale)"),
                                "labelExpr": duration_label(),
                                "values": place_logs(*extent),
                                "labelOverlap": True,
                            },
                        },
                        "y": {
                            "field": "share",
                            "type": "quantitative",
                            "scale": {"domain": [0, 1]},
                            "axis": {
                                "title": tr("share of transactions"),
                                "values": [0, 0.25, 0.5, 0.75, 0.95, 1],
                                "labelExpr": SHARE_LABEL,
                            },
                        },
                        "color": OWN_COLOUR,
                        "strokeDash": {"field": "dash", "scale": None},
                        "detail": {"field": "arm"},
                        "tooltip": {"field": "arm", "title": tr("arm")},
                    },
                },
            ],
        },
        height=240,
    )


def _say(scenario: str | None, where: str, medians: str) -> tuple[str, str]:
    """Title and text alternative."""
    if scenario is None:
        return (
            tr(
                "Latency, all scenarios, {where}: half of the transactions take at most {times}",
                where=where,
                times=medians,
            ),
            tr(
                "Cumulative distribution of latency by arm, all scenarios, {where}; the same percentiles stand in the "
                "table of effects.",
                where=where,
            ),
        )
    return (
        tr(
            "Latency, scenario {scenario}, {where}: half of the transactions take at most {times}",
            scenario=scenario,
            where=where,
            times=medians,
        ),
        tr(
            "Cumulative distribution of latency by arm, scenario {scenario}, {where}; the same percentiles stand in "
            "the table of effects.",
            scenario=scenario,
            where=where,
        ),
    )


def _median_text(rows: list[Spec]) -> str:
    """The first point of each line at which half of the transactions, or more, are below it."""
    found = []
    for row in rows:
        reached = (latency for latency, share in zip(row["latency"], row["share"], strict=True) if share >= HALF)
        median = next(reached, None)
        if median is not None:
            found.append(f"{format_duration(median)} ({row['arm']})")
    return ", ".join(found)


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
