"""Why: where the time of a transaction goes, where the difference between the arms lies, and what limits each arm."""

from collections.abc import Collection, Iterable, Sequence

from pgtrial.analysis.causes.limits import what_changed
from pgtrial.findings.causes import WAIT_SAMPLING, Limit, LimitEvidence, Resource, Suspect, limits_by_chance
from pgtrial.findings.findings import Findings, WaitShare
from pgtrial.findings.message import say
from pgtrial.findings.naming import name_part, name_statement
from pgtrial.findings.record import ALL
from pgtrial.findings.rendering import join_and
from pgtrial.findings.session_time import (
    BackgroundWait,
    BudgetPart,
    LatencyBudget,
    Pareto,
    ParetoItem,
    StatementUse,
    WaitType,
)
from pgtrial.language import N_, tr
from pgtrial.report.cause_words import (
    by_arm,
    by_level,
    causes_of,
    difference_text,
    distinct_levels,
    estimate_text,
    file_of,
    order_levels,
)
from pgtrial.report.charts.waits import budget_charts, wait_charts
from pgtrial.report.charts.waterfall import waterfall_charts
from pgtrial.report.sections.base import Section, always
from pgtrial.report.terms import means_word, resource_word
from pgtrial.report.values import format_value
from pgtrial.report.words import arm_label, control_of, level_label, part_name
from pgtrial.units import format_bytes, format_count, format_decimal, format_duration, format_percent

NOTICEABLE = 0.02  # of the latency, by which sampled sessions may differ from it without a word
MOST_PARTS = 4  # events, and statements, of a wait type
MOST_ITEMS = 12  # of a Pareto table; the 80 % line is nearly always above


def _build_why(findings: Findings) -> dict[str, object]:
    causes = causes_of(findings)
    budgets = sorted(
        by_level(findings, distinct_levels(findings, causes.budgets)), key=lambda each: each.scenario or ""
    )
    return {
        "text": say(causes.text),
        "means": means_word(causes.tier),
        "is_profiled": causes.tier == WAIT_SAMPLING,
        "waterfalls": waterfall_charts(findings),
        "differences": _differences(findings),
        "budgets": budget_charts(findings),
        "parts": [_part_row(findings, budget, part) for budget in budgets for part in budget.parts],
        "closure": _closure(findings, budgets),
        # Findings of samples alone: sessions and what they mean per transaction.
        "waits": [] if budgets else wait_charts(findings),
        "wait_rows": _wait_rows(findings),
        "plans": _plans(findings),
        "statements": [_statement_row(findings, use) for use in causes.statements],
        "wait_types": [_type_row(findings, each) for each in causes.wait_types],
        "background": [_background_row(findings, each) for each in causes.background],
        "paretos": [
            {
                "title": title,
                "shown": [_pareto(findings, each) for each in shown],
                "others": [_pareto(findings, each) for each in others],
            }
            for title, shown, others in (
                (tr("Wait events by the time of all sessions"), *_split(findings, "events")),
                (tr("Statements by the time of all sessions"), *_split(findings, "statements")),
            )
            if shown
        ],
    }


def _type_row(findings: Findings, each: WaitType) -> dict[str, object]:
    return {
        "arm": arm_label(findings, each.arm),
        "kind": part_name(each.kind),
        "sessions": format_decimal(each.sessions, digits=2),
        "share": format_percent(each.share),
        # Events by their own names: the type stands beside them.
        "events": [
            (item.name.removeprefix(each.kind).strip() or item.name, format_percent(item.share))
            for item in each.events[:MOST_PARTS]
        ],
        "statements": [
            (say(name_statement(item.name)), format_percent(item.share)) for item in each.statements[:MOST_PARTS]
        ],
    }


def _background_row(findings: Findings, each: BackgroundWait) -> dict[str, object]:
    return {
        "arm": arm_label(findings, each.arm),
        "process": each.process,
        "wait": part_name(each.kind, each.event),
        "sessions": estimate_text(each.sessions, ""),
    }


def _plans(findings: Findings) -> list[dict[str, object]]:
    """Plans that differ from the control's, those with the largest difference of time first."""
    return [
        {
            "scenario": change.scenario,
            "statement": change.statement,
            "sides": [
                {
                    "arm": arm_label(findings, arm),
                    "plan": plan,
                    "seconds": "–" if seconds is None else format_duration(seconds),
                }
                for arm, plan, seconds in (
                    (change.control, change.control_plan, change.control_seconds),
                    (change.arm, change.plan, change.seconds),
                )
            ],
        }
        for change in sorted(causes_of(findings).plans, key=lambda change: change.size, reverse=True)
    ]


