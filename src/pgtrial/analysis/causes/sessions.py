"""What the load's sessions do on average: on a CPU, in its queue, in each wait; in two tiers of resolution."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.reduction import Reduction, SessionGroup, sum_by_key
from pgtrial.analysis.slices import windows
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.causes import SAMPLED, WAIT_SAMPLING
from pgtrial.findings.record import Estimate
from pgtrial.findings.session_time import BLOCKED, CPU, CPU_QUEUE, IDLE_IN_TRANSACTION
from pgtrial.model.metrics import BACKEND_QUEUE, BACKEND_RUN, CLIENT_BACKEND, LOADS, PGBENCH
from pgtrial.model.run import RunRow
from pgtrial.stats.interval import NO_SPREAD, mean_and_sd, t_interval

# The second-by-second series of an arm at a load level, all its runs together.


Array = NDArray[np.float64]

THROUGHPUT = PGBENCH.throughput.name
THROUGHPUTS = frozenset(load.throughput.name for load in LOADS.values())
# What is a mean over the requests of a second, and the metric with the number of these.
_REQUESTS: Mapping[str, str] = {
    **{f"iostat.{kind}_await": f"iostat.{kind}" for kind in "rwdf"},
    "iostat.rareq": "iostat.r",
    "iostat.wareq": "iostat.w",
}
LATENCIES = frozenset(load.latency_mean.name for load in LOADS.values())


def group_cells(timelines: Iterable[Timeline]) -> Mapping[tuple[str, int], tuple[Timeline, ...]]:
    """Timelines by (arm, load level), arms in the order in which they come first, levels ascending."""
    found: dict[tuple[str, int], list[Timeline]] = {}
    for timeline in timelines:
        found.setdefault((timeline.arm, timeline.level), []).append(timeline)
    arms = list(dict.fromkeys(arm for arm, _ in found))
    return {key: tuple(found[key]) for key in sorted(found, key=lambda key: (arms.index(key[0]), key[1]))}


def find_series(timeline: Timeline, metric: str, about: str = "") -> Array | None:
    """Values of a metric, with throughput and mean latency of the load among them."""
    if metric in THROUGHPUTS:
        return timeline.tps
    return timeline.latency if metric in LATENCIES else timeline.get(metric, about)


def find_objects(timelines: Iterable[Timeline], metric: str) -> tuple[str, ...]:
    """All objects of a metric in any of the timelines, sorted; ("",) where it has none of its own."""
    if metric in THROUGHPUTS or metric in LATENCIES:
        return ("",)
    return tuple(sorted({about for timeline in timelines for name, about in timeline.series if name == metric}))


def pooled_values(timelines: Iterable[Timeline], metric: str, about: str = "") -> Array:
    """(seconds,) what is known of a metric in all timelines together."""
    found = [series for each in timelines if (series := find_series(each, metric, about)) is not None]
    together = np.concatenate(found) if found else np.empty(0)
    return together[~np.isnan(together)]


def undisturbed_values(timelines: Iterable[Timeline], metric: str, about: str = "", *, steal: float) -> Array:
    """A metric second by second, all timelines one after the other with a NaN between them.

    NaN are also the seconds in which the hypervisor took more than ``steal`` of the CPU time: what is done then is too
    little, and in the next second too much. Where those are most seconds, all are left in.
    """
    parts: list[Array] = []
    for each in timelines:
        series = find_series(each, metric, about)
        if series is None:
            continue
        taken = each.get("vmstat.st")
        is_disturbed = np.zeros(series.size, dtype=np.bool_) if taken is None else np.nan_to_num(taken) > steal
        mostly = np.count_nonzero(is_disturbed) > series.size / 2
        parts += [series if mostly else np.where(is_disturbed, np.nan, series), np.array([np.nan])]
    return np.concatenate(parts) if parts else np.empty(0)


def pooled_mean(timelines: Iterable[Timeline], metric: str, about: str = "") -> float | None:
    """Mean of a metric over all seconds in which it is known; None where it never is.

    Of what is told of each request, such as its time, it is the mean over requests, as iostat's of the whole time: a
    second with a thousand of them counts for a thousand times as much as one with a single one.
    """
    cell, beside = tuple(timelines), _REQUESTS.get(metric)
    if beside is not None:
        mean = _mean_over_requests(cell, metric, beside, about)
        if mean is not None:
            return mean
    values = pooled_values(cell, metric, about)
    return float(values.mean()) if values.size else None


def _mean_over_requests(cell: Sequence[Timeline], metric: str, beside: str, about: str) -> float | None:
    """``beside`` is the metric with the number of requests; None where no second is known to have any."""
    found = [(each.get(metric, about), each.get(beside, about)) for each in cell]
    pairs = [np.stack((value, number)) for value, number in found if value is not None and number is not None]
    of_each, requests = np.concatenate([np.empty((2, 0)), *pairs], axis=1)
    known = ~np.isnan(of_each) & (requests > 0)
    if not known.any():
        return None
    least = of_each[known].min()  # taken off, so that rounding makes no difference of equal values
    return float(least + (of_each[known] - least) @ requests[known] / requests[known].sum())


def rank_objects(timelines: Sequence[Timeline], metric: str) -> tuple[tuple[str, float], ...]:
    """(object, mean) of a metric, the largest first, those above zero."""
    means = [(about, pooled_mean(timelines, metric, about) or 0.0) for about in find_objects(timelines, metric)]
    return tuple(sorted((each for each in means if each[1] > 0), key=lambda each: (-each[1], each[0])))


def estimate_mean(values: Iterable[float | None], *, confidence: float) -> Estimate | None:
    """Mean of one number per block with Student's t interval; None where there is no number.

    No interval with fewer than two blocks, nor where all agree exactly, so that their noise is not known.
    """
    known = [value for value in values if value is not None and np.isfinite(value)]
    if not known:
        return None
    if len(known) == 1:
        return Estimate(value=known[0])
    mean, sd = mean_and_sd(known)
    if sd <= NO_SPREAD * max(map(abs, known)):
        return Estimate(value=mean)
    interval = t_interval(mean, sd, len(known), confidence=confidence)
    return Estimate(value=mean, low=interval.low, high=interval.high)


# By how much the kernel's accounts may differ from the sampled sessions before anything is concluded from it.
TOLERANCE = 0.1

WaitEvent = tuple[str, str]  # (wait type, or what stands for one; wait event)

_CLIENT_READ: WaitEvent = ("Client", "ClientRead")  # what a session waits for that has nothing to do
# Of sessions whose state the server does not tell: for want of the right to see it, or with track_activities = off.
_UNTOLD = frozenset({"", "disabled"})
_ACTIVE = frozenset({"active", "fastpath function call"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSplit:
    """Average number of sessions of the load, over one measured window.

    ``at_work`` are those inside a statement, or with one before them, by what they do; ``in_transaction`` those between
    two statements of a transaction; ``total`` has all of them, idle ones included.
    """

    at_work: Mapping[WaitEvent, float]
    in_transaction: float
    total: float

    @property
    def by_part(self) -> Mapping[WaitEvent, float]:
        """All that is part of a transaction as the server sees it."""
        waiting = {(IDLE_IN_TRANSACTION, ""): self.in_transaction} if self.in_transaction else {}
        return {**self.at_work, **waiting}


@dataclass(frozen=True, slots=True, kw_only=True)
class _CpuAccounts:
    """What the kernel says of the sessions: ``on_cpu`` is the share of their time on a CPU, of that and its queue.

    ``blocked`` is the share of the active sessions without a wait that were neither, ``summoned`` the share of the idle
    ones that were.
    """

    on_cpu: float = 1.0
    blocked: float = 0.0
    summoned: float = 0.0


def tier(evidence: Evidence, reduction: Reduction) -> str:
    """Where the split among waits comes from: WAIT_SAMPLING where every run has its counts, else SAMPLED.

    A mixture would show how the runs were observed as a difference between the arms.
    """
    cells = [(run.id, window.level) for run in evidence.valid for window in windows(run)]
    has_counts = bool(cells) and all(reduction.wait_counts.get(cell) for cell in cells)
    return WAIT_SAMPLING if has_counts else SAMPLED


def split_sessions(
    reduction: Reduction, run: RunRow, level: int, *, tier: str, scenario: str | None = None
) -> SessionSplit | None:
    """The sessions of a run at a load level; None where they were not sampled, or none of the load's was found whose
    state is known: behind a pooler with names of its own, with track_activities = off. Nothing would seem to be inside
    the server then.

    An active session without a wait is on a CPU, or wants to be. What it is of the two is told apart in the ratio of
    the kernel's own accounts (time on a CPU and time in its queue, of all client backends: /proc/PID/schedstat).
    Without these all of it is CPU. Where they differ from the samples by more than TOLERANCE, they tell more:

    - Less: the rest was neither. The kernel kept the process from going on, for instance to read a page that had been
      swapped out. That part is BLOCKED.
    - More: a session shows what it waits for until it has a CPU again. One whose client has sent a statement is idle by
      its own word as long as it queues for a CPU, which on a busy machine is most of the time of a short transaction.
      What the accounts have more than the samples is taken from idle sessions and from those in waits, to each in
      proportion; from idle ones it goes to CPU and its queue, in waits it stays, because nobody knows in which.

    pg_wait_sampling takes many more samples, but its period is only nominal: on a busy machine its collector comes
    late. So its counts say how the waits divide, and the sampled sessions how much waiting there is. It cannot tell an
    idle session from one that reads from its client inside a statement, nor one scenario from another: there it is not
    used.
    """
    groups = reduction.sessions.get((run.id, level))
    if groups is None or all(group.state in _UNTOLD for group in groups):
        return None
    mine = [group for group in groups if scenario in (None, group.scenario)]
    active = _by_kind(group for group in mine if group.state in _ACTIVE)
    if tier == WAIT_SAMPLING and scenario is None:
        active = _refine(active, mine, reduction.wait_counts[run.id, level])
    accounts = _read_accounts(reduction, run, level, groups)
    total = sum(group.sessions for group in mine)
    unexplained, idle = active.pop((CPU, ""), 0.0), total - sum(g.sessions for g in mine if g.state in _ACTIVE)
    in_transaction = sum(group.sessions for group in mine if group.state.startswith(IDLE_IN_TRANSACTION))
    wanting = unexplained * (1 - accounts.blocked) + idle * accounts.summoned
    working = {
        (CPU, ""): wanting * accounts.on_cpu,
        (CPU_QUEUE, ""): wanting * (1 - accounts.on_cpu),
        (BLOCKED, ""): unexplained * accounts.blocked,
    }
    return SessionSplit(
        at_work={**{kind: sessions for kind, sessions in working.items() if sessions > 0}, **active},
        in_transaction=in_transaction * (1 - accounts.summoned),
        total=total,
    )


def _by_kind(groups: Iterable[SessionGroup]) -> dict[WaitEvent, float]:
    return sum_by_key(((group.wait_type or CPU, group.wait_event), group.sessions) for group in groups)


def _refine(
    active: Mapping[WaitEvent, float], groups: Iterable[SessionGroup], counts: Mapping[WaitEvent, float]
) -> dict[WaitEvent, float]:
    """Waits in the ratio of the counts; what is left of the active sessions does not wait."""
    waiting = sum(group.sessions for group in groups if group.wait_type)
    total = sum(counts.values())
    refined = {kind: waiting * count / total for kind, count in counts.items() if kind != _CLIENT_READ}
    if _CLIENT_READ in active:
        refined[_CLIENT_READ] = active[_CLIENT_READ]
    return {(CPU, ""): max(0.0, sum(active.values()) - sum(refined.values())), **refined}


def _read_accounts(reduction: Reduction, run: RunRow, level: int, groups: Sequence[SessionGroup]) -> _CpuAccounts:
    """Of all scenarios together, because the kernel does not know them."""
    running, queued = (
        reduction.increase(run.id, level, (counter,), object=CLIENT_BACKEND) for counter in (BACKEND_RUN, BACKEND_QUEUE)
    )
    seconds = next((window.active for window in windows(run) if window.level == level), 0.0)
    if running is None or queued is None or running + queued <= 0 or seconds <= 0:
        return _CpuAccounts()
    accounted = (running + queued) / seconds
    active = _by_kind(group for group in groups if group.state in _ACTIVE)
    sampled = active.pop((CPU, ""), 0.0)
    # What is in neither shows a wait, its client's included.
    idle = sum(group.sessions for group in groups if group.state not in _ACTIVE)
    asleep = idle + sum(active.values())
    more = max(0.0, accounted * (1 - TOLERANCE) - sampled)
    return _CpuAccounts(
        on_cpu=running / (running + queued),
        blocked=max(0.0, 1 - accounted * (1 + TOLERANCE) / sampled) if sampled > 0 else 0.0,
        summoned=min(1.0, more / asleep) if asleep > 0 else 0.0,
    )
