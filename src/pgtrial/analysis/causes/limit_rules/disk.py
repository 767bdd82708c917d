"""Devices: a ceiling of requests or bytes per second, or the time that single requests take.

At a ceiling, a limit of the device or of its provider, more clients get no more requests through, only a longer queue.
Below it the rate is what the clients ask for: so many as wait at a time, each for the time that the device takes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_rules.base import Clue, Scene, accuse, find_clue
from pgtrial.analysis.causes.limit_rules.parts import (
    busiest_device,
    device_sessions,
    is_data,
    is_temporary,
    is_wal,
    is_write,
    under_way,
)
from pgtrial.analysis.causes.sessions import undisturbed_values
from pgtrial.findings.causes import Resource, Suspect
from pgtrial.findings.message import Message, message
from pgtrial.stats.plateau import Plateau, find_plateau

# Write-back throttling: the kernel slows down who writes, because too many pages are dirty.


def suspect_write_back(scene: Scene) -> Iterator[Suspect | None]:
    """Writes wait while the pages that are dirty or being written are more than the kernel lets grow freely.

    That is half-way between the background limit and the limit: from there on balance_dirty_pages makes writers sleep
    (mm/page-writeback.c, dirty_freerun_ceiling). It has no counter, so the number of pages is what tells.
    """
    limit, background = scene.median("dirty.threshold"), scene.median("dirty.background")
    free_run = (1 + background / limit) / 2 if limit and background is not None else limits.FREE_RUN
    time, share = scene.share_above("dirty.share", free_run), scene.share(is_write)
    dirty = scene.median("dirty.share")
    yield accuse(
        Resource.WRITE_BACK,
        detail=message("detail.dirty-limit", limit=limit) if limit else "",
        needs=(
            find_clue(
                *("dirty.share", time, "share", limits.THROTTLED_TIME),
                message("disk.throttled-writers", share=time, dirty=dirty),
            ),
            find_clue(
                *("wait.IO", share, "share", limits.WRITE_SHARE),
                message("disk.writing", share=share, event=scene.largest(is_write)),
            ),
        ),
    )


# The first ones are reads; the last ones are totals of a device. Those of the server's control group leave out who else
# uses the device. Each with the code of its rate in words.
_READS, _WRITES, _REQUESTED = "device-rate.reads", "device-rate.writes", "device-rate.requests"
_READ, _WRITTEN, _BOTH = "device-rate.read", "device-rate.written", "device-rate.both"
_REQUESTS = (
    *(("cgroup.reads", _READS), ("cgroup.writes", _WRITES)),
    *(("iostat.r", _READS), ("iostat.w", _WRITES), ("iostat.iops", _REQUESTED)),
)
_BYTES = (
    *(("cgroup.read_bytes", _READ), ("cgroup.write_bytes", _WRITTEN)),
    *(("iostat.r_bytes", _READ), ("iostat.w_bytes", _WRITTEN), ("iostat.bytes", _BOTH)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ceiling:
    """A rate of a device that looks pinned, or that is as high as it may be; ``height`` in 1/s or B/s."""

    metric: str
    height: float
    clue: Clue
    is_sure: bool


def suspect_disk(scene: Scene) -> Iterator[Suspect | None]:
    """One of the two ceilings, or the time of single requests."""
    share, device = scene.share(is_data, is_temporary), busiest_device(scene)
    waits = find_clue(
        *("wait.IO", share, "share", limits.WAIT_SHARE),
        message("disk.waiting", share=share, event=scene.largest(is_data, is_temporary)),
    )
    if not device:
        yield accuse(
            Resource.DISK_LATENCY,
            detail=message("detail.unseen-device"),
            needs=(waits,),
            at_most=limits.UNSEEN_DEVICE,
        )
        return
    requests = _find_ceiling(scene, device, _REQUESTS, is_bytes=False)
    volume = _find_ceiling(scene, device, _BYTES, is_bytes=True)
    is_volume = _prefers_bytes(scene, device, requests, volume)
    ceiling, reaches = volume if is_volume else requests, _reaches_device(scene, device)
    limited = None
    if ceiling:
        limited = accuse(
            Resource.DISK_THROUGHPUT if is_volume else Resource.DISK_IOPS,
            detail=device if reaches else message("detail.before-device", device=device),
            needs=(ceiling.clue, waits, _queue(scene, device), _growth(scene, ceiling, device)),
        )
    yield limited
    if reaches:
        at_most = 1 - limited.strength if limited else 1.0
        yield accuse(Resource.DISK_LATENCY, detail=device, needs=(waits, reaches), at_most=at_most)


_WRITE_LIMITS = (
    ("cgroup.writes", _WRITES, Resource.DISK_IOPS),
    ("cgroup.write_bytes", _WRITTEN, Resource.DISK_THROUGHPUT),
)


def suspect_write_limit(scene: Scene) -> Iterator[Suspect | None]:
    """Writes stand at the limit that the experiment gives them, and sessions wait for writes, or for the WAL's flush.

    The flush is slow then because the device may not write more often: the limit is what more can be had of.
    """
    share = scene.share(is_wal, is_write)
    for metric, code, resource in _WRITE_LIMITS:
        for device in scene.objects(metric):
            ceiling = _declared_ceiling(scene, device, metric, code)
            if ceiling is not None and ceiling.clue.weight >= limits.DECIDED:
                yield accuse(
                    resource,
                    detail=message("detail.before-device", device=device),
                    needs=(
                        ceiling.clue,
                        find_clue(
                            *("wait.IO", share, "share", limits.WAIT_SHARE),
                            message("disk.waiting-for-writes", share=share, event=scene.largest(is_wal, is_write)),
                        ),
                    ),
                )


def reads_as_much_as_allowed(scene: Scene) -> bool:
    """Whether the reads of the server's control group stand at a limit that the experiment gives it."""
    device = busiest_device(scene)
    return bool(device) and any(
        _find_declared(scene, device, series) is not None for series in (_REQUESTS[:1], _BYTES[:1])
    )


