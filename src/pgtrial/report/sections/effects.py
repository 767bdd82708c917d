"""Effects with their intervals, the noise that they stand in, and the arms against the criteria."""

from pgtrial.experiment_file.criteria import CRITERIA
from pgtrial.findings.causes import WEIGHTED, ArmScore, CriterionValue, Scorecard
from pgtrial.findings.findings import ArmSlices, Effect, Findings
from pgtrial.findings.message import say
from pgtrial.findings.record import parts_of
from pgtrial.language import N_, decimal_sign, ntr, tr
from pgtrial.model.verdict import Verdict
from pgtrial.report.cause_words import by_arm, causes_of
from pgtrial.report.charts.forest import latency_forest, primary_forest, scenario_forest, throughput_forest
from pgtrial.report.charts.picture import blocks_chart
from pgtrial.report.sections.base import Section, always
from pgtrial.report.summary_words import single_runs_text
from pgtrial.report.terms import goal_word
from pgtrial.report.words import (
    arm_label,
    change_cells,
    change_text,
    control_of,
    detectable_text,
    effect_word,
    format_p,
    interval_text,
    is_sliced,
    level_label,
    metric_label,
    p_of,
    scenario_latencies,
    told_effects,
)
from pgtrial.units import format_decimal, format_percent, format_share


def _build_effects(findings: Findings) -> dict[str, object]:
    asked = findings.hypothesis
    charts = [
        primary_forest(findings),
        throughput_forest(findings),
        scenario_forest(findings),
        latency_forest(findings),
    ]
    if scenario_latencies(findings):  # what is the same of all by construction says less
        charts.insert(0, charts.pop(2))
    return {
        "charts": [chart for chart in charts if chart is not None],
        "rows": [_row(findings, effect) for effect in told_effects(findings)],
        "margin": format_share(asked.margin),
        "confidence": format_share(asked.confidence),
        "control": asked.control,
    }


def _row(findings: Findings, effect: Effect) -> dict[str, object]:
    return {
        "arm": arm_label(findings, effect.arm),
        "metric": metric_label(effect.metric),
        "scenario": effect.scenario or tr("all scenarios"),
        "level": level_label(findings, effect.load_level),
        "change": change_text(effect.ratio, effect.low, effect.high),
        "interval": interval_text(effect.low, effect.high, effect.ratio),
        "p": format_p(p_of(effect)),
        "p_sign_flip": format_p(effect.p_sign_flip),
        "hodges_lehmann": change_text(effect.hodges_lehmann, effect.low, effect.high),
        "decision": effect.decision,
        "word": effect_word(findings, effect),
        "blocks": effect.blocks,
        "needed": "–" if effect.needed is None else str(effect.needed),
        "caveats": "; ".join(caveat.text for caveat in effect.caveats),
    }


EFFECTS = Section(name="effects", title=N_("Effects"), build=_build_effects, is_open=always)


def _build_noise(findings: Findings) -> dict[str, object]:
    noise, blocks = findings.noise, findings.experiment.blocks_complete
    return {
        "chart": blocks_chart(findings),
        "sd": _noise_percent(noise.sd_log_ratio),
        "sd_placebo": _noise_percent(noise.sd_log_ratio_placebo),
        "detectable": detectable_text(findings) if noise.detectable is not None else "",
        "blocks": ntr("{count} complete block", "{count} complete blocks", blocks),
        "calibration": _calibration(findings),
        "covariate": say(findings.adjusted.text) if findings.adjusted else "",
        "single": single_runs_text(findings),
        "singles": [
            {
                "arm": arm_label(findings, found.arm),
                "blocks": found.blocks,
                "above": found.above,
                "below": found.below,
                "within": found.blocks - found.above - found.below,
                "range": interval_text(found.lowest, found.highest),
            }
            for found in findings.single_runs
        ],
        "slices": [_slices_row(findings, arm) for arm in findings.slices.arms] if findings.slices else [],
        "doubled": any(arm.longer is not None for arm in findings.slices.arms) if findings.slices else False,
        "takes_turns": is_sliced(findings),
        "margin": format_share(findings.hypothesis.margin),
    }


