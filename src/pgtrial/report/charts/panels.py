"""Inside the runs: throughput, waits, devices and memory of one run under each other, on one time axis."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pgtrial.analysis.timelines.panels import OTHER
from pgtrial.findings.findings import Findings, Series
from pgtrial.findings.message import say
from pgtrial.findings.over_time import Dip, Panel
from pgtrial.language import ntr, ptr, tr
from pgtrial.report.cause_words import by_arm, causes_of
from pgtrial.report.charts.base import (
    COUNT_LABEL,
    Chart,
    Spec,
    arm_colours,
    kind_colour,
    kind_rank,
    place_bytes,
    shorten,
    value_label,
)
from pgtrial.report.charts.series import mark_phases
from pgtrial.report.charts.time_axis import (
    PANEL_HEIGHT,
    checkpoint_layer,
    kinds_of,
    marks_chart,
    time_channel,
    value_channel,
    wrap_timed,
)
from pgtrial.report.values import format_value
from pgtrial.report.words import arm_label, format_metric, part_name, throughput_of

LIMIT = "limit"  # what the name of a line begins with that is drawn for comparison
WAITS = "waits"  # the topic whose lines are wait types
# Paul Tol's "bright" scheme: lines that are no wait.
LINE_COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB")
# Places in that scheme of what a request does: it has them in every panel, also where another kind has no line.
REQUESTS = {"reads": 0, "read": 0, "writes": 1, "write": 1, "written": 1, "flushes": 2, "flush": 2, "discards": 3}


def largest_value(panel: Panel) -> float:
    """What the value axis must reach."""
    columns = zip(*(line.value for line in panel.lines), strict=True)
    known = [[value for value in column if value is not None] for column in columns]
    return max((sum(column) if panel.stacked else max(column) for column in known if column), default=0.0)


def panel_chart(findings: Findings, panel: Panel, times: tuple[float, float], largest: float) -> Chart:
    is_wait = panel.topic == WAITS
    names = [line.name for line in panel.lines]
    order = sorted(range(len(names)), key=lambda k: kind_rank(names[k])) if is_wait else list(range(len(names)))
    colours = _colours(names, is_wait=is_wait)
    title, message = panel.title.say(), _message(panel)
    return Chart(
        title=f"{title[:1].upper()}{title[1:]}: {message}",
        text=tr(
            "{title} of run {run} ({arm}) over time: {message}.",
            title=title,
            run=panel.run,
            arm=panel.arm,
            message=message,
        ),
        legend=tuple((colours[k], _name(panel, names[k])) for k in order) if len(names) > 1 else (),
        times=times,
        spec=wrap_timed(
            {
                "layer": [
                    *(checkpoint_layer(findings, panel.run, times) if is_wait else []),
                    _lines(panel, order, [colours[k] for k in order], largest),
                ]
            },
            times,
            height=PANEL_HEIGHT,
        ),
    )


def _name(panel: Panel, name: str) -> str:
    """Of a line; findings have its name in English in all languages."""
    is_wait_type = panel.topic == WAITS and name != OTHER
    return part_name(name, "") if is_wait_type else tr(name)


def _colours(names: Sequence[str], *, is_wait: bool) -> list[str]:
    """Of wait types those of the budget; others in turn, a single line in the ink of the page."""
    if is_wait:
        return [kind_colour(name) for name in names]
    if len(names) == 1:
        return ["currentColor"]
    places = (REQUESTS.get(name, number) for number, name in enumerate(names))
    return [LINE_COLOURS[place % len(LINE_COLOURS)] for place in places]


def _message(panel: Panel) -> str:
    """The line with the largest mean, in words."""
    means: list[tuple[float, float, str]] = []
    for line in panel.lines:
        known = [value for value in line.value if value is not None]
        if known and not line.name.startswith(LIMIT):
            means.append((sum(known) / len(known), max(known), line.name))
    if not means:
        return tr("nothing known")
    largest, highest, line_name = max(means)
    mean, most, name = format_value(largest, panel.unit), format_value(highest, panel.unit), _name(panel, line_name)
    if len(means) == 1:
        return tr("{mean} on average, at most {most}", mean=mean, most=most)
    if panel.stacked:
        whole = format_value(sum(each[0] for each in means), panel.unit)
        return tr("mostly {name}, {mean} of {whole} on average", name=name, mean=mean, whole=whole)
    return tr("largest is {name}, {mean} on average, at most {most}", name=name, mean=mean, most=most)


def _lines(panel: Panel, order: list[int], colours: list[str], largest: float) -> Spec:
    """All lines of a panel share their times; a stack has no value where one of its parts has none."""
    keys = [f"v{number:02}" for number in range(len(order))]
    values = [panel.lines[k].value for k in order]
    pieces = _pieces(panel.t, values) if panel.stacked else [(0, len(panel.t))]
    rows = [
        {
            "piece": number,
            "t": [shorten(t) for t in panel.t[begin:end]],
            **{key: [shorten(v) for v in value[begin:end]] for key, value in zip(keys, values, strict=True)},
        }
        for number, (begin, end) in enumerate(pieces)
    ]
    names = [{"key": key, "name": _name(panel, panel.lines[k].name)} for key, k in zip(keys, order, strict=True)]
    drawn = (
        {"type": "area", "opacity": 0.85, "line": False, "clip": True}
        if panel.stacked
        else {"type": "line", "strokeWidth": 1.2, "opacity": 0.85, "clip": True}
    )
    ticks = place_bytes(largest) if panel.unit.startswith("B") else None
    # Stacked here: the stack of a channel would fill gaps with zeros.
    stack = {"stack": "value", "groupby": ["t"], "sort": [{"field": "key"}], "as": ["low", "high"]}
    return {
        "data": {"values": rows},
        "transform": [
            {"flatten": ["t", *keys]},
            {"fold": keys, "as": ["key", "value"]},
            {"lookup": "key", "from": {"data": {"values": names}, "key": "key", "fields": ["name"]}},
            *([stack] if panel.stacked else []),
        ],
        "mark": drawn,
        "encoding": {
            "x": time_channel("t"),
            "y": value_channel("high" if panel.stacked else "value", value_label(panel.unit), largest, ticks=ticks),
            **({"y2": {"field": "low"}} if panel.stacked else {}),
            "color": {"field": "key", "type": "nominal", "scale": {"domain": keys, "range": colours}, "legend": None},
            "detail": {"field": "piece"},
            "tooltip": {"field": "name", "title": ptr("tooltip", "line")},
        },
    }


def _pieces(t: Sequence[float], values: Sequence[Sequence[float | None]]) -> list[tuple[int, int]]:
    """Ranges of indexes without a gap in any line."""
    found: list[tuple[int, int]] = []
    begin: int | None = None
    for k in range(len(t) + 1):
        whole = k < len(t) and all(value[k] is not None for value in values)
        if whole and begin is None:
            begin = k
        elif not whole and begin is not None:
            found.append((begin, k))
            begin = None
    return found


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


TOPICS = ("waits", "cpu", "disk", "write-back", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPanels:
    """All charts of a run, one for each row of the page; None where the run has nothing to show in that row."""

    title: str
    block: int
    charts: tuple[Chart | None, ...]


def run_panels(findings: Findings) -> list[RunPanels]:
    """The runs that have panels, in the order of their arms."""
    panels = [panel for panel in causes_of(findings).panels if panel.t]
    runs = {panel.run: panel for panel in by_arm(findings, sorted(panels, key=lambda each: (each.block, each.run)))}
    if not runs:
        return []
    shown = set(runs)
    tps = {
        series.run: series
        for series in findings.series
        if series.metric == throughput_of(findings) and series.t and series.run in shown
    }
    ends = [panel.t[-1] for panel in panels] + [series.t[-1] for series in tps.values()]
    times = (0.0, max(ends))
    rows = sorted(dict.fromkeys(map(_row_of, panels)), key=lambda row: row[0])
    largest = {row: max(largest_value(panel) for panel in panels if _row_of(panel) == row) for row in rows}
    top = max((value for series in tps.values() for value in series.value if value is not None), default=0.0)
    lanes = kinds_of(findings, shown)
    found = []
    for run, first in runs.items():
        own = {_row_of(panel): panel for panel in panels if panel.run == run}
        arm = arm_label(findings, first.arm)
        charts = [
            throughput_chart(findings, tps[run], times, top) if run in tps else None,
            *([marks_chart(findings, run, first.arm, lanes, times)] if lanes else []),
            *(panel_chart(findings, own[row], times, largest[row]) if row in own else None for row in rows),
        ]
        found.append(
            RunPanels(
                title=tr("{arm}: run {run}, block {block}", arm=arm, run=run, block=first.block),
                block=first.block,
                charts=tuple(charts),
            )
        )
    return found


def main_block(runs: list[RunPanels]) -> int | None:
    """The block to look at first: one with runs of as many arms as any, of several the one in the middle."""
    counts = Counter(run.block for run in runs)
    full = sorted(block for block, count in counts.items() if count == max(counts.values()))
    return full[(len(full) - 1) // 2] if full else None


def _row_of(panel: Panel) -> tuple[int, str]:
    """Rows of the same topic stay in the order in which they are given."""
    return (TOPICS.index(panel.topic) if panel.topic in TOPICS else len(TOPICS), panel.title.say())
