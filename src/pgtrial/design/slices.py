"""The slices of a block: how long they are, and which arms are at work when and on which CPUs, so that neither drift
nor order favours one.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pgtrial.design.effect_timing import Difference, find_differences
from pgtrial.experiment_file.experiment import DEFAULT_DUET_SLICE, DEFAULT_SLICE, DEFAULT_SWITCH_SLICE, Experiment
from pgtrial.knobs.declaration import Among, EffectTiming
from pgtrial.model.arm import Arm

_T = TypeVar("_T")
GUARD = 0.1  # s at the start of a slice in which caches fill again and the CPU finds its frequency
LENGTH_SPREAD = 0.5  # of the usual length of a slice of arms that take turns
DUET_GUARD = 0.05  # s at most, after servers that are at work have changed places: the CPUs' own caches fill again …
_DUET_GUARD_SHARE = 1 / 3  # … and in a short slice so much of it
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """``arms`` are at work for ``length`` seconds, of which the first ``guard`` do not count.

    Where there are several, the first has the first set of CPUs, and so on.
    """

    arms: tuple[str, ...]
    length: float
    guard: float


def interleave(
    arms: Sequence[str], *, seconds: float, slice_length: float, guard: float, seed: str
) -> tuple[Step, ...]:
    """One arm after the other in slices, ``seconds`` of them for each arm, rounded to whole rounds.

    Two arms take turns, and the second half of the sequence is the first backwards, which is balanced for a drift along
    a line. Each half of a slice follows half a slice of the other arm or of its own, both equally often; where the
    guard is the first half, what counts follows its own arm, and so contains what an arm does to itself afterwards and
    not what the other one has left. More arms: each round is a Williams square with arms and rows in random order, in
    which every arm stands at every place and follows every other arm equally often. Slices are longer or shorter by up
    to LENGTH_SPREAD, those of all arms alike, so that nothing periodic keeps step with them. One round at least.
    Sources: Williams, Australian Journal of Scientific Research A 2 (1949) 149-168; Cox, Planning of Experiments, 1958,
    chapter 14; for following oneself Balaam, Biometrics 24 (1968) 61-73; Laska, Meisner & Kushner, ibid. 39 (1983)
    1087-1091.
    """
    rng = random.Random(seed)
    if len(arms) == 2:
        order = shuffled(arms, rng)
        count = max(1, round(seconds / slice_length / 2))  # of turns of both in half of the sequence
        half = [(name, factor) for factor in _factors(count, rng) for name in order]
        turns = [*half, *reversed(half)]
    else:
        square = williams_square(len(arms))
        rounds = max(1, round(seconds / slice_length / len(square)))
        rows = [[names[i] for i in row] for names in (shuffled(arms, rng) for _ in range(rounds)) for row in square]
        rows = [
            row
            for start in range(0, len(rows), len(square))
            for row in shuffled(rows[start : start + len(square)], rng)
        ]
        turns = [(name, factor) for row, factor in zip(rows, _factors(len(rows), rng), strict=True) for name in row]
    return tuple(
        Step(arms=(name,), length=round(slice_length * factor, 9), guard=round(guard * factor, 9))
        for name, factor in turns
    )


def _factors(count: int, rng: random.Random) -> list[float]:
    """Factors of lengths in random order, spread evenly around 1, which is their mean."""
    return [1 - LENGTH_SPREAD + 2 * LENGTH_SPREAD * (place + 0.5) / count for place in shuffled(range(count), rng)]


def pair_up(arms: Sequence[str], *, seconds: float, slice_length: float, guard: float, seed: str) -> tuple[Step, ...]:
    """All arms at once in slices, ``seconds`` of counted time for each, rounded to whole rounds.

    In a round each arm has every set of CPUs once, in random order. Where not even one round fits, there is one of
    shorter slices.
    """
    rng, count = random.Random(seed), len(arms)
    slice_length = min(slice_length, seconds / count + guard)
    rounds = max(1, round(seconds / (slice_length - guard) / count))
    steps: list[Step] = []
    for _ in range(rounds):
        names = shuffled(arms, rng)
        steps += [
            Step(arms=tuple(names[(turn + i) % count] for i in range(count)), length=slice_length, guard=guard)
            for turn in shuffled(range(count), rng)
        ]
    return tuple(steps)


def duet_guard(slice_length: float) -> float:
    """Seconds at the start of a slice of a duet that do not count."""
    return round(min(DUET_GUARD, _DUET_GUARD_SHARE * slice_length), 4)


def williams_square(count: int) -> list[list[int]]:
    """Rows in which each of ``count`` treatments stands once at each place and once after each other treatment; for an
    odd number two such squares, in which it does so twice.

    Source: Williams 1949, as above.
    """
    first = [0]
    for step in range(1, count):
        first.append((first[-1] + (step if step % 2 else count - step)) % count)
    square = [[(value + row) % count for value in first] for row in range(count)]
    return square if count % 2 == 0 else [*square, *(row[::-1] for row in square)]


def shuffled(values: Sequence[_T], rng: random.Random) -> list[_T]:
    """In random order.

    Fisher–Yates by hand: of all of Python's generator only random() is promised to give the same numbers for a seed in
    every version, and a schedule has to be the same wherever it is planned again.
    """
    result = list(values)
    for last in range(len(result) - 1, 0, -1):
        chosen = int(rng.random() * (last + 1))
        result[last], result[chosen] = result[chosen], result[last]
    return result


def split_cpus(cores: Sequence[Sequence[int]], count: int) -> tuple[tuple[int, ...], ...] | None:
    """``count`` disjoint sets of equally many CPUs, neighbours together; None when there are fewer CPUs than sets.

    ``cores`` has the CPUs of each physical core. Whole cores go to one set where there is at least one core for each;
    CPUs that are left over stay unused, for equal sets are worth more than large ones.
    """
    ordered = sorted((sorted(core) for core in cores if core), key=lambda core: core[0])
    parts = ordered if len(ordered) >= count else [[cpu] for core in ordered for cpu in core]
    each = len(parts) // count
    if each == 0:
        return None
    sets = [[cpu for part in parts[place * each : (place + 1) * each] for cpu in part] for place in range(count)]
    size = min(len(chosen) for chosen in sets)
    return tuple(tuple(chosen[:size]) for chosen in sets)


def has_whole_cores(cores: Sequence[Sequence[int]], count: int) -> bool:
    """Whether each of ``count`` sets can have physical cores of its own."""
    return sum(1 for core in cores if core) >= count


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
