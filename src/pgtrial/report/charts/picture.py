"""The effect in one picture, and every block of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from pgtrial.findings.findings import Effect, Findings
from pgtrial.language import ptr, tr
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.charts.base import (
    OWN_COLOUR,
    Chart,
    Spec,
    arm_colours,
    arm_legend,
    is_plottable,
    place_counts,
    shorten,
    wrap_spec,
)
from pgtrial.report.charts.ratio_axis import RatioAxis, margin_bounds
from pgtrial.report.terms import claim_word, decision_word
from pgtrial.report.words import (
    arm_label,
    block_numbers,
    change_and_interval,
    change_text,
    interval_text,
    judged_of,
    metric_label,
    placebo_effect,
    primary_effect,
    why_no_interval,
)
from pgtrial.units import format_change, format_share

MOST_TICKS = 5  # have room on a phone
ROOM = 0.06  # of the width, beyond both ends
_EXTENT = 40  # px, of the labels beside the blocks


def blocks_chart(findings: Findings) -> Chart | None:
    """The claim's arm and the placebo side by side, each block one dot; None without a ratio."""
    effects = [effect for effect in (primary_effect(findings), placebo_effect(findings)) if effect is not None]
    rows = [row for effect in effects for row in _rows(findings, effect)]
    if not rows:
        return None
    places = [row["place"] for row in rows]
    axis = RatioAxis.around((row["ratio"] for row in rows), margin_bounds(findings), room=ROOM)
    subject = metric_label(findings.hypothesis.metric, findings.hypothesis.scenario)

    def up(field: str) -> Spec:
        return axis.channel(field, minExtent=_EXTENT)

    return Chart(
        title=tr(
            "Each block alone: {metric} of “{arm}” against “{control}” changes by {range}; the lines are the estimates "
            "from all blocks",
            metric=subject,
            arm=effects[0].arm,
            control=findings.hypothesis.control,
            range=_range_text(findings, effects[0]),
        ),
        text=tr("Change of {metric} by block: {blocks}.", metric=subject, blocks="; ".join(map(_block_text, rows))),
        legend=arm_legend(findings, (effect.arm for effect in effects)),
        spec=wrap_spec(
            {
                "layer": [
                    *axis.margin_layers("y", minExtent=_EXTENT),
                    {
                        "data": {
                            "values": [
                                {"ratio": shorten(effect.ratio), "colour": arm_colours(findings).get(effect.arm)}
                                for effect in effects
                                if is_plottable(effect.ratio)
                            ]
                        },
                        "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
                        "encoding": {"y": up("ratio"), "color": OWN_COLOUR},
                    },
                    {
                        "data": {"values": rows},
                        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.9},
                        "encoding": {
                            "x": {
                                "field": "place",
                                "type": "quantitative",
                                "axis": {
                                    "title": tr("block"),
                                    "grid": False,
                                    "format": "d",
                                    "values": place_counts(min(places), max(places)),
                                },
                                "scale": {"zero": False, "nice": False, "padding": 16},
                            },
                            "y": up("ratio"),
                            "color": OWN_COLOUR,
                            "tooltip": [
                                {"field": "arm", "title": tr("arm")},
                                {"field": "place", "title": tr("block")},
                                {"field": "text", "title": ptr("tooltip", "text")},
                            ],
                        },
                    },
                ],
            },
            height=200,
        ),
    )


def _block_text(row: Spec) -> str:
    return tr("{arm} block {block} {change}", arm=row["arm"], block=row["place"], change=row["text"])


def _range_text(findings: Findings, effect: Effect) -> str:
    ratios = [row["ratio"] for row in _rows(findings, effect)]
    return interval_text(min(ratios), max(ratios)) if ratios else tr("nothing known")


