"""The order of the runs: randomised complete blocks."""

import random
from collections.abc import Sequence

from pgtrial.model.arm import Arm
from pgtrial.model.run import Slot


def plan_schedule(arms: Sequence[Arm], *, blocks: int, seed: int) -> tuple[Slot, ...]:
    """Every arm once per block, in an order drawn from ``seed`` for each block anew.

    A longer schedule begins with the shorter one of the same seed, so blocks can be added later.
    Source: Fisher, The Design of Experiments, 1935, chapter 4.
    """
    rng = random.Random(seed)
    slots: list[Slot] = []
    for block in range(1, blocks + 1):
        for position, name in enumerate(_shuffled([arm.name for arm in arms], rng), start=1):
            slots.append(Slot(number=len(slots) + 1, block=block, position=position, arm=name))
    return tuple(slots)


def _shuffled(names: list[str], rng: random.Random) -> list[str]:
    # Fisher–Yates by hand: of all of Python's generator only random() is promised to give the same numbers for a seed
    # in every version, and a schedule has to be the same wherever it is planned again.
    for last in range(len(names) - 1, 0, -1):
        chosen = int(rng.random() * (last + 1))
        names[last], names[chosen] = names[chosen], names[last]
    return names
