"""Huge pages: what they gain in each cell, where the data stop fitting, and whether the runs really had them."""

from collections.abc import Sequence

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.naming import name_data, name_gain
from pgtrial.findings.pages import DataFit, HugePages, PageCheck, PageGain, TranslationCost
from pgtrial.language import N_, ntr, ptr, tr
from pgtrial.report.cause_words import estimate_text, format_value, place_level
from pgtrial.report.charts.pages import gain_charts_by_clients, gain_charts_by_size
from pgtrial.report.sections.base import Section
from pgtrial.report.terms import decision_word
from pgtrial.report.words import ALL, arm_label, level_label
from pgtrial.units import format_share

_NONE = HugePages(gains=(), fits=(), checks=(), translations=(), reason=None, text=None)


def _build(findings: Findings) -> dict[str, object]:
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
    return sorted(dict.fromkeys(gain.load_level for gain in gains), key=lambda level: place_level(findings, level))


def _rows(findings: Findings, pages: HugePages, levels: Sequence[int | str]) -> list[dict[str, object]]:
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
    name="pages", title=N_("Huge pages"), build=_build, is_shown=lambda findings: findings.pages is not None
)
