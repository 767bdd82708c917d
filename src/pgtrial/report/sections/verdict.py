"""The first screen, the story in plain words, and all caveats."""

import math
from collections.abc import Iterator

from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from pgtrial.language import N_, ntr, tr
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.cause_words import causes_of
from pgtrial.report.charts.picture import effect_picture
from pgtrial.report.narrative.parts import Cited, Paragraph, Part, text_of
from pgtrial.report.narrative.story import next_step, tell_story
from pgtrial.report.narrative.worst import doubt_text, worst_text
from pgtrial.report.narrative.write import list_sources
from pgtrial.report.sections.base import Section, always
from pgtrial.report.summary_words import placebo_text
from pgtrial.report.terms import decision_word, hypothesis_word, verdict_word
from pgtrial.report.words import (
    VERDICT_SYMBOLS,
    build_text,
    change_text,
    claim_text,
    detectable_text,
    effect_text,
    interval_text,
    level_label,
    metric_label,
    placebo_effect,
    primary_effect,
    scenario_latencies,
    sort_caveats,
    why_no_interval,
)
from pgtrial.units import format_share

MOST_ELSEWHERE = 5
_LEFT_OUT = ("pgbench.latency_p50", "pgbench.latency_p95", "pgbench.latency_p999")
_STAND_FOR = ("pgbench.latency_mean", "pgbench.latency_p99")


def _build_verdict(findings: Findings) -> dict[str, object]:
    asked = findings.hypothesis
    effect = primary_effect(findings)
    placebo = placebo_effect(findings)
    return {
        "verdict": asked.verdict,
        "word": hypothesis_word(asked),
        "symbol": VERDICT_SYMBOLS[asked.verdict],
        "reason": say(asked.reason),
        "worst": worst_text(findings),
        "built": build_text(findings),
        "claim": claim_text(findings),
        "parts": [
            {
                "word": verdict_word(part.verdict, provisional=asked.provisional),
                "symbol": VERDICT_SYMBOLS[part.verdict],
                "reason": say(part.reason),
            }
            for part in asked.parts
        ],
        "step": " ".join(text_of(sentence) for sentence in next_step(findings)),
        "picture": effect_picture(findings),
        "subject": _subject(findings),
        "change": change_text(effect.ratio, effect.low, effect.high) if effect else "–",
        "interval": _interval(effect),
        "blocks": ntr("{count} complete block", "{count} complete blocks", findings.experiment.blocks_complete),
        "placebo_change": change_text(placebo.ratio, placebo.low, placebo.high) if placebo else "–",
        "placebo_interval": interval_text(placebo.low, placebo.high, placebo.ratio) if placebo else "",
        "placebo_text": placebo_text(findings),
        "detectable": detectable_text(findings),
        "margin": format_share(asked.margin),
        "by_level": _by_level(findings),
        "elsewhere": _elsewhere(findings),
        "why": say(causes_of(findings).text),
        "warnings": [caveat for caveat in sort_caveats(findings.caveats) if caveat.severity is not Severity.INFO],
        "is_grave": any(caveat.severity is Severity.INVALID for caveat in findings.caveats),
        "stopping": say(findings.stopping.text) if findings.stopping else "",
    }


def _subject(findings: Findings) -> str:
    asked = findings.hypothesis
    values = {"metric": metric_label(asked.metric), "arm": asked.arm, "control": asked.control}
    if asked.scenario:
        return tr("{metric} of {scenario} of “{arm}” against “{control}”", **values, scenario=asked.scenario)
    return tr("{metric} of “{arm}” against “{control}”", **values)


def _interval(effect: Effect | None) -> str:
    if effect is None or effect.ratio is None:
        return tr("not measured")
    if effect.low is None or effect.high is None:
        return tr("without an interval: {why}", why=why_no_interval(effect))
    return tr(
        "{confidence} interval {interval}",
        confidence=format_share(effect.confidence),
        interval=interval_text(effect.low, effect.high, effect.ratio),
    )


def _elsewhere(findings: Findings) -> list[dict[str, str]]:
    """What else of the claim's arm changes: all that is worse, then the largest of the gains that are sure.

    Of what got worse also that is told which may be chance among so many comparisons: to miss it would cost more. Runs
    that cannot answer the claim show nothing surely.
    """
    if findings.hypothesis.verdict is Verdict.INVALID:
        return []
    worse, better = list(_worse(findings)), list(_better(findings))
    better = better[: max(0, MOST_ELSEWHERE - len(worse))]
    return [
        {
            "decision": effect.decision,
            "word": decision_word(effect.decision),
            "metric": _name_elsewhere(findings, effect),
            "effect": effect_text(effect),
            "doubt": "" if effect.sure else doubt_text(findings),
        }
        for effect in (*worse, *better)
    ]


