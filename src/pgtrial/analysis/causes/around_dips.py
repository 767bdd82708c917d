"""What sessions wait for inside dips, against the rest of the time, and what is unlike itself before dips begin."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.causes.sessions import Array
from pgtrial.analysis.sampled import find_device, named
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.message import Message, message
from pgtrial.findings.naming import name_part
from pgtrial.findings.over_time import DipSign, DipWait
from pgtrial.model.series import WAIT, WAITS, find_metric
from pgtrial.stats.dips import Steadiness, ThroughputDip
from pgtrial.stats.shifts import MarkedSeries, find_unlike

LEADS = range(2, 11)  # s before a dip; the second before it may have a part of it
FEWEST_DIPS = 3  # with as many quiet seconds before them; what one or two tell is an anecdote
LIKELY = 0.05
MOST_WAITS = 8
LEAST = 0.05  # sessions, inside or outside
# What throughput itself moves is no sign: rows, blocks and WAL rise and fall with it.
_SIGNS = (
    *("vmstat.r", "vmstat.b", "vmstat.wa", "vmstat.so", "reclaim.direct", "dirty.bytes"),
    *("locks.waiting", "sessions.autovacuum", "backend.buffers", "checkpoints.requested"),
)
_OF_DEVICE = ("iostat.aqu", "iostat.r_bytes", "iostat.w_bytes")

Key = tuple[str, str]
_Steadiness = Mapping[int, Steadiness]  # by run


def compare_waits(cell: Sequence[Timeline], steadiness: _Steadiness, *, seed: int) -> tuple[DipWait, ...]:
    """Waits of the load's sessions by event; () without dips, or where sessions were not sampled."""
    keys = _keys(cell, lambda name, _: name.startswith(WAIT))
    runs = [
        MarkedSeries(values=_stack(each, keys), marked=_inside(each, steadiness[each.run].dips))
        for each in cell
        if each.run in steadiness and each.get("sessions.active") is not None
    ]
    found = find_unlike(runs, rng=np.random.default_rng(seed)) if keys else ()
    waits = [
        DipWait(
            kind=name.removeprefix(WAIT),
            event=event,
            inside=unlike.marked,
            outside=unlike.rest,
            chance=unlike.p_value,
        )
        for (name, event), unlike in zip(keys, found, strict=bool(found))
        if unlike is not None and max(unlike.marked, unlike.rest) >= LEAST
    ]
    return tuple(sorted(waits, key=lambda wait: (-abs(wait.inside - wait.outside), wait.kind, wait.event))[:MOST_WAITS])


def find_signs(cell: Sequence[Timeline], steadiness: _Steadiness, *, seed: int) -> tuple[tuple[DipSign, ...], int]:
    """Metrics that are unlike themselves before dips, and how many were tried: none where there are too few dips.

    Only the seconds outside of dips are looked at, so that no dip counts as a sign of the next one.
    """
    device = find_device(cell)
    keys = _keys(
        cell, lambda name, about: name.startswith(WAITS) or name in _SIGNS or (name in _OF_DEVICE and about == device)
    )
    runs = []
    for each in cell:
        if each.run in steadiness:
            inside = _inside(each, steadiness[each.run].dips)
            runs.append(MarkedSeries(values=_stack(each, keys)[:, ~inside], marked=_beginnings(inside)))
    if not keys or sum(int(run.marked.sum()) for run in runs) < FEWEST_DIPS:
        return (), 0
    found = find_unlike(runs, lags=LEADS, rng=np.random.default_rng(seed))
    tried = [(key, unlike) for key, unlike in zip(keys, found, strict=bool(found)) if unlike is not None]
    signs = [
        DipSign(
            metric=named(key),
            unit=_unit(key[0]),
            lead=unlike.lag,
            before=unlike.marked,
            usual=unlike.rest,
            chance=unlike.p_value,
        )
        for key, unlike in tried
        if unlike.p_value <= LIKELY
    ]
    return tuple(sorted(signs, key=lambda sign: (sign.chance, sign.metric))), len(tried)


def tell_more(timeline: Timeline, dips: Sequence[ThroughputDip], dip: ThroughputDip) -> Message | None:
    """The wait that a dip has more sessions in than the seconds outside of dips; None where no wait stands out."""
    inside, dipping = _inside(timeline, [dip]), _inside(timeline, dips)
    more: dict[Key, float] = {}
    for key, values in timeline.series.items():
        if key[0].startswith(WAIT):
            there, else_ = values[inside], values[~dipping]
            there, else_ = there[~np.isnan(there)], else_[~np.isnan(else_)]
            if there.size and else_.size:
                more[key] = float(there.mean() - else_.mean())
    largest = max(more, key=lambda key: (more[key], key), default=None)
    if largest is None or more[largest] < LEAST:
        return None
    return message(
        "dips.more", part=name_part(largest[0].removeprefix(WAIT), largest[1]), sessions=round(more[largest], 2)
    )


def _keys(cell: Sequence[Timeline], is_wanted: Callable[[str, str], bool]) -> list[Key]:
    return sorted({key for each in cell for key in each.series if is_wanted(*key)})


def _stack(timeline: Timeline, keys: Sequence[Key]) -> Array:
    unknown = np.full(timeline.seconds, np.nan)
    return np.stack([timeline.series.get(key, unknown) for key in keys]) if keys else np.empty((0, timeline.seconds))


def _inside(timeline: Timeline, dips: Sequence[ThroughputDip]) -> NDArray[np.bool_]:
    inside = np.zeros(timeline.seconds, np.bool_)
    for dip in dips:
        inside[dip.start : dip.start + dip.length] = True
    return inside


def _beginnings(inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Among the seconds outside of dips that before which a dip lay, if as many as LEADS were quiet before that dip."""
    quiet_before = np.cumsum(~inside)
    marked = np.zeros(int(quiet_before[-1]) if inside.size else 0, np.bool_)
    for start in np.flatnonzero(np.diff(inside.astype(int), prepend=0) == 1):
        if marked.size and start >= LEADS[-1] and not inside[start - LEADS[-1] : start].any():
            marked[quiet_before[start] % marked.size] = True
    return marked


def _unit(name: str) -> str:
    metric = find_metric(name)
    return "" if metric is None else metric.unit
