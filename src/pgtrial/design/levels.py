"""The load levels of a run: numbers of clients, with arrival rates where the loop is open."""

from collections.abc import Sequence

from pgtrial.errors import SpecError
from pgtrial.experiment_file.experiment import RampTable, WorkloadTable
from pgtrial.model.run import LoadLevel


def load_levels(workload: WorkloadTable) -> tuple[LoadLevel, ...]:
    """Every load level in the order of the file.

    A ramp of clients is rounded to whole clients, and what rounding makes equal is kept once. With rates, a single
    number of clients (or a single rate) holds for all levels; two lists are paired. SpecError if their lengths differ.
    """
    clients = client_levels(workload)
    rates = rate_levels(workload)
    count = max(len(clients), len(rates))
    if {len(clients), len(rates)} - {1, count}:
        raise SpecError(f"clients has {len(clients)} levels, rate has {len(rates)}; they must match")
    return tuple(
        LoadLevel(index=index, clients=clients[index % len(clients)], rate=rates[index % len(rates)])
        for index in range(count)
    )


def client_levels(workload: WorkloadTable) -> tuple[int, ...]:
    clients = workload.clients
    if isinstance(clients, RampTable):
        return tuple(dict.fromkeys(max(1, round(level)) for level in clients.expand()))
    return (clients,) if isinstance(clients, int) else clients


def rate_levels(workload: WorkloadTable) -> Sequence[float | None]:
    rate = workload.rate
    if isinstance(rate, RampTable):
        return rate.expand()
    return rate if isinstance(rate, tuple) else (rate,)
