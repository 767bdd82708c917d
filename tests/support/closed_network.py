"""A closed network of queues, by exact mean value analysis."""

import numpy as np
from numpy.typing import NDArray


def mean_values(demands: NDArray[np.float64], customers: int, think: float = 0.0) -> tuple[float, NDArray[np.float64]]:
    """Throughput and queue lengths of a closed network of single servers (Reiser & Lavenberg 1980)."""
    queues, throughput = np.zeros(demands.size), 0.0
    for number in range(1, customers + 1):
        residence = demands * (1 + queues)
        throughput = number / (think + residence.sum())
        queues = throughput * residence
    return throughput, queues
