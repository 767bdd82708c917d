"""After which blocks an experiment with a stopping rule looks whether it may end."""

import math

from pgtrial.experiment_file.design_checks import FIRST_LOOK
from pgtrial.experiment_file.experiment import DesignTable


def plan_looks(design: DesignTable, *, blocks: int) -> tuple[int, ...]:
    """Numbers of complete blocks at which to look, rising, the last one ``blocks``; () without a stopping rule.

    As many as the file says, evenly spread, or after every block; but none before FIRST_LOOK, so there may be fewer.
    """
    if design.stop == "never":
        return ()
    count = blocks if design.looks is None else design.looks
    wanted = (math.ceil(blocks * number / count) for number in range(1, count + 1))
    return tuple(sorted({min(blocks, max(FIRST_LOOK, block)) for block in wanted}))
