"""How long the slices of arms that share a block's time are."""

from collections.abc import Sequence

from pgtrial.design.effect_timing import Difference, find_differences
from pgtrial.design.slices import GUARD, LENGTH_SPREAD, duet_guard
from pgtrial.experiment_file.experiment import DEFAULT_DUET_SLICE, DEFAULT_SLICE, DEFAULT_SWITCH_SLICE, Experiment
from pgtrial.knobs.declaration import Among, EffectTiming
from pgtrial.model.arm import Arm

# s; what is paced by the clock while an effect builds up then falls mostly into the slices of the arm that causes it:
# bgwriter and WAL writer work several times a second, the kernel's write-back every 5 s (vm.dirty_writeback_centisecs).
LEAST_SLICE_BUILDING_UP = 5.0
LEAST_SWITCH_BUILDING_UP = 10.0  # s between two switches: half of it is washout, in which write-back comes by
LEAST_SWITCH = 2.0  # s: a reload and its reading back take some hundredths of it, statements end meanwhile
WASHOUT = 0.5  # of a slice, at its start: there the other arm may still be felt, and nothing counts
# Of a duet's slice. To give a session of each of two arms other CPUs takes about 130 µs, which should be a few percent
# of the time: many sessions exchange them less often.
SECONDS_PER_CLIENT = 0.004
LONGEST_DUET_SLICE = 0.25
MOST_DUET_SLICES = 5000  # in the measured time of a run, all of which are kept


def settle_time(arms: Sequence[Arm]) -> float:
    """Seconds until an arm runs as usual after its turn has begun: longer where a setting of the host is switched."""
    switched = [one.rule.seconds for one in find_differences(arms) if one.among_twins is Among.SWITCHED]
    return GUARD + max(switched, default=0.0)


def shortest_slice(arms: Sequence[Arm]) -> float:
    """Seconds of a slice, in the shortest of which the washout still covers the time to settle."""
    return round(settle_time(arms) / WASHOUT / (1 - LENGTH_SPREAD), 6)


def slice_length(experiment: Experiment, arms: Sequence[Arm]) -> float:
    """Seconds of a slice with its washout: as declared, else as short as what settles and builds up allows."""
    if experiment.design.slice is not None:
        return experiment.design.slice
    if builds_up(find_differences(arms)):
        return LEAST_SLICE_BUILDING_UP
    fitting = experiment.workload.duration / slices_per_round(len(arms)) / (1 - WASHOUT)
    return round(max(min(DEFAULT_SLICE, fitting), shortest_slice(arms)), 3)


def switch_length(experiment: Experiment, arms: Sequence[Arm]) -> float:
    """Seconds between two switches of one server, washout included."""
    if experiment.design.slice is not None:
        return experiment.design.slice
    if builds_up(find_differences(arms)):
        return DEFAULT_SWITCH_SLICE
    return max(LEAST_SWITCH, shortest_slice(arms))


def duet_slice_length(experiment: Experiment, arms: Sequence[Arm]) -> float:
    """Seconds between two exchanges of the CPUs, guard included: as declared, else as short as the number of clients
    and the duration allow; less if no round of them fits into the duration.
    """
    workload = experiment.workload
    shortest = max(
        DEFAULT_DUET_SLICE,
        SECONDS_PER_CLIENT * max(workload.client_levels),
        workload.duration / MOST_DUET_SLICES,
    )
    length = experiment.design.slice or min(shortest, LONGEST_DUET_SLICE)
    return round(min(length, workload.duration / len(arms) + duet_guard(length)), 3)


def slices_per_round(arms: int) -> int:
    """Slices of each arm in the shortest balanced sequence: ABBA, or one Williams square or two."""
    return arms if arms % 2 == 0 else 2 * arms


def fits_doubled(experiment: Experiment, arms: Sequence[Arm]) -> bool:
    """Whether the duration has room for two rounds of slices of double length."""
    counted = 2 * slice_length(experiment, arms) * (1 - WASHOUT)
    return 2 * slices_per_round(len(arms)) * counted <= experiment.workload.duration


def builds_up(differences: Sequence[Difference]) -> bool:
    """Whether an effect of these is not whole before it has built up state."""
    return any(one.rule.timing is EffectTiming.BUILDS_UP for one in differences)
