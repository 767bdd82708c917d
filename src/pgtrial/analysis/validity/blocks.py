"""Checks of the design: are there enough blocks, are they alike, and does the placebo show no effect?"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from pgtrial.analysis.effects.claim import claims_of
from pgtrial.analysis.slices import counted_seconds
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.findings.message import message
from pgtrial.findings.naming import name_level
from pgtrial.findings.record import ALL
from pgtrial.model.caveat import Severity
from pgtrial.model.observable import OF_DEVICES
from pgtrial.model.run import LoadLevel, RunState
from pgtrial.model.verdict import Decision
from pgtrial.stats.dependence import ORDER_ALPHA, drift

MIN_BLOCKS = 2  # below, there is no interval at all
MIN_BLOCKS_FOR_DRIFT = 5
_READ_ONLY = (("on", "client"), ("on", "database user"))  # by libpq's options, or by the load's role
LONG_PAUSE = 600.0  # s between two runs of a block, and …
PAUSE_IN_RUNS = 3.0  # … in lengths of a run, beyond what repeating an invalid one takes


def check_blocks(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    if not evidence.valid:
        yield caveat("no-runs.all-failed", count=len(evidence.runs)) if evidence.runs else caveat("no-runs")
        return
    if _lacks_blocks(assessment):
        blocks, planned = len(evidence.pairs(evidence.hypothesis_arm)), _planned(assessment)
        yield caveat(
            "too-few-blocks.planned" if planned < MIN_BLOCKS else "too-few-blocks",
            fewest=MIN_BLOCKS,
            blocks=blocks,
            planned=planned,
        )


def check_soak(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A soak whose load was interrupted; its windows are in more than one stretch."""
    for arm in assessment.soak.arms if assessment.soak else ():
        if arm.stretches > 1:
            yield caveat("soak-interrupted", arm=arm.arm, done=arm.done, count=len(arm.windows))


def _lacks_blocks(assessment: Assessment) -> bool:
    if assessment.evidence.is_soak:
        return False
    return len(assessment.evidence.pairs(assessment.evidence.hypothesis_arm)) < MIN_BLOCKS


def _planned(assessment: Assessment) -> int:
    return len({slot.block for slot in assessment.evidence.slots})


def check_placebo(assessment: Assessment) -> Iterator[CaveatFinding]:
    """The placebo's true effect is zero, so what is found of it is error.

    An interval wholly beyond the margin means that these runs show effects that matter where there are none, so none
    of their effects can be believed. One that excludes 1 happens by chance with probability 1 - confidence: a warning.
    And a placebo that may differ by more than the margin has cleared nothing: it is clean where it is equivalent, by
    two one-sided tests. Without a margin the last two cannot be asked.
    """
    if assessment.placebo is None:
        return
    effect = assessment.placebo.effect
    if effect.low is None or effect.high is None or effect.ratio is None:
        return
    if effect.margin > 0 and effect.decision in (Decision.BETTER, Decision.WORSE):
        code = "placebo-effect.beyond-margin"
    elif not effect.low <= 1 <= effect.high:
        code = "placebo-effect"
    elif assessment.evidence.rules.proves_placebo and effect.margin > 0 and effect.decision is not Decision.EQUIVALENT:
        code = "placebo-unclear"
    else:
        return
    yield caveat(code, change=effect.ratio, low=effect.low, high=effect.high, margin=effect.margin)


