"""Check of how much there was to count: a throughput of a handful of transactions moves in steps."""

from collections.abc import Iterator

from pgtrial.analysis.assessment import Assessment
from pgtrial.analysis.findings import CaveatFinding
from pgtrial.analysis.slices import counted_seconds
from pgtrial.language import mark, tr
from pgtrial.model.caveat import Severity
from pgtrial.model.run import LoadLevel
from pgtrial.units import format_percent

FEWEST = 20  # transactions of a run at a load level, of which one more or less is 5 %
_HINT = mark("Measure longer at each load level, with fewer clients, or with data that make a transaction shorter.")


def check_counts(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Transactions that ended in the measured time, of the scenario and the two arms that the claim is about."""
    evidence = assessment.evidence
    scenario = evidence.experiment.hypothesis.scenario
    for level in evidence.levels:
        counts = _counts(assessment, level)
        empty = tuple(sorted(run for run, count in counts.items() if count == 0))
        if empty:
            yield CaveatFinding(
                code="no-transactions",
                severity=Severity.INVALID,
                text=_none_text(level.label, scenario, len(empty), len(counts)),
                hint=tr(_HINT),
                runs=empty,
            )
        elif counts and min(counts.values()) < FEWEST:
            fewest = min(counts.values())
            yield CaveatFinding(
                code="few-transactions",
                severity=Severity.WARNING,
                text=_few_text(level.label, scenario, fewest),
                hint=tr(_HINT),
            )


def _counts(assessment: Assessment, level: LoadLevel) -> dict[int, int]:
    """By the id of a run; none of runs whose number of transactions at the level is not known."""
    evidence = assessment.evidence
    control = evidence.control.name if evidence.control else ""
    name, scenario = evidence.load.throughput.name, evidence.experiment.hypothesis.scenario
    return {
        run.id: round(rate * counted_seconds(run, level.index))
        for run in evidence.valid
        if run.slot.arm in {control, evidence.hypothesis_arm}
        and (rate := assessment.values.get((run.id, name, scenario, level.index))) is not None
    }


def _none_text(level: str, scenario: str | None, runs: int, of: int) -> str:
    if scenario:
        return tr(
            "At {level} no transaction of {scenario} ended within the measured time in {runs} of {of} runs.",
            level=level,
            scenario=scenario,
            runs=runs,
            of=of,
        )
    return tr(
        "At {level} no transaction ended within the measured time in {runs} of {of} runs.",
        level=level,
        runs=runs,
        of=of,
    )


def _few_text(level: str, scenario: str | None, count: int) -> str:
    step = format_percent(1 / count)
    if scenario:
        return tr(
            "At {level} as few as {count} transactions of {scenario} ended within the measured time of a run: one "
            "more or less is {step}.",
            level=level,
            scenario=scenario,
            count=count,
            step=step,
        )
    return tr(
        "At {level} as few as {count} transactions ended within the measured time of a run: one more or less is "
        "{step}.",
        level=level,
        count=count,
        step=step,
    )
