"""Associations: the rank correlations that are real, with their intervals."""

from collections.abc import Sequence

from pgtrial.findings.causes import Association
from pgtrial.language import tr
from pgtrial.report.charts.base import Chart, label_rows, shorten, wrap_spec
from pgtrial.units import format_decimal

ROW_HEIGHT = 38
MOST = 12


def association_chart(found: Sequence[Association]) -> Chart | None:
    """The strongest of ``found``, in the order given; what must go together by definition is left to the table."""
    shown = [each for each in found if each.is_real and not each.part_of and each.spearman is not None][:MOST]
    if not shown:
        return None
    rows = [
        {
            "row": number,
            "label": f"{each.first} – {each.second}: {correlation_text(each.spearman)}",
            "value": shorten(each.spearman),
            "low": shorten(each.low),
            "high": shorten(each.high),
        }
        for number, each in enumerate(shown)
    ]
    y = {"field": "row", "type": "ordinal", "axis": None}
    first = shown[0]

    def along(field: str) -> dict[str, object]:
        return {
            "field": field,
            "type": "quantitative",
            "scale": {"domain": [-1, 1]},
            "axis": {"title": tr("Spearman's ρ inside the load levels"), "values": [-1, -0.5, 0, 0.5, 1]},
        }

    return Chart(
        title=tr(
            "The strongest association is {first} with {second}, ρ = {correlation}; none of them is proof of a cause",
            first=first.first,
            second=first.second,
            correlation=correlation_text(first.spearman),
        ),
        text=tr("Rank correlations with intervals: {pairs}.", pairs="; ".join(str(row["label"]) for row in rows)),
        spec=wrap_spec(
            {
                "data": {"values": rows},
                "layer": [
                    {
                        "data": {"values": [{"none": 0}]},
                        "mark": {"type": "rule", "opacity": 0.6, "strokeDash": [4, 3]},
                        "encoding": {"x": along("none")},
                    },
                    {
                        "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
                        "mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round", "yOffset": 8, "opacity": 0.6},
                        "encoding": {"x": along("low"), "x2": {"field": "high"}, "y": y},
                    },
                    {
                        "mark": {
                            "type": "point",
                            "filled": True,
                            "size": 80,
                            "opacity": 1,
                            "yOffset": 8,
                            "color": "currentColor",
                        },
                        "encoding": {"x": along("value"), "y": y, "tooltip": {"field": "label", "title": tr("pair")}},
                    },
                    label_rows(y, dy=-8),
                ],
            },
            height=ROW_HEIGHT * len(rows),
        ),
    )


def correlation_text(value: float | None) -> str:
    """ "+0.62", "−0.30"; a dash where there is none."""
    if value is None:
        return "–"
    text = format_decimal(value, 2)
    return text if text.startswith("−") else f"+{text}"
