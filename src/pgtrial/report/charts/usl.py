"""The Universal Scalability Law on the load curve: the fitted line of each arm, its peak and its knee."""

import math

from pgtrial.findings.causes import CurveModel
from pgtrial.findings.findings import Findings
from pgtrial.findings.rendering import join_and
from pgtrial.language import ntr, tr
from pgtrial.report.cause_words import causes_of, estimate_text, format_value, place_arm
from pgtrial.report.charts.base import Spec, arm_colours, shorten

POINTS = 60
FURTHEST = 1.5  # times the largest load: as far as a fitted line is drawn beyond what was measured, to reach its peak


def fitted_models(findings: Findings) -> list[CurveModel]:
    """The models that have numbers, in the order of the arms."""
    fitted = [model for model in causes_of(findings).curve_models if model.throughput_of_one is not None]
    return sorted(fitted, key=lambda model: place_arm(findings, model.arm))


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
