"""Reduced data of the valid runs, for the rest of the analysis."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pgtrial.model.rules import Rules

_Key = TypeVar("_Key")

# (run's id, load level's index, scenario or None for all of them)
Cell = tuple[int, int, str | None]


def sum_by_key(parts: Iterable[tuple[_Key, float]]) -> dict[_Key, float]:
    """By key the sum of its parts, in the order in which keys come first."""
    sums: dict[_Key, float] = {}
    for key, part in parts:
        sums[key] = sums.get(key, 0.0) + part
    return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Transactions of a run's measured time at a load level.

    ``latency_sum`` is in seconds, of the ``count`` that succeeded, None of a load that tells of no latencies;
    ``lag_sum`` is the part of it by which they began later than their schedule (open loop). ``inside`` counts them by
    the part of each that lies in the measured time, None where that is not known.
    """

    count: int
    inside: float | None = None
    latency_sum: float | None
    failed: int
    skipped: int
    late: int
    lag_sum: float = 0.0

    def counted(self, rules: Rules) -> float:
        """How many are in the measured time, by these rules."""
        return self.inside if rules.counts_parts and self.inside is not None else self.count

    @property
    def attempts(self) -> float:
        """Transactions that ended, failed ones included, for each that succeeded; 1 where none did."""
        return (self.count + self.failed) / self.count if self.count else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Merged latency histogram: bucket indexes of model/histogram.py in ascending order, and their counts."""

    buckets: NDArray[np.int64]
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """A stretch of measured time that had transactions; ``index`` counts from 0, latencies in seconds."""

    index: int
    count: int
    latency_mean: float | None
    latency_p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Average number of active sessions of the load in one kind of wait, over the polls of one measured window."""

    wait_type: str
    wait_event: str
    sessions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGroup:
    """Average number of sessions of the load that were found alike, over the polls of one measured window.

    ``scenario`` is "all" where one process of the load generator runs all of them; ``query`` is "" of idle sessions.
    """

    scenario: str
    state: str
    wait_type: str
    wait_event: str
    query: str
    sessions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundGroup:
    """Average number of background processes of a kind in one kind of wait, over the polls of one measured window."""

    process: str
    wait_type: str
    wait_event: str
    sessions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Whole ``seconds`` of measured time in a row in which no transaction ended.

    ``active`` is the average number of the load's sessions that the server worked for meanwhile, None where nobody
    asked, or the server did not answer.
    """

    seconds: int
    active: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """What the valid runs measured. A key that is missing was not measured.

    ``increases`` maps (run, level, counter) to {object: increase over the measured window}; ``gaps`` maps a run to the
    longest time between two readings of one counter inside a window, without the time in which the run's arm stood
    still; ``foreign`` are runs whose readings are all of another time; ``waits`` has an empty tuple where sessions were
    sampled and none was active, and ``autovacuum`` is the average number of autovacuum workers there. ``sessions`` has
    the load's sessions in all states, by statement too, ``scatter`` by (wait type, event) the variance of how often
    they were found in it, by batches of seconds, with "idle in transaction" for a type; ``background`` the server's own
    processes, ``polls`` the number of polls that found them, and ``wait_counts`` how often pg_wait_sampling found one
    in a wait, by (type, event). ``widths`` is the width in seconds of a run's bins.
    ``parts`` has the transactions by slice and quarter of its counted time, (slices, 4), in the order of the run's
    slices at that level, ``washout`` those of their guard time, ``part_latencies`` and ``washout_latencies`` the sums
    of their latencies in seconds, likewise. ``latency_rows`` are the transactions of all scenarios
    by bin and row of a heat map, (n, 3): index of the bin, row of model/histogram.py, count; what has none is left out.
    ``stalls`` has the longest stall, where any transaction ended; of no second in a window without one.
    """

    totals: Mapping[Cell, Totals] = field(default_factory=dict)
    histograms: Mapping[Cell, Histogram] = field(default_factory=dict)
    bins: Mapping[tuple[int, int], tuple[Bin, ...]] = field(default_factory=dict)
    widths: Mapping[int, int] = field(default_factory=dict)
    increases: Mapping[tuple[int, int, str], Mapping[str, float]] = field(default_factory=dict)
    gaps: Mapping[int, float] = field(default_factory=dict)
    foreign: tuple[int, ...] = ()
    waits: Mapping[tuple[int, int], tuple[Wait, ...]] = field(default_factory=dict)
    autovacuum: Mapping[tuple[int, int], float] = field(default_factory=dict)
    sessions: Mapping[tuple[int, int], tuple[SessionGroup, ...]] = field(default_factory=dict)
    scatter: Mapping[Cell, Mapping[tuple[str, str], float]] = field(default_factory=dict)
    background: Mapping[tuple[int, int], tuple[BackgroundGroup, ...]] = field(default_factory=dict)
    polls: Mapping[tuple[int, int], int] = field(default_factory=dict)
    wait_counts: Mapping[tuple[int, int], Mapping[tuple[str, str], float]] = field(default_factory=dict)
    parts: Mapping[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)
    washout: Mapping[tuple[int, int], float] = field(default_factory=dict)
    part_latencies: Mapping[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)
    washout_latencies: Mapping[tuple[int, int], float] = field(default_factory=dict)
    latency_rows: Mapping[tuple[int, int], NDArray[np.int64]] = field(default_factory=dict)
    stalls: Mapping[tuple[int, int], Stall] = field(default_factory=dict)
    without_samples: tuple[int, ...] = ()
    without_waits: tuple[int, ...] = ()
    without_slices: tuple[int, ...] = ()

    def increase(self, run: int, level: int, counters: Iterable[str], *, object: str = "") -> float | None:
        """Increase of several counters of one object over a measured window; None when one was not read."""
        total = 0.0
        for counter in counters:
            found = self.increases.get((run, level, counter), {}).get(object)
            if found is None:
                return None
            total += found
        return total
