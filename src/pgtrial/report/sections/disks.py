"""Disk: the ceiling that it stands at, whether it is limited or slow, and the size of server that it can feed."""

from collections.abc import Iterator

from pgtrial.analysis.causes.words import percent
from pgtrial.findings.disks import SAME_LIMIT, DiskCeiling, DiskLoad, DiskStanding, DiskUse
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.language import N_, ntr, tr
from pgtrial.report.cause_words import causes_of, estimate_text, format_value, place_arm, range_text
from pgtrial.report.charts.disks import disk_charts
from pgtrial.report.sections.base import Section
from pgtrial.report.terms import standing_word
from pgtrial.report.words import arm_label, level_label
from pgtrial.units import format_bytes, format_count

_SUBJECT = ("storage", "filesystem")  # knobs by which the disk is what an experiment is about
# By the key of a limit: how a rate is written, and a limit that is enforced, and one that is only declared.
_DECLARED = {
    "read_iops": (
        format_count,
        N_("{rate} reads per second, enforced"),
        N_("{rate} reads per second, as its provider says"),
    ),
    "write_iops": (
        format_count,
        N_("{rate} writes per second, enforced"),
        N_("{rate} writes per second, as its provider says"),
    ),
    "read_bytes": (
        format_bytes,
        N_("{rate} read per second, enforced"),
        N_("{rate} read per second, as its provider says"),
    ),
    "write_bytes": (
        format_bytes,
        N_("{rate} written per second, enforced"),
        N_("{rate} written per second, as its provider says"),
    ),
}
# Of which rate a ceiling is.
_RATES = frozenset((N_("reads"), N_("writes"), N_("requests"), N_("read"), N_("written"), N_("read and written")))


def _build(findings: Findings) -> dict[str, object]:
    uses = _uses(findings)
    emulated = [arm_label(findings, use.arm) for use in uses if use.is_emulated]
    return {
        "emulated": ", ".join(tr("“{arm}”", arm=name) for name in emulated),
        "is_all_emulated": len(emulated) == len(uses),
        "overview": [_use(findings, use) for use in uses],
        "charts": disk_charts(findings),
        "rows": [_load(findings, use, load) for use in uses for load in use.levels],
        "sources": list(dict.fromkeys(say(use.size.source) for use in uses if use.size is not None)),
    }


def _uses(findings: Findings) -> list[DiskUse]:
    return sorted(causes_of(findings).disks, key=lambda use: place_arm(findings, use.arm))


def _use(findings: Findings, use: DiskUse) -> dict[str, object]:
    last = _last_at_limit(use)
    size = use.size
    return {
        "arm": arm_label(findings, use.arm),
        "disk": use.disk or "–",
        "device": use.device,
        "declared": list(_declared(use)),
        "ceiling": say(last.ceiling.rate) if last is not None and last.ceiling else tr("none reached"),
        "steadiness": say(last.ceiling.how_steady) if last is not None and last.ceiling else "",
        "over_levels": _over_levels(use),
        "cpus": "–" if size is None else _cpus(format_value(size.cpus.value, ""), is_bound=size.is_bound),
        "interval": "–" if size is None else range_text(size.cpus, ""),
        "server": "–" if size is None else _server(size.whole, is_bound=size.is_bound),
        "text": say(use.text),
    }


def _last_at_limit(use: DiskUse) -> DiskLoad | None:
    return next((load for load in reversed(use.levels) if load.standing is DiskStanding.AT_LIMIT), None)


def _over_levels(use: DiskUse) -> str:
    """Whether the ceiling stays where it is while clients grow, of the load levels at which there is one."""
    if use.spread is None:
        return ""
    count, share = sum(load.standing is DiskStanding.AT_LIMIT for load in use.levels), percent(use.spread)
    if use.spread <= SAME_LIMIT:
        return ntr(
            "the same at {count} load level within {share}",
            "the same at {count} load levels within {share}",
            count,
            share=share,
        )
    return ntr(
        "At {count} load levels the ceiling differs by {share}.",
        "At {count} load levels the ceiling differs by {share}.",
        count,
        share=share,
    )


def _declared(use: DiskUse) -> Iterator[str]:
    for key, (write, enforced, said) in _DECLARED.items():
        if key in use.declared:
            yield tr(enforced if use.is_enforced else said, rate=write(use.declared[key]))


def _cpus(cpus: str, *, is_bound: bool) -> str:
    return tr("at least {cpus}", cpus=cpus) if is_bound else cpus


def _server(whole: int, *, is_bound: bool) -> str:
    if is_bound:
        return ntr("{count} CPU or more", "{count} CPUs or more", whole)
    return ntr("up to {count} CPU", "up to {count} CPUs", whole)


def _load(findings: Findings, use: DiskUse, load: DiskLoad) -> dict[str, object]:
    return {
        "arm": arm_label(findings, use.arm),
        "level": level_label(findings, load.load_level),
        "standing": standing_word(load.standing),
        "is_held": load.standing is DiskStanding.AT_LIMIT,
        "ceiling": _ceiling(load.ceiling),
        "throughput": estimate_text(load.throughput, "1/s"),
        "reads": estimate_text(load.reads, "1/s"),
        "writes": estimate_text(load.writes, "1/s"),
        "read_bytes": estimate_text(load.read_bytes, "B/s"),
        "write_bytes": estimate_text(load.write_bytes, "B/s"),
        "read_size": estimate_text(load.read_size, "B"),
        "write_size": estimate_text(load.write_size, "B"),
        "read_latency": estimate_text(load.read_latency, "s"),
        "write_latency": estimate_text(load.write_latency, "s"),
        "queue": estimate_text(load.queue, ""),
        "iowait": estimate_text(load.iowait, "share"),
        "cpu_busy": estimate_text(load.cpu_busy, "share"),
        "cpus": estimate_text(load.cpus, ""),
        "text": say(load.text),
    }


def _ceiling(ceiling: DiskCeiling | None) -> str:
    if ceiling is None:
        return "–"
    of = tr(ceiling.of) if ceiling.of in _RATES else ceiling.of
    return f"{format_value(ceiling.value.value, ceiling.unit)} ({of}), {say(ceiling.how_steady)}"


def _is_shown(findings: Findings) -> bool:
    """Where the disk is what arms differ in, or what limits one of them."""
    uses = causes_of(findings).disks
    is_subject = any(
        use.disk or use.declared or arm.knobs.keys() & {*_SUBJECT}
        for use in uses
        for arm in findings.experiment.arms
        if arm.name == use.arm
    )
    standings = {load.standing for use in uses for load in use.levels}
    return bool(uses) and (is_subject or bool(standings & {DiskStanding.AT_LIMIT, DiskStanding.SLOW}))


DISKS = Section(name="disks", title=N_("Disk"), build=_build, is_shown=_is_shown)
