"""Checks of the runs: was the load steady, did the machine and the load generator keep up, was it all seen."""

from collections.abc import Callable, Iterator

import numpy as np

from pgtrial.analysis.causes.words import join
from pgtrial.analysis.evidence import measured
from pgtrial.analysis.findings import CaveatFinding
from pgtrial.analysis.metrics import (
    CHECKPOINTS,
    CPU_BUSY,
    CPU_IDLE,
    CPU_OBJECT,
    CPU_STEAL,
    FAILURES,
    LATE,
    SKIPPED,
)
from pgtrial.analysis.observations import ALL
from pgtrial.analysis.slices import windows
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.analysis.validity.machine import in_runs, stolen_share
from pgtrial.language import mark, ntr, tr
from pgtrial.model.caveat import Severity
from pgtrial.model.file_job import FileJob
from pgtrial.model.run import Phase, RunRow
from pgtrial.stats.interval import mean_log_interval
from pgtrial.units import format_change, format_decimal, format_duration, format_percent

STEAL_SHARE = 0.01
GAP_SECONDS = 3.0  # readings are one second apart
FAILURE_SHARE = 0.001
LATE_SHARE = 0.05
SKIPPED_SHARE = 0.01
HALVES_CHANGE = 0.05
CHECKPOINT_DIFFERENCE = 0.5  # checkpoints per run
BUSY_SHARE = 0.95
ACTIVE_SHARE = 0.5  # of the clients

WARMUP_CAPPED = "warmup-capped"  # kind of event


