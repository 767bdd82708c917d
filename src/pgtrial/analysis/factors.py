"""What each factor changes by itself, what two change together, and how the metric follows a numeric one.

Everything is a contrast of logarithms inside a block, so that it has one number per block, and the intervals come from
blocks as those of all effects do. A main effect is averaged over the levels of the other factors (Montgomery, Design
and Analysis of Experiments, ch. 5 and 6): beside an interaction it is the mean of different effects, and the sentence
says so. The intervals of all contrasts hold together (Bonferroni).

The best level is that with the best mean. Which one really is best is among the levels of which no other one is surely
better, by intervals of all pairs that hold together (Hsu, Ann. Statist. 9 (1981) 1026-1034, by Bonferroni in place of
the exact constant).
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.effects.claim import claims_of
from pgtrial.analysis.effects.estimate import compare_when_due, read_step
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.findings.message import Message, message
from pgtrial.findings.questions import Curve, Factors, Interaction, LevelPoint, MainEffect
from pgtrial.findings.record import ALL, Estimate
from pgtrial.model.arm import Role
from pgtrial.model.metric import Better
from pgtrial.stats.interval import mean_log_interval
from pgtrial.stats.steps import bound_steps
from pgtrial.units import parse_bytes, parse_duration

Array = NDArray[np.float64]
_Place = tuple[int, ...]  # index of the level of each factor
_FEWEST_LEVELS = 3  # of a curve


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """Logarithms of the metric in each arm, (blocks,), of ``blocks``, and by how much one may be off: see
    ``read_step``.
    """

    logs: Mapping[_Place, Array]
    blocks: tuple[int, ...]
    reach: float


def describe_factors(evidence: Evidence, values: Values) -> Factors | None:
    """Of the claim's first metric over all load levels; None without factors, or where no block has all arms."""
    factors = evidence.experiment.factors
    claim = next(iter(claims_of(evidence)), None)
    arms = [arm.name for arm in evidence.arms if arm.role is not Role.PLACEBO]
    levels = {name: tuple(str(level) for level in factor.levels) for name, factor in factors.items()}
    places = list(itertools.product(*(range(len(each)) for each in levels.values())))
    if claim is None or not factors or len(places) != len(arms):
        return None
    key = (claim.metric.name, claim.scenario, ALL)
    measured = _read(evidence, values, dict(zip(places, arms, strict=True)), key)
    if measured is None:
        return None
    names = list(levels)
    contrasts = sum(len(each) - 1 for each in levels.values())
    contrasts += sum(
        (len(levels[one]) - 1) * (len(levels[other]) - 1) for one, other in itertools.combinations(names, 2)
    )
    is_higher = claim.metric.better is not Better.LOWER
    mains = tuple(
        _main(evidence, measured, names, levels, factor=factor, level=level, members=contrasts)
        for factor in range(len(names))
        for level in range(1, len(levels[names[factor]]))
    )
    interactions = tuple(
        _interaction(evidence, measured, names, levels, pair=(one, other), at=at, members=contrasts)
        for one, other in itertools.combinations(range(len(names)), 2)
        for at in itertools.product(*(range(1, len(levels[names[factor]])) for factor in (one, other)))
    )
    curves = (
        _curve(evidence, measured, name, levels[name], factor=factor, is_higher=is_higher)
        for factor, name in enumerate(names)
    )
    return Factors(
        metric=claim.metric.name,
        levels=levels,
        points=tuple(
            _point(evidence, series, levels=tuple(levels[name][at] for name, at in zip(names, place, strict=True)))
            for place, series in measured.logs.items()
        ),
        mains=mains,
        interactions=interactions,
        curves=tuple(curve for curve in curves if curve is not None),
    )


def _read(
    evidence: Evidence, values: Values, arms: Mapping[_Place, str], key: tuple[str, str | None, int | str]
) -> _Measured | None:
    """Of the blocks that have all arms; None without any, or where a run of one has no value, or none that has a ratio:
    by rules 14 its block was left out.
    """
    complete = evidence.complete_blocks()
    by_arm = {
        arm: {run.slot.block: values.get((run.id, *key), math.nan) for run in evidence.runs_of(arm)}
        for arm in arms.values()
    }
    blocks = [block for block in complete if all(by_arm[arm].get(block, math.nan) > 0 for arm in arms.values())]
    if not blocks or (evidence.rules.needs_every_value and len(blocks) < len(complete)):
        return None
    logs = {place: np.log([by_arm[arm][block] for block in blocks]) for place, arm in arms.items()}
    reach = max(read_step(values, [run.id for run in evidence.runs_of(arm)], key) for arm in arms.values())
    return _Measured(logs=logs, blocks=tuple(blocks), reach=reach)


def _point(evidence: Evidence, logs: Array, *, levels: tuple[str, ...]) -> LevelPoint:
    _, low, high = mean_log_interval(np.exp(logs).tolist(), confidence=evidence.confidence)
    return LevelPoint(levels=levels, value=math.exp(float(logs.mean())), low=low, high=high)


