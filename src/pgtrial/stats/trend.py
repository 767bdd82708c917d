"""Trend of an autocorrelated series: Theil-Sen slope with an interval that covers as often as it claims.

Slow noise looks like a trend, and Sen's interval, made for independent values, then misses the truth in most cases. It
is the set of slopes β for which Kendall's S of the values minus βt is not surprising, so all that changes is how far S
strays without a trend. In a normal AR(1) series that is known: the signs of two rises agree by the arc sine of their
correlation. The coefficient φ is not known, and a single estimate of it is the weak point of the usual corrections
(Hamed & Rao 1998, Yue & Wang 2004), which in short series correct too little. Here each φ counts with its likelihood
given the series (restricted, so that the trend that was removed does no harm), and the interval is as wide as S strays
over all of them. They lie evenly on the scale of log(1 - φ): a short series of slow noise looks quick, and on an even
scale the few slow ones would have no say. Quick noise on top hides the slow one as well; means of neighbours bring it
out, so they are taken from as many values on as leave enough of them. The ends of the scale and the sizes of the groups
were chosen by simulation, such that intervals hold the truth neither too seldom nor too often (see the tests).

Sources: Theil, Indag. Math. 12 (1950) 85-91; Sen, J. Am. Stat. Assoc. 63 (1968) 1379-1389; variance of S: Kendall,
"Rank Correlation Methods", 4th ed. (1970), chapter 5, with Sheppard's arc sine law; Hamed, J. Hydrol. 349 (2008)
350-363; restricted likelihood: Patterson & Thompson, Biometrika 58 (1971) 545-554.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

Array = NDArray[np.float64]

FEWEST = 8
MOST = 48  # values; longer series are averaged, which costs next to nothing: a trend is what is slow
_GROUP, _GROUPS = 3, 20  # values whose means are taken, where there are so many of them
_GRID = 24  # values of φ …
_SLOWEST = 1.15  # … which end at 1 minus one tenth to the power of this
_MOST_STEPS = 60  # towards a quantile; a handful is usual
_EVEN = 1e-12  # relative spread below which all values are the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """``slope`` in the unit of the values per unit of time, with its interval.

    ``low`` is -inf and ``high`` inf where the series is too short for its autocorrelation to limit the slope.
    ``autocorrelation`` is that of neighbours among the ``count`` values (means of neighbours, in a long series) that
    the slope was taken from, as far as it is known.
    """

    slope: float
    low: float
    high: float
    autocorrelation: float
    count: int


def trend(values: ArrayLike, *, spacing: float = 1.0, confidence: float = 0.95) -> Trend | None:
    """Theil-Sen slope of equally spaced values.

    values : (n,), in order of time; NaN is an unknown value; it is left out, but its time passes.
    spacing : time between neighbours; with 1/60, values of each second give a slope per minute. None with fewer than
    FEWEST values. Long series are averaged in groups of neighbours first, which leaves at most MOST.
    """
    series = np.asarray(values, dtype=np.float64)
    width = max(math.ceil(series.size / MOST), _GROUP if series.size >= _GROUP * _GROUPS else 1)
    means = _averaged(series, width)
    at = np.flatnonzero(~np.isnan(means))
    if at.size < FEWEST:
        return None
    known, step = means[at], spacing * width
    first, second = np.triu_indices(at.size, k=1)
    slopes = np.sort((known[second] - known[first]) / ((at[second] - at[first]) * step))
    slope = float(np.median(slopes))
    rest = known - slope * step * at
    if np.ptp(rest) <= _EVEN * np.abs(known).max():
        return Trend(slope=slope, low=slope, high=slope, autocorrelation=0.0, count=at.size)
    weights = _likelihood(_normal_scores(rest))
    # A gap makes the values beside it resemble each other less than assumed, so the interval is too wide, if anything.
    strays = _spread_of_s(at.size)
    furthest = _quantile(weights, strays, tail=1 - confidence)
    place = (slopes.size - furthest) / 2
    low, high = (-math.inf, math.inf) if place < 0.5 else _order_statistics(slopes, place)
    return Trend(slope=slope, low=low, high=high, autocorrelation=float(weights @ _coefficients()), count=at.size)


def _averaged(series: Array, width: int) -> Array:
    """Means of ``width`` neighbours; NaN where fewer than half are known. What is left over at the end is left out."""
    if width <= 1:
        return series
    groups = series[: series.size // width * width].reshape(-1, width)
    known = (~np.isnan(groups)).sum(axis=1)
    sums = np.nansum(groups, axis=1)
    return np.where(known * 2 >= width, sums / np.maximum(known, 1), np.nan)


def _coefficients() -> Array:
    return 1 - 10 ** (-_SLOWEST * (np.arange(_GRID) + 0.5) / _GRID)


def _normal_scores(values: Array) -> Array:
    """Ranks as quantiles of the normal distribution: a single stall must not decide how slow the noise is."""
    # Equal values, also where rounding makes them differ, share a rank.
    _, place, repeats = np.unique(np.round(values / np.ptp(values), 9), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(repeats) - (repeats - 1) / 2)[place]
    scores: Array = ndtri((ranks - 0.375) / (values.size + 0.25))
    return scores


def _likelihood(values: Array) -> Array:
    """Of each φ, given values with an unknown mean and linear trend; they sum to 1."""
    n = values.size
    phi = _coefficients()[:, None]
    start = np.sqrt(1 - phi**2)
    # For each φ, (24, n): a constant and a line without their autocorrelation, made orthogonal, and the values.
    level, line, y = (
        np.hstack((start * x[0], x[1:] - phi * x[:-1])) for x in (np.ones(n), np.arange(n) - (n - 1) / 2, values)
    )
    size = (level**2).sum(axis=1, keepdims=True)
    line = line - (line * level).sum(axis=1, keepdims=True) / size * level
    length = (line**2).sum(axis=1, keepdims=True)
    rest = y - (y * level).sum(axis=1, keepdims=True) / size * level
    rest = rest - (rest * line).sum(axis=1, keepdims=True) / length * line
    squares = (rest**2).sum(axis=1)
    logs = np.log(start[:, 0]) - (n - 2) / 2 * np.log(squares) - np.log(size * length)[:, 0] / 2
    likelihood = np.exp(logs - logs.max())
    weights: Array = likelihood / likelihood.sum()
    return weights


@lru_cache(maxsize=64)
def _spread_of_s(count: int) -> Array:
    """Standard deviation of Kendall's S over ``count`` values of AR(1) noise, for each φ.

    S is the sum of the signs of all rises y(i+a) - y(i). Two of them, a and b long, d apart, have the correlation
    (ρ(d+b-a) - ρ(d+b) - ρ(d-a) + ρ(d)) / 2 / √((1-ρ(a))(1-ρ(b))), and the mean product of their signs is 2/π times its
    arc sine.
    """
    lengths = np.arange(1, count)
    a, b, d = np.meshgrid(lengths, lengths, np.arange(-count + 1, count), indexing="ij")
    ways = np.minimum(count - a, count - b - d) - np.maximum(0, -d)
    used = (ways > 0) & (a <= b)  # both orders of a pair are equal
    a, b, d, ways = a[used], b[used], d[used], ways[used] * np.where(a[used] < b[used], 2, 1)
    places = [np.abs(lag) for lag in (d + b - a, d + b, d - a, d)]
    spread = np.empty(_GRID)
    for i, phi in enumerate(_coefficients()):
        rho = phi ** np.arange(2 * count)
        ends, over, under, starts = (rho[place] for place in places)
        agreement = (ends - over - under + starts) / 2 / np.sqrt((1 - rho[a]) * (1 - rho[b]))
        spread[i] = math.sqrt(2 / math.pi * float(ways @ np.arcsin(np.clip(agreement, -1, 1))))
    spread.setflags(write=False)
    return spread


def _quantile(weights: Array, strays: Array, *, tail: float) -> float:
    """Where |S| lies beyond with probability ``tail``, over all φ."""
    # S moves in steps of two, hence the continuity correction. Where the least of the spreads puts the quantile, no
    # less than ``tail`` lies beyond; from there the probability falls ever more slowly, so that no step of Newton's
    # method goes too far.
    beyond = -float(ndtri(tail / 2)) * float(strays.min())
    for _ in range(_MOST_STEPS):
        z = beyond / strays
        left = 2 * float(weights @ ndtr(-z)) - tail
        step = left / (2 * float(weights @ (np.exp(-(z**2) / 2) / strays)) / math.sqrt(2 * math.pi))
        beyond += step
        if step <= 1e-14 * beyond:
            break
    return beyond + 1


def _order_statistics(ordered: Array, place: float) -> tuple[float, float]:
    """The slopes ``place`` from both ends, rounded outwards."""
    index = max(0, math.floor(place) - 1)
    return float(ordered[index]), float(ordered[-1 - index])
