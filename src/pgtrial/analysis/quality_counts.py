"""Check of how much there was to count: a throughput of a handful of transactions moves in steps."""

from collections.abc import Iterator

from pgtrial.analysis.assessment import Assessment
from pgtrial.analysis.slices import counted_seconds
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.findings.naming import name_level
from pgtrial.model.run import LoadLevel

FEWEST = 20  # transactions of a run at a load level, of which one more or less is 5 %


def check_counts(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Transactions that ended in the measured time, of the scenario and the two arms that the claim is about."""
    evidence = assessment.evidence
    scenario = evidence.experiment.hypothesis.scenario
    for level in evidence.levels:
        counts = _counts(assessment, level)
        empty = tuple(sorted(run for run, count in counts.items() if count == 0))
        label = name_level(level)
        if empty and scenario:
            yield caveat(
                "no-transactions.of-scenario",
                about=empty,
                level=label,
                scenario=scenario,
                runs=len(empty),
                of=len(counts),
            )
        elif empty:
            yield caveat("no-transactions", about=empty, level=label, runs=len(empty), of=len(counts))
        elif counts and (fewest := min(counts.values())) < FEWEST:
            step = 1 / fewest
            if scenario:
                yield caveat("few-transactions.of-scenario", level=label, scenario=scenario, count=fewest, step=step)
            else:
                yield caveat("few-transactions", level=label, count=fewest, step=step)


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
