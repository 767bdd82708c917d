"""Where the time of the runs went, by phase."""

from pgtrial.analysis.findings import Findings
from pgtrial.model.run import PhaseName
from pgtrial.report.charts.base import DURATION_LABEL, Chart, wrap_spec
from pgtrial.report.charts.ticks import place_seconds
from pgtrial.units import format_duration


def overhead_chart(findings: Findings) -> Chart | None:
    """One bar per phase, measured load in full colour."""
    phases = {name: seconds for name, seconds in findings.overhead.by_phase.items() if seconds > 0}
    if not phases:
        return None
    known = [phase.value for phase in PhaseName]
    names = sorted(phases, key=lambda name: known.index(name) if name in known else len(known))
    rows = [
        {
            "phase": name,
            "seconds": round(phases[name], 2),
            "text": format_duration(phases[name]),
            "shade": 0.85 if name == PhaseName.MEASURE else 0.35,
        }
        for name in names
    ]
    longest = max(phases.values())
    y = {"field": "phase", "type": "nominal", "sort": names, "axis": {"title": None, "ticks": False}}
    x = {
        "field": "seconds",
        "type": "quantitative",
        "axis": {
            "title": "time in all runs that ended",
            "labelExpr": DURATION_LABEL,
            "values": place_seconds(0, longest),
        },
        "scale": {"domain": [0, longest * 1.12], "nice": False},
    }
    return Chart(
        title=f"Of {format_duration(sum(phases.values()))} in all runs, "
        f"{format_duration(phases.get(PhaseName.MEASURE, 0.0))} were measured load, the dark bar",
        text="Time by phase: " + "; ".join(f"{row['phase']} {row['text']}" for row in rows) + ".",
        spec=wrap_spec(
            {
                "data": {"values": rows},
                "encoding": {"x": x, "y": y},
                "layer": [
                    {
                        "mark": {"type": "bar", "color": "currentColor"},
                        "encoding": {"opacity": {"field": "shade", "type": "quantitative", "scale": None}},
                    },
                    {
                        "mark": {"type": "text", "align": "left", "dx": 4},
                        "encoding": {"text": {"field": "text"}},
                    },
                ],
            },
            height=24 * len(rows),
        ),
    )
