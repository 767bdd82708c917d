"""What is found out about a disk, in sentences."""

from collections.abc import Mapping

from pgtrial.analysis.cause_findings import Estimate, Suspect
from pgtrial.analysis.causes.words import join, number, percent
from pgtrial.analysis.disk_findings import DiskCeiling, DiskLoad, DiskStanding, DiskUse, ServerSize
from pgtrial.units import format_bytes, format_count, format_duration

_EXACT = 0.0005  # relative difference that is none in a sentence
NEAR = 0.05  # by which two rates may differ and be the same limit
# Utilization law U = X·D and bottleneck analysis: Denning & Buzen, ACM Computing Surveys 10 (1978) 225-261; Lazowska,
# Zahorjan, Graham & Sevcik, "Quantitative System Performance" (1984), chapters 3 and 5.
RULE = (
    "Rule: the CPUs that a disk can feed are those that the server uses while the disk stands at its limit. There "
    "throughput is what the disk gives, every transaction costs the CPU time that it costs (U = X·D), and any further "
    "CPU waits."
)
RULE_DOUBT = (
    "It holds for this load, these data and this memory: where more of the data is cached, a transaction reads less, "
    "and the same disk feeds more CPUs. CPUs of another speed count in proportion. The interval is over blocks; what "
    "it cannot contain is another mix of queries."
)


def rate_text(value: float, unit: str) -> str:
    """ "3.00 k per second", "23.4 MB per second"."""
    return f"{format_bytes(value) if unit == 'B/s' else format_count(value)} per second"


def ceiling_text(ceiling: DiskCeiling) -> str:
    """ "3.00 k reads per second", "23.4 MB read per second"."""
    return _count(ceiling.value.value, ceiling.unit, ceiling.of)


def _count(value: float, unit: str, of: str) -> str:
    return f"{format_bytes(value) if unit == 'B/s' else format_count(value)} {of} per second"


def steadiness_text(ceiling: DiskCeiling) -> str:
    """How steady a ceiling is, against what nobody limits."""
    steady = "" if ceiling.steadiness is None else f", varying by {percent(ceiling.steadiness)}"
    free = f" where free demand would vary by {percent(ceiling.free_steadiness)}" if steady else ""
    return f"in {percent(ceiling.pinned_share)} of the seconds{steady}{free}"


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
            return f"With {label} the disk stands at {_whose(ceiling, is_enforced)}: {_at(ceiling)}."
        case DiskStanding.AT_LIMIT | DiskStanding.SLOW:
            slow = load.standing is DiskStanding.SLOW
            kind = "slow, not at a limit" if slow else "at a limit"
            told = suspect.evidence[0].text if suspect is not None and suspect.evidence else ""
            parts = [told, _latencies(load), _below(load, declared, is_enforced=is_enforced) if slow else ""]
            return f"With {label} the disk is {kind}: {'; '.join(part for part in parts if part)}."
        case DiskStanding.NOT_LIMITING:
            return f"With {label} the disk is not what limits{_below(load, declared, start=': ')}."
        case DiskStanding.UNKNOWN:
            return f"With {label} it is not known what limits."


def _whose(ceiling: DiskCeiling, is_enforced: bool) -> str:
    if ceiling.is_at_declared:
        return "the limit that pgtrial enforces" if is_enforced else "the limit that its provider declares"
    if ceiling.declared is not None:
        shown = rate_text(ceiling.declared, ceiling.unit)
        above = ceiling.value.value > ceiling.declared
        return f"a limit {'above' if above else 'below'} the declared {shown}, of the device or of the way to it"
    return "a limit that the file does not declare, of the device or of its provider"


def _at(ceiling: DiskCeiling) -> str:
    text = f"{ceiling_text(ceiling)} {steadiness_text(ceiling)}"
    if ceiling.is_at_declared and ceiling.declared is not None:
        text += f"; that is {_off(ceiling)} the declared {rate_text(ceiling.declared, ceiling.unit)}"
    return text


def _off(ceiling: DiskCeiling) -> str:
    assert ceiling.declared is not None  # asked of those that have one
    off = ceiling.value.value / ceiling.declared - 1
    return "just" if abs(off) < _EXACT else f"{percent(abs(off))} {'above' if off > 0 else 'below'}"


def _latencies(load: DiskLoad) -> str:
    takes = [
        f"a {name} takes {format_duration(each.value)}"
        for name, each in (("read", load.read_latency), ("write", load.write_latency))
        if each is not None
    ]
    queue = f"with {number(load.queue.value)} requests under way" if load.queue else ""
    return " ".join(part for part in (join(takes), queue) if part)


def _below(load: DiskLoad, declared: Mapping[str, float], *, start: str = "", is_enforced: bool = False) -> str:
    """How far its rates stay below the declared limits; where pgtrial enforces them, that the disk below is slower."""
    rates: tuple[tuple[str, str, Estimate | None, str], ...] = (
        ("read_iops", "reads", load.reads, "1/s"),
        ("write_iops", "writes", load.writes, "1/s"),
        ("read_bytes", "read", load.read_bytes, "B/s"),
        ("write_bytes", "written", load.write_bytes, "B/s"),
    )
    told = [
        f"{percent(rate.value / declared[key])} of the {_count(declared[key], unit, name)} that are allowed"
        for key, name, rate, unit in rates
        if key in declared and rate is not None
    ]
    if not told:
        return ""
    return f"{start}it does {join(told)}" + (", so the disk below the limit is the slower one" if is_enforced else "")


def tell_size(size: ServerSize, *, label: str, standing: DiskStanding) -> str:
    """What size of server the disk can feed."""
    interval = ""
    if size.cpus.low is not None and size.cpus.high is not None:
        interval = f" ({number(max(0.0, size.cpus.low))} to {number(size.cpus.high)})"
    cpus = f"{number(size.cpus.value)} CPUs{interval}"
    if not size.is_bound:
        return (
            f"At its limit, with {label}, this disk keeps {cpus} busy: enough for a server of {_plural(size.whole)}, "
            "and further CPUs would wait."
        )
    why = "it is slow rather than limited, so more clients may get more out of it"
    if standing is DiskStanding.NOT_LIMITING:
        why = "it was not what limited"
    return f"This disk keeps at least {cpus} busy, with {label}: {why}."


def _plural(cpus: int) -> str:
    return "1 CPU" if cpus == 1 else f"{cpus} CPUs"


def tell_use(use: DiskUse) -> str:
    """The disk of an arm in two or three sentences."""
    at_limit = [load for load in use.levels if load.standing is DiskStanding.AT_LIMIT]
    slow = [load for load in use.levels if load.standing is DiskStanding.SLOW]
    shown = (at_limit or slow or list(use.levels))[-1:]
    sentences = ["An emulated disk: a loop device with limits, not a disk of that class."] if use.is_emulated else []
    sentences += [load.text for load in shown]
    if use.spread is not None and use.spread <= NEAR:
        sentences.append(
            f"The ceiling is the same at {len(at_limit)} load levels, within {percent(use.spread)}, while the clients "
            "grow: that is a limit, not a slow disk."
        )
    elif use.spread is not None:
        sentences.append(f"At {len(at_limit)} load levels the ceiling differs by {percent(use.spread)}.")
    if use.size is not None:
        sentences.append(use.size.text)
    return " ".join(sentences)
