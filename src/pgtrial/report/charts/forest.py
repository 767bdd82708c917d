"""The forest plot: effects with their intervals, their blocks as dots, the margin as a band."""

from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.record import ALL
from pgtrial.language import tr
from pgtrial.report.charts.base import (
    OWN_COLOUR,
    Chart,
    Spec,
    arm_colours,
    arm_legend,
    is_plottable,
    label_rows,
    shorten,
    wrap_spec,
)
from pgtrial.report.charts.ratio_axis import RatioAxis, margin_bounds, ratio_fields
from pgtrial.report.words import (
    LATENCY,
    LATENCY_METRICS,
    change_and_interval,
    effect_word,
    effects_by_scenario,
    effects_on,
    level_label,
    metric_label,
    scenario_latencies,
    throughput_of,
)

ROW_HEIGHT = 48


def primary_forest(findings: Findings) -> Chart | None:
    """The metric of the hypothesis: each arm over all load levels, then by load level where there are several."""
    asked = findings.hypothesis
    levels = _levels(findings)
    effects = [
        effect
        for level in levels
        for effect in effects_on(findings, asked.metric, scenario=asked.scenario, level=level)
    ]
    labels = [f"{effect.arm}, {level_label(findings, effect.load_level)}" for effect in effects]
    return _forest(findings, effects, labels, subject=metric_label(asked.metric, asked.scenario))


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
        effects = effects_by_scenario(findings, metric)
    labels = [f"{effect.scenario}, {effect.arm}" for effect in effects]
    return _forest(findings, effects, labels, subject=tr("{metric} by scenario", metric=metric_label(metric)))


def _overall(findings: Findings, metric: str) -> list[Effect]:
    asked = findings.hypothesis
    return [] if (asked.metric, asked.scenario) == (metric, None) else effects_on(findings, metric)


def _levels(findings: Findings) -> list[int | str]:
    levels = findings.experiment.levels
    return [ALL, *(level.index for level in levels)] if len(levels) > 1 else [ALL]


def _forest(findings: Findings, effects: list[Effect], labels: list[str], *, subject: str) -> Chart | None:
    shown = [(effect, label) for effect, label in zip(effects, labels, strict=True) if is_plottable(effect.ratio)]
    if not shown:
        return None
    colours = arm_colours(findings)
    rows = []
    lines = []
    for number, (effect, label) in enumerate(shown):
        change = change_and_interval(effect.ratio, effect.low, effect.high)
        line = f"{label}: {change}, {effect_word(findings, effect)}"
        lines.append(line)
        rows.append(
            {
                "row": number,
                "label": line,
                "arm": effect.arm,
                "colour": colours.get(effect.arm, "currentColor"),
                **ratio_fields(effect.ratio, effect.low, effect.high),
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
    axis = RatioAxis.around(
        (value for row in rows for value in (row["ratio"], row["low"], row["high"], *row["blocks"])), bounds
    )
    y = {"field": "row", "type": "ordinal", "axis": None}

    def along(field: str) -> Spec:
        return axis.channel(field, labelOverlap=True)

    tooltip = {"field": "label", "title": tr("effect")}
    return wrap_spec(
        {
            "data": {"values": rows},
            "layer": [
                *axis.margin_layers("x", labelOverlap=True),
                {
                    "mark": {"type": "rule", "opacity": 0.12, "yOffset": 9},
                    "encoding": {"y": y, "x": {"value": 0}, "x2": {"value": "width"}},
                },
                {
                    "transform": [{"flatten": ["blocks"]}],
                    "mark": {"type": "point", "filled": True, "size": 16, "opacity": 0.6, "yOffset": 19},
                    "encoding": {"x": along("blocks"), "y": y, "color": OWN_COLOUR},
                },
                {
                    "transform": [{"filter": "isValid(datum.low)"}],
                    "mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round", "yOffset": 9},
                    "encoding": {
                        "x": along("low"),
                        "x2": {"field": "high"},
                        "y": y,
                        "color": OWN_COLOUR,
                        "tooltip": tooltip,
                    },
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1, "yOffset": 9},
                    "encoding": {"x": along("ratio"), "y": y, "color": OWN_COLOUR, "tooltip": tooltip},
                },
                label_rows(y, dy=-9),
            ],
        },
        height=ROW_HEIGHT * len(rows),
    )
