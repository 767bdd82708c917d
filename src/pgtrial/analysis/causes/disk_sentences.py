"""What is said of a disk, a load level, and the numbers of both."""

from collections.abc import Mapping, Sequence

from pgtrial.findings.causes import Suspect
from pgtrial.findings.disks import SAME_LIMIT, DiskCeiling, DiskLoad, DiskStanding, ServerSize, rate_of
from pgtrial.findings.message import Message, Value, message
from pgtrial.findings.record import Estimate

_EXACT = 0.0005  # relative difference that is none in a sentence
_FAR_BELOW = 0.5  # of a limit

# Key of a declared limit, mean of a load level, and what the rate counts.
_LIMITED_RATES = (
    ("read_iops", "reads", "reads"),
    ("write_iops", "writes", "writes"),
    ("read_bytes", "read_bytes", "read"),
    ("write_bytes", "write_bytes", "written"),
)


def tell_limit(level: Message, ceiling: DiskCeiling, *, is_enforced: bool) -> Message:
    """A ceiling, and whose it is."""
    values: dict[str, Value] = {"level": level, "rate": ceiling.rate, "how": ceiling.how_steady}
    if ceiling.declared is None:
        return message("disk-load.undeclared", **values)
    code = "disk-declared.bytes" if ceiling.unit == "B/s" else "disk-declared.requests"
    declared, ratio = message(code, rate=ceiling.declared), ceiling.value.value / ceiling.declared
    if not ceiling.is_at_declared:
        code = "disk-load.above-declared" if ratio > 1 else "disk-load.below-declared"
        return message(code, **values, declared=declared)
    code = "disk-load.enforced" if is_enforced else "disk-load.provided"
    return message(code, **values, off=_tell_distance(ratio - 1, declared))


def _tell_distance(distance: float, declared: Message) -> Message:
    if abs(distance) < _EXACT:
        return message("disk-distance.none", declared=declared)
    code = "disk-distance.above" if distance > 0 else "disk-distance.below"
    return message(code, share=abs(distance), declared=declared)


def tell_load(
    level: Message,
    standing: DiskStanding,
    means: Mapping[str, Estimate | None],
    *,
    suspect: Suspect | None,
    declared: Mapping[str, float],
    is_enforced: bool,
) -> Message:
    """A load level at no ceiling; ``suspect`` is what the rules for limits say of the disk."""
    if standing is DiskStanding.UNKNOWN:
        return message("disk-load.unknown", level=level)
    if standing is DiskStanding.NOT_LIMITING:
        below = _tell_below(means, declared, is_enforced=False)
        if below is None:
            return message("disk-load.not-limiting", level=level)
        return message("disk-load.far-from-limit", level=level, below=below)
    is_slow = standing is DiskStanding.SLOW
    reasons = (
        suspect.evidence[0].text if suspect is not None and suspect.evidence else None,
        _tell_times(means),
        _tell_below(means, declared, is_enforced=is_enforced) if is_slow else None,
    )
    code = "disk-load.slow" if is_slow else "disk-load.at-limit"
    return message(code, level=level, reasons=tuple(reason for reason in reasons if reason))


def _tell_times(means: Mapping[str, Estimate | None]) -> Message | None:
    read, write, queue = means["read_latency"], means["write_latency"], means["queue"]
    takes = []  # a time is 0 where there was no such request
    if read is not None and read.value > 0:
        takes.append(message("disk-times.read", time=read.value))
    if write is not None and write.value > 0:
        takes.append(message("disk-times.write", time=write.value))
    if takes and queue is not None:
        return message("disk-times.with-queue", takes=tuple(takes), requests=queue.value)
    if queue is not None:
        return message("disk-times.queue", requests=queue.value)
    return message("disk-times", takes=tuple(takes)) if takes else None


def _tell_below(
    means: Mapping[str, Estimate | None], declared: Mapping[str, float], *, is_enforced: bool
) -> Message | None:
    """How far its rates stay below the declared limits; where pgtrial enforces them, and the rates are far below, that
    the disk itself is slower.
    """
    shares = [
        (rate.value / declared[key], rate_of(declared[key], of))
        for key, name, of in _LIMITED_RATES
        if key in declared and (rate := means[name]) is not None
    ]
    if not shares:
        return None
    # A mean that comes near a limit may well have reached it in many moments.
    is_slower = is_enforced and max(share for share, _ in shares) < _FAR_BELOW
    rates = tuple(message("disk-allowed", share=share, limit=limit) for share, limit in shares)
    return message("disk-below.slower" if is_slower else "disk-below", rates=rates)


def tell_use(
    levels: Sequence[DiskLoad], spread: float | None, size: ServerSize | None, *, is_emulated: bool, is_on_files: bool
) -> Message | None:
    """The disk of an arm in two or three sentences.

    Where a load on files ends is told by its own rules, so that here nothing is said of a disk that is at no limit.
    """
    at_limit = [load for load in levels if load.standing is DiskStanding.AT_LIMIT]
    slow = [load for load in levels if load.standing is DiskStanding.SLOW]
    sentences = [load.text for load in (at_limit or slow or (() if is_on_files else levels))[-1:]]
    if is_emulated:
        sentences.insert(0, message("disk-use.emulated"))
    if spread is not None:
        code = "disk-use.same-ceiling" if spread <= SAME_LIMIT else "disk-use.ceiling-differs"
        sentences.append(message(code, count=len(at_limit), share=spread))
    if size is not None:
        sentences.append(size.text)
    return message("sentences", parts=tuple(sentences)) if sentences else None
