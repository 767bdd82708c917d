"""A soak in a plan: what it asks, its windows, and when server and data begin."""

from pgtrial.cli.checked import Checked
from pgtrial.design.plan import Plan
from pgtrial.experiment_file.experiment import DEFAULT_WINDOWS
from pgtrial.units import format_duration


def soak_question(checked: Checked) -> str:
    """What is asked of the arms, in one line."""
    arms = "what drifts" if len(checked.plan.arms) == 1 else "what drifts in each arm, looked at alone"
    return f"{arms}; no claim is decided, and no arm compared"


def soak_measured(plan: Plan, warmup: str) -> str:
    """What is measured, after which warm-up."""
    each = " for each arm" if len(plan.arms) > 1 else ""
    return f"{windows_text(plan)}{each}; before the first one a warm-up: {warmup}"


def windows_text(plan: Plan) -> str:
    """ "24 windows of 1 h"."""
    count = "1 window" if plan.blocks == 1 else f"{plan.blocks} windows"
    return f"{count} of {format_duration(plan.experiment.workload.duration)}"


def soak_schedule(checked: Checked) -> str:
    """The order of the arms, and when their server and data begin."""
    plan = checked.plan
    order = list(dict.fromkeys(slot.arm for slot in plan.slots))
    windows = windows_text(plan)
    if len(order) > 1:
        drawn = plan.experiment.design.seed is not None
        by_order = f": {', then '.join(order)}" if drawn else ", in an order that is drawn"
        windows = f"{windows} for each of {len(order)} arms, one arm after the other{by_order}"
    started = "Before its first window the server is started and the data are put back, and never again"
    if len(order) > 1:
        started = "Before an arm's first window its server is started and its data are put back, and never again"
    if checked.loaded.experiment.target.kind == "server":
        started = "The server is not restarted, and the data are put back once"
    few = ""
    if plan.blocks < DEFAULT_WINDOWS:
        few = f" So few windows show no drift of a percentile, which has one value in each: {DEFAULT_WINDOWS} can."
    return (
        f"{windows}. {started}; the load reconnects between two windows. Where a window is invalid, and after "
        f'"pgtrial resume", the windows that are done are kept, but data and server begin anew.{few}'
    )
