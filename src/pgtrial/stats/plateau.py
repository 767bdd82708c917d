"""Whether a series of rates is pinned to a ceiling, such as a provider's limit of requests or bytes per second.

A limiter hands out the same number every second, or makes up for it in the next: so means over some seconds crowd just
below the ceiling. What nobody limits has at least the scatter of a Poisson process of the same rate, whose requests
come independently of each other, and whatever makes demand or the device's own speed change adds to that. So the
question is whether more of the means lie in a narrow band than such a process would ever put there.

The band is the one with the most means of all bands of its width that have few means above them, and the means are over
1, 2, 3 and 5 seconds: a reading that comes late, or a hypervisor that takes the CPU away for a moment, moves requests
from one second to the next, and longer means are rid of that. Of each mean, given all before it, free demand puts at
most the share q = 2 Φ(h) - 1 into a band of half-width h standard deviations of Poisson noise. So the number k of n
means in a band that begins at one of them is at most binomial(n - 1, q), and the probability of k or more in any band
is at most n times that, times the number of kinds of bands (Bonferroni). That bound needs no assumption on how the rate
drifts, and is wide: fewer false alarms happen than it says.

A ceiling that is reached some of the time is enough; one that is never reached cannot be seen. A device that takes the
same time for every request, of which always the same number is under way, is as steady as a limiter: more clients, or
what the device promises, tell the two apart. At rates so high that Poisson noise itself is a per mille, a steady load
that nothing limits may look the same: look at what else is at its limit.

Sources: scan statistics and their bounds: Naus, J. Am. Stat. Assoc. 60 (1965) 532-538; index of dispersion: Fisher,
Thornton & MacKenzie, Ann. Appl. Biol. 9 (1922) 325-359; limiters: Turner, IEEE Commun. Mag. 24 (1986) 8-15.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc, ndtr

Array = NDArray[np.float64]

FEWEST = 20
BAND = 0.02  # of the ceiling, on both sides
LEAST_SHARE = 0.3
CHANCE = 0.001  # up to which a plateau is one
_WIDTHS = (1, 2, 3, 5)  # values that are averaged
_FEWEST_MEANS = 8
_BANDS = (0.2, 0.5)  # half-widths, in standard deviations of Poisson noise: for clean limiters, and for jittery ones
_MOST_ABOVE = 0.25  # of the means, above a band that can be a ceiling
# Median absolute deviation of |Z|, Z normal: of the upper half of normal values around their own median.
_HALF_NORMAL = 0.39909


@dataclass(frozen=True, slots=True, kw_only=True)
class Plateau:
    """``ceiling`` in the unit of the rates: median of the means in the fullest band; ``width`` is how many values each
    mean is over, 1 where there is no plateau.

    ``pinned_share``: share of the means within BAND of the ceiling. ``steadiness``: robust coefficient of variation,
    from the upper half of the means; 0 is perfectly steady, inf: more than three quarters are zero.
    ``free_steadiness``: what Poisson noise at that rate would give. ``chance``: bound of the probability of a band as
    full where nothing limits. ``is_plateau``: pinned at least LEAST_SHARE of the time, and hardly by CHANCE.
    """

    ceiling: float
    width: int
    pinned_share: float
    steadiness: float
    free_steadiness: float
    chance: float
    is_plateau: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Band:
    """The fullest band among means over ``width`` values (sorted), with its ends."""

    means: Array
    width: int
    low: float
    high: float
    chance: float


def find_plateau(rates: ArrayLike, *, request: float = 1.0) -> Plateau | None:
    """Find a ceiling that limits the rates.

    rates : (n,), of each second, in order of time; NaN is not known or says nothing, and nothing is averaged across it,
    so it also stands between runs. request : the size of one request in the unit of the rates: 1 for requests per
    second, the mean request's bytes for bytes per second.
    None with fewer than FEWEST values, or where hardly any is above zero.
    """
    return _find_plateau(np.asarray(rates, dtype=np.float64).tobytes(), request)


@lru_cache(maxsize=32)  # what a disk does is asked for its limit and for its description
def _find_plateau(rates: bytes, request: float) -> Plateau | None:
    series = np.frombuffer(rates)
    known = series[~np.isnan(series)]
    if known.size < FEWEST or float(np.percentile(known, 95)) <= 0:
        return None
    stretches = _Stretches.of(series)
    bands = [
        band
        for width in _WIDTHS
        if (means := stretches.means(width)).size >= _FEWEST_MEANS
        for half in _BANDS
        if (band := _fullest_band(means, width, half=half, request=request / width)) is not None
    ]
    looks = len(_WIDTHS) * len(_BANDS)
    found = min(bands, key=lambda band: band.chance)
    if min(1.0, looks * found.chance) > CHANCE:
        found = min((band for band in bands if band.width == 1), key=lambda band: band.chance)
    inside = found.means[(found.means >= found.low) & (found.means <= found.high)]
    ceiling = float(np.median(inside))
    half_width = max(BAND * ceiling, (found.high - found.low) / 2)
    share = float(np.mean(np.abs(found.means - ceiling) <= half_width))
    chance = min(1.0, looks * found.chance)
    return Plateau(
        ceiling=ceiling,
        width=found.width,
        pinned_share=share,
        steadiness=_steadiness(found.means),
        free_steadiness=math.sqrt(request / (ceiling * found.width)),
        chance=chance,
        is_plateau=share >= LEAST_SHARE and chance <= CHANCE,
    )


@dataclass(frozen=True, slots=True)
class _Stretches:
    """A series, and of each known value (known,) its place, how many known ones stand before it without a NaN between
    them, and how long that stretch of neighbours is.
    """

    series: Array
    place: NDArray[np.intp]
    before: NDArray[np.intp]
    length: NDArray[np.intp]

    @classmethod
    def of(cls, series: Array) -> "_Stretches":
        place = np.flatnonzero(~np.isnan(series))
        starts = np.flatnonzero(np.diff(place, prepend=-2) > 1)
        lengths = np.diff(starts, append=place.size)
        before = np.arange(place.size) - np.repeat(starts, lengths)
        return cls(series=series, place=place, before=before, length=np.repeat(lengths, lengths))

    def means(self, width: int) -> Array:
        """Sorted means over ``width`` neighbours each, none of them in two; what is left over at a NaN or the end is
        not used.
        """
        firsts = self.place[(self.before % width == 0) & (self.before + width <= self.length)]
        return np.sort(self.series[firsts[:, np.newaxis] + np.arange(width)].mean(axis=1))


def _fullest_band(means: Array, width: int, *, half: float, request: float) -> _Band | None:
    """The least likely of the bands that begin at one of the means; None where all of those are at zero.

    half : half-width in standard deviations of Poisson noise. request : what one request adds to a mean.
    """
    count = means.size
    starts = np.flatnonzero(means > 0)
    if starts.size == 0:
        return None
    low = means[starts]
    requests = low / request
    high = low + 2 * half * np.sqrt(requests) * request
    inside = np.searchsorted(means, high, side="right") - starts
    # Counts are whole numbers, of which a band has room for one more than its length.
    room = (np.floor(2 * half * np.sqrt(requests)) + 1) / 2
    free = 2 * ndtr(room / np.sqrt(requests)) - 1
    chance = np.minimum(1.0, count * bdtrc(inside - 2.0, count - 1, free))
    too_low = (count - starts - inside) > _MOST_ABOVE * count
    chance[too_low] = 1.0
    # Of several as unlikely, one that can be a ceiling, and of those the fullest.
    best = int(np.lexsort((-inside, too_low, chance))[0])
    return _Band(means=means, width=width, low=float(low[best]), high=float(high[best]), chance=float(chance[best]))


def _steadiness(means: Array) -> float:
    """Robust coefficient of variation of the upper half."""
    upper = means[means >= np.median(means)]
    middle = float(np.median(upper))
    return float(np.median(np.abs(upper - middle))) / _HALF_NORMAL / middle if middle > 0 else math.inf
