"""The scenario that got worst: what headline, story and advice of every form of the report say of it.

A mean over all load hides it: where one pool of clients draws the scenarios, a rare one may take several times as long
while the whole is faster. Its own mean hides what only its slowest transactions have, or one load level: that is said
where it is sure, as there are many percentiles and levels.
"""

from collections.abc import Iterator

from pgtrial.findings.findings import Findings
from pgtrial.findings.record import ALL
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
from pgtrial.report.words import latency_of, level_label, metric_label, told_effects


def find_worst(findings: Findings) -> Placed | None:
    """The largest rise of a scenario's latency, of those that were decided to be worse: of its mean over all load
    levels, else, if it is sure, of a percentile, else of its mean at one level.

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
        metric=_name_metric(findings, worst),
        change=cite_change(worst),
        doubt=tell_doubt_of(findings, worst),
    )


def worst_text(findings: Findings) -> str:
    """The same as text; "" where there is none."""
    return text_of(tell_worst(findings))


def name_worst(findings: Findings, worst: Placed) -> Sentence:
    """ "latency mean of “move”"."""
    return say(tr("{metric} of {scenario}"), metric=_name_metric(findings, worst), scenario=_quote_scenario(worst))


def _name_metric(findings: Findings, placed: Placed) -> Sentence:
    """ "latency mean", "latency mean with 8 clients"."""
    metric = placed.cite(metric_label(placed.effect.metric), "metric")
    if placed.effect.load_level == ALL:
        return (metric,)
    level = placed.cite(level_label(findings, placed.effect.load_level), "load_level")
    return say(tr("{metric} with {level}"), metric=metric, level=level)


def tell_doubt_of(findings: Findings, placed: Placed) -> Sentence:
    """ " (perhaps by chance, as 24 were looked at)", where the decision does not hold together with all others."""
    return (
        ()
        if placed.effect.sure
        else say(" ({doubt})", doubt=cite(doubt_text(findings), f"{placed.path}.sure", "effects"))
    )


def doubt_text(findings: Findings) -> str:
    """What is said of a decision that may be chance among so many comparisons."""
    candidates = {effect.arm for effect in findings.effects}
    count = sum(effect.arm in candidates for effect in told_effects(findings))
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
    found = [next(_worse_of(findings, scenario), None) for scenario in findings.experiment.scenarios]
    worse = [placed for placed in found if placed is not None and placed != primary]
    return sorted(worse, key=lambda placed: -(placed.effect.ratio or 0.0))


def _worse_of(findings: Findings, scenario: str) -> Iterator[Placed]:
    """What of a scenario is worse, the first to be said first."""
    mean = latency_of(findings, "mean")
    places: list[tuple[str, int | str]] = [(mean, ALL)]
    places += [(latency_of(findings, name), ALL) for name in ("p99", "p999", "p95", "p50")]
    places += [(mean, level.index) for level in findings.experiment.levels]
    for metric, level in places:
        placed = find_placed(findings, arm=findings.hypothesis.arm, metric=metric, scenario=scenario, level=level)
        if placed is None or placed.effect.decision is not Decision.WORSE or placed.effect.ratio is None:
            continue
        if placed.effect.sure or (metric, level) == (mean, ALL):
            yield placed
