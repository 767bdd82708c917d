"""The effect on each host with its interval; below them the mean of hosts like these, and a host not tested."""

from pgtrial.findings.findings import Findings
from pgtrial.findings.hosts import Hosts
from pgtrial.findings.record import Estimate
from pgtrial.language import tr
from pgtrial.report.charts.base import (
    CANDIDATE_COLOURS,
    CONTROL_COLOUR,
    Chart,
    Spec,
    arm_colours,
    wrap_spec,
)
from pgtrial.report.charts.ratio_axis import RatioAxis, margin_bounds, ratio_fields
from pgtrial.report.words import change_and_interval, metric_label

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
        spec=_spec(rows, margin_bounds(findings), is_named=len(hosts) <= MOST_NAMED),
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
        "label": f"{name}: {change_and_interval(effect.value, effect.low, effect.high)}",
        "colour": colour,
        "shape": shape,
        "width": 3,
        **ratio_fields(effect.value, effect.low, effect.high),
    }


def _spec(rows: list[Spec], bounds: tuple[float, float], *, is_named: bool) -> Spec:
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
