"""The tornado: elasticities of throughput, largest first, with the rest that has not been found."""

from pgtrial.findings.message import say
from pgtrial.findings.questions import Ledger
from pgtrial.findings.record import Estimate
from pgtrial.language import tr
from pgtrial.report.charts.base import CONTROL_COLOUR, OTHER_COLOUR, OWN_COLOUR, Chart, Spec, shorten, wrap_spec
from pgtrial.report.charts.waterfall import interval_and_label
from pgtrial.units import format_decimal

ROW_HEIGHT = 38


def ledger_rows(ledger: Ledger) -> list[tuple[str, Estimate]]:
    """What was slowed, largest first; then what is missing from one, and memory, which is no part of it."""
    return [
        *((say(entry.name), entry.elasticity) for entry in ledger.entries),
        (tr("not found"), ledger.rest),
        *((tr("{memory}, not in the sum", memory=say(entry.name)), entry.elasticity) for entry in ledger.memory),
    ]


def elasticity_text(elasticity: Estimate) -> str:
    return format_decimal(elasticity.value, 2)


def interval_of(elasticity: Estimate) -> str:
    """ "0.88 to 0.97"; a dash where there is none."""
    if elasticity.low is None or elasticity.high is None:
        return "–"
    return tr("{low} to {high}", low=format_decimal(elasticity.low, 2), high=format_decimal(elasticity.high, 2))


def tornado_chart(ledger: Ledger) -> Chart:
    shown = ledger_rows(ledger)
    rows: list[Spec] = [
        {
            "row": number,
            "label": f"{name}: {elasticity_text(value)} ({interval_of(value)})",
            "colour": OTHER_COLOUR if number == len(ledger.entries) else CONTROL_COLOUR,
            "end": shorten(value.value),
            "low": shorten(value.low),
            "high": shorten(value.high),
        }
        for number, (name, value) in enumerate(shown)
    ]
    return Chart(
        title=tr("Throughput of “{arm}” in per cent for 1 % less of a time", arm=ledger.of),
        text=tr(
            "Elasticities of the throughput of {arm}: {parts}.",
            arm=ledger.of,
            parts="; ".join(str(row["label"]) for row in rows),
        ),
        spec=_spec(rows),
    )


def _spec(rows: list[Spec]) -> Spec:
    y = {"field": "row", "type": "ordinal", "axis": None}
    tooltip = {"field": "label", "title": tr("elasticity")}

    def along(field: str) -> Spec:
        return {
            "field": field,
            "type": "quantitative",
            "scale": {"zero": True, "nice": False, "padding": 8},
            "axis": {"title": None, "tickCount": 6, "labelOverlap": True},
        }

    def line(value: float, opacity: float) -> Spec:
        return {
            "data": {"values": [{"at": value}]},
            "mark": {"type": "rule", "opacity": opacity, "strokeDash": [4, 3] if value else [1, 0]},
            "encoding": {"x": along("at")},
        }

    return wrap_spec(
        {
            "data": {"values": rows},
            "layer": [
                line(0.0, 0.6),
                line(1.0, 0.4),
                {
                    "mark": {"type": "bar", "height": 12, "yOffset": 8},
                    "encoding": {
                        "x": along("end"),
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
