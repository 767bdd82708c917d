"""Gains from huge pages: by clients at each data size, and by data size at each load."""

from collections.abc import Sequence

from pgtrial.findings.findings import Findings
from pgtrial.findings.naming import name_data, name_gain
from pgtrial.findings.questions import DataFit, HugePageFindings, PageGain
from pgtrial.findings.record import ALL
from pgtrial.language import tr
from pgtrial.report.charts.base import (
    CANDIDATE_COLOURS,
    OWN_COLOUR,
    Chart,
    Spec,
    bytes_label,
    is_plottable,
    wrap_spec,
)
from pgtrial.report.charts.curve import load_of, load_title
from pgtrial.report.charts.ratio_axis import RatioAxis, margin_bounds, ratio_fields
from pgtrial.report.terms import decision_word
from pgtrial.report.words import level_label
from pgtrial.units import format_bytes, format_change, format_count

MOST = 6  # charts of a kind


def gain_charts_by_clients(findings: Findings, pages: HugePageFindings) -> list[Chart]:
    """One per data size, for the first few of them; none for a single load level."""
    levels = {level.index: level for level in findings.experiment.levels}
    if len(levels) < 2:
        return []
    charts = []
    for scale in list(dict.fromkeys(gain.scale for gain in pages.gains))[:MOST]:
        chosen = [gain for gain in _drawn(pages) if gain.scale == scale and gain.load_level in levels]
        points = [(gain, load_of(levels[int(gain.load_level)])) for gain in chosen]
        fit = next((fit for fit in pages.fits if fit.scale == scale), None)
        rates = any(level.rate is not None for level in levels.values())
        charts += _chart(
            findings,
            points,
            title=_title_by_clients(fit),
            axis={"title": load_title(is_open=rates), "format": "~s"},
        )
    return charts


def gain_charts_by_size(findings: Findings, pages: HugePageFindings) -> list[Chart]:
    """Over all load levels, then one per level, for the first few.

    None for a single data size, nor where arms of one size also differ in something else: no line could join them.
    """
    data = {fit.scale: fit.data for fit in pages.fits if fit.data is not None}
    cells = [(gain.page, gain.scale, gain.load_level) for gain in pages.gains]
    if len(data) < 2 or len(set(cells)) < len(cells):
        return []
    levels = list(dict.fromkeys(gain.load_level for gain in pages.gains))
    if len(findings.experiment.levels) == 1:
        levels = [ALL]
    charts = []
    for level in levels[:MOST]:
        points = [(gain, data[gain.scale]) for gain in _drawn(pages) if gain.load_level == level and gain.scale in data]
        charts += _chart(
            findings,
            points,
            title=tr("Gain from huge pages by size of the data, {where}", where=level_label(findings, level)),
            axis={"title": tr("size of the data (dashed: shared_buffers)"), "labelExpr": bytes_label()},
            is_by_size=True,
            marks=sorted({fit.shared_buffers for fit in pages.fits if fit.shared_buffers is not None}),
        )
    return charts


def _drawn(pages: HugePageFindings) -> list[PageGain]:
    return [gain for gain in pages.gains if is_plottable(gain.ratio)]


def _title_by_clients(fit: DataFit | None) -> str:
    if fit is None:
        return tr("Gain from huge pages by load")
    data = name_data(fit).say()
    if fit.fits is None:
        return tr("Gain from huge pages by load with {data}", data=data)
    if fit.fits:
        return tr("Gain from huge pages by load with {data}, which fits in shared_buffers", data=data)
    return tr("Gain from huge pages by load with {data}, which does not fit in shared_buffers", data=data)


def _chart(
    findings: Findings,
    points: Sequence[tuple[PageGain, float]],
    *,
    title: str,
    axis: Spec,
    is_by_size: bool = False,
    marks: Sequence[float] = (),
) -> list[Chart]:
    """The chart of (gain, place on the horizontal axis), or none where there is nothing to draw."""
    if not points:
        return []
    colours = _page_colours(findings)
    rows: list[Spec] = [
        {
            "page": gain.page,
            "line": gain.page if is_by_size else gain.arm,  # by size a line joins the arms of a page size
            "colour": colours[gain.page],
            "place": place,
            **ratio_fields(gain.ratio, gain.low, gain.high),
            "text": f"{gain.page}: {name_gain(gain).say()}, {decision_word(gain.decision)}",
        }
        for gain, place in points
    ]
    ratios = RatioAxis.around(
        (row[key] for row in rows for key in ("ratio", "low", "high")), margin_bounds(findings), room=0.06
    )
    x = {
        "field": "place",
        "type": "quantitative",
        "scale": {"zero": False, "padding": 16, "nice": False},
        "axis": {**axis, "values": sorted({row["place"] for row in rows}), "labelOverlap": True},
    }

    def up(field: str) -> Spec:
        return ratios.channel(field, title=tr("change of throughput"))

    band, no_effect = ratios.margin_layers("y", title=tr("change of throughput"))
    write = format_bytes if "labelExpr" in axis else format_count
    message = "; ".join(tr("{gain} at {place}", gain=row["text"], place=write(row["place"])) for row in rows)
    return [
        Chart(
            title=f"{title}: {_range_text(rows)}",
            text=f"{title}: {message}.",
            legend=tuple(
                (colours[page], tr("{size} pages", size=page)) for page in dict.fromkeys(row["page"] for row in rows)
            ),
            spec=wrap_spec(
                {
                    "layer": [
                        band,
                        {**no_effect, "mark": {"type": "rule", "opacity": 0.6}},  # dashes are for shared_buffers
                        *(
                            {
                                "data": {"values": [{"place": mark}]},
                                "mark": {"type": "rule", "strokeDash": [6, 4], "opacity": 0.8},
                                "encoding": {"x": x},
                            }
                            for mark in marks
                        ),
                        {
                            "data": {"values": rows},
                            "mark": {"type": "line", "strokeWidth": 2},
                            "encoding": {
                                "x": x,
                                "y": up("ratio"),
                                "color": OWN_COLOUR,
                                "detail": {"field": "line"},
                            },
                        },
                        {
                            "data": {"values": rows},
                            "transform": [{"filter": "isValid(datum.low)"}],
                            "mark": {"type": "rule", "strokeWidth": 2},
                            "encoding": {"x": x, "y": up("low"), "y2": {"field": "high"}, "color": OWN_COLOUR},
                        },
                        {
                            "data": {"values": rows},
                            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                            "encoding": {
                                "x": x,
                                "y": up("ratio"),
                                "color": OWN_COLOUR,
                                "tooltip": [{"field": "text", "title": tr("gain")}],
                            },
                        },
                    ],
                },
                height=240,
            ),
        )
    ]


def _range_text(rows: Sequence[Spec]) -> str:
    """ "2MB −0.3 % to +6.1 %", of each page size what its points are between."""
    told = []
    for page in dict.fromkeys(row["page"] for row in rows):
        ratios = [row["ratio"] for row in rows if row["page"] == page]
        low, high = format_change(min(ratios), *ratios), format_change(max(ratios), *ratios)
        told.append(f"{page} {low}" if low == high else tr("{page} {low} to {high}", page=page, low=low, high=high))
    return ", ".join(told)


def _page_colours(findings: Findings) -> dict[str, str]:
    """One colour per page size, the same in all of these charts."""
    sizes = dict.fromkeys(gain.page for gain in (findings.pages.gains if findings.pages else ()))
    return {page: CANDIDATE_COLOURS[place % len(CANDIDATE_COLOURS)] for place, page in enumerate(sizes)}
