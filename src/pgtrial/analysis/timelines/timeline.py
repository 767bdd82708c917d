"""One run at one load level, second by second: throughput next to machine and server metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All arrays are (seconds,), one value per whole second of measured time; NaN where nothing is known.

    ``tps`` counts commits, ``latency`` is their mean in seconds (NaN in a second without any). ``series`` maps
    (metric, object) to values; the names are those of ``model/series.py``. ``started`` is the first
    second's start, in seconds since the epoch; ``offset`` the same since the run's measuring began. In a run of slices
    only what counts of them is measured time, put end to end, and ``offset`` is what there was of it before. ``means``
    has one value for all that is known of these seconds: of what is a quotient, such as the time of a read, the sum
    above the line over the sum below it, so that a second with a thousand reads counts for a thousand times as much as
    one with a single read.
    """

    run: int
    arm: str
    block: int
    level: int
    started: float
    offset: float
    tps: Array
    latency: Array
    series: Mapping[tuple[str, str], Array] = field(default_factory=dict)
    means: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @property
    def seconds(self) -> int:
        return int(self.tps.size)

    def get(self, metric: str, object: str = "") -> Array | None:
        return self.series.get((metric, object))

    def objects(self, metric: str) -> tuple[str, ...]:
        """All objects of a metric, sorted."""
        return tuple(sorted(about for name, about in self.series if name == metric))
