"""Results of this package: numbers together with the caveats that limit them."""

import math
from dataclasses import dataclass

from pgtrial.findings.caveat import CaveatFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """``low`` and ``high`` in the unit of the estimate; ``confidence`` is the level actually attained."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One arm against the control over the blocks that have both; a number that cannot be computed is None.

    ``ratio``, ``low``, ``high``, ``hodges_lehmann``, ``hl_low`` and ``hl_high`` are arm / control, dimensionless.
    ``sd_log_ratio`` is the standard deviation between blocks of log(arm / control), with ``degrees`` of freedom; the
    standard error is that by the root of ``information``, which is the number of ``blocks`` or, where the orders of the
    arms came up unequally often, less. ``position`` is what the second run of a block differs by (log ratio), where
    that is taken out of the effect. ``confidence`` holds for all ``comparisons`` of the family together: each interval
    has the level 1 - (1 - confidence) / comparisons. ``p_value`` (t) and ``p_sign_flip`` are two-sided, of this
    comparison alone; the latter is over the orders of the arms that could have been drawn. ``is_anytime``: the interval
    holds whenever one stops. ``blocks`` counts complete blocks. ``hidden`` is by how much the effect may be lower, and
    higher, because of what is not among them (log ratios, not below zero); ``low`` and ``high`` have it in them.
    ``carry_over`` is by what a run after one of the arm differs from one after the control (log ratio), where that is
    known. ``step`` is what of ``hidden`` is there because latencies were told in steps (log ratio), ``lost`` what is
    because transactions were lost. ``hosts`` is their
    number where they, and not the blocks, are the observations: ``sd_log_ratio`` is then that of a host's mean.
    """

    ratio: float | None
    low: float | None
    high: float | None
    confidence: float
    p_value: float | None
    p_sign_flip: float | None
    hodges_lehmann: float | None
    hl_low: float | None
    hl_high: float | None
    blocks: int
    sd_log_ratio: float | None
    information: float
    degrees: float
    position: float | None = None
    carry_over: float | None = None
    is_anytime: bool = False
    hidden: tuple[float, float] = (0.0, 0.0)
    step: float = 0.0
    lost: float = 0.0
    hosts: int | None = None
    comparisons: int = 1
    caveats: tuple[CaveatFinding, ...] = ()

    @property
    def alpha(self) -> float:
        """Error probability that this comparison may spend: Bonferroni's share of the family's."""
        return (1 - self.confidence) / self.comparisons

    @property
    def observations(self) -> int:
        """Of what there were so many independent ones: blocks, or hosts."""
        return self.blocks if self.hosts is None else self.hosts

    @property
    def error(self) -> float | None:
        """Standard error of the log ratio; None where the noise is not known."""
        return None if self.sd_log_ratio is None else self.sd_log_ratio / math.sqrt(self.information)
