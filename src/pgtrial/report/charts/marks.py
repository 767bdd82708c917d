"""What the server's log tells, on the time axis of a run: a lane for each kind of event, and bands for checkpoints."""

from collections.abc import Iterable, Sequence

from pgtrial.findings.causes import Mark
from pgtrial.findings.findings import Findings
from pgtrial.findings.naming import name_event_kind
from pgtrial.language import ntr, ptr, tr
from pgtrial.report.cause_words import causes_of, format_value
from pgtrial.report.charts.base import Chart, Spec, shorten
from pgtrial.report.charts.time_axis import lane_channel, time_channel, wrap_timed

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
                    "mark": {
                        "type": "text",
                        "align": "left",
                        "baseline": "middle",
                        "dy": -6,
                        "fontSize": 10,
                        "limit": {"expr": "width"},
                    },
                    "encoding": {"x": {"value": 2}, "y": y, "text": {"field": "word"}},
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
