"""Checks of the runs: was the load steady, did the machine and the load generator keep up, are samples complete?"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from pgtrial.analysis.effects.claim import Claim, claims_of
from pgtrial.analysis.effects.estimate import estimate_claimed
from pgtrial.analysis.effects.lost import hides_times, lost_share, mean_of
from pgtrial.analysis.evidence import measured
from pgtrial.analysis.slices import Window, windows
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.analysis.validity.machine import in_runs, stolen_share
from pgtrial.design.levels import level_of
from pgtrial.experiment_file.command_checks import replays
from pgtrial.experiment_file.result_formats import FORMATS, Latencies
from pgtrial.experiment_file.workload_table import COMMAND, TPCC
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.findings.message import message
from pgtrial.findings.record import ALL
from pgtrial.knobs.pgbouncer import PGBOUNCER, pool_size
from pgtrial.knobs.workload import COMMAND as COMMAND_KEY
from pgtrial.knobs.workload import CONNECT, EACH_TRANSACTION, SCRIPTS, VARIABLES, WORKLOAD
from pgtrial.model.arm import Arm, FileJob
from pgtrial.model.caveat import Severity
from pgtrial.model.histogram import bucket_value
from pgtrial.model.metrics import (
    CHECKPOINTS,
    CPU_BUSY,
    CPU_IDLE,
    CPU_OBJECT,
    CPU_STEAL,
    FAILURES,
    LATE,
    SKIPPED,
)
from pgtrial.model.run import Phase, RunRow
from pgtrial.stats.equivalence import claim_bound
from pgtrial.stats.interval import mean_log_interval

STEAL_SHARE = 0.01
GAP_SECONDS = 3.0  # readings are one second apart
FAILURE_SHARE = 0.001
LATE_SHARE = 0.05
SKIPPED_SHARE = 0.01
HALVES_CHANGE = 0.05
LAG_SHARE = 0.1  # of the latency
MOST_TIME = 1.5  # of the clients' time: latencies may be rounded up, as those of a histogram
LEAST_ROWS, OTHER_ROWS = 0.5, 5.0  # rows per unit, and times as many: ten statements are not to pass for one
LEAST_WAL, OTHER_WAL = 1000.0, 10.0  # B per unit, and times as many
STALL_RATE = 20.0  # 1/s; of independent transactions none ends in a second with a probability of 2e-9
STALL_ACTIVITY = 0.1  # of the window's active sessions; a server that stands still has as many as ever
STALL_LATENCY = 0.1  # of a stall; the median is that of the transactions that did not wait for its end
CHECKPOINT_DIFFERENCE = 0.5  # checkpoints per run
BUSY_SHARE = 0.95
ACTIVE_SHARE = 0.5  # of the clients

WARMUP_CAPPED, LOAD_SAID = "warmup-capped", "load-said"  # kinds of events


def check_warmup(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A fact about the runs and no fault of theirs: ``check_steadiness`` says what it did to the measured time."""
    valid = {run.id for run in assessment.evidence.valid}
    capped = {event.run for event in assessment.evidence.events if event.kind == WARMUP_CAPPED} & valid
    if capped:
        yield caveat("warmup-capped", about=sorted(capped), in_runs=in_runs(len(capped), len(valid)))


