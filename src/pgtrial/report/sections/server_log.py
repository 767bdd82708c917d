"""The server's log: what each arm's server wrote in the measured time."""

from collections.abc import Mapping

from pgtrial.analysis.cause_findings import LogSummary
from pgtrial.analysis.findings import Findings
from pgtrial.report.cause_words import causes_of, format_value, place_arm
from pgtrial.report.sections.base import Section
from pgtrial.report.words import arm_label

FIRST = ("checkpoint", "autovacuum")
# The last word of a number's name is its unit, where it has one.
_UNITS = {"seconds": "s", "bytes": "B"}


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
        "rows": [{"kind": kind, "cells": [_cell(cells.get((kind, arm))) for arm in arms]} for kind in kinds],
    }


def _cell(found: LogSummary | None) -> dict[str, object]:
    if found is None:
        return {"count": "none", "numbers": [], "text": ""}
    return {"count": str(found.count), "numbers": describe_numbers(found.numbers), "text": found.text}


def describe_numbers(numbers: Mapping[str, float]) -> list[str]:
    """ "write 12.3 s", "distance 1.2 GB", "buffers 4711"."""
    found = []
    for name, value in numbers.items():
        what, _, last = name.rpartition(" ")
        unit = _UNITS.get(last, "")
        found.append(f"{what if unit and what else name} {format_value(value, unit)}")
    return found


SERVER_LOG = Section(
    name="server_log", title="Server log", build=_build, is_shown=lambda findings: bool(causes_of(findings).log)
)
