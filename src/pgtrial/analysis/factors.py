"""What each factor changes by itself, what two change together, and how the metric follows a numeric one.

Everything is a contrast of logarithms inside a block, so that it has one number per block, and the intervals come from
blocks as those of all effects do. A main effect is averaged over the levels of the other factors (Montgomery, Design
and Analysis of Experiments, ch. 5 and 6): beside an interaction it is the mean of different effects, and the sentence
says so. The intervals of all contrasts, slopes and pairs of levels among them, hold together (Bonferroni), and bear
what effects do (effects/contrasts.py).

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
from pgtrial.analysis.effects.comparison import compare_when_due, read_reach, value_of
from pgtrial.analysis.effects.contrasts import Borne, bear_arms, find_borne
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import STEP, Values
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
    ``read_reach``. ``lost``: blocks of which an arm came down to nothing, so that those that are left were chosen.
    """

    arms: Mapping[_Place, str]
    logs: Mapping[_Place, Array]
    blocks: tuple[int, ...]
    lost: int
    reach: float
    borne: Mapping[str, Borne]


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
    if evidence.rules.bears_alike:
        numeric = [len(each) for each in levels.values() if _read_numbers(each) is not None]
        # The slope, and pairs of levels without the base: those with it are main effects.
        contrasts += sum(1 + math.comb(count - 1, 2) for count in numeric)
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
        _curve(evidence, measured, name, levels[name], factor=factor, is_higher=is_higher, members=contrasts)
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
        reason=_why_not(evidence, measured),
    )


def _why_not(evidence: Evidence, measured: _Measured) -> Message | None:
    """Why some of it, or all, has no interval."""
    fewest, count = evidence.rules.fewest_blocks, len(measured.blocks)
    fails = tuple(arm for arm in measured.arms.values() if arm in measured.borne and measured.borne[arm].decides)
    if measured.lost:
        return message("factor.lost", count=measured.lost, of=measured.lost + count)
    if evidence.rules.bears_alike and count < fewest:
        return message("factor.few-blocks", count=count, fewest=fewest)
    return message("factor.fails", arms=fails) if fails else None


def _read(
    evidence: Evidence, values: Values, arms: Mapping[_Place, str], key: tuple[str, str | None, int | str]
) -> _Measured | None:
    """Of the blocks that have all arms; None without any."""
    rules = evidence.rules
    by_arm = {
        arm: {
            run.slot.block: value_of(evidence, values, (run.id, *key))
            if rules.bears_alike
            else values.get((run.id, *key), math.nan)
            for run in evidence.runs_of(arm)
        }
        for arm in arms.values()
    }
    complete = [block for block in evidence.complete_blocks() if all(block in found for found in by_arm.values())]
    blocks = [block for block in complete if all(found[block] > 0 for found in by_arm.values())]
    if not blocks:
        return None
    logs = {place: np.log([by_arm[arm][block] for block in blocks]) for place, arm in arms.items()}
    reach = max(read_reach(values, evidence.runs_of(arm), key, STEP) for arm in arms.values())
    return _Measured(
        arms=arms,
        logs=logs,
        blocks=tuple(blocks),
        lost=len(complete) - len(blocks) if rules.bears_alike else 0,
        reach=reach,
        borne=find_borne(evidence, values, key) if rules.bears_alike else {},
    )


def _point(evidence: Evidence, logs: Array, *, levels: tuple[str, ...]) -> LevelPoint:
    _, low, high = mean_log_interval(np.exp(logs).tolist(), confidence=evidence.confidence)
    return LevelPoint(levels=levels, value=math.exp(float(logs.mean())), low=low, high=high)


def _average(measured: _Measured, at: Mapping[int, int]) -> Array:
    """(blocks,) over all arms that have these levels of these factors."""
    chosen = [
        series for place, series in measured.logs.items() if all(place[factor] == level for factor, level in at.items())
    ]
    return np.asarray(np.mean(chosen, axis=0), dtype=np.float64)


