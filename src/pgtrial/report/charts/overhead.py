"""Where the time of the runs went, by phase."""

from pgtrial.findings.findings import Findings
from pgtrial.language import tr
from pgtrial.model.run import PhaseName
from pgtrial.report.charts.axis_labels import duration_label
from pgtrial.report.charts.base import Chart, wrap_spec
from pgtrial.report.charts.ticks import place_seconds
from pgtrial.report.terms import phase_word
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
            "phase": phase_word(name),
            "seconds": round(phases[name], 2),
            "text": format_duration(phases[name]),
            "shade": 0.85 if name == PhaseName.MEASURE else 0.35,
        }
        for name in names
    ]
    longest = max(phases.values())
    y = {
        "field": "phase",
        "type": "nominal",
        "sort": list(map(phase_word, names)),
        "axis": {"title": None, "ticks": False},
    }
    x = {
        "field": "seconds",
        "type": "quantitative",
        "axis": {
            "title": tr("time in all runs that ended"),
            "labelExpr": duration_label(),
            "values": place_seconds(0, longest),
        },
        "scale": {"domain": [0, longest * 1.12], "nice": False},
    }
    return Chart(
        title=tr(
            "Of {time} in all runs, {measured} were measured load, the dark bar",
            time=format_duration(sum(phases.values())),
            measured=format_duration(phases.get(PhaseName.MEASURE, 0.0)),
        ),
        text=tr("Time by phase: {phases}.", phases="; ".join(f"{row['phase']} {row['text']}" for row in rows)),
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
