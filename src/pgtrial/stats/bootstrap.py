"""How well one long run knows its own level, when neighbouring seconds resemble each other: a block bootstrap.

Stretches of the run are drawn with replacement and put together to a run of the same length; what the draws differ by
is the error of whatever is computed from them, a throughput or a percentile. The stretches have to be long enough to
keep what neighbours have in common; how long is estimated from the series.

It is the error of this run's level and of nothing else. What makes two runs of one server differ (the state of the
data, the host, the hour) is the same in every second of a run, so no resampling of it can show it.
Sources: circular block bootstrap: Politis & Romano in "Exploring the Limits of Bootstrap" (1992) 263-270; length:
Politis & White, Econom. Rev. 23 (2004) 53-70, corrected by Patton, Politis & White, Econom. Rev. 28 (2009) 372-375.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgtrial.stats.interval import Known

Array = NDArray[np.float64]

FEWEST_STRETCHES = 10  # below, their differences say too little
DRAWS = 999


def stretch_length(series: Sequence[float] | Array) -> float:
    """Length of the stretches for a series, in values; at least 1.

    series : (n,), n >= 8, equally spaced, without gaps, any unit. The autocovariances count up to the lag from which on
    the correlations are no longer told from zero, with the flat-top weights of Politis & Romano (1995).
    """
    x = np.asarray(series, dtype=np.float64)
    n = x.size
    rest = x - x.mean()
    if n < 8 or float(rest @ rest) <= 1e-24 * max(1.0, float(x @ x)):
        return 1.0
    quiet = max(5, int(math.log10(n)))  # lags in a row that have to be insignificant
    furthest = min(math.ceil(math.sqrt(n)) + quiet, n - 1)
    covariances = np.array([float(rest[lag:] @ rest[: n - lag]) / n for lag in range(furthest + 1)])
    limit = 2 * math.sqrt(math.log10(n) / n)
    small = np.abs(covariances[1:] / covariances[0]) < limit
    last = next((lag for lag in range(furthest - quiet + 1) if small[lag : lag + quiet].all()), None)
    window = furthest if last is None else min(2 * max(last, 1), furthest)
    lags = np.arange(1, window + 1)
    weights = np.minimum(1.0, 2 * (1 - lags / window))
    slope = 2 * float((weights * lags * covariances[1 : window + 1]).sum())
    spectrum = float(covariances[0]) + 2 * float((weights * covariances[1 : window + 1]).sum())
    longest = math.ceil(min(3 * math.sqrt(n), n / 3))
    if spectrum <= 0:
        return float(longest)
    return float(min(max(1.0, (2 * slope**2 / (4 / 3 * spectrum**2)) ** (1 / 3) * n ** (1 / 3)), longest))


def draw_weights(count: int, length: int, *, rng: np.random.Generator, draws: int = DRAWS) -> Array:
    """How often each of ``count`` values is in each draw: (draws, count), rows sum to ``count``.

    Stretches of ``length`` values begin anywhere, and go on at the beginning when they reach the end.
    """
    stretches = math.ceil(count / length)
    starts = rng.integers(0, count, (draws, stretches, 1))
    places = ((starts + np.arange(length)) % count).reshape(draws, -1)[:, :count]
    flat = (places + np.arange(draws)[:, None] * count).ravel()
    weights: Array = np.bincount(flat, minlength=draws * count).reshape(draws, count).astype(np.float64)
    return weights


def known_from_draws(estimate: float, drawn: Array, *, count: int, length: int) -> Known | None:
    """An estimate with the error that its draws show.

    estimate : of the run itself; drawn : (draws,), of the draws, in the same unit. ``count`` values of the series in
    stretches of ``length``. None with fewer than FEWEST_STRETCHES, or without spread.
    The draws of m stretches are too close together by the factor (m - 1) / m of their variance, and they know it with
    m - 1 degrees of freedom, as m means of batches would (Schmeiser, Oper. Res. 30 (1982) 556-568).
    """
    stretches = count / length
    known = drawn[np.isfinite(drawn)]
    if stretches < FEWEST_STRETCHES or known.size < 2 or not math.isfinite(estimate):
        return None
    error = float(known.std(ddof=1)) * math.sqrt(stretches / (stretches - 1))
    return Known(mean=estimate, error=error, degrees=stretches - 1) if error > 1e-12 else None
