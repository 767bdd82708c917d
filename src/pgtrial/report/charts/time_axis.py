"""The time axis that charts under each other share: the same ends, the same ticks, and the same room to its left.

Its ends and ticks are parameters of the specification, so that the page can zoom all charts of a group at once.
"""

from collections.abc import Iterable

from pgtrial.findings.findings import Findings
from pgtrial.language import tr
from pgtrial.report.charts.axis_labels import duration_label
from pgtrial.report.charts.base import Chart, Spec, shorten, wrap_spec
from pgtrial.report.charts.ticks import place_seconds

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
