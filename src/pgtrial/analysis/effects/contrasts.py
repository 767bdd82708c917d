"""What a contrast of several arms bears, from what the effect of each against the control does.

A contrast of logarithms is a sum of these effects, each with a weight, so it may be off by the sum of what they may be
off by.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.effects.attempts import find_excess
from pgtrial.analysis.effects.comparison import (
    bear_failures_of,
    bear_lost,
    bear_turns,
    blocks_of,
    compare_when_due,
    followed,
    places,
    read_pairs,
)
from pgtrial.analysis.effects.estimate import loses_more
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.findings.caveat import is_untold
from pgtrial.stats.base import Comparison
from pgtrial.stats.carry_over import CarryOver, bound_carry_over, find_carry_over
from pgtrial.stats.interval import extend


@dataclass(frozen=True, slots=True, kw_only=True)
class Borne:
    """By how much the effect of an arm against the control may be lower, and higher, than its runs show: log ratios.

    Where it ``decides``, so much of one of them failed, or was interrupted, or so many of its transactions were lost,
    that nothing may be concluded, or nothing is known of it in some block that both have, or of what comes later than
    their turns.
    """

    down: float
    up: float
    decides: bool


def find_borne(
    evidence: Evidence, values: Values, key: tuple[str, str | None, int | str], *, floor: float = 0.0
) -> Mapping[str, Borne]:
    """By arm, of every one but the control. ``key`` as for ``read_pairs``; values below ``floor`` count as that."""
    return dict(_find_borne(evidence, values, key, floor=floor))


def _find_borne(
    evidence: Evidence, values: Values, key: tuple[str, str | None, int | str], *, floor: float
) -> Iterator[tuple[str, Borne]]:
    for arm in evidence.arms:
        pairs = evidence.pairs(arm.name)
        if arm == evidence.control or not pairs:
            continue
        control, treated = (np.maximum(side, floor) for side in read_pairs(evidence, values, arm.name, key))
        comparison = compare_when_due(
            *(evidence, control, treated),
            comparisons=evidence.comparisons,
            after=places(evidence, pairs),
            blocks=blocks_of(pairs),
        )
        comparison = bear_lost(evidence, values, comparison, arm.name, key)
        comparison = bear_turns(evidence, values, comparison, arm.name, key[0])
        excess = find_excess(evidence, arm.name)
        fails = excess is not None and excess.decides
        if excess is not None:
            ratios = [float(y / x) if x > 0 and y > 0 else None for x, y in zip(control, treated, strict=True)]
            comparison = bear_failures_of(evidence, comparison, arm.name, ratios, share=excess.share)
        down, up = comparison.hidden
        is_open = comparison.ratio is None or is_untold(comparison.caveats)  # nothing is borne, as nothing is known
        decides = is_open or fails or loses_more(evidence, values, comparison, arm.name, key)
        yield arm.name, Borne(down=down, up=up, decides=decides)


def weigh(parts: Iterable[tuple[float, Borne]]) -> Borne:
    """Of a sum of effects, each with a weight."""
    mine = tuple(parts)
    return Borne(
        down=sum(weight * each.down if weight > 0 else -weight * each.up for weight, each in mine),
        up=sum(weight * each.up if weight > 0 else -weight * each.down for weight, each in mine),
        decides=any(each.decides for _, each in mine),
    )


def bear_arms(
    evidence: Evidence,
    comparison: Comparison,
    weights: Mapping[str, float],
    borne: Mapping[str, Borne],
    *,
    log_ratios: NDArray[np.float64],
    blocks: Sequence[int],
    after: Sequence[bool] | None = None,
) -> Comparison:
    """A contrast that bears what its arms do, and what runs leave for the next one; without an interval where fewer
    blocks than decide a claim are behind it, or an arm's failures ``decides``.

    ``weights``: of the arms' logarithms, which add up to zero. log_ratios : (n,), the contrast in each of ``blocks``.
    after : (n,), whether the one of two arms ran after the other.
    """
    whole = weigh((weight, borne[arm]) for arm, weight in weights.items() if weight and arm in borne)
    if comparison.blocks < evidence.rules.fewest_blocks or whole.decides:
        return replace(comparison, low=None, high=None)
    if evidence.rules.bears_carry_over and not any(run.slices for run in evidence.valid):
        left = read_own_carry_over(evidence, weights, log_ratios, blocks, after)
        comparison = bound_carry_over(comparison, left)
    return extend(comparison, down=whole.down, up=whole.up)


def read_own_carry_over(
    evidence: Evidence,
    weights: Mapping[str, float],
    logs: NDArray[np.float64],
    blocks: Sequence[int],
    after: Sequence[bool] | None = None,
) -> CarryOver | None:
    """What runs leave for the next one in a sum of arms' logarithms, each with its weight; (n,), in each of ``blocks``.

    after : (n,), whether the one of two arms ran after the other. None where the blocks do not tell.
    """
    before = followed(evidence, weights)
    return find_carry_over(
        logs, np.array(after or [False] * len(blocks)), np.array([before[block] for block in blocks])
    )
