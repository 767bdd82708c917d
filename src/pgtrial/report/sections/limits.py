"""Limits: what keeps each arm at each load level from being faster, and the evidence."""

from collections.abc import Sequence

from pgtrial.analysis.causes.limits import what_changed
from pgtrial.findings.causes import Evidence, Limit, Resource, Suspect
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.rendering import join_and
from pgtrial.language import N_, tr
from pgtrial.report.cause_words import (
    causes_of,
    file_of,
    format_value,
    place_arm,
    place_level,
)
from pgtrial.report.sections.base import Section
from pgtrial.report.terms import resource_word
from pgtrial.report.words import arm_label, control_of, level_label
from pgtrial.units import format_decimal

MOST_OPEN = 6  # rows of evidence that are shown without being asked for
WEAKEST = 0.2  # strength from which on a further suspect is named


def _build(findings: Findings) -> dict[str, object]:
    limits = sorted(
        causes_of(findings).limits,
        key=lambda limit: (place_arm(findings, limit.arm), place_level(findings, limit.load_level)),
    )
    arms = list(dict.fromkeys(limit.arm for limit in limits))
    levels = sorted({limit.load_level for limit in limits}, key=lambda level: place_level(findings, level))
    cells = {(limit.arm, limit.load_level): limit for limit in limits}
    return {
        "changed": _changed(findings, limits),
        "heads": [level_label(findings, level) for level in levels],
        "overview": [
            {"arm": arm_label(findings, arm), "cells": [_cell(cells.get((arm, level))) for level in levels]}
            for arm in arms
        ],
        "rows": [_row(findings, limit) for limit in limits],
        "is_open": len(limits) <= MOST_OPEN,
    }


def _changed(findings: Findings, limits: Sequence[Limit]) -> list[str]:
    labels = {level.index: level.label for level in findings.experiment.levels}
    return [change.say() for change in what_changed(limits, control_of(findings), labels=labels)]


def _full_name(limit: Limit) -> str:
    name = resource_word(limit.resource)
    return f"{name} ({say(limit.detail)})" if limit.detail else name


def _cell(limit: Limit | None) -> dict[str, object]:
    if limit is None:
        return {"resource": "–", "detail": "", "is_known": False}
    return {
        "resource": resource_word(limit.resource),
        "detail": say(limit.detail),
        "is_known": limit.resource is not Resource.UNDETERMINED,
    }


def _row(findings: Findings, limit: Limit) -> dict[str, object]:
    named = [suspect for suspect in limit.suspects if suspect.resource is limit.resource][:1]
    # Where nothing was found, what came nearest is the evidence that a reader wants to see.
    shown = named or list(limit.suspects[:1])
    others = [suspect for suspect in limit.suspects if suspect not in shown and suspect.strength >= WEAKEST]
    return {
        "arm": arm_label(findings, limit.arm),
        "level": level_label(findings, limit.load_level),
        "resource": _full_name(limit),
        "strength": _strength(shown, is_named=bool(named)),
        # Of a known limit the sentence is made of the evidence, which stands below it in full.
        "text": "" if named and named[0].evidence else say(limit.text),
        "evidence": [_evidence(item) for suspect in shown for item in suspect.evidence],
        "others": join_and([_told(suspect) for suspect in others]),
    }


def _strength(shown: Sequence[Suspect], *, is_named: bool) -> str:
    """Of the first of those shown; "" without one."""
    if is_named:
        return tr("strength {strength}", strength=format_decimal(shown[0].strength, 2))
    return tr("nearest: {suspect}", suspect=_told(shown[0])) if shown else ""


def _told(suspect: Suspect) -> str:
    return f"{resource_word(suspect.resource)} ({format_decimal(suspect.strength, 2)})"


def _evidence(item: Evidence) -> dict[str, object]:
    """The sentence, the number behind it, and where that comes from."""
    return {
        "text": say(item.text),
        "value": format_value(item.value, item.unit),
        "threshold": "" if item.threshold is None else format_value(item.threshold, item.unit),
        "metric": item.metric,
        "file": file_of(item.metric),
    }


LIMITS = Section(
    name="limits", title=N_("Limits"), build=_build, is_shown=lambda findings: bool(causes_of(findings).limits)
)
