"""The randomisation test of medians, as the performance test of ClickHouse takes it.

Old and new take turns. A difference of the medians counts if it is above 5 % and above the 95th percentile of the
differences that come out when the runs are dealt to the two sides at random.
Source: ClickHouse/ClickHouse, docker/test/performance-comparison; Box, Hunter & Hunter, Statistics for Experimenters.
"""

import numpy as np
from numpy.typing import NDArray

from gym.contenders.base import Answer, Plain
from gym.schedule import Schedule, alternating

THRESHOLD, QUANTILE, DEALT = 0.05, 0.95, 400


class ClickhouseTest(Plain):
    name = "randomised medians (ClickHouse)"
    sizes = (7, 13, 20)
    is_nested = True
    peeks_from = 4

    def schedule(self, size: int, experiments: int, _: np.random.Generator) -> Schedule:
        return alternating(size, experiments)

    def answer(self, control: NDArray[np.float64], treated: NDArray[np.float64]) -> Answer:
        count = control.shape[1]
        both = 1 / np.concatenate([control, treated], axis=1)
        rng = np.random.default_rng(0)
        dealt = np.empty((DEALT, len(both)))
        for place in range(DEALT):
            chosen = both[:, rng.permutation(2 * count)]
            dealt[place] = np.abs(np.median(chosen[:, :count], axis=1) - np.median(chosen[:, count:], axis=1))
        old, new = np.median(both[:, :count], axis=1), np.median(both[:, count:], axis=1)
        difference = new - old
        counts = (np.abs(difference) > THRESHOLD * old) & (np.abs(difference) > np.quantile(dealt, QUANTILE, axis=0))
        return Answer(direction=np.where(counts, -np.sign(difference), 0).astype(np.int8))
