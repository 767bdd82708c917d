"""Two experiments side by side, from their findings: what differs between their worlds first, and nothing pooled."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.message import say
from pgtrial.report.words import (
    arm_label,
    change_text,
    claim_text,
    detectable_text,
    effect_text,
    level_label,
    make_visible,
    metric_label,
)
from pgtrial.units import format_share, tie_units

_FACTS: tuple[tuple[str, Callable[[Findings], str]], ...] = (
    ("experiment", lambda found: found.experiment.name),
    ("claim", claim_text),
    ("verdict", lambda found: found.hypothesis.verdict.value),
    ("reason", lambda found: say(found.hypothesis.reason)),
    ("started", lambda found: _day(found.experiment.started)),
    ("method", lambda found: found.experiment.method),
    ("blocks", lambda found: f"{found.experiment.blocks_complete} of {found.experiment.blocks_planned}"),
    ("control", lambda found: found.hypothesis.control),
    ("margin", lambda found: f"±{format_share(found.hypothesis.margin)}"),
    ("detectable change", detectable_text),
    ("caveats", lambda found: str(len(found.caveats))),
)

# Arm, metric, scenario or "", load level's label.
_Key = tuple[str, str, str, str]


def side_by_side(first: Findings, second: Findings) -> dict[str, Any]:
    """For JSON: rows of two texts each; "" where one of the two has nothing to say."""
    both = (first, second)
    return {
        "world": _different(_world(first), _world(second)),
        "facts": [[label, *(make_visible(tie_units(tell(found))) for found in both)] for label, tell in _FACTS],
        "effects": _effects(first, second),
    }


def _world(findings: Findings) -> dict[str, str]:
    """What the experiment met and what it set, by name."""
    facts = {f"{fact.group}: {fact.name}": fact.value for fact in findings.fingerprint.facts}
    load = {f"load: {name}": say(value) for name, value in findings.experiment.workload.items()}
    settings = {
        f"setting: {setting.name}": ", ".join(f"{arm} {value}" for arm, value in setting.values.items())
        if setting.differs
        else next(iter(setting.values.values()), "")
        for setting in findings.settings
    }
    return {**load, **facts, **settings}


def _different(first: Mapping[str, str], second: Mapping[str, str]) -> list[list[str]]:
    """(name, value of the first, of the second) of what is not the same in both."""
    names = dict.fromkeys((*first, *second))
    rows = [(name, first.get(name, ""), second.get(name, "")) for name in names]
    return [[make_visible(cell) for cell in row] for row in rows if row[1] != row[2]]


def _effects(first: Findings, second: Findings) -> list[dict[str, Any]]:
    """The effects over all load levels and on the metric of the claim at each, where one of the two has them."""
    found = [_index(findings) for findings in (first, second)]
    rows = []
    for key in dict.fromkeys((*found[0], *found[1])):
        arm, metric, scenario, level = key
        what = metric_label(metric) if not scenario else f"{metric_label(metric)} of {scenario}"
        rows.append(
            {
                "arm": make_visible(arm),
                "what": make_visible(f"{what}, {level}"),
                "cells": [_cell(index.get(key)) for index in found],
            }
        )
    return rows


def _index(findings: Findings) -> dict[_Key, Effect]:
    asked = findings.hypothesis.metric
    return {
        (
            arm_label(findings, effect.arm),
            effect.metric,
            effect.scenario or "",
            level_label(findings, effect.load_level),
        ): effect
        for effect in (*findings.effects, *findings.placebo)
        if effect.load_level == "all" or (effect.metric == asked and effect.scenario is None)
    }


def _cell(effect: Effect | None) -> dict[str, Any] | None:
    if effect is None:
        return None
    return {
        "change": change_text(effect.ratio),
        "text": tie_units(effect_text(effect)),
        "decision": effect.decision.value,
        "blocks": effect.blocks,
    }


def _day(started: float | None) -> str:
    if started is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(started, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return ""  # no time of this world
