"""Stability: how even the throughput is, its dips and stalls, and whether they have a rhythm."""

from pgtrial.analysis.causes.stability import FROM_LOG
from pgtrial.findings.causes import Dip, Period, Stability
from pgtrial.findings.findings import Findings
from pgtrial.findings.record import Estimate
from pgtrial.language import N_, ptr, tr
from pgtrial.report.cause_words import (
    causes_of,
    difference_text,
    estimate_text,
    format_value,
    lead_arms,
    levels_text,
    place_arm,
    place_level,
)
from pgtrial.report.sections.base import Section
from pgtrial.report.words import arm_label, format_p, level_label

MOST_DIPS = 12
RARE = 0.05  # probability of a false alarm from which on a period is not shown as one


def _build(findings: Findings) -> dict[str, object]:
    found = sorted(
        causes_of(findings).stability,
        key=lambda each: (place_level(findings, each.load_level), place_arm(findings, each.arm)),
    )
    dips = sorted(((dip, each) for each in found for dip in each.dips), key=lambda pair: -pair[0].depth)
    periods = sorted(((period, each) for each in found for period in each.periods), key=lambda pair: -pair[0].share)
    return {
        "message": _message(findings, found),
        "rows": [_row(findings, each) for each in found if _is_known(each)],
        "aligned": [
            f"{arm_label(findings, each.arm)}, {level_label(findings, each.load_level)}: {each.aligned}"
            for each in found
            if each.aligned
        ],
        "dips": [_dip(findings, *pair) for pair in dips[:MOST_DIPS]],
        "further": len(dips) - MOST_DIPS if len(dips) > MOST_DIPS else 0,
        "periods": [_period(findings, *pair) for pair in periods],
    }


def _is_known(stability: Stability) -> bool:
    """Whether a run was long enough for anything to be said about it."""
    return stability.coefficient_of_variation is not None or bool(stability.dips or stability.periods)


def _message(findings: Findings, found: list[Stability]) -> str:
    """How much control and claim's arm vary at the highest load level that both have; "" where that is not known."""
    arms = lead_arms(findings, (each.arm for each in found))
    if len(arms) < 2:
        return ""
    for level in sorted({each.load_level for each in found}, reverse=True):
        variation: dict[str, Estimate] = {
            each.arm: each.coefficient_of_variation
            for each in found
            if each.load_level == level and each.coefficient_of_variation is not None
        }
        if all(arm in variation for arm in arms):
            words = [
                tr("of “{arm}” by {share}", arm=arm, share=format_value(variation[arm].value, "share")) for arm in arms
            ]
            return tr(
                "Throughput varies from second to second {shares} of its mean ({where}).",
                shares=", ".join(words),
                where=levels_text(findings, [level]),
            )
    return ""


def _row(findings: Findings, each: Stability) -> dict[str, object]:
    trend = each.trend
    return {
        "arm": arm_label(findings, each.arm),
        "level": level_label(findings, each.load_level),
        "variation": estimate_text(each.coefficient_of_variation, "share"),
        "lowest": estimate_text(each.lowest, "1/s"),
        "dips": estimate_text(each.dip_share, "share"),
        "stalled": estimate_text(each.stalled, "share"),
        "trend": difference_text(trend, "1/s"),
    }


def _dip(findings: Findings, dip: Dip, each: Stability) -> dict[str, object]:
    return {
        "arm": arm_label(findings, each.arm),
        "level": level_label(findings, each.load_level),
        "run": dip.run,
        "start": format_value(dip.start, "s"),
        "length": format_value(dip.length, "s"),
        "depth": format_value(dip.depth, "share"),
        "half": _recovery(dip.half_recovery),
        "most": _recovery(dip.recovery),
        "stalled": format_value(dip.stalled, "s") if dip.stalled else ptr("time", "none"),
        "near": ", ".join(dip.near) or "–",
    }


def _recovery(seconds: float | None) -> str:
    return tr("not in this run") if seconds is None else format_value(seconds, "s")


def _period(findings: Findings, period: Period, each: Stability) -> dict[str, object]:
    return {
        "arm": arm_label(findings, each.arm),
        "level": level_label(findings, each.load_level),
        "seconds": format_value(period.seconds, "s"),
        "share": format_value(period.share, "share"),
        "false_alarm": format_p(period.false_alarm),
        "is_rare": period.false_alarm < RARE,
        "like": _like(period.like),
    }


def _like(name: str) -> str:
    """Settings by their names."""
    return {"": tr("nothing known"), FROM_LOG: tr("checkpoints of the log")}.get(name, name)


STABILITY = Section(
    name="stability",
    title=N_("Stability"),
    build=_build,
    is_shown=lambda findings: any(map(_is_known, causes_of(findings).stability)),
)