def check_warmup(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A fact about the runs and no fault of theirs: ``check_steadiness`` says what it did to the measured time."""
    valid = {run.id for run in assessment.evidence.valid}
    capped = {event.run for event in assessment.evidence.events if event.kind == WARMUP_CAPPED} & valid
    if capped:
        yield CaveatFinding(
            code="warmup-capped",
            severity=Severity.INFO,
            text=tr(
                "{in_runs} the warm-up was ended by its cap before the load was found steady; whether that mattered "
                "shows in the measured time.",
                in_runs=in_runs(len(capped), len(valid)),
            ),
            hint=tr('Where the measured time is unsteady, give the warm-up more time: warmup = { cap = "5min" }.'),
            runs=tuple(sorted(capped)),
        )


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
            yield CaveatFinding(
                code="unsteady",
                severity=Severity.WARNING,
                text=tr(
                    "Throughput of {arm} changes inside its runs: the second half of the measured time has {change} "
                    "against the first.",
                    arm=arm.name,
                    change=format_change(mean),
                ),
                hint=tr("A longer warm-up, or longer runs, would show the steady state."),
            )


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


def check_checkpoints(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Checkpoints cost throughput, so arms that had more of them are not compared under the same conditions."""
    means = unequal_checkpoints(assessment)
    if means:
        yield CaveatFinding(
            code="unequal-checkpoints",
            severity=Severity.WARNING,
            text=tr(
                "The arms had different numbers of checkpoints in their measured time: {counts}.",
                counts=", ".join(
                    tr("{arm} {number} per run", arm=arm, number=format_decimal(mean, 1)) for arm, mean in means.items()
                ),
            ),
            hint=tr(
                "Measure for several checkpoint intervals, or set max_wal_size so that none begins while measuring."
            ),
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
    yield from _check_share(
        assessment,
        metric=FAILURES.name,
        limit=FAILURE_SHARE,
        code="failed-transactions",
        text=mark("{share} of the transactions of {arm} failed; throughput and latencies are of the others."),
        hint=mark("Set max_tries so that transactions are retried after serialization failures and deadlocks."),
    )


def check_open_loop(assessment: Assessment) -> Iterator[CaveatFinding]:
    experiment = assessment.evidence.experiment
    if experiment.workload.rate is not None and experiment.hypothesis.metric == "pgbench.tps":
        yield CaveatFinding(
            code="rate-sets-throughput",
            severity=Severity.WARNING,
            text=tr(
                "The load arrives at a given rate, so the rate and not the server decides the throughput, about which "
                "the claim is; only a server that cannot keep up shows in it."
            ),
            hint=tr("Make the claim about a latency, or leave the rate out."),
        )
    yield from _check_share(
        assessment,
        metric=SKIPPED.name,
        limit=SKIPPED_SHARE,
        code="skipped-transactions",
        text=mark(
            "{share} of the transactions of {arm} were skipped because they were too late to begin: the load that was "
            "asked for was not delivered."
        ),
        hint=mark("Latencies are of the transactions that were begun only; compare at a lower rate."),
    )
    yield from _check_share(
        assessment,
        metric=LATE.name,
        limit=LATE_SHARE,
        code="late-transactions",
        text=mark("{share} of the transactions of {arm} took longer than the latency limit."),
    )


def _check_share(
    assessment: Assessment, *, metric: str, limit: float, code: str, text: str, hint: str = ""
) -> Iterator[CaveatFinding]:
    """``text`` and ``hint`` are not translated yet."""
    for arm in assessment.evidence.arms:
        shares = [
            share
            for run in assessment.evidence.runs_of(arm.name)
            if (share := assessment.values.get((run.id, metric, None, ALL))) is not None
        ]
        if shares and (mean := sum(shares) / len(shares)) > limit:
            yield CaveatFinding(
                code=code,
                severity=Severity.WARNING,
                text=tr(text, share=format_percent(mean), arm=arm.name),
                hint=tr(hint) if hint else "",
            )


def check_samples(assessment: Assessment) -> Iterator[CaveatFinding]:
    for what, runs in (
        ("samples.parquet", assessment.reduction.without_samples),
        ("waits.parquet", assessment.reduction.without_waits),
        ("slices.parquet", assessment.reduction.without_slices),
    ):
        if runs:
            yield CaveatFinding(
                code="no-samples",
                severity=Severity.WARNING,
                text=ntr(
                    "{count} runs have no {file}; what would be read from it is left out.",
                    "{count} runs have no {file}; what would be read from it is left out.",
                    len(runs),
                    file=what,
                ),
                runs=runs,
            )


def check_gaps(assessment: Assessment) -> Iterator[CaveatFinding]:
    gaps = {run: gap for run, gap in assessment.reduction.gaps.items() if gap > GAP_SECONDS}
    if gaps:
        yield CaveatFinding(
            code="sampler-gaps",
            severity=Severity.WARNING,
            text=ntr(
                "In {count} runs readings are missing for up to {seconds}.",
                "In {count} runs readings are missing for up to {seconds}.",
                len(gaps),
                seconds=format_duration(max(gaps.values())),
            ),
            hint=tr("The machine had no time to read its own counters; leave a CPU free for it."),
            runs=tuple(sorted(gaps)),
        )


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
        yield CaveatFinding(
            code="cpu-steal",
            severity=Severity.WARNING,
            text=tr(
                "{in_runs} the hypervisor gave CPU time to others, up to {share}.",
                in_runs=in_runs(len(stolen), len(shares)),
                share=format_percent(max(stolen.values())),
            ),
            hint=tr("Run on a machine with CPUs of its own, or with more blocks."),
            runs=tuple(sorted(stolen)),
        )


def _steal_share(assessment: Assessment, run: RunRow, window: Phase) -> float | None:
    level = window.level or 0
    stolen = assessment.increase(run.id, level, (CPU_STEAL,), object=CPU_OBJECT)
    rest = assessment.increase(run.id, level, (*CPU_BUSY, *CPU_IDLE), object=CPU_OBJECT)
    if stolen is None or rest is None or stolen + rest == 0:
        return None
    return stolen / (stolen + rest)


def check_generator(assessment: Assessment) -> Iterator[CaveatFinding]:
    """No CPU is left, and yet most of the load's sessions have nothing to do: the load generator holds them up."""
    evidence = assessment.evidence
    clients = {level.index: level.clients for level in evidence.levels if level.rate is None}
    saturated = []
    for run in evidence.valid:
        for window in measured(run):
            level = window.level or 0
            busy = assessment.increase(run.id, level, CPU_BUSY, object=CPU_OBJECT)
            idle = assessment.increase(run.id, level, CPU_IDLE, object=CPU_OBJECT)
            waits = assessment.reduction.waits.get((run.id, level))
            if level not in clients or waits is None or busy is None or idle is None or busy + idle == 0:
                continue
            active = sum(wait.sessions for wait in waits)
            if busy / (busy + idle) > BUSY_SHARE and active < ACTIVE_SHARE * clients[level]:
                saturated.append(run.id)
    if saturated:
        runs = tuple(dict.fromkeys(saturated))
        yield CaveatFinding(
            code="generator-saturated",
            severity=Severity.WARNING,
            text=tr(
                "{in_runs} no CPU was left while more than half of the clients had no query in the server: the load "
                "generator, or another program on this machine, holds the server up, and an effect may look smaller "
                "than it is.",
                in_runs=in_runs(len(runs), len(evidence.valid)),
            ),
            hint=tr("Use fewer clients, the prepared protocol, or heavier transactions; end other programs."),
            runs=runs,
        )


# Checks of loads on files whose latencies are not the whole time of a request.


_LATENCY = "fio.latency_"
# What fio's histograms of completions (clat) leave out: stat.c counts flushes apart (add_sync_clat_sample), and the
# submission (slat) is not logged.
_HIDDEN: tuple[tuple[Callable[[FileJob], bool], str], ...] = (
    (
        lambda job: job.hides_flushes,
        mark(
            "Latencies of {jobs} are those of the writes alone: fio does not count the time of fsync in them, in which "
            "the device is waited for."
        ),
    ),
    (
        lambda job: job.hides_submission,
        mark(
            "Latencies of {jobs} begin when the kernel has taken a request: with a buffered file and this engine it "
            "may do the work, and wait for the device, before."
        ),
    ),
)


def check_latencies(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A latency that leaves out what is waited for can be a hundredth of the time that a request takes."""
    evidence = assessment.evidence
    if not evidence.is_on_files:
        return
    jobs = [job for arm in evidence.arms for job in arm.jobs]
    is_claimed = (evidence.experiment.hypothesis.metric or "").startswith(_LATENCY)
    for is_hidden, text in _HIDDEN:
        names = dict.fromkeys(job.name for job in jobs if is_hidden(job))
        if names:
            yield CaveatFinding(
                code="partial-latency",
                severity=Severity.WARNING if is_claimed else Severity.INFO,
                text=tr(text, jobs=join(list(names))),
                hint=tr(
                    "Requests per second have all of it: what is under way at a time (clients, times their depth) "
                    "divided by them is the mean of the whole time."
                ),
            )
