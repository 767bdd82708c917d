"""What happened inside a run, second by second: throughput, and under it on the same time axis waits, devices, memory.

The charts of the runs are built row by row, so that the same quantity of all runs has the same scale and can stand in
one line on the page.
"""

from collections import Counter
from dataclasses import dataclass

from pgtrial.findings.causes import Panel
from pgtrial.findings.findings import Findings
from pgtrial.language import tr
from pgtrial.report.cause_words import causes_of, place_arm
from pgtrial.report.charts.base import Chart
from pgtrial.report.charts.marks import kinds_of, marks_chart
from pgtrial.report.charts.panel import largest_value, panel_chart
from pgtrial.report.charts.run_throughput import throughput_chart
from pgtrial.report.words import arm_label, throughput_of

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
    runs = sorted({(place_arm(findings, panel.arm), panel.block, panel.run, panel.arm) for panel in panels})
    if not runs:
        return []
    shown = {run for _, _, run, _ in runs}
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
    for _, block, run, arm in runs:
        own = {_row_of(panel): panel for panel in panels if panel.run == run}
        charts = [
            throughput_chart(findings, tps[run], times, top) if run in tps else None,
            *([marks_chart(findings, run, arm, lanes, times)] if lanes else []),
            *(panel_chart(findings, own[row], times, largest[row]) if row in own else None for row in rows),
        ]
        found.append(
            RunPanels(
                title=tr("{arm}: run {run}, block {block}", arm=arm_label(findings, arm), run=run, block=block),
                block=block,
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
