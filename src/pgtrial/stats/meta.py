"""Combine repeated experiments, each of which counts as one observation.

Each experiment has its own true effect, drawn around a mean; the mean, and how far the true effects are spread (tau),
are what is asked for. Two machines, or two days, are never quite the same, so a common effect is not assumed.

- The mean is that of the k effects, all with one weight, and its interval is Student's with k - 1 degrees of freedom.
  It keeps its level for normal effects whatever their variances, known or not, at confidences of 91.7 % and above:
  Ibragimov & Müller, J. Bus. Econ. Stat. 28 (2010) 453-468, after Bakirov & Székely. Weights by estimated errors would
  favour experiments whose few blocks happen to agree, and cover less than they promise.
- The mean of these k experiments' own true effects, which says nothing of others: their errors add up, with the degrees
  of freedom of Satterthwaite. With two experiments it is what there is to read: the interval above, of 1 degree of
  freedom, is 12.7 standard errors wide either way.
- The prediction interval is where the result of another experiment like these is to be expected, with its own noise:
  mean ± t s √(1 + 1/k), exact where experiments are alike.
- Heterogeneity: the variance of the effects beside the mean of their squared errors. Their ratio is F of an analysis of
  variance for unequal variances, with the degrees of freedom of Box (Ann. Math. Stat. 25 (1954) 290-302) and
  Satterthwaite (Biometrics Bull. 2 (1946) 110-114): Mehrotra, Commun. Stat. Simul. Comput. 26 (1997) 1139-1145, after
  Brown & Forsythe, Technometrics 16 (1974) 129-132. The difference is tau², as the component of variance of Hedges &
  Olkin, "Statistical methods for meta-analysis" (1985), chapter 9; I² is that of Higgins & Thompson, Stat. Med. 21
  (2002) 1539-1558.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, fdtrc

from pgtrial.stats.base import Interval
from pgtrial.stats.interval import NO_SPREAD, interval_about, mean_and_sd, t_interval, t_tail

Array = NDArray[np.float64]

FEWEST_TO_PREDICT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """``mean``, ``error``, ``tau`` and all intervals are in the unit of the effects.

    ``error`` is the standard error of the mean; it has ``degrees`` degrees of freedom. ``of_these`` is of the mean of
    the experiments' own true effects. ``f`` is the variance of the effects in units of what their own errors explain,
    and ``f_p`` the chance of one so large without heterogeneity.
    """

    mean: float
    interval: Interval
    error: float
    degrees: int
    p_value: float
    tau: float
    tau_interval: Interval
    f: float
    f_p: float
    i2: float
    prediction: Interval | None
    of_these: Interval


def combine(
    effects: Sequence[float] | Array,
    errors: Sequence[float] | Array,
    degrees: Sequence[float] | Array,
    *,
    confidence: float = 0.95,
) -> Pooled:
    """Mean effect of repeated experiments, with its interval and their heterogeneity.

    effects, errors, degrees : (k,), k >= 2, estimates, their standard errors (> 0) and the degrees of freedom (> 0) of
    these, one per experiment, any one unit on which effects add up; for ratios their logarithms. The errors are only
    for the heterogeneity. The prediction interval needs FEWEST_TO_PREDICT experiments.
    ValueError: shapes differ, fewer than two, or an error or its degrees of freedom are not positive.
    """
    y, v = np.asarray(effects, dtype=np.float64), np.asarray(errors, dtype=np.float64) ** 2
    free = np.asarray(degrees, dtype=np.float64)
    if y.ndim != 1 or not (y.shape == v.shape == free.shape) or y.size < 2:
        raise ValueError(f"expected three arrays of one shape (k,) with k >= 2, got {y.shape}, {v.shape}, {free.shape}")
    if not (np.isfinite(y).all() and np.isfinite(v).all() and (v > 0).all() and (free > 0).all()):
        raise ValueError("expected finite effects, positive standard errors and degrees of freedom")
    k, noise = y.size, float(v.mean())
    mean, sd = mean_and_sd(y.tolist())
    if sd <= NO_SPREAD:  # the same to the last digit: then the experiments' own errors are all that is known of it
        sd = math.sqrt(noise)
    error, f = sd / math.sqrt(k), sd**2 / noise
    return Pooled(
        mean=mean,
        interval=t_interval(mean, sd, k, confidence=confidence),
        error=error,
        degrees=k - 1,
        p_value=2 * t_tail(abs(mean) / error, k - 1),
        tau=_root(sd**2 - noise),
        tau_interval=_tau_interval(v, sd**2, confidence=confidence),
        f=f,
        f_p=float(fdtrc(_degrees_between(v), _degrees_within(v, free), f)),
        i2=max(0.0, 1 - 1 / f),
        prediction=t_interval(mean, sd * math.sqrt(k + 1), k, confidence=confidence)
        if k >= FEWEST_TO_PREDICT
        else None,
        of_these=interval_about(mean, math.sqrt(noise / k), _degrees_within(v, free), confidence=confidence),
    )


def _degrees_between(v: Array) -> float:
    """Of the variance of independent values whose variances are ``v``."""
    k, mean = v.size, float(v.mean())
    return ((k - 1) * mean) ** 2 / (float((v**2).sum()) * (1 - 2 / k) + mean**2)


def _degrees_within(v: Array, free: Array) -> float:
    """Of the mean of estimated variances."""
    return float(v.sum()) ** 2 / float((v**2 / free).sum())


def _tau_interval(v: Array, variance: float, *, confidence: float) -> Interval:
    """Of tau: the interval of the effects' variance, less the noise of the experiments."""
    tail, noise = (1 - confidence) / 2, float(v.mean())
    degrees = _degrees_between(v + max(0.0, variance - noise))
    low, high = (_root(degrees * variance / float(chdtri(degrees, chance)) - noise) for chance in (tail, 1 - tail))
    return Interval(low=low, high=high, confidence=confidence)


def _root(variance: float) -> float:
    return math.sqrt(max(0.0, variance))
