"""Quantiles from the latency histograms of the result folder; the median of a few values, with its interval."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from pgtrial.model.histogram import bucket_value, standing_bounds
from pgtrial.stats.base import Interval


def histogram_quantile(buckets: ArrayLike, counts: ArrayLike, q: float) -> float | None:
    """Quantile in seconds, within RELATIVE_ERROR of percentile_cont(q) over the transactions themselves.

    buckets, counts : (n,) int, bucket numbers of model/histogram.py, each once, in any order, and their counts.
    None without a transaction. ValueError unless 0 <= q <= 1.

    The rank is q·(N - 1), interpolated between neighbours as PostgreSQL's percentile_cont does (type 7 of Hyndman &
    Fan, Am. Statist. 50 (1996) 361-365). The k-th of n transactions of a bucket is placed at (k - 1/2)/n of its width:
    a small shift of all latencies then moves the quantile, where a bucket's one value would hide it. Every value stays
    inside its bucket, so the bound holds. It does not below 1 µs, the resolution of pgbench's log.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"expected 0 <= q <= 1, got {q}")
    numbers, sizes = merge([(buckets, counts)])
    total = int(sizes.sum())
    if total == 0:
        return None
    rank = q * (total - 1)
    below = math.floor(rank)
    ends = np.cumsum(sizes)
    low, high = (_value_at(numbers, sizes, ends, place) for place in (below, min(below + 1, total - 1)))
    return low + (rank - below) * (high - low)


def _value_at(numbers: NDArray[np.int64], sizes: NDArray[np.int64], ends: NDArray[np.int64], place: int) -> float:
    """Latency of the transaction at ``place`` (from 0) in ascending order, in seconds."""
    index = int(np.searchsorted(ends, place, side="right"))
    bucket, size = int(numbers[index]), int(sizes[index])
    if bucket <= 0:
        return bucket_value(bucket)
    lower, upper = standing_bounds(bucket)
    return lower + (upper - lower) * (place - int(ends[index]) + size + 0.5) / size


def merge(histograms: Iterable[tuple[ArrayLike, ArrayLike]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The histogram of all transactions together: (buckets, counts), buckets ascending, each once.

    Exact: a quantile of merged histograms is as good as one of all transactions, unlike a mean of quantiles.
    """
    parts = [(np.asarray(b, dtype=np.int64), np.asarray(c, dtype=np.int64)) for b, c in histograms]
    if not parts:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    numbers = np.concatenate([part[0] for part in parts])
    sizes = np.concatenate([part[1] for part in parts])
    unique, where = np.unique(numbers, return_inverse=True)
    summed = np.zeros(unique.size, dtype=np.int64)
    np.add.at(summed, where, sizes)
    return unique, summed


def median_interval(values: ArrayLike, *, confidence: float) -> Interval | None:
    """Interval of the median of (n,) independent values, in their unit, whatever they scatter like: from the k-th
    smallest to the k-th largest of them, with the largest k that the confidence allows. None with too few for any.

    Source: David & Nagaraja, "Order Statistics", 3rd ed. (2003), section 7.1.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    beyond = 2 * bdtr(np.arange((ordered.size + 1) // 2), ordered.size, 0.5)
    depth = int(np.count_nonzero(beyond <= 1 - confidence))
    if depth == 0:
        return None
    low, high = float(ordered[depth - 1]), float(ordered[-depth])
    return Interval(low=low, high=high, confidence=1 - float(beyond[depth - 1]))
