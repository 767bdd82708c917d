"""Findings to what a pipeline goes by: the verdict of its gate, and what passed, failed, or was not decided.

The rule. Only the claim can fail a gate; what nobody claimed cannot be broken.

- The claim passes if it is supported. Refuted is a failure; so is inconclusive, for what was not shown has not passed,
  and with it what was not tested, as nothing that the arms set had anything to act on; invalid is an error. As long as
  the schedule is not finished the claim is inconclusive: its interval holds at the end of the schedule or at a planned
  look, not whenever somebody comes to look (see docs/statistics.md).
- A schedule that is not finished is an error of its own.
- A placebo that differs from its control is a failure, because its true effect is known to be zero.
- Any other effect and any declared criterion passes once it is known, whichever way it goes, and is skipped until then.

It is written as JUnit XML, as Jenkins, GitLab, Azure and the actions of GitHub read it: one test suite for the
experiment, one test case for the claim and for each thing of the gate. Figures are properties of the suite, as
"KEY ratio": the schema of Jenkins allows them nowhere else. What a person reads of a case is its output. Source:
junit-10.xsd of Jenkins' xUnit plugin; "Unit test reports" of GitLab's documentation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from xml.etree import ElementTree as ET

from pgtrial.experiment_file.criteria import CRITERIA
from pgtrial.findings.causes import WEIGHTED, CriterionValue
from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.message import say
from pgtrial.findings.record import parts_of
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.cause_words import causes_of
from pgtrial.report.summary_words import effects_by_level, overall_effects
from pgtrial.report.words import (
    arm_label,
    change_cells,
    claim_text,
    effect_text,
    effect_word,
    format_p,
    goes_on,
    is_finished,
    level_label,
    metric_label,
    p_of,
    placebo_arm,
    plural,
    primary_effect,
    sort_caveats,
)
from pgtrial.safe_text import make_visible
from pgtrial.units import format_share


class CaseResult(StrEnum):
    """``failed``: it is not so; ``broken``: it cannot be told, by a fault; ``skipped``: it is not told yet."""

    PASSED = "passed"
    FAILED = "failed"
    BROKEN = "broken"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCase:
    """One thing that is looked at. ``kind`` and ``message`` say why it did not pass; ``text`` is for whoever opens it.

    ``key`` is the same from run to run and no other case of an experiment has it; ``figures`` are numbers and words
    for programs: ratios to the control, p-values, blocks.
    """

    key: str
    name: str
    outcome: CaseResult
    kind: str = ""
    message: str = ""
    text: str = ""
    figures: Mapping[str, str] = field(default_factory=dict)


def gate_verdict(findings: Findings) -> Verdict:
    """The verdict on the claim; inconclusive where it is given on an experiment that is not finished."""
    verdict = findings.hypothesis.verdict
    return verdict if verdict is Verdict.INVALID or is_finished(findings) else Verdict.INCONCLUSIVE


def gate_word(findings: Findings) -> str:
    """That verdict; "not tested" where that is why there is none."""
    return "not tested" if findings.hypothesis.not_tested else str(gate_verdict(findings))


def as_gated(findings: Findings) -> Findings:
    """The same with the gate's verdict, on each part of the claim, too: words about an effect go by it."""
    asked = findings.hypothesis
    if is_finished(findings) or asked.verdict is Verdict.INVALID:
        return findings
    early = {"verdict": gate_verdict(findings)}
    parts = tuple(part.model_copy(update=early) for part in asked.parts)
    return findings.model_copy(update={"hypothesis": asked.model_copy(update={**early, "parts": parts})})


def unfinished_text(findings: Findings) -> str:
    """ "3 of 6 blocks complete"; "" of a finished experiment."""
    if is_finished(findings):
        return ""
    experiment = findings.experiment
    return f"{experiment.blocks_complete} of {plural(experiment.blocks_planned, 'block')} complete"


def list_cases(findings: Findings) -> tuple[GateCase, ...]:
    """The claim first, then what it stands on, then what else was found."""
    return (_claim(findings), _schedule(findings), *_effects(findings), *_criteria(findings))


