"""The story: about ten sentences that say what was asked and done, what came out, why, how sure it is, and what to do.

Nothing is worked out anew, and a sentence asserts no more than the interval that it is about.
"""

from collections.abc import Iterator

from pgtrial.experiment_file.hypothesis_table import Expect
from pgtrial.findings.findings import ArmFinding, Findings
from pgtrial.findings.message import say as say_message
from pgtrial.findings.record import ALL
from pgtrial.language import N_, ntr, tr
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.cause_words import causes_of
from pgtrial.report.narrative.doubt import tell_doubt
from pgtrial.report.narrative.parts import (
    Cited,
    Paragraph,
    Placed,
    Sentence,
    Teller,
    cite,
    cite_arm,
    cite_change,
    cite_metric,
    cite_settings,
    close,
    enumerate_parts,
    find_placed,
    find_primary,
    join_parts,
    keep,
    quoted,
    say,
    source,
)
from pgtrial.report.narrative.worst import find_worst, name_worst, tell_doubt_of, tell_worst
from pgtrial.report.words import (
    METRIC_LABELS,
    change_text,
    goes_on,
    is_finished,
    metric_label,
    needed_text,
    workload_facts,
)
from pgtrial.units import format_share

_TESTED: dict[str, str] = {
    Expect.BETTER: N_("What was tested: {arm} is <expect>better than</expect> {control} in {metric}."),
    Expect.WORSE: N_("What was tested: {arm} is <expect>worse than</expect> {control} in {metric}."),
    Expect.NOT_WORSE: N_("What was tested: {arm} is <expect>not worse than</expect> {control} in {metric}."),
    Expect.EQUIVALENT: N_("What was tested: {arm} is <expect>equivalent to</expect> {control} in {metric}."),
    Expect.DIFFERENT: N_("What was tested: {arm} is <expect>different from</expect> {control} in {metric}."),
    Expect.LOWER: N_("What was tested: {arm} is <expect>lower than</expect> {control} in {metric}."),
    Expect.HIGHER: N_("What was tested: {arm} is <expect>higher than</expect> {control} in {metric}."),
}
_OTHER = N_("What was tested: {arm} is {relation} {control} in {metric}.")  # what only a newer version knows
_ALSO: dict[str, str] = {
    Expect.BETTER: N_("And: it is better in {metric}, with a margin of {margin}."),
    Expect.WORSE: N_("And: it is worse in {metric}, with a margin of {margin}."),
    Expect.NOT_WORSE: N_("And: it is not worse in {metric}, with a margin of {margin}."),
    Expect.EQUIVALENT: N_("And: it is equivalent in {metric}, with a margin of {margin}."),
    Expect.DIFFERENT: N_("And: it is different in {metric}, with a margin of {margin}."),
    Expect.LOWER: N_("And: it is lower in {metric}, with a margin of {margin}."),
    Expect.HIGHER: N_("And: it is higher in {metric}, with a margin of {margin}."),
}
_ALSO_OTHER = N_("And: {relation} in {metric}, with a margin of {margin}.")
_METHODS = {
    "blocks": N_("in a block every arm has one run, in random order"),
    "interleaved": N_("in a block the arms take turns, in short slices of random order"),
    "switchback": N_("in a block one server is switched back and forth between the arms, in random order"),
    "duet": N_("in a block the arms run at the same time, each on CPUs of its own, which they change half-way"),
}
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


def tell_story(findings: Findings) -> tuple[Paragraph, ...]:
    """The paragraphs that have something to say."""
    paragraphs = (
        Paragraph(name=teller.name, title=tr(teller.title), sentences=tuple(filter(None, teller.tell(findings))))
        for teller in TELLERS
    )
    return tuple(paragraph for paragraph in paragraphs if paragraph.sentences)


def next_step(findings: Findings) -> tuple[Sentence, ...]:
    """What to do now, in a sentence or two: finish, mend, take more blocks, or choose an arm, with what that costs."""
    chosen = tuple(_choice(findings)) if is_finished(findings) else ()
    return (*_step(findings), *(_costs(findings) if chosen else ()))


