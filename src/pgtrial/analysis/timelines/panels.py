"""Time series for the report's panels: waits, CPU, disks, memory and write-back, reduced to few points."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timeline import Array, Timeline
from pgtrial.analysis.timelines.metrics import WAITS
from pgtrial.findings.causes import Panel, PanelLine
from pgtrial.language import N_, tr

MAX_POINTS = 300  # per line
MAX_RUNS = 3  # per arm
MAX_TYPES = 6  # wait types with a line of their own
OTHER = N_("other waits")
_DIGITS = 4  # significant ones; more than can be seen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A panel: ``lines`` are (name, metric). Lines of ``seldom`` are only there where they are not zero throughout.

    The names of lines are the same in findings of all languages, since charts go by them; they are shown translated.
    """

    topic: str
    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    seldom: tuple[str, ...] = ()
    stacked: bool = False


_CPU = _Part(
    topic="cpu",
    title=N_("CPU time"),
    unit="share",
    stacked=True,
    lines=(
        (N_("programs"), "vmstat.us"),
        (N_("kernel"), "vmstat.sy"),
        (N_("waiting for I/O"), "vmstat.wa"),
        (N_("stolen"), "vmstat.st"),
    ),
)
_DISK = (
    _Part(
        topic="disk",
        title=N_("requests"),
        unit="1/s",
        lines=(
            (N_("reads"), "iostat.r"),
            (N_("writes"), "iostat.w"),
            (N_("flushes"), "iostat.f"),
            (N_("discards"), "iostat.d"),
        ),
        seldom=("flushes", "discards"),
    ),
    _Part(
        topic="disk",
        title=N_("bytes"),
        unit="B/s",
        lines=((N_("read"), "iostat.r_bytes"), (N_("written"), "iostat.w_bytes")),
    ),
    _Part(
        topic="disk",
        title=N_("time of a request"),
        unit="s",
        lines=((N_("read"), "iostat.r_await"), (N_("write"), "iostat.w_await"), (N_("flush"), "iostat.f_await")),
    ),
    _Part(topic="disk", title=N_("requests under way"), unit="", lines=((N_("average"), "iostat.aqu"),)),
)
_MEMORY = (
    _Part(
        topic="memory",
        title=N_("memory"),
        unit="B",
        lines=(
            (N_("available"), "vmstat.available"),
            (N_("page cache"), "vmstat.cache"),
            (N_("swap in use"), "vmstat.swpd"),
        ),
        seldom=("swap in use",),
    ),
    _Part(
        topic="write-back",
        title=N_("dirty pages"),
        unit="B",
        lines=(
            (N_("dirty"), "dirty.bytes"),
            (N_("being written"), "dirty.writeback"),
            (N_("limit for writers"), "dirty.threshold"),
            (N_("limit for background writing"), "dirty.background"),
        ),
    ),
    _Part(
        topic="write-back",
        title=N_("writers asleep because of dirty pages"),
        unit="",
        lines=((N_("asleep"), "throttling.paused"),),
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
    types = _largest_types([each for axis in runs for each in axis.timelines])
    return tuple(panel for axis in runs for panel in _panels_of(axis, types))


def _choose_runs(timelines: Iterable[Timeline], arm: str) -> list[tuple[Timeline, ...]]:
    """Timelines of the chosen runs of an arm, by block."""
    by_run: dict[tuple[int, int], list[Timeline]] = {}
    for each in timelines:
        if each.arm == arm and each.seconds:
            by_run.setdefault((each.block, each.run), []).append(each)
    runs = [tuple(by_run[key]) for key in sorted(by_run)]
    if len(runs) <= MAX_RUNS:
        return runs
    return [runs[0], runs[(len(runs) - 1) // 2], runs[-1]]


def _make_axis(timelines: tuple[Timeline, ...]) -> _Axis:
    end = max(each.offset + each.seconds for each in timelines)
    width = max(1, math.ceil(end / MAX_POINTS))
    bins = tuple(((each.offset + np.arange(each.seconds) + 0.5) // width).astype(np.int64) for each in timelines)
    return _Axis(timelines=timelines, bins=bins, count=max(int(each[-1]) for each in bins) + 1, width=width)


def _largest_types(timelines: Sequence[Timeline]) -> tuple[str, ...]:
    """Wait types by the sessions in them over all seconds, largest first."""
    sessions: dict[str, float] = {}
    for each in timelines:
        for metric, _ in each.series:
            if metric.startswith(WAITS):
                name = metric.removeprefix(WAITS)
                sessions[name] = sessions.get(name, 0.0) + float(np.nansum(each.series[metric, ""]))
    return tuple(
        sorted((name for name, sum_ in sessions.items() if sum_ > 0), key=lambda name: (-sessions[name], name))
    )


def _panels_of(axis: _Axis, types: tuple[str, ...]) -> Iterator[Panel]:
    yield from _waits(axis, types)
    yield from _panel(axis, _CPU)
    devices = {about for each in axis.timelines for about in each.objects("iostat.util")}
    for device in sorted(devices):
        for part in _DISK:
            yield from _panel(axis, part, device=device)
    for part in _MEMORY:
        yield from _panel(axis, part)


def _waits(axis: _Axis, types: tuple[str, ...]) -> Iterator[Panel]:
    def sessions(names: Sequence[str]) -> Array:
        """Sessions in any of the types, per bin."""
        found: Array = np.sum(
            [axis.means([each.get(WAITS + name) for each in axis.timelines]) for name in names], axis=0
        )
        return found

    own, others = types[:MAX_TYPES], types[MAX_TYPES:]
    lines = [_line(name, sessions([name])) for name in own]
    if others:
        lines.append(_line(OTHER, sessions(others)))
    if any(each.get("sessions.active") is not None for each in axis.timelines):
        part = _Part(topic="waits", title=N_("average sessions by wait type"), unit="", lines=(), stacked=True)
        yield from _make_panel(axis, part, tr(part.title), lines)


def _panel(axis: _Axis, part: _Part, *, device: str = "") -> Iterator[Panel]:
    lines = []
    for name, metric in part.lines:
        value = axis.means([each.get(metric, device) for each in axis.timelines])
        if not np.isnan(value).all() and not (name in part.seldom and np.nanmax(value) == 0):
            lines.append(_line(name, value))
    title = tr(part.title)
    if device:
        title = tr("disk {device}: {title}", device=device, title=title)
    yield from _make_panel(axis, part, title, lines)


def _make_panel(axis: _Axis, part: _Part, title: str, lines: Sequence[PanelLine]) -> Iterator[Panel]:
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
    return PanelLine(
        name=name, value=tuple(None if math.isnan(each) else float(f"{each:.{_DIGITS}g}") for each in value.tolist())
    )
