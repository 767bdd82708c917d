"""The server's log: what each arm's server wrote in the measured time."""

from collections.abc import Mapping

from pgtrial.analysis.causes.log_event import name_kind
from pgtrial.findings.causes import LogSummary
from pgtrial.findings.findings import Findings
from pgtrial.language import N_, ptr, tr
from pgtrial.report.cause_words import causes_of, format_value, place_arm
from pgtrial.report.sections.base import Section
from pgtrial.report.words import arm_label

FIRST = ("checkpoint", "autovacuum")
# The last word of a number's name is its unit, where it has one.
_UNITS = {"seconds": "s", "bytes": "B"}
# Names of numbers, without their units.
_NAMES = frozenset(
    (
        N_("buffers"),
        N_("SLRU buffers"),
        N_("WAL files added"),
        N_("WAL files removed"),
        N_("WAL files recycled"),
        N_("write"),
        N_("sync"),
        N_("total"),
        N_("sync files"),
        N_("distance"),
        N_("timed"),
        N_("requested"),
        N_("pages removed"),
        N_("tuples removed"),
        N_("tuples not removable"),
        N_("index scans"),
        N_("blocks hit"),
        N_("blocks read"),
        N_("blocks dirtied"),
        N_("WAL records"),
        N_("WAL full page images"),
        N_("WAL"),
        N_("CPU"),
        N_("seconds"),
        N_("bytes"),
    )
)


def _build(findings: Findings) -> dict[str, object]:
    log = causes_of(findings).log
    arms = sorted({each.arm for each in log}, key=lambda arm: place_arm(findings, arm))
    cells = {(each.kind, each.arm): each for each in log}
    totals: dict[str, int] = {}
    for each in log:
        totals[each.kind] = totals.get(each.kind, 0) + each.count
    kinds = sorted(totals, key=lambda kind: (FIRST.index(kind) if kind in FIRST else len(FIRST), -totals[kind], kind))
    return {
        "arms": [arm_label(findings, arm) for arm in arms],
        "rows": [{"kind": name_kind(kind), "cells": [_cell(cells.get((kind, arm))) for arm in arms]} for kind in kinds],
    }


def _cell(found: LogSummary | None) -> dict[str, object]:
    if found is None:
        return {"count": ptr("count", "none"), "numbers": [], "text": ""}
    return {"count": str(found.count), "numbers": describe_numbers(found.numbers), "text": found.text}


def describe_numbers(numbers: Mapping[str, float]) -> list[str]:
    """ "write 12.3 s", "distance 1.2 GB", "buffers 4711"; what is zero is left out."""
    found = []
    for name, value in numbers.items():
        if value == 0:
            continue
        what, _, last = name.rpartition(" ")
        unit = _UNITS.get(last, "")
        shown = what if unit and what else name
        found.append(f"{tr(shown) if shown in _NAMES else shown} {format_value(value, unit)}")
    return found


SERVER_LOG = Section(
    name="server_log", title=N_("Server log"), build=_build, is_shown=lambda findings: bool(causes_of(findings).log)
)
