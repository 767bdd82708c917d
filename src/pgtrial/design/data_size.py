"""How large the data of an experiment are."""

from pgtrial.design.arms import resolve_arms, scale_of
from pgtrial.design.file_jobs import file_jobs
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs.fio import FIO

CLUSTER_BYTES = 40 * 1024**2  # a new cluster, with the WAL that it begins with
BYTES_PER_SCALE = 15 * 1024**2  # pgbench's tables and indexes; documentation of pgbench, option -s


def estimate_data_size(experiment: Experiment, *, scale: int | None = None) -> float:
    """Bytes of a cluster with tables of a scale, None: that of the arm with the most.

    What a set-up file adds is not known and not counted. Of a load on files: bytes of the files.
    """
    if experiment.workload.kind == FIO:
        return sum(largest_files(experiment).values())
    if experiment.dataset.kind != "pgbench":
        return CLUSTER_BYTES
    largest = max(arm_scales(experiment)) if scale is None else scale
    return CLUSTER_BYTES + largest * BYTES_PER_SCALE


def arm_scales(experiment: Experiment) -> tuple[int, ...]:
    """Scales of the arms' tables, each once."""
    return tuple(dict.fromkeys(scale_of(experiment, arm) for arm in resolve_arms(experiment)))


def largest_files(experiment: Experiment) -> dict[str, int]:
    """Name of a job to the bytes of the file that is large enough for every arm; they use it from its beginning."""
    found: dict[str, int] = {}
    for arm in resolve_arms(experiment):
        for job in file_jobs(experiment, arm):
            found[job.name] = max(job.size, found.get(job.name, 0))
    return found
