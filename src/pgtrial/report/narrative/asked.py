"""What was asked: the claim, and the test that was made of it."""

from collections.abc import Iterator

from pgtrial.analysis.findings import ArmFinding, Findings
from pgtrial.report.narrative.base import Cited, Sentence, Teller, cite, say
from pgtrial.report.narrative.phrases import cite_arm, cite_metric, cite_settings, quoted
from pgtrial.spec.experiment import RELATIONS
from pgtrial.units import format_share


def _tell(findings: Findings) -> Iterator[Sentence]:
    asked = findings.hypothesis
    if asked.claim:
        yield say("The claim: {claim}", claim=(*quoted(cite(asked.claim, "hypothesis.claim")), "."))
    yield say(
        "What was tested: {arm} is {relation} {control} in {metric}.",
        arm=_arm(findings, asked.arm),
        relation=cite(RELATIONS.get(asked.expect, asked.expect), "hypothesis.expect"),
        control=_arm(findings, asked.control),
        metric=cite_metric(findings),
    )
    yield _margin(findings)


def _arm(findings: Findings, name: str) -> Sentence:
    """The arm's name, and in parentheses what it sets otherwise than its opponent."""
    arms = {arm.name: arm for arm in findings.experiment.arms}
    asked = findings.hypothesis
    sides: tuple[ArmFinding, ...] = tuple(arms[each] for each in (asked.arm, asked.control) if each in arms)
    told: Cited = cite_arm(findings, name)
    settings = cite_settings(findings, arms[name], sides) if name in arms else ()
    return say("{arm} ({settings})", arm=told, settings=settings) if settings else (told,)


def _margin(findings: Findings) -> Sentence:
    asked = findings.hypothesis
    if asked.margin == 0:
        return (cite("Any difference counts, however small.", "hypothesis.margin"),)
    return say(
        "The margin is {margin}: a smaller difference counts as none.",
        margin=cite(format_share(asked.margin), "hypothesis.margin"),
    )


ASKED = Teller(name="asked", title="What was asked", tell=_tell)
