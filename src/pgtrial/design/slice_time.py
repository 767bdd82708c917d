"""How long the slices of interleaved arms are, and how much at the start of each does not count."""

from collections.abc import Sequence

from pgtrial.design.effect_timing import Difference, find_differences
from pgtrial.design.levels import client_levels
from pgtrial.design.slices import GUARD, duet_guard
from pgtrial.experiment_file.experiment import DEFAULT_DUET_SLICE, DEFAULT_SLICE, Experiment
from pgtrial.knobs.declaration import Among, EffectTiming
from pgtrial.model.arm import Arm

# s; what is paced by the clock while an effect builds up then falls mostly into the slices of the arm that causes it:
# bgwriter and WAL writer work several times a second, the kernel's write-back every 5 s (vm.dirty_writeback_centisecs).
LEAST_SLICE_BUILDING_UP = 5.0
MOST_GUARD_SHARE = 0.5  # of a slice
USUAL_GUARD_SHARE = 0.2  # of a slice whose length is left to pgtrial
# Of a duet's slice. To give a session of each of two arms other CPUs takes about 130 µs, which should be a few percent
# of the time: many sessions exchange them less often.
SECONDS_PER_CLIENT = 0.004
LONGEST_DUET_SLICE = 0.25
MOST_DUET_SLICES = 5000  # in the measured time of a run, all of which are kept


def settle_guard(arms: Sequence[Arm]) -> float:
    """Seconds at the start of a slice that do not count: longer where a setting of the host is switched with it."""
    switched = [one.rule.seconds for one in find_differences(arms) if one.among_twins is Among.SWITCHED]
    return GUARD + max(switched, default=0.0)


def slice_length(experiment: Experiment, arms: Sequence[Arm]) -> float:
    """Seconds of a slice with its guard: as declared, else as short as its guard and what builds up allow."""
    if experiment.design.slice is not None:
        return experiment.design.slice
    if builds_up(find_differences(arms)):
        return LEAST_SLICE_BUILDING_UP
    guard = settle_guard(arms)
    usual = max(DEFAULT_SLICE, guard / USUAL_GUARD_SHARE)
    fitting = experiment.workload.duration / slices_per_round(len(arms)) + guard
    return round(max(min(usual, fitting), guard / MOST_GUARD_SHARE), 3)


def duet_slice_length(experiment: Experiment, arms: Sequence[Arm]) -> float:
    """Seconds between two exchanges of the CPUs, guard included: as declared, else as short as the number of clients
    and the duration allow; less if no round of them fits into the duration.
    """
    workload = experiment.workload
    shortest = max(
        DEFAULT_DUET_SLICE,
        SECONDS_PER_CLIENT * max(client_levels(workload)),
        workload.duration / MOST_DUET_SLICES,
    )
    length = experiment.design.slice or min(shortest, LONGEST_DUET_SLICE)
    return round(min(length, workload.duration / len(arms) + duet_guard(length)), 3)


def slices_per_round(arms: int) -> int:
    """Slices of each arm in the shortest balanced sequence: ABBA, or one Williams square or two."""
    return arms if arms % 2 == 0 else 2 * arms


def builds_up(differences: Sequence[Difference]) -> bool:
    """Whether an effect of these is not whole before it has built up state."""
    return any(one.rule.timing is EffectTiming.BUILDS_UP for one in differences)
