"""The axis of ratios that charts of effects share: logarithmic, the margin as a band on it, and a rule at no effect."""

from collections.abc import Iterable
from dataclasses import dataclass

from pgtrial.findings.findings import Findings
from pgtrial.model.rules import RULES
from pgtrial.report.charts.base import Spec, is_plottable, place_changes, shorten

# As units.format_change, but the tick at no effect has no sign, and there is no largest factor.
CHANGE_LABEL = (
    "abs(datum.value - 1) < 1e-9 ? '0 %'"
    " : datum.value >= 10 ? '× ' + format(datum.value, '.3~r')"
    " : (datum.value > 1 ? '+' : '−') + format(abs(datum.value - 1) * 100, '.3~r') + ' %'"
)

# On a long axis changes in percent would crowd at −100 % and run into millions.
LONG = 30
FACTOR_LABEL = "abs(datum.value - 1) < 1e-9 ? '0 %' : '× ' + format(datum.value, '.3~r')"


def margin_bounds(findings: Findings) -> tuple[float, float]:
    """Between which ratios an effect does not matter: the claim's margin, by the rules of its verdict."""
    return RULES[findings.experiment.rules].bounds(findings.hypothesis.margin)


def ratio_fields(ratio: float | None, low: float | None, high: float | None) -> Spec:
    """The data of a ratio and its interval; null where it has no place on the axis, both ends where one has none."""
    has_interval = is_plottable(low) and is_plottable(high)
    return {
        "ratio": shorten(ratio) if is_plottable(ratio) else None,
        "low": shorten(low) if has_interval else None,
        "high": shorten(high) if has_interval else None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioAxis:
    """From ``low`` to ``high``; ``bounds`` are the ends of the margin."""

    low: float
    high: float
    bounds: tuple[float, float]

    @classmethod
    def around(cls, ratios: Iterable[float | None], bounds: tuple[float, float], *, room: float = 0.04) -> "RatioAxis":
        """As long as these ratios and the margin need, and by ``room`` of its length longer at both ends."""
        ends = [ratio for ratio in ratios if ratio]
        low, high = min(*ends, *bounds), max(*ends, *bounds)
        beyond = (high / low) ** room
        return cls(low=low / beyond, high=high * beyond, bounds=bounds)

    @property
    def ticks(self) -> list[float]:
        return place_changes(self.low, self.high)

    def channel(self, field: str, **axis: object) -> Spec:
        """A field along the axis; of ``axis`` what Vega-Lite knows, without a title unless there is one."""
        label = CHANGE_LABEL if self.high / self.low <= LONG else FACTOR_LABEL
        return {
            "field": field,
            "type": "quantitative",
            "scale": {"type": "log", "domain": [self.low, self.high], "nice": False},
            "axis": {"values": self.ticks, "labelExpr": label, "title": None, **axis},
        }

    def margin_layers(self, channel: str, **axis: object) -> list[Spec]:
        """A band between the ends of the margin, and a dashed rule at no effect; ``channel`` is "x" or "y"."""
        low, high = self.bounds
        return [
            {
                "data": {"values": [{"low": low, "high": high}]},
                "mark": {"type": "rect", "color": "currentColor", "opacity": 0.09},
                "encoding": {channel: self.channel("low", **axis), f"{channel}2": {"field": "high"}},
            },
            {
                "data": {"values": [{"one": 1}]},
                "mark": {"type": "rule", "opacity": 0.6, "strokeDash": [4, 3]},
                "encoding": {channel: self.channel("one", **axis)},
            },
        ]
