"""Metrics over measured time, all arms over each other: what articles draw of two tests."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pgtrial.analysis.causes.sessions import Array, find_series, pooled_mean
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.sampled import find_devices, named
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.over_time import Course, CourseLine
from pgtrial.model.metrics import LOADS
from pgtrial.model.observable import find_observable
from pgtrial.model.series import WAITS

MAX_POINTS = 150  # per line
MOST_TYPES = 6  # wait types, the largest ones
_DIGITS = 4  # significant ones; more than can be seen
_CPU = ("vmstat.us", "vmstat.sy", "vmstat.wa")
_OF_DEVICE = ("iostat.iops", "iostat.bytes", "iostat.r_await", "iostat.w_await", "iostat.aqu", "iostat.util")
_TABLES = ("tables.bytes", "tables.indexes", "tables.dead", "tables.row_bytes")
_LEAST_GROWTH = 1.01  # of the tables, for a course to be worth its place
_MEMORY = ("vmstat.available", "vmstat.cache", "vmstat.swpd", "dirty.bytes", "db.hit_ratio")


def draw_courses(evidence: Evidence, timelines: Sequence[Timeline]) -> tuple[Course, ...]:
    """Throughput and latency, waits by type, CPU, the device that the data are on, memory, dirty pages, and the tables
    where they change.

    A point is the mean over its seconds in all runs of the arm; null where nothing is known, such as between two load
    levels. What is zero throughout, or was not read, has no course.
    """
    whole = [each for each in timelines if each.seconds]
    if not whole:
        return ()
    end = max(each.offset + each.seconds for each in whole)
    width = max(1, math.ceil(end / MAX_POINTS))
    found = (_course(evidence, whole, key, width=width) for key in _keys(evidence, whole))
    return tuple(each for each in found if each is not None)


def _keys(evidence: Evidence, timelines: Sequence[Timeline]) -> Iterator[tuple[str, str]]:
    load = LOADS["fio" if evidence.is_on_files else "pgbench"]
    yield load.throughput.name, ""
    yield load.latency_mean.name, ""
    types = {name for each in timelines for name, _ in each.series if name.startswith(WAITS)}
    sessions = {name: pooled_mean(timelines, name) or 0.0 for name in types}
    for name in sorted(types, key=lambda name: (-sessions[name], name))[:MOST_TYPES]:
        yield name, ""
    yield from ((name, "") for name in _CPU)
    for device in sorted(set(find_devices(evidence, timelines).values())):
        yield from ((name, device) for name in _OF_DEVICE if device)
    yield from ((name, "") for name in (*_MEMORY, *_TABLES))


def _course(evidence: Evidence, timelines: Sequence[Timeline], key: tuple[str, str], *, width: int) -> Course | None:
    known = find_observable(named(key))
    lines = {
        arm.name: line
        for arm in evidence.arms
        if (line := _line([each for each in timelines if each.arm == arm.name], key, width=width)) is not None
    }
    if known is None or not any(np.nanmax(line) > 0 for line in lines.values()):
        return None
    if key[0] in _TABLES and not any(np.nanmax(line) > _LEAST_GROWTH * np.nanmin(line) for line in lines.values()):
        return None
    count = max(line.size for line in lines.values())
    return Course(
        metric=named(key),
        unit=known.metric.unit,
        t=tuple(((np.arange(count) + 0.5) * width).tolist()),
        lines=tuple(CourseLine(arm=arm, value=_rounded(line, count)) for arm, line in lines.items()),
    )


def _line(timelines: Sequence[Timeline], key: tuple[str, str], *, width: int) -> Array | None:
    """Means over all that is known in each stretch of ``width`` seconds; None where nothing is."""
    places, values = [], []
    for each in timelines:
        series = find_series(each, *key)
        if series is not None:
            known = ~np.isnan(series)
            places.append(((each.offset + np.arange(each.seconds) + 0.5) // width).astype(np.int64)[known])
            values.append(series[known])
    if not any(part.size for part in values):
        return None
    place, value = np.concatenate(places), np.concatenate(values)
    counts = np.bincount(place)
    line: Array = np.divide(np.bincount(place, value), counts, out=np.full(counts.size, np.nan), where=counts > 0)
    return line


def _rounded(line: Array, count: int) -> tuple[float | None, ...]:
    shown = (None if math.isnan(value) else float(f"{value:.{_DIGITS}g}") for value in line.tolist())
    return (*shown, *([None] * (count - line.size)))
