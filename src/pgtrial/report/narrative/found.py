"""What was found: the verdict, the change by load level, what it gains or costs elsewhere, other arms."""

from collections.abc import Iterator

from pgtrial.findings.findings import Findings
from pgtrial.language import N_, tr
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.narrative.base import (
    Placed,
    Sentence,
    Teller,
    cite,
    enumerate_parts,
    find_placed,
    find_primary,
    join_parts,
    say,
    source,
)
from pgtrial.report.narrative.phrases import cite_arm, cite_change, close
from pgtrial.report.words import ALL, METRIC_LABELS, change_text, metric_label

_VERDICTS = {
    Verdict.SUPPORTED: N_("The claim is <verdict>supported</verdict>: {reason}"),
    Verdict.REFUTED: N_("The claim is <verdict>refuted</verdict>: {reason}"),
    Verdict.INCONCLUSIVE: N_("The claim is <verdict>inconclusive</verdict>: {reason}"),
    Verdict.INVALID: N_("The verdict is <verdict>invalid</verdict>: {reason}"),
}
_DECIDED = {
    Decision.BETTER: N_("better in {metrics}"),
    Decision.WORSE: N_("worse in {metrics}"),
    Decision.EQUIVALENT: N_("without a difference that matters in {metrics}"),
    Decision.INCONCLUSIVE: N_("undecided in {metrics}"),
}
_MOST_ARMS = 4  # beside the claim's, that a sentence names


def _tell(findings: Findings) -> Iterator[Sentence]:
    asked = findings.hypothesis
    yield say(
        tr(_VERDICTS[asked.verdict]),
        verdict=source("hypothesis.verdict"),
        reason=cite(close(asked.reason.say()), "hypothesis.reason.text"),
    )
    yield from _by_level(findings)
    if asked.verdict is not Verdict.INVALID:
        yield from _elsewhere(findings)
    yield from _other_arms(findings)


def _by_level(findings: Findings) -> Iterator[Sentence]:
    """The change at each load level, where there are several."""
    asked = findings.hypothesis
    if len(findings.experiment.levels) < 2:
        return
    items: list[Sentence] = []
    for number, level in enumerate(findings.experiment.levels):
        placed = find_placed(findings, arm=asked.arm, metric=asked.metric, scenario=asked.scenario, level=level.index)
        if placed is not None and placed.effect.ratio is not None:
            label = cite(level.label.say(), f"experiment.levels[{number}].label.text")
            items.append(say(tr("{change} with {level}"), change=cite_change(placed), level=label))
    if items:
        yield say(tr("By load level the change is {items}."), items=enumerate_parts(items))


def _elsewhere(findings: Findings) -> Iterator[Sentence]:
    """The other metrics of the claim's arm over all load levels, by what they come to."""
    asked = findings.hypothesis
    found: dict[Decision, list[Sentence]] = {}
    for metric in METRIC_LABELS:
        placed = find_placed(findings, arm=asked.arm, metric=metric, scenario=None, level=ALL)
        is_primary = (metric, None) == (asked.metric, asked.scenario)
        if placed is None or placed.effect.ratio is None or is_primary:
            continue
        label = placed.cite(metric_label(metric), "metric")
        found.setdefault(placed.effect.decision, []).append(
            say("{label} ({change})", label=label, change=placed.cite(change_text(placed.effect.ratio), "ratio"))
        )
    clauses = [
        say(tr(_DECIDED[decision]), metrics=enumerate_parts(found[decision]))
        for decision in _DECIDED
        if decision in found
    ]
    if clauses:
        yield say(tr("Elsewhere the arm is {clauses}."), clauses=join_parts(clauses, "; "))


def _other_arms(findings: Findings) -> Iterator[Sentence]:
    """The metric of the claim in the arms that the claim is not about."""
    asked = findings.hypothesis
    others: list[tuple[str, Placed]] = []
    for arm in findings.experiment.arms:
        placed = find_placed(findings, arm=arm.name, metric=asked.metric, scenario=asked.scenario)
        if arm.role == "candidate" and arm.name != asked.arm and placed is not None:
            others.append((arm.name, placed))
    items = [
        say("{arm} {change}", arm=cite_arm(findings, name), change=cite_change(placed))
        for name, placed in others[:_MOST_ARMS]
    ]
    if items:
        yield say(tr("Of the other arms, against the same control: {items}."), items=enumerate_parts(items))


def find_worse(findings: Findings) -> list[Placed]:
    """Metrics other than the claim's in which its arm is worse, over all scenarios and load levels."""
    asked, primary = findings.hypothesis, find_primary(findings)
    found = []
    for metric in METRIC_LABELS:
        placed = find_placed(findings, arm=asked.arm, metric=metric, scenario=None, level=ALL)
        if placed is not None and placed.effect.decision is Decision.WORSE and placed != primary:
            found.append(placed)
    return found


FOUND = Teller(name="found", title=N_("What was found"), tell=_tell)
