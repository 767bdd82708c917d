"""Checks of runs that shared the time of a block: did the turns go as planned, and do the arms disturb each other.

Sources of the thresholds: none of them decides a verdict; each is where a disturbance would show beside a margin of a
few percent.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from pgtrial.analysis.assessment import Assessment
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.findings import CaveatFinding
from pgtrial.analysis.quality_runs import CHECKPOINT_DIFFERENCE, count_checkpoints, unequal_checkpoints
from pgtrial.analysis.slices import slices_of, windows
from pgtrial.design.methods import plan_steps, recorded_choice, turn_seed
from pgtrial.model.caveat import Severity
from pgtrial.model.run import RunRow
from pgtrial.units import format_change, format_duration, format_percent

DUET = "duet"
LENGTH_DIFFERENCE = 0.2  # of a slice's length, relative to the others of its level or to the plan …
LEAST_DIFFERENCE = 0.1  # … and in seconds, below which it is the scheduler's usual delay
SLOW_SHARE = 0.25  # of the median throughput of a run's slices
AUTOVACUUM_WORKERS = 0.05  # on average over the polls
IO_SHARE = 0.25  # of the active sessions
CPU_SET_CHANGE = 0.05
MOST_SLICE = 60.0  # s, in an experiment file
_WAL_LOCK = ("LWLock", "WALWrite")  # held by the session that writes the WAL; the others wait for the device with it


def check_shared_counters(assessment: Assessment) -> Iterator[CaveatFinding]:
    if sliced(assessment.evidence):
        yield CaveatFinding(
            code="no-host-costs",
            severity=Severity.INFO,
            text="The arms of a block shared its time, so what only the machine as a whole counts (CPU time, context "
            "switches, requests to devices) cannot be told apart by arm: these costs are left out.",
            hint='To compare them, use method = "blocks".',
        )


def check_slice_lengths(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A machine that stalled, a clock that was set, or a switch that took long, all show in the length of slices."""
    evidence = assessment.evidence
    found = {run.id: number for run in sliced(evidence) if (number := _uneven(evidence, run))}
    if found:
        worst = max(
            abs(each.ended - each.started - _usual(evidence, run, each.level))
            for run in sliced(evidence)
            if run.id in found
            for each in run.slices
        )
        yield CaveatFinding(
            code="uneven-slices",
            severity=Severity.WARNING,
            text=f"{_several(sum(found.values()), 'slice')} in {_several(len(found), 'run')} "
            f"{'was' if sum(found.values()) == 1 else 'were'} shorter or longer than planned, by up to "
            f"{format_duration(worst)}: the machine stalled, or its clock was set.",
            hint="Look at these blocks in the list of effects; run on a machine that does not pause, with a clock that "
            "is steered instead of set.",
            runs=tuple(found),
        )


def _uneven(evidence: Evidence, run: RunRow) -> int:
    return sum(
        abs(each.ended - each.started - usual) > max(LEAST_DIFFERENCE, LENGTH_DIFFERENCE * usual)
        or not each.started <= each.counted < each.ended
        for each in run.slices
        for usual in (_usual(evidence, run, each.level),)
    )


def _usual(evidence: Evidence, run: RunRow, level: int) -> float:
    """The usual length of a slice: the median of those of all blocks that have as many of them."""
    number = len(slices_of(run, level))
    slices = [slices_of(other, level) for other in sliced(evidence)]
    return float(np.median([one.ended - one.started for each in slices if len(each) == number for one in each]))


