"""Metrics: the name of a measured quantity, its unit, and its better direction."""

from dataclasses import dataclass
from enum import StrEnum


class Better(StrEnum):
    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


class MetricKind(StrEnum):
    """``counter`` grows until it is reset; ``gauge`` is an instantaneous value."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A named quantity, ``source.quantity``; ``unit`` is a base unit: s, B, 1, 1/s, ratio, or "" (a count).

    Where arms are compared, values below ``floor`` count as the floor: a difference between nothing and next to nothing
    is none, and a ratio to zero does not exist.
    """

    name: str
    unit: str
    kind: MetricKind
    better: Better = Better.NEITHER
    floor: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading: ``t`` in seconds since the epoch, ``object`` names the device or the like ("" if single)."""

    t: float
    metric: str
    object: str
    value: float
