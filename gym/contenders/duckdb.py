"""The ratio of medians, as the regression runner of DuckDB takes it.

A round is five runs of the old and then five of the new; a median more than 10 % worse is a regression if it is so in
each of up to five rounds, of which those after the first are only made as long as it is. Nothing is said of an arm that
is faster. Source: duckdb/duckdb, scripts/regression/test_runner.py.
"""

import numpy as np
from numpy.typing import NDArray

from gym.contenders.base import Answer, Plain
from gym.schedule import Schedule, plain_runs

RUNS, ROUNDS, THRESHOLD = 5, 5, 0.1


class DuckdbRunner(Plain):
    name = "ratio of medians (DuckDB)"
    sizes = (RUNS, RUNS * ROUNDS)
    is_nested = True
    peeks_from = RUNS

    def schedule(self, size: int, experiments: int, _: np.random.Generator) -> Schedule:
        order = np.tile(np.repeat(np.array([0, 1], dtype=np.int8), RUNS), size // RUNS)
        rounds = np.repeat(np.arange(size // RUNS), 2 * RUNS)
        return plain_runs(np.tile(order, (experiments, 1)), group=rounds.tolist())

    def answer(self, control: NDArray[np.float64], treated: NDArray[np.float64]) -> Answer:
        rounds = max(1, control.shape[1] // RUNS)
        old, new = (
            np.median((1 / side[:, : rounds * RUNS]).reshape(len(side), rounds, -1), axis=2)
            for side in (control, treated)
        )
        worse = (new > (1 + THRESHOLD) * old).all(axis=1)
        return Answer(direction=np.where(worse, -1, 0).astype(np.int8))
