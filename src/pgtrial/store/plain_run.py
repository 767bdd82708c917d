"""One run of somebody's own pgbench, as its log tells it: counts and latencies in bins of equal width."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pgtrial.errors import StoreError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRun:
    """``started`` in seconds since the epoch, ``width`` of a bin in seconds.

    counts, latencies : (n,), transactions that ended well in each bin, and the sum of their latencies in seconds.
    histogram : (n, k), those transactions by latency; ``buckets`` (k,) are numbers of model/histogram.py, ascending. An
    aggregated log has none (k = 0), and does not tell clients and scripts.
    ``logged_share`` is the share of the transactions that was logged: less than 1 with --sampling-rate.
    ``has_rate``: pgbench was given a rate, so throughput is what was asked for.
    """

    name: str
    files: tuple[str, ...]
    is_aggregated: bool
    started: float
    width: float
    counts: Array
    latencies: Array
    failed: float
    skipped: float
    buckets: NDArray[np.int64]
    histogram: Array
    clients: int | None
    scripts: int | None
    has_rate: bool
    logged_share: float

    @property
    def seconds(self) -> float:
        """Length of what counts."""
        return self.counts.size * self.width

    @property
    def ended(self) -> float:
        return self.started + self.seconds

    def between(self, start: float, end: float) -> "PlainRun":
        """The part of it from ``start`` to ``end``, in whole bins; failures and skipped ones in proportion."""
        first = max(0, -int((self.started - start) // self.width))
        last = min(self.counts.size, int((end - self.started) // self.width))
        if last <= first:
            raise StoreError(
                f'nothing is left of "{self.files[0]}": it holds {self.seconds:g} s',
                hint="Leave out less.",
            )
        share = (last - first) / self.counts.size
        return replace(
            self,
            started=self.started + first * self.width,
            counts=self.counts[first:last],
            latencies=self.latencies[first:last],
            failed=self.failed * share,
            skipped=self.skipped * share,
            histogram=self.histogram[first:last],
        )
