"""What would refute it: the result of a repetition that would turn the verdict, and what the verdict does not cover."""

import math
from collections.abc import Iterator

from pgtrial.findings.findings import Findings
from pgtrial.language import N_, tr
from pgtrial.model.metric import Better
from pgtrial.model.verdict import Verdict
from pgtrial.report.narrative.base import (
    Placed,
    Sentence,
    Teller,
    cite,
    enumerate_choices,
    find_primary,
    join_parts,
    say,
)
from pgtrial.report.narrative.done import VERSION_PATH
from pgtrial.report.narrative.phrases import cite_interval
from pgtrial.report.words import change_text, workload_facts
from pgtrial.stats.equivalence import claim_bound
from pgtrial.units import format_share


def _tell(findings: Findings) -> Iterator[Sentence]:
    primary = find_primary(findings)
    if findings.hypothesis.verdict is Verdict.INVALID or primary is None:
        yield (tr("Nothing is claimed yet, so there is nothing to refute."),)
        return
    interval = cite_interval(primary)
    if interval:
        yield _turn(findings, primary)
        yield say(tr("Here the interval is {interval}."), interval=interval)
    else:
        yield (tr("Any interval would say more than this result, which has none."),)
    yield (tr("A placebo that differs from the control in a repetition would cast doubt on all of it."),)
    yield _scope(findings)


def _turn(findings: Findings, primary: Placed) -> Sentence:
    """Which interval would turn the verdict, or give one."""
    asked = findings.hypothesis
    bound = claim_bound(asked.expect, margin=asked.margin, better=Better(primary.effect.better))
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
            told = tr("A repetition whose whole interval lies beyond {margin} would turn the verdict.")
        else:
            told = tr("A repetition whose whole interval lies within {margin} would turn the verdict.")
    elif asked.expect == "equivalent":
        told = tr("An interval wholly within {margin} would support the claim, one wholly beyond it would refute it.")
    else:
        told = tr("An interval wholly within {margin} would refute the claim, one wholly beyond it would support it.")
    return say(told, margin=cite(f"±{format_share(asked.margin)}", "hypothesis.margin"))


def _scope(findings: Findings) -> Sentence:
    """What the verdict has been shown for, and nothing beyond it."""
    experiment = findings.experiment
    items: list[Sentence] = []
    if "scenarios" in experiment.workload:
        load = cite(workload_facts(findings)["scenarios"], "experiment.workload.scenarios")
        items.append(say(tr("the load {load}"), load=load))
    levels: list[Sentence] = [
        (cite(level.label.say(), f"experiment.levels[{number}].label.text"),)
        for number, level in enumerate(experiment.levels)
    ]
    if levels:
        items.append(enumerate_choices(levels))
    if experiment.target.get("postgres version"):
        version = cite(experiment.target["postgres version"], VERSION_PATH)
        items.append(say("PostgreSQL {version}", version=version))
    if items:
        return say(
            tr(
                "It is shown for {items} on this machine only; a different answer elsewhere would not contradict it, "
                "but bound it."
            ),
            items=join_parts(items),
        )
    return (
        tr(
            "It is shown for this load on this machine only; a different answer elsewhere would not contradict it, "
            "but bound it."
        ),
    )


REFUTATION = Teller(name="refutation", title=N_("What would refute it"), tell=_tell)
