"""Elasticities of throughput to times, from runs of a two-level design in blocks.

An elasticity is the change of throughput in per cent for 1 % less of a time: with throughput X and the time D that a
resource takes, -d log X / d log D. If every time of a closed system were c times as long, X would be X / c, whatever
the system: X is homogeneous of degree -1 in all times, so by Euler's theorem its elasticities to all of them add up
to 1. In closed product-form networks each is Q(N) - Q(N - 1), the number of customers that one more of them adds at
that resource.

Sources: for the probe, Curtsinger & Berger, "Coz: finding code that counts with causal profiling", SOSP 2015; for the
network, Reiser & Lavenberg, "Mean-value analysis of closed multichain queuing networks", J. ACM 27 (1980) 313-322; for
the error, Cochran & Cox, "Experimental Designs" (1957), chapter 4.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from pgtrial.findings.record import Estimate
from pgtrial.stats.interval import NO_SPREAD, estimate_about, t_tail


@dataclass(frozen=True, slots=True, kw_only=True)
class Elasticities:
    """``each`` in the order of the resources, with intervals that hold together; ``total`` is the sum over times.

    ``lead_p``: of the largest of these being no larger than the second, one-sided. ``misfit_p``: of what the model
    leaves of the means of the points being noise; None where it leaves nothing, or there is no noise to compare with.
    """

    each: tuple[Estimate, ...]
    total: Estimate
    variance: float  # of log throughput at a point in a block; 0 where it is not known
    covariance: NDArray[np.float64] | None
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
    blocks, points = log_throughput.shape
    resources = log_times.shape[1]
    if log_times.shape[0] != points:
        raise ValueError(f"expected {points} points, got {log_times.shape[0]}")
    centred = log_times - log_times.mean(axis=0)
    if np.linalg.matrix_rank(centred) < resources:
        raise ValueError("the points do not tell the resources apart")
    means = log_throughput.mean(axis=0)
    inverse = np.linalg.inv(centred.T @ centred)
    slopes = inverse @ centred.T @ (means - means.mean())
    left = means - means.mean() - centred @ slopes
    scatter = log_throughput - log_throughput.mean(axis=1, keepdims=True) - means + means.mean()
    degrees = (blocks - 1) * (points - 1)
    variance = float((scatter**2).sum()) / degrees if degrees else 0.0
    variance = variance if math.sqrt(variance) > NO_SPREAD else 0.0
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
        variance=variance,
        covariance=covariance,
        degrees=degrees,
        blocks=blocks,
        lead_p=_lead_p(slopes, covariance, degrees, counted),
        misfit_p=_misfit_p(left, blocks, variance, spare=points - 1 - resources, degrees=degrees),
    )


def predict_log_ratio(fitted: Elasticities, log_times: NDArray[np.float64], *, confidence: float) -> Estimate:
    """Log ratio of throughput after a change of times to before it, as an experiment of as many blocks would find it.

    log_times : (n_resources,), log of the factors by which times are longer. The interval is one of prediction: it has
    the error of the elasticities and the noise of both arms of that experiment.
    Source: Draper & Smith, "Applied Regression Analysis" (3rd ed. 1998), section 3.1.
    """
    value = -float(sum(one.value * step for one, step in zip(fitted.each, log_times, strict=True)))
    if fitted.covariance is None:
        return Estimate(value=value)
    error = math.sqrt(float(log_times @ fitted.covariance @ log_times) + 2 * fitted.variance / fitted.blocks)
    return estimate_about(value, error, fitted.degrees, confidence=confidence)


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
    # The largest was chosen by the data, out of so many pairs with it.
    single = t_tail(float(weights @ slopes) / math.sqrt(float(weights @ covariance @ weights)), degrees)
    return min(1.0, single * (members - 1))


def _misfit_p(left: NDArray[np.float64], blocks: int, variance: float, *, spare: int, degrees: int) -> float | None:
    """F test of lack of fit.

    Source: Box, Hunter & Hunter, "Statistics for Experimenters" (2nd ed. 2005), section 9.3.
    """
    if spare <= 0 or variance <= 0:
        return None
    return float(fdtrc(spare, degrees, blocks * float((left**2).sum()) / spare / variance))
