"""Waits: what a transaction spends its time on, as stacked bars by arm."""

from pgtrial.findings.findings import Findings, WaitShare
from pgtrial.findings.rendering import join_and
from pgtrial.language import tr
from pgtrial.report.cause_words import format_value, lead_arms
from pgtrial.report.charts.axis_labels import duration_label
from pgtrial.report.charts.base import Chart, Spec, shorten, wrap_spec
from pgtrial.report.words import level_label, part_name
from pgtrial.units import format_decimal, format_duration

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


def wait_charts(findings: Findings) -> list[Chart]:
    """One chart over all load levels, then one per level where there are several."""
    found = {wait.load_level for wait in findings.waits}
    levels: list[int | str] = ["all"] if "all" in found else []
    if len(findings.experiment.levels) > 1 or not levels:
        levels += [level.index for level in findings.experiment.levels if level.index in found]
    charts = (_waits(findings, level) for level in levels)
    return [chart for chart in charts if chart is not None]


def _waits(findings: Findings, level: int | str) -> Chart | None:
    waits = [wait for wait in findings.waits if wait.load_level == level]
    if not waits:
        return None
    per_transaction = all(wait.seconds_per_transaction is not None for wait in waits)
    types = sorted({wait.wait_type for wait in waits}, key=_rank)
    rows = [_row(wait, types, per_transaction=per_transaction) for wait in waits]
    arms = [arm.name for arm in findings.experiment.arms if any(wait.arm == arm.name for wait in waits)]
    where = level_label(findings, level)
    title, text = _say(where, per_transaction=per_transaction)
    return Chart(
        title=": ".join(filter(None, (title, _message(findings, waits, per_transaction=per_transaction)))),
        text=text,
        legend=tuple((WAIT_COLOURS.get(name, OTHER_COLOUR), part_name(name, "")) for name in types),
        spec=wrap_spec(
            {
                "data": {"values": rows},
                "mark": {"type": "bar", "stroke": "var(--surface, white)", "strokeWidth": 0.5},
                "encoding": {
                    "y": {
                        "field": "arm",
                        "type": "nominal",
                        "sort": arms,
                        "axis": {"title": None, "labelLimit": 120, "ticks": False},
                    },
                    "x": {
                        "field": "value",
                        "type": "quantitative",
                        "stack": "zero",
                        "axis": {
                            "title": tr("time per transaction") if per_transaction else tr("sessions"),
                            **({"labelExpr": duration_label()} if per_transaction else {}),
                            "tickCount": 6,
                        },
                    },
                    "color": {"field": "colour", "type": "nominal", "scale": None},
                    "order": {"field": "rank", "type": "quantitative"},
                    "tooltip": [
                        {"field": "arm", "title": tr("arm")},
                        {"field": "type", "title": tr("wait type")},
                        {"field": "event", "title": tr("wait event")},
                        {"field": "text", "title": tr("per transaction") if per_transaction else tr("sessions")},
                    ],
                },
            },
            height=40 * len(arms),
        ),
    )


def _say(where: str, *, per_transaction: bool) -> tuple[str, str]:
    """Title and text alternative."""
    if per_transaction:
        return (
            tr("Time per transaction by wait type, {where}", where=where),
            tr(
                "Stacked bars by arm: time per transaction by wait type, {where}; the table below has the figures.",
                where=where,
            ),
        )
    return (
        tr("Active sessions by wait type, {where}", where=where),
        tr("Stacked bars by arm: active sessions by wait type, {where}; the table below has the figures.", where=where),
    )


def _message(findings: Findings, waits: list[WaitShare], *, per_transaction: bool) -> str:
    """How much the control and the claim's arm have in all, and the largest part of it."""
    words = []
    for arm in lead_arms(findings, (wait.arm for wait in waits)):
        sums: dict[str, float] = {}
        for wait in waits:
            if wait.arm == arm:
                sums[wait.wait_type] = sums.get(wait.wait_type, 0.0) + (
                    _value(wait, per_transaction=per_transaction) or 0.0
                )
        part, unit = max(sums, key=lambda kind: sums[kind]), "s" if per_transaction else "sessions"
        words.append(
            tr(
                "{time} with “{arm}” ({part}: {part_time} of it)",
                time=format_value(sum(sums.values()), unit),
                arm=arm,
                part=part_name(part, ""),
                part_time=format_value(sums[part], unit),
            )
        )
    return join_and(words)


def _value(wait: WaitShare, *, per_transaction: bool) -> float | None:
    return wait.seconds_per_transaction if per_transaction else wait.sessions


def _rank(name: str) -> tuple[int, str]:
    known = list(WAIT_COLOURS)
    return (known.index(name) if name in known else len(known), name)


def _row(wait: WaitShare, types: list[str], *, per_transaction: bool) -> Spec:
    value = _value(wait, per_transaction=per_transaction)
    return {
        "arm": wait.arm,
        "type": part_name(wait.wait_type, ""),
        "event": wait.wait_event,
        "colour": WAIT_COLOURS.get(wait.wait_type, OTHER_COLOUR),
        "rank": types.index(wait.wait_type),
        "value": shorten(value),
        "text": format_duration(value) if per_transaction and value is not None else format_decimal(wait.sessions, 2),
    }