def _statement_row(findings: Findings, use: StatementUse) -> dict[str, object]:
    return {
        "arm": arm_label(findings, use.arm),
        "statement": say(name_statement(use.statement)),
        "calls": format_count(use.calls),
        "share": "–" if use.share is None else format_percent(use.share),
        "seconds": "–" if use.seconds is None else format_duration(use.seconds),
        "numbers": [format_count(number) for number in (use.rows, use.blocks_hit, use.blocks_read, use.blocks_dirtied)],
        "wal": format_bytes(use.wal_bytes),
    }


def _differences(findings: Findings) -> list[dict[str, object]]:
    """Every part of every difference, also by load level."""
    found = by_level(findings, distinct_levels(findings, causes_of(findings).differences))
    return [
        {
            "arm": arm_label(findings, each.arm),
            "level": level_label(findings, each.load_level),
            "part": name,
            "difference": difference_text(seconds, "s"),
            "is_total": is_total,
        }
        for each in found
        for name, seconds, is_total in (
            (tr("in all"), each.difference, True),
            *((part_name(part.kind, part.event), part.seconds, False) for part in each.parts),
        )
    ]


def _part_row(findings: Findings, budget: LatencyBudget, part: BudgetPart) -> dict[str, object]:
    latency = budget.latency.value
    return {
        "arm": arm_label(findings, budget.arm),
        "level": level_label(findings, budget.load_level),
        "scenario": budget.scenario or tr("all scenarios"),
        "kind": part_name(part.kind, ""),
        "event": part_name("", part.event) or "–",
        "seconds": estimate_text(part.seconds, "s"),
        "share": format_percent(part.seconds.value / latency) if latency else "–",
    }


def _closure(findings: Findings, budgets: Iterable[LatencyBudget]) -> str:
    """How much of the latency the samples account for, in one sentence; "" where that is not known."""
    known = [budget for budget in budgets if budget.closure is not None and budget.scenario is None]
    if not known:
        return ""
    worst = max(known, key=lambda budget: abs((budget.closure or 1) - 1))
    where = f"{arm_label(findings, worst.arm)}, {level_label(findings, worst.load_level)}"
    text = tr(
        "The sampled sessions account for {share} of the measured latency where they account for it worst ({where}); "
        "100 % would be all of it.",
        share=format_percent(worst.closure or 0),
        where=where,
    )
    if (worst.closure or 0) <= 1 + NOTICEABLE:
        return text
    return f"{text} {tr('What is more lies between two transactions, in the load generator.')}"


def _wait_rows(findings: Findings) -> list[dict[str, object]]:
    return [_wait_row(findings, wait) for wait in by_level(findings, distinct_levels(findings, findings.waits))]


def _wait_row(findings: Findings, wait: WaitShare) -> dict[str, object]:
    seconds = wait.seconds_per_transaction
    return {
        "arm": arm_label(findings, wait.arm),
        "level": level_label(findings, wait.load_level),
        "type": part_name(wait.wait_type, ""),
        "event": wait.wait_event or "–",
        "sessions": format_decimal(wait.sessions, 2),
        "seconds": "–" if seconds is None else format_duration(seconds),
    }


def _split(findings: Findings, of: str) -> tuple[list[Pareto], list[Pareto]]:
    """Those of all scenarios over all load levels (of the first level, where there are none), and the others."""
    paretos = (each for each in causes_of(findings).paretos if each.of == of and each.items)
    found = by_level(findings, distinct_levels(findings, paretos))
    first = found[0].load_level if found else ALL
    shown = [each for each in found if each.load_level == first and each.scenario is None]
    return shown, [each for each in found if each not in shown]


def _pareto(findings: Findings, pareto: Pareto) -> dict[str, object]:
    shown, rest = pareto.items[:MOST_ITEMS], pareto.items[MOST_ITEMS:]
    return {
        "title": ", ".join(
            (
                arm_label(findings, pareto.arm),
                *([pareto.scenario] if pareto.scenario else []),
                level_label(findings, pareto.load_level),
            )
        ),
        "what": tr("Wait event") if pareto.of == "events" else tr("Statement"),
        "is_statement": pareto.of == "statements",
        "head": pareto.head,
        "items": [_item(item, is_statement=pareto.of == "statements") for item in shown],
        "rest": len(rest),
        "rest_share": format_percent(sum(item.share for item in rest)),
    }


