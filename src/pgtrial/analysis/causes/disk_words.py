"""What is found out about a disk, in sentences."""

from collections.abc import Mapping

from pgtrial.analysis.causes.words import READ_TAKES, WRITE_TAKES, join, number, percent, rate_of
from pgtrial.findings.causes import Suspect
from pgtrial.findings.disks import DiskCeiling, DiskLoad, DiskStanding, DiskUse, ServerSize
from pgtrial.findings.message import say
from pgtrial.findings.record import Estimate
from pgtrial.language import N_, ntr, tr
from pgtrial.units import format_bytes, format_count, format_duration

_EXACT = 0.0005  # relative difference that is none in a sentence
NEAR = 0.05  # by which two rates may differ and be the same limit
FAR_BELOW = 0.5  # of a limit
# Utilization law U = X·D and bottleneck analysis: Denning & Buzen, ACM Computing Surveys 10 (1978) 225-261; Lazowska,
# Zahorjan, Graham & Sevcik, "Quantitative System Performance" (1984), chapters 3 and 5.
RULE = N_(
    "Rule: the CPUs that a disk can feed are those that the server uses while the disk stands at its limit. There "
    "throughput is what the disk gives, every transaction costs the CPU time that it costs (U = X·D), and any further "
    "CPU waits."
)
RULE_DOUBT = N_(
    "It holds for this load, these data and this memory: where more of the data is cached, a transaction reads less, "
    "and the same disk feeds more CPUs. CPUs of another speed count in proportion. The interval is over blocks; what "
    "it cannot contain is another mix of queries."
)

# A ceiling, and whose it is; {rate} {how} is "3.00 k reads per second in 97 % of the seconds".
_ENFORCED = N_("With {level} the disk stands at the limit that pgtrial enforces: {rate} {how}; {off}.")
_PROVIDED = N_("With {level} the disk stands at the limit that its provider declares: {rate} {how}; {off}.")
_ABOVE = N_(
    "With {level} the disk stands at a limit above the declared {declared}, of the device or of the way to it: {rate} "
    "{how}."
)
_BELOW = N_(
    "With {level} the disk stands at a limit below the declared {declared}, of the device or of the way to it: {rate} "
    "{how}."
)
_UNDECLARED = N_(
    "With {level} the disk stands at a limit that the file does not declare, of the device or of its provider: {rate} "
    "{how}."
)


def rate_text(value: float, unit: str) -> str:
    """ "3.00 k per second", "23.4 MB per second"."""
    return tr("{rate} per second", rate=amount_text(value, unit))


def amount_text(value: float, unit: str) -> str:
    """ "3.00 k", "23.4 MB", of a rate."""
    return format_bytes(value) if unit == "B/s" else format_count(value)


def ceiling_text(ceiling: DiskCeiling) -> str:
    """ "3.00 k reads per second", "23.4 MB read per second"."""
    return rate_of(ceiling.value.value, ceiling.of, is_bytes=ceiling.unit == "B/s")


def steadiness_text(ceiling: DiskCeiling) -> str:
    """How steady a ceiling is, against what nobody limits."""
    if ceiling.steadiness is None:
        return tr("in {share} of the seconds", share=percent(ceiling.pinned_share))
    return tr(
        "in {share} of the seconds, varying by {steady} where free demand would vary by {free}",
        share=percent(ceiling.pinned_share),
        steady=percent(ceiling.steadiness),
        free=percent(ceiling.free_steadiness),
    )


def tell_load(
    load: DiskLoad,
    *,
    label: str,
    suspect: Suspect | None,
    declared: Mapping[str, float],
    is_enforced: bool,
) -> str:
    """One sentence on a load level; ``suspect`` is what the rules for limits say of the disk."""
    ceiling = load.ceiling
    match load.standing:
        case DiskStanding.AT_LIMIT if ceiling is not None:
            return _tell_limit(label, ceiling, is_enforced=is_enforced)
        case DiskStanding.AT_LIMIT | DiskStanding.SLOW:
            slow = load.standing is DiskStanding.SLOW
            told = say(suspect.evidence[0].text) if suspect is not None and suspect.evidence else ""
            parts = [told, _latencies(load), _below(load, declared, is_enforced=is_enforced) if slow else ""]
            reasons = "; ".join(part for part in parts if part)
            if slow:
                return tr("With {level} the disk is slow, not at a limit: {reasons}.", level=label, reasons=reasons)
            return tr("With {level} the disk is at a limit: {reasons}.", level=label, reasons=reasons)
        case DiskStanding.NOT_LIMITING:
            below = _below(load, declared)
            if below:
                return tr("With {level} the disk is not what limits: {below}.", level=label, below=below)
            return tr("With {level} the disk is not what limits.", level=label)
        case DiskStanding.UNKNOWN:
            return tr("With {level} it is not known what limits.", level=label)


