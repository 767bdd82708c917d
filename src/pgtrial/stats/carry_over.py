"""What a run leaves for the next one, where each has its time to itself: the arm before is in the model.

What a run leaves behind that outlasts restored data, the start of the server and the warm-up is paid by the run after
it, and in random order the control more often follows the arm than the arm follows itself: a cost of the arm comes out
as a gain. It is seen because blocks differ in which run came before. Where it may be there, the interval of an effect
is extended by the most that may be missing for each arm to follow only its own runs, as it does once it is in use.
Sources: Jones & Kenward, "Design and Analysis of Cross-Over Trials", 3rd ed. (2014), section 2.3; an arm's effect on
itself included, Bailey & Druilhet, Ann. Statist. 32 (2004) 1650-1661.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pgtrial.stats.base import Comparison
from pgtrial.stats.crossover import has_both_orders
from pgtrial.stats.interval import extend, t_quantile

SEEN = 0.8  # confidence with which it is there, for it to bear on a verdict: low, for the reason given in fade.py
_ONE_SIDED = 0.95  # of how large it may be
_LEAST = 1e-9  # of the spread of ``before`` that neither the effect nor the place explains


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryOver:
    """``effect``: log ratio by which a run after one of the arm differs from one after the control, with its standard
    ``error`` and the ``degrees`` of freedom of that; ``lacking``: how many times that the arm's effect lacks.
    """

    effect: float
    error: float
    degrees: int
    lacking: float

    @property
    def is_seen(self) -> bool:
        return abs(self.effect) > t_quantile((1 + SEEN) / 2, self.degrees) * self.error

    @property
    def missing(self) -> float:
        """In the arm's effect."""
        return self.effect * self.lacking

    @property
    def reach(self) -> float:
        """By how much more, or less, may be missing than is estimated."""
        return t_quantile(_ONE_SIDED, self.degrees) * self.error * abs(self.lacking)

    @property
    def most_missing(self) -> float:
        """What is missing at most, on the side on which it is."""
        return self.missing + math.copysign(self.reach, self.missing)


def runs_before(arms: Sequence[str], signs: Mapping[str, int]) -> list[int]:
    """Whose run came before each of those of ``arms``, in order: the sign of that arm, and 0 of one that has none."""
    return [signs.get(last, 0) for last in ("", *arms[:-1])]


def unseen_variance(orders: Sequence[Sequence[str]], *, arm: str, control: str) -> float:
    """Variance of the estimate of what is missing in the effect, in variances of a block's log ratio; infinite where
    blocks with these orders of the arms tell nothing of it.
    """
    owners = iter(runs_before([name for order in orders for name in order], {arm: 1, control: -1}))
    before = [dict(zip(order, owners, strict=False)) for order in orders]
    own, share = _without_others(
        np.array([(owner[arm] - owner[control]) / 2 for owner in before]),
        np.array([order.index(arm) > order.index(control) for order in orders]),
    )
    information = float(own @ own)
    return math.inf if information < _LEAST else (1 - share) ** 2 / information


def find_carry_over(
    log_ratios: NDArray[np.float64], after: NDArray[np.bool_], before: NDArray[np.float64]
) -> CarryOver | None:
    """Least squares with the effect, the place and the arm before; None where the blocks do not tell them apart.

    log_ratios : (n,), log(arm / control), NaN where there is none. after : (n,), whether the arm ran after the control.
    before : (n,), 1 where each of both followed a run of its own, -1 where each followed one of the other's, 0 where
    both followed the same: half of what ``runs_before`` says of both differs by.
    """
    known = np.isfinite(log_ratios)
    own, share = _without_others(before[known], after[known])
    rest, _ = _without_others(log_ratios[known], after[known])
    degrees = rest.size - (3 if has_both_orders(after[known]) else 2)
    information = float(own @ own)
    if degrees < 1 or information < _LEAST:
        return None
    effect = float(own @ rest) / information
    noise = rest - effect * own
    return CarryOver(
        effect=effect,
        error=float(np.sqrt(noise @ noise / degrees / information)),
        degrees=degrees,
        lacking=1 - share,
    )


