"""The timeline metrics: the meaning of each, and the readings of samples.parquet it is computed from.

Names and definitions of ``vmstat.…`` are those of vmstat(8) (procps), of ``iostat.…`` those of iostat(1) (sysstat), in
base units; the names of the readings are those of the collectors. Many counters are of time, in seconds since some
start: such a rate is a share of the second or, where several can be at it at once, their average number. The words for
a metric stand in the catalogue (findings/catalogue/series.py).
"""

from collections.abc import Mapping
from functools import cache, partial

from pgtrial.model.formulas import SessionMetric, TimelineMetric, make_metric
from pgtrial.model.metric import Better, MetricKind

WAITS = "waits."  # and a wait type: average sessions
WAIT = "wait."  # the same by event

_rate = partial(make_metric, MetricKind.COUNTER)
_gauge = partial(make_metric, MetricKind.GAUGE)
_by_object = partial(make_metric, MetricKind.COUNTER, per_object=True)
_statements = partial(make_metric, MetricKind.COUNTER, every=10.0)
_tables = partial(make_metric, MetricKind.GAUGE, every=10.0, come_and_go=True, better=Better.LOWER)
_LOW, _HIGH = Better.LOWER, Better.HIGHER

_USER = "proc_stat.cpu_user proc_stat.cpu_nice"  # user time contains the time of guests
_SYSTEM = "proc_stat.cpu_system proc_stat.cpu_irq proc_stat.cpu_softirq"
_IDLE, _IOWAIT, _STEAL = "proc_stat.cpu_idle", "proc_stat.cpu_iowait", "proc_stat.cpu_steal"
_CPU_TIME = f"{_USER} {_SYSTEM} {_IDLE} {_IOWAIT} {_STEAL}"
_ZONES = ("_dma", "_dma32", "_normal", "_highmem", "_movable", "_device")
_STALLS = " ".join(f"proc_vmstat.allocstall{zone}" for zone in ("", *_ZONES))  # by zone since Linux 4.10
_REFAULTS = "proc_vmstat.workingset_refault_anon proc_vmstat.workingset_refault_file"
_BY_SESSIONS = "(?!checkpointer/|background.writer/).*/relation/.*"
_WAL = ".*/wal/normal"

