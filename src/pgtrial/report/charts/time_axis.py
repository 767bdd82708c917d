"""The time axis that charts under each other share, and the lanes of events along it.

Its ends and ticks are parameters of the specification, so that the page can zoom all charts of a group at once.
"""

from collections.abc import Iterable, Sequence

from pgtrial.findings.findings import Findings
from pgtrial.findings.naming import name_event_kind
from pgtrial.findings.over_time import Mark
from pgtrial.language import ntr, ptr, tr
from pgtrial.report.cause_words import causes_of
from pgtrial.report.charts.base import Chart, Spec, duration_label, label_rows, place_seconds, shorten, wrap_spec
from pgtrial.report.values import format_value

PANEL_HEIGHT = 96
LEAST_TIME = 10.0  # s; of a shorter time a line has a few points, which tell nothing
# What times.js sets; the page knows no others.
FROM, TO, TICKS = "time_from", "time_to", "time_ticks"
MARGIN = {"minExtent": 46, "maxExtent": 46}  # of labels, beside which a title has room of its own


def wrap_timed(parts: Spec, times: tuple[float, float], *, height: int) -> Spec:
    """A specification whose time axis goes from ``times[0]`` to ``times[1]`` until the page shows less of it.

    Marks along that axis need ``"clip": True``, or they would be drawn beyond its ends.
    """
    parameters = [
        {"name": FROM, "value": times[0]},
        {"name": TO, "value": times[1]},
        {"name": TICKS, "value": place_seconds(*times)},
    ]
    return {**wrap_spec(parts, height=height), "params": parameters}


def is_long(findings: Findings) -> bool:
    """Whether charts over time show more than a mean does: some run was measured for long enough."""
    return any(series.t and series.t[-1] - series.t[0] >= LEAST_TIME for series in findings.series)


def widest_times(charts: Iterable[Chart]) -> tuple[float, float]:
    """From the earliest to the latest end of the time axes of these charts; nothing, (0, 0), where none has one."""
    times = [chart.times for chart in charts if chart.times is not None]
    return min((begin for begin, _ in times), default=0.0), max((end for _, end in times), default=0.0)


def time_channel(field: str, *, title: str | None = None) -> Spec:
    """Seconds since measuring began, on the axis that ``wrap_timed`` declares."""
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": [{"expr": FROM}, {"expr": TO}], "nice": False},
        "axis": {
            "title": title,
            "labelExpr": duration_label(),
            "grid": False,
            "values": {"expr": TICKS},
            "labelOverlap": True,
        },
    }


def time_title(*, is_sliced: bool) -> str:
    """Of the axis of a chart that stands alone."""
    return tr("measured time") if is_sliced else tr("time since measuring began")


def value_channel(field: str, label: str, largest: float, *, ticks: list[float] | None = None) -> Spec:
    """From zero to a little more than ``largest``; ``label`` is the expression that labels the ticks."""
    placed = {"tickCount": 3} if ticks is None else {"values": ticks}
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": [0, shorten(largest * 1.05) or 1], "nice": False},
        "axis": {"title": None, "labelExpr": label, **placed, **MARGIN},
    }


def lane_channel(lanes: int, *, titled: bool) -> Spec:
    """Rows without labels, numbered from zero; ``titled``: with the room that a title takes in the charts beside."""
    return {
        "field": "row",
        "type": "ordinal",
        "scale": {"domain": list(range(lanes))},
        "axis": {"title": " " if titled else None, "labels": False, "ticks": False, "grid": False, **MARGIN},
    }


CHECKPOINT = "checkpoint"
FIRST = (CHECKPOINT, "autovacuum")  # lanes that are on top
MOST_LANES = 6
LANE_HEIGHT = 26
PIXELS = 300  # of the narrowest axis: events that are closer than one are drawn as one


def kinds_of(findings: Findings, runs: Iterable[int]) -> list[str]:
    """The kinds of events of these runs: checkpoints and autovacuum first, then what is most frequent."""
    wanted = set(runs)
    counts: dict[str, int] = {}
    for mark in causes_of(findings).marks:
        if mark.run in wanted:
            counts[mark.kind] = counts.get(mark.kind, 0) + 1
    ordered = sorted(counts, key=lambda kind: (kind not in FIRST, -counts[kind], kind))
    return sorted(ordered[:MOST_LANES], key=lambda kind: FIRST.index(kind) if kind in FIRST else len(FIRST))


