"""Metrics over time, the arms over each other: a small chart for each, of measured time or of a soak's windows."""

from pgtrial.findings.findings import Findings
from pgtrial.findings.over_time import Course
from pgtrial.findings.questions import Soak
from pgtrial.language import ptr, tr
from pgtrial.report.cause_words import by_arm, causes_of
from pgtrial.report.charts.base import (
    Chart,
    Spec,
    arm_channel,
    arm_colours,
    arm_dashes,
    arm_legend,
    duration_label,
    place_bytes,
    shorten,
    value_label,
    wrap_spec,
)
from pgtrial.report.charts.time_axis import PANEL_HEIGHT, time_channel, value_channel, wrap_timed
from pgtrial.report.values import format_value
from pgtrial.report.words import arm_label, metric_label

_HOUR = 3600.0
_LINE: Spec = {"type": "line", "strokeWidth": 1.4, "opacity": 0.85}


def course_charts(findings: Findings) -> list[Chart]:
    """In the order of the findings, all on one time axis."""
    courses = [course for course in causes_of(findings).courses if course.t]
    times = (0.0, max((course.t[-1] for course in courses), default=0.0))
    return [_course_chart(findings, course, times) for course in courses]


def soak_charts(findings: Findings) -> list[Chart]:
    """What drifts in a soak, its value in each window: one of each metric that any arm has, in their order."""
    soak = findings.soak
    if soak is None:
        return []
    metrics = {drift.metric: drift.unit for arm in soak.arms for drift in arm.drifts}
    return [_soak_chart(findings, soak, metric, unit) for metric, unit in metrics.items()]


def _course_chart(findings: Findings, course: Course, times: tuple[float, float]) -> Chart:
    known = {line.arm: [value for value in line.value if value is not None] for line in by_arm(findings, course.lines)}
    means = {arm: sum(values) / len(values) for arm, values in known.items() if values}
    unit = "share" if course.unit == "ratio" else course.unit
    label = metric_label(course.metric)
    words = ", ".join(f"{arm_label(findings, arm)} {format_value(mean, unit)}" for arm, mean in means.items())
    arms = [line.arm for line in course.lines]
    rows = [
        {"arm": line.arm, "t": [shorten(t) for t in course.t], "v": [shorten(value) for value in line.value]}
        for line in course.lines
    ]
    largest = max((value for line in course.lines for value in line.value if value is not None), default=0.0)
    spec = {
        "data": {"values": rows},
        "transform": [{"flatten": ["t", "v"]}],
        "mark": {**_LINE, "clip": True},
        "encoding": {
            "x": time_channel("t"),
            "y": _height(unit, largest),
            "color": arm_channel(arm_colours(findings), arms),
            "strokeDash": arm_channel(arm_dashes(findings), arms),
            "tooltip": {"field": "arm", "title": ptr("tooltip", "line")},
        },
    }
    return Chart(
        title=tr("{metric}: {means} on average", metric=label, means=words),
        text=tr("{metric} over time, the mean of the runs of each arm: {means} on average.", metric=label, means=words),
        legend=arm_legend(findings, means),
        times=times,
        spec=wrap_timed(spec, times, height=PANEL_HEIGHT),
    )


def _soak_chart(findings: Findings, soak: Soak, metric: str, unit: str) -> Chart:
    rows: list[Spec] = []
    changes = []
    for arm in soak.arms:
        values = next((drift.values for drift in arm.drifts if drift.metric == metric), ())
        known = [(hour, value) for hour, value in zip(arm.hours, values, strict=False) if value is not None]
        rows += [{"arm": arm.arm, "t": shorten(hour * _HOUR), "v": shorten(value)} for hour, value in known]
        if known:
            first, last = format_value(known[0][1], unit), format_value(known[-1][1], unit)
            changes.append(tr("{arm} {first} → {last}", arm=arm.arm, first=first, last=last))
    label, words = metric_label(metric), ", ".join(changes)
    arms = [arm.arm for arm in soak.arms]
    spec = {
        "data": {"values": rows},
        "mark": {**_LINE, "point": True},
        "encoding": {
            "x": {
                "field": "t",
                "type": "quantitative",
                "axis": {"title": None, "labelExpr": duration_label(), "grid": False, "tickCount": 6},
            },
            "y": _height(unit, max((row["v"] or 0.0 for row in rows), default=0.0)),
            "color": arm_channel(arm_colours(findings), arms),
            "tooltip": {"field": "arm", "title": ptr("tooltip", "line")},
        },
    }
    return Chart(
        title=tr("{metric}: {values}", metric=label, values=words),
        text=tr("{metric} by window, from the first to the last: {values}.", metric=label, values=words),
        legend=arm_legend(findings, arms),
        spec=wrap_spec(spec, height=PANEL_HEIGHT),
    )


def _height(unit: str, largest: float) -> Spec:
    ticks = place_bytes(largest) if unit.startswith("B") else None
    return value_channel("v", value_label(unit), largest, ticks=ticks)
