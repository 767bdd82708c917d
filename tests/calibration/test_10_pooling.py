"""Defect 10: weights by estimated errors made pooled intervals too narrow, and predictions with them."""

import random

import numpy as np
import pytest

from calibration.before import PooledBefore, combine_before, judged_as_before
from calibration.trials import Row, compare, most, observe, plan_trial, rate, record
from pgtrial.stats.base import Interval
from pgtrial.stats.meta import Pooled, combine

EXPERIMENTS = {(8, 3): 1000, (32, 6): 2000, (8, 6): 600, (16, 6): 600}  # of so many experiments, of so many blocks
MEAN, TAU = 0.1, {(8, 6): 0.02, (16, 6): 0.02}  # SD between experiments, none in the others


def pool(seeds: random.Random, *, count: int, blocks: int, tau: float) -> tuple[Pooled, PooledBefore]:
    """The same experiments, compared and combined today and before."""
    found, of_old = [], []
    for _ in range(count):
        evidence = plan_trial(seeds, blocks=blocks)
        rng = np.random.default_rng(evidence.seed)
        own = MEAN + rng.normal(0, tau)
        speeds = {slot.number: rng.normal(0, 0.02) + (own if slot.arm == "b" else 0.0) for slot in evidence.slots}
        values = observe(evidence, speeds)
        found.append(compare(evidence, values))
        of_old.append(compare(judged_as_before(evidence), values))
    effects, effects_before = ([np.log(each.ratio) for each in these] for these in (found, of_old))
    errors, errors_before = ([each.error for each in these] for these in (found, of_old))
    now = combine(effects, errors, [each.degrees for each in found])
    return now, combine_before(effects_before, errors_before)


def holds(interval: Interval | None, value: float) -> bool:
    assert interval is not None
    return interval.low <= value <= interval.high


@pytest.mark.slow
def test_pooled_and_predicted_effects_cover_as_often_as_they_promise() -> None:
    rng, told, of_old = np.random.default_rng(10), [], []
    predicted, predicted_before = [], []
    for (count, blocks), times in EXPERIMENTS.items():
        tau = TAU.get((count, blocks), 0.0)
        seeds, inside, following = random.Random(10), [0, 0], [0, 0]
        for _ in range(times):
            other = MEAN + rng.normal(0, tau)
            for place, found in enumerate(pool(seeds, count=count, blocks=blocks, tau=tau)):
                inside[place] += holds(found.interval, MEAN)
                following[place] += holds(found.prediction, other)
        assert times - inside[0] <= most(times, 0.05)
        assert times - following[0] <= most(times, 0.05)
        if tau == 0:
            assert times - inside[1] > most(times, 0.05)  # the defect
        where = f"({count} × {blocks})"
        for place, texts in enumerate((told, of_old)):
            texts.append(f"{rate(inside[place], times)} {where}")
        for place, texts in enumerate((predicted, predicted_before)):
            if tau:
                texts.append(f"{rate(following[place], times)} {where}")
    record(
        Row(
            number=10,
            defect="pooled experiments × blocks: intervals of 95 % hold the mean; predictions hold the next host",
            audit="89.3 % (8 × 3), 91.5 % (32 × 6); 89 to 90 % (8 to 16 hosts)",
            before=f"{', '.join(of_old)}; {', '.join(predicted_before)}",
            after=f"{', '.join(told)}; {', '.join(predicted)}",
        )
    )
