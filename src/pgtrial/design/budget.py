"""How a budget is spent: how long the runs are, and so how many blocks there are."""

import math
from collections.abc import Sequence
from dataclasses import replace

from pgtrial.design.duration import BLOCKS_WANTED, estimate_total, fitting_blocks
from pgtrial.design.effect_timing import find_differences
from pgtrial.design.method_case import HostFacts
from pgtrial.design.methods import SOAK, MethodChoice, choose_method
from pgtrial.design.slices import builds_up
from pgtrial.errors import SpecError
from pgtrial.experiment_file.experiment import Experiment, count_windows
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel

SHORTEST = 3  # s of measured time of a run: less is mostly its beginning
USUAL_SHORTEST = 5  # s, while that holds the blocks that are wanted
# Of a block's log ratio, on a shared machine: what two starts of the same server differ by, and what a second of load
# adds, which falls with the root of the duration. Runs one after the other also see the machine change between them.
START_SD = 0.040
SECOND_SD = {"blocks": 0.24, "interleaved": 0.05, "duet": 0.05, "switchback": 0.24}


def is_open(experiment: Experiment) -> bool:
    """Whether the duration is chosen with the number of blocks: there is a budget, and the file names no duration."""
    return experiment.design.budget is not None and "duration" not in experiment.workload.model_fields_set


def with_duration(experiment: Experiment, duration: float | None) -> Experiment:
    """The experiment with a duration that was chosen for it, which is still not one that the file names."""
    if duration is None:
        return experiment
    workload = experiment.workload
    values = {**dict(workload), "duration": duration}
    chosen = type(workload).model_construct(_fields_set=set(workload.model_fields_set), **values)
    return experiment.model_copy(update={"workload": chosen})


def settle_design(
    experiment: Experiment, arms: Sequence[Arm], levels: Sequence[LoadLevel], facts: HostFacts | None
) -> tuple[Experiment, MethodChoice]:
    """The method, and how long the runs are: a window of a soak, or what a budget allows where there is no duration.

    A server differs more from one start to the next than many seconds of load differ from others, so short runs and
    many starts tell more than few long runs. How long a run should be follows from what both contribute and cost, not
    from the budget; it is never longer than where no budget is given, and shorter where BLOCKS_WANTED blocks do not
    fit. Where an effect builds up it is shorter for that reason alone.
    Source: Kalibera & Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013, section 6.2.

    SpecError where the method is not valid, or no duration fits into the budget.
    """
    if experiment.design.soak is not None:
        # Runs have whole seconds; what is left over is not measured.
        window = float(experiment.design.soak // count_windows(experiment.design))
        return with_duration(experiment, window), replace(SOAK, duration=window)
    choice = choose_method(experiment, arms, levels, facts)
    budget = experiment.design.budget
    if budget is None or not is_open(experiment):
        return experiment, choice
    usual = int(experiment.workload.duration)
    longest = usual
    if not builds_up(find_differences(arms)):
        longest = min(usual, max(USUAL_SHORTEST, round(_best_duration(experiment, arms, choice))))
    found: tuple[int, Experiment, MethodChoice] | None = None
    for seconds in range(longest, SHORTEST - 1, -1):
        one = with_duration(experiment, float(seconds))
        try:
            settled = choose_method(one, arms, levels, facts)
        except SpecError:
            continue  # its slices would not fit
        if settled.method != choice.method:
            continue
        blocks = fitting_blocks(one, arms, budget, settled)
        if found is None or blocks > found[0]:
            found = blocks, one, replace(settled, duration=float(seconds))
        if blocks >= BLOCKS_WANTED:
            break
    assert found is not None or longest < usual  # the usual duration is among those tried, or was passed over
    return (experiment, choice) if found is None else found[1:]


def _best_duration(experiment: Experiment, arms: Sequence[Arm], choice: MethodChoice) -> float:
    """Seconds at which the interval is narrowest for the time: the root of the ratio of costs times that of SDs."""
    usual = experiment.workload.duration
    short, long = (_block_seconds(with_duration(experiment, each), arms, choice) for each in (usual, 2 * usual))
    per_second = (long - short) / usual
    beside = max(0.0, short - per_second * usual)
    return math.sqrt(beside / per_second) * SECOND_SD[choice.method] / START_SD


def _block_seconds(experiment: Experiment, arms: Sequence[Arm], choice: MethodChoice) -> float:
    one = estimate_total(experiment, arms, blocks=1, choice=choice)
    return one.total - one.prepare
