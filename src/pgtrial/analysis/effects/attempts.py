"""Attempts of arms that failed, as far as they bear on effects: how many more of one arm than of the control."""

from dataclasses import dataclass

from pgtrial.analysis.evidence import Evidence
from pgtrial.model.run import RunState
from pgtrial.stats.failures import ALLOWANCE, Attempts, excess_share, fails_more


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """Attempts of the control and of an arm. ``share`` of the runs is that of failures in excess; where it ``decides``,
    one of the two failed so much more often that its good runs allow no decision.
    """

    control: Attempts
    treated: Attempts
    share: float
    decides: bool


def find_excess(evidence: Evidence, arm: str) -> Excess | None:
    """None where no attempt of the control or the arm failed, or the rules do not count failures.

    Runs that share the time of a block fail together: which arm failed is not known, and it is taken that it was
    always the same.
    """
    if evidence.control is None or not evidence.rules.counts_failures:
        return None
    names = evidence.control.name, arm
    control, treated = (_attempts(evidence, name, counted=_counted(evidence, name, names)) for name in names)
    if any(run.slices for run in evidence.valid):
        if not evidence.rules.weighs_failures:
            return None
        control = Attempts(made=control.made - control.failed, failed=0)
    if control.failed + treated.failed == 0:
        return None
    return Excess(
        control=control,
        treated=treated,
        share=excess_share(control, treated),
        decides=evidence.rules.weighs_failures and fails_more(control, treated),
    )


def _counted(evidence: Evidence, arm: str, both: tuple[str, str]) -> bool:
    """Whether interruptions count. Who stops an experiment often, or has it killed, chooses attempts as failures do."""
    among = both if evidence.rules.bears_failures else (arm,)
    stopped = sum(run.state is RunState.INTERRUPTED and run.slot.arm in among for run in evidence.runs)
    return evidence.rules.weighs_failures and stopped > ALLOWANCE


def _attempts(evidence: Evidence, arm: str, *, counted: bool) -> Attempts:
    ended = [run.state for run in evidence.runs if run.slot.arm == arm]
    failed = ended.count(RunState.INVALID) + (ended.count(RunState.INTERRUPTED) if counted else 0)
    return Attempts(made=ended.count(RunState.DONE) + failed, failed=failed)
