"""How long an experiment will take, and how many blocks fit into a time.

The load is known exactly; the rest is guessed from the size of the data, on the slow side of what an ordinary SSD
does. The guess is only for planning: the engine records what each part really took.
"""

from dataclasses import dataclass

from pgtrial.design.arms import resolve_arms
from pgtrial.design.levels import load_levels
from pgtrial.errors import SpecError, SpecProblem
from pgtrial.model.run import LoadLevel
from pgtrial.spec.experiment import DEFAULT_BLOCKS, Experiment, WarmupTable, WorkloadTable
from pgtrial.spec.restore import effective_restore
from pgtrial.units import format_duration

CLUSTER_BYTES = 40 * 1024**2  # a new cluster, with the WAL that it begins with
BYTES_PER_SCALE = 15 * 1024**2  # pgbench's tables and indexes; documentation of pgbench, option -s
COPY_RATE = 400 * 1024**2  # bytes per second; a file system with reflinks needs next to nothing
LOAD_SECONDS_PER_SCALE = 0.25  # pgbench -i with vacuum and primary keys
SERVER_SECONDS = 2.0  # start, reading the settings back, and a clean stop
WARMUP_SHARE = 0.7  # of its cap, until a load is found steady
CHECKPOINT_RATE = 200 * 1024**2  # bytes per second
FEWEST_BLOCKS = 2  # one block gives no interval
MOST_BLOCKS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimate:
    """Seconds of one run by part; ``restore`` is a mean where not every run restores."""

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


def estimate_data_size(experiment: Experiment) -> float:
    """Bytes of the cluster; what a set-up file adds is not known and not counted."""
    dataset = experiment.dataset
    return CLUSTER_BYTES + (dataset.scale * BYTES_PER_SCALE if dataset.kind == "pgbench" else 0)


def estimate_run(experiment: Experiment) -> RunEstimate:
    size = estimate_data_size(experiment)
    arms = len(resolve_arms(experiment))
    copies_per_run = {"each-run": 1.0, "each-block": 1 / arms, "never": 0.0}[effective_restore(experiment)]
    return RunEstimate(
        restore=size / COPY_RATE * copies_per_run,
        server=SERVER_SECONDS,
        warmup=_warmup_seconds(experiment.workload),
        checkpoint=size / 10 / CHECKPOINT_RATE,
        measure=sum(experiment.workload.duration + guard_time(level) for level in load_levels(experiment.workload)),
    )


def estimate_total(experiment: Experiment, *, blocks: int) -> TotalEstimate:
    size, arms = estimate_data_size(experiment), len(resolve_arms(experiment))
    scale = experiment.dataset.scale if experiment.dataset.kind == "pgbench" else 0
    return TotalEstimate(
        # One server makes the data; after that every arm is tried once before the load.
        prepare=(2 + arms) * SERVER_SECONDS + scale * LOAD_SECONDS_PER_SCALE + size / COPY_RATE,
        run=estimate_run(experiment),
        runs=blocks * arms,
    )


def blocks_for_budget(experiment: Experiment, budget: float) -> int:
    """Whole blocks that fit into ``budget`` seconds with the preparation; SpecError when fewer than two do."""
    one = estimate_total(experiment, blocks=1)
    block = one.total - one.prepare
    blocks = int((budget - one.prepare) / block)
    if blocks < FEWEST_BLOCKS:
        needed = one.prepare + FEWEST_BLOCKS * block
        message = f"a budget of {format_duration(budget)} is too short for {FEWEST_BLOCKS} blocks"
        hint = (
            f"Two blocks, the fewest that give an interval, take about {format_duration(needed)}. Raise the budget, or "
            "lower the duration, the number of load levels, or the number of arms."
        )
        raise SpecError(message, problems=(SpecProblem(path="design.budget", message=message, hint=hint),), hint=hint)
    return min(blocks, MOST_BLOCKS)


def blocks_of(experiment: Experiment) -> int:
    """The number of blocks: as declared, or what the budget allows, or the default."""
    design = experiment.design
    if design.budget is not None:
        return blocks_for_budget(experiment, design.budget)
    return DEFAULT_BLOCKS if design.blocks is None else design.blocks


def warmup_cap(workload: WorkloadTable) -> float:
    """Longest warm-up of a run in seconds: as declared, else a fifth of the duration within 5 s and 5 min."""
    if workload.warmup == "auto":
        return min(max(workload.duration / 5, 5.0), 300.0)
    return workload.warmup.cap if isinstance(workload.warmup, WarmupTable) else workload.warmup


def _warmup_seconds(workload: WorkloadTable) -> float:
    is_fixed = isinstance(workload.warmup, float | int)
    return warmup_cap(workload) * (1.0 if is_fixed else WARMUP_SHARE)


def guard_time(level: LoadLevel) -> float:
    """Seconds at the start of a level that are not counted: the sessions connect and fill their caches."""
    return max(1.0, level.clients / 50)