def _tell_limit(label: str, ceiling: DiskCeiling, *, is_enforced: bool) -> str:
    """A ceiling, and whose it is."""
    seen = {"level": label, "rate": ceiling_text(ceiling), "how": steadiness_text(ceiling)}
    if ceiling.declared is None:
        return tr(_UNDECLARED, **seen)
    declared = rate_text(ceiling.declared, ceiling.unit)
    if not ceiling.is_at_declared:
        return tr(_ABOVE if ceiling.value.value > ceiling.declared else _BELOW, **seen, declared=declared)
    return tr(_ENFORCED if is_enforced else _PROVIDED, **seen, off=_off(ceiling, ceiling.declared))


def _off(ceiling: DiskCeiling, limit: float) -> str:
    off, declared = ceiling.value.value / limit - 1, rate_text(limit, ceiling.unit)
    if abs(off) < _EXACT:
        return tr("that is just the declared {declared}", declared=declared)
    if off > 0:
        return tr("that is {share} above the declared {declared}", share=percent(off), declared=declared)
    return tr("that is {share} below the declared {declared}", share=percent(-off), declared=declared)


def _latencies(load: DiskLoad) -> str:
    takes = join(
        [
            tr(text, time=format_duration(each.value))
            for text, each in ((READ_TAKES, load.read_latency), (WRITE_TAKES, load.write_latency))
            if each is not None and each.value > 0  # 0 where there was no such request
        ]
    )
    if not load.queue:
        return takes
    queue = number(load.queue.value)
    if not takes:
        return tr("with {requests} requests under way", requests=queue)
    return tr("{takes} with {requests} requests under way", takes=takes, requests=queue)


def _below(load: DiskLoad, declared: Mapping[str, float], *, is_enforced: bool = False) -> str:
    """How far its rates stay below the declared limits; where pgtrial enforces them, and the rates are far below, that
    the disk itself is slower.
    """
    rates: tuple[tuple[str, str, Estimate | None, str], ...] = (
        ("read_iops", "reads", load.reads, "1/s"),
        ("write_iops", "writes", load.writes, "1/s"),
        ("read_bytes", "read", load.read_bytes, "B/s"),
        ("write_bytes", "written", load.write_bytes, "B/s"),
    )
    shares = [
        (rate.value / declared[key], rate_of(declared[key], name, is_bytes=unit == "B/s"))
        for key, name, rate, unit in rates
        if key in declared and rate is not None
    ]
    told = [tr("{share} of the {limit} that are allowed", share=percent(share), limit=limit) for share, limit in shares]
    if not told:
        return ""
    # A mean that comes near a limit may well have reached it in many moments.
    if is_enforced and max(share for share, _ in shares) < FAR_BELOW:
        return tr("it does {rates}, so the disk below the limit is the slower one", rates=join(told))
    return tr("it does {rates}", rates=join(told))


def tell_size(size: ServerSize, *, label: str, standing: DiskStanding) -> str:
    """What size of server the disk can feed."""
    cpus = tr("{cpus} CPUs", cpus=number(size.cpus.value))
    if size.cpus.low is not None and size.cpus.high is not None:
        cpus = tr(
            "{cpus} CPUs ({low} to {high})",
            cpus=number(size.cpus.value),
            low=number(max(0.0, size.cpus.low)),
            high=number(size.cpus.high),
        )
    if not size.is_bound:
        return ntr(
            "At its limit, with {level}, this disk keeps {cpus} busy: enough for a server of {count} CPU, and further "
            "CPUs would wait.",
            "At its limit, with {level}, this disk keeps {cpus} busy: enough for a server of {count} CPUs, and further "
            "CPUs would wait.",
            size.whole,
            level=label,
            cpus=cpus,
        )
    if standing is DiskStanding.NOT_LIMITING:
        text = N_("This disk keeps at least {cpus} busy, with {level}: it was not what limited.")
    else:
        text = N_(
            "This disk keeps at least {cpus} busy, with {level}: it is slow rather than limited, so more clients may "
            "get more out of it."
        )
    return tr(text, cpus=cpus, level=label)


def tell_use(use: DiskUse) -> str:
    """The disk of an arm in two or three sentences."""
    at_limit = [load for load in use.levels if load.standing is DiskStanding.AT_LIMIT]
    slow = [load for load in use.levels if load.standing is DiskStanding.SLOW]
    shown = (at_limit or slow or list(use.levels))[-1:]
    sentences = [load.text for load in shown]
    if use.is_emulated:
        sentences.insert(0, tr("An emulated disk: a loop device with limits, not a disk of that class."))
    if use.spread is not None and use.spread <= NEAR:
        sentences.append(
            ntr(
                "The ceiling is the same at {count} load levels, within {share}, while the clients grow: that is a "
                "limit, not a slow disk.",
                "The ceiling is the same at {count} load levels, within {share}, while the clients grow: that is a "
                "limit, not a slow disk.",
                len(at_limit),
                share=percent(use.spread),
            )
        )
    elif use.spread is not None:
        sentences.append(
            ntr(
                "At {count} load levels the ceiling differs by {share}.",
                "At {count} load levels the ceiling differs by {share}.",
                len(at_limit),
                share=percent(use.spread),
            )
        )
    if use.size is not None:
        sentences.append(use.size.text)
    return " ".join(sentences)
