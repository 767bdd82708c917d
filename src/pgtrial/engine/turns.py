"""Whether the arms of a load by a program take turns: decided before the first run by what it tells of a stop."""

import json
from dataclasses import asdict, replace

from pgtrial.design.methods import BLOCKS
from pgtrial.design.plan import Plan
from pgtrial.engine.events import Observer, Preparing
from pgtrial.engine.loads.base import Load
from pgtrial.engine.loads.command import CommandLoad
from pgtrial.store.plans import write_method
from pgtrial.store.state import State
from pgtrial.workloads.standstill import Standstill

STANDSTILL = "standstill"  # key of the record: what each check found


def ask_for_check(load: Load, plan: Plan, state: State) -> None:
    """Have the load find out whether its program counts the time in which it stands still, unless that is on record."""
    if isinstance(load, CommandLoad):
        load.stands_still = plan.method.method == "interleaved" and STANDSTILL not in state.meta()


def decide_turns(load: Load, plan: Plan, state: State, *, tell: Observer) -> Plan:
    """The plan with the method that the check leaves, which is recorded with what was found."""
    if not isinstance(load, CommandLoad) or not load.standstills:
        return plan
    findings = load.standstills
    objection = next((one for one in findings if one.found is not Standstill.NOT_COUNTED), None)
    if objection is None:
        text = max(findings, key=lambda one: one.longest or 0.0).text
        reason = f"{plan.method.reason} The command does not count the time in which it stands still: {text}."
        method = replace(plan.method, reason=reason)
    else:
        what = "the command counts the time in which it stands still as latency"
        if objection.found is Standstill.UNKNOWN:
            what = f"whether {what} cannot be told"
        reason = f"Blocks, and no turns: {what}: {objection.text}."
        method = replace(BLOCKS, reason=reason, duration=plan.method.duration)
    state.set_meta(**{STANDSTILL: json.dumps([asdict(one) for one in findings])})
    write_method(state, method)
    tell(Preparing(step=f"method {method.method}: {reason}"))
    return replace(plan, method=method)
