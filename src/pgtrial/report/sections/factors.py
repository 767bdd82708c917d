"""Factors: main effects, interactions, curves with their best level."""

from collections.abc import Sequence

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.questions import Curve, Factors, LevelPoint
from pgtrial.findings.record import parts_of
from pgtrial.language import N_, tr
from pgtrial.report.charts.base import CANDIDATE_COLOURS, CONTROL_COLOUR, Chart, Spec, shorten, wrap_spec
from pgtrial.report.sections.base import Section
from pgtrial.report.words import change_cells, format_metric, metric_label
from pgtrial.units import format_share


def _build(findings: Findings) -> dict[str, object]:
    factors = findings.factors or Factors(metric="", levels={}, points=(), mains=(), interactions=(), curves=())
    interaction = interaction_chart(factors)
    charts = [*([] if interaction is None else [interaction]), *(curve_chart(factors, c) for c in factors.curves)]
    return {
        "metric": metric_label(factors.metric),
        "confidence": format_share(findings.hypothesis.confidence),
        "charts": charts,
        "sentences": [
            *([] if factors.reason is None else [say(factors.reason)]),
            *(say(each.text) for each in factors.curves),
            *(say(each.text) for each in factors.interactions if each.ratio.side(1.0) != 0),
        ],
        "mains": [
            (each.factor, f"{each.base} → {each.level}", *change_cells(*parts_of(each.ratio))) for each in factors.mains
        ],
        "interactions": [
            (
                f"{each.factor} = {each.level}",
                f"{each.other} = {each.other_level}",
                *change_cells(*parts_of(each.ratio)),
            )
            for each in factors.interactions
        ],
        "slopes": [
            (each.factor, *change_cells(*parts_of(each.per_doubling))) for each in factors.curves if each.per_doubling
        ],
    }


FACTORS = Section(
    name="factors",
    title=N_("Factors"),
    build=_build,
    is_shown=lambda findings: findings.factors is not None,
    is_open=lambda findings: findings.factors is not None,
)


# Charts: the metric by the levels of one factor, a line for each level of another one.


_HEIGHT = 220
_COLOURS = (CONTROL_COLOUR, *CANDIDATE_COLOURS)


def interaction_chart(factors: Factors) -> Chart | None:
    """Lines that run side by side are factors that do not touch each other; None without a second factor."""
    names = list(factors.levels)
    if len(names) < 2:
        return None
    one, other = names[:2]
    rest = [factors.levels[name][0] for name in names[2:]]
    points = [point for point in factors.points if list(point.levels[2:]) == rest]
    colours = {level: _COLOURS[place % len(_COLOURS)] for place, level in enumerate(factors.levels[other])}
    data = [{**_point(point), "x": point.levels[0], "line": point.levels[1]} for point in points]
    lines = "; ".join(
        f"{other} = {level}: " + ", ".join(_told(factors, p, p.levels[0]) for p in points if p.levels[1] == level)
        for level in factors.levels[other]
    )
    return Chart(
        title=tr(
            "{metric} by {factor}, a line for each {other}",
            metric=metric_label(factors.metric),
            factor=one,
            other=other,
        ),
        text=lines,
        spec=_draw(data, x=one, levels=factors.levels[one], colours=colours, metric=factors.metric),
        legend=tuple((colour, f"{other} = {level}") for level, colour in colours.items()),
    )


def curve_chart(factors: Factors, curve: Curve) -> Chart:
    data = [{**_point(point), "x": point.levels[0], "line": ""} for point in curve.points]
    levels = [point.levels[0] for point in curve.points]
    return Chart(
        title=tr("{metric} by {factor}", metric=metric_label(factors.metric), factor=curve.factor),
        text=f"{', '.join(_told(factors, point, point.levels[0]) for point in curve.points)}. {say(curve.text)}",
        spec=_draw(data, x=curve.factor, levels=levels, colours={"": CONTROL_COLOUR}, metric=factors.metric),
    )


def _point(point: LevelPoint) -> Spec:
    return {"value": shorten(point.value), "low": shorten(point.low), "high": shorten(point.high)}


def _told(factors: Factors, point: LevelPoint, level: str) -> str:
    return f"{level}: {format_metric(factors.metric, point.value)}"


def _draw(data: list[Spec], *, x: str, levels: Sequence[str], colours: dict[str, str], metric: str) -> Spec:
    place = {"field": "x", "type": "ordinal", "sort": list(levels), "title": x, "axis": {"labelAngle": 0}}
    value = {"field": "value", "type": "quantitative", "title": metric_label(metric), "scale": {"zero": False}}
    colour = {
        "field": "line",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": list(colours), "range": list(colours.values())},
    }
    return wrap_spec(
        {
            "data": {"values": data},
            "encoding": {"x": place, "color": colour},
            "layer": [
                {"mark": {"type": "line"}, "encoding": {"y": value}},
                {"mark": {"type": "rule"}, "encoding": {"y": {**value, "field": "low"}, "y2": {"field": "high"}}},
                {"mark": {"type": "point", "filled": True, "size": 50}, "encoding": {"y": value}},
            ],
        },
        height=_HEIGHT,
    )
