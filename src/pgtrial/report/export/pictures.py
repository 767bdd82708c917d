"""What the charts of a spreadsheet show, as small tables from which its program draws them itself."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pgtrial.findings.findings import CurvePoint, Effect, Findings
from pgtrial.report.charts.base import arm_colours
from pgtrial.report.charts.curve import load_of
from pgtrial.report.charts.waits import OTHER_COLOUR, WAIT_COLOURS
from pgtrial.report.words import (
    ALL,
    LATENCY_METRICS,
    arm_label,
    block_numbers,
    control_of,
    effect_text,
    is_finished,
    latency_of,
    level_label,
    make_visible,
    metric_label,
    plural,
    throughput_of,
)

Number = float | None


class Shape(StrEnum):
    BARS = "bars"  # one bar for each row, from 1
    STACKED = "stacked"  # one bar for each row, of all series
    DOTS = "dots"
    LINES = "lines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A series: a value for each row, and how far its interval reaches below and above it."""

    name: str
    colour: str
    values: tuple[Number, ...]
    below: tuple[Number, ...] = ()
    above: tuple[Number, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """``at`` has a category (a text) or a place on the x axis for each row."""

    title: str
    shape: Shape
    x: str
    y: str
    at: tuple[str, ...] | tuple[float, ...]
    lines: tuple[Line, ...]
    is_log: bool = False  # the x axis


def pictures_of(findings: Findings) -> tuple[Picture, ...]:
    """Those for which there are data."""
    return tuple(picture for make in _PICTURES if (picture := make(findings)) is not None)


def _effects(findings: Findings) -> Picture | None:
    asked = findings.hypothesis
    metrics = dict.fromkeys((asked.metric, throughput_of(findings), *LATENCY_METRICS))
    effects = {
        (effect.arm, effect.metric): effect
        for effect in (*findings.effects, *findings.placebo)
        if effect.scenario is None and effect.load_level == ALL and effect.ratio is not None
    }
    shown = [metric for metric in metrics if any(key[1] == metric for key in effects)]
    if not shown:
        return None
    # That of the claim's own scenario is none of the bars.
    claimed = effects.get((asked.arm, asked.metric))
    message = f"{arm_label(findings, asked.arm)}: {metric_label(asked.metric)} {effect_text(claimed)}"
    return Picture(
        title=message,
        shape=Shape.BARS,
        x=f"ratio to {control_of(findings)} (1: no change)",
        y="",
        at=tuple(metric_label(metric) for metric in shown),
        lines=tuple(
            _effect_line(arm_label(findings, arm), colour, [effects.get((arm, metric)) for metric in shown])
            for arm, colour in arm_colours(findings).items()
            if any(key[0] == arm for key in effects)
        ),
    )


def _effect_line(name: str, colour: str, effects: Sequence[Effect | None]) -> Line:
    return Line(
        name=name,
        colour=colour,
        values=tuple(effect.ratio if effect else None for effect in effects),
        below=tuple(_less(effect.ratio, effect.low) if effect else None for effect in effects),
        above=tuple(_less(effect.high, effect.ratio) if effect else None for effect in effects),
    )


def _less(value: Number, other: Number) -> Number:
    return None if value is None or other is None else value - other


def _blocks(findings: Findings) -> Picture | None:
    asked = findings.hypothesis
    effects = [
        effect
        for effect in (*findings.effects, *findings.placebo)
        if (effect.metric, effect.scenario, effect.load_level) == (asked.metric, asked.scenario, ALL)
        and effect.block_ratios
    ]
    if not effects:
        return None
    ratios = [dict(zip(block_numbers(findings, effect), effect.block_ratios, strict=True)) for effect in effects]
    blocks = sorted({block for each in ratios for block in each})
    colours = arm_colours(findings)
    return Picture(
        title=f"Every block: {metric_label(asked.metric)} of each arm divided by {control_of(findings)}'s",
        shape=Shape.DOTS,
        x="block",
        y="ratio (1: no change)",
        at=tuple(map(float, blocks)),
        lines=tuple(
            Line(
                name=arm_label(findings, effect.arm),
                colour=colours.get(effect.arm, OTHER_COLOUR),
                values=tuple(each.get(block) for block in blocks),
            )
            for effect, each in zip(effects, ratios, strict=True)
        ),
    )


def _curve(findings: Findings, metric: str, unit: str) -> Picture | None:
    levels = findings.experiment.levels
    found: dict[tuple[str, int], CurvePoint] = {
        (point.arm, point.load_level): point
        for point in findings.curve
        if point.metric == metric and point.value is not None
    }
    if len(levels) < 2 or not found:
        return None
    return Picture(
        title=f"{metric_label(metric).capitalize()} by load, with intervals over the blocks",
        shape=Shape.LINES,
        x="arrival rate (1/s)" if any(level.rate is not None for level in levels) else "clients",
        y=f"{metric_label(metric)} ({unit})",
        at=tuple(float(load_of(level)) for level in levels),
        lines=tuple(
            _curve_line(arm_label(findings, arm), colour, [found.get((arm, level.index)) for level in levels])
            for arm, colour in arm_colours(findings).items()
            if any(key[0] == arm for key in found)
        ),
    )


def _curve_line(name: str, colour: str, points: Sequence[CurvePoint | None]) -> Line:
    return Line(
        name=name,
        colour=colour,
        values=tuple(point.value if point else None for point in points),
        below=tuple(_less(point.value, point.low) if point else None for point in points),
        above=tuple(_less(point.high, point.value) if point else None for point in points),
    )


def _throughput_curve(findings: Findings) -> Picture | None:
    return _curve(findings, throughput_of(findings), "1/s")


def _latency_curve(findings: Findings) -> Picture | None:
    return _curve(findings, latency_of(findings, "p95"), "s")


def _runs(findings: Findings) -> Picture | None:
    runs = [run for run in findings.runs if run.tps is not None and run.started is not None]
    begin = min((run.started for run in runs if run.started is not None), default=None)
    if begin is None:
        return None
    done = plural(len(runs), "run")
    return Picture(
        title=f"Throughput of each run in the order of time: {done}{'' if is_finished(findings) else ' so far'}",
        shape=Shape.DOTS,
        x="minutes since the first run began",
        y="throughput (1/s)",
        at=tuple(((run.started or begin) - begin) / 60 for run in runs),
        lines=tuple(
            Line(
                name=arm_label(findings, arm),
                colour=colour,
                values=tuple(run.tps if run.arm == arm else None for run in runs),
            )
            for arm, colour in arm_colours(findings).items()
            if any(run.arm == arm for run in runs)
        ),
    )


def _waits(findings: Findings) -> Picture | None:
    levels = findings.experiment.levels
    level = ALL if any(wait.load_level == ALL for wait in findings.waits) else levels[0].index if levels else ALL
    waits = [wait for wait in findings.waits if wait.load_level == level]
    arms = [arm.name for arm in findings.experiment.arms if any(wait.arm == arm.name for wait in waits)]
    if not arms:
        return None
    kinds = list(dict.fromkeys([*WAIT_COLOURS, *(wait.wait_type for wait in waits)]))
    return Picture(
        title=f"What active sessions do and wait for, {level_label(findings, level)}",
        shape=Shape.STACKED,
        x="average active sessions",
        y="",
        at=tuple(arm_label(findings, arm) for arm in arms),
        lines=tuple(
            Line(
                name=kind,
                colour=WAIT_COLOURS.get(kind, OTHER_COLOUR),
                values=tuple(
                    math.fsum(wait.sessions for wait in waits if (wait.arm, wait.wait_type) == (arm, kind))
                    for arm in arms
                ),
            )
            for kind in kinds
            if any(wait.wait_type == kind for wait in waits)
        ),
    )


def _latencies(findings: Findings) -> Picture | None:
    levels = {found.load_level for found in findings.distributions}
    level = ALL if ALL in levels else min(levels, default=ALL, key=str)
    found = {each.arm: each for each in findings.distributions if each.scenario is None and each.load_level == level}
    arms = [arm for arm in arm_colours(findings) if arm in found]
    places = sorted({latency for arm in arms for latency in found[arm].latency if latency > 0})
    if not places:
        return None
    shares = {arm: dict(zip(found[arm].latency, found[arm].share, strict=True)) for arm in arms}
    return Picture(
        title=f"Share of transactions that took so long or less, {level_label(findings, level)}",
        shape=Shape.LINES,
        x="latency (s)",
        y="share of transactions",
        at=tuple(places),
        lines=tuple(
            Line(
                name=arm_label(findings, arm),
                colour=arm_colours(findings)[arm],
                values=tuple(shares[arm].get(place) for place in places),
            )
            for arm in arms
        ),
        is_log=True,
    )


def shown_lines(picture: Picture) -> Iterator[tuple[str, tuple[Number, ...]]]:
    """The columns of a picture's table beside its first one: name and values."""
    for line in picture.lines:
        yield make_visible(line.name), line.values
        if line.below:
            yield f"{make_visible(line.name)}: below", line.below
            yield f"{make_visible(line.name)}: above", line.above


_PICTURES: tuple[Callable[[Findings], Picture | None], ...] = (
    _effects,
    _blocks,
    _throughput_curve,
    _latency_curve,
    _runs,
    _waits,
    _latencies,
)
