"""One panel: quantities of a run over its time, as lines or as a stack."""

from collections.abc import Sequence

from pgtrial.analysis.timelines.panels import OTHER
from pgtrial.findings.causes import Panel
from pgtrial.findings.findings import Findings
from pgtrial.language import ptr, tr
from pgtrial.report.cause_words import format_value
from pgtrial.report.charts.axis_labels import value_label
from pgtrial.report.charts.base import Chart, Spec, shorten
from pgtrial.report.charts.kinds import kind_colour, kind_rank
from pgtrial.report.charts.marks import checkpoint_layer
from pgtrial.report.charts.ticks import place_bytes
from pgtrial.report.charts.time_axis import PANEL_HEIGHT, time_channel, value_channel, wrap_timed
from pgtrial.report.words import part_name

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
