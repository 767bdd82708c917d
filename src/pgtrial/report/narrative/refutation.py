"""What would refute it: the result of a repetition that would turn the verdict, and what the verdict does not cover."""

import math
from collections.abc import Iterator

from pgtrial.analysis.findings import Findings
from pgtrial.model.metric import Better
from pgtrial.model.verdict import Verdict
from pgtrial.report.narrative.base import Cited, Placed, Sentence, Teller, cite, enumerate_parts, find_primary, say
from pgtrial.report.narrative.done import VERSION_PATH
from pgtrial.report.narrative.phrases import cite_interval
from pgtrial.report.words import change_text
from pgtrial.stats.equivalence import claim_bound
from pgtrial.units import format_share


def _tell(findings: Findings) -> Iterator[Sentence]:
    primary = find_primary(findings)
    if findings.hypothesis.verdict is Verdict.INVALID or primary is None:
        yield ("Nothing is claimed yet, so there is nothing to refute.",)
        return
    interval = cite_interval(primary)
    if interval:
        yield _turn(findings, primary)
        yield say("Here the interval is {interval}.", interval=interval)
    else:
        yield ("Any interval would say more than this result, which has none.",)
    yield ("A placebo that differs from the control in a repetition would cast doubt on all of it.",)
    yield _scope(findings)


def _turn(findings: Findings, primary: Placed) -> Sentence:
    """Which interval would turn the verdict, or give one."""
    asked = findings.hypothesis
    bound = claim_bound(asked.expect, margin=asked.margin, better=Better(primary.effect.better))
    if bound is None and asked.expect not in {"equivalent", "different"}:
        return ("No direction of this metric is good by itself, so no result decides which arm is better in it.",)
    if bound is None:
        return _turn_two_sided(findings)
    edge = cite(change_text(math.exp(bound[0])), "hypothesis.margin", "hypothesis.expect")
    supports, refutes = ("above", "below") if bound[1] else ("below", "above")
    match asked.verdict:
        case Verdict.SUPPORTED:
            return _repetition("refute the claim", refutes, edge, findings)
        case Verdict.REFUTED:
            return _repetition("support the claim after all", supports, edge, findings)
        case _:
            return say(
                "An interval wholly {supports} {edge} would support the claim; one wholly {refutes} it, refute it.",
                supports=supports,
                refutes=refutes,
                edge=edge,
            )


def _repetition(what: str, side: str, edge: Cited, findings: Findings) -> Sentence:
    return say(
        "A repetition whose whole {confidence} interval lies {side} {edge} would {what}.",
        confidence=cite(format_share(findings.hypothesis.confidence), "hypothesis.confidence"),
        side=side,
        edge=edge,
        what=what,
    )


def _turn_two_sided(findings: Findings) -> Sentence:
    asked = findings.hypothesis
    margin = cite(f"±{format_share(asked.margin)}", "hypothesis.margin")
    inside, outside = ("support", "refute") if asked.expect == "equivalent" else ("refute", "support")
    if asked.verdict is Verdict.INCONCLUSIVE:
        return say(
            "An interval wholly within {margin} would {inside} the claim, one wholly beyond it would {outside} it.",
            margin=margin,
            inside=inside,
            outside=outside,
        )
    is_inside = (asked.verdict is Verdict.SUPPORTED) == (asked.expect == "equivalent")
    return say(
        "A repetition whose whole interval lies {side} {margin} would turn the verdict.",
        side="beyond" if is_inside else "within",
        margin=margin,
    )


def _scope(findings: Findings) -> Sentence:
    """What the verdict has been shown for, and nothing beyond it."""
    experiment = findings.experiment
    items: list[Sentence] = []
    if "scenarios" in experiment.workload:
        items.append(
            say("the load {load}", load=cite(experiment.workload["scenarios"], "experiment.workload.scenarios"))
        )
    levels: list[Sentence] = [
        (cite(level.label, f"experiment.levels[{number}].label"),) for number, level in enumerate(experiment.levels)
    ]
    if levels:
        items.append(enumerate_parts(levels, last=" or "))
    if experiment.target.get("postgres version"):
        version = cite(experiment.target["postgres version"], VERSION_PATH)
        items.append(say("PostgreSQL {version}", version=version))
    shown = say(
        "It is shown for {items} on this machine only; ",
        items=_join(items) if items else ("this load",),
    )
    return (*shown, "a different answer elsewhere would not contradict it, but bound it.")


def _join(items: list[Sentence]) -> Sentence:
    told: Sentence = items[0]
    for item in items[1:]:
        told = (*told, ", ", *item)
    return told


REFUTATION = Teller(name="refutation", title="What would refute it", tell=_tell)