def _rows(findings: Findings, effect: Effect) -> list[Spec]:
    """Blocks with a ratio, by their numbers in the schedule."""
    return [
        {
            "arm": effect.arm,
            "colour": arm_colours(findings).get(effect.arm, "currentColor"),
            "place": place,
            "ratio": shorten(ratio),
            "text": change_text(ratio, *effect.block_ratios),
        }
        for place, ratio in zip(block_numbers(findings, effect), effect.block_ratios, strict=True)
        if is_plottable(ratio)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRow:
    """An effect: ``place`` of the estimate, ``low`` and ``high`` of its interval; None without one."""

    label: str
    change: str
    colour: str
    place: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectPicture:
    """All places are in percent of the width; ``band`` is the margin, ``none`` the place of no effect."""

    title: str
    text: str
    rows: tuple[PictureRow, ...]
    band: tuple[float, float]
    none: float
    ticks: tuple[tuple[float, str], ...]
    left: str
    right: str


def effect_picture(findings: Findings) -> EffectPicture | None:
    """None where the claim's effect was not measured."""
    primary, placebo = primary_effect(findings), placebo_effect(findings)
    if primary is None or not is_plottable(primary.ratio):
        return None
    shown = [effect for effect in (primary, placebo) if effect is not None and is_plottable(effect.ratio)]
    margin, bounds = findings.hypothesis.margin, margin_bounds(findings)
    axis = RatioAxis.around((end for effect in shown for end in (effect.ratio, *_interval(effect))), bounds, room=ROOM)

    def place(ratio: float) -> float:
        return round(100 * math.log(ratio / axis.low) / math.log(axis.high / axis.low), 2)

    left, right = _sides(primary.better)
    changes = (
        tr("{arm} {change}", arm=arm_label(findings, effect.arm), change=_change_text(effect)) for effect in shown
    )
    return EffectPicture(
        title=_title(findings, primary, margin),
        text=tr(
            "Change of {metric} against {control}: {changes}. The margin is ±{margin}.",
            metric=metric_label(findings.hypothesis.metric, findings.hypothesis.scenario),
            control=findings.hypothesis.control,
            changes="; ".join(changes),
            margin=format_share(margin),
        ),
        rows=tuple(_row(findings, effect, place) for effect in shown),
        band=(place(bounds[0]), place(bounds[1])),
        none=place(1),
        ticks=tuple((place(tick), _tick_text(tick)) for tick in _thin(axis.ticks)),
        left=left,
        right=right,
    )


def _sides(better: str) -> tuple[str, str]:
    """What a change to the left and to the right means."""
    match better:
        case "higher":
            return decision_word(Decision.WORSE), decision_word(Decision.BETTER)
        case "lower":
            return decision_word(Decision.BETTER), decision_word(Decision.WORSE)
        case _:
            return ptr("change", "less"), ptr("change", "more")


def _title(findings: Findings, primary: Effect, margin: float) -> str:
    """Where the interval lies, in a sentence; of runs that cannot answer it says nothing."""
    values = {"arm": primary.arm, "margin": f"±{format_share(margin)}"}
    # Of a claim of several metrics what is said of this one, which may be another thing than the whole.
    expect, verdict = judged_of(findings, primary) or ("", Verdict.INCONCLUSIVE)
    if findings.hypothesis.verdict is Verdict.INVALID:
        return tr("The verdict is invalid: what these runs show of “{arm}” cannot be relied on", arm=primary.arm)
    if primary.low is None or primary.high is None:
        return tr("The change of “{arm}” has no interval: {why}", arm=primary.arm, why=why_no_interval(primary))
    if verdict is Verdict.INCONCLUSIVE and primary.decision is not Decision.INCONCLUSIVE:
        return tr(
            "The interval of “{arm}” alone would say “{word}”, but these runs do not allow a verdict",
            arm=primary.arm,
            word=decision_word(primary.decision),
        )
    match primary.decision:
        case Decision.BETTER:
            return tr(
                "“{arm}” is better by more than the margin of {margin}: its whole interval lies beyond it", **values
            )
        case Decision.WORSE:
            return tr(
                "“{arm}” is worse by more than the margin of {margin}: its whole interval lies beyond it", **values
            )
        case Decision.EQUIVALENT:
            return tr("“{arm}” differs by less than the margin of {margin}", **values)
        case _ if word := claim_word(expect, verdict):
            return tr(
                "“{arm}” is {word} by more than the margin of {margin}: its interval does not reach that end",
                word=word,
                **values,
            )
        case _:
            return tr("The interval of “{arm}” reaches across an end of the margin of {margin}", **values)


def _row(findings: Findings, effect: Effect, place: Callable[[float], float]) -> PictureRow:
    low, high = _interval(effect)
    return PictureRow(
        label=arm_label(findings, effect.arm),
        change=_change_text(effect),
        colour=arm_colours(findings).get(effect.arm, "currentColor"),
        place=place(effect.ratio or 1),
        low=None if low is None else place(low),
        high=None if high is None else place(high),
    )


def _interval(effect: Effect) -> tuple[float | None, float | None]:
    """Both ends of the interval, or neither."""
    if is_plottable(effect.low) and is_plottable(effect.high):
        return effect.low, effect.high
    return None, None


def _change_text(effect: Effect) -> str:
    if effect.low is None or effect.high is None:
        return tr("{change}, without an interval", change=change_text(effect.ratio, effect.low, effect.high))
    return change_and_interval(effect.ratio, effect.low, effect.high)


def _thin(ticks: list[float]) -> list[float]:
    """Every second tick, and again, until few enough are left; that of no effect stays."""
    while len(ticks) > MOST_TICKS:
        kept = ticks.index(1) % 2 if 1 in ticks else 0
        ticks = ticks[kept::2]
    return ticks


def _tick_text(ratio: float) -> str:
    """As the axes of the other charts: "0 %", "+10 %", "× 12"."""
    if ratio == 1:
        return "0 %"
    if ratio >= 10:
        return format_change(ratio)
    return f"{'+' if ratio > 1 else '−'}{format_share(abs(ratio - 1))}"
