"""What all charts share: the specification and its frame, colours of arms, ticks and their labels."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgtrial.findings.findings import Findings
from pgtrial.findings.session_time import BLOCKED, CPU, CPU_QUEUE, IDLE_IN_TRANSACTION, OUTSIDE
from pgtrial.language import ptr

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


def label_rows(y: Spec, *, field: str = "label", **mark: Any) -> Spec:
    """A layer with a text at the left end of each row, cut where the chart ends; ``mark`` is where and how large."""
    return {
        "mark": {"type": "text", "align": "left", "baseline": "middle", **mark, "limit": {"expr": "width"}},
        "encoding": {"x": {"value": 2}, "y": y, "text": {"field": field}},
    }


# Of marks whose rows name their colour.
OWN_COLOUR: Spec = {"field": "colour", "type": "nominal", "scale": None}


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


def arm_channel(looks: Mapping[str, object], arms: Sequence[str]) -> Spec:
    """Colour or dashes of lines whose rows name their arm; ``looks`` are those of each arm."""
    return {
        "field": "arm",
        "type": "nominal",
        "scale": {"domain": list(arms), "range": [looks[arm] for arm in arms]},
        "legend": None,
    }


def shorten(value: float | None) -> float | None:
    """Four significant digits, enough for a pixel; what is not a number is a gap."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.4g}")


def is_plottable(value: float | None) -> bool:
    """Whether a value has a place on a log axis; what nothing measures, as of a damaged folder, has none."""
    return value is not None and _NEAREST_ZERO < value < 1 / _NEAREST_ZERO


_NEAREST_ZERO = 1e-100
# Changes that ticks may be apart on a short axis, as shares.
_CHANGE_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_SECONDS_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
_MOST, _MOST_BYTES = 8, 4


def place_changes(low: float, high: float) -> list[float]:
    """Ratios on a log axis from ``low`` to ``high``: even changes where it is short, round ratios where it is long."""
    if high / low <= 2:
        for step in _CHANGE_STEPS:
            first, last = math.ceil((low - 1) / step), math.floor((high - 1) / step)
            if last - first < _MOST:
                ticks = [round(1 + step * k, 6) for k in range(first, last + 1)]
                return [tick for tick in ticks if low <= tick <= high]
    finer = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7) if high / low <= 4 else (1, 1.5, 2, 3, 5, 7)
    return place_logs(low, high, factors=finer if high / low <= 12 else (1, 2, 5))


def place_logs(low: float, high: float, *, factors: tuple[float, ...] = (1, 2, 5)) -> list[float]:
    """Round numbers on a log axis; powers of ten alone where it is longer than three decades."""
    shown = factors if high / low <= 1000 else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [round(factor * 10.0**exponent, 9) for exponent in exponents for factor in shown]
    return [tick for tick in ticks if low <= tick <= high]


def place_seconds(low: float, high: float) -> list[float]:
    """Even steps that are round in seconds, minutes or hours; zero is one of them where it is inside."""
    span = high - low
    step = next(
        (step for step in _SECONDS_STEPS if span / step <= _MOST), _SECONDS_STEPS[-1] * math.ceil(span / 604800)
    )
    return [round(step * k, 6) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def place_counts(first: int, last: int) -> list[int]:
    """Whole numbers from ``first`` to ``last``, or of these the multiples of a round one."""
    powers = range(len(str(abs(last - first) + 1)))
    step = next(step for k in powers for step in (10**k, 2 * 10**k, 5 * 10**k) if (last - first) / step <= _MOST)
    return list(range(first if step == 1 else -(-first // step) * step, last + 1, step))


def place_bytes(high: float) -> list[float]:
    """Even steps from zero to ``high`` that are round in kB, MB, …, at most four of them."""
    if high <= 0:
        return [0.0]
    unit = 1024.0 ** max(0, math.floor(math.log(high, 1024)))
    factors = (factor * 10.0**exponent for exponent in range(-3, 4) for factor in (1, 2, 5))
    step = next(factor * unit for factor in factors if high / (factor * unit) < _MOST_BYTES)
    return [step * k for k in range(math.floor(high / step) + 1)]


# From counts per second, with a decimal prefix, and from shares.
COUNT_LABEL = "format(datum.value, '.3~s')"
SHARE_LABEL = "format(datum.value * 100, '.3~r') + ' %'"
_SMALL_COUNT_LABEL = "format(datum.value, datum.value < 1000 ? '.3~g' : '.3~s')"  # sessions are often less than one


def duration_label() -> str:
    """Of an axis in seconds."""
    us, ms, s = ptr("unit", "µs"), ptr("unit", "ms"), ptr("unit", "s")
    minutes, hours = ptr("unit", "min"), ptr("unit", "h")
    return (
        f"datum.value == 0 ? '0' : abs(datum.value) < 0.000999 ? format(datum.value * 1e6, '.3~r') + ' {us}'"
        f" : abs(datum.value) < 0.999 ? format(datum.value * 1e3, '.3~r') + ' {ms}'"
        f" : abs(datum.value) < 120 ? format(datum.value, '.3~r') + ' {s}'"
        f" : abs(datum.value) < 7200 ? format(datum.value / 60, '.3~r') + ' {minutes}'"
        f" : format(datum.value / 3600, '.3~r') + ' {hours}'"
    )


def bytes_label() -> str:
    """Of an axis in bytes, with PostgreSQL's units."""
    one, kilo, mega, giga = ptr("unit", "B"), ptr("unit", "kB"), ptr("unit", "MB"), ptr("unit", "GB")
    return (
        f"datum.value == 0 ? '0' : datum.value < 1024 ? format(datum.value, '.3~r') + ' {one}'"
        f" : datum.value < 1048576 ? format(datum.value / 1024, '.3~r') + ' {kilo}'"
        f" : datum.value < 1073741824 ? format(datum.value / 1048576, '.3~r') + ' {mega}'"
        f" : format(datum.value / 1073741824, '.3~r') + ' {giga}'"
    )


def value_label(unit: str) -> str:
    """Of an axis in a base unit of the findings."""
    match unit:
        case "share":
            return SHARE_LABEL
        case "s":
            return duration_label()
        case "B":
            return bytes_label()
        case "B/s":
            per_second = ptr("unit", "{size}/s").removeprefix("{size}")
            return f"datum.value == 0 ? '0' : ({bytes_label()}) + '{per_second}'"
        case _:
            return _SMALL_COUNT_LABEL


# Paul Tol's "muted" scheme, so that no type of wait looks like an arm.
WAIT_COLOURS = {
    "CPU": "#44AA99",
    "IO": "#CC6677",
    "LWLock": "#DDCC77",
    "Lock": "#882255",
    "IPC": "#AA4499",
    "Client": "#88CCEE",
    "BufferPin": "#999933",
    "Timeout": "#BBBBBB",
    "Extension": "#117733",
}
OTHER_COLOUR = "#777777"
KIND_COLOURS = {
    CPU: WAIT_COLOURS[CPU],
    CPU_QUEUE: "#6699CC",
    BLOCKED: "#EE8866",
    **WAIT_COLOURS,
    IDLE_IN_TRANSACTION: WAIT_COLOURS["Client"],  # the same to the server: it waits for the client
    OUTSIDE: "#A89F91",
}


def kind_colour(kind: str) -> str:
    return KIND_COLOURS.get(kind, OTHER_COLOUR)


def kind_rank(kind: str) -> tuple[int, str]:
    """Place of a kind in a stack and in a legend."""
    known = list(KIND_COLOURS)
    return (known.index(kind) if kind in known else len(known), kind)
