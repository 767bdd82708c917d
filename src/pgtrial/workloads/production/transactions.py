"""Which statements were transactions together, as far as counts tell.

Statements of one transaction are called equally often, but for those at work when the counts were read. Others are so
by chance; therefore the groups that are taken have together as many calls as there were COMMITs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

_NEAR = 0.001  # of the calls, and so many more, by which those of one transaction may differ
_AT_WORK = 4
_MOST_GROUPS = 12  # of which all choices are tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """``groups`` are positions of statements that are transactions together; ``commits`` how many there were.

    ``explained`` is how many of these the groups are.
    """

    groups: tuple[tuple[int, ...], ...]
    commits: int
    explained: int


def tell(calls: Sequence[int], *, commits: int) -> Told:
    """The groups of the statements with so many ``calls`` that were sent in ``commits`` explicit transactions.

    Where no choice of groups has as many calls as there were commits, the nearest one below is taken; without commits
    there are none.
    """
    groups = sorted(_equal(calls), key=lambda group: -calls[group[0]])[:_MOST_GROUPS] if commits else []
    best: tuple[tuple[int, ...], ...] = ()
    for size in range(1, len(groups) + 1):
        for chosen in combinations(groups, size):
            if _count(best, calls) < _count(chosen, calls) <= commits + _tolerance(commits) * size:
                best = chosen
    return Told(groups=best, commits=commits, explained=min(commits, _count(best, calls)))


def _count(groups: Sequence[tuple[int, ...]], calls: Sequence[int]) -> int:
    return sum(calls[group[0]] for group in groups)


def _equal(calls: Sequence[int]) -> list[tuple[int, ...]]:
    """Positions of two or more with the same number of calls, the most frequent first."""
    groups: list[list[int]] = []
    for index in sorted(range(len(calls)), key=lambda index: -calls[index]):
        if groups and calls[groups[-1][-1]] - calls[index] <= _tolerance(calls[index]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return [tuple(sorted(group)) for group in groups if len(group) > 1]


def _tolerance(calls: int) -> int:
    return _AT_WORK + round(calls * _NEAR)
