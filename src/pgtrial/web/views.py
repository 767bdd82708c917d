"""The content of the pages as ready-made text and figures: one experiment, or two side by side."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from pgtrial.engine.live.view import ArmView, LiveView, progress_parts, read_live, time_left
from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from pgtrial.model.arm import Role
from pgtrial.report.charts.base import CANDIDATE_COLOURS, CONTROL_COLOUR, PLACEBO_COLOUR
from pgtrial.report.summary_words import running_effect_text
from pgtrial.report.terms import hypothesis_word
from pgtrial.report.words import (
    arm_label,
    change_text,
    claim_text,
    detectable_text,
    effect_text,
    level_label,
    metric_label,
)
from pgtrial.safe_text import make_visible
from pgtrial.units import format_count, format_duration, format_percent, format_share, tie_units
from pgtrial.web.folders import FolderSummary, ServedFolder

_MOST_WAITS = 8

_FACTS: tuple[tuple[str, Callable[[Findings], str]], ...] = (
    ("experiment", lambda found: found.experiment.name),
    ("claim", claim_text),
    (
        "verdict",
        lambda found: hypothesis_word(found.hypothesis),
    ),
    ("reason", lambda found: say(found.hypothesis.reason)),
    ("started", lambda found: _day(found.experiment.started)),
    ("method", lambda found: found.experiment.method),
    ("blocks", lambda found: f"{found.experiment.blocks_complete} of {found.experiment.blocks_planned}"),
    ("control", lambda found: found.hypothesis.control),
    ("margin", lambda found: f"±{format_share(found.hypothesis.margin)}"),
    ("detectable change", detectable_text),
    ("caveats", lambda found: str(len(found.caveats))),
)

# Arm, metric, scenario, load level's label.
_Key = tuple[str, str, str | None, str]


def describe(place: ServedFolder, summary: FolderSummary) -> dict[str, Any]:
    """For JSON: the experiment in a line, and "live", which is null where nothing runs or can be seen."""
    view = read_live(place.path) if summary.state == "running" else None
    return {"experiment": summary.as_dict(), "live": None if view is None else describe_view(view)}


def describe_view(view: LiveView) -> dict[str, Any]:
    """For JSON."""
    colours = _colours(view)
    return {
        "state": make_visible(view.state),
        "progress": [make_visible(part) for part in progress_parts(view)],
        "share": view.share_done,
        "done": format_percent(view.share_done),
        "left": time_left(view),
        "arms": [_describe_arm(arm, colours[arm.name]) for arm in view.arms],
        "estimate": _describe_estimate(view),
    }


def _describe_arm(arm: ArmView, colour: str) -> dict[str, Any]:
    total = sum(sessions for _, sessions in arm.waits)
    return {
        "name": make_visible(arm.name),
        "role": arm.role.value,
        "colour": colour,
        "at_work": arm.is_at_work,
        "runs_done": arm.runs_done,
        "tps": arm.tps,
        "p95": arm.p95,
        "tps_now": "–" if arm.tps_now is None else format_count(arm.tps_now),
        "p95_now": "–" if arm.p95_now is None else format_duration(arm.p95_now),
        "waits": [
            {"label": make_visible(label), "share": sessions / total, "text": format_percent(sessions / total)}
            for label, sessions in arm.waits[:_MOST_WAITS]
            if total > 0
        ],
    }


def _describe_estimate(view: LiveView) -> dict[str, Any] | None:
    """Words, and the ratios for a picture."""
    found = view.estimate
    if found is None:
        return None
    return {
        "text": tie_units(make_visible(running_effect_text(**asdict(found)))),
        "change": change_text(found.ratio, found.low, found.high),
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "margin": found.margin,
    }


def _colours(view: LiveView) -> dict[str, str]:
    """Those that the report gives the arms."""
    colours: dict[str, str] = {}
    candidates = 0
    for arm in view.arms:
        match arm.role:
            case Role.CONTROL:
                colours[arm.name] = CONTROL_COLOUR
            case Role.PLACEBO:
                colours[arm.name] = PLACEBO_COLOUR
            case Role.CANDIDATE:
                colours[arm.name] = CANDIDATE_COLOURS[candidates % len(CANDIDATE_COLOURS)]
                candidates += 1
    return colours


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
        what = metric_label(metric, scenario)
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
            effect.scenario,
            level_label(findings, effect.load_level),
        ): effect
        for effect in (*findings.effects, *findings.placebo)
        if effect.load_level == ALL or (effect.metric == asked and effect.scenario is None)
    }


def _cell(effect: Effect | None) -> dict[str, Any] | None:
    if effect is None:
        return None
    return {
        "change": change_text(effect.ratio, effect.low, effect.high),
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
