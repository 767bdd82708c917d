"""Which statements were transactions together, as far as counts tell.

Statements of one transaction are called equally often, but for those at work when the counts were read. Others are so
by chance; therefore the groups that are taken have together as many calls as there were COMMITs, and if several choices
do, then that of statements which have most to do with each other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


_Groups = tuple[tuple[int, ...], ...]


def tell(calls: Sequence[int], *, commits: int, joined: Callable[[int, int], bool]) -> Told:
    """The groups of the statements with so many ``calls`` that were sent in ``commits`` explicit transactions.

    Where no choice of groups has as many calls as there were commits, the nearest one below is taken; without commits
    there are none. Those that are ``joined`` have to do with each other: equally frequent ones may be several
    transactions, of these alone.
    """
    groups = sorted(_equal(calls), key=lambda group: -calls[group[0]])[:_MOST_GROUPS] if commits else []
    found: dict[int, tuple[int, _Groups]] = {0: (0, ())}  # by number of calls: parts that nothing joins
    for group in groups:
        parts = _parts(group, joined)
        apart = tuple(part for part in parts if len(part) > 1)
        options = [(len(parts) - 1, (group,)), *([(0, apart)] if len(apart) > 1 else [])]
        for count, (unjoined, chosen) in [*found.items()]:
            for more, option in options:
                reached = count + _count(option, calls)
                known = found.get(reached)
                if reached <= _most(commits, _MOST_GROUPS) and (known is None or unjoined + more < known[0]):
                    found[reached] = unjoined + more, (*chosen, *option)
    possible = [(count, *each) for count, each in found.items() if count <= _most(commits, len(each[1]))]
    explained, _, best = min(possible, key=lambda each: _distance(each[0], each[1], len(each[2]), commits))
    return Told(groups=best, commits=commits, explained=min(commits, explained))


def _most(commits: int, groups: int) -> int:
    return commits + _tolerance(commits) * groups


def _distance(count: int, unjoined: int, groups: int, commits: int) -> tuple[int, int, int]:
    """How many commits are not explained, how many parts nothing joins to the others, and how exact the count is."""
    return max(0, commits - count - _tolerance(commits) * groups), unjoined, abs(commits - count)


def _parts(group: Sequence[int], joined: Callable[[int, int], bool]) -> list[tuple[int, ...]]:
    """The statements of a group, apart where nothing joins them."""
    parts: list[tuple[int, ...]] = []
    for index in group:
        near = [part for part in parts if any(joined(index, other) for other in part)]
        parts = [part for part in parts if part not in near] + [tuple(sorted([index, *(i for p in near for i in p)]))]
    return sorted(parts)


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
