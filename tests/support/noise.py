"""Machines that are noisy in different ways."""

import math

import numpy as np
from numpy.typing import NDArray


def machine(
    kind: str, experiments: int, stretches: int, rng: np.random.Generator, *, block: int
) -> NDArray[np.float64]:
    """Log speed in each stretch of a second, without the stretch's own noise: (experiments, stretches).

    ``kind``: "white", "drift", "bursts", or "ar 0.9" with the coefficient; ``block``: stretches of a block.
    """
    shape = (experiments, stretches)
    name, _, parameter = kind.partition(" ")
    if name == "white":
        return np.zeros(shape)
    if name == "drift":  # one per cent per block, up or down, and a slow wave of unknown phase
        time = np.arange(stretches) / block
        slope = 0.01 * rng.choice((-1, 1), (experiments, 1))
        return np.asarray(slope * time + 0.1 * np.sin(2 * np.pi * (time / 3.7 + rng.random((experiments, 1)))))
    state = rng.normal(size=experiments) if name == "ar" else (rng.random(experiments) < 0.2).astype(float)
    speed = np.empty(shape)
    draws = rng.normal(size=shape) if name == "ar" else rng.random(shape)
    for stretch in range(stretches):
        if name == "ar":
            rho = float(parameter)
            state = rho * state + math.sqrt(1 - rho**2) * draws[:, stretch]
            speed[:, stretch] = 0.1 * state
        else:  # a neighbour that takes half of the machine, comes every 40 s and stays for 10 s on average
            state = np.where(state > 0, draws[:, stretch] > 0.1, draws[:, stretch] < 0.025).astype(float)
            speed[:, stretch] = -math.log(2) * state
    return speed
