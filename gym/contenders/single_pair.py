"""One run of each, and a threshold of 5 %: what most people do."""

import numpy as np
from numpy.typing import NDArray

from gym.contenders.base import Answer, Plain
from gym.schedule import Schedule, alternating

THRESHOLD = 0.05


class SinglePair(Plain):
    name = "single pair, 5 %"
    sizes = (1,)
    is_nested = True
    peeks_from = 1

    def schedule(self, size: int, experiments: int, _: np.random.Generator) -> Schedule:
        return alternating(size, experiments)

    def answer(self, control: NDArray[np.float64], treated: NDArray[np.float64]) -> Answer:
        change = treated[:, -1] / control[:, -1] - 1
        return Answer(direction=np.where(np.abs(change) > THRESHOLD, np.sign(change), 0).astype(np.int8))
