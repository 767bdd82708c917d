"""What is usual at a time of day and on a weekday, learned from a few weeks.

Half hours of the day, then weekdays, then half hours of a weekday: each step explains what the one before left, and is
shrunk as far as its differences are no larger than chance would make them, which the weeks tell among themselves. So
two weeks of a load without a rhythm give no rhythm, and a rhythm that stands out is kept as it is. Sources: Efron &
Morris, J. Am. Stat. Assoc. 70 (1975) 311-319; medians over days, so that a bad one counts little.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.stats.alarms.blocks import DAY, WEEK, Array, mean_known, median_known

BINS = 48  # of a day
_PER_BIN = DAY // BINS
_MEDIAN = np.pi / 2  # the variance of a median against that of a mean, many normal values
_FAR = 4.0  # robust standard deviations, beyond which a value counts as one there


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Days:
    """Means of half hours: ``bins`` (..., days, BINS), NaN where not known, and the weekday of each, 0 to 6."""

    bins: Array
    weekdays: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shrinkage:
    """Variance between days of a half hour, of a weekday's level, and of a half hour of a weekday; (...,) each, and
    how much of the true differences there is to them.
    """

    noise: Array  # (3, ...)
    signal: Array  # (3, ...)


def days_of(blocks: Array, first: int) -> Days:
    """Of (..., n) blocks, the first of which begins ``first`` blocks after a Monday's midnight."""
    before = first % DAY
    days = -(-(before + blocks.shape[-1]) // DAY)
    padded = np.full((*blocks.shape[:-1], days * DAY), np.nan)
    padded[..., before : before + blocks.shape[-1]] = blocks
    parts = padded.reshape(*blocks.shape[:-1], days, BINS, _PER_BIN)
    weekdays = (first // DAY + np.arange(days)) % 7
    return Days(bins=mean_known(parts), weekdays=weekdays)


def learn_shrinkage(days: Days) -> Shrinkage:
    """From all days; parts of them (``learn_profile``) are shrunk by it as far as fewer days need."""
    _, steps, noises = _steps(days, None)
    counts = _counts(days)
    signal = [
        np.maximum(0.0, mean_known(step**2) - noise / count)
        for step, noise, count in zip(steps, noises, counts, strict=True)
    ]
    return Shrinkage(noise=np.stack(noises), signal=np.stack(signal))


def learn_profile(days: Days, shrinkage: Shrinkage) -> Array:
    """(..., 7 * BINS): how much above the usual each half hour of the week is, at its middle."""
    profile, _, _ = _steps(days, shrinkage)
    return profile


def at_blocks(profile: Array, blocks: NDArray[np.int64]) -> Array:
    """(..., n): the profile between the middles of half hours, at blocks since a Monday's midnight."""
    place = ((blocks % WEEK) + 0.5) / _PER_BIN - 0.5
    left = np.floor(place).astype(np.int64)
    part = place - left
    size = profile.shape[-1]
    found: Array = profile[..., left % size] * (1 - part) + profile[..., (left + 1) % size] * part
    return found


def _counts(days: Days) -> tuple[float, float, float]:
    count = days.weekdays.size
    return count / _MEDIAN, count / 7, count / 7


def _steps(days: Days, shrinkage: Shrinkage | None) -> tuple[Array, list[Array], list[Array]]:
    """The profile, the differences of each step, (..., k), and the variance of noise; unshrunk until it is known."""
    bins, weekdays, counts = days.bins, days.weekdays, _counts(days)

    def shrunk(step: int, values: Array, noise: Array) -> Array:
        if shrinkage is None:
            signal = np.maximum(0.0, mean_known(values**2) - noise / counts[step])
        else:
            signal, noise = shrinkage.signal[step], shrinkage.noise[step]
        total = signal + noise / counts[step]
        weight = np.divide(signal, total, out=np.zeros_like(total), where=total > 0)
        return np.nan_to_num(values * weight[..., None])

    rest = bins - median_known(bins.reshape(*bins.shape[:-2], -1))[..., None, None]
    of_day = median_known(np.moveaxis(rest, -2, -1))
    of_day = of_day - mean_known(of_day)[..., None]
    left = rest - np.nan_to_num(of_day)[..., None, :]
    spread = left - mean_known(left)[..., None]
    noise_of_day = (1.4826 * median_known(np.abs(spread).reshape(*spread.shape[:-2], -1))) ** 2
    profile_day = shrunk(0, of_day, noise_of_day)
    rest = rest - profile_day[..., None, :]

    levels = median_known(rest)
    of_weekday = np.stack([mean_known(levels[..., weekdays == day]) for day in range(7)], axis=-1)
    of_weekday = of_weekday - mean_known(of_weekday)[..., None]
    noise_of_weekday = _between(levels[..., None], weekdays)
    profile_weekday = shrunk(1, of_weekday, noise_of_weekday)
    rest = rest - levels[..., None]

    scale = 1.4826 * median_known(np.abs(rest).reshape(*rest.shape[:-2], -1))[..., None, None]
    rest = np.clip(rest, -_FAR * scale, _FAR * scale)
    cells = np.stack([mean_known(rest[..., weekdays == day, :], axis=-2) for day in range(7)], axis=-2)
    flat = cells.reshape(*cells.shape[:-2], 7 * BINS)
    noise_of_cell = _between(rest, weekdays)
    profile_cell = shrunk(2, flat, noise_of_cell)

    profile = (profile_weekday[..., None] + profile_day[..., None, :]).reshape(flat.shape) + profile_cell
    return profile, [of_day, of_weekday, flat], [noise_of_day, noise_of_weekday, noise_of_cell]


def _between(values: Array, weekdays: NDArray[np.int64]) -> Array:
    """Variance of (..., days, k) between weeks of the same weekday, over all k; infinite with one week."""
    squares: Array = np.zeros(values.shape[:-2])
    degrees = np.zeros(values.shape[:-2])
    for day in range(7):
        same = values[..., weekdays == day, :]
        known = np.isfinite(same).sum(axis=-2)
        apart = np.where(np.isfinite(same), same - mean_known(same, axis=-2)[..., None, :], 0.0)
        squares = squares + (apart**2).sum(axis=(-2, -1))
        degrees = degrees + np.maximum(known - 1, 0).sum(axis=-1)
    variance: Array = np.divide(squares, degrees, out=np.full(squares.shape, np.inf), where=degrees > 0)
    return variance
