"""Collectors of what is read during a load: each is a source and a pure parser."""

from pgtrial.collectors import (
    blocking,
    cgroup,
    pg_buffercache,
    pg_locks,
    pg_stat_statements,
    pg_wait_sampling,
    pgbouncer,
    proc,
    process_cpu,
    progress,
    relations,
    server_views,
    sessions,
    throttling,
)
from pgtrial.collectors.base import (
    ConsoleCollector,
    ExtensionCollector,
    FileCollector,
    ProcessCollector,
    QueryCollector,
)
from pgtrial.collectors.sessions import SessionCollector

Collector = FileCollector | ProcessCollector | QueryCollector | SessionCollector | ExtensionCollector | ConsoleCollector

# In the order in which they are read: files first, they never keep anyone waiting.
COLLECTORS: tuple[Collector, ...] = (
    *proc.COLLECTORS,
    throttling.COLLECTOR,
    *proc.STALLS,
    *cgroup.COLLECTORS,
    *process_cpu.COLLECTORS,
    *pgbouncer.COLLECTORS,
    *server_views.COLLECTORS,
    pg_locks.COLLECTOR,
    *progress.COLLECTORS,
    sessions.COLLECTOR,
    pg_wait_sampling.COLLECTOR,
    *pg_stat_statements.COLLECTORS,
    relations.COLLECTOR,
    pg_buffercache.COLLECTOR,
)

# What a live server is watched with: without the load generator's own, and without what looks at each shared buffer.
WATCHED: tuple[Collector, ...] = (
    *(
        each
        for each in COLLECTORS
        if not isinstance(each, ConsoleCollector)
        and not (isinstance(each, ProcessCollector) and each.started_by != "server")
        and each is not pg_buffercache.COLLECTOR
    ),
    *server_views.WATCHED,
    blocking.COLLECTOR,
)
