"""Association of two autocorrelated series within their strata (load levels, runs).

A correlation of two series that change slowly says little: both have few ups and downs, and some of them fall together
by chance. So each stratum is taken into frequencies (discrete cosine transform, DCT-II). Its coefficients are nearly
uncorrelated for whatever autocorrelation the noise has, from white noise to a random walk (Ahmed, Natarajan & Rao,
IEEE Trans. Comput. C-23 (1974) 90-93; Clarke, IEE Proc. F 128 (1981) 359-360), and the correlation is the sum of the
products of both series' coefficients. Two consequences:

- *No association.* The sign of each product is a coin, while its size keeps the autocorrelation of both series: the
  correlations with all signs drawn anew are the distribution without an association. That is the random-phase test
  (Ebisuzaki, J. Climate 10 (1997) 2147-2153) without its weakness: the Fourier transform takes the end of a series for
  the neighbour of its beginning, which makes slow series look alike too often; the cosine transform mirrors it. Coins
  know nothing of rare large values, though: where two of them meet, all products have one sign. A correlation without
  an association has the excess kurtosis of one series times that of the other, divided by the number of values
  (Pitman, J. R. Stat. Soc. Suppl. 4 (1937) 225-232); of values that resemble their neighbours so many count as the
  variance of the correlation says. The expansion of Cornish & Fisher (Rev. Inst. Int. Stat. 5 (1938) 307-320) allows
  for such tails.
- *Interval.* The jackknife over the coefficients (Miller, Biometrika 61 (1974) 1-15) on the scale of Fisher's z. There
  is no block length to choose; slow series have few coefficients that matter, and the degrees of freedom say so
  (Satterthwaite, Biometrics Bull. 2 (1946) 110-114). Spearman's z has the variance of Bonett & Wright, Psychometrika 65
  (2000) 23-28.

Runs that begin alike (caches fill, a checkpoint becomes due) make all of their series alike, whatever else they have to
do with each other. So runs of one configuration are held against each other: of each is taken what the others have at
the same time since its beginning, and what remains goes together, or does not. What remains of n runs is n - 1 runs'
worth, by which the test allows for chance.

Both were checked by simulation against circular block bootstraps, which cover less where series are short and slow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct

from pgtrial.stats.interval import t_quantile

Array = NDArray[np.float64]

SHORTEST_STRETCH = 8  # values; below, a stretch says nothing
LONGEST_GAP = 5  # missing values that are closed up; after more the series begins anew
DRAWS = 9999
# Signs are drawn for the largest products, and the sum of all others is as good as normal.
_SIGNED = 256
# Both factors are from simulations of the tests: ranks of a short slow series fill their range too evenly, so that the
# distribution without an association is too narrow by this times its variance; and a jackknife of few coefficients
# has fewer degrees of freedom than those of normal terms, for which the factor were 3.
_SMALL_SAMPLE = 0.3
_DEGREES = 2.0
_CHUNK = 500
_ALMOST_ONE = 1 - 1e-12
_ROUNDING = 1e-9  # of the largest value of a series


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """``value`` between -1 and 1 with its interval; ``p_value`` is two-sided, for no association at all.

    No interval (None) where the correlation is 1 or -1: then the noise is not known.
    """

    value: float
    low: float | None
    high: float | None
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlations:
    """Two series, with ``count`` usable pairs of values; None with fewer than eight, or if a series is constant.

    Each correlation is pooled: every stratum has its own mean and spread (its own ranks), and weighs by its length.
    """

    spearman: Correlation | None
    pearson: Correlation | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Products:
    """One correlation before its test: (n,) coefficients of both series, each normalised to length 1.

    ``without`` are their products as they would stray without an association, ``tails`` is the excess kurtosis of their
    sum then. ``excess`` is by how much its variance is larger for what was taken out of the runs.
    """

    first: Array
    second: Array
    without: Array
    tails: float
    excess: float
    is_rank: bool


class _Waves(NamedTuple):
    """A stretch of one series: cosine coefficients, and the excess kurtosis of its values, 0 where it is negative."""

    coefficients: Array
    excess: float


def associations(
    series: ArrayLike,
    pairs: Sequence[tuple[int, int]],
    strata: ArrayLike | None = None,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    draws: int = DRAWS,
    alike: Sequence[int] | None = None,
) -> tuple[Correlations, ...]:
    """Spearman and Pearson correlations of many pairs of series, on one and the same set of random signs.

    series : (k, n), equally spaced in time inside each stratum, any units. NaN is a value that is not known: the pair
    of values is left out. Up to LONGEST_GAP missing pairs in a row are closed up; after more, a new stratum begins.
    alike : (strata,) whole numbers, in the order of the strata: those with the same number are runs of one
    configuration, and what they have in common over their time is taken out.
    pairs : indices into ``series``. strata : (n,) whole numbers; a stratum is a stretch of equal ones, None is one.
    A stratum of fewer than SHORTEST_STRETCH pairs, or in which one of the series is constant, does not count.
    The smallest p-value is 1 / (draws + 1): with m pairs, more than 20 m draws let a single one pass a false-discovery
    rate of 5 %. What comes out for a pair does not depend on which other pairs are asked for.
    """
    values = np.asarray(series, dtype=np.float64)
    labels = np.zeros(values.shape[1], np.int64) if strata is None else np.asarray(strata, dtype=np.int64)
    edges = np.flatnonzero(np.diff(labels)) + 1
    spans = [(int(a), int(b)) for a, b in zip([0, *edges], [*edges, labels.size], strict=True)]
    groups = list(range(len(spans))) if alike is None else list(alike)
    parts = _Coefficients(_without_course(values, spans, groups), spans, [groups.count(group) for group in groups])
    counts, tested = [], []
    for one, other in pairs:
        count, products = parts.of_pair(one, other)
        counts.append(count)
        tested += products
    chances = iter(_chances(tested, draws=draws, rng=rng))
    found = iter(tested)
    results = []
    for count in counts:
        if count == 0:
            results.append(Correlations(spearman=None, pearson=None, count=0))
            continue
        spearman, pearson = (_correlation(next(found), p_value=next(chances), confidence=confidence) for _ in range(2))
        results.append(Correlations(spearman=spearman, pearson=pearson, count=count))
    return tuple(results)


class _Coefficients:
    """Cosine coefficients of ranks and values by stretch; those of a stretch without gaps are kept for other pairs."""

    def __init__(self, values: Array, spans: Sequence[tuple[int, int]], repeats: Sequence[int]) -> None:
        """``spans`` are where strata begin and end, ``repeats`` of how many runs the course was taken out of each."""
        self._values = values
        self._known = np.isfinite(values)
        self._strata = [
            (start, stop, _chance_factor(count)) for (start, stop), count in zip(spans, repeats, strict=True)
        ]
        self._kept: dict[tuple[int, int, int], tuple[_Waves, _Waves] | None] = {}

    def of_pair(self, one: int, other: int) -> tuple[int, list[_Products]]:
        """Number of pairs of values, and the products of ranks and of values; none without values that vary."""
        both = self._known[one] & self._known[other]
        count = 0
        ranks: list[tuple[_Waves, _Waves, float]] = []
        values: list[tuple[_Waves, _Waves, float]] = []
        for places, factor in self._stretches(both):
            first, second = self._of_stretch(one, places), self._of_stretch(other, places)
            if first is not None and second is not None:
                count += places.size
                ranks.append((first[0], second[0], factor))
                values.append((first[1], second[1], factor))
        if count == 0:
            return 0, []
        return count, [_pooled(ranks, count, is_rank=True), _pooled(values, count, is_rank=False)]

    def _stretches(self, both: NDArray[np.bool_]) -> list[tuple[NDArray[np.intp], float]]:
        """Places of the known pairs of each stretch that is long enough, with its factor of chance."""
        stretches = []
        for start, stop, factor in self._strata:
            places = start + np.flatnonzero(both[start:stop])
            for stretch in np.split(places, np.flatnonzero(np.diff(places) > LONGEST_GAP + 1) + 1):
                if stretch.size >= SHORTEST_STRETCH:
                    stretches.append((stretch, factor))
        return stretches

    def _of_stretch(self, index: int, places: NDArray[np.intp]) -> tuple[_Waves, _Waves] | None:
        """Of ranks and of values; None for a constant."""
        start, stop = int(places[0]), int(places[-1]) + 1
        if stop - start != places.size:
            return _transformed(self._values[index, places])
        key = (index, start, stop)
        if key not in self._kept:
            self._kept[key] = _transformed(self._values[index, start:stop])
        return self._kept[key]


def _chance_factor(repeats: int) -> float:
    """By how much more correlations stray by chance where the course of so many runs was taken out."""
    return math.sqrt(repeats / (repeats - 1)) if repeats > 1 else 1.0


def _without_course(values: Array, spans: Sequence[tuple[int, int]], groups: Sequence[int]) -> Array:
    """Each run less the mean of the others of its group at the same time; as it is where there are no others."""
    result = values.copy()
    for group in set(groups):
        members = [span for span, number in zip(spans, groups, strict=True) if number == group]
        if len(members) < 2:
            continue
        longest = max(stop - start for start, stop in members)
        runs = np.full((len(members), values.shape[0], longest), np.nan)
        for number, (start, stop) in enumerate(members):
            runs[number, :, : stop - start] = values[:, start:stop]
        known = np.isfinite(runs)
        sums, count = np.where(known, runs, 0.0).sum(axis=0), known.sum(axis=0)
        size = np.where(known, np.abs(runs), 0.0).max(axis=(0, 2))[:, None]
        for number, (start, stop) in enumerate(members):
            own, others = runs[number], count - known[number]
            course = np.divide(
                sums - np.where(known[number], own, 0.0), others, out=np.zeros_like(sums), where=others > 0
            )
            rest = np.where(others > 0, own - course, np.nan)
            # What only rounding leaves goes together with nothing.
            result[:, start:stop] = np.where(np.abs(rest) <= _ROUNDING * size, 0.0, rest)[:, : stop - start]
    return result


def _transformed(values: Array) -> tuple[_Waves, _Waves] | None:
    _, place, repeats = np.unique(values, return_inverse=True, return_counts=True)
    if repeats.size == 1:
        return None
    ranks = (np.cumsum(repeats) - (repeats - 1) / 2)[place]
    return _waves(ranks), _waves(values / np.abs(values).max())


def _waves(values: Array) -> _Waves:
    standard = (values - values.mean()) / values.std()
    # The coefficient of frequency zero is the mean, which is zero.
    return _Waves(dct(standard, norm="ortho")[1:], max(0.0, float((standard**4).mean()) - 3))


def _pooled(stretches: Sequence[tuple[_Waves, _Waves, float]], count: int, *, is_rank: bool) -> _Products:
    """Of all stretches together; each comes in with a length of the root of its number of values."""
    first = np.concatenate([x.coefficients for x, _, _ in stretches]) / math.sqrt(count)
    second = np.concatenate([y.coefficients for _, y, _ in stretches]) / math.sqrt(count)
    without = []
    variance = fourth = 0.0  # cumulants of the sum
    for x, y, factor in stretches:
        size = x.coefficients.size + 1
        products = factor * x.coefficients * y.coefficients / size
        without.append((1 + _SMALL_SAMPLE * (products @ products)) * products * (size / count))
        own = float(products @ products)
        variance += own * (size / count) ** 2
        fourth += x.excess * y.excess * own**3 * (size / count) ** 4
    tails = fourth / variance**2 if variance else 0.0
    excess = sum(factor**2 * (x.coefficients.size + 1) for x, _, factor in stretches) / count
    return _Products(
        first=first, second=second, without=np.concatenate(without), tails=tails, excess=excess, is_rank=is_rank
    )


def _chances(tested: Sequence[_Products], *, draws: int, rng: np.random.Generator) -> Array:
    """Probability of a correlation at least as far from zero if the sign of each product is a coin."""
    heads = np.zeros((_SIGNED, len(tested)), np.float32)
    rests, limits = np.zeros(len(tested), np.float32), np.zeros(len(tested), np.float32)
    for i, pair in enumerate(tested):
        sizes = np.abs(pair.without)
        if sizes.size > _SIGNED:
            sizes = -np.partition(-sizes, _SIGNED)
        heads[: min(_SIGNED, sizes.size), i] = sizes[:_SIGNED]
        rests[i] = math.sqrt(float((sizes[_SIGNED:] ** 2).sum()))
        spread = math.sqrt(float((sizes**2).sum()))
        found = abs(float(pair.first @ pair.second))
        # Rounding must not turn "just as far" into "less far".
        limits[i] = (spread * _as_normal(found / spread, pair.tails) if spread else found) - 1e-5
    beyond = np.zeros(len(tested), np.int64)
    for start in range(0, draws, _CHUNK):
        size = min(_CHUNK, draws - start)
        signs = rng.integers(0, 2, (size, _SIGNED), dtype=np.int8).astype(np.float32) * 2 - 1
        normal = rng.standard_normal((size, 1), dtype=np.float32)
        beyond += (np.abs(signs @ heads + normal * rests) >= limits).sum(axis=0)
    chances: Array = (beyond + 1) / (draws + 1)
    return chances


def _as_normal(deviation: float, tails: float) -> float:
    """What of a normal distribution is as far out as this, in standard deviations, of one with this excess kurtosis.

    The inverse of z + (z^3 - 3 z) tails / 24. Nearer than the root of 3 the tails would make a deviation count for
    more; it is left as it is.
    """
    z = deviation
    if tails > 0 and deviation > math.sqrt(3):
        # Newton's method, from above: the cubic is convex and rises there.
        for _ in range(100):
            step = (z + (z**3 - 3 * z) * tails / 24 - deviation) / (1 + (z**2 - 1) * tails / 8)
            z -= step
            if step < 1e-9 * z:
                break
    return z


def _correlation(pair: _Products, *, p_value: float, confidence: float) -> Correlation:
    products = pair.first * pair.second
    value = max(-1.0, min(1.0, float(products.sum())))
    if abs(value) > _ALMOST_ONE:
        return Correlation(value=value, low=None, high=None, p_value=p_value)
    left = (1 - pair.first**2) * (1 - pair.second**2)
    without = np.clip((value - products) / np.sqrt(np.maximum(left, 1e-24)), -_ALMOST_ONE, _ALMOST_ONE)
    z = math.atanh(value)
    moved = (np.arctanh(without) - z) ** 2
    variance = float(moved.sum()) * pair.excess
    degrees = max(1.0, min(_DEGREES * float(moved.sum()) ** 2 / float((moved**2).sum()), products.size - 2.0))
    if pair.is_rank:
        variance *= 1 + value**2 / 2
    half = t_quantile((1 + confidence) / 2, degrees) * math.sqrt(variance)
    return Correlation(value=value, low=math.tanh(z - half), high=math.tanh(z + half), p_value=float(p_value))
