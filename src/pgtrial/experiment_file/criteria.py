"""What arms can be scored by: the metrics of [[criteria]], which direction is good, and what is next to nothing."""

from dataclasses import dataclass

from pgtrial.language import N_
from pgtrial.model import metrics
from pgtrial.model.metric import Better, Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """A metric by which arms can be scored, ``label`` in words, which are translated where they are shown.

    Values below ``floor``, in the metric's base unit, count as the floor: a difference between nothing and next to
    nothing is none, and a ratio to zero does not exist. ``stable``: it says how evenly the load runs.
    """

    metric: str
    label: str
    better: Better
    floor: float = 0.0
    stable: bool = False


def _lower(metric: str, label: str, floor: float = 0.0, *, stable: bool = False) -> Criterion:
    return Criterion(metric=metric, label=label, better=Better.LOWER, floor=floor, stable=stable)


def _of(metric: Metric, label: str, *, stable: bool = True) -> Criterion:
    return Criterion(metric=metric.name, label=label, better=metric.better, floor=metric.floor, stable=stable)


THROUGHPUT = "pgbench.tps"
LATENCY_P99 = "pgbench.latency_p99"
FILE_REQUESTS = "fio.iops"
FILE_LATENCY_P99 = "fio.latency_p99"
LOWEST = metrics.LOWEST.name
VARIATION = metrics.VARIATION.name

_CRITERIA = (
    Criterion(metric=THROUGHPUT, label=N_("throughput"), better=Better.HIGHER),
    _lower("pgbench.latency_mean", N_("mean latency")),
    _lower("pgbench.latency_p50", N_("latency p50")),
    _lower("pgbench.latency_p95", N_("latency p95"), stable=True),
    _lower(LATENCY_P99, N_("latency p99"), stable=True),
    _lower("pgbench.latency_p999", N_("latency p99.9"), stable=True),
    _lower("pgbench.failures", N_("share of failed transactions"), 1e-4),
    _of(metrics.LOWEST, N_("lowest 1 % of throughput")),
    _of(metrics.HIGHEST, N_("highest 1 % of throughput"), stable=False),
    _of(metrics.VARIATION, N_("variation of throughput")),
    _of(metrics.DIP_SHARE, N_("share of the time in dips")),
    _of(metrics.DIP_DEPTH, N_("depth of the deepest dip")),
    _of(metrics.DIP_LENGTH, N_("length of the longest dip")),
    _of(metrics.RECOVERY, N_("longest time from the bottom of a dip to 90 % of what was usual")),
    _of(metrics.STALLED, N_("share of seconds without a commit")),
    Criterion(metric="fio.bandwidth", label=N_("bandwidth"), better=Better.HIGHER),
    Criterion(metric=FILE_REQUESTS, label=N_("requests to files per second"), better=Better.HIGHER),
    _lower("fio.latency_mean", N_("mean latency")),
    _lower("fio.latency_p50", N_("latency p50")),
    _lower("fio.latency_p95", N_("latency p95"), stable=True),
    _lower(FILE_LATENCY_P99, N_("latency p99"), stable=True),
    _lower("fio.latency_p999", N_("latency p99.9"), stable=True),
    _lower("cost.cpu_seconds", N_("CPU time per transaction")),
    _lower("cost.context_switches", N_("context switches per transaction"), 0.01),
    _lower("cost.blocks_hit", N_("blocks hit per transaction"), 0.01),
    _lower("cost.blocks_read", N_("blocks read per transaction"), 0.01),
    _lower("cost.temp_bytes", N_("temporary bytes per transaction"), 1.0),
    _lower("cost.wal_bytes", N_("WAL per transaction"), 1.0),
    _lower("cost.device_reads", N_("device reads per transaction"), 1e-3),
    _lower("cost.device_read_bytes", N_("bytes read per transaction"), 1.0),
    _lower("cost.device_writes", N_("device writes per transaction"), 1e-3),
    _lower("cost.device_write_bytes", N_("bytes written per transaction"), 1.0),
    _of(metrics.SWAP_GROWTH, N_("growth of swap"), stable=False),
)
CRITERIA = {each.metric: each for each in _CRITERIA}
