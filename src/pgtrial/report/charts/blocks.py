"""Every block as a dot, in the order of the blocks: the ratio of each arm to the control, with the arm's estimate."""

from pgtrial.findings.findings import Effect, Findings
from pgtrial.language import ptr, tr
from pgtrial.report.charts.base import Chart, Spec, arm_colours, arm_legend, is_plottable, shorten, wrap_spec
from pgtrial.report.charts.forest import change_label
from pgtrial.report.charts.ticks import place_changes, place_counts
from pgtrial.report.words import (
    block_numbers,
    change_text,
    interval_text,
    metric_label,
    placebo_effect,
    primary_effect,
)


def blocks_chart(findings: Findings) -> Chart | None:
    """The claim's arm and the placebo side by side, each block one dot; None without a ratio."""
    effects = [effect for effect in (primary_effect(findings), placebo_effect(findings)) if effect is not None]
    rows = [row for effect in effects for row in _rows(findings, effect)]
    if not rows:
        return None
    margin = findings.hypothesis.margin
    values, places = [row["ratio"] for row in rows], [row["place"] for row in rows]
    low, high = min(*values, 1 - margin), max(*values, 1 + margin)
    room = (high / low) ** 0.06
    low, high = low / room, high * room
    scale = {"type": "log", "domain": [low, high], "nice": False}
    axis = {"values": place_changes(low, high), "labelExpr": change_label(low, high), "title": None, "minExtent": 40}
    subject = metric_label(findings.hypothesis.metric)

    def up(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    colour = {"field": "colour", "type": "nominal", "scale": None}
    return Chart(
        title=tr(
            "Each block alone: {metric} of “{arm}” against “{control}” changes by {range}; the lines are the estimates "
            "from all blocks",
            metric=subject,
            arm=effects[0].arm,
            control=findings.hypothesis.control,
            range=_range_text(findings, effects[0]),
        ),
        text=tr("Change of {metric} by block: {blocks}.", metric=subject, blocks="; ".join(map(_block_text, rows))),
        legend=arm_legend(findings, (effect.arm for effect in effects)),
        spec=wrap_spec(
            {
                "layer": [
                    {
                        "data": {"values": [{"low": max(1 - margin, low), "high": min(1 + margin, high)}]},
                        "mark": {"type": "rect", "color": "currentColor", "opacity": 0.09},
                        "encoding": {"y": up("low"), "y2": {"field": "high"}},
                    },
                    {
                        "data": {"values": [{"one": 1}]},
                        "mark": {"type": "rule", "opacity": 0.6, "strokeDash": [4, 3]},
                        "encoding": {"y": up("one")},
                    },
                    {
                        "data": {
                            "values": [
                                {"ratio": shorten(effect.ratio), "colour": arm_colours(findings).get(effect.arm)}
                                for effect in effects
                                if is_plottable(effect.ratio)
                            ]
                        },
                        "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
                        "encoding": {"y": up("ratio"), "color": colour},
                    },
                    {
                        "data": {"values": rows},
                        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.9},
                        "encoding": {
                            "x": {
                                "field": "place",
                                "type": "quantitative",
                                "axis": {
                                    "title": tr("block"),
                                    "grid": False,
                                    "format": "d",
                                    "values": place_counts(min(places), max(places)),
                                },
                                "scale": {"zero": False, "nice": False, "padding": 16},
                            },
                            "y": up("ratio"),
                            "color": colour,
                            "tooltip": [
                                {"field": "arm", "title": tr("arm")},
                                {"field": "place", "title": tr("block")},
                                {"field": "text", "title": ptr("tooltip", "text")},
                            ],
                        },
                    },
                ],
            },
            height=200,
        ),
    )


def _block_text(row: Spec) -> str:
    return tr("{arm} block {block} {change}", arm=row["arm"], block=row["place"], change=row["text"])


def _range_text(findings: Findings, effect: Effect) -> str:
    ratios = [row["ratio"] for row in _rows(findings, effect)]
    return interval_text(min(ratios), max(ratios)) if ratios else tr("nothing known")


def _rows(findings: Findings, effect: Effect) -> list[Spec]:
    """Blocks with a ratio, by their numbers in the schedule."""
    return [
        {
            "arm": effect.arm,
            "colour": arm_colours(findings).get(effect.arm, "currentColor"),
            "place": place,
            "ratio": shorten(ratio),
            "text": change_text(ratio),
        }
        for place, ratio in zip(block_numbers(findings, effect), effect.block_ratios, strict=True)
        if is_plottable(ratio)
    ]
