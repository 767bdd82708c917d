"""Time series for the report's panels: waits, CPU, disks, memory and write-back, reduced to few points."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.reduction import sum_by_key
from pgtrial.analysis.timelines.timeline import Array, Timeline
from pgtrial.findings.message import Message, message
from pgtrial.findings.over_time import Panel, PanelLine
from pgtrial.model.series import WAITS

MAX_POINTS = 300  # per line
MAX_RUNS = 3  # per arm
MAX_TYPES = 6  # wait types with a line of their own
OTHER = "other waits"
_DIGITS = 4  # significant ones; more than can be seen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A panel: ``lines`` are (name, metric). Lines of ``seldom`` are only there where they are not zero throughout.

    Charts go by the names of lines; their words in other languages stand in the catalogue.
    """

    topic: str
    title: Message
    unit: str
    lines: tuple[tuple[str, str], ...]
    seldom: tuple[str, ...] = ()
    stacked: bool = False


_CPU = _Part(
    topic="cpu",
    title=message("panel.cpu"),
    unit="share",
    stacked=True,
    lines=(
        ("programs", "vmstat.us"),
        ("kernel", "vmstat.sy"),
        ("waiting for I/O", "vmstat.wa"),
        ("stolen", "vmstat.st"),
    ),
)
_DISK = (
    _Part(
        topic="disk",
        title=message("panel.requests"),
        unit="1/s",
        lines=(
            ("reads", "iostat.r"),
            ("writes", "iostat.w"),
            ("flushes", "iostat.f"),
            ("discards", "iostat.d"),
        ),
        seldom=("flushes", "discards"),
    ),
    _Part(
        topic="disk",
        title=message("panel.bytes"),
        unit="B/s",
        lines=(("read", "iostat.r_bytes"), ("written", "iostat.w_bytes")),
    ),
    _Part(
        topic="disk",
        title=message("panel.request-time"),
        unit="s",
        lines=(("read", "iostat.r_await"), ("write", "iostat.w_await"), ("flush", "iostat.f_await")),
    ),
    _Part(topic="disk", title=message("panel.queue"), unit="", lines=(("average", "iostat.aqu"),)),
)
_MEMORY = (
    _Part(
        topic="memory",
        title=message("panel.memory"),
        unit="B",
        lines=(
            ("available", "vmstat.available"),
            ("page cache", "vmstat.cache"),
            ("swap in use", "vmstat.swpd"),
        ),
        seldom=("swap in use",),
    ),
    _Part(
        topic="write-back",
        title=message("panel.dirty"),
        unit="B",
        lines=(
            ("dirty", "dirty.bytes"),
            ("being written", "dirty.writeback"),
            ("limit for writers", "dirty.threshold"),
            ("limit for background writing", "dirty.background"),
        ),
    ),
    _Part(
        topic="write-back",
        title=message("panel.throttling"),
        unit="",
        lines=(("asleep", "throttling.paused"),),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """The time of a run in bins of ``width`` seconds; ``bins`` has those of the seconds of each of its timelines."""

    timelines: tuple[Timeline, ...]
    bins: tuple[NDArray[np.int64], ...]
    count: int
    width: int

    @property
    def t(self) -> tuple[float, ...]:
        """Middles of the bins."""
        return tuple(((np.arange(self.count) + 0.5) * self.width).tolist())

    def means(self, series: Sequence[Array | None]) -> Array:
        """Mean of a series, given for each timeline, over every bin, (count,); NaN where nothing is known."""
        total, known = np.zeros(self.count), np.zeros(self.count)
        for bins, value in zip(self.bins, series, strict=True):
            if value is not None:
                is_known = ~np.isnan(value)
                total += np.bincount(bins[is_known], value[is_known], self.count)
                known += np.bincount(bins[is_known], minlength=self.count)
        means: Array = np.divide(total, known, out=np.full(self.count, np.nan), where=known > 0)
        return means


def make_panels(evidence: Evidence, timelines: Sequence[Timeline]) -> tuple[Panel, ...]:
    """Panels of the runs of every arm, by arm, run and topic.

    Of an arm with more than MAX_RUNS runs there are the first, the middle and the last one, so that the report does not
    grow with the number of blocks. A line has at most MAX_POINTS points, each the mean of as many seconds; null where
    nothing is known, such as between two load levels. What was not read has no line, and no panel.
    """
    runs = [_make_axis(mine) for arm in evidence.arms for mine in _choose_runs(timelines, arm.name)]
    types = _largest_types([timeline for axis in runs for timeline in axis.timelines])
    return tuple(panel for axis in runs for panel in _panels_of(axis, types))


def _choose_runs(timelines: Iterable[Timeline], arm: str) -> list[tuple[Timeline, ...]]:
    """Timelines of the chosen runs of an arm, by block."""
    by_run: dict[tuple[int, int], list[Timeline]] = {}
    for timeline in timelines:
        if timeline.arm == arm and timeline.seconds:
            by_run.setdefault((timeline.block, timeline.run), []).append(timeline)
    runs = [tuple(by_run[key]) for key in sorted(by_run)]
    if len(runs) <= MAX_RUNS:
        return runs
    return [runs[0], runs[(len(runs) - 1) // 2], runs[-1]]


def _make_axis(timelines: tuple[Timeline, ...]) -> _Axis:
    end = max(timeline.offset + timeline.seconds for timeline in timelines)
    width = max(1, math.ceil(end / MAX_POINTS))
    bins = tuple(
        ((timeline.offset + np.arange(timeline.seconds) + 0.5) // width).astype(np.int64) for timeline in timelines
    )
    return _Axis(timelines=timelines, bins=bins, count=max(int(numbers[-1]) for numbers in bins) + 1, width=width)


def _largest_types(timelines: Sequence[Timeline]) -> tuple[str, ...]:
    """Wait types by the sessions in them over all seconds, largest first."""
    sessions = sum_by_key(
        (metric.removeprefix(WAITS), float(np.nansum(timeline.series[metric, ""])))
        for timeline in timelines
        for metric, _ in timeline.series
        if metric.startswith(WAITS)
    )
    return tuple(
        sorted((name for name, sum_ in sessions.items() if sum_ > 0), key=lambda name: (-sessions[name], name))
    )


def _panels_of(axis: _Axis, types: tuple[str, ...]) -> Iterator[Panel]:
    yield from _waits(axis, types)
    yield from _panel(axis, _CPU)
    devices = {about for timeline in axis.timelines for about in timeline.objects("iostat.util")}
    for device in sorted(devices):
        for part in _DISK:
            yield from _panel(axis, part, device=device)
    for part in _MEMORY:
        yield from _panel(axis, part)


def _waits(axis: _Axis, types: tuple[str, ...]) -> Iterator[Panel]:
    def sessions(names: Sequence[str]) -> Array:
        """Sessions in any of the types, per bin."""
        total: Array = np.sum(
            [axis.means([timeline.get(WAITS + name) for timeline in axis.timelines]) for name in names], axis=0
        )
        return total

    own, others = types[:MAX_TYPES], types[MAX_TYPES:]
    lines = [_line(name, sessions([name])) for name in own]
    if others:
        lines.append(_line(OTHER, sessions(others)))
    if any(timeline.get("sessions.active") is not None for timeline in axis.timelines):
        part = _Part(topic="waits", title=message("panel.waits"), unit="", lines=(), stacked=True)
        yield from _make_panel(axis, part, part.title, lines)


def _panel(axis: _Axis, part: _Part, *, device: str = "") -> Iterator[Panel]:
    lines = []
    for name, metric in part.lines:
        value = axis.means([timeline.get(metric, device) for timeline in axis.timelines])
        if not np.isnan(value).all() and not (name in part.seldom and np.nanmax(value) == 0):
            lines.append(_line(name, value))
    title = message("panel.of-disk", device=device, title=part.title) if device else part.title
    yield from _make_panel(axis, part, title, lines)


def _make_panel(axis: _Axis, part: _Part, title: Message, lines: Sequence[PanelLine]) -> Iterator[Panel]:
    run = axis.timelines[0]
    if lines:
        yield Panel(
            run=run.run,
            arm=run.arm,
            block=run.block,
            topic=part.topic,
            title=title,
            unit=part.unit,
            stacked=part.stacked,
            t=axis.t,
            lines=tuple(lines),
        )


def _line(name: str, value: Array) -> PanelLine:
    rounded = (None if math.isnan(mean) else float(f"{mean:.{_DIGITS}g}") for mean in value.tolist())
    return PanelLine(name=name, value=tuple(rounded))
