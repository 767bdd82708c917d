"""The timeline metrics: the meaning of each, and the readings of samples.parquet it is computed from.

Names and definitions of ``vmstat.…`` are those of vmstat(8) (procps), of ``iostat.…`` those of iostat(1) (sysstat), in
base units; the names of the readings are those of the collectors. Many counters are of time, in seconds since some
start: such a rate is a share of the second or, where several can be at it at once, their average number. What a metric
is in words is translated where it is shown.
"""

from collections.abc import Mapping
from functools import cache, partial

from pgtrial.analysis.timelines.formulas import SessionMetric, TimelineMetric, make_metric
from pgtrial.language import N_
from pgtrial.model.metric import Better, Kind

WAITS = "waits."  # and a wait type: average sessions
WAIT = "wait."  # the same by event

_rate = partial(make_metric, Kind.COUNTER)
_gauge = partial(make_metric, Kind.GAUGE)
_each = partial(make_metric, Kind.COUNTER, per_object=True)
_statements = partial(make_metric, Kind.COUNTER, every=10.0)
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

# Not formatted by a program: one or two lines each, so that it can be read as a table.
# fmt: off
_MACHINE = (
    # The reader of the file is running while it reads; vmstat leaves itself out, and so do we.
    _gauge("vmstat.r", "", N_("tasks that run or wait for a CPU"), "proc_stat.procs_running", less=1, better=_LOW),
    _gauge("vmstat.b", "", N_("tasks that are blocked, mostly by I/O"), "proc_stat.procs_blocked", better=_LOW),
    _gauge("vmstat.swpd", "B", N_("swap space in use"), "proc_meminfo.SwapTotal", minus="proc_meminfo.SwapFree"),
    _gauge("vmstat.free", "B", N_("memory that nobody uses"), "proc_meminfo.MemFree"),
    _gauge("vmstat.buff", "B", N_("page cache of block devices"), "proc_meminfo.Buffers"),
    _gauge("vmstat.cache", "B", N_("page cache of files, and slabs that can be freed"),
           "proc_meminfo.Cached proc_meminfo.SReclaimable"),
    _gauge("vmstat.available", "B", N_("memory to be had without swapping"), "proc_meminfo.MemAvailable",
          better=_HIGH),
    _rate("vmstat.si", "B/s", N_("swapped in"), "proc_vmstat.pswpin", in_pages=True, better=_LOW),
    _rate("vmstat.so", "B/s", N_("swapped out"), "proc_vmstat.pswpout", in_pages=True, better=_LOW),
    _rate("vmstat.bi", "B/s", N_("read from all block devices"), "proc_vmstat.pgpgin"),
    _rate("vmstat.bo", "B/s", N_("written to all block devices"), "proc_vmstat.pgpgout"),
    _rate("vmstat.in", "1/s", N_("interrupts"), "proc_stat.intr"),
    _rate("vmstat.cs", "1/s", N_("context switches"), "proc_stat.ctxt"),
    _rate("vmstat.us", "share", N_("CPU time of programs, nice ones and guests included"), _USER, per=_CPU_TIME),
    _rate("vmstat.sy", "share", N_("CPU time in the kernel, interrupts included"), _SYSTEM, per=_CPU_TIME),
    _rate("vmstat.id", "share", N_("CPU time without work"), _IDLE, per=_CPU_TIME),
    _rate("vmstat.wa", "share", N_("CPU time without work while I/O was under way"), _IOWAIT, per=_CPU_TIME,
          better=_LOW),
    _rate("vmstat.st", "share", N_("CPU time that the hypervisor gave to others"), _STEAL, per=_CPU_TIME,
          better=_LOW),
    _gauge("vmstat.cpus", "", N_("CPUs that are online"), "proc_stat.cpus"),
    _gauge("loadavg.1", "", N_("load average of the last minute"), "proc_loadavg.load1"),
)
_DEVICES = (
    _each("iostat.r", "1/s", N_("read requests"), "disk.reads"),
    _each("iostat.w", "1/s", N_("write requests"), "disk.writes"),
    _each("iostat.d", "1/s", N_("discard requests"), "disk.discards"),
    _each("iostat.f", "1/s", N_("flush requests"), "disk.flushes"),
    _each("iostat.r_bytes", "B/s", N_("read"), "disk.read_bytes"),
    _each("iostat.w_bytes", "B/s", N_("written"), "disk.write_bytes"),
    _each("iostat.d_bytes", "B/s", N_("discarded"), "disk.discard_bytes"),
    _each("iostat.rrqm", "1/s", N_("read requests merged with others"), "disk.reads_merged"),
    _each("iostat.wrqm", "1/s", N_("write requests merged with others"), "disk.writes_merged"),
    _each("iostat.r_await", "s", N_("time of a read, queue included"), "disk.read_time", per="disk.reads",
          better=_LOW),
    _each("iostat.w_await", "s", N_("time of a write, queue included"), "disk.write_time", per="disk.writes",
          better=_LOW),
    _each("iostat.d_await", "s", N_("time of a discard, queue included"), "disk.discard_time", per="disk.discards",
          better=_LOW),
    _each("iostat.f_await", "s", N_("time of a flush"), "disk.flush_time", per="disk.flushes", better=_LOW),
    _each("iostat.rareq", "B", N_("size of a read request"), "disk.read_bytes", per="disk.reads"),
    _each("iostat.wareq", "B", N_("size of a write request"), "disk.write_bytes", per="disk.writes"),
    _each("iostat.aqu", "", N_("average number of requests under way"), "disk.queue_time", better=_LOW),
    _each("iostat.util", "share", N_("time with at least one request under way"), "disk.io_time"),
    _each("iostat.iops", "1/s", N_("read and write requests"), "disk.reads disk.writes"),
    _each("iostat.bytes", "B/s", N_("read and written"), "disk.read_bytes disk.write_bytes"),
)
_MEMORY = (
    _gauge("dirty.bytes", "B", N_("changed pages of files, not yet written"), "proc_meminfo.Dirty"),
    _gauge("dirty.writeback", "B", N_("pages that are being written"), "proc_meminfo.Writeback"),
    _gauge("dirty.threshold", "B", N_("dirty pages from which on writers are slowed down"),
           "proc_vmstat.nr_dirty_threshold", in_pages=True),
    _gauge("dirty.background", "B", N_("dirty pages from which on the kernel writes in the background"),
           "proc_vmstat.nr_dirty_background_threshold", in_pages=True),
    # Both are held against the limit (balance_dirty_pages in the kernel's mm/page-writeback.c).
    _gauge("dirty.share", "share",
           N_("pages dirty or being written, of the limit from which on writers are slowed down"),
           "proc_vmstat.nr_dirty proc_vmstat.nr_writeback", per="proc_vmstat.nr_dirty_threshold", better=_LOW),
    _rate("throttling.pauses", "1/s", N_("times a writer was made to sleep because of dirty pages"),
          "throttling.pauses",
          better=_LOW),
    _rate("throttling.paused", "s/s", N_("writers that sleep because of dirty pages, on average"),
          "throttling.pause_time",
          better=_LOW),
    _rate("reclaim.direct", "1/s", N_("pages looked at by processes that had to free memory themselves"),
          "proc_vmstat.pgscan_direct", better=_LOW),
    _rate("reclaim.kswapd", "1/s", N_("pages looked at by the kernel in the background"),
          "proc_vmstat.pgscan_kswapd"),
    # Of reclaim (reclaim_throttle, mm/vmscan.c), not of writers: how those wait in balance_dirty_pages has no counter.
    _rate("reclaim.throttled", "1/s", N_("pages written while tasks that had to free memory waited for it"),
          "proc_vmstat.nr_throttled_written", better=_LOW),
    _rate("reclaim.stall", "1/s", N_("allocations that had to wait for memory"), _STALLS, is_any=True, better=_LOW),
    _rate("reclaim.refault", "1/s", N_("pages that were needed again soon after they had been thrown out"), _REFAULTS,
          otherwise="proc_vmstat.workingset_refault", better=_LOW),
    _rate("reclaim.major", "1/s", N_("page faults that had to read"), "proc_vmstat.pgmajfault", better=_LOW),
    _gauge("watermark.free", "B", N_("free pages of all zones"), "zoneinfo.free", in_pages=True),
    _gauge("watermark.low", "B", N_("free pages below which the kernel frees memory in the background"),
          "zoneinfo.low",
           in_pages=True),
    _gauge("watermark.min", "B", N_("free pages below which processes have to free memory themselves"),
          "zoneinfo.min",
           in_pages=True),
    _rate("psi.cpu", "share", N_("time with a task that waited for a CPU"), "pressure.cpu_some_total", better=_LOW),
    _rate("psi.memory", "share", N_("time with a task that waited for memory"), "pressure.memory_some_total",
          better=_LOW),
    _rate("psi.io", "share", N_("time with a task that waited for I/O"), "pressure.io_some_total", better=_LOW),
    _rate("psi.memory.full", "share", N_("time in which every task that had work waited for memory"),
          "pressure.memory_full_total", better=_LOW),
    _rate("psi.io.full", "share", N_("time in which every task that had work waited for I/O"),
          "pressure.io_full_total",
          better=_LOW),
)
_PROCESSES = (
    _rate("cgroup.cpu", "", N_("CPUs that the server's control group used"), "cgroup.cpu_usage"),
    _rate("cgroup.throttled", "s/s",
          N_("time in which its limit kept the control group from its CPUs, all of them added up"),
          "cgroup.cpu_throttled_time", better=_LOW),
    _gauge("cgroup.memory", "B", N_("memory and page cache of the control group"), "cgroup.memory_usage"),
    _gauge("cgroup.memory_limit", "B", N_("limit of that memory"), "cgroup.memory_limit",
          otherwise="cgroup.memory_high"),
    _each("cgroup.reads", "1/s", N_("read requests of the control group"), "cgroup.io_reads"),
    _each("cgroup.writes", "1/s", N_("write requests of the control group"), "cgroup.io_writes"),
    _each("cgroup.read_bytes", "B/s", N_("read by the control group"), "cgroup.io_read_bytes"),
    _each("cgroup.write_bytes", "B/s", N_("written by the control group"), "cgroup.io_write_bytes"),
    _each("server.cpu", "", N_("CPUs that processes of the kind used"), "backend_cpu.run", come_and_go=True),
    _each("server.cpu_queue", "", N_("average number of processes of the kind that wanted a CPU and had none"),
          "backend_cpu.queue", come_and_go=True, better=_LOW),
    _rate("pgbench.cpu", "", N_("CPUs that the load generator used"), "pgbench_cpu.run"),
    _rate("pgbench.cpu_queue", "", N_("average number of its threads that wanted a CPU and had none"),
          "pgbench_cpu.queue", better=_LOW),
)
_SERVER = (
    _rate("db.hit", "1/s", N_("blocks found in shared buffers"), "pg_stat_database.blks_hit"),
    _rate("db.read", "1/s", N_("blocks read into shared buffers"), "pg_stat_database.blks_read"),
    _rate("db.commits", "1/s", N_("transactions committed"), "pg_stat_database.xact_commit"),
    _rate("db.rows", "1/s", N_("rows fetched through indexes, inserted, updated and deleted"),
          "pg_stat_database.tup_fetched pg_stat_database.tup_inserted "
          "pg_stat_database.tup_updated pg_stat_database.tup_deleted"),
    _rate("db.tuples_returned", "1/s", N_("rows read by scans of tables and entries by those of indexes"),
          "pg_stat_database.tup_returned"),
    _rate("db.temp_bytes", "B/s", N_("written to temporary files"), "pg_stat_database.temp_bytes", better=_LOW),
    _rate("db.deadlocks", "1/s", N_("deadlocks"), "pg_stat_database.deadlocks", better=_LOW),
    _rate("db.blk_read_time", "s/s", N_("sessions that read blocks"), "pg_stat_database.blk_read_time", better=_LOW),
    _rate("db.blk_write_time", "s/s", N_("sessions that write blocks"), "pg_stat_database.blk_write_time",
          better=_LOW),
    _statements("statements.calls", "1/s", N_("statements executed"), "pg_stat_statements.calls"),
    _statements("statements.rows", "1/s", N_("rows that statements gave back or changed"), "pg_stat_statements.rows"),
    _statements("statements.dirtied", "1/s", N_("blocks dirtied"), "pg_stat_statements.shared_blks_dirtied"),
    _statements("statements.hit", "1/s", N_("blocks found in shared buffers"), "pg_stat_statements.shared_blks_hit"),
    _statements("statements.read", "1/s", N_("blocks read into shared buffers"),
          "pg_stat_statements.shared_blks_read"),
    _statements("statements.written", "1/s", N_("blocks written by statements"),
          "pg_stat_statements.shared_blks_written"),
    _rate("wal.bytes", "B/s", N_("WAL made"), "pg_stat_wal.wal_bytes"),
    _rate("wal.fpi", "1/s", N_("whole pages in the WAL, for the first change after a checkpoint"),
          "pg_stat_wal.wal_fpi"),
    _rate("wal.syncs", "1/s", N_("WAL flushes"), "pg_stat_wal.wal_sync", otherwise=f"pg_stat_io.fsyncs/{_WAL}"),
    _rate("wal.sync_time", "s/s", N_("time in WAL flushes"), "pg_stat_wal.wal_sync_time",
          otherwise=f"pg_stat_io.fsync_time/{_WAL}", better=_LOW),
    _rate("wal.buffers_full", "1/s", N_("WAL written because its buffers were full"), "pg_stat_wal.wal_buffers_full",
          better=_LOW),
    _rate("checkpoints.timed", "1/s", N_("checkpoints that were due"), "pg_stat_checkpointer.num_timed"),
    _rate("checkpoints.requested", "1/s", N_("checkpoints because of much WAL, or asked for"),
          "pg_stat_checkpointer.num_requested"),
    _rate("checkpoints.buffers", "1/s", N_("blocks written by checkpoints"), "pg_stat_checkpointer.buffers_written"),
    _rate("checkpoints.write_time", "s/s", N_("time in which checkpoints wrote, told at their end"),
          "pg_stat_checkpointer.write_time"),
    _rate("checkpoints.sync_time", "s/s", N_("time in which checkpoints synced, told at their end"),
          "pg_stat_checkpointer.sync_time"),
    _rate("bgwriter.buffers", "1/s", N_("blocks written by the background writer"), "pg_stat_bgwriter.buffers_clean"),
    # Before 16 there is only the other counter, which also has the blocks by which tables grew.
    _rate("backend.buffers", "1/s", N_("blocks that sessions had to write themselves"),
          f"pg_stat_io.writes/{_BY_SESSIONS}", otherwise="pg_stat_bgwriter.buffers_backend", better=_LOW),
    _each("slru.read", "1/s", N_("pages of the cache read"), "pg_stat_slru.blks_read"),
    _each("slru.hit", "1/s", N_("pages found in the cache"), "pg_stat_slru.blks_hit"),
    _gauge("locks.waiting", "", N_("sessions that wait for a lock"), "pg_locks.waiting", come_and_go=True,
          better=_LOW),
    _gauge("locks.chain", "", N_("longest chain of sessions that wait for each other"), "pg_locks.chain",
          better=_LOW),
    _gauge("vacuum.running", "", N_("vacuums under way"), "pg_stat_progress_vacuum.workers", come_and_go=True),
    _gauge("analyze.running", "", N_("analyzes under way"), "pg_stat_progress_analyze.workers", come_and_go=True),
)
# fmt: on