def _ask(findings: Findings) -> Iterator[Sentence]:
    asked = findings.hypothesis
    if asked.claim:
        yield say(tr("The claim: {claim}."), claim=quoted(cite(asked.claim, "hypothesis.claim")))
    yield say(
        tr(_TESTED.get(asked.expect, _OTHER)),
        arm=_describe_arm(findings, asked.arm),
        expect=source("hypothesis.expect"),
        relation=cite(asked.expect, "hypothesis.expect"),
        control=_describe_arm(findings, asked.control),
        metric=cite_metric(findings),
    )
    for number, part in enumerate(asked.parts[1:], start=1):
        place = f"hypothesis.parts[{number}]"
        yield say(
            tr(_ALSO.get(part.expect, _ALSO_OTHER)),
            relation=cite(part.expect, f"{place}.expect"),
            metric=cite(metric_label(part.metric), f"{place}.metric"),
            margin=cite(format_share(part.margin), f"{place}.margin"),
        )
    if asked.margin == 0:
        yield (cite(tr("Any difference counts, however small."), "hypothesis.margin"),)
    else:
        margin = cite(format_share(asked.margin), "hypothesis.margin")
        yield say(tr("The margin is {margin}: a smaller difference counts as none."), margin=margin)
    yield _describe_work(findings)


def _describe_arm(findings: Findings, name: str) -> Sentence:
    """The arm's name, and in parentheses what it sets otherwise than its opponent."""
    arms = {arm.name: arm for arm in findings.experiment.arms}
    asked = findings.hypothesis
    sides: tuple[ArmFinding, ...] = tuple(arms[side] for side in (asked.arm, asked.control) if side in arms)
    arm = cite_arm(findings, name)
    settings = cite_settings(findings, arms[name], sides) if name in arms else ()
    return say("{arm} ({settings})", arm=arm, settings=settings) if settings else (arm,)


def _describe_work(findings: Findings) -> Sentence:
    """The load, the blocks, and how arms share a block."""
    experiment = findings.experiment
    method = tr(_METHODS[experiment.method]) if experiment.method in _METHODS else experiment.method
    return say(
        ntr(
            "The load was {load}; {complete} of <planned>{count} block</planned> is complete, and {method}.",
            "The load was {load}; {complete} of <planned>{count} blocks</planned> are complete, and {method}.",
            experiment.blocks_planned,
            **keep("load", "complete", "method"),
        ),
        load=_describe_load(findings),
        complete=cite(str(experiment.blocks_complete), "experiment.blocks_complete"),
        planned=source("experiment.blocks_planned"),
        method=cite(method, "experiment.method"),
    )


def _describe_load(findings: Findings) -> Sentence:
    experiment, facts = findings.experiment, workload_facts(findings)
    levels: list[Sentence] = [
        (cite(level.label.say(), f"experiment.levels[{number}].label.text"),)
        for number, level in enumerate(experiment.levels)
    ]
    if "scenarios" not in facts:
        return enumerate_parts(levels) if levels else (tr("not recorded"),)
    load: Sentence = (cite(facts["scenarios"], "experiment.workload.scenarios"),)
    if levels:
        load = say(tr("{load} with {levels}"), load=load, levels=enumerate_parts(levels))
    if "duration" in facts:
        load = (*load, ", ", _cite_fact(findings, "duration"))
    return load


def _cite_fact(findings: Findings, name: str) -> Cited:
    """A fact of the load, which is a message or, in findings of version 1, a text."""
    fact = findings.experiment.workload[name]
    path = f"experiment.workload.{name}"
    return cite(say_message(fact), path if isinstance(fact, str) else f"{path}.text")


