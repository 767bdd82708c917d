"""CPU time, and time waiting for a CPU, of the server's processes by kind, and of the load generator.

From /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst), or, where the kernel does not keep that, from
/proc/PID/stat, which knows nothing of waiting. A kind of process is called as in pg_stat_activity; that view would tell
the kinds too, but not at the time of the reading, and it does not list the postmaster.
"""

import re

from pgtrial.collectors.base import ProcessCollector, counters
from pgtrial.collectors.following import CpuSums

BACKENDS = "backend_cpu"
LOAD = "pgbench_cpu"  # all processes and threads of the load generator together
POOLER = "pgbouncer_cpu"  # the pooler, which has one thread
ITSELF = "itself"  # title that the reader gives the process whose children it reads

# Titles begin with these (GetBackendTypeDesc, and names of the server's own background workers); the longest first.
_KINDS = {
    "logical replication parallel apply worker": "logical replication parallel worker",
    "logical replication tablesync worker": "logical replication tablesync worker",
    "logical replication apply worker": "logical replication apply worker",
    "logical replication launcher": "logical replication launcher",
    "logical replication worker": "logical replication worker",
    "autovacuum launcher": "autovacuum launcher",
    "autovacuum worker": "autovacuum worker",
    "background writer": "background writer",
    "parallel worker": "parallel worker",
    "slotsync worker": "slotsync worker",
    "walsummarizer": "walsummarizer",
    "checkpointer": "checkpointer",
    "walreceiver": "walreceiver",
    "walsender": "walsender",
    "walwriter": "walwriter",
    "io worker": "io worker",
    "archiver": "archiver",
    "startup": "startup",
    "logger": "logger",
}
_TITLE = re.compile(r"postgres: (?:.*?: )?(?P<rest>.+)")  # with cluster_name or without
_KIND = re.compile(f"({'|'.join(map(re.escape, _KINDS))})(?: |$)")
_CLIENT = re.compile(r"\[local\]|\(\d+\)")  # where a client is: its port, or the Unix socket
_NUMBER = re.compile(r" (?:for PID )?\d")


def kind_of(title: str) -> str | None:
    """What runs under a title such as "postgres: pgtrial: autovacuum worker shop"; None: it has no title yet.

    Other background workers are called as they call themselves.
    """
    if title == ITSELF:
        return "postmaster"
    match = _TITLE.fullmatch(title)
    if match is None:
        return None
    rest = match["rest"]
    known = _KIND.match(rest)
    if known is not None:
        return _KINDS[known[1]]
    return "client backend" if _CLIENT.search(rest) else _NUMBER.split(rest)[0]


COLLECTORS = (
    ProcessCollector(
        name=BACKENDS,
        metrics=counters(BACKENDS, "s", "run", "queue"),
        started_by="server",
        program="",
        follow=lambda: CpuSums(BACKENDS, kind_of),
    ),
    ProcessCollector(
        name=LOAD,
        metrics=counters(LOAD, "s", "run", "queue"),
        started_by="load",
        program="pgbench",
        follow=lambda: CpuSums(LOAD, lambda _title: "", always=("",)),
    ),
    ProcessCollector(
        name=POOLER,
        metrics=counters(POOLER, "s", "run", "queue"),
        started_by="pooler",
        program="pgbouncer",
        follow=lambda: CpuSums(POOLER, lambda _title: ""),
    ),
)
