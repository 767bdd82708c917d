"""Look at a running experiment and end it early without extra false alarms.

Decision. The error probability is spent over looks that are planned beforehand, as a function of the share of the
blocks that are done (Lan & DeMets, Biometrika 70 (1983) 659-663). At a look the t interval of the blocks so far has
the level that the function leaves it. All these intervals together hold with the promised confidence ("repeated
confidence intervals": Jennison & Turnbull, J. R. Statist. Soc. B 51 (1989) 305-361), so it does not matter which one
an experiment ends at, or why.

The levels are those of Student's t, exact for any number of normal values. Taking them from the normal distribution
and turning them into t (Pocock, Biometrika 64 (1977) 191-199) gives 5.2 to 6.1 % false alarms instead of 5 % where
looks begin at a few blocks: t statistics of neighbouring looks are less alike than sums are.
Sources: for the normal distribution Armitage, McPherson & Rowe, J. R. Statist. Soc. A 132 (1969) 235-244; for t
Jennison & Turnbull, Biometrika 78 (1991) 133-141.

Precision. Ending when the interval is narrow enough chooses moments at which the standard deviation happens to be
small, so that the interval of a fixed number of blocks covers too rarely (Chow & Robbins, Ann. Math. Statist. 36 (1965)
457-462; Starr, Ann. Math. Statist. 37 (1966) 36-50). Half the error probability makes up for it.

Lean. An experiment ends sooner where chance carries its estimate away from the bound of its claim, so that on average
over many of them the estimate lies there. Its own interval bears that, but the mean of many does not, the less noise it
has (Whitehead, Biometrika 73 (1986) 573-581; Fan, DeMets & Lan, J. Biopharm. Stat. 14 (2004) 505-530).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import beta, ndtr, ndtri, stdtrit

from pgtrial.findings.caveat import caveat
from pgtrial.stats.base import Comparison
from pgtrial.stats.interval import NO_SPREAD, ratio_of

_LEAST_SHARE = 1e-5  # of the error probability; with less at a look no effect would be found there
_GRID = 500
_MOST_STEPS = 100  # towards a level; a handful is usual
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(40))
_NODES = _NODES + 0.5
_FAR = 9.0  # standard deviations from the middle beyond which nothing lies
_NOTHING = 1e-13  # probability


def spent(share: float, *, alpha: float) -> float:
    """Error probability, of two-sided ``alpha``, that may be spent by ``share`` (0 to 1] of the blocks.

    O'Brien and Fleming's function, 4 - 4Φ(z(1 - α/4) / √share): almost nothing early, nearly as powerful as a single
    look at the end. Source: Lan & DeMets 1983; docs/statistics.md has what others would cost.
    """
    return float(4 * ndtr(ndtri(alpha / 4) / math.sqrt(share)))


def nominal_confidence(looks: Sequence[int], *, blocks: int, confidence: float, comparisons: int = 1) -> float | None:
    """Confidence for comparing ``blocks`` blocks such that all looks jointly hold with ``confidence``.

    looks : numbers of blocks at which it was planned to look, rising from 2 or more; the last is the cap, at which the
    experiment ends in any case. ``comparisons`` as in compare_blocks, to which it is given together with the result:
    the interval of one comparison has the level 1 - (1 - result) / comparisons. A number of blocks that is no planned
    look, because the experiment was ended for a reason outside it, is taken as one more look.
    None before the first look, and where practically nothing may be spent yet.
    ValueError: other looks, or more blocks than the last.
    """
    if not looks or looks[0] < 2 or any(later <= earlier for earlier, later in pairwise(looks)):
        raise ValueError(f"expected looks that rise from 2 or more, got {tuple(looks)}")
    cap, alpha = looks[-1], (1 - confidence) / comparisons
    if blocks > cap:
        raise ValueError(f"expected at most {cap} blocks, got {blocks}")
    if blocks < looks[0]:
        return None
    # The levels of earlier looks do not depend on later ones, so those of all looks serve every planned number.
    made = tuple(looks) if blocks in looks else (*(n for n in looks if n < blocks), blocks)
    level = nominal_levels(made, cap, alpha=alpha)[made.index(blocks)]
    return 1 - comparisons * level if level >= _LEAST_SHARE * alpha else None


@lru_cache(maxsize=256)
def nominal_levels(looks: tuple[int, ...], cap: int, *, alpha: float) -> tuple[float, ...]:
    """Two-sided levels of the t test at each look such that any of them rejects with probability ``alpha``.

    Without an effect, n values are a random direction in n dimensions, and t is √(n - 1)·tan φ with φ the angle
    between that direction and the plane in which they add up to zero. Given φ after n + 1 blocks, everything before
    depends only on it and on the share that the last value has in what is left, whose distribution is known. So the
    chance that no earlier look rejected follows, as a function of φ, from block to block by one integral.
    """
    count, before, levels = looks[0], 0.0, list[float]()
    angles = np.linspace(0.0, _angle(count, _NOTHING), _GRID)
    kept = np.ones(_GRID)  # chance that no look has rejected yet, given the angle
    bound = _angle(count, _NOTHING)
    for look in looks:
        while count < look:
            angles, kept = _step(count, bound, angles, kept)
            count += 1
            bound = _angle(count, _NOTHING)
        total = spent(look / cap, alpha=alpha)
        if total - before < _NOTHING:
            levels.append(0.0)  # left for the next look
            continue
        levels.append(_find_level(count, total - before, angles, kept))
        bound, before = _angle(count, levels[-1]), total
    return tuple(levels)


def hide_interval(comparison: Comparison, *, first_look: int) -> Comparison:
    """The comparison without intervals and with caveat no-look-yet, if nominal_confidence is None."""
    early = caveat("no-look-yet", blocks=comparison.blocks, first=first_look)
    caveats = (*comparison.caveats, early)
    return replace(comparison, low=None, high=None, hl_low=None, hl_high=None, caveats=caveats)


def most_lean(looks: Sequence[int]) -> float:
    """How far the estimates of experiments that may end at these looks, once they are decided, lie from the truth on
    average, at most: in their mean standard error, whatever the truth, at a confidence of 95 % or more.

    From simulations of O'Brien and Fleming's spending: at most 0.25 with 40 blocks and 0.29 with 100; the limit, of
    endlessly many, is 0.37.
    """
    return 0.3 if looks[-1] <= 100 else 0.37


def precision_confidence(confidence: float) -> float:
    """Confidence of intervals in an experiment that ends as soon as one is narrow enough.

    Half the error probability. For normal values, looks from six blocks on, a cap of 12 to 150 blocks and
    1 - confidence from 0.01 to 0.2 the interval at the end then misses at most as often as promised, at whichever
    ratio of noise to wished width (tests/stats/test_sequential.py). The mean is independent of the standard deviations
    that decide about the end, so nothing else is distorted.
    """
    return 1 - (1 - confidence) / 2


def _angle(count: int, level: float) -> float:
    """Angle beyond which, on either side, the t of ``count`` values lies with probability ``level``."""
    return float(_angles(count, np.array([level]))[0])


def _angles(count: int, levels: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.arctan(-stdtrit(count - 1, levels / 2) / math.sqrt(count - 1)), dtype=np.float64)


def _find_level(count: int, share: float, angles: NDArray[np.float64], kept: NDArray[np.float64]) -> float:
    """Level at which this look is the first to reject with probability ``share``."""

    def first_here(level: float) -> float:
        # Over the p-value, which is uniform; squared, because most happens next to the bound.
        values = np.interp(_angles(count, level * _NODES**2), angles, kept)
        return level * float(np.sum(2 * _NODES * _WEIGHTS * values))

    low = level = share
    high = 1.0
    for _ in range(_MOST_STEPS):
        found = first_here(level)
        low, high = (low, level) if found >= share else (level, high)
        # Newton's method on logarithms, and halves where it leads outside. The slope is the chance that no earlier look
        # has rejected where this one just does.
        slope = level * float(np.interp(_angle(count, level), angles, kept))
        step = math.log(share / found) * found / slope if min(found, slope) > 0 else math.inf
        if abs(step) <= 1e-10:
            break
        guess = level * math.exp(min(step, 1.0))
        level = guess if low < guess < high else math.sqrt(low * high)
    return level


def _step(
    count: int, bound: float, angles: NDArray[np.float64], kept: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """From ``count`` blocks, with the angle having to stay inside ``bound``, to one more: (angles, kept).

    In units of the root of the sum of squares of count + 1 values: the last one is ``last``, and the others add up to
    √count·``others``; both are linear in v, the first coordinate of a random direction in ``count`` dimensions. The
    angle before is inside the bound where others² < sin²(bound)·(1 - last²), which is an interval of v.
    """
    after = np.linspace(0.0, _angle(count + 1, _NOTHING), _GRID)
    sine, cosine = np.sin(after)[:, None], np.cos(after)[:, None]
    root, limit = math.sqrt(count), math.sin(bound) ** 2
    quadratic = cosine**2 * (1 + limit * count)
    linear = -2 * root * sine * cosine * (1 - limit)
    constant = (count + limit) * sine**2 - limit * (count + 1)
    spread = np.sqrt(np.maximum(0.0, linear**2 - 4 * quadratic * constant))
    far = min(math.pi / 2, _FAR / root)
    start, end = (
        np.clip(np.arcsin(np.clip((-linear + side * spread) / (2 * quadratic), -1, 1)), -far, far) for side in (-1, 1)
    )
    turn = start + (end - start) * _NODES  # v = sin(turn)
    v = np.sin(turn)
    others = (root * sine - cosine * v) / math.sqrt(count + 1)
    last = (sine + root * cosine * v) / math.sqrt(count + 1)
    earlier = np.arctan2(np.abs(others), np.sqrt(np.maximum(0.0, 1 - last**2 - others**2)))
    density = np.cos(turn) ** (count - 2) / beta((count - 1) / 2, 0.5)
    chance = (end - start)[:, 0] * np.sum(_WEIGHTS * density * np.interp(earlier, angles, kept), axis=1)
    return after, chance


# Intervals that hold at every number of blocks at once: for whoever looks while it runs, or stops when it suits.
#
# A t interval holds for a number of blocks that was fixed beforehand. One that may be looked at after each block, and
# acted on, has to leave the effect outside with probability 1 - confidence over all blocks together. Here the effect in
# standard deviations has a normal prior with variance GAIN, and the noise none: the ratio of the likelihoods is then a
# martingale under each single effect, which exceeds 1 / alpha with probability alpha at most (Ville 1939).
# Sources: Lai, Ann. Statist. 4 (1976) 265-280; Lindon, Ham, Tingley & Bojinov, "Anytime-valid linear models and
# regression adjusted causal inference" (2022); Wang & Ramdas, "Anytime-valid t-tests" (2025).


GAIN = 1.0


def anytime_t(alpha: float, *, degrees: float, information: float) -> float:
    """The t beyond which, on either side, an effect is excluded; infinite where there are too few blocks.

    ``information``: as of a comparison. The value that Student's quantile has in an interval of one look.
    """
    growth = 1 + information * GAIN
    cut = (math.sqrt(growth) / alpha) ** (2 / (degrees + 1))
    return math.inf if cut >= growth else math.sqrt(degrees * (cut - 1) / (1 - cut / growth))


def widen(comparison: Comparison) -> Comparison:
    """The comparison with an interval that holds whenever one looks; without one where there are too few blocks."""
    error, ratio = comparison.error, comparison.ratio
    if error is None or ratio is None or comparison.degrees < 1 or error <= NO_SPREAD:
        return replace(comparison, is_anytime=True)
    half = error * anytime_t(comparison.alpha, degrees=comparison.degrees, information=comparison.information)
    centre = math.log(ratio)
    is_finite = math.isfinite(half)
    return replace(
        comparison,
        low=ratio_of(centre - half) if is_finite else None,
        high=ratio_of(centre + half) if is_finite else None,
        hl_low=None,
        hl_high=None,
        is_anytime=True,
    )
