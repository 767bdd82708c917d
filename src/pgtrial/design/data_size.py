"""How large the data of an experiment are."""

from collections.abc import Sequence

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.workload_table import TPCC
from pgtrial.knobs.fio import FIO
from pgtrial.model.arm import Arm

CLUSTER_BYTES = 40 * 1024**2  # a new cluster, with the WAL that it begins with
# Tables and indexes. Source: documentation of pgbench, option -s; measured.
BYTES_PER_SCALE = {"pgbench": 15 * 1024**2, TPCC: 100 * 1024**2}


def estimate_data_size(experiment: Experiment, arms: Sequence[Arm]) -> float:
    """Bytes of a cluster with the tables of the arm that has the most.

    What a set-up file adds is not known and not counted. Of a load on files: bytes of the files.
    """
    if experiment.workload.kind == FIO:
        return sum(largest_files(arms).values())
    return cluster_size(experiment.dataset.kind, max((arm.scale or 0 for arm in arms), default=0))


def cluster_size(kind: str, scale: int | None) -> float:
    """Bytes of a cluster with data of a kind, and a scale if they have one."""
    return CLUSTER_BYTES + (scale or 0) * BYTES_PER_SCALE.get(kind, 0)


def made_data(kind: str, scales: Sequence[int]) -> str:
    """What pgtrial makes at a scale, in words: "pgbench tables, scale 10, 100"."""
    listed = ", ".join(str(scale) for scale in scales)
    return f"tables like TPC-C's, warehouses: {listed}" if kind == TPCC else f"pgbench tables, scale {listed}"


def arm_scales(arms: Sequence[Arm]) -> tuple[int, ...]:
    """Scales of the arms' tables, each once."""
    return tuple(dict.fromkeys(arm.scale for arm in arms if arm.scale is not None))


def largest_files(arms: Sequence[Arm]) -> dict[str, int]:
    """Name of a job to the bytes of the file that is large enough for every arm; they use it from its beginning."""
    sizes: dict[str, int] = {}
    for arm in arms:
        for job in arm.jobs:
            sizes[job.name] = max(job.size, sizes.get(job.name, 0))
    return sizes
