"""What ran when, how throughput went from run to run, and what time was not measured load."""

from pgtrial.findings.findings import Findings, RunFinding
from pgtrial.language import ntr, ptr, tr
from pgtrial.model.run import PhaseName, RunState
from pgtrial.report.charts.base import (
    COUNT_LABEL,
    OWN_COLOUR,
    Chart,
    Spec,
    arm_colours,
    duration_label,
    place_counts,
    place_seconds,
    shorten,
    wrap_spec,
)
from pgtrial.report.terms import phase_word, state_word
from pgtrial.report.words import REQUESTS, format_metric, throughput_of
from pgtrial.units import format_duration

BAR = {"type": "bar", "height": 24, "yOffset": 4}
NOT_COUNTED = {RunState.INVALID, RunState.INTERRUPTED}


def schedule_chart(findings: Findings) -> Chart | None:
    """A Gantt chart: pale for the whole run, full for measured load, crossed out where the run does not count."""
    runs = [run for run in findings.runs if run.started is not None and run.ended is not None]
    if not runs:
        return None
    origin = min(run.started for run in runs if run.started is not None)
    end = max(run.ended for run in runs if run.ended is not None)
    ticks = place_seconds(0, end - origin)
    arms = [arm.name for arm in findings.experiment.arms]
    colours = arm_colours(findings)
    whole = [
        _bar(run, colours, metric=throughput_of(findings), start=run.started, end=run.ended, origin=origin)
        for run in runs
    ]
    measured = [
        _bar(run, colours, metric=throughput_of(findings), start=phase["start"], end=phase["end"], origin=origin)
        for run in runs
        for phase in run.phases
        if phase["name"] == PhaseName.MEASURE
    ]
    lost = [bar for bar, run in zip(whole, runs, strict=True) if run.state in NOT_COUNTED]
    x = {
        "field": "start",
        "type": "quantitative",
        "axis": {"title": tr("time since the first run began"), "labelExpr": duration_label(), "values": ticks},
        "scale": {"nice": False, "zero": True},
    }
    y = {
        "field": "arm",
        "type": "nominal",
        "sort": arms,
        "axis": {"title": None, "labelLimit": 120, "ticks": False, "grid": False},
    }
    tooltip = [
        {"field": "run", "title": tr("run")},
        {"field": "state", "title": tr("state")},
        {"field": "took", "title": ptr("tooltip", "took")},
        {"field": "tps", "title": tr("throughput")},
    ]
    span = {"x": x, "x2": {"field": "end"}, "y": y, "color": OWN_COLOUR, "tooltip": tooltip}
    return Chart(
        title=f"{_counted(len(runs), len(lost), end - origin)}; {_key(findings)}",
        text=tr(
            "Schedule of {runs} on {arms}, {lost} of them not counted; the table below has every run.",
            runs=ntr("{count} run", "{count} runs", len(runs)),
            arms=ntr("{count} arm", "{count} arms", len(arms)),
            lost=len(lost),
        ),
        spec=wrap_spec(
            {
                "layer": [
                    {"data": {"values": whole}, "mark": {**BAR, "opacity": 0.3}, "encoding": span},
                    *([{"data": {"values": measured}, "mark": BAR, "encoding": span}] if measured else []),
                    {
                        "data": {"values": whole},
                        "mark": {"type": "text", "align": "left", "baseline": "bottom", "dy": -9, "fontSize": 10},
                        "encoding": {"x": x, "y": y, "text": {"field": "block"}},
                    },
                    *(_crosses(lost, x=x, y=y, tooltip=tooltip) if lost else []),
                ],
            },
            height=46 * len(arms),
        ),
    )


def _counted(runs: int, lost: int, seconds: float) -> str:
    values = {"runs": ntr("{count} run", "{count} runs", runs), "time": format_duration(seconds)}
    if not lost:
        return tr("{runs} in {time}, none of them not counted", **values)
    return tr("{runs} in {time}, {lost} of them not counted", **values, lost=lost)


