"""The charts of a page, as SVG: the report's own specifications, with colours and a width of their own."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import vl_convert

from pgtrial.findings.findings import Findings
from pgtrial.findings.over_time import Panel
from pgtrial.report.cause_words import causes_of
from pgtrial.report.charts.base import Chart
from pgtrial.report.charts.curve import curve_charts
from pgtrial.report.charts.disks import disk_charts
from pgtrial.report.charts.forest import primary_forest, scenario_forest
from pgtrial.report.charts.pages import gain_charts_by_clients, gain_charts_by_size
from pgtrial.report.charts.panels import RunPanels, largest_value, main_block, panel_chart, run_panels
from pgtrial.report.charts.picture import blocks_chart
from pgtrial.report.charts.waits import budget_charts
from pgtrial.report.charts.waterfall import waterfall_charts
from pgtrial.report.words import arm_label, placebo_arm

WIDTH = 720
INK, PAPER = "#1c2128", "#ffffff"  # an image does not know whether the page around it is light or dark
LARGEST = 150_000  # bytes of one image; a larger one is left out
_FONT = "system-ui, sans-serif"
_LEGEND_HEIGHT, _LETTER, _GAP = 20, 6.6, 26  # pixels: a line, a letter of 12 pixels on average, around a name
_REQUESTS, _RESPONSE = ": requests", ": time of a request"  # how the titles of a disk's panels end
_SIZE = re.compile(r'<svg\b[^>]*?\bwidth="(?P<width>[\d.]+)"[^>]*?\bheight="(?P<height>[\d.]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image of a page: ``title`` stands below it, ``text`` says the same to those who cannot see it."""

    name: str
    title: str
    text: str
    svg: str


def draw_charts(findings: Findings, kinds: Iterable[str]) -> list[Picture]:
    """The pictures of these kinds, as far as the findings have something to show; none above LARGEST bytes."""
    pictures = []
    for kind in kinds:
        charts = DRAWN[kind](findings)
        for number, chart in enumerate(charts, start=1):
            name = kind if len(charts) == 1 else f"{kind}-{number}"
            svg = draw(chart)
            if len(svg.encode()) <= LARGEST:
                pictures.append(Picture(name=name, title=chart.title, text=chart.text, svg=svg))
    return pictures


def draw(chart: Chart) -> str:
    """One image with its legend on top."""
    spec = {**_painted(chart.spec), "width": WIDTH, "background": PAPER, "padding": 8}
    return _add_legend(vl_convert.vegalite_to_svg(spec), chart.legend)


def _painted(value: Any) -> Any:
    """The same specification without the colours that only the report's page knows."""
    if isinstance(value, str):
        return INK if value == "currentColor" else PAPER if value.startswith("var(--surface") else value
    if isinstance(value, dict):
        return {key: _painted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_painted(item) for item in value]
    return value


def _add_legend(svg: str, legend: Iterable[tuple[str, str]]) -> str:
    """The picture below lines of coloured squares with their names; as it is without any."""
    entries = [(colour if colour != "currentColor" else INK, name) for colour, name in legend]
    size = _SIZE.search(svg)
    if not entries or size is None:
        return svg
    width, height = float(size["width"]), float(size["height"])
    parts, left, line = [], 10.0, 0
    for colour, name in entries:
        room = _GAP + _LETTER * len(name)
        if left > 10.0 and left + room > width:
            left, line = 10.0, line + 1
        top = 6 + line * _LEGEND_HEIGHT
        parts.append(
            f'<rect x="{left:.0f}" y="{top}" width="10" height="10" fill="{escape(colour)}"/>'
            f'<text x="{left + 15:.0f}" y="{top + 9}">{escape(name)}</text>'
        )
        left += room
    above = (line + 1) * _LEGEND_HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{width:g}" '
        f'height="{height + above:g}" viewBox="0 0 {width:g} {height + above:g}">'
        f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        f'<g font-family="{_FONT}" font-size="12" fill="{INK}">{"".join(parts)}</g>'
        f'<g transform="translate(0,{above})">{svg}</g></svg>'
    )


