"""Dips of a throughput series: stretches far below the usual level at that time, and their cost.

Definition. What is usual is the running median over 301 seconds, so a dip is no longer than half of that; longer losses
are a new level (see ``trend``). Where the level drifts or swings slowly, so does what is usual over 61 seconds, and
that is looked at as well: its dips are shorter than half a minute, and are added where the other finds none. The noise
is measured above the usual only, where there are no dips. A dip is a stretch that falls below the usual by more than
SHALLOWEST, and either by more than noise reaches in a whole series, or within a moment by more than noise changes in
one anywhere in it; each with half of the probability FALSE_ALARM, or of what each of the two medians has of it. It
lasts as long as the series stays below half of that, or below half of the usual. The first finds what comes gradually.
The second finds what breaks in again and again, as after checkpoints: then the series is seldom usual, and a few slow
swings above the median say little of how far others could reach, but its changes in a moment are many.

What noise reaches is a quantile of Student's t, because the spread of the noise is itself estimated, from as many
independent values as the autocorrelation leaves, and never less than that of a Poisson process with the usual rate.
Where that is more than HALF, single seconds say too little (three transactions a second, or much noise): then means of
2, 4, … up to 32 seconds take their place, and ``resolution`` says which.

Sources: median absolute deviation: Rousseeuw & Croux, J. Am. Stat. Assoc. 88 (1993) 1273-1283, to cut off bursts as in
Huber, "Robust Statistics" (1981), section 1.7; two thresholds: Canny, IEEE Trans. Pattern Anal. 8 (1986) 679-698,
section on hysteresis; independent values for a variance: Bartlett, J. R. Statist. Soc. Suppl. 8 (1946) 27-41. The
false-alarm probability is checked by simulation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pgtrial.stats.interval import t_quantile

Array = NDArray[np.float64]

WIDE, NARROW = 301, 61  # s, of the running medians
NARROW_SHARE = 0.2  # of FALSE_ALARM, that the narrow one has where it can find something
SHALLOWEST = 0.2  # of the usual
HALF = 0.5
FALSE_ALARM = 0.01
FEWEST = 20  # seconds
_PER_BASELINE = 9  # means of seconds, at least, that a running median is taken of
_SIGMA = 1.4826  # times the median absolute deviation is the standard deviation of normal noise
_BURST = 3.0  # standard deviations at which values above the usual are cut off


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputDip:
    """``start`` and ``length`` in seconds of the series; ``depth`` is 1 - lowest / usual, so 1 is a standstill.

    ``half_recovery`` and ``recovery``: seconds from the lowest point until half, or 90 %, of the depth was made good;
    None where that did not happen in the series. ``stalled``: seconds of it without any transaction.
    """

    start: int
    length: int
    depth: float
    lowest_at: int
    half_recovery: int | None
    recovery: int | None
    stalled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evenness:
    """How even a series is, whether or not anything is usual in it. ``lowest`` and ``highest`` are its 1st and 99th
    percentile (type 7), in its unit.

    ``coefficient_of_variation`` is standard deviation / mean, None where all is zero. ``stalled_share``: share of
    seconds that are zero, which at low rates is normal.
    """

    lowest: float
    highest: float
    coefficient_of_variation: float | None
    stalled_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Steadiness:
    """Dips of a series, and what they are measured by. ``usual`` is its median, in its unit.

    ``dip_share``: share of time in dips. ``threshold``: share of the usual by which a dip must be below it, or must
    have fallen within a moment, from above the usual if it is more than 1. ``resolution``: seconds whose mean is looked
    at, at most.
    """

    dips: tuple[ThroughputDip, ...]
    usual: float
    dip_share: float
    threshold: float
    resolution: int


def find_evenness(values: ArrayLike) -> Evenness | None:
    """How even a throughput series is.

    values : (seconds,) as for ``find_dips``. None with fewer than FEWEST known seconds.
    """
    series = np.asarray(values, dtype=np.float64)
    known = series[~np.isnan(series)]
    if known.size < FEWEST:
        return None
    mean = float(known.mean())
    return Evenness(
        lowest=float(np.percentile(known, 1)),
        highest=float(np.percentile(known, 99)),
        coefficient_of_variation=float(known.std(ddof=1)) / mean if mean > 0 else None,
        stalled_share=float((known == 0).mean()),
    )


def find_dips(values: ArrayLike) -> Steadiness | None:
    """Dips of a throughput series.

    values : (seconds,) events per second, counted in each whole second; NaN is a second that is not known: it does not
    count, and neither begins nor ends a dip. None with fewer than FEWEST known seconds, or when most are zero.
    """
    series = np.asarray(values, dtype=np.float64)
    known = series[~np.isnan(series)]
    if known.size < FEWEST or float(np.median(known)) <= 0:
        return None
    views = _views(series)
    dips = _merge([_dips(view, series == 0) for view in views])
    return Steadiness(
        dips=dips,
        usual=float(np.median(known)),
        dip_share=sum(dip.length for dip in dips) / series.size,
        threshold=min(view.threshold for view in views),
        resolution=max(view.width for view in views),
    )


def _views(series: Array) -> "Sequence[_View]":
    """By the wide baseline and by the narrow one; by the wide one alone where the other would be the same, or where it
    could not even tell a standstill from noise.
    """
    if series.size > NARROW:
        narrow = _look(series, NARROW, NARROW_SHARE * FALSE_ALARM)
        if narrow.threshold <= 1:
            return _look(series, WIDE, (1 - NARROW_SHARE) * FALSE_ALARM), narrow
    return (_look(series, WIDE, FALSE_ALARM),)


def _merge(found: Sequence[Sequence[ThroughputDip]]) -> tuple[ThroughputDip, ...]:
    """The dips of the first, and of each later one those that touch none of them."""
    merged: list[ThroughputDip] = []
    for dips in found:
        merged += [
            dip
            for dip in dips
            if all(dip.start + dip.length < other.start or other.start + other.length < dip.start for other in merged)
        ]
    return tuple(sorted(merged, key=lambda dip: dip.start))


def _running_median(series: Array, window: int) -> Array:
    """Median over ``window`` seconds around each, fewer at the ends; read at some seconds and interpolated between."""
    half = window // 2
    knots = np.unique(np.linspace(0, series.size - 1, max(2, math.ceil(series.size / (half / 10)))).astype(int))
    padded = np.pad(series, half, constant_values=np.nan)
    windows = np.sort(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)[knots], axis=1)  # NaN comes last
    known = np.count_nonzero(~np.isnan(windows), axis=1)
    rows = np.arange(knots.size)
    medians = np.where(known, (windows[rows, (known - 1) // 2] + windows[rows, known // 2]) / 2, 0.0)
    # No baseline of zero inside a long standstill: there the usual is that of the whole series.
    medians[medians <= 0] = np.nanmedian(series)
    between: Array = np.interp(np.arange(series.size), knots, medians)
    return between


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """Means of ``width`` seconds relative to the usual (0 is usual, -1 a standstill), and by how much they rose since
    the moment before; ``below`` and ``fall`` are what no noise does.
    """

    width: int
    relative: Array
    rises: Array
    below: float
    fall: float

    @property
    def threshold(self) -> float:
        return min(self.below, self.fall)


def _look(series: Array, baseline: int, false_alarm: float) -> _View:
    """The narrowest view in which half of the usual can be told from noise, or else the one with the least noise."""
    tried = []
    width = 1
    while width == 1 or (width * _PER_BASELINE <= baseline and series.size >= width * FEWEST):
        tried.append(_view(series, baseline, width, false_alarm / 2))
        if tried[-1].threshold <= HALF:
            break
        width *= 2
    return min(tried, key=lambda view: view.threshold)


def _view(series: Array, baseline: int, width: int, false_alarm: float) -> _View:
    means = _running_mean(series, width)
    level = _running_median(means, WIDE)
    usual = level if baseline == WIDE else _running_median(means, baseline)
    # Relative to the level: divided by what swings with the noise, noise would be larger where that is low.
    relative = (means - usual) / level
    looks = _looked_at(relative, width).size
    events = float(np.median(level)) * width
    # Of means that have no second in common, and with one between them: what breaks in may do so within a second.
    rises = np.concatenate((np.full(width + 1, np.nan), relative[width + 1 :] - relative[: -width - 1]))
    return _View(
        width=width,
        relative=relative,
        rises=rises,
        below=max(SHALLOWEST, _noise(relative, events=events, looks=looks, false_alarm=false_alarm)),
        # The variance of a difference is that of both.
        fall=max(SHALLOWEST, _noise(rises, events=events / 2, looks=looks, false_alarm=false_alarm)),
    )


def _running_mean(values: Array, width: int) -> Array:
    """Mean of the known among ``width`` values around each that is known."""
    if width == 1:
        return values
    known = ~np.isnan(values)
    window = np.ones(width)
    counts = np.convolve(known, window, mode="same")
    sums = np.convolve(np.where(known, values, 0.0), window, mode="same")
    return np.where(known, sums / np.maximum(counts, 1), np.nan)


def _noise(relative: Array, *, events: float, looks: int, false_alarm: float) -> float:
    """How far below 0 any of ``looks`` values of noise falls with probability ``false_alarm``.

    relative : (seconds,) values about 0, whose variance is at least that of ``events`` events relative to their number.
    """
    above = relative[relative >= 0]
    middle = _SIGMA * float(np.median(above)) if above.size else math.inf
    spread = math.sqrt(float((np.minimum(above, _BURST * middle) ** 2).mean())) if above.size else math.inf
    spread = max(spread, 1 / math.sqrt(events))
    # Only half of the values, those above the usual, tell the spread.
    degrees = max(1.0, _independent(np.clip(relative / spread, -2, 2)) / 2)
    return t_quantile(1 - false_alarm / looks, degrees) * spread


def _independent(values: Array) -> float:
    """How many independent values tell the variance as well: n / (1 + 2 Σ ρ²)."""
    known = ~np.isnan(values)
    count = int(known.sum())
    centred = np.where(known, values - values[known].mean(), 0.0)
    size = 2 * values.size
    sums = np.fft.irfft(np.abs(np.fft.rfft(centred, size)) ** 2, size)[: max(2, count // 4)]
    if sums[0] <= 0:
        return float(count)
    correlations = sums[1:] / sums[0]
    # What independent values show by chance is no autocorrelation.
    squares = float(np.maximum(correlations**2 - 1 / count, 0).sum())
    return count / (1 + 2 * squares)


def _looked_at(relative: Array, width: int) -> NDArray[np.intp]:
    """Seconds at which a mean over ``width`` may begin a dip: overlapping by half, so that looks are few."""
    step = max(1, width // 2)
    places = np.arange(step - 1, relative.size, step)
    return places[~np.isnan(relative[places])]


def _dips(view: _View, stalled: NDArray[np.bool_]) -> tuple[ThroughputDip, ...]:
    relative = view.relative
    with np.errstate(invalid="ignore"):
        low = relative < -min(1, view.threshold) / 2
        breaks = (relative < -view.below) | (view.rises < -view.fall)
    deep = np.zeros(relative.size, bool)
    places = _looked_at(relative, view.width)
    deep[places] = breaks[places]
    # A second that is not known continues what was before it.
    unknown = np.isnan(relative)
    last = np.maximum.accumulate(np.where(unknown, -1, np.arange(relative.size)))
    low = np.where(last >= 0, low[last], False)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], low.astype(int), [0]))))
    found = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        if not deep[start:end].any():
            continue
        stop = int(last[end - 1]) + 1  # unknown seconds at its end are no part of it
        bottom = int(start) + int(np.nanargmin(relative[start:stop]))
        depth = -float(relative[bottom])
        found.append(
            ThroughputDip(
                start=int(start),
                length=stop - int(start),
                depth=depth,
                lowest_at=bottom,
                half_recovery=_until(relative, bottom, -0.5 * depth),
                recovery=_until(relative, bottom, -0.1 * depth),
                stalled=int(stalled[start:stop].sum()),
            )
        )
    return tuple(found)


def _until(relative: Array, start: int, level: float) -> int | None:
    """Seconds from ``start`` to the first that reaches ``level``."""
    with np.errstate(invalid="ignore"):
        reached = np.flatnonzero(relative[start:] >= level)
    return int(reached[0]) if reached.size else None
