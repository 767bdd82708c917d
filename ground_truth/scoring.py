"""Hold what the analysis found against the truth. Pure: from findings.json, as data, to an outcome."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ground_truth.cases import Case
from pgtrial.analysis.causes.stability import LIKELY
from pgtrial.findings.causes import Causes, Limit, Resource
from pgtrial.findings.message import say
from pgtrial.findings.session_time import LatencyBudget
from pgtrial.units import parse_bytes

LEVEL = 0  # every case has one load level
NEAR = 0.05  # by which a limit may be found too high or too low
TOLERANCE = 0.02  # of the latency and of the clients, by which the sum of the parts and sampled sessions may be off


class State(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    NOT_ADDING_UP = "parts do not add up"
    NOT_MADE = "cause not there"  # the arm without the cause was not faster, so the experiment proves nothing
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a case; null numbers where there are none.

    ``excess`` is the sum of the parts of the mean latency over the measured one, minus 1; ``closure`` the sampled
    sessions over throughput, against the same; ``sampled`` the sampled sessions over the clients.
    """

    case: Case
    state: State
    reason: str = ""
    found: Resource | None = None
    detail: str = ""
    without: Resource | None = None  # what limits the relieved arm
    relief: float | None = None
    excess: float | None = None
    closure: float | None = None
    sampled: float | None = None

    @property
    def is_good(self) -> bool:
        """Nothing to mend. What cannot run on a machine is no fault of the analysis."""
        return self.state in (State.RIGHT, State.NOT_RUN)


def judge(case: Case, document: Mapping[str, Any]) -> Outcome:
    """The outcome of a case whose findings.json is ``document``."""
    if not document.get("causes"):
        return Outcome(case=case, state=State.FAILED, reason="findings.json has no causes")
    causes = Causes.model_validate(document["causes"])
    limit, relieved = (_limit(causes, arm) for arm in (case.arm, case.relieved))
    budget = _budget(causes, case.arm)
    relief, latency = find_relief(case, document), find_latency(case, document)
    excess = None
    if budget is not None and latency:
        excess = sum(part.seconds.value for part in budget.parts) / latency - 1
    outcome = Outcome(
        case=case,
        state=State.RIGHT,
        found=limit.resource if limit else None,
        detail=say(limit.detail) if limit else "",
        without=relieved.resource if relieved else None,
        relief=relief,
        excess=excess,
        closure=budget.closure if budget else None,
        sampled=_find_sampled(case, document, budget),
    )
    return _with_state(outcome, causes)


def _with_state(outcome: Outcome, causes: Causes) -> Outcome:
    """The first of what is wrong with it, else right."""
    case = outcome.case
    if outcome.relief is None or outcome.relief < case.relief:
        shown = "no throughput" if outcome.relief is None else f"{outcome.relief:.2f} times the throughput"
        reason = f"{case.relieved} has {shown} of {case.arm}, at least {case.relief:g} were expected"
        return replace(outcome, state=State.NOT_MADE, reason=reason)
    if outcome.found not in case.expected:
        names = " or ".join(case.expected)
        return replace(outcome, state=State.WRONG, reason=f"expected {names}, found {outcome.found or 'nothing'}")
    missed = [*_missed_in_name(outcome), *_missed_in_time(case, causes), *_missed_in_height(case, causes)]
    if missed:
        return replace(outcome, state=State.WRONG, reason="; ".join(missed))
    off = []
    if outcome.excess is None or abs(outcome.excess) > TOLERANCE:
        off.append("the parts of the mean latency are not there or do not add up to it")
    if outcome.sampled is None or abs(outcome.sampled - 1) > TOLERANCE:
        off.append("the sampled sessions are not those of all clients")
    return replace(outcome, state=State.NOT_ADDING_UP, reason="; ".join(off)) if off else outcome


def _missed_in_name(outcome: Outcome) -> Iterator[str]:
    if outcome.case.which and outcome.detail != outcome.case.which:
        yield f'expected "{outcome.case.which}", found "{outcome.detail}"'