def _find_ceiling(scene: Scene, device: str, series: tuple[tuple[str, str], ...], *, is_bytes: bool) -> _Ceiling | None:
    """A limit that is known, where the rate reaches it; otherwise the most pinned one of the series that matter, of
    which the last one is the total of the device.
    """
    declared = _find_declared(scene, device, series)
    if declared is not None:
        return declared
    total = scene.mean(series[-1][0], device)
    size = (scene.mean("iostat.bytes", device) or 0.0) / (scene.mean("iostat.iops", device) or 1.0)
    best: _Ceiling | None = None
    for metric, code in series:
        rate = scene.mean(metric, device)
        if not total or not rate or rate < limits.SERIES_SHARE * total:
            continue
        rates = undisturbed_values(scene.timelines, metric, device, steal=limits.PLATEAU_STEAL)
        plateau = find_plateau(rates, request=size if is_bytes else 1.0)
        clue = plateau and _pinned(plateau, f"{metric}/{device}", code)
        if plateau and clue and (best is None or clue.weight > best.clue.weight):
            best = _Ceiling(metric=metric, height=plateau.ceiling, clue=clue, is_sure=plateau.is_plateau)
    return best


def _find_declared(scene: Scene, device: str, series: tuple[tuple[str, str], ...]) -> _Ceiling | None:
    """The first limit that is known whose rate reaches it."""
    for metric, code in series:
        declared = _declared_ceiling(scene, device, metric, code)
        if declared is not None and declared.clue.weight >= limits.DECIDED:
            return declared
    return None


def _declared_ceiling(scene: Scene, device: str, metric: str, code: str) -> _Ceiling | None:
    """The limit that the experiment itself gives the server's control group; its rate is met on average, whatever
    single seconds do.
    """
    limit, rate = scene.facts.device_limits.get(scene.arm, {}).get(metric), scene.mean(metric, device)
    if not limit or rate is None:
        return None
    clue = find_clue(
        *(f"{metric}/{device}", rate / limit, "share", limits.DECLARED),
        message("disk.declared-limit", rate=message(code, rate=rate), limit=message(code, rate=limit)),
    )
    return _Ceiling(metric=metric, height=limit, clue=clue, is_sure=True) if clue else None


