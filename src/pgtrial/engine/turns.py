"""Whether the arms of a load by a program take turns: decided before the first run by what it tells of a stop."""

import json
from dataclasses import asdict, replace

from pgtrial.design.methods import BLOCKS, longest_stop
from pgtrial.design.plan import Plan
from pgtrial.engine.events import Observer, Preparing
from pgtrial.engine.loads.base import Load
from pgtrial.engine.loads.command import CommandLoad
from pgtrial.store.plans import write_method
from pgtrial.store.state import State
from pgtrial.workloads.standstill import Standstill

STANDSTILL = "standstill"  # key of the record: what each check found
_UNCLEAR = (Standstill.UNKNOWN, Standstill.PARTLY)


def ask_for_check(load: Load, plan: Plan, state: State) -> None:
    """Have the load find out whether its program counts the time in which it stands still, unless that is on record."""
    if isinstance(load, CommandLoad):
        recorded = state.meta().get(STANDSTILL)
        load.longest_stop = longest_stop(plan.method, len(plan.arms))
        load.stands_still = plan.method.method == "interleaved" and recorded is None
        if recorded is not None:
            load.counts_standstill = all(one["found"] == Standstill.COUNTED for one in json.loads(recorded))


def decide_turns(load: Load, plan: Plan, state: State, *, tell: Observer) -> Plan:
    """The plan with the method that the check leaves, which is recorded with what was found."""
    if not isinstance(load, CommandLoad) or not load.standstills:
        return plan
    findings = load.standstills
    kinds = {one.found for one in findings}
    text = max(findings, key=lambda one: one.longest or 0.0).text
    if kinds == {Standstill.NOT_COUNTED}:
        reason = f"{plan.method.reason} The command does not count the time in which it stands still: {text}."
        method = replace(plan.method, reason=reason)
    elif kinds == {Standstill.COUNTED}:
        load.counts_standstill = True
        reason = (
            f"{plan.method.reason} The command counts all of the time in which it stands still as latency, so that it"
            f" can be taken out: {text}."
        )
        method = replace(plan.method, reason=reason)
    else:
        objection = next((one for one in findings if one.found in _UNCLEAR), findings[0])
        what = {
            Standstill.UNKNOWN: "whether the command counts the time in which it stands still cannot be told",
            Standstill.PARTLY: "the command counts some of the time in which it stands still as latency",
        }.get(objection.found, "one command counts the time in which it stands still as latency, another does not")
        reason = f"Blocks, and no turns: {what}: {objection.text}."
        method = replace(BLOCKS, reason=reason, duration=plan.method.duration)
    write_method(state, method)  # first: who is killed in between looks again
    state.set_meta(**{STANDSTILL: json.dumps([asdict(one) for one in findings])})
    tell(Preparing(step=f"method {method.method}: {reason}"))
    return replace(plan, method=method)
