"""Throughput of one run over its time, with its dips, its load levels and what the checkpoints cover."""

from collections.abc import Sequence

from pgtrial.findings.causes import Dip
from pgtrial.findings.findings import Findings, Series
from pgtrial.findings.message import say
from pgtrial.language import ntr, tr
from pgtrial.report.cause_words import causes_of, format_value
from pgtrial.report.charts.axis_labels import COUNT_LABEL
from pgtrial.report.charts.base import Chart, Spec, arm_colours, shorten
from pgtrial.report.charts.marks import checkpoint_layer
from pgtrial.report.charts.series import mark_phases
from pgtrial.report.charts.time_axis import PANEL_HEIGHT, time_channel, value_channel, wrap_timed
from pgtrial.report.words import format_metric

MOST_TOLD = 5  # dips in the text alternative


def throughput_chart(findings: Findings, series: Series, times: tuple[float, float], top: float) -> Chart:
    values = [value for value in series.value if value is not None]
    mean = sum(values) / len(values) if values else None
    dips: list[Spec] = [
        {"start": shorten(dip.start), "end": shorten(dip.start + dip.length), "text": _dip_text(dip)}
        for stability in causes_of(findings).stability
        for dip in stability.dips
        if dip.run == series.run
    ]
    title = tr(
        "Throughput: {mean} on average, at least {least}",
        mean=format_metric(series.metric, mean),
        least=format_metric(series.metric, min(values, default=None)),
    )
    layers = [
        *checkpoint_layer(findings, series.run, times),
        *_level_layers(findings, series.run, times),
        {
            "data": {"values": [{"t": [shorten(t) for t in series.t], "v": [shorten(v) for v in series.value]}]},
            "transform": [{"flatten": ["t", "v"]}],
            "mark": {"type": "line", "strokeWidth": 1.2, "clip": True, "color": arm_colours(findings).get(series.arm)},
            "encoding": {"x": time_channel("t"), "y": value_channel("v", COUNT_LABEL, top)},
        },
    ]
    if dips:
        layers.append(
            {
                "data": {"values": dips},
                "mark": {"type": "rule", "strokeWidth": 5, "strokeCap": "butt", "clip": True},
                "encoding": {
                    "x": {"field": "start", "type": "quantitative"},
                    "x2": {"field": "end"},
                    "y": {"value": PANEL_HEIGHT - 2},
                    "tooltip": {"field": "text", "title": tr("dip")},
                },
            }
        )
    return Chart(
        title=title,
        text=tr(
            "{throughput}, over the time of run {run} ({arm}). {dips}.",
            throughput=title,
            run=series.run,
            arm=series.arm,
            dips=_dips_text(dips),
        ),
        times=times,
        spec=wrap_timed({"layer": layers}, times, height=PANEL_HEIGHT),
    )


def _dips_text(dips: Sequence[Spec]) -> str:
    """How many there are, and the first few of them."""
    count = ntr("{count} dip", "{count} dips", len(dips))
    return f"{count}: {'; '.join(dip['text'] for dip in dips[:MOST_TOLD])}" if dips else count


def _dip_text(dip: Dip) -> str:
    values = {
        "start": format_value(dip.start, "s"),
        "length": format_value(dip.length, "s"),
        "depth": format_value(dip.depth, "share"),
    }
    if dip.near:
        return tr(
            "from {start} on for {length}, down by {depth}, near {near}", **values, near=", ".join(map(say, dip.near))
        )
    return tr("from {start} on for {length}, down by {depth}", **values)


def _level_layers(findings: Findings, run: int, times: tuple[float, float]) -> list[Spec]:
    """A rule and a name where each load level begins; nothing for a single level."""
    found = next((each for each in findings.runs if each.id == run), None)
    bands = [] if found is None else [band for band in mark_phases(findings, found, times) if band["start"] >= 0]
    if len(bands) < 2:
        return []
    x = {"field": "start", "type": "quantitative"}
    return [
        {
            "data": {"values": bands},
            "mark": {"type": "rule", "opacity": 0.35, "strokeDash": [2, 2], "clip": True},
            "encoding": {"x": x},
        },
        {
            "data": {"values": bands},
            "mark": {
                "type": "text",
                "align": "left",
                "baseline": "top",
                "dx": 3,
                "fontSize": 10,
                "opacity": 0.7,
                "clip": True,
            },
            "encoding": {"x": x, "y": {"value": 0}, "text": {"field": "label"}},
        },
    ]
