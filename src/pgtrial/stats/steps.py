"""Latencies that a load tells in steps, such as whole milliseconds: what a percentile of them leaves unsaid.

A percentile of rounded latencies is a rounded one. Where the runs differ by less than a step, all of an arm's runs are
rounded alike: its percentile is off by up to a step in every block, or does not move at all, and the scatter of the
blocks tells nothing of that. Where they differ by more, each block is rounded another way, and that is noise like any
other.
Source: Widrow, Kollar & Liu, IEEE Trans. Instrum. Meas. 45 (1996) 353-361: with a standard deviation of half a step
rounding moves a mean by less than a hundredth of it.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pgtrial.findings.caveat import caveat
from pgtrial.model.histogram import FINE, GAMMA, RELATIVE_ERROR
from pgtrial.stats.base import Comparison
from pgtrial.stats.interval import extend

_MICROSECONDS = (1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1.0)  # steps in which programs tell latencies
_TELLING = 50  # steps: shorter latencies are so far apart that a bucket between two of them stays empty
_FEWEST = 3  # buckets with such latencies
_SPREAD = 0.5  # of a step, from which on rounding is noise
_ROUNDING = 1e-9


def find_step(buckets: ArrayLike) -> float:
    """Seconds of the coarsest step of which all latencies are whole multiples, as far as their buckets tell; 0.0 where
    there is none that is wider than a bucket.

    buckets : numbers of model/histogram.py, in any order and number; those of fio are fine enough.
    """
    known = np.unique(np.asarray(buckets, dtype=np.int64))
    known = known[(known > 0) & (known < FINE)]
    upper = np.power(GAMMA, known.astype(np.float64))
    for step in _MICROSECONDS:
        near = upper[upper < _TELLING * step]
        multiple = np.floor(near / step * (1 + _ROUNDING)) * step
        if near.size >= _FEWEST and bool((multiple > near / GAMMA * (1 - _ROUNDING)).all()):
            return step * 1e-6
    return 0.0


def step_reach(step: float, latency: float) -> float:
    """Log ratio by which a percentile may be off that is told as ``latency`` (> 0) in such steps; 0.0 where a bucket is
    as wide.
    """
    return math.log1p(step / latency) if step > RELATIVE_ERROR * latency else 0.0


def bound_steps(
    comparison: Comparison, arms: tuple[NDArray[np.float64], ...], *, reach: float, weight: float = 1.0
) -> Comparison:
    """The comparison with an interval that also holds if all runs of an arm were rounded alike.

    arms : the observations of each, (blocks,), NaN for none. ``reach`` as ``step_reach`` has it, of the shorter ones;
    ``weight``: how often what is compared has it, 1 for a ratio of two arms.
    """
    if reach <= 0 or comparison.low is None or comparison.high is None:
        return comparison
    logs = [np.log(each[np.isfinite(each) & (each > 0)]) for each in arms]
    # Of each arm for itself: two that are a step apart have no spread.
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in logs)
    if math.sqrt(squares / sum(each.size - 1 for each in logs)) >= _SPREAD * reach:
        return comparison
    borne = extend(comparison, down=weight * reach, up=weight * reach)
    return replace(
        borne, step=weight * reach, caveats=(*borne.caveats, caveat("coarse-latencies", step=math.expm1(reach)))
    )
