"""Statements that an arm executes by another plan than the control, and the time that goes with it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pgtrial.analysis.causes.pareto import count_statements
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.message import Message, Value, message
from pgtrial.findings.session_time import PlanChange
from pgtrial.model.metrics import TPS
from pgtrial.model.run import PLANS
from pgtrial.stats.failures import equal_share_p
from pgtrial.stats.interval import holm

ALPHA = 0.05
MIN_RUNS = 3  # of each arm: two equal arms whose plans are tossed by a coin have each its own in 2 × 1/2⁶ of all cases
_ARROW = " → "
_Statement = tuple[str, str]  # scenario and text


@dataclass(slots=True, kw_only=True)
class _Seen:
    """In how many runs each plan was found, and as what the sampled sessions show the statement."""

    shapes: Counter[str] = field(default_factory=Counter)
    shown: set[str] = field(default_factory=set)


def compare_plans(evidence: Evidence, reduction: Reduction, values: Values) -> tuple[PlanChange, ...]:
    """Every arm against the control, in the order of the scripts.

    The plan of most of an arm's runs is its plan: statistics are sampled, so single runs may differ from it. Arms whose
    plans change from run to run differ only if that is no chance (:func:`_differing`).
    """
    control = evidence.control
    if control is None:
        return ()
    of_control = _read_plans(evidence, control.name)
    found = []
    for arm in (arm.name for arm in evidence.arms if arm.name != control.name):
        of_arm = _read_plans(evidence, arm)
        for statement in _differing(of_control, of_arm):
            before, seen = of_control[statement], of_arm[statement]
            shown = before.shown | seen.shown
            scenario, text = statement
            plans = (_plan(before), _plan(seen))
            times = [_time_in(evidence, reduction, values, arm=name, shown=shown) for name in (control.name, arm)]
            found.append(
                PlanChange(
                    arm=arm,
                    control=control.name,
                    scenario=scenario,
                    statement=text,
                    control_plan=plans[0],
                    plan=plans[1],
                    control_seconds=times[0],
                    seconds=times[1],
                    text=_tell(control.name, arm, text, plans, times),
                )
            )
    return tuple(found)


def _read_plans(evidence: Evidence, arm: str) -> Mapping[_Statement, _Seen]:
    runs = {run.id for run in evidence.runs_of(arm)}
    found: dict[_Statement, _Seen] = {}
    for event in evidence.events:
        if event.kind == PLANS and event.run in runs:
            of_run: dict[_Statement, list[str]] = {}  # several statements of a script may have one text
            for plan in cast(
                "list[dict[str, Any]]", event.data["statements"]
            ):  # its types are checked where it is read
                statement = plan["scenario"], plan["statement"]
                of_run.setdefault(statement, []).append(plan["shape"])
                found.setdefault(statement, _Seen()).shown.update(plan["shown"])
            for statement, shapes in of_run.items():
                found[statement].shapes["\n".join(sorted(set(shapes)))] += 1
    return found


def _differing(of_control: Mapping[_Statement, _Seen], of_arm: Mapping[_Statement, _Seen]) -> Sequence[_Statement]:
    """Statements of which an arm's plan is another one by more than chance.

    Either each arm has one plan in all of its runs, MIN_RUNS at least, or Fisher's exact test of "both arms take the
    arm's plan equally often" says so at ALPHA, Holm's way over the statements that it is asked for.
    """
    certain, p = set[_Statement](), dict[_Statement, float]()
    for statement, seen in of_arm.items():
        before = of_control.get(statement)
        if before is None or _plan(before) == _plan(seen):
            continue
        if len(before.shapes) == len(seen.shapes) == 1:
            if min(before.shapes.total(), seen.shapes.total()) >= MIN_RUNS:
                certain.add(statement)
            continue
        plan = _plan(seen)
        runs = ((each.shapes[plan], each.shapes.total() - each.shapes[plan]) for each in (before, seen))
        p[statement] = equal_share_p(*runs)
    for statement, adjusted in zip(p, holm(list(p.values())), strict=True):
        if adjusted is not None and adjusted <= ALPHA:
            certain.add(statement)
    return [statement for statement in of_arm if statement in certain]


def _plan(seen: _Seen) -> str:
    return max(seen.shapes, key=lambda shape: (seen.shapes[shape], shape))


def _time_in(evidence: Evidence, reduction: Reduction, values: Values, *, arm: str, shown: set[str]) -> float | None:
    """Seconds that a transaction of the whole load spends in a statement, by Little's law, as the latency budget has
    it; None where sessions were not sampled.
    """
    times = []
    for run in evidence.runs_of(arm):
        for level in evidence.levels:
            throughput = values.get((run.id, TPS.name, None, level.index), 0.0)
            by_text = count_statements(reduction, [(run, level.index)])
            if throughput > 0 and by_text:
                sessions = sum(sum(kinds.values()) for text, kinds in by_text.items() if text in shown)
                times.append(sessions / throughput)
    return sum(times) / len(times) if times else None


def _tell(control: str, arm: str, statement: str, plans: tuple[str, str], times: Sequence[float | None]) -> Message:
    """``plans`` and ``times`` are of the control and of the arm."""
    names: dict[str, Value] = {
        "arm": arm,
        "control": control,
        "statement": statement,
        "change": _tell_change(*plans),
    }
    of_control, time = times
    if time is None or of_control is None:
        return message("plan.changed", **names)
    return message("plan.changed-timed", **names, time=time, of_control=of_control)


def _tell_change(before: str, after: str) -> str:
    """The steps of each plan that the other one has not: "Seq Scan on t → Index Scan using t_pkey on t"."""
    lines = [[line.strip() for line in plan.splitlines()] for plan in (before, after)]
    return _ARROW.join(", ".join(_only(*pair)) or lines[0][0] for pair in (lines, lines[::-1]))


def _only(mine: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    left = Counter(others)
    for line in mine:
        if left[line]:
            left[line] -= 1
        else:
            yield line
