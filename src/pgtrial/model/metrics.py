"""The metrics for comparing runs, and the counters behind the costs per transaction."""

from dataclasses import dataclass

from pgtrial.model.metric import Better, Metric, MetricKind

_QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMetrics:
    """What a kind of load is measured by; ``bandwidth`` only of what has bytes."""

    throughput: Metric
    latency_mean: Metric
    quantiles: tuple[tuple[Metric, float], ...]
    bandwidth: Metric | None = None

    @property
    def every(self) -> tuple[Metric, ...]:
        first = () if self.bandwidth is None else (self.bandwidth,)
        return (*first, self.throughput, self.latency_mean, *(metric for metric, _ in self.quantiles))

    @property
    def times(self) -> frozenset[str]:
        """Names of what only a transaction that ended has."""
        return frozenset((self.latency_mean.name, *(metric.name for metric, _ in self.quantiles)))

    @property
    def shown(self) -> tuple[Metric, Metric, Metric]:
        """What is drawn over time: throughput, mean latency and its 95th percentile."""
        return self.throughput, self.latency_mean, self.quantiles[1][0]


def _load_metrics(kind: str, throughput: str, *, bandwidth: bool = False) -> LoadMetrics:
    def latency(name: str) -> Metric:
        return Metric(name=f"{kind}.latency_{name}", unit="s", kind=MetricKind.GAUGE, better=Better.LOWER)

    def rate(name: str, unit: str) -> Metric:
        return Metric(name=f"{kind}.{name}", unit=unit, kind=MetricKind.GAUGE, better=Better.HIGHER)

    return LoadMetrics(
        throughput=rate(throughput, "1/s"),
        latency_mean=latency("mean"),
        quantiles=tuple((latency(name), q) for name, q in _QUANTILES),
        bandwidth=rate("bandwidth", "B/s") if bandwidth else None,
    )


PGBENCH = _load_metrics("pgbench", "tps")
# By the kind of load. What is asked of a server is measured alike, whichever program asks.
LOADS = {"pgbench": PGBENCH, "command": PGBENCH, "fio": _load_metrics("fio", "iops", bandwidth=True)}
TPS = PGBENCH.throughput
LATENCY_MEAN = PGBENCH.latency_mean
QUANTILES = PGBENCH.quantiles
FAILURES = Metric(name="pgbench.failures", unit="ratio", kind=MetricKind.GAUGE, better=Better.LOWER)
LATE = Metric(name="pgbench.late", unit="ratio", kind=MetricKind.GAUGE, better=Better.LOWER)
SKIPPED = Metric(name="pgbench.skipped", unit="ratio", kind=MetricKind.GAUGE, better=Better.LOWER)


def _steady(name: str, unit: str, floor: float, better: Better = Better.LOWER) -> Metric:
    return Metric(name=name, unit=unit, kind=MetricKind.GAUGE, better=better, floor=floor)


# How evenly the load runs, from its throughput second by second; of dips the deepest and the longest ones.
LOWEST = _steady("stability.lowest", "1/s", 1.0, Better.HIGHER)
HIGHEST = _steady("stability.highest", "1/s", 1.0, Better.HIGHER)
VARIATION = _steady("stability.variation", "ratio", 0.01)
DIP_SHARE = _steady("stability.dip_share", "ratio", 0.01)
DIP_DEPTH = _steady("stability.dip_depth", "ratio", 0.01)
DIP_LENGTH = _steady("stability.dip_length", "s", 1.0)
RECOVERY = _steady("stability.recovery", "s", 1.0)
STALLED = _steady("stability.stalled", "ratio", 1e-3)
STEADINESS = (LOWEST, HIGHEST, VARIATION, DIP_SHARE, DIP_DEPTH, DIP_LENGTH, RECOVERY, STALLED)
SWAP_GROWTH = _steady("memory.swap_growth", "B", 2.0**20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A cost per transaction: the increase of ``counters`` over the measured window, divided by its transactions.

    All counters must have been read. ``object`` restricts them to one object; None adds up all objects.
    """

    metric: Metric
    counters: tuple[str, ...]
    object: str | None = None

    @property
    def is_of_server(self) -> bool:
        """Whether the arm's server counts it, and not the machine for all that runs there."""
        return all(counter.startswith("pg_stat_") for counter in self.counters)


def _cost(name: str, unit: str, *counters: str, object: str | None = None) -> Cost:
    metric = Metric(name=f"cost.{name}", unit=unit, kind=MetricKind.GAUGE, better=Better.LOWER)
    return Cost(metric=metric, counters=counters, object=object)


# The CPU time of the whole host, load generator included; user time contains guest time already (proc(5)).
CPU_BUSY = (
    "proc_stat.cpu_user",
    "proc_stat.cpu_nice",
    "proc_stat.cpu_system",
    "proc_stat.cpu_irq",
    "proc_stat.cpu_softirq",
)
CPU_IDLE = ("proc_stat.cpu_idle", "proc_stat.cpu_iowait")
CPU_STEAL = "proc_stat.cpu_steal"
CPU_OBJECT = "all"
CPU_PRESSURE = "pressure.cpu_some_total"  # s in which some task waited for a CPU

COSTS = (
    _cost("cpu_seconds", "s", *CPU_BUSY, object=CPU_OBJECT),
    _cost("context_switches", "", "proc_stat.ctxt"),
    _cost("blocks_hit", "", "pg_stat_database.blks_hit"),
    _cost("blocks_read", "", "pg_stat_database.blks_read"),
    _cost("temp_bytes", "B", "pg_stat_database.temp_bytes"),
    _cost("wal_bytes", "B", "pg_stat_wal.wal_bytes"),
    _cost("device_reads", "", "disk.reads"),
    _cost("device_read_bytes", "B", "disk.read_bytes"),
    _cost("device_writes", "", "disk.writes"),
    _cost("device_write_bytes", "B", "disk.write_bytes"),
)

# From PostgreSQL 17 on, num_timed also counts checkpoints that were due and skipped because nothing was written;
# num_done, from 18 on, does not. So the first of these that was read is the number of checkpoints.
CHECKPOINTS = (
    ("pg_stat_checkpointer.num_done",),
    ("pg_stat_checkpointer.num_timed", "pg_stat_checkpointer.num_requested"),
)

# CPU time of a server's processes, and the time in which they waited for a CPU; objects are the types of backends.
BACKEND_RUN = "backend_cpu.run"
BACKEND_QUEUE = "backend_cpu.queue"
CLIENT_BACKEND = "client backend"
PARALLEL_WORKER = "parallel worker"

POOL_WAIT = "pgbouncer.wait_time"  # s for which clients waited for PgBouncer to give them a session

# Counters with objects that come and go: one that was not there all the time says nothing of the others.
SEPARATE = frozenset({BACKEND_RUN, BACKEND_QUEUE})

COUNTERS = tuple(
    dict.fromkeys(
        (
            *(counter for cost in COSTS for counter in cost.counters),
            *CPU_IDLE,
            CPU_STEAL,
            CPU_PRESSURE,
            *(counter for names in CHECKPOINTS for counter in names),
            BACKEND_RUN,
            BACKEND_QUEUE,
            POOL_WAIT,
        )
    )
)

# Every metric that arms are compared by; the shares of failed, late and skipped transactions are observations only.
COMPARED = (
    *dict.fromkeys(metric for load in LOADS.values() for metric in load.every),
    *(cost.metric for cost in COSTS),
)
METRICS = (*COMPARED, FAILURES, LATE, SKIPPED)
