"""Metrics over measured time, the arms over each other: a small chart for each metric."""

from pgtrial.findings.findings import Findings
from pgtrial.findings.over_time import Course
from pgtrial.language import ptr, tr
from pgtrial.report.cause_words import causes_of, place_arm
from pgtrial.report.charts.base import (
    Chart,
    Spec,
    arm_colours,
    arm_dashes,
    arm_legend,
    place_bytes,
    shorten,
    value_label,
)
from pgtrial.report.charts.time_axis import PANEL_HEIGHT, time_channel, value_channel, wrap_timed
from pgtrial.report.values import format_value
from pgtrial.report.words import arm_label, metric_label


def course_charts(findings: Findings) -> list[Chart]:
    """In the order of the findings, all on one time axis."""
    courses = [course for course in causes_of(findings).courses if course.t]
    times = (0.0, max((course.t[-1] for course in courses), default=0.0))
    return [_chart(findings, course, times) for course in courses]


def _chart(findings: Findings, course: Course, times: tuple[float, float]) -> Chart:
    lines = sorted(course.lines, key=lambda line: place_arm(findings, line.arm))
    known = {line.arm: [value for value in line.value if value is not None] for line in lines}
    means = {arm: sum(values) / len(values) for arm, values in known.items() if values}
    unit = "share" if course.unit == "ratio" else course.unit
    label = metric_label(course.metric)
    words = ", ".join(f"{arm_label(findings, arm)} {format_value(mean, unit)}" for arm, mean in means.items())
    return Chart(
        title=tr("{metric}: {means} on average", metric=label, means=words),
        text=tr("{metric} over time, the mean of the runs of each arm: {means} on average.", metric=label, means=words),
        legend=arm_legend(findings, means),
        times=times,
        spec=wrap_timed(_lines(findings, course, unit), times, height=PANEL_HEIGHT),
    )


def _lines(findings: Findings, course: Course, unit: str) -> Spec:
    largest = max((value for line in course.lines for value in line.value if value is not None), default=0.0)
    arms = [line.arm for line in course.lines]
    colours, dashes = arm_colours(findings), arm_dashes(findings)
    rows = [
        {"arm": line.arm, "t": [shorten(t) for t in course.t], "v": [shorten(value) for value in line.value]}
        for line in course.lines
    ]
    ticks = place_bytes(largest) if unit.startswith("B") else None
    return {
        "data": {"values": rows},
        "transform": [{"flatten": ["t", "v"]}],
        "mark": {"type": "line", "strokeWidth": 1.4, "opacity": 0.85, "clip": True},
        "encoding": {
            "x": time_channel("t"),
            "y": value_channel("v", value_label(unit), largest, ticks=ticks),
            "color": {
                "field": "arm",
                "type": "nominal",
                "scale": {"domain": arms, "range": [colours[arm] for arm in arms]},
                "legend": None,
            },
            "strokeDash": {
                "field": "arm",
                "type": "nominal",
                "scale": {"domain": arms, "range": [dashes[arm] for arm in arms]},
                "legend": None,
            },
            "tooltip": {"field": "arm", "title": ptr("tooltip", "line")},
        },
    }
