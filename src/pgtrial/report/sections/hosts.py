"""On which hosts does the claim hold, and what of others like them?"""

from pgtrial.findings.findings import Findings
from pgtrial.findings.questions import Hosts
from pgtrial.findings.record import Estimate, parts_of
from pgtrial.language import N_, tr
from pgtrial.report.charts.base import (
    CANDIDATE_COLOURS,
    CONTROL_COLOUR,
    Chart,
    Spec,
    arm_colours,
    wrap_spec,
)
from pgtrial.report.charts.ratio_axis import RatioAxis, margin_bounds, ratio_fields
from pgtrial.report.question_words import HOST_HEADS, host_rows, hosts_text, over_hosts_rows, prediction_text
from pgtrial.report.sections.base import Section, always
from pgtrial.report.words import change_and_interval, metric_label
from pgtrial.units import format_decimal, format_share


def _build_hosts(findings: Findings) -> dict[str, object]:
    found = findings.hosts
    return {
        "text": hosts_text(findings),
        "chart": hosts_chart(findings),
        "heads": [tr(head) for head in HOST_HEADS],
        "rows": [
            {"cells": cells, "differs": host.differs}
            for cells, host in zip(host_rows(findings), found.hosts if found else (), strict=True)
        ],
        "over": over_hosts_rows(found) if found else [],
        "prediction": prediction_text(found) if found else "",
        "method": _method(found) if found else "",
        "confidence": format_share(findings.hypothesis.confidence),
    }


def _method(found: Hosts) -> str:
    degrees = format_decimal(found.degrees, 0 if float(found.degrees).is_integer() else 1)
    if found.method == "means":
        return tr(
            "Each host's mean is one observation: Student's t with {degrees} degrees of freedom.", degrees=degrees
        )
    return tr(
        "Hosts have unequal blocks or orders: REML with the error and the {degrees} degrees of freedom of Kenward "
        "and Roger.",
        degrees=degrees,
    )


HOSTS = Section(
    name="hosts",
    title=N_("On which hosts?"),
    build=_build_hosts,
    is_shown=lambda findings: findings.hosts is not None,
    is_open=always,
)


# The chart: the effect on each host; below them the mean of hosts like these, and a host not tested.


MOST_NAMED = 60  # hosts; the rows of more are too thin for names
_ROW, _THIN_ROW = 24, 6  # px
_OVER = "currentColor"  # what is said over hosts looks like no arm
_LONGEST_NAME = 180  # px


def hosts_chart(findings: Findings) -> Chart | None:
    """Hosts from the smallest effect to the largest; None where no effect has a place on the axis."""
    found = findings.hosts
    if found is None:
        return None
    own = arm_colours(findings).get(found.arm, CONTROL_COLOUR)
    other = next(colour for colour in reversed(CANDIDATE_COLOURS) if colour != own)
    hosts = sorted(found.hosts, key=lambda host: host.effect.value)
    rows = [_row(host.host, host.effect, other if host.differs else own) for host in hosts]
    rows += _over_rows(found)
    rows = [row for row in rows if row["ratio"] or row["low"]]
    if not any(row["ratio"] for row in rows):
        return None
    metric = metric_label(found.metric)
    legend = [(own, tr("host"))]
    if any(host.differs for host in hosts):
        legend.append((other, tr("host with another effect")))
    return Chart(
        title=tr("Change of {metric} on each host, and over hosts.", metric=metric),
        text=tr(
            "Change of {metric} on each host, and over hosts: {lines}.",
            metric=metric,
            lines="; ".join(row["label"] for row in rows),
        ),
        spec=_draw(rows, margin_bounds(findings), is_named=len(hosts) <= MOST_NAMED),
        legend=tuple(legend),
    )


def _over_rows(found: Hosts) -> list[Spec]:
    rows = [_row(tr("mean of hosts like these"), found.mean, _OVER, shape="diamond")]
    if found.prediction is not None:
        rows.append({**_row(tr("a host that was not tested"), found.prediction, _OVER), "ratio": None, "width": 1.5})
    return rows


def _row(name: str, effect: Estimate, colour: str, *, shape: str = "circle") -> Spec:
    return {
        "name": name,
        "label": f"{name}: {change_and_interval(*parts_of(effect))}",
        "colour": colour,
        "shape": shape,
        "width": 3,
        **ratio_fields(*parts_of(effect)),
    }


def _draw(rows: list[Spec], bounds: tuple[float, float], *, is_named: bool) -> Spec:
    ratios = RatioAxis.around((value for row in rows for value in (row["ratio"], row["low"], row["high"])), bounds)

    def along(field: str) -> Spec:
        return ratios.channel(field, labelOverlap=True)

    def drawn(channel: str, kind: str) -> Spec:
        return {"field": channel, "type": kind, "scale": None}

    axis = {"title": None, "labelLimit": _LONGEST_NAME, "ticks": False, "labelPadding": 8} if is_named else None
    y = {"field": "name", "type": "ordinal", "sort": None, "axis": axis}
    tooltip = {"field": "label", "title": tr("effect")}
    colour = drawn("colour", "nominal")
    return wrap_spec(
        {
            "data": {"values": rows},
            "layer": [
                *ratios.margin_layers("x", labelOverlap=True),
                {
                    "transform": [{"filter": "isValid(datum.low)"}],
                    "mark": {"type": "rule", "strokeCap": "round"},
                    "encoding": {
                        "x": along("low"),
                        "x2": {"field": "high"},
                        "y": y,
                        "color": colour,
                        "strokeWidth": drawn("width", "quantitative"),
                        "tooltip": tooltip,
                    },
                },
                {
                    "transform": [{"filter": "isValid(datum.ratio)"}],
                    "mark": {"type": "point", "filled": True, "size": 90 if is_named else 30, "opacity": 1},
                    "encoding": {
                        "x": along("ratio"),
                        "y": y,
                        "color": colour,
                        "shape": drawn("shape", "nominal"),
                        "tooltip": tooltip,
                    },
                },
            ],
        },
        height=(_ROW if is_named else _THIN_ROW) * len(rows),
    )
