"""Whether the data of a mix are consistent after its load, outside of measured time."""

from collections.abc import Iterable

from pgtrial.engine.target.base import RunningServer
from pgtrial.errors import TargetError
from pgtrial.experiment_file.workload_table import TPCC, WorkloadTable
from pgtrial.postgres.connect import find_row
from pgtrial.workloads.tpcc import CHECKS


def is_checked(workload: WorkloadTable) -> bool:
    """Whether a load's data have conditions that pgtrial knows."""
    return workload.mix == TPCC


async def find_inconsistency(servers: Iterable[RunningServer]) -> str:
    """Which condition the data of one of the servers do not keep, in a sentence; "" if all keep them all.

    Arms may share a database, which is looked at once.
    """
    for conninfo in dict.fromkeys(server.conninfo(server.database) for server in servers):
        for clause, query in CHECKS.items():
            try:
                row = await find_row(conninfo, query)
            except TargetError as err:
                return f"whether the data are consistent after the load cannot be told (clause {clause}): {err}"
            if row is not None:
                return f"the data are inconsistent after the load (clause {clause} of TPC-C): {row[0]}"
    return ""
