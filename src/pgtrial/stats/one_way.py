"""Values in groups of unequal sizes whose means are drawn at random: one effect beside two components of variance.

The model is y = X β + u(group) + e with variances τ² of u and σ² of e. The variances are those of the largest
restricted likelihood (REML), τ² not below zero. The error of an estimate that takes them for known is too small, and
its degrees of freedom are neither the number of groups nor that of values: both are adjusted as Kenward and Roger do,
which for a single effect gives the degrees of freedom of Satterthwaite, t with the adjusted error, and with equal
groups the t of the groups' means. In the spectrum of one group's covariance, σ² belongs to what is inside it and
σ² + n τ² to its mean, so that sums over groups replace all matrices of values.
Sources: Patterson & Thompson, Biometrika 58 (1971) 545-554; Kenward & Roger, Biometrics 53 (1997) 983-997.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_POINTS = 33  # of each search of the share of variance that is between groups
_ZOOMS = 8
_LARGEST_SHARE = 1 - 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWay:
    """``effects`` and ``error`` in the unit of the values; ``error`` and ``degrees`` are the adjusted ones of the first
    effect. ``within`` is σ², ``between`` τ².
    """

    effects: Array
    error: float
    degrees: float
    within: float
    between: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """Of all groups: their sizes, means of design and values, and the sums of squares and products inside them."""

    sizes: Array  # (k,)
    design: Array  # (k, p)
    values: Array  # (k,)
    inside: Array  # (p, p)
    with_values: Array  # (p,)
    of_values: float


def fit_one_way(values: Array, groups: NDArray[np.intp], design: Array) -> OneWay:
    """The restricted maximum likelihood fit with Kenward and Roger's adjustments.

    values : (n,). groups : (n,), from 0, each with a value, one of them with two at least. design : (n, p), of full
    rank, n > p + 1; its first column is of ones.
    """
    centre = float(values.mean())
    sums = _sum_up(values - centre, groups, design)
    low, high = 0.0, _LARGEST_SHARE
    best = 0.0
    for _ in range(_ZOOMS):
        shares = np.linspace(low, high, _POINTS)
        at = int(np.argmin(_deviance(sums, shares / (1 - shares))))
        best = float(shares[at])
        low, high = float(shares[max(at - 1, 0)]), float(shares[min(at + 1, _POINTS - 1)])
    ratio = best / (1 - best)
    weights = sums.sizes / (1 + sums.sizes * ratio)
    squares, products = _normal_equations(sums, weights)
    effects = np.linalg.solve(squares, products)
    rest = sums.of_values + float(weights @ sums.values**2) - float(products @ effects)
    within = max(rest, 0.0) / (float(sums.sizes.sum()) - effects.size)
    between = ratio * within
    error, degrees = _adjust(sums, within, between) if within > 0 else (0.0, float(sums.sizes.size - 1))
    effects[0] += centre
    return OneWay(
        effects=np.asarray(effects, dtype=np.float64), error=error, degrees=degrees, within=within, between=between
    )


def _sum_up(values: Array, groups: NDArray[np.intp], design: Array) -> _Sums:
    sizes = np.bincount(groups).astype(np.float64)
    means = np.bincount(groups, values) / sizes
    middles = np.stack([np.bincount(groups, column) / sizes for column in design.T], axis=1)
    y, x = values - means[groups], design - middles[groups]
    return _Sums(
        sizes=sizes,
        design=middles,
        values=means,
        inside=x.T @ x,
        with_values=x.T @ y,
        of_values=float(y @ y),
    )


def _normal_equations(sums: _Sums, weights: Array) -> tuple[Array, Array]:
    """X'V⁻¹X and X'V⁻¹y in units of 1/σ²; ``weights`` (k,) are those of the groups' means."""
    weighted = sums.design * weights[:, None]
    return sums.inside + weighted.T @ sums.design, sums.with_values + weighted.T @ sums.values


def _deviance(sums: _Sums, ratios: Array) -> Array:
    """-2 log of the restricted likelihood, up to a constant, with σ² at its best, by τ²/σ²."""
    count, width = float(sums.sizes.sum()), sums.design.shape[1]
    spread = 1 + np.outer(ratios, sums.sizes)
    weights = sums.sizes / spread
    squares = sums.inside + np.einsum("rk,kp,kq->rpq", weights, sums.design, sums.design)
    products = sums.with_values + (weights * sums.values) @ sums.design
    solved = np.linalg.solve(squares, products[:, :, None])[:, :, 0]
    rest = sums.of_values + weights @ sums.values**2 - (products * solved).sum(axis=1)
    logs = np.log(spread).sum(axis=1) + np.log(np.linalg.det(squares))
    found: Array = logs + (count - width) * np.log(np.maximum(rest, 1e-300))
    return found


def _adjust(sums: _Sums, within: float, between: float) -> tuple[float, float]:
    """The adjusted standard error of the first effect, and its degrees of freedom."""
    n, outer = sums.sizes, sums.design[:, :, None] * sums.design[:, None, :] * sums.sizes[:, None, None]
    eigen = within + n * between  # of a group's mean; its derivatives are 1 by σ² and n by τ²
    slopes = (np.ones_like(n), n)
    inside = (1.0, 0.0)  # derivatives of σ²
    known = np.linalg.inv(sums.inside / within + np.tensordot(1 / eigen, outer, 1))
    first = [
        -(own * sums.inside / within**2 + np.tensordot(slope / eigen**2, outer, 1))
        for own, slope in zip(inside, slopes, strict=True)
    ]
    information, second = np.empty((2, 2)), np.empty((2, 2, *known.shape))
    for i in range(2):
        for j in range(2):
            both = inside[i] * inside[j]
            product = slopes[i] * slopes[j]
            second[i, j] = both * sums.inside / within**3 + np.tensordot(product / eigen**3, outer, 1)
            trace = both * float((n - 1).sum()) / within**2 + float((product / eigen**2).sum())
            lost = 2 * np.trace(known @ second[i, j]) - np.trace(known @ first[i] @ known @ first[j])
            information[i, j] = (trace - float(lost)) / 2
    spread = np.linalg.inv(information)
    bias = sum(spread[i, j] * (second[i, j] - first[i] @ known @ first[j]) for i in range(2) for j in range(2))
    adjusted = known + 2 * known @ bias @ known
    gradient = np.array([(known @ each @ known)[0, 0] for each in first])
    degrees = 2 * known[0, 0] ** 2 / float(gradient @ spread @ gradient)
    return math.sqrt(float(adjusted[0, 0])), float(degrees)
