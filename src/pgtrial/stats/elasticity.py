"""Elasticities of throughput to times, from runs of a two-level design in blocks.

An elasticity is the change of throughput in per cent for 1 % less of a time: with throughput X and the time D that a
resource takes, -d log X / d log D. If every time of a closed system were c times as long, X would be X / c, whatever
the system: X is homogeneous of degree -1 in all times, so by Euler's theorem its elasticities to all of them add up
to 1. In closed product-form networks each is Q(N) - Q(N - 1), the number of customers that one more of them adds at
that resource.

Sources: for the probe, Curtsinger & Berger, "Coz: finding code that counts with causal profiling", SOSP 2015; for the
network, Reiser & Lavenberg, "Mean-value analysis of closed multichain queuing networks", J. ACM 27 (1980) 313-322; for
the error, Cochran & Cox, "Experimental Designs" (1957), chapter 4.

What a change brings that was not tried depends on how times add up. Predictions take three models of one family, the
time of a transaction as the p-th root of a constant and the sum of the p-th powers of times: p near 0 is a product of
powers of them, 1 is one time after the other, and 4 is times that hide behind each other, of which the longest counts
for most, as those of stations with queues do. Two levels of each time do not tell which of them holds.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from pgtrial.findings.record import Estimate
from pgtrial.stats.interval import NO_SPREAD, estimate_about, t_quantile, t_tail

_PRODUCT, _ONE_BY_ONE, _BEHIND = 0.0, 1.0, 4.0  # powers p of the models of predictions
_LEAST = 0.01  # of the time of a transaction where it is shortest, so that noise cannot make it nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Elasticities:
    """``each`` in the order of the resources, with intervals that hold together; ``total`` is the sum over times.

    ``lead_p``: of the largest of these being no larger than the second, whichever of them came out as the largest.
    ``misfit_p``: of what the model leaves of the means of the points being noise; None where it leaves nothing, or
    there is no noise to compare with.
    """

    each: tuple[Estimate, ...]
    total: Estimate
    degrees: int
    blocks: int
    lead_p: float | None
    misfit_p: float | None


def fit_elasticities(
    log_times: NDArray[np.float64],
    log_throughput: NDArray[np.float64],
    *,
    confidence: float = 0.95,
    are_times: NDArray[np.bool_] | None = None,
) -> Elasticities:
    """Least squares of log throughput on the logs of times, within blocks.

    log_times : (n_points, n_resources), log of the factor by which a time is longer at a point of the design.
    log_throughput : (n_blocks, n_points), finite. The error is that of blocks by points: what a point does from one
    block to the next beside what all of the block do, with (n_blocks - 1) (n_points - 1) degrees of freedom.
    are_times : (n_resources,), default all. What is none, as memory, has an elasticity that no sum is known of.
    ValueError: shapes do not fit, or the points do not tell the resources apart.
    """
    points, resources = _require_apart(log_times, log_throughput)
    blocks = len(log_throughput)
    centred = log_times - log_times.mean(axis=0)
    means, variance, degrees = _noise(log_throughput)
    inverse = np.linalg.inv(centred.T @ centred)
    slopes = inverse @ centred.T @ means
    left = means - centred @ slopes
    covariance = inverse * variance / blocks if variance > 0 else None
    counted = np.ones(resources, dtype=np.bool_) if are_times is None else are_times

    def estimate(weights: NDArray[np.float64], level: float) -> Estimate:
        value = float(-(weights @ slopes))
        if covariance is None:
            return Estimate(value=value)
        return estimate_about(value, math.sqrt(float(weights @ covariance @ weights)), degrees, confidence=level)

    together = 1 - (1 - confidence) / resources  # Bonferroni
    return Elasticities(
        each=tuple(estimate(row, together) for row in np.eye(resources)),
        total=estimate(counted.astype(np.float64), confidence),
        degrees=degrees,
        blocks=blocks,
        lead_p=_lead_p(slopes, covariance, degrees, counted),
        misfit_p=_misfit_p(left, blocks, variance, spare=points - 1 - resources, degrees=degrees),
    )


def predict_log_ratio(
    log_times: NDArray[np.float64],
    log_throughput: NDArray[np.float64],
    change: NDArray[np.float64],
    *,
    confidence: float,
    are_times: NDArray[np.bool_] | None = None,
) -> Estimate:
    """Log ratio of throughput after a change of times to before it, as an experiment of as many blocks would find it.

    change : (n_resources,), log of the factors by which times are longer than at the point where each is shortest. The
    others and ValueError as for ``fit_elasticities``. The value is that of one time after the other. The interval is
    one of prediction, with the error of the fit and the noise of both arms of that experiment, and holds those of all
    three models; but in a steady state no time that is c times as long makes throughput change by a larger factor than
    c, whatever the system, and none of the models does so by noise. While a cache fills there is no steady state.
    Source: Draper & Smith, "Applied Regression Analysis" (3rd ed. 1998), section 3.1.
    """
    _require_apart(log_times, log_throughput)
    blocks = len(log_throughput)
    times = log_times - log_times.min(axis=0)
    means, variance, degrees = _noise(log_throughput)
    found = [_extrapolate(times, means, change, power) for power in (_ONE_BY_ONE, _PRODUCT, _BEHIND)]
    lowest, highest = -math.inf, math.inf
    if are_times is None or not change[~are_times].any():
        lowest, highest = -max(0.0, float(change.max())), max(0.0, -float(change.min()))
    ratios = [min(max(ratio, lowest), highest) for ratio, _ in found]
    value = ratios[0]
    if variance <= 0:
        return Estimate(value=value)
    quantile, of_arms = t_quantile((1 + confidence) / 2, degrees), 2 * variance / blocks
    halves = [quantile * math.sqrt(float(weights @ weights) * variance / blocks + of_arms) for _, weights in found]
    noise = quantile * math.sqrt(of_arms)
    return Estimate(
        value=value,
        low=max(min(ratio - half for ratio, half in zip(ratios, halves, strict=True)), lowest - noise),
        high=min(max(ratio + half for ratio, half in zip(ratios, halves, strict=True)), highest + noise),
    )


def _extrapolate(
    times: NDArray[np.float64], means: NDArray[np.float64], change: NDArray[np.float64], power: float
) -> tuple[float, NDArray[np.float64]]:
    """Log ratio of throughput by one model, and its derivatives by the mean logs of throughput at the points.

    Least squares of the p-th power of the time of a transaction, with weights by which errors are those of its log.
    """
    ones = np.ones((len(times), 1))
    if power == _PRODUCT:
        weights = np.concatenate([[0.0], change]) @ np.linalg.pinv(np.hstack([ones, times]))
        return float(weights @ means), weights
    powers = np.exp(-power * means)
    solve = np.linalg.pinv(np.hstack([ones, np.exp(power * times)]) / powers[:, None]) / powers
    before, after = np.ones(times.shape[1] + 1), np.concatenate([[1.0], np.exp(power * change)])
    # Noise can leave nothing, or less, of the rest: no more can be saved than all of what changes.
    of_before = max(float(before @ solve @ powers), _LEAST * float(powers.min()))
    of_after = max(float(after @ solve @ powers), of_before * math.exp(min(0.0, power * float(change.min()))))
    return (
        math.log(of_before / of_after) / power,
        (after / of_after - before / of_before) @ solve * powers,
    )


def _require_apart(log_times: NDArray[np.float64], log_throughput: NDArray[np.float64]) -> tuple[int, int]:
    """Number of points and of resources, of which the one tell the others apart."""
    points, resources = log_times.shape
    if points != log_throughput.shape[1]:
        raise ValueError(f"expected {log_throughput.shape[1]} points, got {points}")
    if np.linalg.matrix_rank(log_times - log_times.mean(axis=0)) < resources:
        raise ValueError("the points do not tell the resources apart")
    return points, resources


def _noise(log_throughput: NDArray[np.float64]) -> tuple[NDArray[np.float64], float, int]:
    """Means of the points around that of all, and the variance of a point in a block, with its degrees of freedom; 0
    where it is not known.
    """
    blocks, points = log_throughput.shape
    means = log_throughput.mean(axis=0) - log_throughput.mean()
    scatter = log_throughput - log_throughput.mean(axis=1, keepdims=True) - means
    degrees = (blocks - 1) * (points - 1)
    variance = float((scatter**2).sum()) / degrees if degrees else 0.0
    return means, variance if math.sqrt(variance) > NO_SPREAD else 0.0, degrees


def _lead_p(
    slopes: NDArray[np.float64],
    covariance: NDArray[np.float64] | None,
    degrees: int,
    counted: NDArray[np.bool_],
) -> float | None:
    members = int(counted.sum())
    if covariance is None or members < 2:
        return None
    first, second = np.argsort(np.where(counted, slopes, np.inf))[:2]
    weights = np.zeros(slopes.size)
    weights[first], weights[second] = -1.0, 1.0
    # The largest was chosen by the data, out of so many pairs with it; of two alone, either could have come out as it.
    single = t_tail(float(weights @ slopes) / math.sqrt(float(weights @ covariance @ weights)), degrees)
    return min(1.0, single * max(2, members - 1))


def _misfit_p(left: NDArray[np.float64], blocks: int, variance: float, *, spare: int, degrees: int) -> float | None:
    """F test of lack of fit.

    Source: Box, Hunter & Hunter, "Statistics for Experimenters" (2nd ed. 2005), section 9.3.
    """
    if spare <= 0 or variance <= 0:
        return None
    return float(fdtrc(spare, degrees, blocks * float((left**2).sum()) / spare / variance))
