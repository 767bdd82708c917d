"""Defect 9: a placebo with a bias as large as the margin passed as clean."""

import random

import numpy as np
import pytest

from calibration.before import judged_as_before
from calibration.trials import TPS, Row, most, observe, plan_trial, rate, record
from pgtrial.analysis.effects.estimate import compare_when_due, places, read_pairs
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.findings.record import ALL
from pgtrial.model.metric import Better
from pgtrial.model.verdict import Decision
from pgtrial.stats.equivalence import decide

EXPERIMENTS = 1500


def judge(evidence: Evidence, values: Values) -> Decision:
    """What the placebo's effect comes to, which its check goes by."""
    control, treated = read_pairs(evidence, values, "placebo", (TPS, None, ALL))
    after = places(evidence, evidence.pairs("placebo"))
    found = compare_when_due(evidence, control, treated, comparisons=1, after=after)
    return decide(found, bounds=evidence.bounds, better=Better.HIGHER)


@pytest.mark.slow
def test_a_placebo_with_a_bias_as_large_as_the_margin_is_not_called_clean() -> None:
    told, of_old, wrong = [], [], (Decision.BETTER, Decision.WORSE)
    for sd in (0.01, 0.02):
        seeds, clean, invalid, invalid_before = random.Random(9), 0, 0, 0
        for _ in range(EXPERIMENTS):
            evidence = plan_trial(seeds, blocks=6, placebo=True)
            rng = np.random.default_rng(evidence.seed)
            speeds = {
                slot.number: rng.normal(0, sd) + (np.log1p(0.03) if slot.arm == "placebo" else 0.0)
                for slot in evidence.slots
            }
            values = observe(evidence, speeds)
            decision = judge(evidence, values)
            clean += decision is Decision.EQUIVALENT
            invalid += decision in wrong
            invalid_before += judge(judged_as_before(evidence), values) in wrong
        clean_before = EXPERIMENTS - invalid_before  # whatever was not shown to be wrong
        assert clean_before > most(EXPERIMENTS, 0.05)  # the defect
        assert clean <= most(EXPERIMENTS, 0.05)
        where = f"(run SD {100 * sd:.0f} %)"
        told.append(f"{rate(clean, EXPERIMENTS)} clean, {rate(invalid, EXPERIMENTS)} invalid {where}")
        of_old.append(f"{rate(clean_before, EXPERIMENTS)} clean, {rate(invalid_before, EXPERIMENTS)} invalid {where}")
    record(
        Row(
            number=9,
            defect="a placebo whose bias is as large as the margin",
            audit="97 % clean, 3 % invalid",
            before="; ".join(of_old),
            after="; ".join(told) + "; the others are called unclear",
        )
    )
