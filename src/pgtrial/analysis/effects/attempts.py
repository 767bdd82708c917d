"""Attempts of arms that failed or were cut off, as far as they bear on effects."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgtrial.analysis.evidence import Evidence
from pgtrial.model.run import RunRow, RunState
from pgtrial.stats.failures import ALLOWANCE, Attempts, excess_share, fails_more, interrupted_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """Attempts of the control and of an arm, without those that were ``interrupted``. ``share`` of the runs may be
    missing from one end, for failures in excess and for interruptions. Where it ``decides``, one of the two failed so
    much more often, or so many runs were interrupted, that the good ones allow no decision.
    """

    control: Attempts
    treated: Attempts
    interrupted: int
    share: float
    decides: bool


def find_excess(evidence: Evidence, arm: str) -> Excess | None:
    """None where no attempt of the control or the arm failed or was cut off, or the rules do not count failures.

    Runs that share the time of a block fail together: which arm failed is not known, and it is taken that it was
    always the same. They are cut off together as well. What comes after the last block of an arm says nothing of it.
    """
    if evidence.control is None or not evidence.rules.counts_failures:
        return None
    names, last = (evidence.control.name, arm), evidence.settled.get(arm, math.inf)
    runs = [run for run in evidence.runs if run.slot.arm in names and run.slot.block <= last]
    cut_off = [run.slot.arm for run in runs if run.state is RunState.INTERRUPTED]
    control, treated = (_attempts(runs, name, counted=_counted(evidence, name, cut_off)) for name in names)
    interrupted = len(cut_off) if evidence.rules.bounds_interruptions else 0
    if any(run.slices for run in evidence.valid):
        if not evidence.rules.weighs_failures:
            return None
        control = Attempts(made=control.made - control.failed, failed=0)
        interrupted = min(interrupted, cut_off.count(arm))
    if control.failed + treated.failed + interrupted == 0:
        return None
    fails = fails_more(control, treated, weighs_lone=evidence.rules.weighs_lone_failures)
    share = min(1.0, excess_share(control, treated) + interrupted_share(interrupted, len(evidence.pairs(arm))))
    return Excess(
        control=control,
        treated=treated,
        interrupted=interrupted,
        share=share,
        decides=evidence.rules.weighs_failures and (share == 1 or fails),
    )


def count_failed(evidence: Evidence, arm: str) -> int:
    """Attempts of an arm that failed; those that were cut off say nothing of it."""
    return _attempts(evidence.runs, arm, counted=False).failed


def count_interrupted(evidence: Evidence, arm: str) -> int:
    """Attempts of an arm that were cut off, up to its last block."""
    last = evidence.settled.get(arm, math.inf)
    cut_off = (run for run in evidence.runs if run.state is RunState.INTERRUPTED and run.slot.block <= last)
    return sum(run.slot.arm == arm for run in cut_off)


def _counted(evidence: Evidence, arm: str, cut_off: Sequence[str]) -> bool:
    """Whether interruptions count as failures, by rules that do not bound them otherwise."""
    if evidence.rules.bounds_interruptions:
        return False
    stopped = len(cut_off) if evidence.rules.bears_failures else cut_off.count(arm)
    return evidence.rules.weighs_failures and stopped > ALLOWANCE


def _attempts(runs: Sequence[RunRow], arm: str, *, counted: bool) -> Attempts:
    ended = [run.state for run in runs if run.slot.arm == arm]
    failed = ended.count(RunState.INVALID) + (ended.count(RunState.INTERRUPTED) if counted else 0)
    return Attempts(made=ended.count(RunState.DONE) + failed, failed=failed)
