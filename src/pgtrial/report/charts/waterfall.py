"""The waterfall: the difference of the mean latency between an arm and the control, part by part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pgtrial.findings.findings import Findings
from pgtrial.findings.record import ALL, Estimate
from pgtrial.findings.session_time import BudgetDifference, BudgetPart
from pgtrial.language import ntr, tr
from pgtrial.report.cause_words import by_arm, causes_of, difference_text, levels_text
from pgtrial.report.charts.base import (
    OTHER_COLOUR,
    OWN_COLOUR,
    Chart,
    Spec,
    duration_label,
    kind_colour,
    label_rows,
    shorten,
    wrap_spec,
)
from pgtrial.report.values import format_signed
from pgtrial.report.words import part_name
from pgtrial.units import format_duration

ROW_HEIGHT = 38
MOST_NAMED = 8
LEAST_NAMED = 0.02  # of the largest part; what is smaller is collected


def waterfall_charts(findings: Findings) -> list[Chart]:
    """One chart per arm: over all load levels, or of the only one."""
    found = causes_of(findings).differences
    several = any(difference.load_level == ALL for difference in found)
    shown = [difference for difference in found if difference.load_level == ALL or not several]
    return [_waterfall(findings, each) for each in by_arm(findings, shown)]


def difference_message(findings: Findings, found: BudgetDifference) -> str:
    """The difference in one sentence, with the largest part of the same direction that is not chance."""
    where = levels_text(findings, [found.load_level])
    total, side = found.difference.value, found.side()
    if side == 0:
        return tr(
            "No clear difference of the mean latency between “{arm}” and “{control}” {where}: {difference}",
            arm=found.arm,
            control=found.control,
            where=where,
            difference=difference_text(found.difference, "s"),
        )
    if found.difference.side() != side:
        values = {"arm": found.arm, "control": found.control, "where": where}
        values["difference"] = difference_text(found.difference, "s")
        return (
            tr("A transaction of “{arm}” takes less time than one of “{control}” {where}: {difference}", **values)
            if side < 0
            else tr("A transaction of “{arm}” takes more time than one of “{control}” {where}: {difference}", **values)
        )
    values = {"arm": found.arm, "control": found.control, "where": where, "time": format_duration(abs(total))}
    text = (
        tr("A transaction of “{arm}” takes {time} less than one of “{control}” {where}", **values)
        if side < 0
        else tr("A transaction of “{arm}” takes {time} more than one of “{control}” {where}", **values)
    )
    lead = max((part for part in found.parts if part.seconds.side() == side), key=_size, default=None)
    if lead is None:
        return text
    return tr(
        "{difference}; the largest part is {part} ({time})",
        difference=text,
        part=part_name(lead.kind, lead.event),
        time=format_signed(lead.seconds.value, "s"),
    )


def name_parts(parts: tuple[BudgetPart, ...]) -> tuple[list[BudgetPart], list[BudgetPart]]:
    """The parts that are large enough for a bar of their own, largest first, and the rest."""
    ordered = sorted(parts, key=_size, reverse=True)
    least = LEAST_NAMED * _size(ordered[0]) if ordered else 0.0
    named = [part for part in ordered if _size(part) >= least and part.seconds.value != 0][:MOST_NAMED]
    if len(ordered) == len(named) + 1:  # a single one has a name as short as "1 smaller part"
        named = ordered
    return named, ordered[len(named) :]


def _size(part: BudgetPart) -> float:
    return abs(part.seconds.value)


def _waterfall(findings: Findings, found: BudgetDifference) -> Chart:
    named, rest = name_parts(found.parts)
    bars = [
        Bar(name=part_name(part.kind, part.event), colour=kind_colour(part.kind), seconds=part.seconds)
        for part in named
    ]
    if rest:
        # Intervals do not add up, so the sum of the rest has none.
        value = sum(part.seconds.value for part in rest)
        name = ntr("{count} smaller part", "{count} smaller parts", len(rest))
        bars.append(Bar(name=name, colour=OTHER_COLOUR, seconds=Estimate(value=value)))
    rows = waterfall_rows(bars, found.difference)
    return Chart(
        title=difference_message(findings, found),
        text=tr(
            "Waterfall of the difference of the mean latency, {arm} less {control}: {parts}.",
            arm=found.arm,
            control=found.control,
            parts="; ".join(row["label"] for row in rows),
        ),
        spec=waterfall_spec(rows),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A part of a difference."""

    name: str
    colour: str
    seconds: Estimate


def waterfall_rows(bars: Sequence[Bar], total: Estimate) -> list[Spec]:
    """The data of the chart: each bar begins where the one before it ends; the sum is the last row."""
    rows = []
    reached = 0.0
    for number, bar in enumerate(bars):
        rows.append(_row(number, bar.name, bar.colour, bar.seconds, start=reached))
        reached += bar.seconds.value
    return [*rows, _row(len(rows), tr("in all"), OTHER_COLOUR, total, start=0.0)]


def _row(number: int, name: str, colour: str, seconds: Estimate, *, start: float) -> Spec:
    has_range = seconds.low is not None and seconds.high is not None
    return {
        "row": number,
        "label": f"{name}: {difference_text(seconds, 's')}",
        "colour": colour,
        "start": shorten(start),
        "end": shorten(start + seconds.value),
        "low": shorten(start + seconds.low) if has_range and seconds.low is not None else None,
        "high": shorten(start + seconds.high) if has_range and seconds.high is not None else None,
    }


def waterfall_spec(rows: list[Spec]) -> Spec:
    y = {"field": "row", "type": "ordinal", "axis": None}
    tooltip = {"field": "label", "title": tr("difference")}

    def along(field: str) -> Spec:
        return {
            "field": field,
            "type": "quantitative",
            "scale": {"zero": True, "nice": False, "padding": 8},
            "axis": {"title": None, "labelExpr": duration_label(), "tickCount": 6, "labelOverlap": True},
        }

    return wrap_spec(
        {
            "data": {"values": rows},
            "layer": [
                {
                    "data": {"values": [{"none": 0}]},
                    "mark": {"type": "rule", "opacity": 0.6},
                    "encoding": {"x": along("none")},
                },
                {
                    "mark": {"type": "bar", "height": 12, "yOffset": 8},
                    "encoding": {
                        "x": along("start"),
                        "x2": {"field": "end"},
                        "y": y,
                        "color": OWN_COLOUR,
                        "tooltip": tooltip,
                    },
                },
                *interval_and_label(along, y, tooltip),
            ],
        },
        height=ROW_HEIGHT * len(rows),
    )


def interval_and_label(along: Callable[[str], Spec], y: Spec, tooltip: Spec) -> list[Spec]:
    """Layers of a row: a thin line from ``low`` to ``high`` where there are any, and above it the row's ``label``."""
    return [
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 1.5, "yOffset": 8},
            "encoding": {"x": along("low"), "x2": {"field": "high"}, "y": y, "tooltip": tooltip},
        },
        label_rows(y, dy=-8),
    ]
