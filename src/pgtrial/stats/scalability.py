"""The Universal Scalability Law, fitted to throughput by load level, and where two load curves cross.

X(N) = λN / (1 + σ(N - 1) + κN(N - 1)): N clients, λ the throughput of one, σ ≥ 0 what they do one after the other
(contention), κ ≥ 0 what each costs each other (coherency).

The fit is by least squares on logs, each block with a speed of its own, so that a slow quarter of an hour bends no
curve. Intervals come from the blocks: how far each block by itself would move the parameters (the first step of a
refit, so that the bounds at zero do no harm), then Student's t over blocks. The largest throughput is at
N* = √((1 - σ) / κ); whether it lies above N is whether 1 - σ - κN² is positive, which is linear in both, hence
Fieller's interval, which has no upper end where κ may be zero.

The knee is where the line of perfect scaling, λN, reaches the largest throughput of the curve: with fewer clients the
curve is bounded by what one client can do, with more by what the system can, and they queue (Denning & Buzen, ACM
Comput. Surv. 10 (1978) 225-261, asymptotic bounds).

Sources: Gunther, "Guerrilla Capacity Planning" (2007), chapters 4 to 6; one step of Gauss-Newton by group and its
variance: Liang & Zeger, Biometrika 73 (1986) 13-22; Fieller, J. R. Statist. Soc. B 16 (1954) 175-185.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pgtrial.findings.message import Message, message
from pgtrial.findings.record import Estimate
from pgtrial.stats.interval import t_quantile

Array = NDArray[np.float64]

FEWEST_LEVELS = 4
LARGEST_ERROR = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalabilityFit:
    """``one``: λ in the unit of throughput. ``peak``: N*, None where the curve has no largest throughput (κ = 0), and
    without an upper end where κ may be zero.

    ``knee`` in clients, None where throughput grows without bound (σ = κ = 0). ``error``: largest relative distance
    between the curve and a level's throughput, in the geometric mean over blocks. ``reason``: why it does not fit, None
    where it does; the numbers are there all the same, None only where nothing could be fitted.
    """

    one: Estimate | None
    contention: Estimate | None
    coherency: Estimate | None
    peak: Estimate | None
    knee: float | None
    error: float | None
    reason: Message | None

    @property
    def fits(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveCrossing:
    """A log ratio changes its sign at ``clients``, between the levels with indices ``lower`` and ``upper``.

    ``is_rising``: the ratio is below 1 on the side of fewer clients.
    """

    clients: float
    lower: int
    upper: int
    is_rising: bool


def fit_scalability(clients: Sequence[float], throughput: ArrayLike, *, confidence: float = 0.95) -> ScalabilityFit:
    """Fit the law to throughput by block and load level.

    clients : (n_levels,), at least 1 each. throughput : (n_blocks, n_levels), any unit; NaN is no observation. A level
    without any observation does not count, nor does a block with fewer than two, which says nothing about a shape.
    """
    n = np.asarray(clients, dtype=np.float64)
    table = np.asarray(throughput, dtype=np.float64)
    if n.size and n.min() < 1:
        raise ValueError(f"expected at least one client, got {n.min():g}")
    if bool((table <= 0).any()):
        return _nothing(message("no-curve.zero"))
    table = table[(~np.isnan(table)).sum(axis=1) >= 2]
    seen = ~np.isnan(table).all(axis=0) if table.size else np.zeros(n.size, bool)
    n, logs = n[seen], np.log(table[:, seen])
    levels = np.unique(n).size
    if levels < FEWEST_LEVELS:
        return _nothing(message("no-curve.few-levels", count=levels, fewest=FEWEST_LEVELS))
    sigma, kappa = _best(n, logs)
    speeds, rest = _rests(sigma, kappa, n, logs)
    fitted = np.nanmean(rest, axis=0)
    error = float(np.abs(np.expm1(fitted)).max())
    moves = _moves(sigma, kappa, n, rest, speeds)
    quantile = t_quantile((1 + confidence) / 2, len(logs) - 1) if len(logs) >= 2 else None
    log_one = _parameter(float(np.mean(speeds)), moves[:, 0], quantile)
    knee = _knee(sigma, kappa)
    return ScalabilityFit(
        one=log_one.mapped(math.exp),
        contention=_parameter(sigma, moves[:, 1], quantile, least=0.0),
        coherency=_parameter(kappa, moves[:, 2], quantile, least=0.0),
        peak=_peak(sigma, kappa, moves, quantile),
        knee=knee,
        error=error,
        reason=_misfit(n, logs, fitted),
    )


def crossings(clients: Sequence[float], log_ratios: Sequence[float]) -> tuple[CurveCrossing, ...]:
    """Where a log ratio of two load curves changes sign, interpolated linearly in the log of the number of clients.

    clients : (n_levels,), rising. log_ratios : (n_levels,), log(one / other); NaN is a level that is not known and is
    bridged. A level where they are equal is a crossing only if the signs before and after it differ.
    """
    found = []
    before: int | None = None
    for level, ratio in enumerate(log_ratios):
        if math.isnan(ratio) or ratio == 0:
            continue
        if before is not None and (ratio > 0) != (log_ratios[before] > 0):
            # Zeros in between are on the way: the middle one is where they cross.
            zeros = [i for i in range(before + 1, level) if log_ratios[i] == 0]
            if zeros:
                at = math.log(clients[zeros[0]] * clients[zeros[-1]]) / 2
            else:
                share = log_ratios[before] / (log_ratios[before] - ratio)
                at = (1 - share) * math.log(clients[before]) + share * math.log(clients[level])
            found.append(CurveCrossing(clients=math.exp(at), lower=before, upper=level, is_rising=ratio > 0))
        before = level
    return tuple(found)


def _nothing(reason: Message) -> ScalabilityFit:
    return ScalabilityFit(one=None, contention=None, coherency=None, peak=None, knee=None, error=None, reason=reason)


def _curve(sigma: float, kappa: float, n: Array) -> Array:
    """log(X / λ)."""
    curve: Array = np.log(n) - np.log1p(sigma * (n - 1) + kappa * n * (n - 1))
    return curve


def _gradient(sigma: float, kappa: float, n: Array) -> Array:
    """How the curve changes with σ and κ: (n_levels, 2)."""
    cost = 1 + sigma * (n - 1) + kappa * n * (n - 1)
    return np.column_stack((-(n - 1) / cost, -n * (n - 1) / cost))


def _rests(sigma: float, kappa: float, n: Array, logs: Array) -> tuple[Array, Array]:
    """Log λ of each block, and what the curve leaves: (n_blocks,) and (n_blocks, n_levels)."""
    rest = logs - _curve(sigma, kappa, n)
    speeds = np.nanmean(rest, axis=1)
    return speeds, rest - speeds[:, None]


def _best(n: Array, logs: Array) -> tuple[float, float]:
    from scipy.optimize import least_squares  # takes longer to load than most reports need for all their numbers

    known = ~np.isnan(logs)
    each = known.sum(axis=1, keepdims=True)

    def distance(parameters: Array) -> Array:
        rest = np.where(known, logs - _curve(float(parameters[0]), float(parameters[1]), n), 0.0)
        left: Array = (rest - rest.sum(axis=1, keepdims=True) / each)[known]
        return left

    def slopes(parameters: Array) -> Array:
        gradient = _gradient(float(parameters[0]), float(parameters[1]), n)
        means = known @ gradient / each
        slope: Array = (means[:, None, :] - gradient)[known]
        return slope

    largest = float(n.max())
    starts = [(0.01, 0.0), (0.5, 0.0), (0.05, 0.5 / largest**2), (0.0, 2 / largest**2)]
    fits = [
        # κ is smaller than σ by the number of clients.
        least_squares(
            distance, start, jac=slopes, bounds=(0, np.inf), x_scale=(0.1, 0.1 / largest), xtol=1e-12, ftol=1e-12
        )
        for start in starts
    ]
    best = min(fits, key=lambda fit: float(fit.cost))
    # The search stays inside its bounds; what is at zero but for its tolerance is zero.
    for name in ((0.0, 0.0), (0.0, best.x[1]), (best.x[0], 0.0)):
        if 0.5 * float((distance(np.array(name)) ** 2).sum()) <= float(best.cost) * (1 + 1e-6) + 1e-18:
            return float(name[0]), float(name[1])
    return float(best.x[0]), float(best.x[1])


def _moves(sigma: float, kappa: float, n: Array, rest: Array, speeds: Array) -> Array:
    """By how much each block by itself would move log λ, σ and κ: (n_blocks, 3).

    Their means are near zero, except for a parameter that is held by its bound.
    """
    gradient = _gradient(sigma, kappa, n)
    known = ~np.isnan(rest)
    squares, scores, means = np.zeros((2, 2)), [], []
    for block, seen in zip(rest, known, strict=True):
        inside = gradient[seen] - gradient[seen].mean(axis=0)
        squares += inside.T @ inside / len(rest)
        scores.append(inside.T @ block[seen])
        means.append(gradient[seen].mean(axis=0))
    scale = np.sqrt(np.diag(squares))
    inverse = np.linalg.pinv(squares / np.outer(scale, scale)) / np.outer(scale, scale)
    shape = np.array(scores) @ inverse.T
    # A block's own speed moves by its deviation from the mean, less what the new shape takes from it.
    speed = speeds - speeds.mean() - (shape * np.array(means)).sum(axis=1)
    return np.column_stack((speed, shape))


def _parameter(value: float, moves: Array, quantile: float | None, *, least: float = -math.inf) -> Estimate:
    if quantile is None:
        return Estimate(value=value)
    # Around the unbounded estimate; the bounded one is always inside of its half at the bound.
    middle = value + float(moves.mean())
    half = quantile * float(moves.std(ddof=1)) / math.sqrt(moves.size)
    return Estimate(value=value, low=max(least, min(value, middle - half)), high=max(value, middle + half))


def _peak(sigma: float, kappa: float, moves: Array, quantile: float | None) -> Estimate | None:
    """N* by Fieller: all N at which 1 - σ - κN² may be zero."""
    if kappa <= 0:
        return None
    value = _peak_clients(sigma, kappa)
    if quantile is None:
        return Estimate(value=value)
    covariance = np.cov(moves[:, 1:], rowvar=False) / len(moves) * quantile**2
    middle = moves[:, 1:].mean(axis=0)
    top, bottom = 1 - sigma - float(middle[0]), kappa + float(middle[1])
    # (top - u·bottom)² <= variance of it, with u = N²: a quadratic in u.
    a = bottom**2 - float(covariance[1, 1])
    b = -2 * (top * bottom + float(covariance[0, 1]))
    c = top**2 - float(covariance[0, 0])
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    if a <= 0:  # κ may be zero
        low = 2 * c / (-b + root) if c > 0 and -b + root > 0 else 0.0
        return Estimate(value=value, low=min(value, math.sqrt(max(1.0, low))))
    low, high = (math.sqrt(max(1.0, (-b + sign * root) / (2 * a))) for sign in (-1, 1))
    return Estimate(value=value, low=min(value, low), high=max(value, high))


def _peak_clients(sigma: float, kappa: float) -> float:
    """N*; 1 where every further client costs more than it brings."""
    return max(1.0, math.sqrt(max(0.0, 1 - sigma) / kappa))


def _knee(sigma: float, kappa: float) -> float | None:
    if kappa > 0:
        peak = _peak_clients(sigma, kappa)
        return peak / (1 + sigma * (peak - 1) + kappa * peak * (peak - 1))
    return max(1.0, 1 / sigma) if sigma > 0 else None


def _misfit(n: Array, logs: Array, fitted: Array) -> Message | None:
    """Why the law does not describe the levels; None where it does."""
    error = np.abs(np.expm1(fitted))
    worst = int(np.argmax(error))
    if error[worst] <= LARGEST_ERROR:
        return None
    # Throughput per client, each block against its own mean.
    each = np.nanmean(logs - np.nanmean(logs, axis=1, keepdims=True), axis=0) - np.log(n)
    order = np.argsort(n)
    grown = float(np.max(each[order] - np.minimum.accumulate(each[order])))
    if math.expm1(grown) > LARGEST_ERROR:
        return message("no-curve.grows-faster", share=math.expm1(grown))
    return message("no-curve.off", error=float(error[worst]), clients=float(n[worst]), largest=LARGEST_ERROR)
