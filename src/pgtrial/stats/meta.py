"""Combine repeated experiments: random effects and heterogeneity.

Each experiment has its own true effect, drawn around a mean; the mean, and how far the true effects are spread (tau),
are what is asked for. Two machines, or two days, are never quite the same, so a common effect is not assumed.

- tau² is the Paule-Mandel estimate: the one at which the weighted sum of squares of the effects is what it should be,
  found by Newton's method as the second source says.
  Sources: Paule & Mandel, J. Res. Natl. Bur. Stand. 87 (1982) 377-385; DerSimonian & Kacker, Contemp. Clin. Trials 28
  (2007) 105-114.
- The interval of the mean is that of Hartung, Knapp, Sidik and Jonkman with k - 1 degrees of freedom, its factor never
  below 1, so that experiments which happen to agree do not narrow it. Where tau² > 0 that factor is 1 by the very
  definition of the Paule-Mandel estimate. Sources: Hartung & Knapp, Stat. Med. 20 (2001) 3875-3889; Sidik & Jonkman,
  Stat. Med. 21 (2002) 3153-3159; the bound: Röver, Knapp & Friede, BMC Med. Res. Methodol. 15 (2015) 99.
- The prediction interval is where the effect of another experiment like these is to be expected: Higgins, Thompson &
  Spiegelhalter, J. R. Stat. Soc. A 172 (2009) 137-159, with k - 2 degrees of freedom.
- Heterogeneity: Cochran's Q (Biometrics 10 (1954) 101-129), I² (Higgins & Thompson, Stat. Med. 21 (2002) 1539-1558),
  the interval of tau² by Q's profile (Viechtbauer, Stat. Med. 26 (2007) 37-52).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, chdtri, ndtri

from pgtrial.stats.base import Interval
from pgtrial.stats.interval import t_interval, t_tail

Array = NDArray[np.float64]

FEWEST_TO_PREDICT = 3
_MOST_STEPS = 200  # towards tau²; each of the first doubles it at least where it is far off, the last are quadratic


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """``mean``, ``error``, ``tau`` and all intervals are in the unit of the effects; weights sum to 1.

    ``error`` is the standard error that goes with ``degrees`` degrees of freedom. ``common`` is the interval of a model
    without differences between the experiments, for comparison. ``q`` has k - 1 degrees of freedom.
    """

    mean: float
    interval: Interval
    error: float
    degrees: int
    p_value: float
    weights: tuple[float, ...]
    tau: float
    tau_interval: Interval
    q: float
    q_p: float
    i2: float
    prediction: Interval | None
    common_mean: float
    common: Interval


def combine(effects: Sequence[float] | Array, errors: Sequence[float] | Array, *, confidence: float = 0.95) -> Pooled:
    """Mean effect of repeated experiments, with its interval and their heterogeneity.

    effects, errors : (k,), k >= 2, estimates and their standard errors (> 0), one per experiment, any one unit on which
    effects add up; for ratios their logarithms. The prediction interval needs FEWEST_TO_PREDICT experiments.
    ValueError: shapes differ, fewer than two, or an error is not positive.
    The errors are taken as known. They are themselves estimates from few blocks, which makes Q too large and tau² with
    it: tests/stats/test_meta.py says what that does to the coverage.
    """
    y, v = np.asarray(effects, dtype=np.float64), np.asarray(errors, dtype=np.float64) ** 2
    if y.ndim != 1 or y.shape != v.shape or y.size < 2:
        raise ValueError(f"expected two arrays of one shape (k,) with k >= 2, got {y.shape} and {v.shape}")
    if not (np.isfinite(y).all() and np.isfinite(v).all() and (v > 0).all()):
        raise ValueError("expected finite effects and positive standard errors")
    degrees = y.size - 1
    q = _generalised_q(y, v, 0.0)
    tau2 = _solve(y, v, target=float(degrees))
    weights = 1 / (v + tau2)
    mean = float(weights @ y / weights.sum())
    factor = max(1.0, _generalised_q(y, v, tau2) / degrees)
    error = math.sqrt(factor / float(weights.sum()))
    fixed = 1 / v
    common_mean = float(fixed @ y / fixed.sum())
    return Pooled(
        mean=mean,
        interval=_t_around(mean, error, degrees, confidence=confidence),
        error=error,
        degrees=degrees,
        p_value=2 * t_tail(abs(mean) / error, degrees),
        weights=tuple(float(weight) for weight in weights / weights.sum()),
        tau=math.sqrt(tau2),
        tau_interval=_profile(y, v, confidence=confidence),
        q=q,
        q_p=float(chdtrc(degrees, q)),
        i2=max(0.0, (q - degrees) / q) if q > 0 else 0.0,
        prediction=(
            _t_around(mean, math.sqrt(tau2 + error**2), degrees - 1, confidence=confidence)
            if y.size >= FEWEST_TO_PREDICT
            else None
        ),
        common_mean=common_mean,
        common=_normal_around(common_mean, math.sqrt(1 / float(fixed.sum())), confidence=confidence),
    )


def _generalised_q(y: Array, v: Array, tau2: float) -> float:
    """Weighted sum of squares around the weighted mean; Cochran's Q at tau² = 0, and falling from there."""
    weights = 1 / (v + tau2)
    mean = weights @ y / weights.sum()
    return float(weights @ (y - mean) ** 2)


def _solve(y: Array, v: Array, *, target: float) -> float:
    """The tau² at which the generalised Q is ``target``; 0 where it is below that already without any."""
    tau2 = 0.0
    for _ in range(_MOST_STEPS):
        weights = 1 / (v + tau2)
        parts = weights * (y - weights @ y / weights.sum())
        # The mean is where the sum of squares is least, so that its own movement does not count in the slope. Q is
        # convex in tau²: no step goes too far.
        excess = float(parts @ (parts / weights)) - target
        if excess <= 0:
            break
        step = excess / float(parts @ parts)
        tau2 += step
        if step <= 1e-15 * tau2:
            break
    return tau2


def _profile(y: Array, v: Array, *, confidence: float) -> Interval:
    """Of tau: the values at which the generalised Q would not be surprising."""
    tail, degrees = (1 - confidence) / 2, y.size - 1
    low, high = (_solve(y, v, target=float(chdtri(degrees, chance))) for chance in (tail, 1 - tail))
    return Interval(low=math.sqrt(low), high=math.sqrt(high), confidence=confidence)


def _t_around(mean: float, error: float, degrees: int, *, confidence: float) -> Interval:
    # The interval of a mean of n values has the error sd / sqrt(n) and n - 1 degrees of freedom.
    count = degrees + 1
    return t_interval(mean, error * math.sqrt(count), count, confidence=confidence)


def _normal_around(mean: float, error: float, *, confidence: float) -> Interval:
    half = float(ndtri((1 + confidence) / 2)) * error
    return Interval(low=mean - half, high=mean + half, confidence=confidence)
