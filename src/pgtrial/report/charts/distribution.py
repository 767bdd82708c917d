"""Latency distributions: the share of transactions at or below a latency, by arm."""

from pgtrial.findings.findings import Findings
from pgtrial.language import tr
from pgtrial.report.charts.axis_labels import SHARE_LABEL, duration_label
from pgtrial.report.charts.base import (
    Chart,
    Spec,
    arm_colours,
    arm_dashes,
    arm_legend,
    is_plottable,
    shorten,
    wrap_spec,
)
from pgtrial.report.charts.ticks import place_logs
from pgtrial.report.words import level_label
from pgtrial.units import format_duration

HALF = 0.5
MARKED_SHARES = (HALF, 0.95, 0.99)


def distribution_charts(findings: Findings) -> list[Chart]:
    """All scenarios together at each load level, then each scenario over all levels."""
    keys = sorted(
        {(item.scenario, item.load_level) for item in findings.distributions},
        key=lambda key: (key[0] is not None, key[0] or "", key[1] != "all", str(key[1]).zfill(9)),
    )
    one_level = len(findings.experiment.levels) < 2
    several = len(findings.experiment.scenarios) > 1
    wanted: list[tuple[str | None, int | str]] = []
    for scenario, level in keys:
        if scenario is None and (level == "all" or not one_level or (None, "all") not in keys):
            wanted.append((scenario, level))
        if scenario is not None and several and (level == "all" or (scenario, "all") not in keys):
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
                        "color": {"field": "colour", "type": "nominal", "scale": None},
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
