"""Files, disks and pages: what the load did to the storage, and what it got of it."""

from collections.abc import Iterator, Sequence

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.naming import name_data, name_gain
from pgtrial.findings.questions import DataFit, HugePageFindings, PageCheck, PageGain, TranslationCost
from pgtrial.findings.record import ALL
from pgtrial.findings.rendering import write_value
from pgtrial.findings.storage import SAME_LIMIT, DiskCeiling, DiskLoad, DiskStanding, DiskUse, FileLimit, FileUse
from pgtrial.knobs import KNOBS
from pgtrial.language import N_, ntr, ptr, tr
from pgtrial.report.cause_words import by_arm, by_level, causes_of, estimate_text, lead_arms, order_levels, range_text
from pgtrial.report.charts.disks import disk_charts
from pgtrial.report.charts.pages import gain_charts_by_clients, gain_charts_by_size
from pgtrial.report.sections.base import Section
from pgtrial.report.terms import decision_word, file_limit_word, standing_word
from pgtrial.report.values import format_value
from pgtrial.report.words import arm_label, level_label
from pgtrial.units import format_bytes, format_count, format_share

_NOT_COUNTED = N_("not counted")
_NAMES = {
    FileLimit.MEMORY: N_("memory"),
    FileLimit.BACKGROUND: N_("memory, while the kernel writes in the background"),
    FileLimit.THROTTLE: N_("the throttle of writers"),
    FileLimit.DEVICE: N_("the device"),
    FileLimit.UNDETERMINED: N_("undetermined"),
}


def _build_files(findings: Findings) -> dict[str, object]:
    uses = by_level(findings, causes_of(findings).files)
    return {
        "message": _message(findings, uses),
        "rows": [_row(findings, use) for use in uses],
        "thresholds": [_thresholds(findings, use) for use in uses if use.thresholds is not None],
        "texts": [say(use.text) for use in uses if use.text is not None],
        "is_counted": any(use.pauses is not None for use in uses),
    }


def _message(findings: Findings, uses: list[FileUse]) -> str:
    """What limits the control and the claim's arm, at the first load level that both have."""
    arms = lead_arms(findings, (use.arm for use in uses))
    for level in dict.fromkeys(use.load_level for use in uses):
        found = {use.arm: use for use in uses if use.load_level == level}
        if len(arms) > 1 and all(arm in found for arm in arms):
            words = [
                tr("of “{arm}” {limit}", arm=arm_label(findings, arm), limit=tr(_NAMES[found[arm].limit]))
                for arm in arms
            ]
            return tr("What limits the speed is {limits}.", limits=", ".join(words))
    return ""


def _row(findings: Findings, use: FileUse) -> dict[str, str]:
    return {
        "arm": arm_label(findings, use.arm),
        "level": level_label(findings, use.load_level),
        "limit": file_limit_word(use.limit),
        "bandwidth": estimate_text(use.bandwidth, "B/s"),
        "latency": estimate_text(use.latency, "s"),
        "size": format_value(use.size, "B"),
        "memory": format_value(use.memory, "B"),
        "read": estimate_text(use.read_share, "share"),
        "written": estimate_text(use.write_share, "share"),
        "requests": estimate_text(use.device_requests, ""),
        "request_size": format_value(use.request_size, "B"),
        "merged": format_value(use.merged_share, "share"),
        "busy": format_value(use.utilization, "share"),
    }


def _thresholds(findings: Findings, use: FileUse) -> dict[str, str]:
    found = use.thresholds
    assert found is not None  # the caller has looked
    return {
        "arm": arm_label(findings, use.arm),
        "level": level_label(findings, use.load_level),
        "background": _range(found.background),
        "free_run": format_value(found.free_run, "B"),
        "limit": _range(found.limit),
        "dirty": format_value(use.dirty, "B"),
        "above": format_value(use.dirty_share, "share"),
        "pauses": tr(_NOT_COUNTED) if use.pauses is None else format_value(use.pauses, "1/s"),
        "paused": tr(_NOT_COUNTED) if use.paused_share is None else format_value(use.paused_share, "share"),
        "direct": format_value(use.direct_reclaim, "1/s"),
        "kswapd": format_value(use.background_reclaim, "1/s"),
    }


def _range(values: tuple[float, float, float]) -> str:
    lowest, median, highest = (format_value(value, "B") for value in values)
    return median if lowest == highest else tr("{value} ({low} to {high})", value=median, low=lowest, high=highest)


FILES = Section(
    name="files", title=N_("Files"), build=_build_files, is_shown=lambda findings: bool(causes_of(findings).files)
)


# Knobs by which the disk is what an experiment is about.
_SUBJECT = {name for name, knob in KNOBS.items() if any(fact.startswith("storage/") for fact in knob.facts)}
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


