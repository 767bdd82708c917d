"""The scenario that got worst: what headline, story and advice of every form of the report say of it.

A mean over all load hides it: where one pool of clients draws the scenarios, a rare one may take several times as long
while the whole is faster.
"""

from pgtrial.findings.findings import Findings
from pgtrial.language import ntr, tr
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.narrative.parts import (
    Placed,
    Sentence,
    cite,
    cite_change,
    find_placed,
    find_primary,
    keep,
    say,
    source,
    text_of,
)
from pgtrial.report.words import latency_of, metric_label


def find_worst(findings: Findings) -> Placed | None:
    """The largest rise of a scenario's mean latency, over all load levels, of those that were decided to be worse.

    None where none was, where the runs cannot answer, and where the claim itself is about that scenario's latency.
    """
    return next(iter(_find_worse(findings)), None)


def tell_worst(findings: Findings) -> Sentence:
    """One sentence on it; nothing where there is none."""
    worse = _find_worse(findings)
    if not worse:
        return ()
    worst = worse[0]
    template = ntr(
        "<count>Worse</count> in scenario {scenario}: {metric} {change}{doubt}.",
        "Worse in <count>{count} scenarios</count>, most in {scenario}: {metric} {change}{doubt}.",
        len(worse),
        **keep("scenario", "metric", "change", "doubt"),
    )
    return say(
        template,
        count=source(*(f"{placed.path}.decision" for placed in worse)),
        scenario=_quote_scenario(worst),
        metric=worst.cite(metric_label(worst.effect.metric), "metric"),
        change=cite_change(worst),
        doubt=tell_doubt_of(findings, worst),
    )


def worst_text(findings: Findings) -> str:
    """The same as text; "" where there is none."""
    return text_of(tell_worst(findings))


def name_worst(worst: Placed) -> Sentence:
    """ "latency mean of “move”"."""
    metric = worst.cite(metric_label(worst.effect.metric), "metric")
    return say(tr("{metric} of {scenario}"), metric=metric, scenario=_quote_scenario(worst))


def tell_doubt_of(findings: Findings, placed: Placed) -> Sentence:
    """ " (perhaps by chance, as 24 were looked at)", where the decision does not hold together with all others."""
    return (
        ()
        if placed.effect.sure
        else say(" ({doubt})", doubt=cite(doubt_text(findings), f"{placed.path}.sure", "effects"))
    )


def doubt_text(findings: Findings) -> str:
    """What is said of a decision that may be chance among so many comparisons."""
    count = len(findings.effects)
    return ntr(
        "perhaps by chance, as {count} effect was looked at", "perhaps by chance, as {count} were looked at", count
    )


def _quote_scenario(placed: Placed) -> Sentence:
    return say(tr("“{text}”"), text=placed.cite(placed.effect.scenario or "", "scenario"))


def _find_worse(findings: Findings) -> list[Placed]:
    """All that were decided to be worse, the largest rise first."""
    asked, primary = findings.hypothesis, find_primary(findings)
    if asked.verdict is Verdict.INVALID:
        return []
    metric = latency_of(findings, "mean")
    found = [
        find_placed(findings, arm=asked.arm, metric=metric, scenario=scenario)
        for scenario in findings.experiment.scenarios
    ]
    worse = [
        placed
        for placed in found
        if placed is not None
        and placed.effect.decision is Decision.WORSE
        and placed.effect.ratio is not None
        and placed != primary
    ]
    return sorted(worse, key=lambda placed: -(placed.effect.ratio or 0.0))
