"""Differences of two windows, also where a quantity does not move within one."""

import numpy as np
import pytest

from pgtrial.watch.rows import by_quotient, finish


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_what_each_call_takes_alike_differs_for_sure(noise: float) -> None:
    """A scan of a table that does not grow reads the same blocks in each call, without any noise of its own."""
    rng = np.random.default_rng(3)
    calls = rng.poisson(50, 60).astype(float)
    blocks = [4 * calls, 1640 * calls + noise * rng.normal(0, 100, calls.size)]

    (row,) = finish([by_quotient("blocks", "", blocks, [calls, calls], is_ratio=True)])
    assert row.change == pytest.approx(410, rel=0.01)
    assert row.low is not None
    assert 400 < row.low < row.high < 420
    assert row.is_sure


def test_what_stays_the_same_is_no_difference() -> None:
    calls = np.random.default_rng(4).poisson(50, 60).astype(float)

    (row,) = finish([by_quotient("blocks", "", [4 * calls, 4 * calls], [calls, calls], is_ratio=True)])
    assert row.change == 1
    assert not row.is_sure


def test_of_few_minutes_nothing_is_known() -> None:
    calls = np.full(5, 50.0)

    (row,) = finish([by_quotient("blocks", "", [4 * calls, 1640 * calls], [calls, calls], is_ratio=True)])
    assert (row.low, row.high) == (None, None)
