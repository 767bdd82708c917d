"""What arms can be scored by: the metrics of [[criteria]], which direction is good, and what is next to nothing."""

from dataclasses import dataclass

from pgtrial.language import mark
from pgtrial.model.metric import Better


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


THROUGHPUT = "pgbench.tps"
LATENCY_P99 = "pgbench.latency_p99"
FILE_REQUESTS = "fio.iops"
FILE_LATENCY_P99 = "fio.latency_p99"
LOWEST = "stability.lowest"
VARIATION = "stability.variation"
DIP_SHARE = "stability.dip_share"
STALLED = "stability.stalled"
SWAP_GROWTH = "memory.swap_growth"

_CRITERIA = (
    Criterion(metric=THROUGHPUT, label=mark("throughput"), better=Better.HIGHER),
    _lower("pgbench.latency_mean", mark("mean latency")),
    _lower("pgbench.latency_p50", mark("latency p50")),
    _lower("pgbench.latency_p95", mark("latency p95"), stable=True),
    _lower(LATENCY_P99, mark("latency p99"), stable=True),
    _lower("pgbench.latency_p999", mark("latency p99.9"), stable=True),
    _lower("pgbench.failures", mark("share of failed transactions"), 1e-4),
    Criterion(metric=LOWEST, label=mark("lowest 1 % of throughput"), better=Better.HIGHER, floor=1.0, stable=True),
    _lower(VARIATION, mark("variation of throughput"), 0.01, stable=True),
    _lower(DIP_SHARE, mark("share of the time in dips"), 0.01, stable=True),
    _lower(STALLED, mark("share of seconds without a commit"), 1e-3, stable=True),
    Criterion(metric="fio.bandwidth", label=mark("bandwidth"), better=Better.HIGHER),
    Criterion(metric=FILE_REQUESTS, label=mark("requests to files per second"), better=Better.HIGHER),
    _lower("fio.latency_mean", mark("mean latency")),
    _lower("fio.latency_p50", mark("latency p50")),
    _lower("fio.latency_p95", mark("latency p95"), stable=True),
    _lower(FILE_LATENCY_P99, mark("latency p99"), stable=True),
    _lower("fio.latency_p999", mark("latency p99.9"), stable=True),
    _lower("cost.cpu_seconds", mark("CPU time per transaction")),
    _lower("cost.context_switches", mark("context switches per transaction"), 0.01),
    _lower("cost.blocks_hit", mark("blocks hit per transaction"), 0.01),
    _lower("cost.blocks_read", mark("blocks read per transaction"), 0.01),
    _lower("cost.temp_bytes", mark("temporary bytes per transaction"), 1.0),
    _lower("cost.wal_bytes", mark("WAL per transaction"), 1.0),
    _lower("cost.device_reads", mark("device reads per transaction"), 1e-3),
    _lower("cost.device_read_bytes", mark("bytes read per transaction"), 1.0),
    _lower("cost.device_writes", mark("device writes per transaction"), 1e-3),
    _lower("cost.device_write_bytes", mark("bytes written per transaction"), 1.0),
    _lower(SWAP_GROWTH, mark("growth of swap"), 2.0**20),
)
CRITERIA = {each.metric: each for each in _CRITERIA}
