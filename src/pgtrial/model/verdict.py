"""What an effect and a hypothesis can come to."""

from enum import StrEnum


class Decision(StrEnum):
    """About one effect: the interval lies wholly beyond the margin, or wholly inside it, or neither."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


class Verdict(StrEnum):
    """About the hypothesis; ``invalid`` when the runs cannot answer it."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
