"""Defect 11: a margin of 20 % meant another factor for a metric than for its reciprocal."""

import math

import pytest

from calibration.trials import Row, record
from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT, RULES, Rules
from pgtrial.model.verdict import Decision
from pgtrial.stats.equivalence import decide
from pgtrial.stats.paired import compare_blocks

MARGIN, AUDITED = 0.2, 1.2285


def decide_both(times: float, rules: Rules) -> tuple[Decision, Decision]:
    """About a throughput of b that is ``times`` that of a, and about its reciprocal, the latency of a closed loop."""
    control = [100, 101, 99, 100, 101, 99]
    treated = [times * value * wobble for value, wobble in zip(control, (1, 1.01, 0.99, 1.01, 0.99, 1), strict=True)]
    bounds = rules.log_bounds(MARGIN)
    inverse = ([1 / value for value in values] for values in (control, treated))
    return (
        decide(compare_blocks(control, treated), bounds=bounds, better=Better.HIGHER),
        decide(compare_blocks(*inverse), bounds=bounds, better=Better.LOWER),
    )


@pytest.mark.slow
def test_a_metric_and_its_reciprocal_are_decided_alike() -> None:
    told = {times: decide_both(times, CURRENT) for times in (1.15, 1.19, 1.21, 1.2285, 1.24, 1.3)}
    of_old = decide_both(AUDITED, RULES[1])

    assert all(throughput is latency for throughput, latency in told.values())
    assert {Decision.BETTER, Decision.EQUIVALENT} <= {throughput for throughput, _ in told.values()}
    assert of_old == (Decision.BETTER, Decision.EQUIVALENT)  # the defect
    low, high = CURRENT.log_bounds(MARGIN)
    assert math.isclose(low, -high)
    record(
        Row(
            number=11,
            defect=f"margin 20 %, throughput × {AUDITED} and its reciprocal, the latency",
            audit="“better” and “equivalent”",
            before=f"“{of_old[0]}” and “{of_old[1]}”, by rules 1 (no simulation: "
            "`test_a_metric_and_its_reciprocal_are_decided_alike`)",
            after=f"“{told[AUDITED][0]}” both, and alike for every ratio; bounds 1/1.2 and 1.2",
        )
    )
