"""What to do next: finish, take more blocks, mend what makes numbers untrue, weigh what it costs, go to production."""

from collections.abc import Iterator

from pgtrial.findings.findings import Findings
from pgtrial.language import N_, tr
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.cause_words import causes_of
from pgtrial.report.narrative.base import Sentence, Teller, cite, enumerate_parts, find_primary, say
from pgtrial.report.narrative.found import find_worse
from pgtrial.report.narrative.phrases import cite_arm, close
from pgtrial.report.terms import goal_word
from pgtrial.report.words import change_text, is_finished, metric_label, needed_text

_MOST_HINTS = 3


def _tell(findings: Findings) -> Iterator[Sentence]:
    verdict = findings.hypothesis.verdict
    if not is_finished(findings):
        yield (tr("Finish the experiment: “pgtrial resume” goes on from here."),)
    if verdict is Verdict.INVALID:
        yield (tr("Mend what makes the runs unable to answer, then run the experiment again."),)
    if verdict is Verdict.INCONCLUSIVE and needed_text(findings):
        yield (cite(needed_text(findings), "needed.text.text"),)
        yield (tr("Until then the claim is open: an inconclusive result is no evidence that there is no difference."),)
    yield from _choice(findings)
    if verdict is not Verdict.INVALID:
        yield from _costs(findings)
    yield from _hints(findings)
    if verdict is not Verdict.INVALID:
        yield from _recommendations(findings)
    if verdict in {Verdict.SUPPORTED, Verdict.REFUTED}:
        yield (tr("Before production, repeat it with the load, the data and the machine that matter there."),)


def _choice(findings: Findings) -> Iterator[Sentence]:
    """Which of the two arms the effect speaks for."""
    asked, primary = findings.hypothesis, find_primary(findings)
    if asked.verdict not in {Verdict.SUPPORTED, Verdict.REFUTED} or primary is None:
        return
    arm, control = cite_arm(findings, asked.arm), cite_arm(findings, asked.control)
    match primary.effect.decision:
        case Decision.BETTER:
            yield say(tr("For this load prefer {arm} to {control}."), arm=arm, control=control)
        case Decision.WORSE:
            yield say(tr("For this load stay with {control}; {arm} is worse."), arm=arm, control=control)
        case Decision.EQUIVALENT:
            yield say(
                tr("For this load choose between {arm} and {control} by something else: they do not differ by enough."),
                arm=arm,
                control=control,
            )
        case Decision.INCONCLUSIVE:
            pass  # a one-sided claim can be decided without it


def _costs(findings: Findings) -> Iterator[Sentence]:
    worse = [
        say(
            "{metric} {change}",
            metric=placed.cite(metric_label(placed.effect.metric), "metric"),
            change=placed.cite(change_text(placed.effect.ratio), "ratio"),
        )
        for placed in find_worse(findings)
    ]
    if worse:
        yield say(tr("Weigh what it costs: {items}."), items=enumerate_parts(worse))


def _hints(findings: Findings) -> Iterator[Sentence]:
    """What the graver caveats advise, each advice once."""
    seen: set[str] = set()
    for number, caveat in enumerate(findings.caveats):
        is_new = caveat.severity is not Severity.INFO and caveat.hint and caveat.hint not in seen
        if is_new and len(seen) < _MOST_HINTS:
            seen.add(caveat.hint)
            yield say(tr("A caveat advises: {hint}"), hint=cite(close(caveat.hint), f"caveats[{number}].hint"))


def _recommendations(findings: Findings) -> Iterator[Sentence]:
    scorecard = causes_of(findings).scorecard
    if scorecard is None:
        return
    for number, found in enumerate(scorecard.recommendations):
        path = f"causes.scorecard.recommendations[{number}]"
        yield say(
            tr("Recommended for {goal}: {text}"),
            goal=cite(tr("“{text}”", text=goal_word(found.goal)), f"{path}.goal"),
            text=cite(close(found.text.say()), f"{path}.text.text"),
        )
    if scorecard.trade_off:
        yield say(
            tr("The trade-off: {text}"), text=cite(close(scorecard.trade_off.say()), "causes.scorecard.trade_off.text")
        )


NEXT = Teller(name="next", title=N_("What to do next"), tell=_tell)
