"""The rate of each arm's disk by load level, beside the limits that are declared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgtrial.findings.findings import Findings
from pgtrial.findings.record import Estimate
from pgtrial.findings.storage import DiskStanding, DiskUse
from pgtrial.language import N_, tr
from pgtrial.report.cause_words import causes_of
from pgtrial.report.charts.base import (
    COUNT_LABEL,
    OWN_COLOUR,
    Chart,
    Spec,
    arm_colours,
    bytes_label,
    place_bytes,
    shorten,
    wrap_spec,
)
from pgtrial.report.charts.curve import load_of, load_title, points_text
from pgtrial.report.terms import standing_word
from pgtrial.report.values import format_value
from pgtrial.report.words import arm_label, level_label


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rate:
    """What is drawn: how it is called, the rate of a load level, and the key of its declared limit."""

    what: str
    title: str  # of its axis
    unit: str
    name: str
    key: str


_RATES = (
    _Rate(what=N_("reads"), title=N_("reads per second"), unit="1/s", name="reads", key="read_iops"),
    _Rate(what=N_("writes"), title=N_("writes per second"), unit="1/s", name="writes", key="write_iops"),
    _Rate(what=N_("bytes read"), title=N_("bytes read per second"), unit="B/s", name="read_bytes", key="read_bytes"),
    _Rate(
        what=N_("bytes written"),
        title=N_("bytes written per second"),
        unit="B/s",
        name="write_bytes",
        key="write_bytes",
    ),
)
_WORTH = 0.2  # of the requests, or of its limit, from which on a rate is drawn


def disk_charts(findings: Findings) -> list[Chart]:
    """One chart per rate that some arm has a limit for and comes near, or that makes up a good part of its requests."""
    uses = [use for use in causes_of(findings).disks if use.levels]
    charts = []
    for rate in _RATES:
        chosen = [use for use in uses if _is_near(use, rate) or (rate.unit == "1/s" and _is_large(use, rate.name))]
        if chosen:
            charts.append(_chart(findings, chosen, rate))
    return charts


def _is_near(use: DiskUse, rate: _Rate) -> bool:
    highest = max(_value(getattr(load, rate.name)) for load in use.levels)
    return rate.key in use.declared and highest >= _WORTH * use.declared[rate.key]


def _is_large(use: DiskUse, name: str) -> bool:
    other = "writes" if name == "reads" else "reads"
    mine, theirs = (sum(_value(getattr(load, each)) for load in use.levels) for each in (name, other))
    return mine > 0 and mine >= _WORTH * (mine + theirs)


def _value(estimate: Estimate | None) -> float:
    return estimate.value if estimate is not None else 0.0


def _chart(findings: Findings, uses: Sequence[DiskUse], rate: _Rate) -> Chart:
    colours = arm_colours(findings)
    rows = [row for use in uses for row in _rows(findings, use, rate)]
    limits: list[Spec] = [
        {
            "limit": shorten(use.declared[rate.key]),
            "colour": colours.get(use.arm, "currentColor"),
            "text": tr(
                "declared for {arm}: {limit}",
                arm=arm_label(findings, use.arm),
                limit=format_value(use.declared[rate.key], rate.unit),
            ),
        }
        for use in uses
        if rate.key in use.declared
    ]
    held = list(dict.fromkeys(row["arm"] for row in rows if row["shape"] == "square"))
    points = [points_text(rows)] if rows else []
    return Chart(
        title=_title(tr(rate.title), held),
        text=tr(
            "{rate} of the disk: {points}.",
            rate=tr(rate.title),
            points="; ".join([*points, *(limit["text"] for limit in limits)]),
        ),
        legend=tuple((colours.get(use.arm, "currentColor"), arm_label(findings, use.arm)) for use in uses),
        spec=_spec(
            rows,
            limits,
            rate,
            load=load_title(is_open=any(level.rate is not None for level in findings.experiment.levels)),
        ),
    )


def _title(rate: str, held: Sequence[str]) -> str:
    begin = f"{rate[:1].upper()}{rate[1:]}"
    if not held:
        return tr("{rate} of the disk by load level: none at a limit", rate=begin)
    arms = ", ".join(tr("“{arm}”", arm=arm) for arm in held)
    return tr("{rate} of the disk by load level: {arms} at a limit", rate=begin, arms=arms)


def _rows(findings: Findings, use: DiskUse, drawn: _Rate) -> Iterator[Spec]:
    """A point per load level of which the rate is known."""
    levels = {level.index: level for level in findings.experiment.levels}
    for load in use.levels:
        rate: Estimate | None = getattr(load, drawn.name)
        if rate is None or shorten(rate.value) is None or load.load_level not in levels:
            continue
        yield {
            "arm": arm_label(findings, use.arm),
            "colour": arm_colours(findings).get(use.arm, "currentColor"),
            "load": load_of(levels[load.load_level]),
            "level": level_label(findings, load.load_level),
            "value": shorten(rate.value),
            "low": shorten(rate.low),
            "high": shorten(rate.high),
            "shape": "square" if load.standing is DiskStanding.AT_LIMIT else "circle",
            "text": f"{format_value(rate.value, drawn.unit)}, {standing_word(load.standing)}",
        }


def _spec(rows: Sequence[Spec], limits: Sequence[Spec], rate: _Rate, *, load: str) -> Spec:
    # The plot reaches a little above the highest line, so that a limit is not taken for its frame.
    top = 1.1 * (max([*(row["value"] for row in rows), *(each["limit"] for each in limits)], default=0.0) or 1.0)
    axis: Spec = {"labelExpr": COUNT_LABEL, "tickCount": 5}
    if rate.unit == "B/s":
        axis = {"labelExpr": bytes_label(), "values": place_bytes(top)}
    y = {
        "type": "quantitative",
        "scale": {"domain": [0, top], "nice": False},
        "axis": {"title": tr(rate.title), **axis},
    }
    places = sorted({row["load"] for row in rows})
    x = {
        "field": "load",
        "type": "quantitative",
        "scale": {"zero": False, "padding": 16, "nice": False},
        "axis": {"title": load, "values": places, "format": "~s", "labelOverlap": True},
    }
    point = {"x": x, "y": {**y, "field": "value"}, "color": OWN_COLOUR}
    return wrap_spec(
        {
            "layer": [
                {
                    "data": {"values": list(limits)},
                    "mark": {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 1.5},
                    "encoding": {
                        "y": {**y, "field": "limit"},
                        "color": OWN_COLOUR,
                        "tooltip": [{"field": "text", "title": tr("limit")}],
                    },
                },
                {
                    "data": {"values": list(rows)},
                    "mark": {"type": "line", "strokeWidth": 2},
                    "encoding": {**point, "detail": {"field": "arm"}},
                },
                {
                    "data": {"values": list(rows)},
                    "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": OWN_COLOUR},
                },
                {
                    "data": {"values": list(rows)},
                    "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                    "encoding": {
                        **point,
                        "shape": {"field": "shape", "type": "nominal", "scale": None},
                        "tooltip": [
                            {"field": "arm", "title": tr("arm")},
                            {"field": "level", "title": tr("load")},
                            {"field": "text", "title": tr(rate.what)},
                        ],
                    },
                },
            ],
        },
        height=240,
    )
