"""The pairs of metrics that are always looked at together, and which metrics contain each other by definition.

The pairs are those of pg_expecto, which its users look for. ``expected`` is the sign that its rule for the pair speaks
of; what is found is shown whatever its sign.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pgtrial.language import mark

Sign = Literal["+", "-", ""]

CHOSEN = mark("chosen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Metrics as in analysis/timelines/metrics.py; with a "/" one object of theirs, "iostat.util/vda"."""

    first: str
    second: str
    family: str
    expected: Sign


def _pairs(family: str, expected: Sign, first: str, *seconds: str) -> Iterator[Pair]:
    for second in seconds:
        yield Pair(first=first, second=second, family=family, expected=expected)


# Families, as findings have them; they are shown translated.
_WAITS = mark("waits and system")
_SYSTEM = mark("system")
_BLOCKS = mark("throughput and blocks")
_CACHE = mark("blocks and system")
_DIRTY = mark("dirty pages and system")
_DEVICE = mark("memory and device")
_SPEED = mark("throughput and device")
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
    (one, one_object), (other, other_object) = (name.partition("/")[::2] for name in (first, second))
    if _SHARES_OF_CPU.fullmatch(one) and _SHARES_OF_CPU.fullmatch(other):
        return True
    if one == other.replace("wait.", "waits.", 1) or other == one.replace("wait.", "waits.", 1):
        return one != other
    if one.partition(".")[0] == other.partition(".")[0] and one_object and other_object and one_object != other_object:
        return False
    return any(
        re.fullmatch(whole, a) is not None and re.fullmatch(part, b) is not None
        for whole, part in _PARTS
        for a, b in ((one, other), (other, one))
    )
