"""Charts of plain pgbench logs: changes with their intervals, throughput over time, latency distributions."""

from pgtrial.findings.comparison import LogComparison
from pgtrial.report.charts.axis_labels import COUNT_LABEL
from pgtrial.report.charts.base import (
    CANDIDATE_COLOURS,
    CONTROL_COLOUR,
    Chart,
    Spec,
    is_plottable,
    shorten,
    wrap_spec,
)
from pgtrial.report.charts.distribution import share_lines
from pgtrial.report.charts.forest import ROW_HEIGHT, change_label
from pgtrial.report.charts.ticks import place_changes
from pgtrial.report.charts.time_axis import time_channel, value_channel, wrap_timed
from pgtrial.report.words import change_text, interval_text, metric_label, plural

_COLOURS = (CONTROL_COLOUR, *CANDIDATE_COLOURS)
_COLOUR = {"field": "colour", "type": "nominal", "scale": None}


def side_colours(found: LogComparison) -> dict[str, str]:
    """One colour per side, the same in every chart."""
    return {side.key: _COLOURS[place % len(_COLOURS)] for place, side in enumerate(found.sides)}


def _legend(found: LogComparison) -> tuple[tuple[str, str], ...]:
    return tuple((colour, key) for key, colour in side_colours(found).items())


def change_chart(found: LogComparison) -> Chart | None:
    """Every metric of every side against the first one; None where they have none in common."""
    colours, first = side_colours(found), found.sides[0].key
    rows: list[Spec] = []
    for one in found.contrasts:
        if not is_plottable(one.ratio):
            continue
        has_interval = is_plottable(one.low) and is_plottable(one.high)
        label = f"{metric_label(one.metric)}, {one.side}: {change_text(one.ratio)}"
        rows.append(
            {
                "row": len(rows),
                "label": f"{label} ({interval_text(one.low, one.high)})" if has_interval else label,
                "colour": colours[one.side],
                "ratio": shorten(one.ratio),
                "low": shorten(one.low) if has_interval else None,
                "high": shorten(one.high) if has_interval else None,
            }
        )
    if not rows:
        return None
    ends = [value for row in rows for value in (row["ratio"], row["low"], row["high"]) if value]
    low, high = min(*ends, 0.99), max(*ends, 1.01)
    room = (high / low) ** 0.04
    low, high = low / room, high * room
    scale = {"type": "log", "domain": [low, high], "nice": False}
    axis = {
        "values": place_changes(low, high),
        "labelExpr": change_label(low, high),
        "title": None,
        "labelOverlap": True,
    }
    y = {"field": "row", "type": "ordinal", "axis": None}

    def along(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    return Chart(
        title=f"Change against “{first}”: for throughput right is better, for latency left",
        text=f"Change against {first}. " + "; ".join(row["label"] for row in rows) + ".",
        legend=_legend(found),
        spec=wrap_spec(
            {
                "data": {"values": rows},
                "layer": [
                    {
                        "data": {"values": [{"one": 1}]},
                        "mark": {"type": "rule", "opacity": 0.6, "strokeDash": [4, 3]},
                        "encoding": {"x": along("one")},
                    },
                    {
                        "transform": [{"filter": "isValid(datum.low)"}],
                        "mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round", "yOffset": 9},
                        "encoding": {"x": along("low"), "x2": {"field": "high"}, "y": y, "color": _COLOUR},
                    },
                    {
                        "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1, "yOffset": 9},
                        "encoding": {"x": along("ratio"), "y": y, "color": _COLOUR},
                    },
                    {
                        "mark": {
                            "type": "text",
                            "align": "left",
                            "baseline": "middle",
                            "dy": -9,
                            "limit": {"expr": "width"},
                        },
                        "encoding": {"x": {"value": 2}, "y": y, "text": {"field": "label"}},
                    },
                ],
            },
            height=ROW_HEIGHT * len(rows),
        ),
    )


def throughput_chart(found: LogComparison) -> Chart | None:
    """Throughput of every run over its own time, all on one axis; None without a series."""
    colours = side_colours(found)
    rows = [
        {
            "line": f"{side.key}: {one.run}",
            "colour": colours[side.key],
            "t": list(one.t),
            "tps": [shorten(value) for value in one.tps],
        }
        for side in found.sides
        for one in side.series
        if one.t
    ]
    if not rows:
        return None
    ends = [t for side in found.sides for one in side.series for t in one.t]
    largest = max(value for side in found.sides for one in side.series for value in one.tps)
    runs = plural(len(rows), "run")
    times = (0.0, max(*ends, 1.0))
    return Chart(
        title="Transactions per second since the start of each log: a line that climbs, falls or dips has no one level",
        text=f"Throughput in transactions per second over time, {runs}; the table of runs has the means.",
        legend=_legend(found),
        times=times,
        spec=wrap_timed(
            {
                "data": {"values": rows},
                "transform": [{"flatten": ["t", "tps"]}],
                "mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.85, "clip": True},
                "encoding": {
                    "x": time_channel("t"),
                    "y": value_channel("tps", COUNT_LABEL, largest),
                    "color": _COLOUR,
                    "detail": {"field": "line"},
                    "tooltip": {"field": "line", "title": "run"},
                },
            },
            times,
            height=220,
        ),
    )


def latency_chart(found: LogComparison) -> Chart | None:
    """Share of transactions at or below a latency; None of aggregated logs."""
    colours = side_colours(found)
    rows = [
        {
            "side": side.key,
            "colour": colours[side.key],
            "dash": [1, 0],
            "latency": [shorten(latency) for latency in side.distribution.latency],
            "share": [round(share, 5) for share in side.distribution.share],
        }
        for side in found.sides
        if side.distribution is not None
    ]
    if not rows:
        return None
    return Chart(
        title="Latency, all transactions of a side: further left is faster",
        text="Cumulative distribution of latency by side; the percentiles stand in the table.",
        legend=tuple((colours[side.key], side.key) for side in found.sides if side.distribution is not None),
        spec=share_lines(rows, by="side", label="log"),
    )
