"""pg_expecto's two numbers, SPEED and WAITINGS, so that its users can find their way.

SPEED is calls plus rows of all statements per minute, which mixes units: a statement that returns a million rows counts
more than a million that return one. WAITINGS is the number of samples per minute, at its extension's 100 per second, in
which a session waited: average waiting sessions times 6000. pg_expecto shows 60-minute medians of both; these are means
over the measured time itself, with zeros kept.
"""

from collections.abc import Sequence

from pgtrial.analysis.causes.cells import group_cells, pooled_mean
from pgtrial.analysis.timeline import Timeline
from pgtrial.findings.causes import LegacyMetrics

TYPES = ("BufferPin", "Extension", "IO", "IPC", "Lock", "LWLock", "Timeout")
SAMPLES_PER_MINUTE = 6000  # of one session, with a profile period of 10 ms


def describe_legacy(timelines: Sequence[Timeline]) -> tuple[LegacyMetrics, ...]:
    """Per arm and load level. SPEED is null without pg_stat_statements, WAITINGS where no session was looked at."""
    return tuple(
        LegacyMetrics(arm=arm, load_level=level, speed=_speed(cell), waitings=_waitings(cell))
        for (arm, level), cell in group_cells(timelines).items()
    )


def _speed(cell: tuple[Timeline, ...]) -> float | None:
    calls, rows = (pooled_mean(cell, f"statements.{name}") for name in ("calls", "rows"))
    return None if calls is None or rows is None else 60 * (calls + rows)


def _waitings(cell: tuple[Timeline, ...]) -> float | None:
    """A type that no timeline has was never waited for, where any sessions were looked at."""
    if pooled_mean(cell, "sessions.active") is None:
        return None
    return SAMPLES_PER_MINUTE * sum(pooled_mean(cell, f"waits.{name}") or 0.0 for name in TYPES)