def _prefers_bytes(scene: Scene, device: str, requests: _Ceiling | None, volume: _Ceiling | None) -> bool:
    """Whether bytes are what is limited. Requests of one size are pinned with them: then their size decides."""
    if requests is None or volume is None:
        return volume is not None
    if requests.is_sure and volume.is_sure:
        size = (scene.mean("iostat.bytes", device) or 0.0) / (scene.mean("iostat.iops", device) or 1.0)
        return size >= limits.LARGE_REQUEST
    return volume.clue.weight > requests.clue.weight


def _pinned(plateau: Plateau, metric: str, code: str) -> Clue | None:
    """How much of the time it is pinned, unless what nobody limits may be as steady."""
    rate, share = message(code, rate=plateau.ceiling), plateau.pinned_share
    text = (
        message("disk.pinned", rate=rate, share=share)
        if plateau.width == 1
        else message("disk.pinned-means", rate=rate, share=share, width=plateau.width)
    )
    clue = find_clue(metric, share, "share", limits.PINNED, text)
    sure = limits.PLATEAU_CHANCE.weigh(plateau.chance)
    return clue and replace(clue, weight=min(clue.weight, sure))


def _queue(scene: Scene, device: str) -> Clue | None:
    """Requests that wait: at the device, or already before it, where only the sessions show them."""
    requests, sessions = scene.median("iostat.aqu", device), device_sessions(scene)
    queue = max((value for value in (requests, sessions) if value is not None), default=None)
    return find_clue(*(f"iostat.aqu/{device}", queue, "", limits.PLATEAU_QUEUE), _tell_queue(requests, sessions))


def _tell_queue(requests: float | None, sessions: float | None) -> Message:
    if requests and sessions:
        return message("disk.queue", requests=requests, sessions=sessions)
    if sessions:
        return message("disk.queue-of-sessions", sessions=sessions)
    return message("disk.queue-of-requests", requests=requests or 0.0)


def _growth(scene: Scene, ceiling: _Ceiling, device: str) -> Clue | None:
    """Whether the rate still grows with the clients: elasticity against the next lower level, None without one."""
    below = scene.below
    lower = below.median(ceiling.metric, device) if below else None
    if below is None or not lower or below.level.clients >= scene.level.clients:
        return None
    elasticity = math.log(ceiling.height / lower) / math.log(scene.level.clients / below.level.clients)
    change = ceiling.height / lower - 1
    return find_clue(
        *(f"{ceiling.metric}/{device} by clients", elasticity, "", limits.GROWTH),
        message("disk.growth", count=below.level.clients, share=change),
    )


def _reaches_device(scene: Scene, device: str) -> Clue | None:
    """Whether requests under way explain the sessions that wait; None where most of them never get to the device.

    The page cache answers the others, or they are held back before the device: by a limit of the control group.
    """
    requests, sessions = under_way(scene), device_sessions(scene)
    if requests is None or not sessions:
        return None
    reached = requests / sessions
    takes = [
        message(code, time=await_)
        for code, metric, rate in (
            ("disk.read-takes", "iostat.r_await", "iostat.r"),
            ("disk.write-takes", "iostat.w_await", "iostat.w"),
        )
        if (await_ := scene.median(metric, device)) is not None
        and (scene.mean(rate, device) or 0.0) >= limits.SERIES_SHARE * (scene.mean("iostat.iops", device) or 0.0)
    ]
    waiting = message("disk.under-way", requests=requests, sessions=sessions)
    clue = find_clue(
        *("iostat.aqu" if len(scene.objects("iostat.aqu")) > 1 else f"iostat.aqu/{device}", reached, "per session"),
        limits.REACHES_DEVICE,
        message("disk.request-times", parts=(*takes, waiting)),
    )
    return clue if clue and clue.weight > 0 else None
