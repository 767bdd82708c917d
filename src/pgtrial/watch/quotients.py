"""Errors, devices, memory, and work per commit: what alarms may be about beside the load and its time.

What is zero for weeks on a healthy server has a background (``stats.alarms.zeros``), which is added before ratios are
taken; how even it is tells of the background alone, and does not count. Groups: bursts of devices are to make neither
the load's signals deaf nor errors, so errors are one, and all else is one, with the time per call of statements. A
backup is a burst of devices, memory and statements, and what one of them shows of such bursts holds for the others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pgtrial.stats.alarms.zeros import lift, share_background, share_of
from pgtrial.watch.layout import MINUTE
from pgtrial.watch.series import COMMITS, Array, empty, rate_of, read_gauge
from pgtrial.watch.windows import Sums

ROLLED_BACK_NAME, AVAILABLE_NAME, PER_CALL_NAME = "transactions rolled back", "memory available", "time per call"
ROLLBACKS = "pg_stat_database.xact_rollback"
AVAILABLE = "proc_meminfo.MemAvailable"
ERRORS, WORK = "errors", "work"  # groups

_LEAST = 1e-12  # by the second: less is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotient:
    """By how much the counters ``above`` grow in a second, by as much of those ``below`` where there are any.

    ``background`` is in the same unit; 0 where zero is not usual.
    """

    name: str
    group: str
    above: tuple[str, ...]
    below: tuple[str, ...] = ()
    background: float = 0.0

    def of(self, rates: Mapping[str, Array], steps: int) -> Array:
        """NaN where it is not known, and where nothing was counted that it is a quotient by."""
        above = rate_of(rates, self.above, steps)
        if not self.below:
            return above
        below = rate_of(rates, self.below, steps)
        return np.divide(above, below, out=empty(steps), where=below > _LEAST)


_COMMITS = (COMMITS,)
QUOTIENTS = (
    Quotient(name="deadlocks", group=ERRORS, above=("pg_stat_database.deadlocks",), background=1 / MINUTE),
    Quotient(
        name="temporary files per commit",
        group=WORK,
        above=("pg_stat_database.temp_bytes",),
        below=_COMMITS,
        background=8192.0,
    ),
    Quotient(
        name="blocks per commit",
        group=WORK,
        above=("pg_stat_database.blks_hit", "pg_stat_database.blks_read"),
        below=_COMMITS,
    ),
    Quotient(
        name="blocks dirtied per commit",
        group=WORK,
        above=("pg_stat_statements.shared_blks_dirtied",),
        below=_COMMITS,
        background=0.1,
    ),
    Quotient(name="WAL per commit", group=WORK, above=("pg_stat_wal.wal_bytes",), below=_COMMITS, background=100.0),
    Quotient(name="time per device read", group=WORK, above=("disk.read_time",), below=("disk.reads",)),
    Quotient(name="time per device write", group=WORK, above=("disk.write_time",), below=("disk.writes",)),
    Quotient(name="requests at devices", group=WORK, above=("disk.queue_time",), background=0.01),
    Quotient(name="some task stalled on memory", group=WORK, above=("pressure.memory_some_total",), background=1e-3),
    Quotient(name="pages swapped in", group=WORK, above=("proc_vmstat.pswpin",), background=1.0),
)
METRICS = tuple(dict.fromkeys([ROLLBACKS, *(name for each in QUOTIENTS for name in (*each.above, *each.below))]))


NAMES = (ROLLED_BACK_NAME, *(each.name for each in QUOTIENTS), AVAILABLE_NAME)


def read_quotients(sums: Sums, rates: Mapping[str, Array]) -> dict[str, Array]:
    """By name all of NAMES, without backgrounds; instead of the share of transactions rolled back how many a second."""
    return {
        ROLLED_BACK_NAME: rate_of(rates, (ROLLBACKS,), sums.steps),
        **{each.name: each.of(rates, sums.steps) for each in QUOTIENTS},
        AVAILABLE_NAME: read_gauge(sums, AVAILABLE),
    }


def as_signals(
    series: Mapping[str, Array], commits: Array, *, server: str, first: int, calm: slice
) -> Iterator[tuple[str, str, bool, Array]]:
    """Name, group, whether it has a background, and values of each.

    series : (minutes,) of each as ``read_quotients`` has them.
    server, first : its name, and the number of the first minute since the epoch, which decide the noise of backgrounds.
    """
    rollbacks = series[ROLLED_BACK_NAME]
    among = commits + rollbacks
    usual = float(np.nanmean(among[calm])) if np.isfinite(among[calm]).any() else 0.0
    if usual > 0:
        background = share_background(usual * MINUTE)
        share = share_of(rollbacks, among, usual)
        yield ROLLED_BACK_NAME, ERRORS, True, lift(share, background, server=server, name=ROLLED_BACK_NAME, first=first)
    for each in QUOTIENTS:
        values = series[each.name]
        if each.background:
            values = lift(values, each.background, server=server, name=each.name, first=first)
        yield each.name, each.group, each.background > 0, values
    yield AVAILABLE_NAME, WORK, False, series[AVAILABLE_NAME]
