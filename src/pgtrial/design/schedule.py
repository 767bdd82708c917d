"""The order of the runs: randomised complete blocks."""

import random
from collections.abc import Sequence

from pgtrial.design.slices import shuffled
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
        for position, name in enumerate(shuffled([arm.name for arm in arms], rng), start=1):
            slots.append(Slot(number=len(slots) + 1, block=block, position=position, arm=name))
    return tuple(slots)