def check_steadiness(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Throughput of the second half of the measured time against the first, over the runs of an arm."""
    evidence = assessment.evidence
    for arm in evidence.arms:
        halves = [
            ratio for run in evidence.runs_of(arm.name) if (ratio := _second_against_first(assessment, run)) is not None
        ]
        if len(halves) < 2:
            continue
        mean, low, high = mean_log_interval(halves, confidence=evidence.confidence)
        if mean is None or low is None or high is None:
            continue
        if abs(mean - 1) > HALVES_CHANGE and not low <= 1 <= high:
            yield caveat("unsteady", arm=arm.name, change=mean)


def _second_against_first(assessment: Assessment, run: RunRow) -> float | None:
    """Ratio of the second half's transactions to the first's, geometric mean over the load levels."""
    logs = []
    for window in windows(run):
        bins = assessment.reduction.bins.get((run.id, window.level), ())
        count = int(window.counted / assessment.reduction.widths[run.id])
        # The middle bin of an odd number belongs to neither half, and a bin that is not full to none.
        first = sum(bin_.count for bin_ in bins if bin_.index < count // 2)
        second = sum(bin_.count for bin_ in bins if count - count // 2 <= bin_.index < count)
        if first > 0 and second > 0:
            logs.append(np.log(second / first))
    return float(np.exp(np.mean(logs))) if logs else None


def check_stalls(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Whole seconds without a transaction, where many end in each and few last for long: something stood still.

    Where the server had nothing to do meanwhile, that was the load.
    """
    reduction = assessment.reduction
    found: dict[str, dict[int, int]] = {"stalled": {}, "load-stalled": {}}
    for (run, level), stall in reduction.stalls.items():
        times = reduction.histograms.get((run, level, None))
        rate = assessment.values.get((run, assessment.evidence.load.throughput.name, None, level), 0.0)
        if stall.seconds and rate >= STALL_RATE and times is not None and times.counts.size:
            middle = int(np.searchsorted(np.cumsum(times.counts) * 2, times.counts.sum()))
            if bucket_value(int(times.buckets[middle])) <= stall.seconds * STALL_LATENCY:
                usual = sum(wait.sessions for wait in reduction.waits.get((run, level), ()))
                is_load = stall.active is not None and stall.active < usual * STALL_ACTIVITY
                longest = found["load-stalled" if is_load else "stalled"]
                longest[run] = max(stall.seconds, longest.get(run, 0))
    for code, longest in found.items():
        if longest:
            in_runs_ = in_runs(len(longest), len(assessment.evidence.valid))
            yield caveat(code, about=sorted(longest), in_runs=in_runs_, seconds=float(max(longest.values())))


def check_checkpoints(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Checkpoints cost throughput, so arms that had more of them are not compared under the same conditions."""
    means = unequal_checkpoints(assessment)
    if means:
        yield caveat(
            "unequal-checkpoints",
            counts=tuple(message("arm-checkpoints", arm=arm, number=mean) for arm, mean in means.items()),
        )


def unequal_checkpoints(assessment: Assessment) -> dict[str, float]:
    """Mean number of checkpoints per run by arm, if the arms differ in it by more than CHECKPOINT_DIFFERENCE."""
    means: dict[str, float] = {}
    for arm in assessment.evidence.arms:
        counts = [
            count
            for run in assessment.evidence.runs_of(arm.name)
            if (count := count_checkpoints(assessment, run)) is not None
        ]
        if counts:
            means[arm.name] = sum(counts) / len(counts)
    is_unequal = bool(means) and max(means.values()) - min(means.values()) > CHECKPOINT_DIFFERENCE
    return means if is_unequal else {}


def count_checkpoints(assessment: Assessment, run: RunRow) -> float | None:
    """Checkpoints in the measured time of a run; None where the server's counters were not read."""
    total = 0.0
    for window in measured(run):
        counts = (assessment.increase(run.id, window.level or 0, names) for names in CHECKPOINTS)
        count = next((count for count in counts if count is not None), None)
        if count is None:
            return None
        total += count
    return total


def check_failures(assessment: Assessment) -> Iterator[CaveatFinding]:
    yield from _check_lost(assessment, "failed-transactions", metric=FAILURES.name, limit=FAILURE_SHARE)


def check_open_loop(assessment: Assessment) -> Iterator[CaveatFinding]:
    experiment = assessment.evidence.experiment
    if experiment.hypothesis.metric == "pgbench.tps":
        if replays(experiment):
            yield caveat("rate-sets-throughput.log")
        elif experiment.workload.rate is not None:
            yield caveat("rate-sets-throughput")
    yield from _check_lost(assessment, "skipped-transactions", metric=SKIPPED.name, limit=SKIPPED_SHARE)
    for arm in assessment.evidence.arms:
        if (share := _share_of(assessment, arm.name, LATE.name)) > LATE_SHARE:
            yield caveat("late-transactions", share=share, arm=arm.name)


def _check_lost(assessment: Assessment, code: str, *, metric: str, limit: float) -> Iterator[CaveatFinding]:
    """Of an arm whose losses take a verdict away also where they are fewer than ``limit``, by what most of them are."""
    evidence, values = assessment.evidence, assessment.values
    for arm in evidence.arms:
        share = _share_of(assessment, arm.name, metric)
        is_most = 0 < share >= lost_share(evidence, values, arm.name, (metric, None, ALL)) / 2
        hides = is_most and _hides_latency(assessment, arm.name, metric)
        if hides or share > limit:
            yield caveat(code, share=share, arm=arm.name, severity=Severity.INVALID if hides else None)


def _share_of(assessment: Assessment, arm: str, metric: str) -> float:
    return mean_of(assessment.evidence, assessment.values, arm, (metric, None, ALL)) or 0.0


def _hides_latency(assessment: Assessment, arm: str, metric: str) -> bool:
    """Whether what an arm lost may turn a claim on latency: it lost more than the other, what would have taken longest.
    By rules 14 only what was skipped counted, unless the arm was seen to take longer anyway.
    """
    evidence = assessment.evidence
    both = (evidence.control.name if evidence.control else "", evidence.hypothesis_arm)
    claims = [claim for claim in claims_of(evidence) if claim.metric.name in evidence.load.times]
    if arm not in both or not claims:
        return False
    other, is_own = next((each for each in both if each != arm), None), arm == evidence.hypothesis_arm
    if evidence.rules.bears_alike:
        return any(
            hides_times(evidence, assessment.values, arm, other, (claim.metric.name, claim.scenario, ALL))
            and _may_turn(assessment, claim, is_own=is_own)
            for claim in claims
        )
    share, others = (0.0 if each is None else _share_of(assessment, each, SKIPPED.name) for each in (arm, other))
    if metric != SKIPPED.name or share - others <= SKIPPED_SHARE:
        return False
    effect = None if assessment.primary is None else assessment.primary.effect
    if effect is None or effect.metric not in evidence.load.times or effect.low is None or effect.high is None:
        return True
    least, most = evidence.rules.bounds(effect.margin)
    return effect.low <= most if is_own else effect.high >= least


def _may_turn(assessment: Assessment, claim: Claim, *, is_own: bool) -> bool:
    """Whether what is seen of a claim on a time may turn if the time of its arm (``is_own``), or of the control, is
    longer than what is seen: not where the ratio is beyond the claim's bound on that side already.
    """
    evidence = assessment.evidence
    estimated = estimate_claimed(evidence, assessment.values, claim)
    ratio = None if estimated is None else estimated.comparison.ratio
    if ratio is None:
        return True
    expect, better = claim.judged
    bounds = evidence.rules.log_bounds(claim.margin)
    asked = claim_bound(expect, bounds=bounds, better=better)
    bound = asked[0] if asked else bounds[is_own]
    return math.log(ratio) <= bound if is_own else math.log(ratio) >= bound


def check_samples(assessment: Assessment) -> Iterator[CaveatFinding]:
    for what, runs in (
        ("samples.parquet", assessment.reduction.without_samples),
        ("waits.parquet", assessment.reduction.without_waits),
        ("slices.parquet", assessment.reduction.without_slices),
    ):
        if runs:
            yield caveat("no-samples", about=runs, count=len(runs), file=what)
    if foreign := assessment.reduction.foreign:
        yield caveat("foreign-data", about=foreign, count=len(foreign))


def check_gaps(assessment: Assessment) -> Iterator[CaveatFinding]:
    gaps = {run: gap for run, gap in assessment.reduction.gaps.items() if gap > GAP_SECONDS}
    if gaps:
        yield caveat("sampler-gaps", about=sorted(gaps), count=len(gaps), seconds=max(gaps.values()))


def check_steal(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Of the measured windows; where a run has no samples, of all the time in which its server was up."""
    shares: dict[int, float] = {}
    for run in assessment.evidence.valid:
        found = [s for window in measured(run) if (s := _steal_share(assessment, run, window)) is not None]
        share = max(found) if found else stolen_share(assessment.evidence, run.id)
        if share is not None:
            shares[run.id] = share
    stolen = {run: share for run, share in shares.items() if share > STEAL_SHARE}
    if stolen:
        yield caveat(
            "cpu-steal", about=sorted(stolen), in_runs=in_runs(len(stolen), len(shares)), share=max(stolen.values())
        )


def _steal_share(assessment: Assessment, run: RunRow, window: Phase) -> float | None:
    level = window.level or 0
    stolen = assessment.increase(run.id, level, (CPU_STEAL,), object=CPU_OBJECT)
    rest = assessment.increase(run.id, level, (*CPU_BUSY, *CPU_IDLE), object=CPU_OBJECT)
    if stolen is None or rest is None or stolen + rest == 0:
        return None
    return stolen / (stolen + rest)


def check_generator(assessment: Assessment) -> Iterator[CaveatFinding]:
    """No CPU is left, and yet most of the load's sessions have nothing to do: the load generator holds them up.

    Behind a pooler the load has no more sessions than the pool.

    Those of a replay wait for the times of their log.
    """
    evidence = assessment.evidence
    if replays(evidence.experiment):
        return
    arms = {arm.name: arm for arm in evidence.arms}
    closed = {level.index: level for level in evidence.levels if level.rate is None}
    saturated = []
    for run in evidence.valid:
        for window in measured(run):
            level = window.level or 0
            busy = assessment.increase(run.id, level, CPU_BUSY, object=CPU_OBJECT)
            idle = assessment.increase(run.id, level, CPU_IDLE, object=CPU_OBJECT)
            waits = assessment.reduction.waits.get((run.id, level))
            if level not in closed or waits is None or busy is None or idle is None or busy + idle == 0:
                continue
            active, arm = sum(wait.sessions for wait in waits), arms[run.slot.arm]
            sessions = level_of(arm, closed[level]).clients
            if (pooler := arm.knobs.get(PGBOUNCER)) is not None:
                sessions = min(sessions, pool_size(pooler))
            if busy / (busy + idle) > BUSY_SHARE and active < ACTIVE_SHARE * sessions:
                saturated.append(run.id)
    if saturated:
        runs = tuple(dict.fromkeys(saturated))
        yield caveat("generator-saturated", about=runs, in_runs=in_runs(len(runs), len(evidence.valid)))


def check_standard(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Whose figures the numbers could be taken for."""
    if assessment.evidence.experiment.workload.mix == TPCC:
        yield caveat("not-of-tpc")


_SAID = {"k6": "iterations", "benchbase": "from-execution", "pgreplay": "replay"}


def check_told(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What the generator does not tell, so that nobody looks for it, and what its latencies are of."""
    workload = assessment.evidence.experiment.workload
    if workload.kind != COMMAND:
        return
    known = FORMATS[workload.results]
    if known.latencies is not Latencies.EACH:
        yield caveat(f"generator-tells.{known.latencies.value}")
    if known.is_told_at_end:
        yield caveat("generator-tells.at-end")
    if workload.results in _SAID:
        yield caveat(f"generator-tells.{_SAID[workload.results]}")


def check_said(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What a program of the user's choice had to say beside its results, though it ended well."""
    evidence = assessment.evidence
    valid = {run.id for run in evidence.valid}
    said = [event for event in evidence.events if event.kind == LOAD_SAID and event.run in valid]
    if said:
        runs = sorted({event.run for event in said if event.run is not None})
        first = min(said, key=lambda event: event.t)
        begin = in_runs(len(runs), len(valid))
        yield caveat("load-said", about=runs, in_runs=begin, run=first.run, said=str(first.data.get("text", "")))


def check_own_lag(assessment: Assessment) -> Iterator[CaveatFinding]:
    """How much of the latencies passed before requests were sent, where pgtrial did not ask for a rate. A replay knows
    its own part; another program, with a rate of its own, tells the wait behind slow requests as well.
    """
    workload = assessment.evidence.experiment.workload
    if workload.kind != COMMAND or workload.rate is not None:
        return
    for arm in assessment.evidence.arms:
        runs = {run.id for run in assessment.evidence.runs_of(arm.name)}
        totals = [
            each for (run, _, scenario), each in assessment.reduction.totals.items() if run in runs and not scenario
        ]
        latency = sum(each.latency_sum or 0.0 for each in totals)
        lag = sum(each.lag_sum for each in totals)
        if latency and lag > LAG_SHARE * latency:  # of some loads only counts are known
            code = "own-lag" if replays(assessment.evidence.experiment) else "own-lag.or-wait"
            yield caveat(code, arm=arm.name, share=lag / latency)


def check_clients(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Latencies that are longer together than the clients have time, also if each had begun its first request as long
    before the measured time as the longest of all took. Those of turns may have the turns of others in them.
    """
    evidence = assessment.evidence
    workload = evidence.experiment.workload
    if workload.kind != COMMAND or workload.rate is not None or not workload.bounds_latencies:
        return
    for arm in evidence.arms:
        clients = {level.index: level_of(arm, level).clients for level in evidence.levels}
        found = [
            (share, clients[window.level])
            for run in evidence.runs_of(arm.name)
            if not run.slices
            for window in windows(run)
            if (share := _time_of_clients(assessment, run, window, clients[window.level])) is not None
        ]
        share, most = max(found, default=(0.0, 0))
        if share > MOST_TIME:
            yield caveat("more-clients", arm=arm.name, times=share, clients=most)


def _time_of_clients(assessment: Assessment, run: RunRow, window: Window, clients: int) -> float | None:
    """The latencies of a run, by the time of its clients; None where they are not known, or are from when a request was
    due.
    """
    totals = assessment.reduction.totals.get((run.id, window.level, None))
    times = assessment.reduction.histograms.get((run.id, window.level, None))
    if totals is None or totals.latency_sum is None or totals.lag_sum or times is None or not times.buckets.size:
        return None
    longest = bucket_value(int(times.buckets[-1]))
    return totals.latency_sum / (clients * (window.counted + longest))


_WAL = "cost.wal_bytes"
_WRITTEN = ("pg_stat_database.tup_inserted", "pg_stat_database.tup_updated", "pg_stat_database.tup_deleted")


def check_units(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Arms whose load differs are compared by unit, so one has to be the same work in both; what they read may differ
    by how they read it, but not what they write.
    """
    evidence = assessment.evidence
    control = evidence.control
    if control is None:
        return
    for arm in evidence.arms:
        if _load_of(arm) == _load_of(control):
            continue
        own, other = _rows_per_unit(assessment, arm.name), _rows_per_unit(assessment, control.name)
        if _is_other_work(own, other, least=LEAST_ROWS, times=OTHER_ROWS):
            yield caveat("other-work", arm=arm.name, control=control.name, own=own, other=other)
            continue
        if max(own or 0.0, other or 0.0) < LEAST_ROWS:
            continue  # the WAL is that of the server's own work, of which a slower arm has more in each unit
        own, other = (mean_of(evidence, assessment.values, each.name, (_WAL, None, ALL)) for each in (arm, control))
        if _is_other_work(own, other, least=LEAST_WAL, times=OTHER_WAL):
            yield caveat("other-work.wal", arm=arm.name, control=control.name, own=own, other=other)


def _load_of(arm: Arm) -> dict[str, str]:
    return {
        key: value
        for key, value in arm.knobs.get(WORKLOAD, {}).items()
        if key.startswith((SCRIPTS, VARIABLES)) or key == COMMAND_KEY
    }


def _is_other_work(own: float | None, other: float | None, *, least: float, times: float) -> bool:
    return own is not None and other is not None and max(own, other) >= max(least, times * min(own, other))


def _rows_per_unit(assessment: Assessment, arm: str) -> float | None:
    """Rows that an arm's server wrote in all its runs, by the transactions that ended in them."""
    rows, units = 0.0, 0.0
    reduction = assessment.reduction
    for run in assessment.evidence.runs_of(arm):
        for level in assessment.evidence.levels:
            found = [reduction.increases.get((run.id, level.index, counter), {}) for counter in _WRITTEN]
            totals = reduction.totals.get((run.id, level.index, None))
            if totals is None or not all(found):
                return None
            rows += sum(sum(objects.values()) for objects in found)
            units += totals.count
    return rows / units if units else None


# Checks of loads whose latencies are not the whole time of a request.


_LATENCY = "fio.latency_"
# What fio's histograms of completions (clat) leave out: stat.c counts flushes apart (add_sync_clat_sample), and the
# submission (slat) is not logged.
_HIDDEN: tuple[tuple[str, Callable[[FileJob], bool]], ...] = (
    ("partial-latency.without-flushes", lambda job: job.hides_flushes),
    ("partial-latency.without-submission", lambda job: job.hides_submission),
)


def check_latencies(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A latency that leaves out what is waited for can be a hundredth of the time that a request takes."""
    evidence = assessment.evidence
    if not evidence.is_on_files:
        yield from _check_connecting(assessment)
        return
    jobs = [job for arm in evidence.arms for job in arm.jobs]
    is_claimed = (evidence.experiment.hypothesis.metric or "").startswith(_LATENCY)
    for code, is_hidden in _HIDDEN:
        names = dict.fromkeys(job.name for job in jobs if is_hidden(job))
        if names:
            yield caveat(
                code,
                severity=Severity.WARNING if is_claimed else None,
                jobs=tuple(names),
            )


def _check_connecting(assessment: Assessment) -> Iterator[CaveatFinding]:
    """The clock of pgbench begins when it has connected (pgbench.c, CSTATE_START_TX); at a rate, a transaction's time
    begins when it was due.
    """
    evidence = assessment.evidence
    experiment = evidence.experiment
    if experiment.workload.rate is not None:
        return
    arms = [arm.name for arm in evidence.arms if arm.knobs.get(WORKLOAD, {}).get(CONNECT) == EACH_TRANSACTION]
    asked = {claim.metric.name for claim in claims_of(evidence)} | {each.metric for each in experiment.criteria}
    if arms:
        severity = Severity.WARNING if asked & evidence.load.times else None
        yield caveat("partial-latency.without-connecting", severity=severity, arms=tuple(arms))
