"""The picture of the page: how often each contender raises a false alarm on each stream."""

from collections.abc import Sequence

import vl_convert

from gym.results import Results
from gym.scores import NOMINAL, exceeds

INK, PAPER = "#1c2128", "#ffffff"  # an image does not know whether the page around it is light or dark
_WITHIN, _ABOVE = "#9ecae1", ("#fdd0a2", "#fd8d3c", "#d94801")
_STEPS = (0.1, 0.3)  # between the colours of what is above nominal


def draw_alarms(results: Results, chosen: Sequence[tuple[str, int]], streams: Sequence[str]) -> str:
    """An SVG: streams down, contenders with the size at which they are shown across, in each field the per cent."""
    fields = []
    for stream in streams:
        for contender, size in chosen:
            cell = results.of(stream=stream, contender=contender).at(size=size, effect=0.0)
            if cell is None:
                continue
            share = cell.alarms / cell.experiments
            is_above = exceeds(cell.alarms, cell.experiments, NOMINAL)
            fields.append(
                {
                    "stream": stream,
                    "contender": _label(contender, size),
                    "share": f"{share:.0%}" if share >= 0.095 or share == 0 else f"{share:.1%}",
                    "colour": _ABOVE[sum(share > step for step in _STEPS)] if is_above else _WITHIN,
                    "ink": PAPER if is_above and share > _STEPS[1] else INK,
                }
            )
    axis = {"title": None, "labelColor": INK, "domain": False, "ticks": False, "labelLimit": 200}
    place = {
        "x": {
            "field": "contender",
            "type": "nominal",
            "sort": None,
            "axis": {**axis, "orient": "top", "labelAngle": -35},
        },
        "y": {"field": "stream", "type": "nominal", "sort": None, "axis": axis},
    }
    return str(
        vl_convert.vegalite_to_svg(
            {
                "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
                "data": {"values": fields},
                "width": {"step": 58},
                "height": {"step": 24},
                "background": PAPER,
                "padding": 8,
                "config": {"font": "system-ui, sans-serif", "view": {"stroke": None}},
                "encoding": place,
                "layer": [
                    {
                        "mark": {"type": "rect", "stroke": PAPER, "strokeWidth": 2},
                        "encoding": {"color": {"field": "colour", "type": "nominal", "scale": None}},
                    },
                    {
                        "mark": {"type": "text", "fontSize": 11},
                        "encoding": {
                            "text": {"field": "share", "type": "nominal"},
                            "color": {"field": "ink", "type": "nominal", "scale": None},
                        },
                    },
                ],
            }
        )
    )


def _label(contender: str, size: int) -> str:
    return f"{contender}, {size}"
