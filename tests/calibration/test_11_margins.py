"""Defect 11: a margin of 20 % meant another factor for a metric than for its reciprocal."""

import math

import pytest

from calibration.trials import Row, record
from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT
from pgtrial.model.verdict import Decision
from pgtrial.stats.equivalence import decide
from pgtrial.stats.paired import compare_blocks

MARGIN = 0.2


@pytest.mark.slow
def test_a_metric_and_its_reciprocal_are_decided_alike() -> None:
    control = [100, 101, 99, 100, 101, 99]
    found = set()
    for times in (1.15, 1.19, 1.21, 1.2285, 1.24, 1.3):
        treated = [
            times * value * wobble for value, wobble in zip(control, (1, 1.01, 0.99, 1.01, 0.99, 1), strict=True)
        ]
        throughput = decide(compare_blocks(control, treated), bounds=CURRENT.log_bounds(MARGIN), better=Better.HIGHER)
        latency = decide(
            compare_blocks([1 / value for value in control], [1 / value for value in treated]),
            bounds=CURRENT.log_bounds(MARGIN),
            better=Better.LOWER,
        )
        assert latency is throughput
        found.add(throughput)
    assert {Decision.BETTER, Decision.EQUIVALENT} <= found
    low, high = CURRENT.log_bounds(MARGIN)
    assert math.isclose(low, -high)
    record(
        Row(
            number=11,
            defect="margin 20 %, throughput × 1.2285 and its reciprocal, the latency",
            before="“better” and “equivalent”",
            after="alike for every ratio; bounds 1/1.2 and 1.2",
        )
    )