def _worse(findings: Findings) -> Iterator[Effect]:
    """Whatever got worse, in one scenario or at one load level only, too; over all of them, where it did so there."""
    asked = findings.hypothesis
    found = [
        effect
        for effect in findings.effects
        if effect.arm == asked.arm
        and (effect.metric, effect.scenario) != (asked.metric, asked.scenario)
        and effect.decision is Decision.WORSE
        and effect.ratio
    ]
    wide = {(effect.metric, effect.scenario) for effect in found if effect.load_level == ALL}
    told = [e for e in found if e.load_level == ALL or (e.metric, e.scenario) not in wide]
    # Of percentiles of one latency the mean or the 99th stands for the others where it is worse itself.
    stand = {(e.scenario, e.load_level) for e in told if e.metric in _STAND_FOR}
    told = [e for e in told if e.metric not in _LEFT_OUT or (e.scenario, e.load_level) not in stand]
    yield from sorted(told, key=lambda e: (e.load_level != ALL, -abs(math.log(e.ratio or 1))))


def _better(findings: Findings) -> Iterator[Effect]:
    """What got better over all load; mean latency of scenarios, where their throughput is the same by construction."""
    asked = findings.hypothesis
    of_scenarios = scenario_latencies(findings)
    found = [
        effect
        for effect in findings.effects
        if effect.arm == asked.arm
        and effect.load_level == ALL
        and (effect.scenario is None or effect in of_scenarios)
        and (effect.metric, effect.scenario) != (asked.metric, asked.scenario)
        and effect.metric not in _LEFT_OUT
        and effect.decision is Decision.BETTER
        and effect.sure
        and effect.ratio
    ]
    yield from sorted(found, key=lambda e: (e not in of_scenarios, -abs(math.log(e.ratio or 1))))


def _name_elsewhere(findings: Findings, effect: Effect) -> str:
    metric = metric_label(effect.metric, effect.scenario)
    if effect.load_level == ALL:
        return metric
    return tr("{metric} with {level}", metric=metric, level=level_label(findings, effect.load_level))


def _by_level(findings: Findings) -> list[str]:
    """The primary effect at each load level, in words; nothing for a single level."""
    asked = findings.hypothesis
    if len(findings.experiment.levels) < 2:
        return []
    return [
        f"{level_label(findings, effect.load_level)}: {effect_text(effect)}"
        for effect in findings.effects
        if (effect.arm, effect.metric, effect.scenario) == (asked.arm, asked.metric, asked.scenario)
        and effect.load_level != ALL
    ]


VERDICT = Section(name="verdict", title=N_("Verdict"), build=_build_verdict, is_open=always)


def _build_narrative(findings: Findings) -> dict[str, object]:
    return {"paragraphs": [_paragraph(paragraph) for paragraph in tell_story(findings)]}


def _paragraph(paragraph: Paragraph) -> dict[str, object]:
    return {
        "name": paragraph.name,
        "title": paragraph.title,
        "parts": [_part(part) for part in paragraph.parts],
        "sources": list_sources(paragraph),
    }


def _part(part: Part) -> dict[str, str]:
    """A part with its paths; fixed words have none."""
    if isinstance(part, Cited):
        return {"text": part.text, "paths": ", ".join(part.paths)}
    return {"text": part, "paths": ""}


NARRATIVE = Section(name="narrative", title=N_("In plain words"), build=_build_narrative, is_open=always)


def _build_caveats(findings: Findings) -> dict[str, object]:
    return {
        "caveats": sort_caveats(findings.caveats),
        "of_effects": _group(findings),
    }


def _group(findings: Findings) -> list[dict[str, object]]:
    """Caveats of effects by code and text, with the effects they are about: the same one often holds for many."""
    about: dict[tuple[str, str], tuple[CaveatFinding, list[str]]] = {}
    for effect in (*findings.effects, *findings.placebo):
        for caveat in effect.caveats:
            about.setdefault((caveat.code, caveat.text), (caveat, []))[1].append(_name(findings, effect))
    return [{"caveat": caveat, "effects": names} for caveat, names in about.values()]


def _name(findings: Findings, effect: Effect) -> str:
    values = {
        "metric": metric_label(effect.metric),
        "arm": effect.arm,
        "level": level_label(findings, effect.load_level),
    }
    if effect.scenario:
        return tr("{metric} of {arm}, {scenario}, {level}", **values, scenario=effect.scenario)
    return tr("{metric} of {arm}, {level}", **values)


CAVEATS = Section(name="caveats", title=N_("Caveats"), build=_build_caveats)
