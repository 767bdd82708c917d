"""Which metrics go together inside the load levels: all of PAIRS and those that the file chooses.

A stratum is one run at one load level, so that neither the number of clients, which moves nearly every metric, nor a
difference between arms or blocks makes a pair go together. What is found is an association and nothing more: a third
thing may move both.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from pgtrial.analysis.causes.sessions import Array, find_objects, find_series
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.causes import Association
from pgtrial.stats.association import Correlations, associations
from pgtrial.stats.interval import benjamini_hochberg

# The pairs of metrics that are always looked at together, and which metrics contain each other by definition.
#
# The pairs are those of pg_expecto, which its users look for. ``expected`` is the sign that its rule for the pair
# speaks of; what is found is shown whatever its sign.


Sign = Literal["+", "-", ""]

CHOSEN = "chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Metrics as in model/series.py; with a "/" one object of theirs, "iostat.util/vda"."""

    first: str
    second: str
    family: str
    expected: Sign


def _pairs(family: str, expected: Sign, first: str, *seconds: str) -> Iterator[Pair]:
    for second in seconds:
        yield Pair(first=first, second=second, family=family, expected=expected)


# Families, as findings have them; they are shown translated.
_WAITS = "waits and system"
_SYSTEM = "system"
_BLOCKS = "throughput and blocks"
_CACHE = "blocks and system"
_DIRTY = "dirty pages and system"
_DEVICE = "memory and device"
_SPEED = "throughput and device"
_READS = ("iostat.r", "iostat.r_bytes")
_WRITES = ("iostat.w", "iostat.w_bytes")

PAIRS: tuple[Pair, ...] = (
    *_pairs(_WAITS, "+", "waits.BufferPin", "vmstat.bo", "vmstat.swpd"),
    *_pairs(_WAITS, "+", "waits.Extension", "vmstat.cs", "vmstat.in", "vmstat.us", "vmstat.sy"),
    *_pairs(_WAITS, "+", "waits.IO", "vmstat.bi", "vmstat.bo", "vmstat.wa", "vmstat.b"),
    *_pairs(_WAITS, "+", "waits.IPC", "vmstat.cs", "vmstat.in", "vmstat.sy"),
    *_pairs(_WAITS, "+", "waits.Lock", "vmstat.r"),
    *_pairs(_WAITS, "-", "waits.Lock", "vmstat.us"),
    *_pairs(_WAITS, "+", "waits.LWLock", "vmstat.cs", "vmstat.us", "vmstat.sy", "vmstat.so", "vmstat.si"),
    *_pairs(_WAITS, "+", "waits.Timeout", "vmstat.in", "vmstat.cs", "vmstat.sy", "vmstat.r"),
    *_pairs(_SYSTEM, "+", "vmstat.cs", "vmstat.in", "vmstat.us", "vmstat.sy"),
    *_pairs(_BLOCKS, "+", "pgbench.tps", "db.read", "statements.dirtied", "statements.written"),
    *_pairs(_BLOCKS, "-", "pgbench.tps", "db.blk_read_time", "db.blk_write_time"),
    *_pairs(_CACHE, "-", "db.hit", "db.read", "vmstat.us", "vmstat.sy"),
    *_pairs(_CACHE, "+", "db.read", "vmstat.si"),
    *_pairs(_CACHE, "+", "statements.dirtied", "vmstat.bo", "vmstat.wa"),
    *_pairs(_CACHE, "+", "statements.written", "vmstat.bo"),
    *_pairs(_DIRTY, "+", "dirty.bytes", "vmstat.so", "vmstat.wa", "vmstat.b", "vmstat.bo", "vmstat.sy"),
    *_pairs(_DIRTY, "-", "dirty.bytes", "vmstat.free"),
    *_pairs(_DEVICE, "+", "vmstat.wa", "iostat.util"),
    *_pairs(_DEVICE, "+", "vmstat.buff", *_READS, *_WRITES),
    *_pairs(_DEVICE, "+", "vmstat.cache", *_READS, *_WRITES),
    *_pairs(_SPEED, "+", "pgbench.tps", "iostat.iops", "iostat.bytes"),
)

# A whole to its parts, or to what is computed from it: regular expressions for whole names.
_PARTS: tuple[tuple[str, str], ...] = (
    (r"iostat\.iops", r"iostat\.[rw]"),
    (r"iostat\.bytes", r"iostat\.[rw]_bytes"),
    (r"iostat\.[rw]_bytes", r"iostat\.[rw]|iostat\.[rw]areq"),
    (r"iostat\.util", r"iostat\.aqu"),
    (r"vmstat\.bi", r"iostat\.(r_bytes|bytes)|cgroup\.read_bytes"),
    (r"vmstat\.bo", r"iostat\.(w_bytes|bytes)|cgroup\.write_bytes"),
    (r"iostat\.([rw]|iops|[rw]_bytes|bytes)", r"cgroup\.(reads|writes|read_bytes|write_bytes)"),
    (r"vmstat\.(us|sy)", r"server\.cpu|pgbench\.cpu|cgroup\.cpu"),
    (r"cgroup\.cpu", r"server\.cpu"),
    (r"loadavg\.1", r"vmstat\.[rb]"),
    (r"dirty\.share", r"dirty\.(bytes|threshold)"),
    (r"dirty\.threshold", r"dirty\.background|vmstat\.available"),
    (r"vmstat\.available", r"vmstat\.(free|buff|cache)"),
    (r"vmstat\.free", r"watermark\.free"),
    (r"psi\.(memory|io)", r"psi\.(memory|io)\.full"),
    (r"sessions\.active", r"waits\..+|wait\..+"),
    (r"db\.(hit|read)", r"statements\.(hit|read)"),
    (r"pgbench\.tps", r"pgbench\.latency_mean|db\.commits|statements\.calls"),
    (r"db\.commits", r"statements\.calls"),
    (r"db\.tuples_returned", r"db\.rows|statements\.rows"),
    (r"locks\.waiting", r"waits\.Lock|wait\.Lock"),
)
_SHARES_OF_CPU = re.compile(r"vmstat\.(us|sy|id|wa|st)")


