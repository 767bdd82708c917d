"""Findings to a short summary in Markdown: for the page of a pipeline's run, a pull request or a chat."""

from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.message import say
from pgtrial.model.caveat import Severity
from pgtrial.report.cause_words import causes_of
from pgtrial.report.gate import gate_verdict, unfinished_text
from pgtrial.report.markdown import bullets, code, escape, heading, table
from pgtrial.report.shown import effects_by_level, overall_effects
from pgtrial.report.trust_words import placebo_text
from pgtrial.report.words import (
    SEVERITY_SYMBOLS,
    VERDICT_SYMBOLS,
    arm_label,
    change_text,
    claim_text,
    control_of,
    detectable_text,
    format_p,
    interval_text,
    level_label,
    metric_label,
    p_of,
    plural,
    sort_caveats,
)
from pgtrial.units import format_duration, format_share

_RIGHT = (2, 3, 4)  # the columns of numbers


def render_summary(findings: Findings) -> str:
    """Verdict, effects and caveats; ends in a line feed. Names and texts of the experiment are escaped."""
    verdict = gate_verdict(findings)
    parts = [
        [heading(2, f"{VERDICT_SYMBOLS[verdict]} {findings.experiment.name}: {verdict}")],
        [f"**{escape(say(findings.hypothesis.reason))}**"],
        [f"Claim: {escape(claim_text(findings))}"],
        _unfinished(findings),
        _effects(findings),
        _by_level(findings),
        _why(findings),
        _trust(findings),
        _caveats(findings),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _unfinished(findings: Findings) -> list[str]:
    missing = unfinished_text(findings)
    return [f"Not finished: {missing}; {code('pgtrial resume')} goes on."] if missing else []


def _effects(findings: Findings) -> list[str]:
    effects = overall_effects(findings)
    if not effects:
        return ["No effect could be estimated."]
    asked = findings.hypothesis
    head = f"Effects against {code(control_of(findings))}, margin ±{format_share(asked.margin)}:"
    names = [_metric(effect) for effect in effects]
    return [head, "", *_table(findings, "metric", effects, names)]


def _metric(effect: Effect) -> str:
    label = escape(metric_label(effect.metric))
    return label if effect.scenario is None else f"{label} of {code(effect.scenario)}"


def _by_level(findings: Findings) -> list[str]:
    effects = effects_by_level(findings)
    if len(findings.experiment.levels) < 2 or not effects:
        return []
    names = [escape(level_label(findings, effect.load_level)) for effect in effects]
    head = f"By load level, {escape(metric_label(findings.hypothesis.metric))}:"
    return [head, "", *_table(findings, "load", effects, names)]


def _table(findings: Findings, what: str, effects: list[Effect], names: list[str]) -> list[str]:
    share = format_share(findings.hypothesis.confidence)
    rows = [
        (
            code(arm_label(findings, effect.arm)),
            name,
            escape(change_text(effect.ratio)),
            escape(interval_text(effect.low, effect.high)),
            escape(format_p(p_of(effect))),
            str(effect.decision),
        )
        for effect, name in zip(effects, names, strict=True)
    ]
    return table(("arm", what, "change", f"{share} interval", "p", "decision"), rows, right=_RIGHT)


def _why(findings: Findings) -> list[str]:
    text = causes_of(findings).text
    return [f"Why: {escape(say(text))}"] if text else []


def _trust(findings: Findings) -> list[str]:
    experiment = findings.experiment
    said = [plural(experiment.blocks_complete, "block")]
    if experiment.started is not None and experiment.ended is not None:
        said.append(format_duration(experiment.ended - experiment.started))
    if findings.noise.detectable is not None:
        said.append(f"detectable effect {detectable_text(findings)}")
    return [f"{escape(', '.join(said))}. {escape(placebo_text(findings))}"]


def _caveats(findings: Findings) -> list[str]:
    """The grave ones; how many others there are."""
    caveats = sort_caveats(findings.caveats)
    grave = [caveat for caveat in caveats if caveat.severity is not Severity.INFO]
    items = [
        f"{SEVERITY_SYMBOLS[caveat.severity]} **{caveat.severity}**: {escape(caveat.text)}"
        + (f" *{escape(caveat.hint)}*" if caveat.hint else "")
        for caveat in grave
    ]
    if len(caveats) > len(grave):
        items.append(f"{plural(len(caveats) - len(grave), 'remark')} more in the report")
    return ["Caveats:", "", *bullets(items)] if items else []
