"""Whether series are unlike themselves at marked seconds, or some seconds before them.

Of each series and lag the mean at the marked seconds, moved back by the lag, is held against that of the whole run.
What chance makes of it is told by the marks themselves, turned round the clock of each run by any number of seconds:
the same shift for all series and lags, so that what series have to do with each other, and each with its own past,
stays as it is, and only what they have to do with the marks is lost. Each deviation is divided by its standard
deviation over all shifts, and its probability is that of the largest one of all series and lags together, so that
however many are tried one is found in noise as often as promised.

Sources: circular shifts of series that resemble their past: Harris, "A shift test for independence in generic time
series", arXiv:2012.06862 (2020); the largest of many: Westfall & Young, "Resampling-Based Multiple Testing" (1993),
section 2.3 (single-step maxT). The rate of false alarms is checked by simulation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DRAWS = 1999
_ROUNDING = 1e-9  # of the largest value of a series


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedSeries:
    """A run: ``values`` (series, seconds), NaN where not known, and which seconds are ``marked`` (seconds,)."""

    values: Array
    marked: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """A series at the marked seconds, moved back by ``lag``, against all others: means over what is known.

    ``p_value``: probability that any series deviates as far at any lag, if none has to do with the marks.
    """

    lag: int
    marked: float
    rest: float
    p_value: float


def find_unlike(
    runs: Sequence[MarkedSeries], *, lags: Sequence[int] = (0,), rng: np.random.Generator, draws: int = DRAWS
) -> tuple[Unlike | None, ...]:
    """Of each series the lag at which it deviates most; None for one that never varies, or is not known.

    Runs without marks, or without a second between them, do not count. () where none counts.
    """
    counted = [run for run in runs if run.marked.any() and not run.marked.all()]
    if not counted:
        return ()
    centred = [_centre(run.values) for run in counted]
    products = [_products(values, run.marked) for values, run in zip(centred, counted, strict=True)]
    # By run and series: over all shifts the mean is zero, because the series were centred.
    spread = np.sqrt(sum((of_run**2).mean(axis=1) for of_run in products))
    varies = spread > 0
    deviations = np.zeros((len(lags), spread.size))
    largest = np.zeros(draws)
    shifts = [rng.integers(0, run.marked.size, draws) for run in counted]
    for place, lag in enumerate(lags):
        deviations[place] = sum(of_run[:, -lag % of_run.shape[1]] for of_run in products)
        drawn = sum(of_run[:, (shift - lag) % of_run.shape[1]] for of_run, shift in zip(products, shifts, strict=True))
        if varies.any():
            scaled = np.abs(np.asarray(drawn)[varies]) / spread[varies, None]
            largest = np.maximum(largest, scaled.max(axis=0))
    scores = np.abs(np.divide(deviations, spread, out=np.zeros_like(deviations), where=varies))
    best = scores.argmax(axis=0)
    return tuple(
        _unlike(counted, series, lags[best[series]], p_value=_chance(largest, scores[best[series], series]))
        if varies[series]
        else None
        for series in range(spread.size)
    )


def _centre(values: Array) -> Array:
    """Without the mean of each series, which also takes the place of what is not known; 0 where only rounding is."""
    known = ~np.isnan(values)
    counts = known.sum(axis=1, keepdims=True)
    filled = np.where(known, values, 0.0)
    means = np.divide(filled.sum(axis=1, keepdims=True), counts, out=np.zeros(counts.shape), where=counts > 0)
    centred: Array = np.where(known, values - means, 0.0)
    size = np.abs(filled).max(axis=1, keepdims=True)
    return np.where(np.abs(centred) <= _ROUNDING * size, 0.0, centred)


def _products(values: Array, marked: NDArray[np.bool_]) -> Array:
    """Sum of each series over the marks after a shift of s seconds, (series, seconds): a circular correlation."""
    size = marked.size
    spectrum = np.fft.rfft(values) * np.conj(np.fft.rfft(marked.astype(np.float64)))
    found: Array = np.fft.irfft(spectrum, size)
    # What the transform leaves of zeros is none.
    found[~values.any(axis=1)] = 0.0
    return found


def _chance(largest: Array, score: float) -> float:
    # Rounding must not turn "as far" into "less far".
    return float((1 + np.count_nonzero(largest >= score * (1 - _ROUNDING))) / (1 + largest.size))


def _unlike(runs: Sequence[MarkedSeries], series: int, lag: int, *, p_value: float) -> Unlike:
    inside, outside = [], []
    for run in runs:
        at = np.roll(run.marked, -lag)
        inside.append(run.values[series, at])
        outside.append(run.values[series, ~at & ~run.marked])
    return Unlike(lag=lag, marked=_mean(inside), rest=_mean(outside), p_value=p_value)


def _mean(parts: Sequence[Array]) -> float:
    together = np.concatenate(parts)
    known = together[~np.isnan(together)]
    return float(known.mean()) if known.size else float("nan")
