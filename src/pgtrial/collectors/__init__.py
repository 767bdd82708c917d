"""What is read while a load runs, one file each: a source and a pure parser."""

from pgtrial.collectors import (
    cgroup,
    pg_stat_bgwriter,
    pg_stat_checkpointer,
    pg_stat_database,
    pg_stat_io,
    pg_stat_wal,
    pressure,
    proc_diskstats,
    proc_loadavg,
    proc_meminfo,
    proc_stat,
    proc_vmstat,
    sessions,
)
from pgtrial.collectors.base import FileCollector, QueryCollector
from pgtrial.collectors.sessions import SessionCollector

# In the order in which they are read: files first, they never keep anyone waiting.
COLLECTORS: tuple[FileCollector | QueryCollector | SessionCollector, ...] = (
    proc_stat.COLLECTOR,
    proc_diskstats.COLLECTOR,
    proc_vmstat.COLLECTOR,
    proc_meminfo.COLLECTOR,
    proc_loadavg.COLLECTOR,
    *pressure.COLLECTORS,
    *cgroup.COLLECTORS,
    pg_stat_database.COLLECTOR,
    pg_stat_wal.COLLECTOR,
    pg_stat_io.COLLECTOR,
    pg_stat_bgwriter.COLLECTOR,
    pg_stat_checkpointer.COLLECTOR,
    sessions.COLLECTOR,
)
