"""Checks of runs that shared the time of a block: did the turns go as planned, and do the arms disturb each other?

Sources of the thresholds: none of them decides a verdict; each is where a disturbance would show beside a margin of a
few percent.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.counters import LATENESS, is_soon_enough
from pgtrial.analysis.effects.comparison import read_late
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.reduction import Histogram, SessionGroup
from pgtrial.analysis.slices import slices_of, windows
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.analysis.validity.runs import CHECKPOINT_DIFFERENCE, count_checkpoints, unequal_checkpoints
from pgtrial.design.methods import plan_steps, turn_seed
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.findings.findings import ArmSlices
from pgtrial.findings.message import Message, message
from pgtrial.model.caveat import Severity
from pgtrial.model.histogram import bucket_value
from pgtrial.model.run import RunRow
from pgtrial.stats.late import unseen

LENGTH_DIFFERENCE = 0.2  # of a slice's planned length …
LEAST_DIFFERENCE = 0.1  # … and in seconds, below which it is the scheduler's usual delay
SLOW_SHARE = 0.25  # of the median throughput of a run's slices …
BY_CHANCE = 0.01  # … and fewer transactions than chance leaves in any slice of a run with this probability
AUTOVACUUM_WORKERS = 0.05  # on average over the polls
MOST_SLICE = 60.0  # s, in an experiment file


def check_shared_counters(assessment: Assessment) -> Iterator[CaveatFinding]:
    shared = sliced(assessment.evidence)
    if not all(run.is_switched for run in shared):
        yield caveat("no-host-costs")
    elif late := [run.id for run in shared if not all(is_soon_enough(run, window.level) for window in windows(run))]:
        yield caveat("no-server-counts", about=late, in_runs=message("in-some-runs", count=len(late)), seconds=LATENESS)


def check_slice_lengths(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A machine that stalled, a clock that was set, or a switch that took long, all show in the length of slices."""
    evidence = assessment.evidence
    late = {run.id: found for run in sliced(evidence) if (found := _uneven(evidence, run))}
    if late:
        yield caveat(
            "uneven-slices",
            about=late,
            count=sum(map(len, late.values())),
            in_runs=message("in-some-runs", count=len(late)),
            seconds=max(map(max, late.values())),
        )


def _uneven(evidence: Evidence, run: RunRow) -> list[float]:
    """Seconds by which slices differ from what was planned, of those that do."""
    found, choice, block = [], evidence.method, run.slot.block
    for each in run.slices:
        # The guard of a slice is planned, and is as much longer or shorter than usual as the slice itself.
        planned = choice.slice_in(block) * (each.counted - each.started) / choice.guard_in(block)
        off = abs(each.ended - each.started - planned)
        if off > max(LEAST_DIFFERENCE, LENGTH_DIFFERENCE * planned) or not each.started <= each.counted < each.ended:
            found.append(off)
    return found


