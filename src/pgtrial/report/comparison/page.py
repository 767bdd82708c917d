"""A comparison to one HTML file that opens without a network, in the style of an experiment's report.

Its sections in reading order: what came out, what differs, effects, limits.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from pgtrial.findings.comparison import (
    ComparedExperiment,
    Contrast,
    ExperimentComparison,
    StudyEffect,
)
from pgtrial.report.charts.pooled import key_colours, pooled_forest
from pgtrial.report.comparison.words import (
    all_caveats,
    answer_text,
    decision_text,
    definition_text,
    difference_name,
    find_value,
    heterogeneity_text,
    indirect_experiments,
    pooled_text,
    subject_text,
    value_interval,
    value_text,
    when_text,
)
from pgtrial.report.html import chart_library, page_scripts, page_style, template_environment
from pgtrial.report.sections.base import PageSection
from pgtrial.report.terms import verdict_word
from pgtrial.report.words import (
    VERDICT_SYMBOLS,
    change_text,
    format_p,
    interval_text,
    metric_label,
    plural,
    sort_caveats,
)
from pgtrial.safe_files import write_file
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
                "verdict": verdict_word(one.verdict, provisional=one.provisional),
                "reason": one.reason,
                "noise": _noise(one),
            }
            for one in found.experiments
        ],
    }


def _noise(one: ComparedExperiment) -> str:
    return "–" if one.sd_log_ratio is None else format_share(round(one.sd_log_ratio, 4))


def _differences(found: ExperimentComparison) -> dict[str, object]:
    """The table of what is not the same in all that is compared."""
    keys = [one.key for one in found.experiments]
    return {
        "keys": keys,
        "rows": [
            {
                "name": difference_name(one),
                "values": [one.values.get(key, "not known") for key in keys],
                "severity": one.severity,
                "why": one.why,
            }
            for one in found.differences
        ],
    }


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
        "word": decision_text(pooled) if pooled else "",
        "heterogeneity": heterogeneity_text(pooled) if pooled else "",
        "p": format_p(pooled.p_value) if pooled else "",
        "studies": [_study(study) for study in contrast.studies],
        "caveats": sort_caveats(contrast.caveats),
    }


def _study(study: StudyEffect) -> dict[str, object]:
    return {
        "key": study.experiment,
        "arm": study.arm,
        "change": change_text(study.ratio, study.low, study.high),
        "interval": interval_text(study.low, study.high, study.ratio),
        "blocks": study.blocks,
        "decision": study.decision,
        "left_out": study.left_out,
    }


def _indirect(found: ExperimentComparison) -> dict[str, object]:
    return {
        "rows": [
            {
                "title": one.title,
                "subject": subject_text(one),
                "change": change_text(one.ratio, one.low, one.high),
                "interval": interval_text(one.low, one.high, one.ratio),
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
    return {"rule": found.rule, "not_comparable": found.not_combined}


PARTS: tuple[PageSection[ExperimentComparison], ...] = (
    PageSection(name="answer", title="What came out", build=_answer),
    PageSection(name="differences", title="Differences", build=_differences),
    PageSection(name="effects", title="Effects", build=_effects),
    PageSection(
        name="indirect", title="Indirect comparisons", build=_indirect, is_shown=lambda found: bool(found.indirect)
    ),
    PageSection(name="controls", title="The controls", build=_controls),
    PageSection(name="caveats", title="Caveats", build=_caveats),
    PageSection(name="rule", title="Rule and method", build=_rule),
)


def render_comparison(found: ExperimentComparison) -> str:
    """The whole page, with its style, charts and scripts inside."""
    names = ", ".join(dict.fromkeys(one.name for one in found.experiments))
    return render_sections(
        f"{plural(len(found.experiments), 'experiment')} compared: {names}",
        [(part.name, part.title, f"{part.name}.html", part.build(found)) for part in PARTS if part.is_shown(found)],
        version=found.pgtrial_version,
    )


def render_sections(title: str, sections: Sequence[tuple[str, str, str, Mapping[str, object]]], *, version: str) -> str:
    """A page of sections: the anchor of each, its title, its template beside this file and what that shows."""
    environment = template_environment()
    return environment.get_template("comparison/page.html").render(
        title=title,
        version=version,
        sections=[
            {
                "name": name,
                "title": heading,
                "body": Markup(environment.get_template(f"comparison/{template}").render(values)),
            }
            for name, heading, template, values in sections
        ],
        style=page_style(),
        library=Markup(chart_library()),
        scripts=page_scripts(),
    )


def write_comparison(found: ExperimentComparison, path: Path) -> None:
    """Put the page at ``path``: whole, or not at all. OSError where that cannot be written."""
    write_file(path, render_comparison(found))
