"""Intervals of several differences that hold together: what sentences about arms are asserted by.

A sentence picks, of many parts, limits or criteria, those that stand out. So their intervals share the error
probability (Bonferroni), with those of the other arms, of all looks of a rule for stopping, and of whoever looks before
the last block; as many blocks are needed as for a claim; and they bear what effects do: attempts that failed or were
cut off, and what an arm leaves for the next run or slice. ``Estimate.side`` says which of them exclude "no difference";
nothing else asserts one.
"""

import math
from collections.abc import Mapping

import numpy as np

from pgtrial.analysis.effects.attempts import find_excess
from pgtrial.analysis.effects.comparison import (
    bear_failures_of,
    bear_lost,
    bear_turns,
    blocks_of,
    compare_when_due,
    places,
    read_pairs,
)
from pgtrial.analysis.effects.contrasts import Borne, bear_arms, weigh
from pgtrial.analysis.effects.estimate import loses_more
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.findings.record import ALL, Estimate
from pgtrial.stats.base import Comparison
from pgtrial.stats.interval import NO_SPREAD, extend


def estimate_difference(
    evidence: Evidence,
    differences: Mapping[int, float],
    *,
    arm: str,
    members: int,
    over: str | None = None,
    borne: Mapping[str, Borne] | None = None,
    hidden: tuple[float, float] = (0.0, 0.0),
) -> Estimate:
    """Mean of the differences of the blocks, with an interval that holds for ``members`` statements of each arm.

    ``differences``: of the arm less the control, or less the arm ``over``, at least one, by the number of the block in
    which it is known. No interval with fewer blocks than decide a claim, nor where all agree exactly.

    The effect of the place in the block is taken out, by rules 14 of logarithms of metrics alone. Of these ``borne``
    says what their effects on each arm bear. Else failures and interruptions are bounded by the differences themselves,
    and ``hidden`` is by how much these may be lower, and higher, for what runs do not show: see ``find_hidden``.
    """
    values = np.array([*differences.values()])
    mean, size = math.fsum(values) / values.size, float(np.abs(values).max())
    is_open = not all(map(math.isfinite, hidden))
    if evidence.control is None or is_open or size == 0 or np.ptp(values) <= NO_SPREAD * size:
        return Estimate(value=mean)
    # In units of the largest one they are logarithms as those of any ratio.
    logs, blocks = values / size, [*differences]
    over = over or evidence.control.name
    runs = {(run.slot.arm, run.slot.block): run for run in evidence.valid}
    after = places(evidence, [(runs[over, block], runs[arm, block]) for block in blocks])
    comparison = compare_when_due(
        *(evidence, np.ones(values.size), np.exp(logs)),
        comparisons=evidence.comparisons * members,
        after=None if borne is None and not evidence.rules.bears_alike else after,
        blocks=blocks,
    )
    if comparison.ratio is not None:
        mean = size * math.log(comparison.ratio)
    if borne is None:
        borne = {arm: _find_borne(evidence, comparison, dict(zip(blocks, np.exp(logs), strict=True)), arm=arm)}
        hidden = (hidden[0] / size, hidden[1] / size)
    else:
        borne = {name: weigh([(1 / size, each)]) for name, each in borne.items()}
    comparison = bear_arms(
        *(evidence, extend(comparison, down=hidden[0], up=hidden[1]), {arm: 1.0, over: -1.0}, borne),
        log_ratios=logs,
        blocks=blocks,
        after=after,
    )
    if comparison.low is None or comparison.high is None:
        return Estimate(value=mean)
    return Estimate(value=mean, low=size * math.log(comparison.low), high=size * math.log(comparison.high))


def _find_borne(evidence: Evidence, comparison: Comparison, ratios: Mapping[int, float], *, arm: str) -> Borne:
    """Of attempts that failed or were cut off; ``ratios`` by block."""
    excess = find_excess(evidence, arm)
    if excess is None:
        return Borne(down=0.0, up=0.0, decides=False)
    known = [ratios.get(block) for block in blocks_of(evidence.pairs(arm))]
    down, up = bear_failures_of(evidence, comparison, arm, known, share=excess.share).hidden
    return Borne(down=down, up=up, decides=excess.decides)


def find_hidden(evidence: Evidence, values: Values, arm: str, metric: str) -> tuple[float, float]:
    """By how much an arm's log ratio to the control may be lower, and higher, for what is left behind or comes late
    where they take turns, and for what was lost of their transactions; infinite where nothing bounds that.
    """
    pairs, key = evidence.pairs(arm), (metric, None, ALL)
    control, treated = read_pairs(evidence, values, arm, key)
    comparison = compare_when_due(
        *(evidence, control, treated),
        comparisons=evidence.comparisons,
        after=places(evidence, pairs),
        blocks=blocks_of(pairs),
    )
    comparison = bear_lost(evidence, values, comparison, arm, key)
    is_open = loses_more(evidence, values, comparison, arm, key)
    return (math.inf, math.inf) if is_open else bear_turns(evidence, values, comparison, arm, metric).hidden
