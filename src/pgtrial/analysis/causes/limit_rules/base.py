"""What a rule sees, an arm at one load level, and how it says what it suspects."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pgtrial.analysis.causes.limit_thresholds import Ramp
from pgtrial.analysis.causes.sessions import pooled_mean, pooled_values
from pgtrial.analysis.log_pairing import LogEvent
from pgtrial.analysis.reduction import sum_by_key
from pgtrial.analysis.timelines.timeline import Array, Timeline
from pgtrial.findings.causes import LimitEvidence, Resource, Suspect
from pgtrial.findings.message import Message, message
from pgtrial.findings.naming import UNKNOWN_STATEMENT, name_part
from pgtrial.findings.session_time import CPU, CPU_QUEUE, BudgetPart, LatencyBudget
from pgtrial.model.run import LoadLevel

# Average sessions by arm and load level, kind of wait, and statement.
Statements = Mapping[tuple[str, int], Mapping[tuple[str, str], Mapping[str, float]]]
PartFilter = Callable[[str, str], bool]  # whether a part of the budget, (kind, event), belongs to something


@dataclass(frozen=True, slots=True, kw_only=True)
class Relief:
    """What another arm surely saves of an arm's latency, in all and by part of the budget; times in seconds."""

    other: str
    latency: float
    saved: float
    parts: Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of an experiment beside its samples; nothing of it has to be.

    ``max_connections`` is by arm, ``threads`` of the load generator by load level. ``device_limits`` are by arm, those
    of the server's control group by metric ("cgroup.reads": 3000), in 1/s and B/s. ``in_turns`` are the runs whose arms
    shared the time of a block: their seconds are not seconds of the clock, by which the server's log goes.
    ``checkpoint_timeouts`` are by arm, in seconds. ``attempts`` are by arm and load level: transactions that ended,
    failed ones included, for each that succeeded. ``wal_compression`` is the setting by arm, of those that compress.
    ``reliefs`` are by arm and load level, and so are ``statements``: average sessions by kind of wait and statement.
    """

    events: Sequence[LogEvent] = ()
    max_connections: Mapping[str, int] = field(default_factory=dict)
    threads: Mapping[int, int] = field(default_factory=dict)
    device_limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    in_turns: frozenset[int] = frozenset()
    checkpoint_timeouts: Mapping[str, float] = field(default_factory=dict)
    attempts: Mapping[tuple[str, int], float] = field(default_factory=dict)
    wal_compression: Mapping[str, str] = field(default_factory=dict)
    reliefs: Mapping[tuple[str, int], Sequence[Relief]] = field(default_factory=dict)
    statements: Statements = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementShare:
    """A statement, and its share of the time in question."""

    text: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An arm at a load level: all its runs. ``below`` is the same arm at the level with the next fewer clients."""

    arm: str
    level: LoadLevel
    timelines: tuple[Timeline, ...]
    budget: LatencyBudget | None
    facts: Facts
    below: "Scene | None" = None

    # What the timelines say

    def seconds(self, metric: str, about: str = "") -> Array:
        """(seconds,) what is known of a metric, all runs one after the other."""
        return pooled_values(self.timelines, metric, about)

    def median(self, metric: str, about: str = "") -> float | None:
        known = self.seconds(metric, about)
        return float(np.median(known)) if known.size else None

    def mean(self, metric: str, about: str = "") -> float | None:
        return pooled_mean(self.timelines, metric, about)

    def share_above(self, metric: str, limit: float) -> float | None:
        """Share of the seconds in which a metric is above a limit."""
        known = self.seconds(metric)
        return float(np.mean(known > limit)) if known.size else None

    def objects(self, metric: str) -> tuple[str, ...]:
        return tuple(sorted({about for timeline in self.timelines for about in timeline.objects(metric)}))

    @property
    def throughput(self) -> float | None:
        seconds = np.concatenate([timeline.tps for timeline in self.timelines]) if self.timelines else np.empty(0)
        return float(np.nanmean(seconds)) if np.isfinite(seconds).any() else None

    # What the latency budget says

    def share(self, *belongs: PartFilter) -> float | None:
        """Share of the mean latency; None without a budget."""
        if self.budget is None or self.budget.latency.value <= 0:
            return None
        seconds = sum(p.seconds.value for p in self.budget.parts if any(f(p.kind, p.event) for f in belongs))
        return max(0.0, seconds / self.budget.latency.value)

    def has_part(self, kind: str) -> bool:
        return self.budget is not None and any(part.kind == kind for part in self.budget.parts)

    def largest(self, *belongs: PartFilter) -> str:
        """Name of the largest part of those that belong: its event, or its kind where it has none; "" for none."""
        parts = self.budget.parts if self.budget else ()
        belonging = (p for p in parts if p.seconds.value > 0 and any(f(p.kind, p.event) for f in belongs))
        first = next(belonging, None)
        return (first.event or first.kind) if first else ""

    def sessions(self, *belongs: PartFilter) -> float | None:
        """Average number of sessions in these parts: Little's law backwards."""
        share, throughput = self.share(*belongs), self.throughput
        if share is None or throughput is None or self.budget is None:
            return None
        return (
            share * self.budget.latency.value * throughput * self.facts.attempts.get((self.arm, self.level.index), 1.0)
        )

    def name_parts(self) -> Iterator[Message]:
        """ "IO WALSync 62 %": every part with its share of the latency, largest first; that one with its statement."""
        if self.budget is not None and self.budget.latency.value > 0:
            for place, part in enumerate(self.budget.parts):
                share, name = part.seconds.value / self.budget.latency.value, name_part(part.kind, part.event)
                mostly = self.statement_in(_only(part)) if place == 0 else None
                if mostly is None:
                    yield message("limit.part", part=name, share=share)
                else:
                    yield message("limit.part-in", part=name, share=share, statement=mostly.text, most=mostly.share)

    def statement_in(self, *belongs: PartFilter) -> "StatementShare | None":
        """The statement in which most of these parts is spent; None where no session was seen in them."""
        return statement_of(self.facts.statements.get((self.arm, self.level.index), {}), *belongs)


