"""How often intervals of predicted changes hold, in worlds whose times add up in different ways.

A ledger of four times is made by the product's design, six blocks at a step of 1.5. Then the largest time is changed,
and measured in as many blocks of two arms. Changes by 0.67 to 1.5 lie within the step; half of a time does not.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from calibration.trials import ROWS
from pgtrial.design.limits import two_level_design
from pgtrial.stats.elasticity import predict_log_ratio
from support.closed_network import mean_values

Array = NDArray[np.float64]
BLOCKS, STEP, CONFIDENCE = 6, 1.5, 0.9
LEAST = 0.8  # of the intervals of 90 % have to hold
DESIGN = np.array(two_level_design(4), dtype=np.float64) * math.log(STEP)
SHARES = np.array([0.5, 0.35, 0.15, 0.0])
DEMANDS = np.array([0.9e-3, 0.5e-3, 0.1e-3, 0.05e-3])
FACTORS = (0.5, 0.67, 0.8, 1.25, 1.5)
NOISES = (0.01, 0.03, 0.05, 0.1)  # SD of log throughput of a point in a block
QUICK, THOROUGH = 60, 500


def network(clients: int, think: float) -> Callable[[Array], float]:
    return lambda log_times: math.log(mean_values(DEMANDS * np.exp(log_times), clients, think)[0])


# Log throughput by the logs of times.
WORLDS: dict[str, Callable[[Array], float]] = {
    "one time after the other": lambda log_times: -math.log(SHARES @ np.exp(log_times)),
    "a product of powers": lambda log_times: -float(SHARES @ log_times),
    "queues, 4 clients": network(4, 0.0),
    "queues, 8 clients": network(8, 0.0),
    "queues, 4 clients that think for 4 ms": network(4, 4e-3),
    "queues, 8 clients that think for 8 ms": network(8, 8e-3),
    "queues, 32 clients that think for 8 ms": network(32, 8e-3),
}


def count_held(world: str, noise: float, *, experiments: int, seed: int) -> dict[float, int]:
    """By the factor of a change, how many intervals hold what is measured after it."""
    rng, follow = np.random.default_rng(seed), WORLDS[world]
    logs = np.array([follow(row) for row in DESIGN])
    held = dict.fromkeys(FACTORS, 0)
    for _ in range(experiments):
        throughput = logs + rng.normal(0, 0.2, (BLOCKS, 1)) + rng.normal(0, noise, (BLOCKS, len(DESIGN)))
        for factor in FACTORS:
            change = np.array([math.log(factor), 0.0, 0.0, 0.0])
            predicted = predict_log_ratio(DESIGN, throughput, change, confidence=CONFIDENCE)
            truth = follow(change) - follow(np.zeros(4))
            measured = truth + (rng.normal(0, noise, (BLOCKS, 2)) @ (1.0, -1.0)).mean()
            held[factor] += predicted.side(float(measured)) == 0
    return held


@pytest.mark.simulated
@pytest.mark.parametrize("world", WORLDS)
def test_quick_predictions_within_the_step_hold(world: str) -> None:
    for noise in (0.01, 0.05):
        held = count_held(world, noise, experiments=QUICK, seed=1)
        assert min(held[factor] for factor in FACTORS[1:]) >= stats.binom.ppf(1e-4, QUICK, LEAST)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_predictions_hold(world: str) -> None:
    cells = {factor: list[str]() for factor in FACTORS}
    for noise in NOISES:
        held = count_held(world, noise, experiments=THOROUGH, seed=2)
        assert min(held[factor] for factor in FACTORS[1:]) >= stats.binom.ppf(1e-4, THOROUGH, LEAST)
        for factor, count in held.items():
            cells[factor].append(f"{100 * count / THOROUGH:.0f}")
    text = f'world = "{world}"\ncells = "{" | ".join(", ".join(each) for each in cells.values())}"\n'
    (ROWS / f"predict-{list(WORLDS).index(world)}.toml").write_text(text, encoding="utf-8")
