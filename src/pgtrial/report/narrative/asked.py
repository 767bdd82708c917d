"""What was asked: the claim, and the test that was made of it."""

from collections.abc import Iterator

from pgtrial.analysis.findings import ArmFinding, Findings
from pgtrial.experiment_file.experiment import Expect
from pgtrial.language import mark, tr
from pgtrial.report.narrative.base import Cited, Sentence, Teller, cite, say, source
from pgtrial.report.narrative.phrases import cite_arm, cite_metric, cite_settings, quoted
from pgtrial.units import format_share

_TESTED: dict[str, str] = {
    Expect.BETTER: mark("What was tested: {arm} is <expect>better than</expect> {control} in {metric}."),
    Expect.WORSE: mark("What was tested: {arm} is <expect>worse than</expect> {control} in {metric}."),
    Expect.NOT_WORSE: mark("What was tested: {arm} is <expect>not worse than</expect> {control} in {metric}."),
    Expect.EQUIVALENT: mark("What was tested: {arm} is <expect>equivalent to</expect> {control} in {metric}."),
    Expect.DIFFERENT: mark("What was tested: {arm} is <expect>different from</expect> {control} in {metric}."),
}
_OTHER = mark("What was tested: {arm} is {relation} {control} in {metric}.")  # what only a newer version knows


def _tell(findings: Findings) -> Iterator[Sentence]:
    asked = findings.hypothesis
    if asked.claim:
        yield say(tr("The claim: {claim}."), claim=quoted(cite(asked.claim, "hypothesis.claim")))
    yield say(
        tr(_TESTED.get(asked.expect, _OTHER)),
        arm=_arm(findings, asked.arm),
        expect=source("hypothesis.expect"),
        relation=cite(asked.expect, "hypothesis.expect"),
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
        return (cite(tr("Any difference counts, however small."), "hypothesis.margin"),)
    return say(
        tr("The margin is {margin}: a smaller difference counts as none."),
        margin=cite(format_share(asked.margin), "hypothesis.margin"),
    )


ASKED = Teller(name="asked", title=mark("What was asked"), tell=_tell)