def _item(item: ParetoItem, *, is_statement: bool) -> dict[str, object]:
    return {
        "name": say(name_statement(item.name) if is_statement else name_part(item.name)),
        "detail": say(item.detail),
        "sessions": format_decimal(item.sessions, 2),
        "share": format_percent(item.share),
        "width": f"{max(0.0, min(item.share, 1.0)) * 100:.1f}",
        "cumulative": format_percent(item.cumulative),
    }


WHY = Section(name="why", title=N_("Why"), build=_build_why, is_open=always)


MOST_OPEN = 6  # rows of evidence that are shown without being asked for
WEAKEST = 0.2  # strength from which on a further suspect is named


def _build_limits(findings: Findings) -> dict[str, object]:
    limits = by_arm(findings, by_level(findings, causes_of(findings).limits))
    arms = list(dict.fromkeys(limit.arm for limit in limits))
    levels = order_levels(findings, (limit.load_level for limit in limits))
    cells = {(limit.arm, limit.load_level): limit for limit in limits}
    by_chance = limits_by_chance(limits, control_of(findings))
    return {
        "changed": _changed(findings, limits),
        "heads": [level_label(findings, level) for level in levels],
        "overview": [
            {
                "arm": arm_label(findings, arm),
                "cells": [_cell(cells.get((arm, level)), doubt=_doubt(arm, level, by_chance)) for level in levels],
            }
            for arm in arms
        ],
        "rows": [_row(findings, limit, doubt=_doubt(limit.arm, limit.load_level, by_chance)) for limit in limits],
        "is_open": len(limits) <= MOST_OPEN,
    }


def _doubt(arm: str, level: int, by_chance: Collection[tuple[str, int]]) -> str:
    return tr("the runs do not tell the arms apart") if (arm, level) in by_chance else ""


def _changed(findings: Findings, limits: Sequence[Limit]) -> list[str]:
    labels = {level.index: level.label for level in findings.experiment.levels}
    return [change.say() for change in what_changed(limits, control_of(findings), labels=labels)]


def _full_name(limit: Limit) -> str:
    name = resource_word(limit.resource)
    return f"{name} ({say(limit.detail)})" if limit.detail else name


def _cell(limit: Limit | None, *, doubt: str) -> dict[str, object]:
    if limit is None:
        return {"resource": "–", "detail": "", "is_known": False, "doubt": ""}
    return {
        "resource": resource_word(limit.resource),
        "detail": say(limit.detail),
        "is_known": limit.resource is not Resource.UNDETERMINED,
        "doubt": doubt,
    }


def _row(findings: Findings, limit: Limit, *, doubt: str) -> dict[str, object]:
    named = [suspect for suspect in limit.suspects if suspect.resource is limit.resource][:1]
    # Where nothing was found, what came nearest is the evidence that a reader wants to see.
    shown = named or list(limit.suspects[:1])
    others = [suspect for suspect in limit.suspects if suspect not in shown and suspect.strength >= WEAKEST]
    return {
        "arm": arm_label(findings, limit.arm),
        "level": level_label(findings, limit.load_level),
        "resource": _full_name(limit),
        "strength": _strength(shown, is_named=bool(named)),
        "doubt": doubt,
        "text": "" if named and _repeats_evidence(limit, named[0]) else say(limit.text),
        "evidence": [_evidence(item) for suspect in shown for item in suspect.evidence],
        "others": join_and([_told(suspect) for suspect in others]),
    }


def _repeats_evidence(limit: Limit, named: Suspect) -> bool:
    """Whether the sentence is made of the evidence alone, which stands below it in full: of a known limit, about which
    an experiment has said nothing else.
    """
    is_of_rules = limit.by_rules is None and limit.proved in (None, limit.resource)
    return is_of_rules and bool(named.evidence)


def _strength(shown: Sequence[Suspect], *, is_named: bool) -> str:
    """Of the first of those shown; "" without one."""
    if is_named:
        return tr("strength {strength}", strength=format_decimal(shown[0].strength, 2))
    return tr("nearest: {suspect}", suspect=_told(shown[0])) if shown else ""


def _told(suspect: Suspect) -> str:
    return f"{resource_word(suspect.resource)} ({format_decimal(suspect.strength, 2)})"


def _evidence(item: LimitEvidence) -> dict[str, object]:
    """The sentence, the number behind it, and where that comes from."""
    return {
        "text": say(item.text),
        "value": format_value(item.value, item.unit),
        "threshold": "" if item.threshold is None else format_value(item.threshold, item.unit),
        "metric": item.metric,
        "file": file_of(item.metric),
    }


LIMITS = Section(
    name="limits", title=N_("Limits"), build=_build_limits, is_shown=lambda findings: bool(causes_of(findings).limits)
)