def _answer(findings: Findings) -> Iterator[Sentence]:
    asked = findings.hypothesis
    yield say(
        tr(_VERDICTS[asked.verdict]),
        verdict=source("hypothesis.verdict"),
        reason=cite(close(asked.reason.say()), "hypothesis.reason.text"),
    )
    yield tell_worst(findings)
    yield from _by_level(findings)
    if asked.verdict is not Verdict.INVALID:
        yield from _elsewhere(findings)
    yield from _other_arms(findings)
    causes = causes_of(findings)
    if causes.text:
        yield say(
            tr("Why, as the samples make it likely: {text}"), text=cite(close(causes.text.say()), "causes.text.text")
        )
    else:
        yield (tr("What was sampled does not tell why."),)


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
    """The other metrics of the claim's arm over all load levels, by what is sure of them all at once."""
    asked = findings.hypothesis
    by_decision: dict[Decision, list[Sentence]] = {}
    for metric in METRIC_LABELS:
        placed = find_placed(findings, arm=asked.arm, metric=metric, scenario=None, level=ALL)
        is_primary = (metric, None) == (asked.metric, asked.scenario)
        if placed is None or placed.effect.ratio is None or is_primary:
            continue
        label = placed.cite(metric_label(metric), "metric")
        decision = placed.effect.decision if placed.effect.sure else Decision.INCONCLUSIVE
        by_decision.setdefault(decision, []).append(
            say("{label} ({change})", label=label, change=placed.cite(change_text(placed.effect.ratio), "ratio"))
        )
    clauses = [
        say(tr(_DECIDED[decision]), metrics=enumerate_parts(by_decision[decision]))
        for decision in _DECIDED
        if decision in by_decision
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


def _advise(findings: Findings) -> Iterator[Sentence]:
    verdict = findings.hypothesis.verdict
    yield from _step(findings)
    if verdict is Verdict.INCONCLUSIVE:
        yield (tr("Until then the claim is open: an inconclusive result is no evidence that there is no difference."),)
    if verdict is not Verdict.INVALID:
        yield from _costs(findings)
    if verdict in {Verdict.SUPPORTED, Verdict.REFUTED} and is_finished(findings):
        yield (tr("Before production, repeat it with the load, the data and the machine that matter there."),)


def _step(findings: Findings) -> Iterator[Sentence]:
    verdict = findings.hypothesis.verdict
    if goes_on(findings):
        yield (tr("The experiment is not finished: “pgtrial resume” goes on from here."),)
    if verdict is Verdict.INVALID:
        yield (tr("Mend what makes the runs unable to answer, then run the experiment again."),)
    if verdict is Verdict.INCONCLUSIVE and needed_text(findings):
        yield (cite(needed_text(findings), "needed.text.text"),)
    if is_finished(findings):
        yield from _choice(findings)


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
    """The scenario that got worst, then what got worse over all of them; nothing of an arm that is not to be taken."""
    primary = find_primary(findings)
    if primary is not None and primary.effect.decision is Decision.WORSE:
        return
    worst = find_worst(findings)
    worse = [
        say(
            "{metric} {change}",
            metric=placed.cite(metric_label(placed.effect.metric), "metric"),
            change=placed.cite(change_text(placed.effect.ratio), "ratio"),
        )
        for placed in _find_worse(findings)
    ]
    if worst is not None:
        change = worst.cite(change_text(worst.effect.ratio), "ratio")
        first = say(
            "{metric} {change}{doubt}",
            metric=name_worst(findings, worst),
            change=change,
            doubt=tell_doubt_of(findings, worst),
        )
        worse.insert(0, first)
    if worse:
        yield say(tr("Weigh what it costs: {items}."), items=enumerate_parts(worse))


def _find_worse(findings: Findings) -> list[Placed]:
    """Metrics other than the claim's in which its arm is worse, over all scenarios and load levels."""
    asked, primary = findings.hypothesis, find_primary(findings)
    worse = []
    for metric in METRIC_LABELS:
        placed = find_placed(findings, arm=asked.arm, metric=metric, scenario=None, level=ALL)
        if placed is not None and placed.effect.decision is Decision.WORSE and placed.effect.sure and placed != primary:
            worse.append(placed)
    return worse


TELLERS: tuple[Teller, ...] = (
    Teller(name="asked", title=N_("What was asked"), tell=_ask),
    Teller(name="found", title=N_("What came out"), tell=_answer),
    Teller(name="certainty", title=N_("How sure it is"), tell=tell_doubt),
    Teller(name="next", title=N_("What to do next"), tell=_advise),
)
