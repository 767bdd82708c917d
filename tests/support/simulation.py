"""What is true in a simulated experiment, and the files that simulated experiments have."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from support.details import DETAILED_COUNTERS, DETAILED_GAUGES

EXPERIMENT = """\
format = 1

[experiment]
name = "commit"

[hypothesis]
claim = "Without waiting for the disk at commit, throughput is higher"
expect = "better"
margin = "5%"

[workload]
mix = "simple-update"
clients = 4
duration = "10s"

[arms.on.postgresql]
synchronous_commit = "on"

[arms.off.postgresql]
synchronous_commit = "off"

[design]
blocks = 6
placebo = true
"""

# The same with arms that take turns in slices, and with arms that run at the same time.
INTERLEAVED = EXPERIMENT.replace("[design]\n", '[design]\nmethod = "interleaved"\n')
DUET = EXPERIMENT.replace("[design]\n", '[design]\nmethod = "duet"\n').replace("placebo = true", "placebo = false")

SETTINGS = {
    "data_directory": "/var/tmp/pgtrial",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "synchronous_commit": "on",
    "wal_buffers": "4MB",
    "work_mem": "4MB",
}

# (metric, object) to increase per second.
COUNTERS: Mapping[tuple[str, str], float] = {
    ("disk.read_bytes", "vda"): 4096.0,
    ("disk.reads", "vda"): 1.0,
    ("disk.write_bytes", "vda"): 4e6,
    ("disk.writes", "vda"): 500.0,
    ("pg_stat_checkpointer.num_requested", ""): 0.0,
    ("pg_stat_checkpointer.num_timed", ""): 0.0,
    ("pg_stat_database.blks_hit", ""): 40_000.0,
    ("pg_stat_database.blks_read", ""): 10.0,
    ("pg_stat_database.temp_bytes", ""): 0.0,
    ("pg_stat_wal.wal_bytes", ""): 600_000.0,
    ("pressure.cpu_some_total", ""): 0.3,
    ("proc_stat.cpu_idle", "all"): 0.5,
    ("proc_stat.cpu_iowait", "all"): 0.2,
    ("proc_stat.cpu_irq", "all"): 0.0,
    ("proc_stat.cpu_nice", "all"): 0.0,
    ("proc_stat.cpu_softirq", "all"): 0.1,
    ("proc_stat.cpu_steal", "all"): 0.001,
    ("proc_stat.cpu_system", "all"): 0.4,
    ("proc_stat.cpu_user", "all"): 0.8,
    ("proc_stat.ctxt", ""): 20_000.0,
}

# (state, wait type, wait event) to average number of sessions per client.
WAITS: Mapping[tuple[str, str, str], float] = {
    ("active", "", ""): 0.3,
    ("active", "IO", "WALSync"): 0.1,
    ("active", "LWLock", "WALWrite"): 0.4,
    ("idle", "Client", "ClientRead"): 0.2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What is true. ``tps`` maps an arm to its true throughput with one client, which grows with √clients.

    ``block_sd``, ``run_sd`` and ``slice_sd`` are standard deviations of log throughput between blocks, between the runs
    of a block and between the slices of a run. ``leaks`` maps an arm to what it gains inside each slice, from the first
    quarter of its counted time to the last, in log throughput. ``speeds`` are those of the CPU sets of a duet.
    ``builds_up`` maps an arm to what it gains, in log throughput, in every second block, whose slices are then twice as
    long.
    ``steal`` is the mean share of the CPU time that others take from a run, which slows it down by as much; not where
    arms share the time of a block.
    ``counters`` maps (metric, object) to the increase per second, ``gauges`` to the value.
    ``settings`` and ``facts`` map an arm to what differs in its runs from SETTINGS and from no facts;
    ``facts_after`` to what differs after the load of its runs from what was before.
    ``hosts`` have blocks in turns. ``host_gains`` maps a host to what the candidates gain there beside ``tps``, in log
    throughput, ``host_facts`` to what is peculiar to it.
    """

    tps: Mapping[str, float] = field(default_factory=lambda: {"on": 500.0, "off": 1000.0})
    block_sd: float = 0.1
    run_sd: float = 0.02
    slice_sd: float = 0.03
    leaks: Mapping[str, float] = field(default_factory=dict)
    builds_up: Mapping[str, float] = field(default_factory=dict)
    speeds: tuple[float, ...] = ()
    steal: float = 0.0
    seed: int = 1
    counters: Mapping[tuple[str, str], float] = field(default_factory=lambda: COUNTERS)
    gauges: Mapping[tuple[str, str], float] = field(default_factory=dict)
    waits: Mapping[tuple[str, str, str], float] = field(default_factory=lambda: WAITS)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    facts_after: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    host_gains: Mapping[str, float] = field(default_factory=dict)
    host_facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def detailed_simulation() -> Simulation:
    """One whose samples tell all that timelines can show."""
    return Simulation(counters={**COUNTERS, **DETAILED_COUNTERS}, gauges=DETAILED_GAUGES)
