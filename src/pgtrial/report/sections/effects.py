"""Effects with intervals: forest plots, and a table of all of them."""

from pgtrial.findings.findings import Effect, Findings
from pgtrial.language import N_, tr
from pgtrial.report.charts.forest import latency_forest, primary_forest, scenario_forest, throughput_forest
from pgtrial.report.sections.base import Section, always
from pgtrial.report.terms import decision_word
from pgtrial.report.words import (
    arm_label,
    change_text,
    format_p,
    interval_text,
    level_label,
    metric_label,
    p_of,
)
from pgtrial.units import format_share


def _build(findings: Findings) -> dict[str, object]:
    asked = findings.hypothesis
    charts = [
        primary_forest(findings),
        throughput_forest(findings),
        scenario_forest(findings),
        latency_forest(findings),
    ]
    effects = [*findings.effects, *findings.placebo]
    return {
        "charts": [chart for chart in charts if chart is not None],
        "rows": [_row(findings, effect) for effect in effects],
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
        "change": change_text(effect.ratio),
        "interval": interval_text(effect.low, effect.high),
        "p": format_p(p_of(effect)),
        "p_sign_flip": format_p(effect.p_sign_flip),
        "hodges_lehmann": change_text(effect.hodges_lehmann),
        "decision": effect.decision,
        "word": decision_word(effect.decision),
        "blocks": effect.blocks,
        "needed": "–" if effect.needed is None else str(effect.needed),
        "caveats": "; ".join(caveat.text for caveat in effect.caveats),
    }


EFFECTS = Section(name="effects", title=N_("Effects"), build=_build, is_open=always)
