"""CPU time of the load generator, all of its processes and threads together, and how long they wanted a CPU in vain."""

from pgtrial.collectors.base import ProcessCollector, counters
from pgtrial.collectors.following import CpuSums

NAME = "pgbench_cpu"

COLLECTOR = ProcessCollector(
    name=NAME,
    metrics=counters(NAME, "s", "run", "queue"),
    started_by="load",
    program="pgbench",
    follow=lambda: CpuSums(NAME, lambda _title: "", always=("",)),
)
