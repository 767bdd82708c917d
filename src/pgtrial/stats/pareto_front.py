"""Several goals at once: Pareto-optimal arms, and how certain the best arm is for given weights.

An arm is Pareto-optimal if no other is at least as good in every criterion and better in one: to choose another is to
give something up. The score is the mean of the criteria's log ratios to the control with declared weights, better
being positive; logs make "twice as fast" and "half as fast" cancel. How sure a place is: the probability that the arm
holds it, given the blocks, by draws of the means of all arms and criteria together from the multivariate t
distribution that they have without prior knowledge. With one comparison that is one minus its one-sided p-value.
Blocks are few, and a bootstrap of them would be sure of what two blocks say.

Sources: Pareto, "Manuale di economia politica" (1906), chapter VI; Geisser & Cornfield, J. R. Statist. Soc. B 25 (1963)
368-376.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

DRAWS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRank:
    """One of several arms.

    ``score`` : weighted mean of its log ratios, None where a criterion with weight has no observation. ``best_in`` :
    for each criterion, the probability that it is the best; ``best_share`` the same for the score. Equal arms share a
    place. None with fewer than two blocks.
    """

    is_pareto: bool
    score: float | None
    best_in: tuple[float | None, ...]
    best_share: float | None


def pareto_optimal(values: ArrayLike, is_higher_better: Sequence[bool]) -> tuple[bool, ...]:
    """Which arms no other arm dominates.

    values : (n_arms, n_criteria), each criterion in any unit. NaN: not known; such an arm can neither be called optimal
    nor dominate another.
    """
    goodness = np.asarray(values, dtype=np.float64) * np.where(is_higher_better, 1.0, -1.0)
    known = np.asarray(~np.isnan(goodness).any(axis=1))
    at_least = (goodness[:, None, :] >= goodness[None, :, :]).all(axis=2)
    better = (goodness[:, None, :] > goodness[None, :, :]).any(axis=2)
    dominated = np.asarray((at_least & better & known[:, None]).any(axis=0))
    return tuple((known & ~dominated).tolist())


def rank_arms(
    log_ratios: ArrayLike,
    is_higher_better: Sequence[bool],
    weights: Sequence[float],
    *,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> tuple[ArmRank, ...]:
    """Pareto-optimality by the means over blocks, the scores, and the certainty of the first places.

    log_ratios : (n_blocks, n_arms, n_criteria), log(arm / control) of each block; the control itself is an arm of
    zeros. NaN is no observation. weights : not negative, their sum not zero; only their proportions matter.
    """
    table = np.asarray(log_ratios, dtype=np.float64) * np.where(is_higher_better, 1.0, -1.0)
    importance = np.asarray(weights, dtype=np.float64)
    if (importance < 0).any() or importance.sum() <= 0:
        raise ValueError(f"expected weights that are not negative and not all zero, got {list(weights)}")
    importance = importance / importance.sum()
    blocks, arms, criteria = table.shape
    means = _means(table)
    scores = _scores(means, importance)
    optimal = pareto_optimal(means, [True] * criteria)
    if blocks < 2:
        nothing = (None,) * criteria
        return tuple(
            ArmRank(is_pareto=optimal[arm], score=_known(scores[arm]), best_in=nothing, best_share=None)
            for arm in range(arms)
        )
    drawn = _draw_means(table, means, rng=rng, draws=draws)
    best_in = _best_shares(drawn)
    best = _best_shares(_scores(drawn, importance)[:, :, None])
    return tuple(
        ArmRank(
            is_pareto=optimal[arm],
            score=_known(scores[arm]),
            best_in=tuple(_known(share) for share in best_in[arm]),
            best_share=_known(best[arm, 0]),
        )
        for arm in range(arms)
    )


def _means(table: Array) -> Array:
    """(arms, criteria): means over the blocks that are known; NaN without any."""
    known = ~np.isnan(table)
    count = known.sum(axis=0)
    sums = np.where(known, table, 0.0).sum(axis=0)
    means: Array = np.divide(sums, count, out=np.full(sums.shape, np.nan), where=count > 0)
    return means


def _draw_means(table: Array, means: Array, *, rng: np.random.Generator, draws: int) -> Array:
    """(draws, arms, criteria) from the multivariate t distribution of the means; NaN with fewer than two blocks.

    Deviations of the blocks with random normal weights have the covariance of the means; one common χ² makes them t.
    """
    known = ~np.isnan(table)
    blocks, count = table.shape[0], known.sum(axis=0)
    weights = rng.standard_normal((draws, blocks))
    strays = np.tensordot(weights, np.where(known, table - means, 0.0), axes=1)
    scale = np.sqrt((blocks - 1) / rng.chisquare(blocks - 1, draws))[:, None, None]
    drawn: Array = np.where(count > 1, means + scale * strays / np.sqrt(np.maximum(count * (count - 1), 1)), np.nan)
    return drawn


def _scores(means: Array, importance: Array) -> Array:
    """Weighted mean over criteria; one without weight may be unknown."""
    scores: Array = (means[..., importance > 0] * importance[importance > 0]).sum(axis=-1)
    return scores


def _best_shares(drawn: Array) -> Array:
    """(arms, criteria): share of draws in which each arm is the best; NaN where no arm is ever known."""
    best = np.max(np.where(np.isnan(drawn), -np.inf, drawn), axis=1, keepdims=True)
    # Rounding makes equal arms differ in the last digit.
    winners = np.isclose(drawn, best, rtol=1e-12, atol=1e-12) & np.isfinite(best)
    number = winners.sum(axis=1, keepdims=True)
    shares = winners / np.maximum(number, 1)
    decided = (number > 0).sum(axis=0)
    result: Array = np.where(decided > 0, shares.sum(axis=0) / np.maximum(decided, 1), np.nan)
    return result


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
