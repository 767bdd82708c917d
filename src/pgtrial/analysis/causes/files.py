"""Where the speed of a load on files ends: memory, background write-back, the throttle of writers, or the device.

The order is the kernel's own. A buffered request ends in the page cache. Written pages stay there until the background
threshold is passed, from which on the kernel writes beside the load. Half-way between it and the limit begins the
throttle: writers sleep in balance_dirty_pages until they are as slow as the device (mm/page-writeback.c,
dirty_freerun_ceiling). Reads that are not in the cache, requests past it and fsync wait for the device at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pgtrial.analysis.causes.sessions import estimate_mean, group_cells, pooled_mean, pooled_values
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.timelines.timeline import Array, Timeline
from pgtrial.findings.message import Message, message
from pgtrial.findings.naming import name_level
from pgtrial.findings.record import Estimate
from pgtrial.findings.storage import FileFact, FileLimit, FileThresholds, FileUse
from pgtrial.model.arm import FileJob
from pgtrial.model.run import LoadLevel

HIT = 0.05  # share of what is read, up to which the device's part says nothing
BUSY = 0.7  # share of the time with a request under way, from which on the device is at work all the time
WAITING = 0.5  # share of the latency, or of the time, from which on something is what limits
WRITING = 0.05  # share of what is written, from which on the kernel writes beside the load
_SLEEPING = 0.1  # share of the writers' time in pauses that were counted
_ORDER = (FileLimit.THROTTLE, FileLimit.DEVICE, FileLimit.BACKGROUND, FileLimit.MEMORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """An arm at a load level. Rates are per second of the measured time, means over the runs."""

    evidence: Evidence
    values: Values
    arm: str
    level: LoadLevel
    jobs: tuple[FileJob, ...]
    timelines: tuple[Timeline, ...]

    def observed(self, metric: str, scenario: str | None = None) -> list[float | None]:
        if scenario is not None and len(self.jobs) == 1:
            scenario = None  # the only job is all of them
        return [
            self.values.get((run.id, metric, scenario, self.level.index)) for run in self.evidence.runs_of(self.arm)
        ]

    def estimate(self, numbers: Iterable[float | None]) -> Estimate | None:
        return estimate_mean(numbers, confidence=self.evidence.confidence)

    def moved(self, *, writes: bool) -> list[float | None]:
        """Bytes per second of the jobs that write, or of those that read, by run."""
        jobs = [job for job in self.jobs if job.writes is writes]
        by_job = [self.observed("fio.bandwidth", job.name) for job in jobs]
        return [None if None in rates else sum(rate or 0.0 for rate in rates) for rates in zip(*by_job, strict=True)]

    def by_run(self, metric: str) -> list[float | None]:
        """Mean of a metric, all objects added up, by run in the order of ``observed``."""
        timelines = {timeline.run: timeline for timeline in self.timelines}
        return [_total(timelines.get(run.id), metric) for run in self.evidence.runs_of(self.arm)]

    def mean(self, metric: str) -> float | None:
        known = [value for value in self.by_run(metric) if value is not None]
        return sum(known) / len(known) if known else None

    def largest(self, metric: str) -> float | None:
        """Mean of a metric of the device that has most of it."""
        devices = {device for timeline in self.timelines for device in timeline.objects(metric)}
        means = [pooled_mean(self.timelines, metric, device) for device in devices]
        return max((mean for mean in means if mean is not None), default=None)


def describe_files(evidence: Evidence, timelines: Sequence[Timeline], values: Values) -> tuple[FileUse, ...]:
    """Every arm at every load level that has samples, in the order of the experiment; () of a load on a server."""
    if not evidence.is_on_files:
        return ()
    cells = group_cells(timelines)
    return tuple(
        _describe(
            _Cell(
                evidence=evidence,
                values=values,
                arm=arm.name,
                level=level,
                jobs=arm.jobs,
                timelines=cells[arm.name, level.index],
            )
        )
        for arm in evidence.arms
        for level in evidence.levels
        if (arm.name, level.index) in cells
    )


def tell_files(uses: Sequence[FileUse], *, arms: Sequence[str]) -> Message | None:
    """What limits each of some arms, in their order; None where nothing is known."""
    parts = tuple(use.text for arm in arms for use in uses if use.arm == arm)
    return message("sentences", parts=parts) if parts else None


def _describe(cell: _Cell) -> FileUse:
    thresholds = _read_thresholds(cell.timelines)
    dirty = _dirty(cell.timelines)
    above = None
    if thresholds is not None and dirty is not None:
        limits = _joined(cell.timelines, "dirty.background"), _joined(cell.timelines, "dirty.threshold")
        above = _share_above(dirty, (limits[0] + limits[1]) / 2)
    paused = cell.mean("throttling.paused")
    writers = _writers(cell)
    bandwidth = cell.estimate(cell.observed("fio.bandwidth"))
    latency = None if _is_partial(cell) else cell.estimate(cell.observed("fio.latency_mean"))
    speed = _tell_speed(bandwidth, latency)
    use = FileUse(
        arm=cell.arm,
        load_level=cell.level.index,
        limit=FileLimit.UNDETERMINED,
        text=_tell(cell, speed, FileLimit.UNDETERMINED, ()),
        bandwidth=bandwidth,
        requests=cell.estimate(cell.observed("fio.iops")),
        latency=latency,
        size=float(sum(job.size for job in cell.jobs)),
        memory=_median(cell.timelines, "vmstat.available"),
        read_share=_ratio(cell, "iostat.r_bytes", cell.moved(writes=False)),
        write_share=_ratio(cell, "iostat.w_bytes", cell.moved(writes=True)),
        device_requests=_ratio(cell, "iostat.iops", cell.observed("fio.iops")),
        request_size=_quotient(cell.mean("iostat.bytes"), cell.mean("iostat.iops")),
        merged_share=_merged(cell),
        utilization=cell.largest("iostat.util"),
        dirty=None if dirty is None else float(np.nanmedian(dirty)),
        dirty_share=above,
        thresholds=thresholds,
        pauses=cell.mean("throttling.pauses"),
        paused_share=None if paused is None or not writers else min(1.0, paused / writers),
        direct_reclaim=cell.mean("reclaim.direct"),
        background_reclaim=cell.mean("reclaim.kswapd"),
        facts=(),
    )
    judgements = [_judge_readers(cell, use), _judge_writers(cell, use)]
    limit, facts = min(
        (judgement for judgement in judgements if judgement is not None),
        key=lambda judgement: _ORDER.index(judgement[0]) if judgement[0] in _ORDER else len(_ORDER),
        default=(FileLimit.UNDETERMINED, ()),
    )
    return use.model_copy(update={"limit": limit, "facts": facts, "text": _tell(cell, speed, limit, facts)})


_ENDS = {
    FileLimit.MEMORY: "file-end.memory",
    FileLimit.BACKGROUND: "file-end.background",
    FileLimit.THROTTLE: "file-end.throttle",
    FileLimit.DEVICE: "file-end.device",
    FileLimit.UNDETERMINED: "file-end.undetermined",
}


def _tell(cell: _Cell, speed: Message, limit: FileLimit, facts: Sequence[FileFact]) -> Message:
    """How fast a load on files is, and where its speed ends, in a sentence."""
    name: Message | str = cell.arm
    if len(cell.evidence.levels) > 1:
        name = message("file-name.with-level", arm=cell.arm, level=name_level(cell.level))
    end = message(_ENDS[limit], name=name, speed=speed)
    if not facts:
        return message("file-use", end=end)
    return message("file-use.explained", end=end, facts=tuple(fact.text for fact in facts))


def _tell_speed(bandwidth: Estimate | None, latency: Estimate | None) -> Message:
    """ "102 MB/s, 1.42 ms per request"."""
    speed = message("file-speed.unknown")
    if bandwidth is not None:
        speed = message("file-speed", bandwidth=bandwidth.value)
    if latency is None:
        return speed
    return message("file-speed.with-latency", speed=speed, time=latency.value)


_Judgement = tuple[FileLimit, tuple[FileFact, ...]]


def _is_partial(cell: _Cell) -> bool:
    """Whether the latencies of a job are without what its processes mostly wait for."""
    return any(job.hides_flushes or job.hides_submission for job in cell.jobs)


def _judge_readers(cell: _Cell, use: FileUse) -> _Judgement | None:
    """None where no job reads; undetermined where the device's part is neither small nor what takes the time."""
    readers = [job for job in cell.jobs if not job.writes]
    if not readers:
        return None
    if use.read_share is None:
        return FileLimit.UNDETERMINED, ()
    share = use.read_share.value
    read = FileFact(
        metric="iostat.r_bytes",
        value=share,
        unit="share",
        threshold=HIT,
        text=message("file-fact.read", share=share),
    )
    if share < HIT and not any(job.direct for job in readers):
        return FileLimit.MEMORY, (read,)
    busy = _busy(use)
    waiting = _device_time(cell)
    if (use.utilization or 0.0) >= BUSY or (waiting is not None and waiting.value >= WAITING):
        return FileLimit.DEVICE, tuple(fact for fact in (read, busy, waiting) if fact is not None)
    return FileLimit.UNDETERMINED, tuple(fact for fact in (read, busy, waiting) if fact is not None)