def _share(measured: _Measured, at: Mapping[int, int], weight: float) -> dict[_Place, float]:
    """Weights of all arms that have these levels of these factors, which add up to ``weight``."""
    chosen = [place for place in measured.logs if all(place[factor] == level for factor, level in at.items())]
    return dict.fromkeys(chosen, weight / len(chosen))


def _ratio(evidence: Evidence, measured: _Measured, weights: Mapping[_Place, float], *, members: int) -> Estimate:
    """Of a contrast of logarithms, with an interval that holds for ``members`` of them together."""
    differences = np.asarray(sum(weight * measured.logs[place] for place, weight in weights.items()), dtype=np.float64)
    found = compare_when_due(
        *(evidence, np.ones(differences.size), np.exp(differences)),
        comparisons=members,
        after=None,
        blocks=measured.blocks,
    )
    arms = tuple(np.exp(each) for each in measured.logs.values())
    # As often as a ratio of two arms has what one measurement is off by.
    often = sum(map(abs, weights.values())) / 2
    found = bound_steps(found, arms, reach=measured.reach, weight=often)
    if evidence.rules.bears_alike:
        found = bear_arms(
            *(evidence, found, {measured.arms[place]: weight for place, weight in weights.items()}, measured.borne),
            log_ratios=differences,
            blocks=measured.blocks,
        )
    low, high = (None, None) if measured.lost else (found.low, found.high)
    return Estimate(value=math.exp(float(differences.mean())), low=low, high=high)


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
    weights = _share(measured, {factor: level}, 1.0) | _share(measured, {factor: 0}, -1.0)
    ratio = _ratio(evidence, measured, weights, members=members)
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
    weights = (
        _share(measured, {one: level, other: beside}, 1.0)
        | _share(measured, {one: 0, other: beside}, -1.0)
        | _share(measured, {one: level, other: 0}, -1.0)
        | _share(measured, {one: 0, other: 0}, 1.0)
    )
    ratio = _ratio(evidence, measured, weights, members=members)
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
    members: int,
) -> Curve | None:
    """None of a factor whose levels are no numbers, or too few."""
    known = _read_numbers(levels)
    if known is None:
        return None
    order = sorted(range(len(levels)), key=lambda index: known[index])
    means = [_average(measured, {factor: index}) for index in order]
    heights = [float(mean.mean()) if is_higher else -float(mean.mean()) for mean in means]
    best = max(range(len(order)), key=lambda place: heights[place])
    is_together = evidence.rules.bears_alike
    pairs = members if is_together else math.comb(len(order), 2)
    sign = 1.0 if is_higher else -1.0

    def is_beaten(place: int) -> bool:
        own = _share(measured, {factor: order[place]}, -sign)
        return any(
            _ratio(evidence, measured, own | _share(measured, {factor: other}, sign), members=pairs).side(1.0) > 0
            for other in order
            if other != order[place]
        )

    among = [levels[order[place]] for place in range(len(order)) if place == best or not is_beaten(place)]
    doublings = np.log2([known[index] for index in order]) if min(known) > 0 else None
    slope = None
    if doublings is not None:
        steps = doublings - doublings.mean()
        weights: dict[_Place, float] = {}
        for index, weight in zip(order, steps / (steps @ steps), strict=True):
            weights |= _share(measured, {factor: index}, float(weight))
        slope = _ratio(evidence, measured, weights, members=members if is_together else 1)
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


def _read_numbers(levels: Sequence[str]) -> list[float] | None:
    """None where they are no numbers, or too few."""
    known = [number for number in map(read_number, levels) if number is not None]
    return known if len(known) == len(levels) and len(set(known)) >= _FEWEST_LEVELS else None


def read_number(level: str) -> float | None:
    """A level as a number in base units: "256MB", "5min", "1.1", "20%"."""
    for read in (float, parse_bytes, parse_duration, lambda text: float(text.removesuffix("%"))):
        with suppress(ValueError):
            number = read(level)
            return number if math.isfinite(number) else None
    return None
