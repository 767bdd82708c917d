"""The limits of the calibration are sharp: a method that is off by a little exceeds them."""

import pytest

from calibration import test_01_carry_over, test_08_blocks_needed, test_09_placebo, test_14_interruptions
from calibration.trials import power

ALL = test_01_carry_over.EXPERIMENTS * len(test_01_carry_over.MACHINES)
NAMED = 2 * test_08_blocks_needed.EXPERIMENTS // 5  # experiments in which a number of blocks is named, at least
PLACEBOS = test_09_placebo.EXPERIMENTS
INTERRUPTED = test_14_interruptions.EXPERIMENTS


@pytest.mark.parametrize(
    ("experiments", "nominal", "truth"),
    [
        pytest.param(ALL, 0.05, 0.09, id="intervals without the truth, of all machines"),
        pytest.param(ALL // 2, 0.025, 0.07, id="false verdicts, of those on which something comes late"),
        pytest.param(NAMED, 1 - test_08_blocks_needed.PROMISED, 0.27, id="blocks needed that do not suffice"),
        pytest.param(PLACEBOS, 0.05, 0.11, id="a placebo that is called clean"),
        pytest.param(INTERRUPTED, test_14_interruptions.NOMINAL, 0.055, id="runs that are stopped where they look bad"),
    ],
)
def test_a_method_that_is_off_by_so_much_exceeds_the_limit(experiments: int, nominal: float, truth: float) -> None:
    assert power(experiments, nominal, truth=truth) > 0.95