def merge_marks(marks: Iterable[Mark], times: tuple[float, float]) -> list[Spec]:
    """Bars inside ``times``; events that overlap, or are less than a pixel apart, become one bar that counts them."""
    least = (times[1] - times[0]) / PIXELS
    bars: list[Spec] = []
    for mark in sorted(marks, key=lambda mark: mark.start):
        start, end = max(mark.start, times[0]), min(max(mark.end, mark.start + least), times[1])
        if mark.start > times[1] or mark.end < times[0]:
            continue
        if bars and start - bars[-1]["end"] < least:
            bars[-1]["end"] = max(bars[-1]["end"], end)
            bars[-1]["count"] += 1
        else:
            bars.append({"start": start, "end": end, "count": 1, "text": _text(mark)})
    return [
        {
            "start": shorten(bar["start"]),
            "end": shorten(bar["end"]),
            "text": _with_further(bar["text"], bar["count"] - 1),
        }
        for bar in bars
    ]


def _text(mark: Mark) -> str:
    start = format_value(mark.start, "s")
    if mark.end > mark.start:
        text = tr("at {time} for {length}", time=start, length=format_value(mark.end - mark.start, "s"))
    else:
        text = tr("at {time}", time=start)
    return f"{text}: {mark.text.say()}" if mark.text else text


def _with_further(text: str, number: int) -> str:
    return ntr("{event}, and {count} more", "{event}, and {count} more", number, event=text) if number else text


def marks_chart(findings: Findings, run: int, arm: str, lanes: list[str], times: tuple[float, float]) -> Chart:
    """One lane for each kind of ``lanes``, also for those that this run has none of."""
    own = [mark for mark in causes_of(findings).marks if mark.run == run]
    counts = [sum(mark.kind == kind for mark in own) for kind in lanes]
    words = [lane_word(*pair) for pair in zip(lanes, counts, strict=True)]
    bars = [merge_marks((mark for mark in own if mark.kind == kind), times) for kind in lanes]
    return Chart(
        title=tr(
            "The server’s log: {events}",
            events=", ".join(count_text(*pair) for pair in zip(lanes, counts, strict=True)),
        ),
        text=tr(
            "Events in the server's log of run {run} ({arm}): {events}.", run=run, arm=arm, events="; ".join(words)
        ),
        times=times,
        spec=draw_lanes(list(zip(words, bars, strict=True)), times),
    )


def draw_lanes(lanes: Sequence[tuple[str, list[Spec]]], times: tuple[float, float], *, titled: bool = False) -> Spec:
    """Bars of ``merge_marks`` under each other, each lane below the words that say what it is.

    ``titled``: the axes of the charts that they belong to have titles.
    """
    y = lane_channel(len(lanes), titled=titled)
    return wrap_timed(
        {
            "layer": [
                {
                    "data": {"values": [{"row": row, **bar} for row, (_, bars) in enumerate(lanes) for bar in bars]},
                    "mark": {"type": "rule", "strokeWidth": 7, "strokeCap": "butt", "yOffset": 7, "clip": True},
                    "encoding": {
                        "x": time_channel("start"),
                        "x2": {"field": "end"},
                        "y": y,
                        "tooltip": {"field": "text", "title": tr("event")},
                    },
                },
                {
                    "data": {"values": [{"row": row, "word": word} for row, (word, _) in enumerate(lanes)]},
                    **label_rows(y, field="word", dy=-6, fontSize=10),
                },
            ],
        },
        times,
        height=LANE_HEIGHT * len(lanes),
    )


def lane_word(kind: str, count: int) -> str:
    return f"{name_event_kind(kind).say()}: {count or ptr('count', 'none')}"


def count_text(kind: str, count: int) -> str:
    return f"{count} × {name_event_kind(kind).say()}" if count else tr("no {event}", event=name_event_kind(kind).say())


def checkpoint_layer(findings: Findings, run: int, times: tuple[float, float]) -> list[Spec]:
    """Pale bands where a checkpoint was at work; nothing without one."""
    bars = merge_marks(
        (mark for mark in causes_of(findings).marks if mark.run == run and mark.kind == CHECKPOINT), times
    )
    if not bars:
        return []
    return [
        {
            "data": {"values": bars},
            "mark": {"type": "rect", "color": "currentColor", "opacity": 0.1, "clip": True},
            "encoding": {
                "x": {"field": "start", "type": "quantitative"},
                "x2": {"field": "end"},
                "tooltip": {"field": "text", "title": name_event_kind(CHECKPOINT).say()},
            },
        }
    ]
