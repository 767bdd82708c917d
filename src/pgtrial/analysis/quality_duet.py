"""Checks of arms that ran at the same time: are their CPUs alike, and does a device that they share hold them up."""

import math
from collections.abc import Iterator

import numpy as np

from pgtrial.analysis.assessment import Assessment
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.slices import slices_of, windows
from pgtrial.design.methods import plan_steps, recorded_choice, turn_seed
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.findings.message import message
from pgtrial.model.run import RunRow

DUET = "duet"
IO_SHARE = 0.25  # of the active sessions
CPU_SET_CHANGE = 0.05
_WAL_LOCK = ("LWLock", "WALWrite")  # held by the session that writes the WAL; the others wait for the device with it


def check_cpu_sets(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Half of what the log ratio differs by when the arms have exchanged their CPUs is the log ratio of the speeds of
    the two sets; the median over the blocks is told.
    """
    evidence = assessment.evidence
    if not is_duet(evidence) or evidence.control is None or len(evidence.arms) != 2:
        return
    found = [
        ratio
        for control, run in evidence.pairs(evidence.arms[1].name)
        for window in windows(run)
        if (ratio := _compare_sets(assessment, control, run, window.level)) is not None
    ]
    if len(found) >= 2 and (typical := math.exp(abs(float(np.median(found))))) > 1 + CPU_SET_CHANGE:
        yield caveat("unequal-cpus", change=typical)


def _compare_sets(assessment: Assessment, control: RunRow, run: RunRow, level: int) -> float | None:
    """Log ratio of the speeds of the first and the second set of CPUs in a block; None where it is not known."""
    evidence, ratios = assessment.evidence, _log_ratios(assessment, control, run, level)
    design, block = evidence.experiment.design, run.slot.block
    steps = plan_steps(
        recorded_choice(evidence.meta),
        sorted(arm.name for arm in evidence.arms),
        seconds=evidence.experiment.workload.duration,
        seed=turn_seed(design.seed, block, level),
        block=block,
    )
    on_first: list[float] = []
    on_second: list[float] = []
    for ratio, each in zip(ratios or (), slices_of(run, level), strict=False):
        (on_first if steps[each.number].arms[0] == run.slot.arm else on_second).append(ratio)
    if not on_first or not on_second:
        return None
    return float(np.mean(on_first) - np.mean(on_second)) / 2


def _log_ratios(assessment: Assessment, control: RunRow, run: RunRow, level: int) -> list[float] | None:
    """Log ratio of throughput in each slice that both runs have at the same place."""
    found = []
    for each in (control, run):
        parts = assessment.reduction.parts.get((each.id, level))
        seconds = np.array([one.seconds for one in slices_of(each, level)])
        if parts is None or not (seconds > 0).all() or not (parts.sum(axis=1) > 0).all():
            return None
        found.append(np.log(parts.sum(axis=1) / seconds))
    return (found[1] - found[0]).tolist() if found[0].shape == found[1].shape else None


def check_shared_device(assessment: Assessment) -> Iterator[CaveatFinding]:
    """At the same time on one device, each arm waits for the other's requests: an effect on them looks smaller."""
    evidence = assessment.evidence
    if not is_duet(evidence):
        return
    shares = {}
    for arm in evidence.arms:
        waits = [
            wait
            for run in evidence.runs_of(arm.name)
            for window in windows(run)
            for wait in assessment.reduction.waits.get((run.id, window.level), ())
        ]
        total = sum(wait.sessions for wait in waits)
        for_device = sum(
            wait.sessions for wait in waits if wait.wait_type == "IO" or (wait.wait_type, wait.wait_event) == _WAL_LOCK
        )
        if total > 0:
            shares[arm.name] = for_device / total
    if shares and max(shares.values()) > IO_SHARE:
        yield caveat(
            "shared-device",
            shares=tuple(message("arm-waits", arm=arm, share=share) for arm, share in shares.items()),
        )


def is_duet(evidence: Evidence) -> bool:
    return evidence.meta.get("method", evidence.experiment.design.method) == DUET