def find_among_arms(
    values: NDArray[np.float64],
    before: NDArray[np.float64],
    groupings: Sequence[Sequence[Hashable]],
    *,
    pairs: NDArray[np.float64],
    after: NDArray[np.bool_],
) -> CarryOver | None:
    """As ``find_carry_over``, of an experiment with more arms, whose runs pay for what is left as well: least squares
    over the runs of all; None where they do not tell.

    Both leave something of their own, compared with other arms and with nobody; ``effect`` is what is missing by what
    the arm's effect lacks on average of both.

    values : (n,), logarithms of runs of all arms. before : (2, n), whether each came after one of the arm, and after
    one of the control. groupings : of (n,) each, what runs differ by otherwise: block, arm, place in the block. pairs :
    (2, blocks), ``before`` of the arm's run less that of the control's. after : (blocks,), as there.
    """
    others = [[each == one for each in group] for group in groupings for one in dict.fromkeys(group)]
    design = np.array([*before, *others], dtype=np.float64).T
    lacking = np.zeros(design.shape[1])
    lacking[:2] = [sign - _without_others(owned, after)[1] for sign, owned in zip((1, -1), pairs, strict=True)]
    squares = design.T @ design
    inverse = np.linalg.pinv(squares, rcond=_LEAST, hermitian=True)
    degrees = values.size - int(np.linalg.matrix_rank(squares, hermitian=True))
    share = float(lacking[0] - lacking[1]) / 2
    if degrees < 1 or share < _LEAST or not np.allclose(squares @ inverse @ lacking, lacking, atol=1e-6):
        return None
    fitted = inverse @ design.T @ values
    noise = values - design @ fitted
    error = math.sqrt(float(noise @ noise) / degrees * float(lacking @ inverse @ lacking))
    return CarryOver(effect=float(lacking @ fitted) / share, error=error / share, degrees=degrees, lacking=share)


def find_left_by(
    values: NDArray[np.float64], after: NDArray[np.bool_], groups: Sequence[Hashable], *, share: float
) -> CarryOver | None:
    """What is left by an arm, which whoever comes next pays alike: least squares with the mean of each group of runs;
    None where no group has runs after one of the arm and others.

    values : (n,), of runs of all arms. after : (n,), whether each came after one of the arm. groups : (n,), the arm and
    the host of each. share : of the runs that are asked about, that came after one of it.
    """
    members = np.array([groups.index(group) for group in groups], dtype=np.intp)
    sizes = np.maximum(np.bincount(members), 1)
    own, rest = (
        each - (np.bincount(members, weights=each) / sizes)[members] for each in (after.astype(np.float64), values)
    )
    degrees, information = rest.size - len(set(groups)) - 1, float(own @ own)
    if degrees < 1 or information < _LEAST:
        return None
    effect = float(own @ rest) / information
    noise = rest - effect * own
    error = float(np.sqrt(noise @ noise / degrees / information))
    return CarryOver(effect=effect, error=error, degrees=degrees, lacking=1 - share)


def _without_others(values: NDArray[np.float64], after: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    """Values without what the effect and the place explain of them, and what they are where both orders count alike."""
    if not has_both_orders(after):
        mean = float(values.mean()) if values.size else 0.0
        return values - mean, mean
    late, early = float(values[after].mean()), float(values[~after].mean())
    return values - np.where(after, late, early), (late + early) / 2


def bound_carry_over(comparison: Comparison, found: CarryOver | None, *, at_most: bool = True) -> Comparison:
    """The comparison with an interval that also holds if runs leave behind what is seen: as much as that may be, or
    without ``at_most`` as much as is estimated.
    """
    if found is None:
        return comparison
    comparison = replace(comparison, carry_over=found.effect)
    if not found.is_seen:
        return comparison
    missing = found.most_missing if at_most else found.missing
    return extend(comparison, down=max(0.0, -missing), up=max(0.0, missing))


def bound_in_use(comparison: Comparison, found: CarryOver | None) -> Comparison:
    """The comparison, which nothing else extends yet, with an interval that also holds for an arm that comes after
    itself, whether or not it is seen that it leaves anything; without one where nothing tells.

    The estimates are independent, as ``found`` is of differences between runs of a group: their errors add up as
    squares.
    """
    if comparison.low is None or comparison.high is None or not comparison.error:
        return comparison
    if found is None:
        return replace(comparison, low=None, high=None)
    half = (math.log(comparison.high) - math.log(comparison.low)) / 2
    more = half * (math.hypot(1.0, found.error * found.lacking / comparison.error) - 1)
    return extend(comparison, down=max(0.0, more - found.missing), up=max(0.0, more + found.missing))
