"""Several tests at once: adjusted p-values. A missing p-value (None) stays missing and is no member of the family."""

from collections.abc import Sequence


def holm(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjusted so that the chance of any false alarm in the family is at most the level, whatever the dependence.

    Source: Holm, Scand. J. Statist. 6 (1979) 65-70.
    """
    order = _known(p)
    adjusted: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, index) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * value))
        adjusted[index] = largest
    return tuple(adjusted)


def benjamini_hochberg(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjusted so that at most that share of what is called a finding is expected to be false.

    For independent or positively dependent tests. Source: Benjamini & Hochberg, J. R. Statist. Soc. B 57 (1995)
    289-300.
    """
    order = _known(p)
    adjusted: list[float | None] = [None] * len(p)
    smallest = 1.0
    for rank, (value, index) in reversed(list(enumerate(order, start=1))):
        smallest = min(smallest, value * (len(order) / rank))
        adjusted[index] = smallest
    return tuple(adjusted)


def _known(p: Sequence[float | None]) -> list[tuple[float, int]]:
    return sorted((value, index) for index, value in enumerate(p) if value is not None)
