"""The metrics that runs are compared by, and the counters that the costs per transaction come from."""

from dataclasses import dataclass

from pgtrial.model.metric import Better, Kind, Metric

TPS = Metric(name="pgbench.tps", unit="1/s", kind=Kind.GAUGE, better=Better.HIGHER)
LATENCY_MEAN = Metric(name="pgbench.latency_mean", unit="s", kind=Kind.GAUGE, better=Better.LOWER)
QUANTILES = tuple(
    (Metric(name=f"pgbench.latency_{name}", unit="s", kind=Kind.GAUGE, better=Better.LOWER), q)
    for name, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
)
P95 = QUANTILES[1][0]
P99 = QUANTILES[2][0]
FAILURES = Metric(name="pgbench.failures", unit="ratio", kind=Kind.GAUGE, better=Better.LOWER)
LATE = Metric(name="pgbench.late", unit="ratio", kind=Kind.GAUGE, better=Better.LOWER)
SKIPPED = Metric(name="pgbench.skipped", unit="ratio", kind=Kind.GAUGE, better=Better.LOWER)


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
    metric = Metric(name=f"cost.{name}", unit=unit, kind=Kind.GAUGE, better=Better.LOWER)
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
        )
    )
)

# Every metric that arms are compared by; the shares of failed, late and skipped transactions are observations only.
COMPARED = (TPS, LATENCY_MEAN, *(metric for metric, _ in QUANTILES), *(cost.metric for cost in COSTS))
METRICS = (*COMPARED, FAILURES, LATE, SKIPPED)
