"""Possible outcomes for an effect and a hypothesis."""

from enum import StrEnum


class Decision(StrEnum):
    """Outcome for one effect: the interval lies wholly beyond the margin, wholly inside it, or neither."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


class Verdict(StrEnum):
    """Outcome for the hypothesis; ``invalid`` if the runs cannot answer it."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