def _average(measured: _Measured, at: Mapping[int, int]) -> Array:
    """(blocks,) over all arms that have these levels of these factors."""
    chosen = [
        series for place, series in measured.logs.items() if all(place[factor] == level for factor, level in at.items())
    ]
    return np.asarray(np.mean(chosen, axis=0), dtype=np.float64)


def _ratio(
    evidence: Evidence, measured: _Measured, differences: Array, *, members: int, weight: float = 1.0
) -> Estimate:
    """Of differences of logarithms, (blocks,), with an interval that holds for ``members`` of them together.

    ``weight``: how often the difference has what one measurement is off by.
    """
    found = compare_when_due(
        *(evidence, np.ones(differences.size), np.exp(differences)),
        comparisons=members,
        after=None,
        blocks=measured.blocks,
    )
    arms = tuple(np.exp(each) for each in measured.logs.values())
    found = bound_steps(found, arms, reach=measured.reach, weight=weight)
    return Estimate(value=math.exp(float(differences.mean())), low=found.low, high=found.high)


def _main(
    evidence: Evidence,
    measured: _Measured,
    names: Sequence[str],
    levels: Mapping[str, tuple[str, ...]],
    *,
    factor: int,
    level: int,
    members: int,
) -> MainEffect:
    name = names[factor]
    difference = _average(measured, {factor: level}) - _average(measured, {factor: 0})
    ratio = _ratio(evidence, measured, difference, members=members)
    values = {"factor": name, "level": levels[name][level], "base": levels[name][0]}
    return MainEffect(**values, ratio=ratio, text=_tell("main", ratio, **values))


def _interaction(
    evidence: Evidence,
    measured: _Measured,
    names: Sequence[str],
    levels: Mapping[str, tuple[str, ...]],
    *,
    pair: tuple[int, int],
    at: tuple[int, ...],
    members: int,
) -> Interaction:
    """By what factor the effect of the first is larger at a level of the second than at its base level."""
    (one, other), (level, beside) = pair, at
    with_it = _average(measured, {one: level, other: beside}) - _average(measured, {one: 0, other: beside})
    without = _average(measured, {one: level, other: 0}) - _average(measured, {one: 0, other: 0})
    ratio = _ratio(evidence, measured, with_it - without, members=members, weight=2.0)
    values = {
        "factor": names[one],
        "level": levels[names[one]][level],
        "other": names[other],
        "other_level": levels[names[other]][beside],
    }
    return Interaction(**values, ratio=ratio, text=_tell("interaction", ratio, **values))


def _tell(kind: str, ratio: Estimate, **values: str) -> Message:
    side = ratio.side(1.0)
    if ratio.low is None or ratio.high is None:
        return message(f"factor.{kind}.no-interval", change=ratio.value, **values)
    ending = "unclear" if side == 0 else "clear"
    return message(f"factor.{kind}.{ending}", change=ratio.value, low=ratio.low, high=ratio.high, **values)


def _curve(
    evidence: Evidence,
    measured: _Measured,
    name: str,
    levels: tuple[str, ...],
    *,
    factor: int,
    is_higher: bool,
) -> Curve | None:
    """None of a factor whose levels are no numbers, or too few."""
    numbers = [read_number(level) for level in levels]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers) or len(set(known)) < _FEWEST_LEVELS:
        return None
    order = sorted(range(len(levels)), key=lambda index: known[index])
    means = [_average(measured, {factor: index}) for index in order]
    heights = [float(mean.mean()) if is_higher else -float(mean.mean()) for mean in means]
    best = max(range(len(order)), key=lambda place: heights[place])
    pairs = math.comb(len(order), 2)
    sign = 1.0 if is_higher else -1.0

    def is_beaten(place: int) -> bool:
        return any(
            _ratio(evidence, measured, sign * (means[other] - means[place]), members=pairs).side(1.0) > 0
            for other in range(len(order))
            if other != place
        )

    among = [levels[order[place]] for place in range(len(order)) if place == best or not is_beaten(place)]
    doublings = np.log2([known[index] for index in order]) if min(known) > 0 else None
    slope = None
    if doublings is not None:
        steps = doublings - doublings.mean()
        weights = steps / (steps @ steps)
        slope = _ratio(
            evidence, measured, weights @ np.stack(means), members=1, weight=float(np.abs(weights).sum()) / 2
        )
    text = message(
        "factor.best" if len(among) == 1 else "factor.best-among",
        factor=name,
        level=levels[order[best]],
        among=tuple(among),
        confidence=evidence.confidence,
    )
    return Curve(
        factor=name,
        points=tuple(_point(evidence, mean, levels=(levels[index],)) for mean, index in zip(means, order, strict=True)),
        best=levels[order[best]],
        among=tuple(among),
        per_doubling=slope,
        text=text,
    )


def read_number(level: str) -> float | None:
    """A level as a number in base units: "256MB", "5min", "1.1", "20%"."""
    for read in (float, parse_bytes, parse_duration, lambda text: float(text.removesuffix("%"))):
        with suppress(ValueError):
            number = read(level)
            return number if math.isfinite(number) else None
    return None
