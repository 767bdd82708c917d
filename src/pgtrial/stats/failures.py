"""Attempts that fail or are cut off: whether one arm fails more often, and what that can have done to the effect.

An arm that fails where it would have been slow leaves only its good runs, and repeating the failed ones does not bring
back what they would have shown. What that does at most is known: the failures in excess are either the worst or the
best runs that the other arm has. Whoever cuts runs off can choose: slow ones of one arm, fast ones of the other.
Sources: Fisher, "Statistical Methods for Research Workers", 5th ed. (1934), section 21.02, for the test; Lee, Rev.
Econ. Stud. 76 (2009) 1071-1102, for the bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact

from pgtrial.stats.base import Comparison
from pgtrial.stats.interval import extend

ALLOWANCE = 2  # failures that chance may have kept away
ADVERSE = 0.2  # probability by chance, from which on failures decide: what is overlooked makes a false verdict
LONE = 2  # failures of one arm that decide where the other has none, likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """``failed`` of ``made`` attempts of an arm."""

    made: int
    failed: int

    @property
    def success(self) -> float:
        """Share that did not fail; 1 of none."""
        return 1 - self.failed / self.made if self.made else 1.0


def equal_share_p(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Two-sided p-value of "both have it equally often", of (have it, have it not): Fisher's exact test."""
    return float(fisher_exact([one, other]).pvalue)


def failure_p(control: Attempts, treated: Attempts) -> float:
    """Two-sided p-value of "both arms fail equally often"."""
    return equal_share_p(*((each.failed, each.made - each.failed) for each in (control, treated)))


def fails_more(control: Attempts, treated: Attempts, *, weighs_lone: bool, among: int = 1) -> bool:
    """Whether one arm failed so much more often that no bound on its good runs helps: it may fail where it is bad.

    Fisher's exact test in the direction that is seen, at ADVERSE, divided by how many pairs it is looked for ``among``
    (Bonferroni). Bounds know of no run that is worse than all others.
    Few blocks show little by that test; with ``weighs_lone``, LONE failures are enough where the other arm has none,
    so that nothing says that the machine makes attempts fail.
    """
    worse, better = sorted((control, treated), key=lambda attempts: attempts.success)
    if weighs_lone and better.failed == 0 and worse.failed >= LONE:
        return True
    table = [[each.failed, each.made - each.failed] for each in (worse, better)]
    return worse.failed > 0 and float(fisher_exact(table, alternative="greater").pvalue) <= ADVERSE / among


def excess_share(control: Attempts, treated: Attempts) -> float:
    """Share of the runs that only the arm with fewer failures has: 0 where both fail equally often.

    Few attempts tell a share badly, so it is taken as if ALLOWANCE more had failed.
    """
    worse, better = sorted((control, treated), key=lambda attempts: attempts.success)
    if worse.success == better.success or worse.failed == worse.made:
        return float(worse.success < better.success)
    seen = Attempts(made=worse.made + ALLOWANCE, failed=worse.failed + ALLOWANCE)
    return 1 - seen.success / better.success


def interrupted_share(interrupted: int, blocks: int) -> float:
    """Share of the runs of ``blocks`` that may be missing from one end where so many were cut off, of whichever arm.

    Each counts twice, and from half as many as there are blocks on nothing is known: of runs that were chosen as much
    is missing at the other end, and they stray less than those that nobody chose.
    """
    return min(1.0, 2 * interrupted / max(blocks, 1))


def bound_failures(
    comparison: Comparison, log_ratios: Sequence[float] | NDArray[np.float64], *, share: float
) -> Comparison:
    """The comparison with an interval that also holds if ``share`` of the runs are missing from one end.

    log_ratios : (n_blocks,), those that the comparison is made of. The mean without the largest, or without the
    smallest, ``share`` of them is where the effect can be at most; the interval reaches as far beyond it as beyond the
    mean itself. None of it where everything may be missing.
    """
    values = np.sort(np.asarray(log_ratios, dtype=np.float64))
    if share <= 0 or comparison.low is None or comparison.high is None:
        return comparison
    if share >= 1:
        return replace(comparison, low=None, high=None)
    kept = _kept_weights(values.size, share)
    mean = float(values.mean())
    down, up = mean - float(kept @ values), float(kept[::-1] @ values) - mean
    return extend(comparison, down=down, up=up)


def _kept_weights(count: int, share: float) -> NDArray[np.float64]:
    """Weights that add up to one, of sorted values without ``share`` of them at the upper end."""
    kept = np.clip((1 - share) * count - np.arange(count), 0.0, 1.0)
    return np.asarray(kept / kept.sum(), dtype=np.float64)
