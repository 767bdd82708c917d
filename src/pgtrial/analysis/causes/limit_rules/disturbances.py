"""What comes and goes, or does the server's own work: checkpoints and autovacuum."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_rules.base import Clue, Scene, accuse, find_clue, strongest
from pgtrial.analysis.causes.limit_rules.cpu import cpu_saturation
from pgtrial.analysis.causes.limit_rules.parts import is_cpu, is_wal
from pgtrial.analysis.log_pairing import REQUESTED, TIMED
from pgtrial.analysis.timelines.timeline import Array, Timeline
from pgtrial.findings.causes import Resource, Suspect
from pgtrial.findings.message import Message, message
from pgtrial.stats.period import given_period

_Mask = NDArray[np.bool_]
_Finder = Callable[[Scene, Timeline], _Mask]

_CHECKPOINT = "checkpoint"
_AUTOVACUUM = "autovacuum"
# By who asked for most of them.
_LOST_TO_CHECKPOINTS = {
    TIMED: "lost.timed-checkpoints",
    REQUESTED: "lost.requested-checkpoints",
    "": "lost.checkpoints",
}
_KINDS = {TIMED: "detail.timed", REQUESTED: "detail.requested"}
_ROUNDING = 1e-6
_WORKER = "autovacuum worker"
_BLOCK = 8192.0  # B, of a page that is written to the WAL whole
_COMPRESSED = 0.25  # of that, which wal_compression leaves: a guess, because the server does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Slump:
    """Throughput in some seconds against that in the others of the same run.

    ``depth`` is by how much it is lower there, ``lost`` what that costs of all throughput, ``share`` the share of these
    seconds. ``chance`` is the probability of such a depth if they were others.
    """

    depth: float
    lost: float
    share: float
    chance: float


def contrast(runs: Sequence[tuple[Array, _Mask]]) -> Slump | None:
    """Compare throughput inside and outside of masks; None with too few seconds of either.

    runs : (seconds,) throughput and which of its seconds are meant, of each run. ``chance`` is from shifting the masks
    along their runs, the end joined to the beginning: that keeps how both go on from second to second, which a test
    that takes seconds for independent would not (Lotwick & Silverman, J. R. Statist. Soc. B 44 (1982) 406-413).
    """
    usable = [(tps, mask) for tps, mask in runs if np.isfinite(tps).all() and tps.size and np.median(tps) > 0]
    inside = sum(int(mask.sum()) for _, mask in usable)
    total = sum(mask.size for _, mask in usable)
    if inside < limits.FEWEST_SECONDS or total - inside < limits.FEWEST_OTHER_SECONDS:
        return None
    depth = _depth(usable)
    return Slump(depth=depth, lost=depth * inside / total, share=inside / total, chance=_chance(usable))


def _depth(runs: Sequence[tuple[Array, _Mask]]) -> float:
    """1 - throughput inside / the usual outside, all runs together; runs without one of the two say nothing."""
    ratios = [tps[mask] / usual for tps, mask in runs if mask.any() and (usual := _usual(tps, mask)) > 0]
    return 1 - float(np.mean(np.concatenate(ratios))) if ratios else 0.0


def _usual(tps: Array, mask: _Mask) -> float:
    return float(np.median(tps[~mask])) if not mask.all() else 0.0


def _chance(runs: Sequence[tuple[Array, _Mask]]) -> float:
    """Share of the shifts, that by none included, after which there is no more throughput inside than there is."""
    shifts = np.arange(max(tps.size for tps, _ in runs))
    inside = np.zeros(shifts.size)
    for tps, mask in runs:
        # Entry s is the sum inside after a shift by s: a circular cross-correlation.
        spectrum = np.conj(np.fft.rfft(mask.astype(np.float64))) * np.fft.rfft(tps / np.median(tps))
        inside += np.fft.irfft(spectrum, tps.size)[shifts % tps.size]
    return float(np.mean(inside <= inside[0] + _ROUNDING))


def suspect_checkpoints(scene: Scene) -> Iterator[Suspect | None]:
    """Throughput dips while checkpoints write, begin or end; or they come so often that most WAL is whole pages, which
    costs something.
    """
    dips = [
        dip for finder in (_during_checkpoints, _edges_of_checkpoints) if (dip := _contrast(scene, finder)) is not None
    ]
    if dips:
        kind = _kind_of_checkpoints(scene)
        yield _accuse_dips(
            Resource.CHECKPOINTS,
            max(dips, key=lambda dip: dip.lost),
            _LOST_TO_CHECKPOINTS[kind],
            detail=message(_KINDS[kind]) if kind else "",
            supports=(_rhythm(scene),) if kind == TIMED else (),
        )
    yield _suspect_frequent_checkpoints(scene)


def _kind_of_checkpoints(scene: Scene) -> str:
    """Whether the clock or somebody, such as the WAL's size, asked for most of them, by the log or by the counters; ""
    where neither tells.
    """
    runs = {timeline.run for timeline in scene.timelines}
    mine = [event for event in scene.facts.events if event.kind == _CHECKPOINT and event.run in runs]
    timed, requested = (sum(event.numbers.get(kind, 0.0) for event in mine) for kind in (TIMED, REQUESTED))
    if not timed and not requested:
        timed, requested = (scene.mean(f"checkpoints.{kind}") or 0.0 for kind in (TIMED, REQUESTED))
    if timed == requested:
        return ""
    return TIMED if timed > requested else REQUESTED


def _rhythm(scene: Scene) -> Clue | None:
    """Whether throughput goes up and down with checkpoint_timeout, in the run that shows it most; None where no run has
    three of them.
    """
    timeout = scene.facts.checkpoint_timeouts.get(scene.arm)
    if timeout is None:
        return None
    runs = [timeline for timeline in scene.timelines if timeline.run not in scene.facts.in_turns]
    chances = [r.false_alarm for timeline in runs if (r := given_period(timeline.tps, timeout)) is not None]
    if not chances:
        return None
    chance = min(1.0, min(chances) * len(chances))
    return find_clue(
        *("tps", chance, "", limits.CHANCE),
        message("checkpoints.rhythm", period=timeout, chance=chance),
    )


def _suspect_frequent_checkpoints(scene: Scene) -> Suspect | None:
    """Whole pages alone limit nothing: with commits that wait for no disk, and CPUs that only copy them, they are as
    good as free.
    """
    interval = _checkpoint_interval(scene)
    pages, wal = scene.mean("wal.fpi"), scene.mean("wal.bytes")
    is_compressed = scene.arm in scene.facts.wal_compression
    size = _BLOCK * (_COMPRESSED if is_compressed else 1.0)
    whole = min(1.0, pages * size / wal) if pages is not None and wal else None
    return accuse(
        Resource.CHECKPOINTS,
        detail=message("detail.timed" if _kind_of_checkpoints(scene) == TIMED else "detail.too-frequent"),
        needs=(
            find_clue(
                *("checkpoints.requested", interval, "s", limits.CHECKPOINT_INTERVAL),
                message("checkpoints.interval", interval=interval),
            ),
            find_clue(
                *("wal.fpi", whole, "share", limits.WHOLE_PAGES),
                message(
                    "checkpoints.whole-pages-compressed" if is_compressed else "checkpoints.whole-pages", share=whole
                ),
            ),
            strongest(_costs_of_whole_pages(scene)),
        ),
        at_most=limits.WITHOUT_WHOLE_PAGES if whole is None else 1.0,
    )


def _costs_of_whole_pages(scene: Scene) -> Iterator[Clue | None]:
    """Waiting for the WAL that they make long, or the CPU time to make them ready for it."""
    waiting = scene.share(is_wal)
    yield find_clue(
        *("wait.IO", waiting, "share", limits.WHOLE_PAGES_COST),
        message("waiting.wal", share=waiting),
    )
    pages, on_cpu = scene.mean("wal.fpi"), scene.share(is_cpu)
    used = sum(scene.mean("server.cpu", about) or 0.0 for about in scene.objects("server.cpu"))
    if pages is None or on_cpu is None or used <= 0:
        return
    page_time = limits.PAGE_TIME.get(scene.facts.wal_compression.get(scene.arm, "off"), limits.PAGE_TIME["on"])
    making = min(1.0, pages * page_time / used) * on_cpu
    yield find_clue(
        *("wal.fpi", making, "share", limits.WHOLE_PAGES_COST),
        message("checkpoints.making-pages", share=making, time=page_time),
    )


def _checkpoint_interval(scene: Scene) -> float | None:
    """Seconds from one checkpoint to the next; None where no run had two of them.

    A single one says nothing of that: with a checkpoint_timeout of minutes it falls into the same short load level of
    every run, because they all go by the same clock from the server's start.
    """
    names = [f"checkpoints.{name}" for name in (TIMED, REQUESTED)]
    counts = [
        sum(float(np.nansum(series)) for name in names if (series := timeline.get(name)) is not None)
        for timeline in scene.timelines
    ]
    rate = sum(mean for name in names if (mean := scene.mean(name)) is not None)
    return 1 / rate if rate > 0 and round(max(counts)) > 1 else None


def suspect_autovacuum(scene: Scene) -> Iterator[Suspect | None]:
    """Throughput is lower while workers are at it; or they take much of the CPU time of a busy machine."""
    dip = _contrast(scene, _during_autovacuum)
    if dip is not None:
        yield _accuse_dips(Resource.AUTOVACUUM, dip, "lost.autovacuum")
    used = {about: scene.mean("server.cpu", about) or 0.0 for about in scene.objects("server.cpu")}
    total = sum(used.values())
    share = used.get(_WORKER, 0.0) / total if total > 0 else None
    saturation = cpu_saturation(scene)
    if saturation is not None:
        yield accuse(
            Resource.AUTOVACUUM,
            needs=(
                find_clue(
                    *(f"server.cpu/{_WORKER}", share, "share", limits.VACUUM_CPU),
                    message("autovacuum.cpu", share=share),
                ),
                saturation,
            ),
        )


def _accuse_dips(
    resource: Resource,
    dip: Slump,
    lost: str,
    *,
    detail: str | Message = "",
    supports: Sequence[Clue | None] = (),
) -> Suspect | None:
    """``lost`` is the code of what the dips cost."""
    return accuse(
        resource,
        detail=detail,
        supports=supports,
        needs=(
            find_clue("tps", dip.lost, "share", limits.LOST, message(lost, share=dip.lost)),
            find_clue(
                *("tps", dip.depth, "share", limits.DEPTH),
                message("lost.depth", depth=dip.depth, share=dip.share),
            ),
            find_clue(
                *("tps", dip.chance, "", limits.CHANCE),
                message("lost.chance", chance=dip.chance),
            ),
        ),
    )


def _contrast(scene: Scene, finder: _Finder) -> Slump | None:
    return contrast([(t.tps, finder(scene, t)) for t in scene.timelines if t.run not in scene.facts.in_turns])


def _during_checkpoints(scene: Scene, timeline: Timeline) -> _Mask:
    """From start to end by the log; without a log, while blocks are being written."""
    events = _spans(scene, timeline, _CHECKPOINT)
    if events:
        return _mask(timeline, events)
    return _above_zero(timeline, "checkpoints.buffers")


def _edges_of_checkpoints(scene: Scene, timeline: Timeline) -> _Mask:
    """When pages are written to the WAL whole, after the start, and when files are synced, before the end."""
    edges = []
    for start, end, sync in _spans(scene, timeline, _CHECKPOINT):
        edges += [(start, min(end, start + limits.AFTER_CHECKPOINT), 0.0), (end - sync, end, 0.0)]
    return _mask(timeline, edges)


def _during_autovacuum(scene: Scene, timeline: Timeline) -> _Mask:
    """While workers were seen, which finds them also before the log tells of them, at their end."""
    seen = timeline.get("sessions.autovacuum")
    if seen is not None:
        return _above_zero(timeline, "sessions.autovacuum")
    return _mask(timeline, _spans(scene, timeline, _AUTOVACUUM))


def _spans(scene: Scene, timeline: Timeline, kind: str) -> list[tuple[float, float, float]]:
    """(start, end, seconds of syncing at the end) of what the log tells of a run."""
    return [
        (event.start, event.end, event.numbers.get("sync seconds", 0.0))
        for event in scene.facts.events
        if event.run == timeline.run and event.kind == kind
    ]


def _mask(timeline: Timeline, spans: Sequence[tuple[float, float, float]]) -> _Mask:
    """Seconds of a timeline that any of the spans touches."""
    begin = timeline.started + np.arange(timeline.seconds)
    touched = np.zeros(timeline.seconds, dtype=np.bool_)
    for start, end, _ in spans:
        touched |= (begin < end) & (begin + 1 > start) if end > start else (begin <= start) & (start < begin + 1)
    return touched


def _above_zero(timeline: Timeline, metric: str) -> _Mask:
    series = timeline.get(metric)
    if series is None:
        return np.zeros(timeline.seconds, dtype=np.bool_)
    return np.nan_to_num(series, nan=0.0) > 0
