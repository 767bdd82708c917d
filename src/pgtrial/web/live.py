"""What the page of one experiment shows while it runs, in words and figures that a browser only has to place."""

from dataclasses import asdict
from typing import Any

from pgtrial.engine.live.view import ArmView, LiveView, progress_parts, read_live, time_left
from pgtrial.model.arm import Role
from pgtrial.report.charts.base import CANDIDATE_COLOURS, CONTROL_COLOUR, PLACEBO_COLOUR
from pgtrial.report.live_words import running_effect_text
from pgtrial.report.words import change_text, make_visible
from pgtrial.units import format_count, format_duration, format_percent, tie_units
from pgtrial.web.experiments import Summary
from pgtrial.web.inside import Place

_MOST_WAITS = 8


def describe(place: Place, summary: Summary) -> dict[str, Any]:
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
        "change": change_text(found.ratio),
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
