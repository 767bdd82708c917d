"""How large the data of an experiment are."""

from pgtrial.spec.experiment import Experiment

CLUSTER_BYTES = 40 * 1024**2  # a new cluster, with the WAL that it begins with
BYTES_PER_SCALE = 15 * 1024**2  # pgbench's tables and indexes; documentation of pgbench, option -s


def estimate_data_size(experiment: Experiment) -> float:
    """Bytes of the cluster; what a set-up file adds is not known and not counted."""
    dataset = experiment.dataset
    return CLUSTER_BYTES + (dataset.scale * BYTES_PER_SCALE if dataset.kind == "pgbench" else 0)
