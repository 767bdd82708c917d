"""How long until an experiment that looks as it goes will end: the first look that is enough for its purpose."""

import math
from collections.abc import Sequence
from dataclasses import replace

from pgtrial.model.metric import Better
from pgtrial.stats.base import Comparison
from pgtrial.stats.interval import NO_SPREAD, t_interval
from pgtrial.stats.power import Needed, blocks_needed

# (number of blocks, confidence of its intervals as nominal_confidence gives it) of a look
Look = tuple[int, float]


def blocks_to_decision(
    comparison: Comparison,
    *,
    looks: Sequence[Look],
    expect: str,
    margin: float,
    better: Better,
    power: float = 0.8,
) -> Needed:
    """Further blocks to the first of ``looks`` that decides the claim with probability ``power``.

    looks : those still to come, in order. It takes the observed effect and standard deviation for the true ones, and
    the blocks that are done for blocks that could still come out otherwise: a rough number, the more so the fewer
    blocks there are. Out of reach: no look is enough.
    """
    for blocks, confidence in looks:
        needed = blocks_needed(
            replace(comparison, confidence=confidence),
            expect=expect,
            margin=margin,
            better=better,
            power=power,
            cap=blocks,
        )
        # Reachable without a number of blocks: what is there would be enough at this look's level.
        if needed.reachable and comparison.blocks + (needed.blocks or 0) <= blocks:
            return Needed(blocks=blocks - comparison.blocks, reachable=True)
    return Needed(blocks=None, reachable=False)


def blocks_to_precision(
    sd_log: float | None, *, blocks: int, looks: Sequence[int], confidence: float, half_width: float
) -> Needed:
    """Further blocks to the first of ``looks`` at which half the interval, on the log scale, is ``half_width``.

    sd_log : standard deviation between blocks of the log ratio after ``blocks`` blocks, taken for the true one. Out of
    reach when it is not known or zero, or when no look is enough.
    """
    if sd_log is None or sd_log <= NO_SPREAD:
        return Needed(blocks=None, reachable=False)
    for look in looks:
        if t_interval(0.0, sd_log, look, confidence=confidence).high <= half_width:
            return Needed(blocks=look - blocks, reachable=True)
    return Needed(blocks=None, reachable=False)


def half_width(comparison: Comparison) -> float | None:
    """Half the interval on the log scale; None without an interval."""
    if comparison.low is None or comparison.high is None:
        return None
    return (math.log(comparison.high) - math.log(comparison.low)) / 2
