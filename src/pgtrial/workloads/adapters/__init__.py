"""What pgtrial knows of load generators, and of formats that many of them write: one file each."""

from pgtrial.workloads.adapters import benchbase, go_tpc, hammerdb, hdr_log, k6, openmetrics, pgreplay, sysbench
from pgtrial.workloads.adapters.base import Adapter

_JSON = Adapter(name="json")

ADAPTERS: tuple[Adapter, ...] = (
    _JSON,
    hdr_log.ADAPTER,
    openmetrics.ADAPTER,
    sysbench.ADAPTER,
    hammerdb.ADAPTER,
    benchbase.ADAPTER,
    go_tpc.ADAPTER,
    k6.ADAPTER,
    pgreplay.ADAPTER,
)
BY_NAME = {adapter.name: adapter for adapter in ADAPTERS}