def _key(findings: Findings) -> str:
    if findings.experiment.method in ("interleaved", "switchback"):
        return tr(
            "full colour is measured load, in which the arms of a block took turns, a cross is a run that does not "
            "count, numbers are blocks"
        )
    return tr("full colour is measured load, a cross is a run that does not count, numbers are blocks")


def _crosses(lost: list[Spec], *, x: Spec, y: Spec, tooltip: list[Spec]) -> list[Spec]:
    return [
        {
            "data": {"values": lost},
            "mark": {**BAR, "fill": None, "stroke": "currentColor", "strokeDash": [3, 2]},
            "encoding": {"x": x, "x2": {"field": "end"}, "y": y, "tooltip": tooltip},
        },
        {
            "data": {"values": lost},
            "mark": {"type": "text", "text": "✘", "fontSize": 18, "yOffset": 4, "fontWeight": "bold"},
            "encoding": {"x": {**x, "field": "middle"}, "y": y, "tooltip": tooltip},
        },
    ]


def order_chart(findings: Findings) -> Chart | None:
    """Throughput of each counted run by its place in the order: drift of the machine shows as a slope in all arms."""
    counted = [run for run in findings.runs if run.state == RunState.DONE and shorten(run.tps) is not None]
    if len(counted) < 2:
        return None
    colours, metric = arm_colours(findings), throughput_of(findings)
    rows = [
        {
            "order": run.slot,
            "tps": shorten(run.tps),
            "arm": run.arm,
            "colour": colours.get(run.arm, "currentColor"),
            "text": format_metric(metric, run.tps),
            "block": run.block,
        }
        for run in counted
    ]
    return Chart(
        title=tr("Throughput of each run, in order: a slope that all arms share is drift of the machine"),
        text=tr(
            "Throughput by place in the schedule: {runs}.",
            runs="; ".join(f"{row['order']} {row['arm']} {row['text']}" for row in rows),
        ),
        legend=tuple((colour, name) for name, colour in colours.items()),
        spec=wrap_spec(
            {
                "data": {"values": rows},
                "encoding": {
                    "x": {
                        "field": "order",
                        "type": "quantitative",
                        "axis": {
                            "title": tr("place in the schedule"),
                            "grid": False,
                            "format": "d",
                            "values": place_counts(min(run.slot for run in counted), max(run.slot for run in counted)),
                        },
                        "scale": {"zero": False, "nice": False, "padding": 12},
                    },
                    "y": {
                        "field": "tps",
                        "type": "quantitative",
                        "scale": {"zero": True},
                        "axis": {"title": tr(REQUESTS[metric]), "labelExpr": COUNT_LABEL, "tickCount": 4},
                    },
                    "color": OWN_COLOUR,
                    "detail": {"field": "arm"},
                    "tooltip": [
                        {"field": "arm", "title": tr("arm")},
                        {"field": "block", "title": tr("block")},
                        {"field": "text", "title": tr("throughput")},
                    ],
                },
                "layer": [
                    {"mark": {"type": "line", "strokeWidth": 1, "opacity": 0.5}},
                    {"mark": {"type": "point", "filled": True, "size": 60, "opacity": 1}},
                ],
            },
            height=180,
        ),
    )


def _bar(
    run: RunFinding,
    colours: dict[str, str],
    *,
    metric: str,
    start: float | None,
    end: float | None,
    origin: float,
) -> Spec:
    begin, finish = (start or origin) - origin, (end or origin) - origin
    return {
        "arm": run.arm,
        "run": tr("run {run}, block {block}, attempt {attempt}", run=run.id, block=run.block, attempt=run.attempt),
        "block": run.block,
        "state": state_word(run.state) if not run.reason else f"{state_word(run.state)}: {run.reason}",
        "colour": colours.get(run.arm, "currentColor"),
        "start": round(begin, 1),
        "end": round(finish, 1),
        "middle": round((begin + finish) / 2, 1),
        "took": f"{finish - begin:.0f} {ptr('unit', 's')}",
        "tps": format_metric(metric, run.tps),
    }


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
