"""hyperfine: all runs of one command, then all runs of the other, and their means.

It shows mean and standard deviation; that the means differ is judged by Welch's t test at 5 %, as the script does that
comes with it. Ten runs of each is what it makes by default. Source: Welch, Biometrika 34 (1947) 28-35.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from gym.contenders.base import Answer, Plain
from gym.schedule import Schedule, one_after_the_other

ALPHA = 0.05


class Hyperfine(Plain):
    name = "hyperfine"
    sizes = (6, 10, 20)
    is_nested = False
    peeks_from = 3

    def schedule(self, size: int, experiments: int, _: np.random.Generator) -> Schedule:
        return one_after_the_other(size, experiments)

    def answer(self, control: NDArray[np.float64], treated: NDArray[np.float64]) -> Answer:
        # It measures the time for a piece of work, so less is faster.
        old, new = 1 / control, 1 / treated
        count = old.shape[1]
        means = [side.mean(axis=1) for side in (old, new)]
        errors = [side.var(axis=1, ddof=1) / count for side in (old, new)]
        total = errors[0] + errors[1]
        degrees = total**2 * (count - 1) / (errors[0] ** 2 + errors[1] ** 2)
        reach = stdtrit(degrees, 1 - ALPHA / 2) * np.sqrt(total)
        difference = means[1] - means[0]
        direction = np.where(np.abs(difference) > reach, -np.sign(difference), 0)
        # The interval of the difference, seen from the old mean; times are turned into speeds.
        return Answer(
            direction=direction.astype(np.int8),
            low=means[0] / (means[0] + difference + reach),
            high=means[0] / np.maximum(means[0] + difference - reach, 1e-12),
        )
