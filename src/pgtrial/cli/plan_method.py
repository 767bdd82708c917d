"""The method in a plan: which one and why, objections to each, the layout of slices and looks, and a soak."""

from collections.abc import Iterator
from typing import Any

from pgtrial.cli.checked import Checked
from pgtrial.cli.text import fill
from pgtrial.design.methods import Judgement
from pgtrial.design.plan import Plan
from pgtrial.experiment_file.experiment import DEFAULT_WINDOWS
from pgtrial.model.arm import Role
from pgtrial.units import format_duration, format_percent, format_share

_NAME_WIDTH = 13
_FIRST_STEPS = 8
_UNKNOWN = (
    "Not known before the first runs: it depends on the noise of this machine. After 3 blocks "
    '"pgtrial status" shows the detectable effect, and the report says how many more blocks a decision needs.'
)

# Of runs one after the other: slices are compared with their neighbours, however long all of them take together.
_OF_RUNS = (
    " The calibration's runs may have been shorter: noise that lasts longer than one of them is not in it, and then "
    "only a larger change is found."
)


def method_lines(checked: Checked) -> Iterator[str]:
    """The method and its reason, the use of a covariate, then all methods with the objections to them."""
    plan = checked.plan
    # A soak has none that could be chosen.
    is_soak = plan.experiment.design.soak is not None
    yield fill(plan.method.reason if is_soak else f"{plan.method.method}: {plan.method.reason}")
    if plan.steps:
        yield fill(_slices_text(plan))
    if plan.experiment.design.covariate is not None:
        yield fill(_covariate_text(plan))
    for judgement in plan.judgements:
        if judgement.method != "blocks":
            text = f"{judgement.method:<{_NAME_WIDTH}}{_judgement_text(judgement)}"
            yield fill(text, indent=" " * (_NAME_WIDTH + 2))


def method_data(plan: Plan) -> dict[str, Any]:
    """The same for --json: times in seconds, those of slices null where there are none."""
    choice, has_slices = plan.method, bool(plan.steps)
    return {
        "name": choice.method,
        "reason": choice.reason,
        "slice": choice.slice if has_slices else None,
        "guard": choice.guard if has_slices else None,
        "slices_per_arm": _slices_per_arm(plan) if has_slices else None,
        "covariate": None if has_slices else plan.experiment.design.covariate,
        "judgements": [
            {
                "method": judgement.method,
                "valid": judgement.valid,
                "reasons": list(judgement.reasons),
                "warnings": list(judgement.warnings),
                "doubtful": judgement.doubtful,
            }
            for judgement in plan.judgements
        ],
    }


def order_lines(plan: Plan) -> Iterator[str]:
    """The order inside a block whose arms share its time."""
    yield fill(f"{plan.blocks} blocks, in each of which the arms share the time.")
    shown = [" and ".join(step.arms) for step in plan.steps[:_FIRST_STEPS]]
    rest = ", …" if len(plan.steps) > _FIRST_STEPS else ""
    if plan.experiment.design.seed is not None:
        yield fill(f"block 1 begins: {', '.join(shown)}{rest}")


def disturbed_text(plan: Plan) -> str:
    """When a run or block counts as disturbed by others, and is run again, "" if it never does."""
    design = plan.experiment.design
    if design.disturbed is None:
        return ""
    what = "block" if plan.steps else "run"
    often = "once" if design.repeats == 1 else f"{design.repeats} times"
    return (
        f"A {what} in which other programs and the hypervisor took more than {format_share(design.disturbed)} of the "
        f"CPU time is run again, at most {often}. The last one counts, whatever it is."
    )


def looks_text(plan: Plan) -> str:
    """When the experiment may end early, "" if it may not."""
    looks, design = plan.looks, plan.experiment.design
    if not looks:
        return ""
    if len(looks) == 1:
        return f"The only look is after block {looks[0]}, the last one, so nothing ends early; plan more blocks."
    is_each = looks == tuple(range(looks[0], looks[-1] + 1))
    when = f"each block from block {looks[0]} on" if is_each else f"blocks {', '.join(map(str, looks))}"
    if design.stop == "each-arm":
        return (
            f"Looks after {when}. An arm for which the claim is decided is not run any more; the control and the "
            f"others go on in the order that was drawn, until all are decided; {plan.blocks} blocks at most."
        )
    goal = "the claim is decided"
    if design.precision is not None:
        goal = f"the interval is within ±{format_share(design.precision)}"
    return f"Looks after {when}, and ends when {goal}; {plan.blocks} blocks at most."


def detectable_effect(plan: Plan, noise: float | None) -> float | None:
    """The relative change that the planned blocks find with 80 % probability, ``noise`` being the standard deviation
    of a block's log ratio; None where it is not known. It is that of the interval after the last block, also where a
    rule for stopping looks before. None as well where the blocks are too few for a verdict.
    """
    if noise is None or plan.blocks < plan.rules.fewest_blocks:
        return None
    from pgtrial.analysis.evidence import confidence_due
    from pgtrial.stats.power import detectable_ratio

    # The placebo is no claim, so it has no share of the error.
    comparisons = max(1, sum(arm.role is Role.CANDIDATE for arm in plan.arms))
    due = confidence_due(
        *(plan.experiment.design, plan.looks),
        confidence=plan.confidence,
        blocks=plan.blocks,
        comparisons=comparisons,
    )
    return None if due is None else detectable_ratio(noise, plan.blocks, confidence=due, comparisons=comparisons)


def detectable_text(plan: Plan, noise: float | None) -> str:
    """The same in words."""
    if plan.experiment.design.soak is not None:
        return "None: a soak compares no arms. It tells of each arm whether it drifts."
    if plan.blocks < plan.rules.fewest_blocks:
        return f"None: a verdict needs {plan.rules.fewest_blocks} blocks."
    found = detectable_effect(plan, noise)
    if noise is None or found is None:
        return _UNKNOWN
    return (
        f"{format_percent(found)}: such a change is found in {plan.blocks} blocks with 80 % probability, if the noise "
        f"is that of the calibration (standard deviation of a block's log ratio {noise:.3g})."
        f"{_OF_RUNS if plan.method.method == 'blocks' else ''}"
    )


def _judgement_text(judgement: Judgement) -> str:
    if not judgement.valid:
        return f"not valid: {'; '.join(judgement.reasons)}"
    if not judgement.warnings:
        return "valid"
    return f"valid, {'but in doubt' if judgement.doubtful else 'with a note'}: {'; '.join(judgement.warnings)}"


def _covariate_text(plan: Plan) -> str:
    name = plan.experiment.design.covariate
    if plan.steps:
        return f"The covariate {name} is not used: arms that share the time of a block share it too, and it cancels."
    return f"The effect at equal {name} in both arms is reported beside the unadjusted one, which the verdict is about."


def _slices_per_arm(plan: Plan) -> int:
    return sum(plan.arms[0].name in step.arms for step in plan.steps)


def _slices_text(plan: Plan) -> str:
    choice, count = plan.method, _slices_per_arm(plan)
    length, guard = format_duration(choice.slice), format_duration(choice.guard)
    counted = format_duration(count * (choice.slice - choice.guard))
    times = f"the first {guard} of each do not count, which leaves {counted}"
    if choice.method == "duet":
        return (
            f"In a block and load level all arms are at work at once, in {count} slices of {length}, as many on each "
            f"set of CPUs; {times}."
        )
    return f"In a block and load level each arm has {count} slices of {length} on average, in balanced order; {times}."


# A soak, which has none: what it asks, its windows, and when server and data begin.


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