def _claim(findings: Findings) -> GateCase:
    verdict = gate_verdict(findings)
    reason = say(findings.hypothesis.reason)
    if verdict is not findings.hypothesis.verdict:
        reason = f"The experiment is not finished: {unfinished_text(findings)}. So far: {reason}"
    outcome = {Verdict.SUPPORTED: CaseResult.PASSED, Verdict.INVALID: CaseResult.BROKEN}.get(verdict, CaseResult.FAILED)
    passed = outcome is CaseResult.PASSED
    effect = primary_effect(findings)
    return GateCase(
        key="claim",
        name=f"claim: {claim_text(findings)}",
        outcome=outcome,
        kind="" if passed else gate_word(findings),
        message="" if passed else reason,
        text="\n".join([reason, *_caveat_lines(findings)]),
        figures={"verdict": str(verdict), **(_figures(findings, effect) if effect is not None else {})},
    )


def _caveat_lines(findings: Findings) -> Iterator[str]:
    for caveat in sort_caveats(findings.caveats):
        if caveat.severity is not Severity.INFO:
            yield f"{caveat.severity}: {caveat.text}" + (f" {caveat.hint}" if caveat.hint else "")


def _schedule(findings: Findings) -> GateCase:
    experiment, missing = findings.experiment, unfinished_text(findings)
    return GateCase(
        key="schedule",
        name="schedule: every planned run is done",
        outcome=CaseResult.BROKEN if missing else CaseResult.PASSED,
        kind="unfinished" if missing else "",
        message=f"{missing}; {_how_it_goes_on(findings)}" if missing else "",
        figures={"blocks": str(experiment.blocks_complete), "blocks planned": str(experiment.blocks_planned)},
    )


def _how_it_goes_on(findings: Findings) -> str:
    return '"pgtrial resume" goes on' if goes_on(findings) else "a guardrail has ended it"


def _effects(findings: Findings) -> Iterator[GateCase]:
    """The effects that the summary of the terminal shows, less the claim's own."""
    placebo, claimed = placebo_arm(findings), primary_effect(findings)
    levels = effects_by_level(findings) if len(findings.experiment.levels) > 1 else []
    for effect in (*overall_effects(findings), *levels):
        if effect is claimed:
            continue
        is_placebo = effect.arm == placebo
        is_alarm = is_placebo and effect.decision in {Decision.BETTER, Decision.WORSE}
        outcome = CaseResult.FAILED if is_alarm else _outcome_of(findings, effect)
        what = metric_label(effect.metric, effect.scenario)
        where, line = level_label(findings, effect.load_level), _effect_line(findings, effect)
        yield GateCase(
            key=".".join(
                ("effect", effect.arm, effect.metric, *([effect.scenario] if effect.scenario else []), _level(effect))
            ),
            name=f"{'placebo' if is_placebo else 'effect'}: {what} of {arm_label(findings, effect.arm)}, {where}",
            outcome=outcome,
            kind={CaseResult.FAILED: "false alarm", CaseResult.SKIPPED: _word(findings, effect)}.get(outcome, ""),
            message="" if outcome is CaseResult.PASSED else _alarm_text(line) if is_alarm else line,
            text=line,
            figures=_figures(findings, effect),
        )


def _alarm_text(line: str) -> str:
    """Of this metric and load level: what placebo_text() says is about the claim's."""
    return f"A difference was found where there is none, so the others are in doubt: {line}"


def _level(effect: Effect) -> str:
    return effect.load_level if isinstance(effect.load_level, str) else f"level{effect.load_level}"


def _word(findings: Findings, effect: Effect) -> str:
    """What is decided of an effect, as the summary has it: of the claim's own effects, what the gate's verdict says."""
    return effect_word(as_gated(findings), effect)


def _outcome_of(findings: Findings, effect: Effect) -> CaseResult:
    is_open = effect.ratio is None or _word(findings, effect) == Decision.INCONCLUSIVE
    return CaseResult.SKIPPED if is_open else CaseResult.PASSED


def _effect_line(findings: Findings, effect: Effect) -> str:
    return (
        f"{effect_text(effect)}, p {format_p(p_of(effect))}, {plural(effect.blocks, 'block')}, "
        f"margin ±{format_share(effect.margin)}: {_word(findings, effect)}"
    )


def _figures(findings: Findings, effect: Effect) -> dict[str, str]:
    numbers = {"ratio": effect.ratio, "low": effect.low, "high": effect.high, "p": p_of(effect)}
    return {
        **{name: f"{value:.6g}" for name, value in numbers.items() if value is not None},
        "confidence": f"{effect.confidence:g}",
        "margin": f"{effect.margin:g}",
        "blocks": str(effect.blocks),
        "decision": _word(findings, effect),
    }