def statement_of(kinds: Mapping[tuple[str, str], Mapping[str, float]], *belongs: PartFilter) -> StatementShare | None:
    """The statement with most of the sessions in some kinds of wait; None where there are none, or its text is unknown.

    Sessions that queue for a CPU show no wait, as those that have one.
    """

    def is_meant(kind: tuple[str, str]) -> bool:
        shown = (kind, (CPU_QUEUE, "")) if kind == (CPU, "") else (kind,)
        return any(f(*each) for f in belongs for each in shown)

    found = sum_by_key(part for kind, statements in kinds.items() if is_meant(kind) for part in statements.items())
    total = sum(found.values())
    if total <= 0:
        return None
    text = max(found, key=lambda text: (found[text], text))
    return None if text == UNKNOWN_STATEMENT else StatementShare(text=text, share=found[text] / total)


def _only(part: BudgetPart) -> PartFilter:
    return lambda kind, event: (kind, event) == (part.kind, part.event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """A number that speaks for a resource, and how strongly: ``weight`` 0 to 1, ``reach`` without an end."""

    weight: float
    reach: float
    evidence: LimitEvidence


Rule = Callable[[Scene], Iterable[Suspect | None]]


def find_clue(metric: str, value: float | None, unit: str, ramp: Ramp, text: Message) -> Clue | None:
    """The clue that a number is; None where it is not known. Its threshold is where it speaks just strongly enough."""
    if value is None or not np.isfinite(value):
        return None
    evidence = LimitEvidence(metric=metric, value=value, unit=unit, threshold=ramp.half, text=text)
    return Clue(weight=ramp.weigh(value), reach=ramp.reach(value), evidence=evidence)


def strongest(clues: Iterable[Clue | None]) -> Clue | None:
    """The one of several alternatives that speaks loudest; None where none is known."""
    return max((clue for clue in clues if clue is not None), key=lambda clue: clue.weight, default=None)


def accuse(
    resource: Resource,
    *,
    needs: Sequence[Clue | None],
    detail: str | Message = "",
    supports: Sequence[Clue | None] = (),
    at_most: float = 1.0,
) -> Suspect | None:
    """A suspect as strong as the weakest of what it takes; None without the first of these, the main one.

    What is not known is left out. What only ``supports`` the suspicion makes up its last fifth.
    """
    known = [clue for clue in needs if clue is not None]
    if not needs or needs[0] is None:
        return None
    strength = min(clue.weight for clue in known)
    more = [clue for clue in supports if clue is not None]
    if more:
        strength *= 0.8 + 0.2 * sum(clue.weight for clue in more) / len(more)
    return Suspect(
        resource=resource,
        strength=min(at_most, strength),
        reach=min(clue.reach for clue in known),
        detail=detail,
        evidence=tuple(clue.evidence for clue in (*known, *more)),
    )