def is_part(first: str, second: str) -> bool:
    """Whether two metrics go together by definition: one is a part of the other, or computed from it.

    So are two shares of the CPUs' time, which add up to one. Different objects, such as two devices, are not parts of
    each other; throughput and latency are tied by the number of clients (Little's law).
    """
    (metric, device), (other, other_device) = (name.partition("/")[::2] for name in (first, second))
    if _SHARES_OF_CPU.fullmatch(metric) and _SHARES_OF_CPU.fullmatch(other):
        return True
    if metric == other.replace("wait.", "waits.", 1) or other == metric.replace("wait.", "waits.", 1):
        return metric != other
    if metric.partition(".")[0] == other.partition(".")[0] and device and other_device and device != other_device:
        return False
    return any(
        re.fullmatch(whole, a) is not None and re.fullmatch(part, b) is not None
        for whole, part in _PARTS
        for a, b in ((metric, other), (other, metric))
    )


_ROUNDING = 1e-9  # relative


def find_associations(evidence: Evidence, timelines: Sequence[Timeline]) -> tuple[Association, ...]:
    """One record per pair and, where a metric has several, per object ("iostat.util/vda"), in the order of the table.

    The false-discovery rate is controlled over all pairs that can be tested. A pair of the table of which a metric was
    never read is left out, one that the file chooses is kept and says so by its count of zero.
    """
    chosen = (
        Pair(first=first, second=second, family=CHOSEN, expected="")
        for first, second in evidence.experiment.associations.pairs
    )
    known = {frozenset((pair.first, pair.second)) for pair in PAIRS}
    pairs = [
        pair
        for listed in (*PAIRS, *chosen)
        if listed.family != CHOSEN or frozenset((listed.first, listed.second)) not in known
        for pair in _with_objects(listed, timelines)
    ]
    if not timelines or not pairs:
        return ()
    tested = _test_pairs(pairs, timelines, confidence=evidence.confidence, seed=evidence.seed)
    q_values = benjamini_hochberg([None if result.spearman is None else result.spearman.p_value for result in tested])
    level = evidence.experiment.associations.false_discovery
    return tuple(
        _record(pair, result, q_value=q_value, level=level)
        for pair, result, q_value in zip(pairs, tested, q_values, strict=True)
    )


def _with_objects(pair: Pair, timelines: Sequence[Timeline]) -> Iterator[Pair]:
    """The pair for each object of its metrics; of two metrics with the same objects, each with its own."""
    firsts, seconds = (list(_names(name, timelines)) for name in (pair.first, pair.second))
    if not firsts or not seconds:
        if pair.family == CHOSEN:
            yield pair
        return
    same = {about for _, about in firsts} & {about for _, about in seconds} - {""}
    for (first, device), (second, other) in product(firsts, seconds):
        if first != second and (not same or device == other):
            yield Pair(first=first, second=second, family=pair.family, expected=pair.expected)


def _names(name: str, timelines: Sequence[Timeline]) -> Iterator[tuple[str, str]]:
    """(full name, object) of every series that a name means."""
    metric, _, about = name.partition("/")
    for series_object in find_objects(timelines, metric):
        if about in ("", series_object):
            yield (f"{metric}/{series_object}" if series_object else metric), series_object


def _test_pairs(
    pairs: Sequence[Pair], timelines: Sequence[Timeline], *, confidence: float, seed: int
) -> tuple[Correlations, ...]:
    names = list(dict.fromkeys(name for pair in pairs for name in (pair.first, pair.second)))
    rows: Mapping[str, int] = {name: row for row, name in enumerate(names)}
    series = np.vstack([np.concatenate([_values(timeline, name) for timeline in timelines]) for name in names])
    configurations = list(dict.fromkeys((timeline.arm, timeline.level) for timeline in timelines))
    strata = np.repeat(np.arange(len(timelines)), [timeline.seconds for timeline in timelines])
    # A run so short that no whole second of it is known has no stratum.
    alike = [configurations.index((timeline.arm, timeline.level)) for timeline in timelines if timeline.seconds]
    return associations(
        series,
        [(rows[pair.first], rows[pair.second]) for pair in pairs],
        strata,
        rng=np.random.default_rng(seed),
        confidence=confidence,
        alike=alike or None,
    )


def _values(timeline: Timeline, name: str) -> Array:
    """What only rounding moves is constant: it goes together with nothing."""
    metric, _, about = name.partition("/")
    series = find_series(timeline, metric, about)
    if series is None:
        return np.full(timeline.seconds, np.nan)
    known = series[~np.isnan(series)]
    if not known.size:
        return series
    low, high = float(known.min()), float(known.max())
    is_constant = high - low <= _ROUNDING * max(abs(low), abs(high))
    return np.where(np.isnan(series), np.nan, low) if is_constant else series


def _record(pair: Pair, tested: Correlations, *, q_value: float | None, level: float) -> Association:
    spearman, pearson = tested.spearman, tested.pearson
    return Association(
        first=pair.first,
        second=pair.second,
        family=pair.family,
        expected=pair.expected,
        spearman=spearman.value if spearman else None,
        low=spearman.low if spearman else None,
        high=spearman.high if spearman else None,
        pearson=pearson.value if pearson else None,
        p_value=spearman.p_value if spearman else None,
        q_value=q_value,
        is_real=q_value is not None and q_value <= level,
        part_of=is_part(pair.first, pair.second),
        count=tested.count,
    )