METRICS: tuple[TimelineMetric, ...] = (*_MACHINE, *_DEVICES, *_MEMORY, *_PROCESSES, *_SERVER)

# A name that ends with "." stands for all that begin with it.
SESSION_METRICS = (
    SessionMetric(name=WAITS, text=N_("sessions of the load in a wait of the type; CPU: active and not waiting")),
    SessionMetric(name=WAIT, text=N_("the same by wait event")),
    SessionMetric(name="sessions.active", text=N_("sessions of the load that were active")),
    SessionMetric(
        name="sessions.idle_in_transaction",
        text=N_("sessions of the load that waited for the client inside a transaction"),
        better=Better.LOWER,
    ),
    SessionMetric(
        name="sessions.idle", text=N_("sessions of the load that waited for the client between transactions")
    ),
    SessionMetric(name="sessions.autovacuum", text=N_("autovacuum workers")),
)


@cache
def _by_name() -> Mapping[str, TimelineMetric | SessionMetric]:
    known: tuple[TimelineMetric | SessionMetric, ...] = (*METRICS, *SESSION_METRICS)
    return {metric.name: metric for metric in known}


def find_metric(name: str) -> TimelineMetric | SessionMetric | None:
    """What a name of a timeline's series means, "wait.IO" included; None for a name that there is not."""
    source, dot, _ = name.partition(".")
    return _by_name().get(name) or _by_name().get(source + dot)
