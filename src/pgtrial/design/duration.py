"""How long an experiment will take, and how many blocks fit into a time.

The load is known exactly; the rest is guessed from the size of the data, on the slow side of what an ordinary SSD
does. The guess is only for planning: the engine records what each part really took.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgtrial.design.data_size import arm_scales, estimate_data_size
from pgtrial.design.levels import load_levels, over_arms
from pgtrial.design.methods import BLOCKS, MethodChoice, plan_steps, warmup_steps
from pgtrial.design.variants import stays_as_prepared
from pgtrial.errors import SpecError, SpecProblem
from pgtrial.experiment_file.experiment import DEFAULT_BLOCKS, Experiment, count_windows
from pgtrial.experiment_file.workload_table import TPCC, WarmupTable, WorkloadTable
from pgtrial.knobs.memory_pressure import taken_memory
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel
from pgtrial.units import format_duration

COPY_RATE = 400 * 1024**2  # bytes per second; a file system with reflinks needs next to nothing
LOAD_SECONDS_PER_SCALE = {"pgbench": 0.25, TPCC: 5.0}  # with vacuum and keys
SERVER_SECONDS = 2.0  # start, reading the settings back, and a clean stop
# The same of one of the servers that share a block's time, for which nothing of the host is set anew and no cache is
# dropped: 0.1 to 0.3 s on a busy virtual machine.
SHARED_SERVER_SECONDS = 0.5
PRESSURE_RATE = 2 * 1024**3  # bytes per second that are taken from the other programs, zeroed and locked
USUAL_MEMORY = 16 * 1024**3  # bytes, of which a share is taken: a plan is made without looking at the machine
WARMUP_SHARE = 0.7  # of its cap, until a load is found steady
CHECKPOINT_RATE = 200 * 1024**2  # bytes per second
# A gap between two transactions at a rate is exponential, and longer than this many of its means once in 10,000 times.
LONGEST_GAPS = 9.2
FEWEST_BLOCKS = 2  # one block gives no interval
BLOCKS_WANTED = DEFAULT_BLOCKS  # of a budget that can hold them
MOST_BLOCKS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimate:
    """Seconds of one run by part; ``restore`` is a mean where not every run restores.

    Where arms take turns or run at once, every part is the run's share of its block.
    """

    restore: float
    server: float
    warmup: float
    checkpoint: float
    measure: float

    @property
    def total(self) -> float:
        return self.restore + self.server + self.warmup + self.checkpoint + self.measure


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalEstimate:
    """Seconds of the whole experiment: ``prepare`` once, and ``runs`` times one run."""

    prepare: float
    run: RunEstimate
    runs: int

    @property
    def total(self) -> float:
        return self.prepare + self.runs * self.run.total


def estimate_run(experiment: Experiment, arms: Sequence[Arm], choice: MethodChoice = BLOCKS) -> RunEstimate:
    """One run; where the runs of a block share its time, an equal part of the block for each."""
    size, names = estimate_data_size(experiment, arms), [arm.name for arm in arms]
    workload = experiment.workload
    levels = tuple(over_arms(arms, level) for level in load_levels(workload))
    restore = "never" if stays_as_prepared(experiment, arms) else experiment.restore
    servers, start = 1.0, SERVER_SECONDS
    if experiment.design.soak is not None:
        # Once for all windows of an arm.
        servers = copies = 1 / count_windows(experiment.design)
        warmup, measure = _warmup_seconds(workload) * servers, workload.duration + guard_time(levels[0])
    elif choice.method == "blocks":
        copies = {"each-run": 1.0, "each-block": 1 / len(arms), "never": 0.0}[restore]
        warmup = _warmup_seconds(workload)
        measure = _own_seconds(workload, levels)
    elif choice.method == "switchback":
        servers = 1 / len(arms)  # one for all arms of a block
        copies = 0.0 if restore == "never" else servers
        warmup = _warmup_seconds(workload) * servers
        measure = _shared_seconds(choice, names, levels, workload.duration)
    else:
        # Every arm has data of its own, put back at the beginning of a block; the warm-up shares time as the load does.
        copies, start = 0.0 if restore == "never" else 1.0, SHARED_SERVER_SECONDS
        cap = warmup_cap(workload)
        warmed = sum(step.length for step in warmup_steps(choice, names, seconds=cap, seed="")) if cap else 0.0
        warmup = (guard_time(levels[0]) + warmed) / len(arms) if cap else 0.0
        measure = _shared_seconds(choice, names, levels, workload.duration)
    return RunEstimate(
        restore=size / COPY_RATE * copies,
        server=(_start_seconds(experiment, start) + _pressure_seconds(arms)) * servers,
        warmup=warmup,
        # A load on files has its dirty pages written before the next run, which is what restoring is there.
        checkpoint=0.0 if experiment.target.kind == "host" else size / 10 / CHECKPOINT_RATE * servers,
        measure=measure,
    )


def _start_seconds(experiment: Experiment, start: float = SERVER_SECONDS) -> float:
    return 0.0 if experiment.target.kind == "host" else start


def _pressure_seconds(arms: Sequence[Arm]) -> float:
    """Mean over the arms: memory is taken away for every run anew."""
    taken = (taken_memory(arm.knobs.get("memory_pressure", {}), USUAL_MEMORY) for arm in arms)
    return sum(taken) / len(arms) / PRESSURE_RATE


def estimate_total(
    experiment: Experiment, arms: Sequence[Arm], *, blocks: int, choice: MethodChoice = BLOCKS
) -> TotalEstimate:
    """The preparation, and ``blocks`` blocks."""
    size, scale = estimate_data_size(experiment, arms), 0 if experiment.target.kind == "host" else sum(arm_scales(arms))
    return TotalEstimate(
        # One server makes the data; after that every arm is tried once before the load.
        prepare=(2 + len(arms)) * _start_seconds(experiment)
        + scale * LOAD_SECONDS_PER_SCALE.get(experiment.dataset.kind, 0)
        + size / COPY_RATE,
        run=estimate_run(experiment, arms, choice),
        runs=blocks * len(arms),
    )


def blocks_for_budget(experiment: Experiment, arms: Sequence[Arm], budget: float, choice: MethodChoice = BLOCKS) -> int:
    """Whole blocks that fit into ``budget`` seconds with the preparation; SpecError when fewer than two do."""
    blocks = fitting_blocks(experiment, arms, budget, choice)
    if blocks < FEWEST_BLOCKS:
        needed = estimate_total(experiment, arms, blocks=FEWEST_BLOCKS, choice=choice).total
        message = f"a budget of {format_duration(budget)} is too short for {FEWEST_BLOCKS} blocks"
        hint = (
            f"Two blocks, the fewest that give an interval, take about {format_duration(needed)}. Raise the budget, or "
            "lower the duration, the number of load levels, or the number of arms."
        )
        raise SpecError(message, problems=(SpecProblem(path="design.budget", message=message, hint=hint),), hint=hint)
    return min(blocks, MOST_BLOCKS)


def fitting_blocks(experiment: Experiment, arms: Sequence[Arm], budget: float, choice: MethodChoice = BLOCKS) -> int:
    """Whole blocks that fit into ``budget`` seconds with the preparation; 0 or less where it does not fit itself."""
    one = estimate_total(experiment, arms, blocks=1, choice=choice)
    return math.floor((budget - one.prepare) / (one.total - one.prepare))


def blocks_of(experiment: Experiment, arms: Sequence[Arm], choice: MethodChoice = BLOCKS) -> int:
    """The number of blocks: as declared, or what the budget allows, or the default; of a soak, of its windows."""
    design = experiment.design
    if design.soak is not None:
        return count_windows(design)
    if design.budget is not None:
        return blocks_for_budget(experiment, arms, design.budget, choice)
    return DEFAULT_BLOCKS if design.blocks is None else design.blocks


def warmup_cap(workload: WorkloadTable) -> float:
    """Longest warm-up of a run in seconds: as declared, else a fifth of the duration within 5 s and 5 min."""
    if workload.warmup == "auto":
        return min(max(workload.duration / 5, 5.0), 300.0)
    return workload.warmup.cap if isinstance(workload.warmup, WarmupTable) else workload.warmup


def _shared_seconds(choice: MethodChoice, arms: Sequence[str], levels: Sequence[LoadLevel], seconds: float) -> float:
    """Each arm's part of the time in which every arm has ``seconds`` of counted time at every level.

    The mean of both kinds of blocks where slices are twice as long in every second one: what is rounded to whole rounds
    of them may take much longer.
    """
    kinds = _kinds_of_blocks(choice, arms, seconds)
    steps = sum(kinds) / len(kinds)
    return sum(guard_time(level) + steps for level in levels) / len(arms)


def _kinds_of_blocks(choice: MethodChoice, arms: Sequence[str], seconds: float) -> list[float]:
    """Seconds that all slices of a level take, for each kind of block."""
    return [
        sum(step.length for step in plan_steps(choice, arms, seconds=seconds, seed="", block=block))
        for block in ((1, 2) if choice.doubled else (1,))
    ]


def _own_seconds(workload: WorkloadTable, levels: Sequence[LoadLevel]) -> float:
    """All levels of a run that has its time to itself."""
    return sum(workload.duration + guard_time(level) + _spare_time(workload, level) for level in levels)


def longest_measurement(experiment: Experiment, arms: Sequence[Arm], choice: MethodChoice) -> float:
    """Seconds from the start of a run's first load level to the end of its last: of all runs of a block together where
    they share its time, and of the longer kind of block.
    """
    workload = experiment.workload
    levels = tuple(over_arms(arms, level) for level in load_levels(workload))
    if choice.method == "blocks":
        return _own_seconds(workload, levels)
    steps = max(_kinds_of_blocks(choice, [arm.name for arm in arms], workload.duration))
    return sum(guard_time(level) + steps for level in levels)


def _warmup_seconds(workload: WorkloadTable) -> float:
    is_fixed = isinstance(workload.warmup, float | int)
    return warmup_cap(workload) * (1.0 if is_fixed else WARMUP_SHARE)


def guard_time(level: LoadLevel) -> float:
    """Seconds at the start of a level that are not counted: the sessions connect and fill their caches."""
    return max(1.0, (level.clients if level.by_arm is None else level.by_arm[1]) / 50)


def longest_gap(rate: float) -> int:
    """Whole seconds in which at least one transaction is due at a ``rate`` (1/s), but for one time in 10,000.

    A client of pgbench ends as soon as its next transaction would be due after its time (pgbench.c,
    CSTATE_PREPARE_THROTTLE). With so much more time, one that ends before what is measured has really ended early.
    """
    return math.ceil(LONGEST_GAPS / rate)


def _spare_time(workload: WorkloadTable, level: LoadLevel) -> int:
    return 0 if level.rate is None or workload.kind != "pgbench" else longest_gap(level.rate)
