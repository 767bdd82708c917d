"""The forest plot over experiments: each one's effect with its interval, and the combined one as a diamond."""

from collections.abc import Callable

from pgtrial.findings.comparison import Contrast, ExperimentComparison, PooledEffect
from pgtrial.model.rules import CURRENT
from pgtrial.report.charts.base import (
    CANDIDATE_COLOURS,
    CONTROL_COLOUR,
    OWN_COLOUR,
    Chart,
    Spec,
    is_plottable,
    label_rows,
    shorten,
    wrap_spec,
)
from pgtrial.report.charts.forest import ROW_HEIGHT
from pgtrial.report.charts.ratio_axis import RatioAxis, ratio_fields
from pgtrial.report.comparison.words import pooled_text, subject_text
from pgtrial.report.words import change_and_interval

Channel = Callable[[str], Spec]

POOLED_COLOUR = "currentColor"
_LABEL, _MARK = 15, 33  # of a row's height, from its top
_HALF = 8  # height of the diamond
_COLOURS = (CONTROL_COLOUR, *CANDIDATE_COLOURS)


def key_colours(found: ExperimentComparison) -> dict[str, str]:
    """One colour per experiment, the same in every chart. They repeat; letters are always shown too."""
    return {one.key: _COLOURS[place % len(_COLOURS)] for place, one in enumerate(found.experiments)}


def pooled_forest(found: ExperimentComparison, contrast: Contrast) -> Chart | None:
    """One contrast of all experiments that have it; None without a ratio."""
    studies = [study for study in contrast.studies if is_plottable(study.ratio)]
    if not studies:
        return None
    colours = key_colours(found)
    names = {one.key: one.name for one in found.experiments}
    rows: list[Spec] = []
    for place, study in enumerate(studies):
        change = change_and_interval(study.ratio, study.low, study.high)
        label = f"{study.experiment} {names[study.experiment]}: {change}"
        if contrast.pooled is not None and study.left_out:
            label += ", not in the combined effect"
        rows.append(
            {
                "label": label,
                "colour": colours[study.experiment],
                **ratio_fields(study.ratio, study.low, study.high),
                "size": 40 if study.left_out else 120,
                "labelY": place * ROW_HEIGHT + _LABEL,
                "y": place * ROW_HEIGHT + _MARK,
            }
        )
    margins = [one.margin for one in found.experiments if any(one.key == study.experiment for study in studies)]
    side = {"higher": "Right is better.", "lower": "Left is better."}.get(contrast.better, "")
    message = pooled_text(contrast.pooled) if contrast.pooled else "not combined"
    where = f"{contrast.title}, {subject_text(contrast)}, {contrast.load_level}"
    return Chart(
        title=f"{where}: {message}. {side}".strip(),
        text=f"Forest plot over experiments, {where}. "
        + "; ".join(row["label"] for row in rows)
        + (f"; combined {pooled_text(contrast.pooled)}." if contrast.pooled else "."),
        spec=_spec(rows, contrast.pooled, CURRENT.bounds(min(margins, default=0.0))),
        legend=tuple((colours[study.experiment], study.experiment) for study in studies),
    )


def _spec(rows: list[Spec], pooled: PooledEffect | None, bounds: tuple[float, float]) -> Spec:
    height = ROW_HEIGHT * (len(rows) + (1 if pooled else 0))
    ends = [value for row in rows for value in (row["ratio"], row["low"], row["high"])]
    if pooled:
        ends += [pooled.low, pooled.high]
        ends += [end for end in (pooled.prediction_low, pooled.prediction_high) if is_plottable(end)]
    axis = RatioAxis.around(ends, bounds)

    def along(field: str) -> Spec:
        return axis.channel(field, labelOverlap=True)

    def down(field: str) -> Spec:
        room_of_rows = {"domain": [0, height], "reverse": True, "nice": False}
        return {"field": field, "type": "quantitative", "scale": room_of_rows, "axis": None}

    tooltip = {"field": "label", "title": "effect"}
    layers: list[Spec] = [
        *axis.margin_layers("x", labelOverlap=True),
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round"},
            "encoding": {
                "x": along("low"),
                "x2": {"field": "high"},
                "y": down("y"),
                "color": OWN_COLOUR,
                "tooltip": tooltip,
            },
        },
        {
            "mark": {"type": "square", "opacity": 1},
            "encoding": {
                "x": along("ratio"),
                "y": down("y"),
                "color": OWN_COLOUR,
                "size": {"field": "size", "type": "quantitative", "scale": None},
                "tooltip": tooltip,
            },
        },
        label_rows(down("labelY")),
    ]
    if pooled:
        layers += _diamond(pooled, top=ROW_HEIGHT * len(rows), along=along, down=down)
    return wrap_spec({"data": {"values": rows}, "layer": layers}, height=height)


def _diamond(pooled: PooledEffect, *, top: int, along: Channel, down: Channel) -> list[Spec]:
    """The interval as a diamond around the mean, and the prediction interval as a thin line through it."""
    y = top + _MARK
    corners = [(pooled.low, y), (pooled.ratio, y - _HALF), (pooled.high, y), (pooled.ratio, y + _HALF)]
    shape = [
        {"corner": place, "ratio": shorten(ratio), "y": height}
        for place, (ratio, height) in enumerate([*corners, corners[0]])
    ]
    label = f"combined: {pooled_text(pooled)}"
    layers: list[Spec] = [
        {
            "data": {"values": shape},
            "mark": {
                "type": "line",
                "filled": True,
                "fill": POOLED_COLOUR,
                "stroke": POOLED_COLOUR,
                "strokeWidth": 1,
                "interpolate": "linear-closed",
            },
            "encoding": {
                "x": along("ratio"),
                "y": down("y"),
                "order": {"field": "corner", "type": "quantitative"},
            },
        },
        {**label_rows(down("labelY")), "data": {"values": [{"label": label, "labelY": top + _LABEL}]}},
    ]
    if is_plottable(pooled.prediction_low) and is_plottable(pooled.prediction_high):
        ends = {"low": shorten(pooled.prediction_low), "high": shorten(pooled.prediction_high), "y": y}
        layers.insert(
            0,
            {
                "data": {"values": [ends]},
                "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.7},
                "encoding": {"x": along("low"), "x2": {"field": "high"}, "y": down("y")},
            },
        )
    return layers
