"""What drifts in a soak: a small chart for each metric, its value in each window, the arms over each other."""

from pgtrial.findings.findings import Findings
from pgtrial.findings.questions import Soak
from pgtrial.language import ptr, tr
from pgtrial.report.charts.base import (
    Chart,
    Spec,
    arm_colours,
    arm_legend,
    duration_label,
    place_bytes,
    shorten,
    value_label,
    wrap_spec,
)
from pgtrial.report.charts.time_axis import PANEL_HEIGHT, value_channel
from pgtrial.report.values import format_value
from pgtrial.report.words import metric_label

_HOUR = 3600.0


def soak_charts(findings: Findings) -> list[Chart]:
    """One of each metric that any arm has, in the order of the findings."""
    soak = findings.soak
    if soak is None:
        return []
    metrics = {drift.metric: drift.unit for arm in soak.arms for drift in arm.drifts}
    return [_chart(findings, soak, metric, unit) for metric, unit in metrics.items()]


def _chart(findings: Findings, soak: Soak, metric: str, unit: str) -> Chart:
    rows: list[Spec] = []
    words = []
    for arm in soak.arms:
        values = next((drift.values for drift in arm.drifts if drift.metric == metric), ())
        known = [(hour, value) for hour, value in zip(arm.hours, values, strict=False) if value is not None]
        rows += [{"arm": arm.arm, "t": shorten(hour * _HOUR), "v": shorten(value)} for hour, value in known]
        if known:
            first, last = format_value(known[0][1], unit), format_value(known[-1][1], unit)
            words.append(tr("{arm} {first} → {last}", arm=arm.arm, first=first, last=last))
    label, largest = metric_label(metric), max((row["v"] or 0.0 for row in rows), default=0.0)
    colours = arm_colours(findings)
    arms = [arm.arm for arm in soak.arms]
    spec = wrap_spec(
        {
            "data": {"values": rows},
            "mark": {"type": "line", "point": True, "strokeWidth": 1.4, "opacity": 0.85},
            "encoding": {
                "x": {
                    "field": "t",
                    "type": "quantitative",
                    "axis": {"title": None, "labelExpr": duration_label(), "grid": False, "tickCount": 6},
                },
                "y": value_channel(
                    "v", value_label(unit), largest, ticks=place_bytes(largest) if unit.startswith("B") else None
                ),
                "color": {
                    "field": "arm",
                    "type": "nominal",
                    "scale": {"domain": arms, "range": [colours[arm] for arm in arms]},
                    "legend": None,
                },
                "tooltip": {"field": "arm", "title": ptr("tooltip", "line")},
            },
        },
        height=PANEL_HEIGHT,
    )
    return Chart(
        title=tr("{metric}: {values}", metric=label, values=", ".join(words)),
        text=tr("{metric} by window, from the first to the last: {values}.", metric=label, values=", ".join(words)),
        legend=arm_legend(findings, arms),
        spec=spec,
    )