def check_primary_effect(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What the comparison itself says of the effect that the claim is about, unless ``check_blocks`` has said it."""
    if assessment.primary is not None:
        lacks_blocks = _lacks_blocks(assessment)
        for caveat in assessment.primary.effect.caveats:
            if caveat.code != "no-interval" or not lacks_blocks:
                yield caveat


def check_carry_over(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What a run leaves for the next one, where it is in the interval."""
    if assessment.primary is None or (left := assessment.primary.effect.carry_over) is None:
        return
    comparison = assessment.primary.comparison
    if max(comparison.hidden) > comparison.step:
        yield caveat("left-for-next-run", arm=assessment.primary.effect.arm, change=left)


def check_completeness(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Runs of the schedule that are missing; but none is, once the rule for stopping has ended the experiment."""
    evidence = assessment.evidence
    if assessment.stopping is not None and assessment.stopping.ended is not None:
        return
    done = {run.slot.number for run in evidence.valid}
    missing = [slot for slot in evidence.slots if slot.number not in done]
    if missing and evidence.valid:
        yield caveat(
            "incomplete",
            missing=len(missing),
            slots=len(evidence.slots),
            complete=len(evidence.complete_blocks()),
            blocks=_planned(assessment),
        )


def check_invalid_runs(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    invalid = [run for run in evidence.runs if run.state in (RunState.INVALID, RunState.INTERRUPTED)]
    if invalid:
        by_arm = Counter(run.slot.arm for run in invalid)
        yield caveat(
            "invalid-runs.shared-time" if any(run.slices for run in evidence.valid) else "invalid-runs",
            about=(run.id for run in invalid),
            severity=None if any(run.state is RunState.INVALID for run in invalid) else Severity.INFO,
            invalid=len(invalid),
            runs=len(evidence.runs),
            by_arm=tuple(message("arm-count", arm=arm, number=number) for arm, number in by_arm.items()),
        )


def check_unequal_failures(assessment: Assessment) -> Iterator[CaveatFinding]:
    """One arm failed more often, or runs were cut off: what either may have done to the effect."""
    failures, primary = assessment.failures, assessment.primary
    if failures is None or primary is None:
        return
    control, treated = failures.arms
    is_bounded = failures.low is not None and failures.high is not None
    if failures.interrupted:
        yield caveat(
            "interrupted-runs" if is_bounded else "interrupted-runs.unbounded",
            count=failures.interrupted,
            control=control.arm,
            arm=treated.arm,
            low=failures.low,
            high=failures.high,
        )
    if control.failed * treated.attempts == treated.failed * control.attempts:
        return
    is_shared = any(run.slices for run in assessment.evidence.valid)
    bounded = "unequal-failures.shared-time" if is_shared else "unequal-failures"
    yield caveat(
        bounded if is_bounded else "unequal-failures.unbounded",
        control=control.arm,
        arm=treated.arm,
        failed=treated.failed,
        attempts=treated.attempts,
        failed_control=control.failed,
        attempts_control=control.attempts,
        p=failures.p_value,
        low=failures.low,
        high=failures.high,
    )


def check_torn_blocks(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Blocks that were interrupted and gone on with much later: what a block has in common no longer cancels in it."""
    times: dict[int, list[tuple[float, float]]] = {}
    for run in assessment.evidence.valid:
        if not run.slices and run.started is not None and run.ended is not None:
            times.setdefault(run.slot.block, []).append((run.started, run.ended))
    lengths = [end - start for block in times.values() for start, end in block]
    limit = max(LONG_PAUSE, PAUSE_IN_RUNS * float(np.median(lengths))) if lengths else 0.0
    found = {}
    for block, runs in times.items():
        in_order = sorted(runs)
        pause = max((later[0] - earlier[1] for earlier, later in pairwise(in_order)), default=0.0)
        if pause > limit:
            found[block] = pause
    if found:
        yield caveat("torn-blocks", count=len(found), pause=max(found.values()), blocks=tuple(map(str, sorted(found))))


def check_level_drift(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A trend of the control itself. Comparing inside blocks removes it, but it says that the world was changing."""
    level = _log_control(assessment)
    # The level of each host is its own, and blocks are of whichever was free.
    if len(level) < MIN_BLOCKS_FOR_DRIFT or assessment.evidence.is_soak or assessment.evidence.is_spread:
        return
    trend = drift(level)
    if trend.slope_per_block is not None and trend.p_value is not None and trend.p_value <= ORDER_ALPHA:
        yield caveat("level-drift", change=float(np.exp(trend.slope_per_block)))


def check_restore(assessment: Assessment) -> Iterator[CaveatFinding]:
    if assessment.evidence.is_soak:
        return
    restore = assessment.evidence.experiment.restore
    # Where the arms of a block share its time, each has data of its own, and a block is one run of each.
    is_each_run = restore == "each-run" or (
        restore == "each-block"
        and bool(assessment.evidence.valid)
        and all(run.slices for run in assessment.evidence.valid)
    )
    if not is_each_run and not _only_reads(assessment):
        is_own = assessment.evidence.experiment.target.database is not None
        if restore == "each-block":
            yield caveat("data-not-restored.own-database-each-block" if is_own else "data-not-restored.each-block")
        else:
            yield caveat("data-not-restored.own-database" if is_own else "data-not-restored")


def _only_reads(assessment: Assessment) -> bool:
    """Whether the load's sessions were made read-only, so that no run left anything behind."""
    settings = assessment.evidence.settings
    runs = [settings.get(run.id, {}) for run in assessment.evidence.valid]
    return bool(runs) and all(run.get("default_transaction_read_only") in _READ_ONLY for run in runs)


def _log_control(assessment: Assessment) -> list[float]:
    """Logarithms of the control's primary metric over all load levels, by block."""
    evidence = assessment.evidence
    if assessment.primary is None or evidence.control is None:
        return []
    effect = assessment.primary.effect
    found = [
        assessment.values.get((run.id, effect.metric, effect.scenario, ALL), 0.0)
        for run in evidence.runs_of(evidence.control.name)
    ]
    return [float(np.log(value)) for value in found if value > 0]


# Check of how much there was to count: a throughput of a handful of transactions moves in steps.


FEWEST = 20  # transactions of a run at a load level, of which one more or less is 5 %


def check_counts(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Transactions that ended in the measured time, of the claim's two arms and each scenario that it is about."""
    evidence = assessment.evidence
    claims = claims_of(evidence)
    for level in evidence.levels:
        for scenario in dict.fromkeys(claim.scenario for claim in claims):
            counts = _counts(assessment, level, scenario)
            asked = [claim.metric.name for claim in claims if claim.scenario == scenario]
            empty = tuple(
                sorted(
                    run
                    for run, count in counts.items()
                    if not count or not _is_told(assessment, run, level, scenario, asked)
                )
            )
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
            elif (
                counts and (fewest := min(counts.values())) < FEWEST and not _counts_parts(assessment, level, scenario)
            ):
                step = 1 / fewest
                if scenario:
                    yield caveat(
                        "few-transactions.of-scenario", level=label, scenario=scenario, count=fewest, step=step
                    )
                else:
                    yield caveat("few-transactions", level=label, count=fewest, step=step)


def _counts(assessment: Assessment, level: LoadLevel, scenario: str | None) -> dict[int, int]:
    """By the id of a run, more than zero as a whole one where any part of one was inside; none of runs whose number of
    transactions at the level is not known.
    """
    evidence = assessment.evidence
    control = evidence.control.name if evidence.control else ""
    return {
        run.id: math.ceil(round(rate * counted_seconds(run, level.index), 6))
        for run in evidence.valid
        if run.slot.arm in {control, evidence.hypothesis_arm}
        and (rate := assessment.values.get((run.id, evidence.load.throughput.name, scenario, level.index))) is not None
    }


def _is_told(assessment: Assessment, run: int, level: LoadLevel, scenario: str | None, metrics: Sequence[str]) -> bool:
    """Whether a run tells of the claimed ``metrics``: any part of a transaction is a throughput, but only one that
    ended has a time. A block without one would be left out of the effect on it, and those are the slow ones.
    """
    asked = assessment.evidence.load.times.intersection(metrics)
    return all((run, name, scenario, level.index) in assessment.values for name in asked)


def _counts_parts(assessment: Assessment, level: LoadLevel, scenario: str | None) -> bool:
    """Whether a throughput does not move in steps, as each transaction counts with the part of it that was inside."""
    evidence = assessment.evidence
    cells = [(run.id, level.index, scenario) for run in evidence.valid]
    known = [assessment.reduction.totals[cell] for cell in cells if cell in assessment.reduction.totals]
    return evidence.rules.counts_parts and all(totals.inside is not None for totals in known)


def check_device(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Of which device a claim is that names none."""
    evidence = assessment.evidence
    names = dict.fromkeys(claim.metric.name for claim in claims_of(evidence))
    asked = tuple(name for name in names if name.startswith(OF_DEVICES) and "/" not in name)
    by_arm = {
        arm.name: dict.fromkeys(filter(None, (assessment.devices.get(run.id) for run in evidence.runs_of(arm.name))))
        for arm in evidence.arms
    }
    known = {arm: tuple(devices) for arm, devices in by_arm.items() if devices}
    if not asked or not known:
        return
    if len(set(known.values())) == 1:
        devices = next(iter(known.values()))
    else:
        devices = tuple(f"{device} ({arm})" for arm, found in known.items() for device in found)
    yield caveat("claimed-device", metrics=asked, devices=devices)


def check_engagement(assessment: Assessment) -> Iterator[CaveatFinding]:
    idle = tuple(each.text for each in assessment.engagements if each.state == "idle")
    if idle:
        everything = len(idle) == len(assessment.engagements)
        yield caveat("not-engaged" if everything else "not-engaged.some", why=idle)
