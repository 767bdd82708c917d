"""The load curve: throughput and latency by load level, with the Universal Scalability Law."""

import math
from collections.abc import Sequence

from pgtrial.findings.causes import CurveModel
from pgtrial.findings.findings import CurvePoint, Findings, LevelFinding
from pgtrial.findings.rendering import join_and
from pgtrial.language import ntr, tr
from pgtrial.report.cause_words import by_arm, causes_of, estimate_text
from pgtrial.report.charts.base import (
    COUNT_LABEL,
    OWN_COLOUR,
    Chart,
    Spec,
    arm_colours,
    arm_dashes,
    arm_legend,
    duration_label,
    shorten,
    wrap_spec,
)
from pgtrial.report.values import format_value
from pgtrial.report.words import METRIC_LABELS, REQUESTS, format_metric, level_label, metric_label

POINTS = 60
FURTHEST = 1.5  # times the largest load: as far as a fitted line is drawn beyond what was measured, to reach its peak


def fitted_models(findings: Findings) -> list[CurveModel]:
    """The models that have numbers, in the order of the arms."""
    models = by_arm(findings, causes_of(findings).curve_models)
    return [model for model in models if model.throughput_of_one is not None]


def throughput_at(model: CurveModel, clients: float) -> float | None:
    """X(N) = λN / (1 + σ(N - 1) + κN(N - 1)) (Gunther 2007), 1/s; None where the model has no numbers."""
    if model.throughput_of_one is None or model.contention is None or model.coherency is None:
        return None
    lost = model.contention.value * (clients - 1) + model.coherency.value * clients * (clients - 1)
    return model.throughput_of_one.value * clients / (1 + lost)


def peaks_text(findings: Findings) -> str:
    """Where the fitted curves are highest, in words; "" where none has a peak near what was measured."""
    reach = FURTHEST * _largest_load(findings)
    words = [
        ntr(
            "“{arm}” peaks at about {number} client",
            "“{arm}” peaks at about {number} clients",
            round(model.peak.value),
            arm=model.arm,
            number=format_value(round(model.peak.value), ""),
        )
        for model in fitted_models(findings)
        if model.peak is not None and model.peak.value <= reach
    ]
    return join_and(words)


def _largest_load(findings: Findings) -> float:
    return max((level.clients for level in findings.experiment.levels), default=0)


def usl_layers(findings: Findings, y: Spec) -> list[Spec]:
    """Layers for the chart of throughput: lines, diamonds at the peaks, triangles at the knees."""
    loads = [level.clients for level in findings.experiment.levels]
    models = fitted_models(findings)
    if not models or not loads:
        return []
    colours = arm_colours(findings)
    lines, points = [], []
    for model in models:
        peak = model.peak.value if model.peak is not None else 0.0
        last = max(loads) if peak > FURTHEST * max(loads) else max(*loads, peak)
        steps = [min(loads) * (last / min(loads)) ** (k / (POINTS - 1)) for k in range(POINTS)]
        colour = colours.get(model.arm, "currentColor")
        lines.append(
            {
                "arm": model.arm,
                "colour": colour,
                "load": [shorten(n) for n in steps],
                "value": [shorten(throughput_at(model, n)) for n in steps],
            }
        )
        points += [
            {
                "arm": model.arm,
                "colour": colour,
                "load": shorten(clients),
                "value": shorten(throughput_at(model, clients)),
                "shape": shape,
                "text": text,
            }
            for clients, shape, text in (
                (peak, "diamond", tr("peak at {clients}", clients=estimate_text(model.peak, "clients"))),
                (model.knee, "triangle-up", tr("knee at {clients}", clients=format_value(model.knee, "clients"))),
            )
            if clients is not None and math.isfinite(clients) and min(loads) <= clients <= last
        ]
    # Load, colour and arm have the same names as in the chart's own layers, whose channels hold here too.
    return [
        {
            "data": {"values": lines},
            "transform": [{"flatten": ["load", "value"]}],
            "mark": {"type": "line", "strokeWidth": 1.2, "strokeDash": [2, 3]},
            "encoding": {"y": y},
        },
        {
            "data": {"values": points},
            "mark": {"type": "point", "size": 90, "strokeWidth": 1.5, "opacity": 1},
            "encoding": {
                "y": y,
                "shape": {"field": "shape", "type": "nominal", "scale": None},
                "tooltip": [{"field": "arm", "title": tr("arm")}, {"field": "text", "title": tr("fitted")}],
            },
        },
    ]


