"""The scorecard: arms against criteria, if possible those that the experiment's file declared before the first run."""

from pgtrial.analysis.causes.recommend import WEIGHTED
from pgtrial.experiment_file.criteria import CRITERIA
from pgtrial.findings.causes import ArmScore, CriterionValue, Scorecard
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.language import N_, decimal_sign, tr
from pgtrial.model.verdict import Verdict
from pgtrial.report.cause_words import causes_of, place_arm
from pgtrial.report.sections.base import Section
from pgtrial.report.terms import goal_word
from pgtrial.report.words import arm_label, change_text, control_of, interval_text, metric_label
from pgtrial.units import format_decimal, format_share


def _build(findings: Findings) -> dict[str, object]:
    card = causes_of(findings).scorecard or Scorecard(arms=(), recommendations=(), trade_off=None)
    arms = sorted(card.arms, key=lambda arm: place_arm(findings, arm.arm))
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
        "best": _percent(arm.best_share),
    }


def _score(score: float | None) -> str:
    if not score:
        return "–" if score is None else "0"
    text = format_decimal(score, 3)
    return text if score < 0 else f"+{text}"


def _cell(value: CriterionValue | None) -> dict[str, str]:
    if value is None or value.ratio is None:
        return {"change": "–", "interval": "", "best": ""}
    interval = interval_text(value.ratio.low, value.ratio.high)
    return {
        "change": change_text(value.ratio.value),
        "interval": "" if interval == "–" else interval,
        "best": "" if value.rank_share is None else tr("best in {share}", share=_percent(value.rank_share)),
    }


def _percent(share: float | None) -> str:
    """Of few blocks, so that a decimal would mean nothing."""
    return "–" if share is None else format_share(round(share, 2))


SCORECARD = Section(
    name="scorecard",
    title=N_("Scorecard"),
    build=_build,
    is_shown=lambda findings: causes_of(findings).scorecard is not None,
)
