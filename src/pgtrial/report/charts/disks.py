"""The rate of each arm's disk by load level, beside the limits that are declared."""

from collections.abc import Iterator, Sequence

from pgtrial.analysis.cause_findings import Estimate
from pgtrial.analysis.disk_findings import DiskStanding, DiskUse
from pgtrial.analysis.findings import Findings
from pgtrial.report.cause_words import causes_of, format_value
from pgtrial.report.charts.base import COUNT_LABEL, Chart, Spec, arm_colours, shorten, wrap_spec
from pgtrial.report.charts.curve import load_of
from pgtrial.report.charts.panel import BYTES_LABEL
from pgtrial.report.charts.ticks import place_bytes
from pgtrial.report.words import arm_label, level_label

# What is drawn: title, unit, the rate of a load level, and the key of its declared limit.
_RATES = (
    ("reads", "1/s", "reads", "read_iops"),
    ("writes", "1/s", "writes", "write_iops"),
    ("bytes read", "B/s", "read_bytes", "read_bytes"),
    ("bytes written", "B/s", "write_bytes", "write_bytes"),
)
_WORTH = 0.2  # of the requests, or of its limit, from which on a rate is drawn


def disk_charts(findings: Findings) -> list[Chart]:
    """One chart per rate that some arm has a limit for and comes near, or that makes up a good part of its requests."""
    uses = [use for use in causes_of(findings).disks if use.levels]
    charts = []
    for title, unit, name, key in _RATES:
        chosen = [use for use in uses if _is_near(use, name, key) or (unit == "1/s" and _is_large(use, name))]
        if chosen:
            charts.append(_chart(findings, chosen, title=title, unit=unit, name=name, key=key))
    return charts


def _is_near(use: DiskUse, name: str, key: str) -> bool:
    highest = max(_value(getattr(load, name)) for load in use.levels)
    return key in use.declared and highest >= _WORTH * use.declared[key]


def _is_large(use: DiskUse, name: str) -> bool:
    other = "writes" if name == "reads" else "reads"
    mine, theirs = (sum(_value(getattr(load, each)) for load in use.levels) for each in (name, other))
    return mine > 0 and mine >= _WORTH * (mine + theirs)


def _value(estimate: Estimate | None) -> float:
    return estimate.value if estimate is not None else 0.0


def _chart(findings: Findings, uses: Sequence[DiskUse], *, title: str, unit: str, name: str, key: str) -> Chart:
    colours = arm_colours(findings)
    rows = [row for use in uses for row in _rows(findings, use, name=name, unit=unit)]
    limits: list[Spec] = [
        {
            "limit": shorten(use.declared[key]),
            "colour": colours.get(use.arm, "currentColor"),
            "text": f"declared for {arm_label(findings, use.arm)}: {format_value(use.declared[key], unit)}",
        }
        for use in uses
        if key in use.declared
    ]
    held = list(dict.fromkeys(row["arm"] for row in rows if row["shape"] == "square"))
    told = f"{', '.join(f'“{arm}”' for arm in held)} at a limit" if held else "none at a limit"
    return Chart(
        title=f"{title[:1].upper()}{title[1:]} per second of the disk by load level: {told}",
        text=f"{title} per second of the disk: "
        + "; ".join(
            [f"{row['arm']} with {row['level']} {row['text']}" for row in rows] + [limit["text"] for limit in limits]
        )
        + ".",
        legend=tuple((colours.get(use.arm, "currentColor"), arm_label(findings, use.arm)) for use in uses),
        spec=_spec(rows, limits, title=title, unit=unit, load=_load_title(findings)),
    )


def _load_title(findings: Findings) -> str:
    open_loop = any(level.rate is not None for level in findings.experiment.levels)
    return "arrival rate, transactions per second" if open_loop else "clients"


def _rows(findings: Findings, use: DiskUse, *, name: str, unit: str) -> Iterator[Spec]:
    """A point per load level of which the rate is known."""
    levels = {level.index: level for level in findings.experiment.levels}
    for load in use.levels:
        rate: Estimate | None = getattr(load, name)
        if rate is None or shorten(rate.value) is None or load.load_level not in levels:
            continue
        yield {
            "arm": arm_label(findings, use.arm),
            "colour": arm_colours(findings).get(use.arm, "currentColor"),
            "load": load_of(levels[load.load_level]),
            "level": level_label(findings, load.load_level),
            "value": shorten(rate.value),
            "low": shorten(rate.low),
            "high": shorten(rate.high),
            "shape": "square" if load.standing is DiskStanding.AT_LIMIT else "circle",
            "text": f"{format_value(rate.value, unit)}, {load.standing}",
        }


def _spec(rows: Sequence[Spec], limits: Sequence[Spec], *, title: str, unit: str, load: str) -> Spec:
    # The plot reaches a little above the highest line, so that a limit is not taken for its frame.
    top = 1.1 * (max([*(row["value"] for row in rows), *(each["limit"] for each in limits)], default=0.0) or 1.0)
    axis: Spec = {"labelExpr": COUNT_LABEL, "tickCount": 5}
    if unit == "B/s":
        axis = {"labelExpr": BYTES_LABEL, "values": place_bytes(top)}
    y = {
        "type": "quantitative",
        "scale": {"domain": [0, top], "nice": False},
        "axis": {"title": f"{title} per second", **axis},
    }
    places = sorted({row["load"] for row in rows})
    x = {
        "field": "load",
        "type": "quantitative",
        "scale": {"zero": False, "padding": 16, "nice": False},
        "axis": {"title": load, "values": places, "format": "~s", "labelOverlap": True},
    }
    colour = {"field": "colour", "type": "nominal", "scale": None}
    point = {"x": x, "y": {**y, "field": "value"}, "color": colour}
    return wrap_spec(
        {
            "layer": [
                {
                    "data": {"values": list(limits)},
                    "mark": {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 1.5},
                    "encoding": {
                        "y": {**y, "field": "limit"},
                        "color": colour,
                        "tooltip": [{"field": "text", "title": "limit"}],
                    },
                },
                {
                    "data": {"values": list(rows)},
                    "mark": {"type": "line", "strokeWidth": 2},
                    "encoding": {**point, "detail": {"field": "arm"}},
                },
                {
                    "data": {"values": list(rows)},
                    "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour},
                },
                {
                    "data": {"values": list(rows)},
                    "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                    "encoding": {
                        **point,
                        "shape": {"field": "shape", "type": "nominal", "scale": None},
                        "tooltip": [
                            {"field": "arm"},
                            {"field": "level", "title": "load"},
                            {"field": "text", "title": title},
                        ],
                    },
                },
            ],
        },
        height=240,
    )
