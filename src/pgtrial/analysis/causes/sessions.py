"""What the load's sessions do on average: on a CPU, in its queue, in each wait; in two tiers of resolution."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pgtrial.analysis.causes.words import BLOCKED, CPU, CPU_QUEUE, IDLE_IN_TRANSACTION
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.metrics import BACKEND_QUEUE, BACKEND_RUN, CLIENT_BACKEND
from pgtrial.analysis.reduction import Reduction, SessionGroup
from pgtrial.analysis.slices import windows
from pgtrial.model.run import RunRow

SAMPLED = "sampled sessions"
WAIT_SAMPLING = "pg_wait_sampling"

# By how much the kernel's accounts may differ from the sampled sessions before anything is concluded from it.
TOLERANCE = 0.1

Kind = tuple[str, str]  # (wait type, or what stands for one; wait event)

_CLIENT_READ: Kind = ("Client", "ClientRead")  # what a session waits for that has nothing to do
# Of sessions whose state the server does not tell: for want of the right to see it, or with track_activities = off.
_UNTOLD = frozenset({"", "disabled"})
_ACTIVE = frozenset({"active", "fastpath function call"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSplit:
    """Average number of sessions of the load, over one measured window.

    ``at_work`` are those inside a statement, or with one before them, by what they do; ``in_transaction`` those between
    two statements of a transaction; ``total`` has all of them, idle ones included.
    """

    at_work: Mapping[Kind, float]
    in_transaction: float
    total: float

    @property
    def by_part(self) -> Mapping[Kind, float]:
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


def _by_kind(groups: Iterable[SessionGroup]) -> dict[Kind, float]:
    found: dict[Kind, float] = {}
    for group in groups:
        kind = (group.wait_type or CPU, group.wait_event)
        found[kind] = found.get(kind, 0.0) + group.sessions
    return found


def _refine(
    active: Mapping[Kind, float], groups: Iterable[SessionGroup], counts: Mapping[Kind, float]
) -> dict[Kind, float]:
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