def _judge_writers(cell: _Cell, use: FileUse) -> _Judgement | None:
    writers = [job for job in cell.jobs if job.writes]
    if not writers:
        return None
    if any(job.direct or job.fsync for job in writers):
        busy, waiting = _busy(use), _device_time(cell)
        is_waiting = (use.utilization or 0.0) >= BUSY or (waiting is not None and waiting.value >= WAITING)
        facts = tuple(fact for fact in (busy, waiting) if fact is not None)
        return (FileLimit.DEVICE if is_waiting else FileLimit.UNDETERMINED), facts
    throttled = _throttled(use)
    if any(fact.threshold is not None and fact.value >= fact.threshold for fact in throttled):
        return FileLimit.THROTTLE, throttled
    if use.write_share is None:
        return FileLimit.UNDETERMINED, throttled
    written = FileFact(
        metric="iostat.w_bytes",
        value=use.write_share.value,
        unit="share",
        threshold=WRITING,
        text=message("file-fact.written", share=use.write_share.value),
    )
    limit = FileLimit.BACKGROUND if use.write_share.value >= WRITING else FileLimit.MEMORY
    return limit, (written, *throttled)


def _throttled(use: FileUse) -> tuple[FileFact, ...]:
    """What speaks for the throttle: pauses where they were counted, and how many pages were dirty."""
    facts = []
    if use.paused_share is not None and use.pauses is not None:
        text = message("file-fact.asleep", times=use.pauses, share=use.paused_share)
        fact = FileFact(
            metric="throttling.paused", value=use.paused_share, unit="share", threshold=_SLEEPING, text=text
        )
        facts.append(fact)
    elif use.pauses is not None:  # how long they lasted is not known, so they decide nothing
        text = message("file-fact.pauses", times=use.pauses)
        facts.append(FileFact(metric="throttling.pauses", value=use.pauses, unit="1/s", threshold=None, text=text))
    if use.dirty_share is not None and use.thresholds is not None:
        text = message("file-fact.dirty", share=use.dirty_share, limit=use.thresholds.free_run)
        facts.append(FileFact(metric="dirty.share", value=use.dirty_share, unit="share", threshold=WAITING, text=text))
    return tuple(facts)


