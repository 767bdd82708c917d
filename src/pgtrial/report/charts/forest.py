"""The forest plot: effects with their intervals, their blocks as dots, the margin as a band."""

from pgtrial.findings.findings import Effect, Findings
from pgtrial.language import tr
from pgtrial.report.charts.base import (
    Chart,
    Spec,
    arm_colours,
    arm_legend,
    is_plottable,
    label_rows,
    place_changes,
    shorten,
    wrap_spec,
)
from pgtrial.report.margin import margin_bounds
from pgtrial.report.words import (
    LATENCY,
    LATENCY_METRICS,
    change_text,
    effect_word,
    interval_text,
    level_label,
    metric_label,
    scenario_latencies,
    throughput_of,
)

ROW_HEIGHT = 48
# As units.format_change, but the tick at no effect has no sign, and there is no largest factor.
CHANGE_LABEL = (
    "abs(datum.value - 1) < 1e-9 ? '0 %'"
    " : datum.value >= 10 ? '× ' + format(datum.value, '.3~r')"
    " : (datum.value > 1 ? '+' : '−') + format(abs(datum.value - 1) * 100, '.3~r') + ' %'"
)

# On a long axis changes in percent would crowd at −100 % and run into millions.
LONG = 30
FACTOR_LABEL = "abs(datum.value - 1) < 1e-9 ? '0 %' : '× ' + format(datum.value, '.3~r')"


def change_label(low: float, high: float) -> str:
    """Expression that labels the ticks of an axis of ratios from ``low`` to ``high``."""
    return CHANGE_LABEL if high / low <= LONG else FACTOR_LABEL


def primary_forest(findings: Findings) -> Chart | None:
    """The metric of the hypothesis: each arm over all load levels, then by load level where there are several."""
    asked = findings.hypothesis
    levels = _levels(findings)
    effects = [
        effect
        for level in levels
        for effect in (*findings.effects, *findings.placebo)
        if (effect.metric, effect.scenario, effect.load_level) == (asked.metric, asked.scenario, level)
    ]
    labels = [f"{effect.arm}, {level_label(findings, effect.load_level)}" for effect in effects]
    return _forest(findings, effects, labels, subject=metric_label(asked.metric))


def latency_forest(findings: Findings) -> Chart | None:
    """Latencies that the hypothesis is not about, each arm over all load levels and scenarios together."""
    effects = [effect for metric in LATENCY_METRICS for effect in _overall(findings, metric)]
    labels = [f"{_latency_name(effect.metric)}, {effect.arm}" for effect in effects]
    return _forest(findings, effects, labels, subject=tr("latency"))


def _latency_name(metric: str) -> str:
    """ "mean", "p99.9"."""
    name = metric.rpartition("_")[2]
    return {"mean": tr("mean"), "p999": "p99.9"}.get(name, name)


def throughput_forest(findings: Findings) -> Chart | None:
    """Throughput where the hypothesis is about something else."""
    metric = throughput_of(findings)
    effects = _overall(findings, metric)
    return _forest(findings, effects, [effect.arm for effect in effects], subject=metric_label(metric))


def scenario_forest(findings: Findings) -> Chart | None:
    """The metric of the hypothesis for each scenario, where there are several; the mean latency where throughput is the
    same of all by construction.
    """
    if len(findings.experiment.scenarios) < 2:
        return None
    metric, effects = findings.hypothesis.metric, scenario_latencies(findings)
    if effects and metric == throughput_of(findings):
        metric = LATENCY
    else:
        effects = [
            effect
            for scenario in findings.experiment.scenarios
            for effect in (*findings.effects, *findings.placebo)
            if (effect.metric, effect.scenario, effect.load_level) == (metric, scenario, "all")
        ]
    labels = [f"{effect.scenario}, {effect.arm}" for effect in effects]
    return _forest(findings, effects, labels, subject=tr("{metric} by scenario", metric=metric_label(metric)))


def _overall(findings: Findings, metric: str) -> list[Effect]:
    asked = findings.hypothesis
    if (asked.metric, asked.scenario) == (metric, None):
        return []
    return [
        effect
        for effect in (*findings.effects, *findings.placebo)
        if (effect.metric, effect.scenario, effect.load_level) == (metric, None, "all")
    ]


def _levels(findings: Findings) -> list[int | str]:
    levels = findings.experiment.levels
    return ["all", *(level.index for level in levels)] if len(levels) > 1 else ["all"]


