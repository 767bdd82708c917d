"""What a run leaves for the next one, where each has its time to itself: the arm before is in the model.

What a run leaves behind that outlasts restored data, the start of the server and the warm-up is paid by the run after
it, and in random order the control more often follows the arm than the arm follows itself: a cost of the arm comes out
as a gain. It is seen because blocks differ in which run came before. Where it may be there, the interval of an effect
is extended by what is missing for each arm to follow only its own runs, as it does once it is in use.
Sources: Jones & Kenward, "Design and Analysis of Cross-Over Trials", 3rd ed. (2014), section 2.3; an arm's effect on
itself included, Bailey & Druilhet, Ann. Statist. 32 (2004) 1650-1661.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pgtrial.stats.base import Comparison
from pgtrial.stats.crossover import has_both_orders
from pgtrial.stats.interval import extend, t_quantile

SEEN = 0.8  # confidence with which it is there, for it to bear on a verdict: low, for the reason given in fade.py
_LEAST = 1e-9  # of the spread of ``before`` that neither the effect nor the place explains


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryOver:
    """``effect``: log ratio by which a run after one of the arm differs from one after the control, with its standard
    ``error`` and the ``degrees`` of freedom of that; ``missing``: what the arm's effect lacks of it.
    """

    effect: float
    error: float
    degrees: int
    missing: float

    @property
    def is_seen(self) -> bool:
        return abs(self.effect) > t_quantile((1 + SEEN) / 2, self.degrees) * self.error


def find_carry_over(
    log_ratios: NDArray[np.float64], after: NDArray[np.bool_], before: NDArray[np.float64]
) -> CarryOver | None:
    """Least squares with the effect, the place and the arm before; None where the blocks do not tell them apart.

    log_ratios : (n,), log(arm / control), NaN where there is none. after : (n,), whether the arm ran after the control.
    before : (n,), 1 where each of both followed a run of its own, -1 where each followed one of the other's, 0 where
    both followed the same: half of what the runs before differ by.
    """
    known = np.isfinite(log_ratios)
    ratios, places, runs = log_ratios[known], np.where(after[known], 1.0, -1.0), before[known]
    columns = [np.ones(ratios.size)] + ([places] if has_both_orders(after[known]) else [])
    others = np.column_stack(columns)
    degrees = ratios.size - others.shape[1] - 1
    if degrees < 1:
        return None
    shares = np.linalg.lstsq(others, np.column_stack([runs, ratios]), rcond=None)[0]
    own, rest = (np.column_stack([runs, ratios]) - others @ shares).T
    information = float(own @ own)
    if information < _LEAST:
        return None
    effect = float(own @ rest) / information
    noise = rest - effect * own
    return CarryOver(
        effect=effect,
        error=float(np.sqrt(noise @ noise / degrees / information)),
        degrees=degrees,
        missing=effect * (1 - float(shares[0, 0])),
    )


def bound_carry_over(comparison: Comparison, found: CarryOver | None) -> Comparison:
    """The comparison with an interval that also holds if runs leave behind what is seen."""
    if found is None:
        return comparison
    comparison = replace(comparison, carry_over=found.effect)
    if not found.is_seen:
        return comparison
    return extend(comparison, down=max(0.0, -found.missing), up=max(0.0, found.missing))