def check_slow_slices(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Nothing is dropped for it: what slows all arms down cancels, and what hits one widens the interval."""
    evidence = assessment.evidence
    slow = {run.id: number for run in sliced(evidence) if (number := _slow(assessment, run))}
    if slow:
        yield CaveatFinding(
            code="slow-slices",
            severity=Severity.INFO,
            text=f"In {_several(sum(slow.values()), 'slice')} of {_several(len(slow), 'run')} throughput was below "
            f"{format_percent(SLOW_SHARE)} of the median of the run's slices: the machine was disturbed for moments. "
            "The slices count; the short turns let such moments fall on all arms.",
            runs=tuple(slow),
        )


def _slow(assessment: Assessment, run: RunRow) -> int:
    number = 0
    for window in windows(run):
        parts = assessment.reduction.parts.get((run.id, window.level))
        seconds = np.array([each.seconds for each in slices_of(run, window.level)])
        if parts is None or not (seconds > 0).all():
            continue
        rates = parts.sum(axis=1) / seconds
        number += int((rates < SLOW_SHARE * np.median(rates)).sum())
    return number


def check_one_sided(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Work of its own that one server did in a block and another did not; the ratio of that block contains it."""
    evidence = assessment.evidence
    if not sliced(evidence):
        return
    checkpoints = _by_block(evidence, {run.id: count_checkpoints(assessment, run) for run in sliced(evidence)})
    vacuums = _by_block(evidence, {run.id: _workers(assessment, run) for run in sliced(evidence)})
    named = (
        ("a checkpoint", {} if unequal_checkpoints(assessment) else _differing(checkpoints, CHECKPOINT_DIFFERENCE)),
        ("autovacuum at work", _differing(vacuums, AUTOVACUUM_WORKERS)),
    )
    for what, found in named:
        if found:
            blocks = ", ".join(f"block {block}: {' and '.join(arms)}" for block, arms in list(found.items())[:5])
            yield CaveatFinding(
                code="one-sided-work",
                severity=Severity.WARNING,
                text=f"In {len(found)} of {_several(len(checkpoints), 'block')} only some of the servers had {what} in "
                f"their measured time ({blocks}{', …' if len(found) > 5 else ''}).",
                hint="Make checkpoint_timeout and max_wal_size large enough that no checkpoint begins inside a block."
                if what == "a checkpoint"
                else "Set autovacuum = off in [target.postgresql] for short experiments, or measure for longer.",
            )


def _workers(assessment: Assessment, run: RunRow) -> float | None:
    found = [assessment.reduction.autovacuum.get((run.id, window.level)) for window in windows(run)]
    known = [workers for workers in found if workers is not None]
    return max(known) if known and len(known) == len(found) else None


def _by_block(evidence: Evidence, values: Mapping[int, float | None]) -> dict[int, dict[str, float]]:
    """Block to arm to value; what is not known is left out."""
    found: dict[int, dict[str, float]] = {}
    for run in sliced(evidence):
        value = values[run.id]
        arms = found.setdefault(run.slot.block, {})
        if value is not None:
            arms[run.slot.arm] = value
    return found


def _differing(blocks: Mapping[int, Mapping[str, float]], limit: float) -> dict[int, list[str]]:
    """Blocks in which an arm has more than another by ``limit``, and these arms."""
    found = {}
    for block, arms in sorted(blocks.items()):
        above = [arm for arm, value in arms.items() if value - min(arms.values()) > limit]
        if above:
            found[block] = above
    return found


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
        yield CaveatFinding(
            code="unequal-cpus",
            severity=Severity.INFO,
            text=f"One of the two sets of CPUs that the arms exchange is faster by {format_change(typical)} in the "
            "typical block, or the other one is disturbed. As each arm has each set for the same time, that cancels.",
            hint="Without it fewer blocks would do: look for interrupts and other programs on these CPUs.",
        )


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
        yield CaveatFinding(
            code="shared-device",
            severity=Severity.WARNING,
            text="The arms ran at the same time, and much of the load waited for the device that they share ("
            + ", ".join(f"{arm} {format_percent(share)} of its active sessions" for arm, share in shares.items())
            + "): each arm held the other up, and an effect looks smaller than it is.",
            hint='Use method = "interleaved" or "blocks" for a load that is bound by the device.',
        )


def check_inside_slices(assessment: Assessment) -> Iterator[CaveatFinding]:
    """An effect that grows inside a slice was smaller at its start: state of one arm's turn leaks into the other's."""
    if assessment.slices is None:
        return
    margin = assessment.evidence.margin
    behind = "what an arm leaves behind, such as pages in the cache or dirty pages, reaches into the next one's turn"
    length = format_duration(min(MOST_SLICE, 4 * assessment.slices.length)).replace(" ", "")
    longer = f'Try longer slices, slice = "{length}", and see whether the effect is another. '
    if is_duet(assessment.evidence):
        behind, longer = "after their exchange of CPUs the arms do not find their speed at once", ""
    for arm in assessment.slices.arms:
        if arm.growth is None or arm.growth_low is None or arm.growth_high is None or not _is_large(arm.growth, margin):
            continue
        if arm.growth_low <= 1 <= arm.growth_high:
            continue
        yield CaveatFinding(
            code="effect-grows-inside-slices",
            severity=Severity.WARNING,
            text=f"From the first half of a slice to the second the ratio of {arm.arm} to the control changes by "
            f"{format_change(arm.growth)} (between {format_change(arm.growth_low)} and "
            f"{format_change(arm.growth_high)}): {behind}, and longer slices would show another effect.",
            hint=longer + 'Use method = "blocks", where each arm has its time to itself.',
        )


def check_longer_slices(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What builds up over more than a slice: the ratio in blocks with slices of double length against the others."""
    for arm in assessment.slices.arms if assessment.slices is not None else ():
        low, high = arm.longer_low, arm.longer_high
        if arm.longer is None or low is None or high is None or low <= 1 <= high:
            continue
        if _is_large(arm.longer, assessment.evidence.margin):
            yield CaveatFinding(
                code="effect-grows-with-slices",
                severity=Severity.WARNING,
                text=f"In the blocks whose slices are twice as long the ratio of {arm.arm} to the control is another "
                f"by {format_change(arm.longer)} (between {format_change(low)} and {format_change(high)}): the effect "
                "builds up over more than a slice, and its true size is not known.",
                hint='Use method = "blocks", where each arm has its time to itself.',
            )


def _is_large(growth: float, margin: float) -> bool:
    """Whether it may matter: what grows by half of the margin between halves grows by all of it over a slice."""
    return abs(growth - 1) > margin / 2


def check_block_spread(assessment: Assessment) -> Iterator[CaveatFinding]:
    """More spread between blocks than slices can explain: something is drawn anew with each block."""
    if assessment.slices is None:
        return
    for arm in assessment.slices.arms:
        if arm.is_spread_explained is False and arm.sd_blocks is not None and arm.sd_expected is not None:
            yield CaveatFinding(
                code="blocks-differ",
                severity=Severity.INFO,
                text=f"The ratios of {arm.arm} differ from block to block (SD {format_percent(arm.sd_blocks)}) by more "
                f"than the slices inside the blocks explain ({format_percent(arm.sd_expected)}): each block has "
                "something of its own, such as where the servers' memory and data lie.",
                hint="More blocks narrow the interval, longer blocks hardly do.",
            )


def _several(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sliced(evidence: Evidence) -> tuple[RunRow, ...]:
    """Valid runs that shared the time of their block."""
    return tuple(run for run in evidence.valid if run.slices)


def is_duet(evidence: Evidence) -> bool:
    return evidence.meta.get("method", evidence.experiment.design.method) == DUET