def _one(draw_one: Callable[[Findings], Chart | None]) -> Callable[[Findings], list[Chart]]:
    def charts(findings: Findings) -> list[Chart]:
        chart = draw_one(findings)
        return [] if chart is None else [chart]

    return charts


def _throughput(findings: Findings) -> list[Chart]:
    """Throughput over the time of one run of each arm but the placebo, with its dips and checkpoints."""
    placebo = placebo_arm(findings)
    return [
        _named(chart, run.title)
        for run in _main_runs(findings)
        for chart in run.charts[:1]
        if chart is not None and not (placebo and run.title.startswith(f"{placebo}: "))
    ]


def _main_runs(findings: Findings) -> list[RunPanels]:
    runs = run_panels(findings)
    return [run for run in runs if run.block == main_block(runs)]


def _gains(findings: Findings) -> list[Chart]:
    """What huge pages gain, by clients at each size of the data, and by that size over all load levels."""
    if findings.pages is None:
        return []
    return [*gain_charts_by_clients(findings, findings.pages), *gain_charts_by_size(findings, findings.pages)[:1]]


def _panels(topic: str) -> Callable[[Findings], list[Chart]]:
    """What a run of control and claim's arm has of a topic, on the same scales."""
    return lambda findings: _draw_panels(findings, _panels_of(findings, topic))


def _disk(findings: Findings) -> list[Chart]:
    """Requests per second, and the time of one, of the disk that each of the two arms asks most of."""
    panels = _panels_of(findings, "disk")
    busiest: dict[str, Panel] = {}
    for panel in panels:
        known = busiest.get(panel.arm)
        if panel.title.say().endswith(_REQUESTS) and (known is None or largest_value(panel) > largest_value(known)):
            busiest[panel.arm] = panel
    titles = {arm: panel.title.say().removesuffix(_REQUESTS) for arm, panel in busiest.items()}
    shown = [
        panel
        for panel in panels
        if panel.arm in titles and panel.title.say() in {titles[panel.arm] + kind for kind in (_REQUESTS, _RESPONSE)}
    ]
    return _draw_panels(findings, shown)


def _panels_of(findings: Findings, topic: str) -> list[Panel]:
    block = main_block(run_panels(findings))
    wanted = (findings.hypothesis.control, findings.hypothesis.arm)
    panels = [
        panel
        for panel in causes_of(findings).panels
        if panel.topic == topic and panel.block == block and panel.arm in wanted and panel.t
    ]
    return sorted(panels, key=lambda panel: (panel.title.say(), wanted.index(panel.arm)))


def _draw_panels(findings: Findings, panels: Sequence[Panel]) -> list[Chart]:
    end = max((panel.t[-1] for panel in panels), default=0.0)
    return [
        _named(panel_chart(findings, panel, (0.0, end), _top(panels, panel)), arm_label(findings, panel.arm))
        for panel in panels
    ]


def _top(panels: Iterable[Panel], like: Panel) -> float:
    return max(largest_value(panel) for panel in panels if panel.title == like.title)


def _named(chart: Chart, name: str) -> Chart:
    return replace(chart, title=f"{name}. {chart.title}")


DRAWN: Mapping[str, Callable[[Findings], list[Chart]]] = {
    "effects": _one(primary_forest),
    "scenarios": _one(scenario_forest),
    "blocks": _one(blocks_chart),
    "curve": lambda findings: curve_charts(findings)[:1],
    "budget": lambda findings: budget_charts(findings)[:1],
    "budget-by-scenario": lambda findings: [c for c in budget_charts(findings) if c.title.startswith("By scenario")],
    "difference": lambda findings: waterfall_charts(findings)[:1],
    "throughput": _throughput,
    "waits": _panels("waits"),
    "disk": _disk,
    "disk-rates": disk_charts,
    "page-gains": _gains,
    "memory": _panels("memory"),
    "write-back": _panels("write-back"),
}
