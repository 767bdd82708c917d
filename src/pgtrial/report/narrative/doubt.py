"""What speaks against the answer, and what would turn it."""

import math
from collections.abc import Iterator

from pgtrial.findings.caveat import is_untold
from pgtrial.findings.findings import Findings
from pgtrial.language import ntr, tr
from pgtrial.model.caveat import Severity
from pgtrial.model.metric import Better
from pgtrial.model.rules import RULES
from pgtrial.model.verdict import Verdict
from pgtrial.report.narrative.parts import (
    Placed,
    Sentence,
    cite,
    cite_change,
    cite_interval,
    close,
    find_primary,
    keep,
    placebo_change,
    say,
    source,
)
from pgtrial.report.summary_words import placebo_text
from pgtrial.report.words import change_text, detectable_text, why_no_interval
from pgtrial.stats.equivalence import claim_bound
from pgtrial.units import format_share


def tell_doubt(findings: Findings) -> Iterator[Sentence]:
    primary = find_primary(findings)
    if primary is not None and primary.effect.ratio is not None:
        yield _describe_interval(findings, primary)
    placebo = placebo_change(findings)
    if placebo is not None and placebo.effect.ratio is not None:
        text = placebo_text(findings)
        yield say(tr("The placebo shows {change}: {text}"), change=cite_change(placebo), text=text)
    else:
        yield (placebo_text(findings),)
    if findings.adjusted is not None:
        yield (cite(close(findings.adjusted.text.say()), "adjusted.text.text"),)
    if findings.stopping is not None:
        yield (cite(close(findings.stopping.text.say()), "stopping.text.text"),)
    yield from _caveats(findings)
    if findings.hypothesis.verdict is Verdict.INVALID or primary is None:
        yield (tr("Nothing is claimed yet, so there is nothing to refute."),)
    elif cite_interval(primary):
        yield _turn(findings, primary)


def _describe_interval(findings: Findings, primary: Placed) -> Sentence:
    effect, interval = primary.effect, cite_interval(primary)
    blocks = source(f"{primary.path}.blocks")
    if not interval and any(caveat.code == "zero-variance" for caveat in effect.caveats):
        template = ntr(
            "There is no interval: the ratio is the same in <blocks>{count} block</blocks>, so the noise is not known.",
            "There is no interval: the ratio is the same in <blocks>{count} blocks</blocks>, so the noise is not "
            "known.",
            effect.blocks,
        )
        return say(template, blocks=blocks)
    if not interval and is_untold(effect.caveats):
        return say(tr("There is no interval: {why}."), why=primary.cite(why_no_interval(effect), "caveats"))
    if not interval:
        template = ntr(
            "There is no interval: <blocks>{count} block</blocks> is too few.",
            "There is no interval: <blocks>{count} blocks</blocks> are too few.",
            effect.blocks,
        )
        return say(template, blocks=blocks)
    confidence = primary.cite(format_share(effect.confidence), "confidence")
    if findings.noise.detectable is None:
        template = ntr(
            "The {confidence} interval, from <blocks>{count} block</blocks>, is {interval}.",
            "The {confidence} interval, from <blocks>{count} blocks</blocks>, is {interval}.",
            effect.blocks,
            **keep("confidence", "interval"),
        )
        return say(template, confidence=confidence, blocks=blocks, interval=interval)
    template = ntr(
        "The {confidence} interval, from <blocks>{count} block</blocks>, is {interval}; with this noise, so many find "
        "a change of {detectable} four times in five.",
        "The {confidence} interval, from <blocks>{count} blocks</blocks>, is {interval}; with this noise, so many find "
        "a change of {detectable} four times in five.",
        effect.blocks,
        **keep("confidence", "interval", "detectable"),
    )
    detectable = cite(detectable_text(findings), "noise.detectable")
    return say(template, confidence=confidence, blocks=blocks, interval=interval, detectable=detectable)


def _caveats(findings: Findings) -> Iterator[Sentence]:
    """The gravest caveat, and how many more there are."""
    grave = [(number, caveat) for number, caveat in enumerate(findings.caveats) if caveat.severity is not Severity.INFO]
    grave.sort(key=lambda item: item[1].severity is not Severity.INVALID)
    if not grave:
        yield (tr("No caveat speaks against relying on it."),)
        return
    number, caveat = grave[0]
    yield say(tr("Caveat: {text}"), text=cite(close(caveat.text), f"caveats[{number}].text"))
    rest = grave[1:]
    if rest:
        template = ntr(
            "There is <rest>{count} further caveat</rest>.",
            "There are <rest>{count} further caveats</rest>.",
            len(rest),
        )
        yield say(template, rest=source(*(f"caveats[{number}].severity" for number, _ in rest)))


def _turn(findings: Findings, primary: Placed) -> Sentence:
    """Which interval of a repetition would turn the verdict, or give one."""
    asked = findings.hypothesis
    if asked.not_tested:
        return (tr("No interval decides that: it takes a load in which the settings have something to act on."),)
    log_bounds = RULES[findings.experiment.rules].log_bounds(asked.margin)
    bound = claim_bound(asked.expect, bounds=log_bounds, better=Better(primary.effect.better))
    if bound is None and asked.expect not in {"equivalent", "different"}:
        return (tr("No direction of this metric is good by itself, so no result decides which arm is better in it."),)
    if bound is None:
        return _turn_two_sided(findings)
    return say(
        _turn_one_sided(asked.verdict, supports_above=bound[1]),
        confidence=cite(format_share(asked.confidence), "hypothesis.confidence"),
        edge=cite(change_text(math.exp(bound[0])), "hypothesis.margin", "hypothesis.expect"),
    )


def _turn_one_sided(verdict: Verdict, *, supports_above: bool) -> str:
    match verdict, supports_above:
        case Verdict.SUPPORTED, True:
            return tr("A repetition whose whole {confidence} interval lies below {edge} would refute the claim.")
        case Verdict.SUPPORTED, False:
            return tr("A repetition whose whole {confidence} interval lies above {edge} would refute the claim.")
        case Verdict.REFUTED, True:
            return tr(
                "A repetition whose whole {confidence} interval lies above {edge} would support the claim after all."
            )
        case Verdict.REFUTED, False:
            return tr(
                "A repetition whose whole {confidence} interval lies below {edge} would support the claim after all."
            )
        case _, True:
            return tr("An interval wholly above {edge} would support the claim; one wholly below it, refute it.")
        case _:
            return tr("An interval wholly below {edge} would support the claim; one wholly above it, refute it.")


def _turn_two_sided(findings: Findings) -> Sentence:
    asked = findings.hypothesis
    if asked.verdict is not Verdict.INCONCLUSIVE:
        is_inside = (asked.verdict is Verdict.SUPPORTED) == (asked.expect == "equivalent")
        if is_inside:
            template = tr("A repetition whose whole interval lies beyond {margin} would turn the verdict.")
        else:
            template = tr("A repetition whose whole interval lies within {margin} would turn the verdict.")
    elif asked.expect == "equivalent":
        template = tr(
            "An interval wholly within {margin} would support the claim, one wholly beyond it would refute it."
        )
    else:
        template = tr(
            "An interval wholly within {margin} would refute the claim, one wholly beyond it would support it."
        )
    return say(template, margin=cite(f"±{format_share(asked.margin)}", "hypothesis.margin"))
