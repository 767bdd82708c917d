"""What each contender concludes from its own data about a case: the ratio, its interval, whether they differ.

Ratios are of throughput, arm / control. All contenders are given the same wall time of load.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu, ttest_ind

from pgtrial.stats.interval import mean_and_sd, t_interval

Array = NDArray[np.float64]

CONFIDENCE = 0.95
NOTICEABLE = 0.03  # what a reader of two numbers without a test takes for a difference
HYPERFINE_RUNS = BENCHSTAT_RUNS = 10  # the least hyperfine makes, and what benchstat's manual asks for at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """``low`` and ``high`` are None where the contender gives no interval of the ratio."""

    ratio: float
    low: float | None
    high: float | None
    found: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """``stream`` is the method whose data it reads: (n,) tps of the control and of the arm, in order."""

    name: str
    stream: str
    conclude: Callable[[Array, Array], Conclusion]


def one_run(control: Array, treated: Array) -> Conclusion:
    """One run each, one after the other."""
    return _by_eye(float(treated.mean() / control.mean()))


def mean_of_three(control: Array, treated: Array) -> Conclusion:
    """Means of three runs each, made in pairs: a run is a third of the data."""
    return _by_eye(float(_runs(treated, 3).mean() / _runs(control, 3).mean()))


def aaabbb(control: Array, treated: Array) -> Conclusion:
    """Three runs of one arm, then three of the other, and Welch's t test on their logs.

    Source: Welch, Biometrika 34 (1947) 28-35.
    """
    found = ttest_ind(np.log(_runs(treated, 3)), np.log(_runs(control, 3)), equal_var=False)
    interval = found.confidence_interval(CONFIDENCE)
    low, high = math.exp(interval.low), math.exp(interval.high)
    ratio = math.exp(float(np.log(_runs(treated, 3)).mean() - np.log(_runs(control, 3)).mean()))
    return Conclusion(ratio=ratio, low=low, high=high, found=not low <= 1 <= high)


def hyperfine(control: Array, treated: Array) -> Conclusion:
    """Ten runs of one, then ten of the other; ratio of the mean times per transaction ± what hyperfine prints.

    That is ratio * sqrt((s1/m1)² + (s2/m2)²) with the standard deviations of single runs, which do not shrink with
    their number (hyperfine 327d5f4, src/benchmark/relative_speed.rs, compute_relative_speeds). It is read as users read
    it: a difference where 1 is outside ratio ± that.
    """
    times = [1 / _runs(tps, HYPERFINE_RUNS) for tps in (control, treated)]
    (m1, s1), (m2, s2) = (mean_and_sd(each) for each in times)
    ratio = m1 / m2
    margin = ratio * math.hypot(s1 / m1, s2 / m2)
    return Conclusion(
        ratio=ratio, low=ratio - margin, high=ratio + margin, found=not ratio - margin <= 1 <= ratio + margin
    )


def benchstat(control: Array, treated: Array) -> Conclusion:
    """Ten runs of one, then ten of the other; change of the median, significant by the exact U test at 0.05.

    There is no interval of the change (golang/perf 712aea8, benchmath/anone.go). Its manual advises to alternate the
    runs; most do it in this order all the same.
    Source: Mann & Whitney, Ann. Math. Statist. 18 (1947) 50-60.
    """
    one, other = _runs(control, BENCHSTAT_RUNS), _runs(treated, BENCHSTAT_RUNS)
    exact = len({*one, *other}) == one.size + other.size
    p = float(mannwhitneyu(one, other, method="exact" if exact else "asymptotic").pvalue)
    return Conclusion(ratio=float(np.median(other) / np.median(one)), low=None, high=None, found=p < 1 - CONFIDENCE)


def blocks(control: Array, treated: Array) -> Conclusion:
    """pgtrial's interval, one log ratio per block: as ``compare_blocks``, without what else that computes."""
    mean, sd = mean_and_sd(np.log(treated) - np.log(control))
    interval = t_interval(mean, sd, control.size, confidence=CONFIDENCE)
    low, high = math.exp(interval.low), math.exp(interval.high)
    return Conclusion(ratio=math.exp(mean), low=low, high=high, found=not low <= 1 <= high)


CONTENDERS = (
    Contender(name="one run per arm", stream="contiguous", conclude=one_run),
    Contender(name="mean of three", stream="blocks", conclude=mean_of_three),
    Contender(name="hyperfine", stream="contiguous", conclude=hyperfine),
    Contender(name="benchstat", stream="contiguous", conclude=benchstat),
    Contender(name="AAABBB, Welch t", stream="contiguous", conclude=aaabbb),
    Contender(name="pgtrial blocks", stream="blocks", conclude=blocks),
    Contender(name="pgtrial interleaved", stream="interleaved", conclude=blocks),
    Contender(name="pgtrial duet", stream="duet", conclude=blocks),
)


def _by_eye(ratio: float) -> Conclusion:
    return Conclusion(ratio=ratio, low=None, high=None, found=abs(ratio - 1) > NOTICEABLE)


def _runs(tps: Array, count: int) -> Array:
    """So many runs of equal length, of pieces that follow each other."""
    means: Array = tps.reshape(count, -1).mean(axis=1)
    return means