def _criteria(findings: Findings) -> Iterator[GateCase]:
    """What the file declared to score arms by; no verdict is about it."""
    card = causes_of(findings).scorecard
    if card is None or all(each.goal != WEIGHTED for each in card.recommendations):
        return
    for arm in card.arms:
        if arm.arm == findings.hypothesis.control:
            continue
        for value in arm.values:
            known = CRITERIA.get(value.criterion)
            label = known.label if known is not None else metric_label(value.criterion)
            text = _criterion_line(value)
            yield GateCase(
                key=f"criterion.{arm.arm}.{value.criterion}",
                name=f"criterion: {label} of {arm_label(findings, arm.arm)}",
                outcome=CaseResult.PASSED if value.ratio is not None else CaseResult.SKIPPED,
                kind="" if value.ratio is not None else "not measured",
                message="" if value.ratio is not None else text,
                text=text,
                figures=_criterion_figures(value),
            )


def _criterion_line(value: CriterionValue) -> str:
    if value.ratio is None:
        return "not measured"
    change, interval = change_cells(*parts_of(value.ratio))
    return f"{change} (interval {interval}), {value.better} is better, weight {value.weight:g}"


def _criterion_figures(value: CriterionValue) -> dict[str, str]:
    ratio = value.ratio
    numbers = {} if ratio is None else {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}
    return {
        **{name: f"{number:.6g}" for name, number in numbers.items() if number is not None},
        "weight": f"{value.weight:g}",
        "better": value.better,
    }


# GitLab shows an element's content, Jenkins its attribute "message"; both get the same.
_ELEMENTS = {CaseResult.FAILED: "failure", CaseResult.BROKEN: "error", CaseResult.SKIPPED: "skipped"}


def render_junit(findings: Findings, *, gate: str = "") -> str:
    """The whole document. Characters that XML cannot hold, and those that steer a terminal, are written out.

    ``gate`` tells suites of experiments of one name apart.
    """
    cases = list_cases(findings)
    counted = {outcome: sum(case.outcome is outcome for case in cases) for outcome in CaseResult}
    experiment = findings.experiment
    took = 0.0
    if experiment.started is not None and experiment.ended is not None:
        took = max(0.0, experiment.ended - experiment.started)
    totals = {
        "tests": str(len(cases)),
        "failures": str(counted[CaseResult.FAILED]),
        "errors": str(counted[CaseResult.BROKEN]),
        "time": f"{took:.3f}",
    }
    root = ET.Element("testsuites", {"name": "pgtrial", **totals})
    name = _line(f"{experiment.name} ({gate})" if gate else experiment.name)
    suite = ET.SubElement(root, "testsuite", {"name": name, **totals, "skipped": str(counted[CaseResult.SKIPPED])})
    if experiment.started is not None:  # of UTC; the schemas allow no time zone
        suite.set("timestamp", datetime.fromtimestamp(experiment.started, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(findings, cases):
        ET.SubElement(properties, "property", {"name": _line(key), "value": _line(value)})
    for number, case in enumerate(cases):
        # The claim stands for all the time that was spent; whoever adds up the cases gets it once.
        _add_case(suite, case, classname=f"pgtrial.{name}", seconds=took if number == 0 else 0.0)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _properties(findings: Findings, cases: tuple[GateCase, ...]) -> list[tuple[str, str]]:
    asked, experiment = findings.hypothesis, findings.experiment
    return [
        ("pgtrial version", findings.pgtrial_version),
        ("arm", asked.arm),
        ("control", asked.control),
        ("metric", asked.metric),
        ("expect", asked.expect),
        ("method", experiment.method),
        *((f"target {name}", value) for name, value in experiment.target.items() if name == "postgres version"),
        *((f"{case.key} {name}", value) for case in cases for name, value in case.figures.items()),
    ]


def _add_case(suite: ET.Element, case: GateCase, *, classname: str, seconds: float) -> None:
    element = ET.SubElement(
        suite, "testcase", {"name": _line(case.name), "classname": classname, "time": f"{seconds:.3f}"}
    )
    if case.outcome in _ELEMENTS:
        message = _line(case.message)
        found = ET.SubElement(element, _ELEMENTS[case.outcome], {"message": message, "type": case.kind})
        found.text = message
    if case.text:
        ET.SubElement(element, "system-out").text = make_visible(case.text, keep="\n")


def _line(text: str) -> str:
    """On one line, as an attribute holds it."""
    return make_visible(" ".join(text.split()))
