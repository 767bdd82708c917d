"""The sections of a comparison of experiments, in reading order: what came out, what differs, effects, limits."""

from pgtrial.findings.comparison import ComparedExperiment, Contrast, ExperimentComparison, StudyEffect
from pgtrial.report.charts.pooled import key_colours, pooled_forest
from pgtrial.report.comparison.base import Part
from pgtrial.report.comparison.differences import tabulate_differences
from pgtrial.report.comparison.words import (
    all_caveats,
    answer_text,
    common_text,
    definition_text,
    find_value,
    heterogeneity_text,
    indirect_experiments,
    pooled_text,
    subject_text,
    value_interval,
    value_text,
    when_text,
)
from pgtrial.report.words import VERDICT_SYMBOLS, change_text, format_p, interval_text, metric_label, sort_caveats
from pgtrial.units import format_share


def _answer(found: ExperimentComparison) -> dict[str, object]:
    colours = key_colours(found)
    return {
        "answer": answer_text(found),
        "experiments": [
            {
                "key": one.key,
                "colour": colours[one.key],
                "name": one.name,
                "folder": one.folder,
                "when": when_text(one.started),
                "method": one.method,
                "blocks": one.blocks,
                "finished": one.is_finished,
                "symbol": VERDICT_SYMBOLS[one.verdict],
                "verdict": one.verdict,
                "reason": one.reason,
                "noise": _noise(one),
            }
            for one in found.experiments
        ],
    }


def _noise(one: ComparedExperiment) -> str:
    return "–" if one.sd_log_ratio is None else format_share(round(one.sd_log_ratio, 4))


def _differences(found: ExperimentComparison) -> dict[str, object]:
    return tabulate_differences(found.differences, [one.key for one in found.experiments])


def _effects(found: ExperimentComparison) -> dict[str, object]:
    main = [one for one in found.contrasts if one.is_claimed and one.is_overall]
    rest = [one for one in found.contrasts if not (one.is_claimed and one.is_overall)]
    return {"main": [_shown(found, one) for one in main], "rest": [_shown(found, one) for one in rest]}


def _shown(found: ExperimentComparison, contrast: Contrast) -> dict[str, object]:
    pooled = contrast.pooled
    return {
        "title": f"{contrast.title}: {subject_text(contrast)}, {contrast.load_level}",
        "definition": definition_text(contrast),
        "chart": pooled_forest(found, contrast),
        "pooled": pooled_text(pooled) if pooled else "",
        "decision": pooled.decision if pooled else None,
        "heterogeneity": heterogeneity_text(pooled) if pooled else "",
        "common": common_text(pooled) if pooled else "",
        "p": format_p(pooled.p_value) if pooled else "",
        "studies": [_study(study) for study in contrast.studies],
        "caveats": sort_caveats(contrast.caveats),
    }


def _study(study: StudyEffect) -> dict[str, object]:
    return {
        "key": study.experiment,
        "arm": study.arm,
        "change": change_text(study.ratio),
        "interval": interval_text(study.low, study.high),
        "blocks": study.blocks,
        "weight": "–" if study.weight is None else format_share(round(study.weight, 3)),
        "decision": study.decision,
        "left_out": study.left_out,
    }


def _indirect(found: ExperimentComparison) -> dict[str, object]:
    return {
        "rows": [
            {
                "title": one.title,
                "subject": subject_text(one),
                "change": change_text(one.ratio),
                "interval": interval_text(one.low, one.high),
                "confidence": format_share(one.confidence),
                "p": format_p(one.p_value),
                "experiments": indirect_experiments(one),
            }
            for one in found.indirect
        ]
    }


def _controls(found: ExperimentComparison) -> dict[str, object]:
    metrics = list(dict.fromkeys(value.metric for one in found.experiments for value in one.control_values))
    return {
        "metrics": [metric_label(metric) for metric in metrics],
        "rows": [
            {
                "key": one.key,
                "control": one.control,
                "cells": [
                    (
                        value_text(find_value(one.control_values, metric)),
                        value_interval(find_value(one.control_values, metric)),
                    )
                    for metric in metrics
                ],
            }
            for one in found.experiments
        ],
    }


def _caveats(found: ExperimentComparison) -> dict[str, object]:
    once = {(caveat.code, caveat.text): caveat for caveat in all_caveats(found)}
    return {"caveats": sort_caveats(tuple(once.values()))}


def _rule(found: ExperimentComparison) -> dict[str, object]:
    return {"rule": found.rule, "apart": found.not_combined}


EXPERIMENT_PARTS: tuple[Part[ExperimentComparison], ...] = (
    Part(name="answer", title="What came out", template="experiments.html", build=_answer),
    Part(name="differences", title="Differences", template="differences.html", build=_differences),
    Part(name="effects", title="Effects", template="effects.html", build=_effects),
    Part(
        name="indirect",
        title="Indirect comparisons",
        template="indirect.html",
        build=_indirect,
        is_shown=lambda found: bool(found.indirect),
    ),
    Part(name="controls", title="The controls", template="controls.html", build=_controls),
    Part(name="caveats", title="Caveats", template="caveats.html", build=_caveats),
    Part(name="rule", title="Rule and method", template="rule.html", build=_rule),
)