def check_slow_slices(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Nothing is dropped for it: what slows all arms down cancels, and what hits one widens the interval."""
    evidence = assessment.evidence
    slow = {run.id: number for run in sliced(evidence) if (number := _slow(assessment, run))}
    if slow:
        yield caveat(
            "slow-slices",
            about=slow,
            count=sum(slow.values()),
            of_runs=message("of-some-runs", count=len(slow)),
            share=SLOW_SHARE,
        )


def _slow(assessment: Assessment, run: RunRow) -> int:
    number = 0
    for window in windows(run):
        parts = assessment.reduction.parts.get((run.id, window.level))
        seconds = np.array([each.seconds for each in slices_of(run, window.level)])
        if parts is None or not (seconds > 0).all():
            continue
        counts = parts.sum(axis=1)
        rates = counts / seconds
        usual = np.median(rates)
        is_rare = _exponent(counts, usual * seconds) > math.log(counts.size / BY_CHANCE)
        number += int(((rates < SLOW_SHARE * usual) & is_rare).sum())
    return number


def _exponent(counts: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """So few events of a Poisson process have at most the probability of e to the power of minus this.

    Source: Chernoff, Ann. Math. Statist. 23 (1952) 493-507.
    """
    return expected - counts + counts * np.log(np.maximum(counts, 1) / np.maximum(expected, 1))


def check_one_sided(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Work of its own that one server did in a block and another did not; the ratio of that block contains it."""
    evidence = assessment.evidence
    if not sliced(evidence):
        return
    checkpoints = _by_block(evidence, {run.id: count_checkpoints(assessment, run) for run in sliced(evidence)})
    vacuums = _by_block(evidence, {run.id: _workers(assessment, run) for run in sliced(evidence)})
    found = {} if unequal_checkpoints(assessment) else _differing(checkpoints, CHECKPOINT_DIFFERENCE)
    if found:
        yield caveat("one-sided-work.checkpoints", found=len(found), count=len(checkpoints), blocks=_name_blocks(found))
    found = _differing(vacuums, AUTOVACUUM_WORKERS)
    if found:
        yield caveat("one-sided-work.autovacuum", found=len(found), count=len(checkpoints), blocks=_name_blocks(found))


def _name_blocks(found: Mapping[int, Sequence[str]]) -> tuple[Message, ...]:
    """ "block 1: off", "block 3: off and on"."""
    return tuple(message("block-arms", block=block, arms=tuple(arms)) for block, arms in found.items())


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


def check_inside_slices(assessment: Assessment) -> Iterator[CaveatFinding]:
    """An effect that grows inside a slice was smaller at its start: state of one arm's turn leaks into the other's."""
    if assessment.slices is None:
        return
    margin = assessment.evidence.margin
    for arm in assessment.slices.arms:
        if arm.growth is None or arm.growth_low is None or arm.growth_high is None or not _is_large(arm.growth, margin):
            continue
        if arm.growth_low <= 1 <= arm.growth_high:
            continue
        yield caveat(
            "effect-grows-inside-slices.duet" if assessment.evidence.is_duet else "effect-grows-inside-slices",
            arm=arm.arm,
            change=arm.growth,
            low=arm.growth_low,
            high=arm.growth_high,
            longer=min(MOST_SLICE, 4 * assessment.slices.length),
        )


def check_left_behind(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What the other arm has left behind when an arm's turn begins: there is some, and the washout keeps it out.

    The arms of a duet leave each other nothing. Where their ratio is another one after the guard, transactions about as
    long as a slice fall in step with the exchanges; that may be all of an effect that is not larger.
    """
    if assessment.slices is None:
        return
    claimed = None if assessment.primary is None else assessment.primary.effect
    for arm in assessment.slices.arms:
        low, high = arm.left_behind_low, arm.left_behind_high
        if arm.left_behind is None or low is None or high is None or low <= 1 <= high:
            continue
        if not _is_large(arm.left_behind, assessment.evidence.margin):
            continue
        code, severity = "left-behind", None
        if assessment.evidence.is_duet:
            code = "left-behind.duet"
            ratio = claimed.ratio if claimed is not None and claimed.arm == arm.arm else None
            if ratio is not None and abs(math.log(arm.left_behind)) >= abs(math.log(ratio)):
                severity = Severity.INVALID
        yield caveat(code, severity=severity, arm=arm.arm, change=arm.left_behind, low=low, high=high)


def check_gone_on(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What goes on by the clock while an arm stands still: pg_sleep, and on an existing server each statement.

    At the arm's next turn it is done further than at the end of the last one, in no time of the arm's: so each arm
    looks faster than it is. A statement is as long as its transaction, or nearly, so the ratio is wrong by how much
    arms differ in that; a transaction may have one long sleep or many short ones, which cannot be told, so there it may
    be wrong by all that an arm gains.
    """
    evidence = assessment.evidence
    if evidence.method.method != "interleaved":
        return
    gains = {arm.name: _gain(assessment, arm.name) for arm in evidence.arms}
    if max(gains.values(), default=0.0) <= evidence.margin / 2:
        return
    largest, smallest = math.log1p(max(gains.values())), math.log1p(min(gains.values()))
    off = largest if evidence.stands_still else largest - smallest
    yield caveat(
        "goes-on" if evidence.stands_still else "goes-on.sessions",
        severity=Severity.INVALID if off > evidence.margin / 2 and _may_turn(assessment, off) else Severity.WARNING,
        gains=tuple(message("arm-gains", arm=arm, change=1 + gain) for arm, gain in gains.items()),
        length=evidence.method.slice * 2 * max(gains.values()) / evidence.margin,
    )


def _may_turn(assessment: Assessment, off: float) -> bool:
    """Whether the verdict may be another one if the log of the claimed ratio is wrong by ``off``."""
    effect = None if assessment.primary is None else assessment.primary.effect
    if effect is None or not effect.low or not effect.high:
        return True
    ends = (math.log(effect.low), math.log(effect.high))
    return any(abs(end - limit) <= off for end in ends for limit in (0.0, *assessment.evidence.bounds))


def _gain(assessment: Assessment, arm: str) -> float:
    """The share of its work that an arm gets done while it stands still, at most.

    At the end of a turn as many of its sessions as usual are at what goes on, each with half of its transaction before
    it, and half of a slice counts. 0 where it is not known.
    """
    evidence, reduction = assessment.evidence, assessment.reduction
    found = []
    for run in evidence.runs_of(arm):
        for window in windows(run):
            sessions = reduction.sessions.get((run.id, window.level), ())
            latencies = reduction.histograms.get((run.id, window.level, None))
            every = sum(each.sessions for each in sessions)
            if not every or latencies is None:
                continue
            at_work = [each for each in sessions if each.state == "active"]
            going_on = sum(each.sessions for each in at_work if not evidence.stands_still or _is_asleep(each))
            found.append(going_on / every * _seen(latencies) / evidence.method.slice_in(run.slot.block))
    return float(np.mean(found)) if found else 0.0


def _is_asleep(group: SessionGroup) -> bool:
    return (group.wait_type, group.wait_event) == ("Timeout", "PgSleep")


def _seen(latencies: Histogram) -> float:
    """Seconds of a transaction that is met at some moment, on average: long ones are met more often than they are."""
    times = np.array([bucket_value(int(bucket)) for bucket in latencies.buckets])
    whole = float(latencies.counts @ times)
    return float(latencies.counts @ times**2) / whole if whole else 0.0


def check_late(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What comes later than in an arm's own turn, as far as the interval bears it: of a latency if one is claimed, else
    of throughput.
    """
    evidence, primary = assessment.evidence, assessment.primary
    claimed = "" if primary is None else primary.effect.metric
    metric = claimed if claimed in evidence.load.times else evidence.load.throughput.name
    for arm in evidence.arms:
        late = read_late(evidence, assessment.values, arm.name, metric)
        down, up = (math.expm1(one) for one in unseen(late)) if late is not None else (0.0, 0.0)
        if _is_large(1 + max(down, up), evidence.margin):
            yield caveat("comes-late", arm=arm.name, down=1 / (1 + down), up=1 + up)


def check_longer_slices(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What outlasts half a slice: the ratio in blocks with slices of double length against the others."""
    margin, primary = assessment.evidence.margin, assessment.primary
    for arm in assessment.slices.arms if assessment.slices is not None else ():
        if not _changes(arm, margin):
            continue
        is_claimed = primary is not None and primary.effect.arm == arm.arm
        ratio = primary.effect.ratio if primary is not None and is_claimed else None
        has_turned = ratio is not None and find_reversal(arm, ratio, margin=margin)
        code = "effect-grows-with-slices.turns" if has_turned else "effect-grows-with-slices"
        yield caveat(code, arm=arm.arm, change=arm.longer, low=arm.longer_low, high=arm.longer_high)


def find_reversal(arm: ArmSlices, ratio: float, *, margin: float) -> bool:
    """Whether an arm is better in slices of one length and worse in those of the other.

    Then what its slices leave behind comes so late that it falls into those of the other arm, and its cost looks like
    its gain: nothing can be said. ``ratio`` is that over all blocks, halfway between the two.
    """
    return _changes(arm, margin) and abs(math.log(arm.longer or 1.0)) / 2 > abs(math.log(ratio))


def _changes(arm: ArmSlices, margin: float) -> bool:
    low, high = arm.longer_low, arm.longer_high
    if arm.longer is None or low is None or high is None or low <= 1 <= high:
        return False
    return _is_large(arm.longer, margin)


def _is_large(growth: float, margin: float) -> bool:
    """Whether it may matter: what grows by half of the margin between halves grows by all of it over a slice."""
    return abs(growth - 1) > margin / 2


def check_block_spread(assessment: Assessment) -> Iterator[CaveatFinding]:
    """More spread between blocks than slices can explain: something is drawn anew with each block."""
    if assessment.slices is None:
        return
    for arm in assessment.slices.arms:
        if arm.is_spread_explained is False and arm.sd_blocks is not None and arm.sd_expected is not None:
            yield caveat("blocks-differ", arm=arm.arm, found=arm.sd_blocks, expected=arm.sd_expected)


def sliced(evidence: Evidence) -> tuple[RunRow, ...]:
    """Valid runs that shared the time of their block."""
    return tuple(run for run in evidence.valid if run.slices)


# Checks of arms that ran at the same time: are their CPUs alike, and does a device that they share hold them up.


IO_SHARE = 0.25  # of the active sessions
CPU_SET_CHANGE = 0.05
_WAL_LOCK = ("LWLock", "WALWrite")  # held by the session that writes the WAL; the others wait for the device with it


def check_cpu_sets(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Half of what the log ratio differs by when the arms have exchanged their CPUs is the log ratio of the speeds of
    the two sets; the median over the blocks is told.
    """
    evidence = assessment.evidence
    if not evidence.is_duet or evidence.control is None or len(evidence.arms) != 2:
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
    block = run.slot.block
    steps = plan_steps(
        evidence.method,
        sorted(arm.name for arm in evidence.arms),
        seconds=evidence.experiment.workload.duration,
        seed=turn_seed(evidence.seed, block, level),
        block=block,
    )
    on_first: list[float] = []
    on_second: list[float] = []
    for ratio, each in zip(ratios or (), slices_of(run, level), strict=False):
        if each.number >= len(steps):  # of another plan, in a folder that was damaged
            return None
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
    if not evidence.is_duet:
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