def _build_disks(findings: Findings) -> dict[str, object]:
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
    return by_arm(findings, causes_of(findings).disks)


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
    count, share = (
        sum(load.standing is DiskStanding.AT_LIMIT for load in use.levels),
        write_value(use.spread, "short_percent"),
    )
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
        use.disk or use.declared or arm.knobs.keys() & _SUBJECT
        for use in uses
        for arm in findings.experiment.arms
        if arm.name == use.arm
    )
    standings = {load.standing for use in uses for load in use.levels}
    return bool(uses) and (is_subject or bool(standings & {DiskStanding.AT_LIMIT, DiskStanding.SLOW}))


DISKS = Section(name="disks", title=N_("Disk"), build=_build_disks, is_shown=_is_shown)


_NONE = HugePageFindings(gains=(), fits=(), checks=(), translations=(), reason=None, text=None)


def _build_pages(findings: Findings) -> dict[str, object]:
    pages = findings.pages or _NONE
    levels = _levels(findings, pages.gains)
    return {
        "text": say(pages.text),
        "confidence": format_share(findings.hypothesis.confidence),
        "heads": [level_label(findings, level) for level in levels],
        "rows": _rows(findings, pages, levels),
        "by_clients": gain_charts_by_clients(findings, pages),
        "by_size": gain_charts_by_size(findings, pages),
        "fits": [_fit(findings, fit) for fit in pages.fits],
        "checks": [_check(findings, check) for check in pages.checks],
        "translations": [_translation(findings, cost) for cost in pages.translations],
        "reason": say(pages.reason),
    }


def _levels(findings: Findings, gains: Sequence[PageGain]) -> list[int | str]:
    """All load levels together first; alone where there is only one."""
    if len(findings.experiment.levels) == 1:
        return [ALL]
    return order_levels(findings, (gain.load_level for gain in gains))


def _rows(findings: Findings, pages: HugePageFindings, levels: Sequence[int | str]) -> list[dict[str, object]]:
    cells = {(gain.arm, gain.load_level): gain for gain in pages.gains}
    fits = {arm: fit for fit in pages.fits for arm in fit.arms}
    return [
        {
            "page": _page_text(gain.page),
            "baseline": _page_text(gain.baseline_page),
            "data": name_data(fits[arm]).say() if arm in fits else "–",
            "fits": _yes(fits[arm].fits) if arm in fits else "–",
            "arm": arm_label(findings, arm),
            "cells": [_cell(cells.get((arm, level))) for level in levels],
            "blocks": gain.blocks,
        }
        for arm, gain in {gain.arm: gain for gain in pages.gains}.items()
    ]


def _cell(gain: PageGain | None) -> dict[str, object]:
    if gain is None:
        return {"text": "–", "decision": ""}
    return {"text": name_gain(gain).say(), "decision": decision_word(gain.decision)}


def _page_text(page: str) -> str:
    return {"none": tr("ordinary pages"), "": tr("not set")}.get(page, page)


def _yes(answer: bool | None) -> str:
    return "–" if answer is None else ptr("answer", "yes") if answer else ptr("answer", "no")


def _of_runs(part: int, whole: int) -> str:
    return ntr("{part} of {count} runs", "{part} of {count} runs", whole, part=part)


def _fit(findings: Findings, fit: DataFit) -> dict[str, object]:
    return {
        "data": name_data(fit).say(),
        "buffers": format_value(fit.shared_buffers, "B"),
        "fits": _yes(fit.fits),
        "hit": estimate_text(fit.hit_share, "share"),
        "arms": ", ".join(arm_label(findings, arm) for arm in fit.arms),
    }


def _check(findings: Findings, check: PageCheck) -> dict[str, object]:
    returned = check.given_back + check.not_given_back
    return {
        "arm": arm_label(findings, check.arm),
        "page": _page_text(check.page),
        "found": ", ".join(format_value(size, "B") for size in check.found) or tr("not read"),
        "confirmed": _of_runs(check.confirmed, check.runs),
        "is_confirmed": check.confirmed == check.runs,
        "pool": format_value(check.pool, "B"),
        "used": format_value(check.used, "B"),
        "back": _of_runs(check.given_back, returned) if returned else "–",
        "is_back": check.not_given_back == 0,
        "transparent": format_value(check.transparent, "B"),
    }


def _translation(findings: Findings, cost: TranslationCost) -> dict[str, object]:
    return {
        "arm": arm_label(findings, cost.arm),
        "level": level_label(findings, cost.load_level),
        "misses": estimate_text(cost.misses, ""),
        "share": estimate_text(cost.miss_share, "share"),
        "code": estimate_text(cost.code_misses, ""),
        "instructions": estimate_text(cost.instructions, ""),
    }


PAGES = Section(
    name="pages", title=N_("Huge pages"), build=_build_pages, is_shown=lambda findings: findings.pages is not None
)