def _forest(findings: Findings, effects: list[Effect], labels: list[str], *, subject: str) -> Chart | None:
    shown = [(effect, label) for effect, label in zip(effects, labels, strict=True) if is_plottable(effect.ratio)]
    if not shown:
        return None
    colours = arm_colours(findings)
    rows = []
    lines = []
    for number, (effect, label) in enumerate(shown):
        line = f"{label}: {change_text(effect.ratio, effect.low, effect.high)}"
        if effect.low is not None:
            line += f" ({interval_text(effect.low, effect.high, effect.ratio)})"
        line += f", {effect_word(findings, effect)}"
        lines.append(line)
        has_interval = is_plottable(effect.low) and is_plottable(effect.high)
        rows.append(
            {
                "row": number,
                "label": line,
                "arm": effect.arm,
                "colour": colours.get(effect.arm, "currentColor"),
                "ratio": shorten(effect.ratio),
                "low": shorten(effect.low) if has_interval else None,
                "high": shorten(effect.high) if has_interval else None,
                "blocks": [shorten(ratio) for ratio in effect.block_ratios if is_plottable(ratio)],
            }
        )
    better = shown[0][0].better
    control = findings.hypothesis.control
    side = {"higher": tr("Right of the band is better."), "lower": tr("Left of the band is better.")}.get(better, "")
    message = tr("Change of {metric} against “{control}”; {effect}.", metric=subject, control=control, effect=lines[0])
    return Chart(
        title=f"{message} {side}".strip(),
        text=tr(
            "Forest plot of the change of {metric} against {control}. {effects}.",
            metric=subject,
            control=control,
            effects="; ".join(lines),
        ),
        spec=forest_spec(rows, margin_bounds(findings)),
        legend=arm_legend(findings, (effect.arm for effect, _ in shown)),
    )


def forest_spec(rows: list[Spec], bounds: tuple[float, float]) -> Spec:
    """Rows of ratios with their intervals and blocks, over a band from one of the ``bounds`` to the other."""
    ends = [value for row in rows for value in (row["ratio"], row["low"], row["high"], *row["blocks"]) if value]
    low, high = min(*ends, *bounds, 1.0), max(*ends, *bounds, 1.0)
    room = (high / low) ** 0.04
    low, high = low / room, high * room
    axis = {
        "values": place_changes(low, high),
        "labelExpr": change_label(low, high),
        "title": None,
        "labelOverlap": True,
    }
    scale = {"type": "log", "domain": [low, high], "nice": False}
    y = {"field": "row", "type": "ordinal", "axis": None}
    colour = {"field": "colour", "type": "nominal", "scale": None}

    def along(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    band = {"data": {"values": [{"low": bounds[0], "high": bounds[1]}]}}
    tooltip = {"field": "label", "title": tr("effect")}
    return wrap_spec(
        {
            "data": {"values": rows},
            "layer": [
                {
                    **band,
                    "mark": {"type": "rect", "color": "currentColor", "opacity": 0.09},
                    "encoding": {"x": along("low"), "x2": {"field": "high"}},
                },
                {
                    "data": {"values": [{"one": 1}]},
                    "mark": {"type": "rule", "opacity": 0.6, "strokeDash": [4, 3]},
                    "encoding": {"x": along("one")},
                },
                {
                    "mark": {"type": "rule", "opacity": 0.12, "yOffset": 9},
                    "encoding": {"y": y, "x": {"value": 0}, "x2": {"value": "width"}},
                },
                {
                    "transform": [{"flatten": ["blocks"]}],
                    "mark": {"type": "point", "filled": True, "size": 16, "opacity": 0.6, "yOffset": 19},
                    "encoding": {"x": along("blocks"), "y": y, "color": colour},
                },
                {
                    "transform": [{"filter": "isValid(datum.low)"}],
                    "mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round", "yOffset": 9},
                    "encoding": {
                        "x": along("low"),
                        "x2": {"field": "high"},
                        "y": y,
                        "color": colour,
                        "tooltip": tooltip,
                    },
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1, "yOffset": 9},
                    "encoding": {"x": along("ratio"), "y": y, "color": colour, "tooltip": tooltip},
                },
                label_rows(y, dy=-9),
            ],
        },
        height=ROW_HEIGHT * len(rows),
    )