def curve_charts(findings: Findings) -> list[Chart]:
    """One chart per metric of the curve; none for a single load level."""
    if len(findings.experiment.levels) < 2:
        return []
    present = {point.metric for point in findings.curve if shorten(point.value) is not None}
    return [_curve(findings, metric) for metric in METRIC_LABELS if metric in present]


def load_of(level: LevelFinding) -> float:
    """What the load axis shows: the arrival rate of an open loop, the clients of a closed one."""
    return level.clients if level.rate is None else level.rate


def _curve(findings: Findings, metric: str) -> Chart:
    levels = {level.index: level for level in findings.experiment.levels}
    rows = [
        row
        for point in findings.curve
        if point.metric == metric and point.load_level in levels and shorten(point.value) is not None
        for row in [_row(findings, point, levels[point.load_level])]
    ]
    is_rate = metric in REQUESTS
    open_loop = any(level.rate is not None for level in levels.values())
    x = {
        "field": "load",
        "type": "quantitative",
        "scale": {"zero": False, "padding": 16, "nice": False},
        "axis": {
            "title": load_title(is_open=open_loop),
            "values": sorted({row["load"] for row in rows}),
            "format": "~s",
            "labelOverlap": True,
        },
    }
    y = {
        "field": "value",
        "type": "quantitative",
        "scale": {"zero": True},
        "axis": {
            "title": tr(REQUESTS[metric]) if is_rate else metric_label(metric),
            "labelExpr": COUNT_LABEL if is_rate else duration_label(),
            "tickCount": 5,
        },
    }
    # The law is about clients; of arrivals at a rate it says nothing.
    fitted = usl_layers(findings, y) if is_rate and not open_loop else []
    message = (peaks_text(findings) if fitted else "") or _highest_text(rows, is_rate=is_rate)
    tooltip = [
        {"field": "arm", "title": tr("arm")},
        {"field": "level", "title": tr("load")},
        {"field": "text", "title": metric_label(metric)},
    ]
    return Chart(
        title=_title(metric_label(metric), message, is_open=open_loop),
        text=tr("Load curve of {metric}: {points}.", metric=metric_label(metric), points=points_text(rows)),
        legend=arm_legend(findings, (row["arm"] for row in rows)),
        spec=wrap_spec(
            {
                "data": {"values": rows},
                "encoding": {"x": x, "color": OWN_COLOUR, "detail": {"field": "arm"}},
                "layer": [
                    {
                        "mark": {"type": "line", "strokeWidth": 2},
                        "encoding": {"y": y, "strokeDash": {"field": "dash", "scale": None}},
                    },
                    {
                        "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
                        "mark": {"type": "rule", "strokeWidth": 2},
                        "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
                    },
                    {
                        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                        "encoding": {"y": y, "tooltip": tooltip},
                    },
                    *fitted,
                ],
            },
            height=240,
        ),
    )


def load_title(*, is_open: bool) -> str:
    """Of the axis of the load."""
    return tr("arrival rate, transactions per second") if is_open else tr("clients")


def points_text(rows: Sequence[Spec]) -> str:
    """Arm, load level and value of each point, for the text alternative."""
    return "; ".join(
        tr("{arm} with {level} {value}", arm=row["arm"], level=row["level"], value=row["text"]) for row in rows
    )


def _title(label: str, message: str, *, is_open: bool) -> str:
    metric = f"{label[:1].upper()}{label[1:]}"
    if is_open:
        return tr("{metric} by arrival rate: {message}", metric=metric, message=message)
    return tr("{metric} by number of clients: {message}", metric=metric, message=message)


def _highest_text(rows: list[Spec], *, is_rate: bool) -> str:
    highest = max(rows, key=lambda row: row["value"], default=None)
    if highest is None:
        return tr("nothing known")
    values = {"arm": highest["arm"], "level": highest["level"], "value": highest["text"]}
    if is_rate:
        return tr("highest with “{arm}” at {level}, {value}", **values)
    return tr("longest with “{arm}” at {level}, {value}", **values)


def _row(findings: Findings, point: CurvePoint, level: LevelFinding) -> Spec:
    text = format_metric(point.metric, point.value)
    if point.low is not None and point.high is not None:
        low, high = format_metric(point.metric, point.low), format_metric(point.metric, point.high)
        text = tr("{value} ({low} to {high})", value=text, low=low, high=high)
    return {
        "arm": point.arm,
        "colour": arm_colours(findings).get(point.arm, "currentColor"),
        "dash": arm_dashes(findings).get(point.arm, [1, 0]),
        "load": load_of(level),
        "level": level_label(findings, level.index),
        "value": shorten(point.value),
        "low": shorten(point.low),
        "high": shorten(point.high),
        "text": text,
    }