def _missed_in_time(case: Case, causes: Causes) -> Iterator[str]:
    """What should be known of when throughput breaks in."""
    found = next((s for s in causes.stability if (s.arm, s.load_level) == (case.arm, LEVEL)), None)
    if case.rhythm:
        periods = found.periods if found else ()
        if not any(period.like == case.rhythm and period.false_alarm <= LIKELY for period in periods):
            yield f"throughput is not found to go up and down with {case.rhythm}"
    if case.beside and (found is None or not _lie_beside(say(found.aligned), case.beside)):
        yield f"the dips are not found beside each {case.beside} of the log"


def _lie_beside(aligned: str, kind: str) -> bool:
    return aligned.startswith("Of ") and f"lie beside a {kind};" in aligned


def _missed_in_height(case: Case, causes: Causes) -> Iterator[str]:
    """A limit that the experiment's file does not know of is to be found where it is."""
    ceilings = [
        load.ceiling
        for use in causes.disks
        for load in use.levels
        if (use.arm, load.load_level) == (case.arm, LEVEL) and load.ceiling is not None
    ]
    for name, text in case.outside.items():
        limit = parse_bytes(text) if name.endswith("bytes") else float(text)
        if not any(c.declared is None and abs(c.value.value / limit - 1) <= NEAR for c in ceilings):
            shown = " and ".join(f"{c.value.value:.0f}" for c in ceilings) or "none"
            yield f"the limit of {text} ({name}) is not found, but {shown}"


def find_relief(case: Case, document: Mapping[str, Any]) -> float | None:
    """Throughput of the relieved arm / that of the limited one, over all blocks."""
    return next(
        (
            effect["ratio"]
            for effect in document["effects"]
            if effect["arm"] == case.relieved
            and effect["metric"] == "pgbench.tps"
            and effect["scenario"] is None
            and effect["load_level"] == LEVEL
        ),
        None,
    )


def _find_sampled(case: Case, document: Mapping[str, Any], budget: LatencyBudget | None) -> float | None:
    """Sampled sessions of the limited arm over its clients.

    In a closed loop each client has a session, in a transaction or between two of them, where the load generator works.
    So sampled sessions over throughput are more than the latency by that pause, and by no more.
    """
    if budget is None or budget.closure is None:
        return None
    clients = document["experiment"]["levels"][LEVEL]["clients"]
    cycles = [
        clients / (tps * latency)
        for tps, latency in zip(*(_observed(case, document, name) for name in ("tps", "latency_mean")), strict=True)
    ]
    return budget.closure * len(cycles) / sum(cycles) if cycles else None


def find_latency(case: Case, document: Mapping[str, Any]) -> float | None:
    """Measured mean latency of the limited arm in seconds: the mean of its runs."""
    values = _observed(case, document, "latency_mean")
    return sum(values) / len(values) if values else None


def _observed(case: Case, document: Mapping[str, Any], metric: str) -> list[float]:
    """A metric of pgbench in the runs of the limited arm."""
    return [
        observation["value"]
        for observation in document["observations"]
        if observation["arm"] == case.arm
        and observation["metric"] == f"pgbench.{metric}"
        and observation["scenario"] is None
        and observation["load_level"] == LEVEL
    ]


def _limit(causes: Causes, arm: str) -> Limit | None:
    return next((limit for limit in causes.limits if (limit.arm, limit.load_level) == (arm, LEVEL)), None)


def _budget(causes: Causes, arm: str) -> LatencyBudget | None:
    return next(
        (budget for budget in causes.budgets if (budget.arm, budget.load_level, budget.scenario) == (arm, LEVEL, None)),
        None,
    )


def confusion(outcomes: Sequence[Outcome]) -> dict[tuple[Resource, Resource], int]:
    """Number of cases by (truth, found); only those that were made and analysed.

    A name that is as right as the best one counts as the best one.
    """
    scored = [o for o in outcomes if o.found is not None and o.state is not State.NOT_MADE]
    return Counter(
        (o.case.expected[0], o.case.expected[0] if o.found in o.case.expected else o.found)
        for o in scored
        if o.found is not None
    )