_MACHINE = (
    # The reader of the file is running while it reads; vmstat leaves itself out, and so do we.
    _gauge("vmstat.r", "", "proc_stat.procs_running", less=1, better=_LOW),
    _gauge("vmstat.b", "", "proc_stat.procs_blocked", better=_LOW),
    _gauge("vmstat.swpd", "B", "proc_meminfo.SwapTotal", minus="proc_meminfo.SwapFree"),
    _gauge("vmstat.free", "B", "proc_meminfo.MemFree"),
    _gauge("vmstat.buff", "B", "proc_meminfo.Buffers"),
    _gauge("vmstat.cache", "B", "proc_meminfo.Cached proc_meminfo.SReclaimable"),
    _gauge("vmstat.available", "B", "proc_meminfo.MemAvailable", better=_HIGH),
    _rate("vmstat.si", "B/s", "proc_vmstat.pswpin", in_pages=True, better=_LOW),
    _rate("vmstat.so", "B/s", "proc_vmstat.pswpout", in_pages=True, better=_LOW),
    _rate("vmstat.bi", "B/s", "proc_vmstat.pgpgin"),
    _rate("vmstat.bo", "B/s", "proc_vmstat.pgpgout"),
    _rate("vmstat.in", "1/s", "proc_stat.intr"),
    _rate("vmstat.cs", "1/s", "proc_stat.ctxt"),
    _rate("vmstat.us", "share", _USER, per=_CPU_TIME),
    _rate("vmstat.sy", "share", _SYSTEM, per=_CPU_TIME),
    _rate("vmstat.id", "share", _IDLE, per=_CPU_TIME),
    _rate("vmstat.wa", "share", _IOWAIT, per=_CPU_TIME, better=_LOW),
    _rate("vmstat.st", "share", _STEAL, per=_CPU_TIME, better=_LOW),
    _gauge("vmstat.cpus", "", "proc_stat.cpus"),
    _gauge("loadavg.1", "", "proc_loadavg.load1"),
)
_DEVICES = (
    _by_object("iostat.r", "1/s", "disk.reads"),
    _by_object("iostat.w", "1/s", "disk.writes"),
    _by_object("iostat.d", "1/s", "disk.discards"),
    _by_object("iostat.f", "1/s", "disk.flushes"),
    _by_object("iostat.r_bytes", "B/s", "disk.read_bytes"),
    _by_object("iostat.w_bytes", "B/s", "disk.write_bytes"),
    _by_object("iostat.d_bytes", "B/s", "disk.discard_bytes"),
    _by_object("iostat.rrqm", "1/s", "disk.reads_merged"),
    _by_object("iostat.wrqm", "1/s", "disk.writes_merged"),
    _by_object("iostat.r_await", "s", "disk.read_time", per="disk.reads", better=_LOW),
    _by_object("iostat.w_await", "s", "disk.write_time", per="disk.writes", better=_LOW),
    _by_object("iostat.d_await", "s", "disk.discard_time", per="disk.discards", better=_LOW),
    _by_object("iostat.f_await", "s", "disk.flush_time", per="disk.flushes", better=_LOW),
    _by_object("iostat.rareq", "B", "disk.read_bytes", per="disk.reads"),
    _by_object("iostat.wareq", "B", "disk.write_bytes", per="disk.writes"),
    _by_object("iostat.aqu", "", "disk.queue_time", better=_LOW),
    _by_object("iostat.util", "share", "disk.io_time"),
    _by_object("iostat.iops", "1/s", "disk.reads disk.writes"),
    _by_object("iostat.bytes", "B/s", "disk.read_bytes disk.write_bytes"),
)
_MEMORY = (
    _gauge("dirty.bytes", "B", "proc_meminfo.Dirty"),
    _gauge("dirty.writeback", "B", "proc_meminfo.Writeback"),
    _gauge("dirty.threshold", "B", "proc_vmstat.nr_dirty_threshold", in_pages=True),
    _gauge("dirty.background", "B", "proc_vmstat.nr_dirty_background_threshold", in_pages=True),
    # Both are held against the limit (balance_dirty_pages in the kernel's mm/page-writeback.c).
    _gauge(
        "dirty.share",
        "share",
        "proc_vmstat.nr_dirty proc_vmstat.nr_writeback",
        per="proc_vmstat.nr_dirty_threshold",
        better=_LOW,
    ),
    _gauge(
        "dirty.background_share",
        "share",
        "proc_vmstat.nr_dirty",
        per="proc_vmstat.nr_dirty_background_threshold",
        better=_LOW,
    ),
    _rate("throttling.pauses", "1/s", "throttling.pauses", better=_LOW),
    _rate("throttling.paused", "s/s", "throttling.pause_time", better=_LOW),
    _rate("reclaim.direct", "1/s", "proc_vmstat.pgscan_direct", better=_LOW),
    _rate("reclaim.kswapd", "1/s", "proc_vmstat.pgscan_kswapd"),
    _rate(
        "reclaim.efficiency",
        "share",
        "proc_vmstat.pgsteal_kswapd proc_vmstat.pgsteal_direct",
        per="proc_vmstat.pgscan_kswapd proc_vmstat.pgscan_direct",
        better=_HIGH,
    ),
    # Of reclaim (reclaim_throttle, mm/vmscan.c), not of writers: how those wait in balance_dirty_pages has no counter.
    _rate("reclaim.throttled", "1/s", "proc_vmstat.nr_throttled_written", better=_LOW),
    _rate("reclaim.stall", "1/s", _STALLS, is_any=True, better=_LOW),
    _rate("reclaim.refault", "1/s", _REFAULTS, otherwise="proc_vmstat.workingset_refault", better=_LOW),
    _rate("reclaim.major", "1/s", "proc_vmstat.pgmajfault", better=_LOW),
    _rate("reclaim.slabs", "1/s", "proc_vmstat.slabs_scanned"),
    _gauge("watermark.free", "B", "zoneinfo.free", in_pages=True),
    _gauge("watermark.low", "B", "zoneinfo.low", in_pages=True),
    _gauge("watermark.min", "B", "zoneinfo.min", in_pages=True),
    _rate("psi.cpu", "share", "pressure.cpu_some_total", better=_LOW),
    _rate("psi.memory", "share", "pressure.memory_some_total", better=_LOW),
    _rate("psi.io", "share", "pressure.io_some_total", better=_LOW),
    _rate("psi.memory.full", "share", "pressure.memory_full_total", better=_LOW),
    _rate("psi.io.full", "share", "pressure.io_full_total", better=_LOW),
)
_HUGE = (
    _gauge("huge.explicit", "", "proc_meminfo.HugePages_Total", minus="proc_meminfo.HugePages_Free"),
    _gauge("huge.page_tables", "B", "proc_meminfo.PageTables", better=_LOW),
    _gauge("huge.transparent", "B", "proc_meminfo.AnonHugePages proc_meminfo.ShmemHugePages", is_any=True),
)
_PROCESSES = (
    _rate("cgroup.cpu", "", "cgroup.cpu_usage"),
    _rate("cgroup.throttled", "s/s", "cgroup.cpu_throttled_time", better=_LOW),
    _gauge("cgroup.memory", "B", "cgroup.memory_usage"),
    _gauge("cgroup.memory_limit", "B", "cgroup.memory_limit", otherwise="cgroup.memory_high"),
    _gauge(
        "cgroup.memory_share",
        "share",
        "cgroup.memory_usage",
        per="cgroup.memory_limit",
    ),
    _gauge("cgroup.swapped", "B", "cgroup.memory_swap", better=_LOW),
    _rate("cgroup.si", "B/s", "cgroup.workingset_refault_anon", in_pages=True, better=_LOW),
    _gauge("cgroup.swappiness", "", "cgroup.swappiness"),  # of version 1
    _by_object("cgroup.reads", "1/s", "cgroup.io_reads"),
    _by_object("cgroup.writes", "1/s", "cgroup.io_writes"),
    _by_object("cgroup.read_bytes", "B/s", "cgroup.io_read_bytes"),
    _by_object("cgroup.write_bytes", "B/s", "cgroup.io_write_bytes"),
    _by_object("server.cpu", "", "backend_cpu.run", come_and_go=True),
    _by_object("server.cpu_queue", "", "backend_cpu.queue", come_and_go=True, better=_LOW),
    _rate("pgbench.cpu", "", "pgbench_cpu.run"),
    _rate("pgbench.cpu_queue", "", "pgbench_cpu.queue", better=_LOW),
)
_SERVER = (
    _rate("db.hit", "1/s", "pg_stat_database.blks_hit"),
    _rate("db.read", "1/s", "pg_stat_database.blks_read"),
    _rate(
        "db.hit_ratio",
        "share",
        "pg_stat_database.blks_hit",
        per="pg_stat_database.blks_hit pg_stat_database.blks_read",
        better=_HIGH,
    ),
    _rate("db.commits", "1/s", "pg_stat_database.xact_commit"),
    _rate(
        "db.rows",
        "1/s",
        "pg_stat_database.tup_fetched pg_stat_database.tup_inserted "
        "pg_stat_database.tup_updated pg_stat_database.tup_deleted",
    ),
    _rate("db.tuples_returned", "1/s", "pg_stat_database.tup_returned"),
    _rate("db.evictions", "1/s", "pg_stat_io.evictions", better=_LOW),
    _rate("db.temp_bytes", "B/s", "pg_stat_database.temp_bytes", better=_LOW),
    _rate("db.deadlocks", "1/s", "pg_stat_database.deadlocks", better=_LOW),
    _rate("db.blk_read_time", "s/s", "pg_stat_database.blk_read_time", better=_LOW),
    _rate("db.blk_write_time", "s/s", "pg_stat_database.blk_write_time", better=_LOW),
    _statements("statements.calls", "1/s", "pg_stat_statements.calls"),
    _statements("statements.rows", "1/s", "pg_stat_statements.rows"),
    _statements("statements.dirtied", "1/s", "pg_stat_statements.shared_blks_dirtied"),
    _statements("statements.hit", "1/s", "pg_stat_statements.shared_blks_hit"),
    _statements("statements.read", "1/s", "pg_stat_statements.shared_blks_read"),
    _statements(
        "statements.read_per_dirtied",
        "",
        "pg_stat_statements.shared_blks_hit pg_stat_statements.shared_blks_read",
        per="pg_stat_statements.shared_blks_dirtied",
    ),
    _statements("statements.written", "1/s", "pg_stat_statements.shared_blks_written"),
    _rate("wal.bytes", "B/s", "pg_stat_wal.wal_bytes"),
    _rate("wal.fpi", "1/s", "pg_stat_wal.wal_fpi"),
    _rate("wal.syncs", "1/s", "pg_stat_wal.wal_sync", otherwise=f"pg_stat_io.fsyncs/{_WAL}"),
    _rate("wal.sync_time", "s/s", "pg_stat_wal.wal_sync_time", otherwise=f"pg_stat_io.fsync_time/{_WAL}", better=_LOW),
    _rate("wal.buffers_full", "1/s", "pg_stat_wal.wal_buffers_full", better=_LOW),
    _rate("checkpoints.timed", "1/s", "pg_stat_checkpointer.num_timed"),
    _rate("checkpoints.requested", "1/s", "pg_stat_checkpointer.num_requested"),
    _rate("checkpoints.buffers", "1/s", "pg_stat_checkpointer.buffers_written"),
    _rate("checkpoints.write_time", "s/s", "pg_stat_checkpointer.write_time"),
    _rate("checkpoints.sync_time", "s/s", "pg_stat_checkpointer.sync_time"),
    _rate("bgwriter.buffers", "1/s", "pg_stat_bgwriter.buffers_clean"),
    # Before 16 there is only the other counter, which also has the blocks by which tables grew.
    _rate(
        "backend.buffers",
        "1/s",
        f"pg_stat_io.writes/{_BY_SESSIONS}",
        otherwise="pg_stat_bgwriter.buffers_backend",
        better=_LOW,
    ),
    _by_object("slru.read", "1/s", "pg_stat_slru.blks_read"),
    _by_object("slru.hit", "1/s", "pg_stat_slru.blks_hit"),
    _gauge("replication.flush_lag", "B", "pg_stat_replication.flush_bytes", better=_LOW),
    _gauge("replication.replay_lag", "B", "pg_stat_replication.replay_bytes", better=_LOW),
    _gauge("replication.replay_delay", "s", "pg_stat_replication.replay_time", better=_LOW),
    _gauge("locks.waiting", "", "pg_locks.waiting", come_and_go=True, better=_LOW),
    _gauge("locks.chain", "", "pg_locks.chain", better=_LOW),
    _gauge("pgbouncer.waiting", "", "pgbouncer.clients_waiting", better=_LOW),
    _rate("pgbouncer.wait", "s", "pgbouncer.wait_time", per="pgbouncer.transactions", better=_LOW),
    _gauge("pgbouncer.servers", "", "pgbouncer.servers"),
    _gauge("pgbouncer.servers_active", "", "pgbouncer.servers_active"),
    _rate("pgbouncer.tps", "1/s", "pgbouncer.transactions"),
    _rate("pgbouncer.cpu", "", "pgbouncer_cpu.run"),
    _rate("pgbouncer.cpu_queue", "", "pgbouncer_cpu.queue", better=_LOW),
    _tables("tables.bytes", "B", "relations.table_bytes"),
    _tables("tables.indexes", "B", "relations.index_bytes"),
    _tables("tables.dead", "", "relations.dead_rows"),
    _tables("tables.dead_share", "share", "relations.dead_rows", per="relations.dead_rows relations.live_rows"),
    _tables("tables.row_bytes", "B", "relations.table_bytes", per="relations.live_rows"),
    _gauge("vacuum.running", "", "pg_stat_progress_vacuum.workers", come_and_go=True),
    _gauge("analyze.running", "", "pg_stat_progress_analyze.workers", come_and_go=True),
)

METRICS: tuple[TimelineMetric, ...] = (*_MACHINE, *_DEVICES, *_MEMORY, *_HUGE, *_PROCESSES, *_SERVER)

# A name that ends with "." stands for all that begin with it.
SESSION_METRICS = (
    SessionMetric(name=WAITS),
    SessionMetric(name=WAIT),
    SessionMetric(name="sessions.active"),
    SessionMetric(name="sessions.idle_in_transaction", better=Better.LOWER),
    SessionMetric(name="sessions.idle"),
    SessionMetric(name="sessions.autovacuum"),
)


@cache
def _by_name() -> Mapping[str, TimelineMetric | SessionMetric]:
    known: tuple[TimelineMetric | SessionMetric, ...] = (*METRICS, *SESSION_METRICS)
    return {metric.name: metric for metric in known}


def find_metric(name: str) -> TimelineMetric | SessionMetric | None:
    """What a name of a timeline's series means, "wait.IO" included; None for a name that there is not."""
    source, dot, _ = name.partition(".")
    return _by_name().get(name) or _by_name().get(source + dot)
