"""What the next block is expected to be, from exponentially weighted means of those before.

The means reach back a block, half an hour, three hours and a day. The expected value is their weighted mean, with
weights from calm data that add up to one: what the faster ones leave goes to the slowest, which is the reference that
a shift is a shift from. So a level that was learned wrongly, or that drifts slowly, is followed within a day or two,
and memory that fades like a power of time is approximated. Source: Corsi, J. Financ. Econom. 7 (2009) 174-196, for
several horizons in place of a long memory.

A block enters the means no further from what was expected than FARTHEST standard deviations: a burst is forgotten, and
a shift stays one. Values have the shape (sets, streams): sets share nothing but the computation.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.stats.alarms.blocks import DAY, Array

REACH = (1.0, 6.0, 36.0, 288.0)  # blocks; the last is the reference
FARTHEST = 5.0
_OUTLIER = 6.0  # robust standard deviations, in the regression
_RIDGE = 1e-3
_HOURS = 24
_OVERALL = 84.0  # blocks: as much as the spread of all hours counts beside that of one
_NORMAL = 1.4826
_NOTHING = 1e-9
RUNS = (1, 3, 12, 36, 144, 432)  # blocks: how far ahead errors of means are learned


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictor:
    """``weights`` of the faster means, (sets, streams, 3); ``scale`` of errors by hour, (sets, streams, 24)."""

    weights: Array
    scale: Array


def start_means(values: Array) -> Array:
    """(sets, streams, 4) from the first values (sets, streams, n): their median, 0 where none is known."""
    known = np.isfinite(values)
    middle = np.nanmedian(np.where(known.any(axis=-1, keepdims=True), values, 0.0), axis=-1)
    return np.repeat(middle[..., None], len(REACH), axis=-1)


def expect(means: Array, weights: Array) -> Array:
    """(sets, streams): the next value."""
    reference = means[..., -1]
    expected: Array = reference + ((means[..., :-1] - reference[..., None]) * weights).sum(axis=-1)
    return expected


def follow(means: Array, values: Array, age: Array | float = math.inf) -> Array:
    """Means with (sets, streams) values in them; NaN changes nothing.

    age : (sets, streams) blocks that the means are made of, as far as it is less than they reach back.
    """
    known = np.isfinite(values)
    step = np.where(known, values, 0.0)[..., None] - means
    share = np.maximum(1 / np.asarray(REACH), 1 / np.asarray(age)[..., None])
    moved: Array = means + np.where(known[..., None], step, 0.0) * share
    return moved


def learn_predictor(values: Array, hours: NDArray[np.int64]) -> Predictor:
    """From (sets, streams, n) calm values without their rhythm; NaN is a gap. hours : (n,), of the day.

    Least squares through the reference, with what is far off moved in; the scale is that of what it leaves.
    """
    middle = np.nanmedian(np.where(np.isfinite(values), values, np.nan_to_num(start_means(values)[..., :1])), axis=-1)
    away = values - middle[..., None]
    bound = _OUTLIER * _NORMAL * np.nanmedian(np.abs(np.nan_to_num(away)), axis=-1)
    near = middle[..., None] + np.clip(away, -bound[..., None], bound[..., None])
    fast = len(REACH) - 1
    squares = np.zeros((*values.shape[:-1], fast, fast))
    products = np.zeros((*values.shape[:-1], fast))
    means = start_means(near[..., :DAY])
    for place in range(near.shape[-1]):
        value = near[..., place]
        left = np.where(np.isfinite(value)[..., None], means[..., :-1] - means[..., -1:], 0.0)
        squares += left[..., :, None] * left[..., None, :]
        products += left * (np.where(np.isfinite(value), value, 0.0) - means[..., -1])[..., None]
        means = follow(means, value)
    size = squares.trace(axis1=-2, axis2=-1)[..., None, None]
    squares = squares + np.eye(fast) * np.where(size > 0, _RIDGE * size / fast, 1.0)
    weights = np.linalg.solve(squares, products[..., None])[..., 0]
    scale = np.full((*values.shape[:-1], _HOURS), np.inf)
    # Twice: what is far off is known only once the scale is.
    for _ in range(2):
        errors = pass_through(values, Predictor(weights=weights, scale=scale), hours).errors
        scale = _scale_of(errors, values, hours)
    return Predictor(weights=weights, scale=scale)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Passage:
    """Calm values as the detector would have seen them: ``errors`` of prediction and the ``references`` before each
    value, (sets, streams, n); ``means`` at the end, (sets, streams, 4).
    """

    errors: Array
    references: Array
    means: Array


def pass_through(values: Array, predictor: Predictor, hours: NDArray[np.int64]) -> Passage:
    """Of (sets, streams, n) values without their rhythm; NaN for gaps, whose errors are NaN, too."""
    means = start_means(values[..., :DAY])
    errors, references = np.empty_like(values), np.empty_like(values)
    for place in range(values.shape[-1]):
        expected = expect(means, predictor.weights)
        error = values[..., place] - expected
        errors[..., place], references[..., place] = error, means[..., -1]
        means = follow(means, expected + cut(error, predictor.scale[..., hours[place]]))
    return Passage(errors=errors, references=references, means=means)


def cut(errors: Array, scale: Array) -> Array:
    """No further than FARTHEST standard deviations."""
    bound = FARTHEST * scale
    found: Array = np.clip(errors, -bound, bound)
    return found


def learn_ahead(values: Array, references: Array) -> Array:
    """(sets, streams, RUNS): standard deviation of the mean of so many blocks against the reference before them."""
    found = []
    for run in RUNS:
        whole = values.shape[-1] // run
        parts = values[..., : whole * run].reshape(*values.shape[:-1], whole, run)
        known = np.isfinite(parts)
        count = known.sum(axis=-1)
        total = np.where(known, parts, 0.0).sum(axis=-1)
        mean = np.divide(total, count, out=np.full(total.shape, np.nan), where=count >= (run + 1) // 2)
        apart = mean - references[..., : whole * run : run]
        known_runs = np.isfinite(apart)
        squares = np.where(known_runs, apart**2, 0.0).sum(axis=-1)
        found.append(np.sqrt(squares / np.maximum(1, known_runs.sum(axis=-1))))
    return np.stack(found, axis=-1)


def _scale_of(errors: Array, values: Array, hours: NDArray[np.int64]) -> Array:
    """(sets, streams, 24): robust, and each hour's with a part of all hours' in it."""
    least = _NOTHING * np.nanmax(np.abs(values), axis=-1, initial=1e-6)
    overall = np.maximum(_spread(errors), least)
    found = []
    for hour in range(_HOURS):
        of_hour = errors[..., hours == hour]
        count = np.isfinite(of_hour).sum(axis=-1)
        own = np.where(count > 0, _spread(of_hour), 0.0) if of_hour.shape[-1] else np.zeros(overall.shape)
        found.append(np.sqrt((count * own**2 + _OVERALL * overall**2) / (count + _OVERALL)))
    return np.stack(found, axis=-1)


def _spread(errors: Array) -> Array:
    known = np.isfinite(errors).any(axis=-1, keepdims=True)
    spread: Array = _NORMAL * np.nanmedian(np.abs(np.where(known, errors, 0.0)), axis=-1)
    return spread