def _calibration(findings: Findings) -> str:
    """What the calibration had promised, in a sentence; "" without one."""
    found = findings.noise.calibration
    if found is None:
        return ""
    values = {"method": found.method, "expected": format_percent(found.sd_log_ratio), "folder": found.folder}
    if found.detectable is None:
        return tr("A calibration of {method} on this machine had expected {expected} ({folder}).", **values)
    return tr(
        "A calibration of {method} on this machine had expected {expected}, with which these blocks find a change of "
        "{change} ({folder}).",
        **values,
        change=format_percent(found.detectable),
    )


def _slices_row(findings: Findings, arm: ArmSlices) -> dict[str, object]:
    return {
        "arm": arm_label(findings, arm.arm),
        "growth": change_text(arm.growth, arm.growth_low, arm.growth_high),
        "interval": interval_text(arm.growth_low, arm.growth_high, arm.growth),
        "longer": "" if arm.longer is None else change_text(arm.longer, arm.longer_low, arm.longer_high),
        "longer_interval": interval_text(arm.longer_low, arm.longer_high, arm.longer),
        "autocorrelation": "–" if arm.autocorrelation is None else format_decimal(arm.autocorrelation, 2),
        "sd_blocks": _noise_percent(arm.sd_blocks) or "–",
        "sd_expected": _noise_percent(arm.sd_expected) or "–",
    }


def _noise_percent(sd: float | None) -> str:
    return "" if sd is None else format_percent(sd)


NOISE = Section(name="noise", title=N_("Noise"), build=_build_noise)


def _build_scorecard(findings: Findings) -> dict[str, object]:
    card = causes_of(findings).scorecard or Scorecard(arms=(), recommendations=(), trade_off=None)
    arms = by_arm(findings, card.arms)
    # Of runs that cannot answer the claim the figures are shown, and nothing is advised.
    advice = (
        card
        if findings.hypothesis.verdict is not Verdict.INVALID
        else Scorecard(arms=(), recommendations=(), trade_off=None)
    )
    heads = {value.criterion: value for arm in arms for value in arm.values}
    return {
        "heads": [_head(value) for value in heads.values()],
        "arms": [_arm(findings, arm, list(heads)) for arm in arms],
        "recommendations": [{"goal": goal_word(each.goal), "text": say(each.text)} for each in advice.recommendations],
        "is_declared": any(each.goal == WEIGHTED for each in card.recommendations),
        "trade_off": say(advice.trade_off),
        "has_scores": any(arm.score is not None for arm in arms),
        "control": control_of(findings),
    }


def _head(value: CriterionValue) -> dict[str, str]:
    known = CRITERIA.get(value.criterion)
    return {
        "name": tr(known.label) if known else metric_label(value.criterion),
        "metric": value.criterion,
        "better": tr("higher is better") if value.better == "higher" else tr("lower is better"),
        "weight": tr("weight {weight}", weight=f"{value.weight:g}".replace(".", decimal_sign())),
    }


def _arm(findings: Findings, arm: ArmScore, criteria: list[str]) -> dict[str, object]:
    by_criterion = {value.criterion: value for value in arm.values}
    return {
        "name": arm_label(findings, arm.arm),
        "cells": [_cell(by_criterion.get(criterion)) for criterion in criteria],
        "is_pareto": arm.is_pareto,
        "score": _score(arm.score),
        "best": _scorecard_percent(arm.best_share),
    }


def _score(score: float | None) -> str:
    if not score:
        return "–" if score is None else "0"
    text = format_decimal(score, 3)
    return text if score < 0 else f"+{text}"


def _cell(value: CriterionValue | None) -> dict[str, str]:
    if value is None or value.ratio is None:
        return {"change": "–", "interval": "", "best": ""}
    change, interval = change_cells(*parts_of(value.ratio))
    return {
        "change": change,
        "interval": "" if interval == "–" else interval,
        "best": "" if value.rank_share is None else tr("best in {share}", share=_scorecard_percent(value.rank_share)),
    }


def _scorecard_percent(share: float | None) -> str:
    """Of few blocks, so that a decimal would mean nothing."""
    return "–" if share is None else format_share(round(share, 2))


SCORECARD = Section(
    name="scorecard",
    title=N_("Scorecard"),
    build=_build_scorecard,
    is_shown=lambda findings: causes_of(findings).scorecard is not None,
)
