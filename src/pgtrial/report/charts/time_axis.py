"""The time axis that charts under each other share: the same ends, the same ticks, and the same room to its left."""

from pgtrial.report.charts.base import DURATION_LABEL, Spec, shorten
from pgtrial.report.charts.ticks import place_seconds

PANEL_HEIGHT = 96
_MARGIN = {"minExtent": 46, "maxExtent": 46}


def time_channel(field: str, times: tuple[float, float]) -> Spec:
    """Seconds since measuring began, from ``times[0]`` to ``times[1]``."""
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": list(times), "nice": False},
        "axis": {
            "title": None,
            "labelExpr": DURATION_LABEL,
            "grid": False,
            "values": place_seconds(*times),
            "labelOverlap": True,
        },
    }


def value_channel(field: str, label: str, largest: float, *, ticks: list[float] | None = None) -> Spec:
    """From zero to a little more than ``largest``; ``label`` is the expression that labels the ticks."""
    placed = {"tickCount": 3} if ticks is None else {"values": ticks}
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": [0, shorten(largest * 1.05) or 1], "nice": False},
        "axis": {"title": None, "labelExpr": label, **placed, **_MARGIN},
    }


def lane_channel(lanes: int) -> Spec:
    """Rows without labels, numbered from zero."""
    return {
        "field": "row",
        "type": "ordinal",
        "scale": {"domain": list(range(lanes))},
        "axis": {"title": None, "labels": False, "ticks": False, "grid": False, **_MARGIN},
    }
