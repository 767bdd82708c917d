"""What factors do, as data: main effects, interactions, and how a metric follows the levels of a numeric factor.

Ratios are dimensionless: 1.05 is 5 % more. Means are in the metric's base unit.
"""

from pgtrial.findings.message import Message
from pgtrial.findings.record import Estimate, Record


class LevelPoint(Record):
    """Geometric mean over the blocks with a t interval; null with fewer than two blocks."""

    levels: tuple[str, ...]  # of each factor, in their order; of a curve that of its factor alone
    value: float
    low: float | None
    high: float | None


class MainEffect(Record):
    """A level of a factor against its first one, averaged over the levels of the others."""

    factor: str
    level: str
    base: str
    ratio: Estimate  # with an interval that holds together with those of all main effects and interactions
    text: Message


class Interaction(Record):
    """The effect of a factor at a level of another one, divided by its effect at the other's first level."""

    factor: str
    level: str
    other: str
    other_level: str
    ratio: Estimate  # 1: each does what it does by itself
    text: Message


class Curve(Record):
    """A metric by the levels of a numeric factor, ascending, averaged over the levels of the others."""

    factor: str
    points: tuple[LevelPoint, ...]
    best: str  # level with the best mean
    among: tuple[str, ...]  # levels among which the best one is, with the confidence of the experiment
    per_doubling: Estimate | None  # ratio per doubling of the level, of a straight line; null where a level is zero
    text: Message


class Factors(Record):
    metric: str
    levels: dict[str, tuple[str, ...]]  # of each factor, the control's first
    points: tuple[LevelPoint, ...]  # of each arm
    mains: tuple[MainEffect, ...]
    interactions: tuple[Interaction, ...]
    curves: tuple[Curve, ...]
