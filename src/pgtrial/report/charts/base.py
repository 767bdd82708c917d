"""What all charts share: the record, the configuration, and the colours."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pgtrial.findings.findings import Findings

Spec = dict[str, Any]

# Okabe and Ito, "Color Universal Design" (2008). Yellow is last: it is weak on paper.
CONTROL_COLOUR = "#0072B2"
PLACEBO_COLOUR = "#8A8A8A"
CANDIDATE_COLOURS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#B8A800")

CONFIG: Spec = {
    "aria": False,  # the page carries the text alternative; labels on thousands of marks would only add weight
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "labelOpacity": 0.8,
        "titleOpacity": 0.8,
        "domain": False,
        "tickColor": "currentColor",
        "tickOpacity": 0.3,
        "gridColor": "currentColor",
        "gridOpacity": 0.12,
    },
    "text": {"color": "currentColor", "fontSize": 11},
    "rule": {"color": "currentColor"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """``title`` says what is seen, ``text`` the same for those who cannot see it, ``spec`` is Vega-Lite.

    ``legend`` holds (colour, name) pairs; the page draws it as text that wraps. ``times`` are the ends of the time
    axis, in seconds, of a chart that is zoomed together with others.
    """

    title: str
    text: str
    spec: Spec
    legend: tuple[tuple[str, str], ...] = ()
    times: tuple[float, float] | None = None


def wrap_spec(parts: Spec, *, height: int) -> Spec:
    """A specification as wide as its place on the page."""
    return {
        "config": CONFIG,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        **parts,
    }


def arm_colours(findings: Findings) -> dict[str, str]:
    """One colour per arm, the same in every chart. They repeat beyond six candidates; names are always shown too."""
    colours = {}
    candidates = 0
    for arm in findings.experiment.arms:
        if arm.role == "control":
            colours[arm.name] = CONTROL_COLOUR
        elif arm.role == "placebo":
            colours[arm.name] = PLACEBO_COLOUR
        else:
            colours[arm.name] = CANDIDATE_COLOURS[candidates % len(CANDIDATE_COLOURS)]
            candidates += 1
    return colours


def arm_dashes(findings: Findings) -> dict[str, list[int]]:
    """Dashes of lines that may lie on each other: the placebo's gaps let the control be seen."""
    return {arm.name: [5, 4] if arm.role == "placebo" else [1, 0] for arm in findings.experiment.arms}


def arm_legend(findings: Findings, arms: Iterable[str] | None = None) -> tuple[tuple[str, str], ...]:
    """Colour and name of the arms, in the order of the experiment; all of them by default."""
    wanted = None if arms is None else set(arms)
    return tuple((colour, name) for name, colour in arm_colours(findings).items() if wanted is None or name in wanted)


def shorten(value: float | None) -> float | None:
    """Four significant digits, enough for a pixel; what is not a number is a gap."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.4g}")


def is_plottable(value: float | None) -> bool:
    """Whether a value has a place on a log axis."""
    return value is not None and math.isfinite(value) and value > 0