def _busy(use: FileUse) -> FileFact | None:
    if use.utilization is None:
        return None
    text = message("file-fact.busy", share=use.utilization)
    return FileFact(metric="iostat.util", value=use.utilization, unit="share", threshold=BUSY, text=text)


def _device_time(cell: _Cell) -> FileFact | None:
    """Share of the time of all requests that the device's requests take, which with read-ahead may overlap."""
    queue = cell.mean("iostat.aqu")
    under_way = cell.level.clients * max(job.depth for job in cell.jobs)
    if queue is None:
        return None
    share = min(1.0, queue / under_way)
    text = message("file-fact.at-device", share=share)
    return FileFact(metric="iostat.aqu", value=share, unit="share", threshold=WAITING, text=text)


def _read_thresholds(timelines: Sequence[Timeline]) -> FileThresholds | None:
    background, limit = pooled_values(timelines, "dirty.background"), pooled_values(timelines, "dirty.threshold")
    if not background.size or not limit.size:
        return None
    return FileThresholds(
        background=_spread(background),
        limit=_spread(limit),
        free_run=(float(np.median(background)) + float(np.median(limit))) / 2,
    )


def _spread(values: Array) -> tuple[float, float, float]:
    return float(values.min()), float(np.median(values)), float(values.max())


def _joined(timelines: Sequence[Timeline], metric: str) -> Array:
    """(seconds,) of all timelines one after the other, NaN where nothing is known."""
    series = [(timeline.get(metric), timeline.seconds) for timeline in timelines]
    return np.concatenate([np.full(seconds, np.nan) if values is None else values for values, seconds in series])


def _dirty(timelines: Sequence[Timeline]) -> Array | None:
    """Bytes that are dirty or being written, which the kernel holds against its thresholds together."""
    dirty = _joined(timelines, "dirty.bytes") + _joined(timelines, "dirty.writeback")
    return dirty if np.isfinite(dirty).any() else None


def _share_above(values: Array, limits: Array) -> float | None:
    known = np.isfinite(values) & np.isfinite(limits)
    return float(np.mean(values[known] > limits[known])) if known.any() else None


def _median(timelines: Sequence[Timeline], metric: str) -> float | None:
    known = pooled_values(timelines, metric)
    return float(np.median(known)) if known.size else None


def _total(timeline: Timeline | None, metric: str) -> float | None:
    """Mean over the seconds of the sum of all objects; None where nothing was read."""
    if timeline is None:
        return None
    series = [timeline.series[metric, about] for about in timeline.objects(metric)]
    means = [float(np.nanmean(values)) for values in series if np.isfinite(values).any()]
    return sum(means) if means else None


def _ratio(cell: _Cell, metric: str, moved: Sequence[float | None]) -> Estimate | None:
    """A rate of the devices over one of the files, run by run; None where there is nothing of the files."""
    pairs = zip(cell.by_run(metric), moved, strict=True) if moved else ()
    return cell.estimate(_quotient(of_devices, of_files) for of_devices, of_files in pairs)


def _quotient(numerator: float | None, denominator: float | None) -> float | None:
    return None if numerator is None or not denominator else numerator / denominator


def _merged(cell: _Cell) -> float | None:
    """Of the requests that were made to the devices, those that were put together with others."""
    merged = [cell.mean("iostat.rrqm"), cell.mean("iostat.wrqm")]
    done = cell.mean("iostat.iops")
    if None in merged or done is None:
        return None
    put_together = sum(number or 0.0 for number in merged)
    return put_together / (put_together + done) if put_together + done else None


def _writers(cell: _Cell) -> float:
    """Processes that write: of the clients the part of the jobs that do, by their shares."""
    whole = sum(job.share for job in cell.jobs)
    return cell.level.clients * sum(job.share for job in cell.jobs if job.writes) / whole
