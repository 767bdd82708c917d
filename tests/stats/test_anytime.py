import math
import random

import numpy as np
import pytest
from scipy import integrate, stats

from pgtrial.design.plan import plan_schedule
from pgtrial.model.arm import Arm, Role
from pgtrial.stats.crossover import fit_crossover
from pgtrial.stats.interval import t_quantile
from pgtrial.stats.paired import compare_blocks
from pgtrial.stats.sequential import anytime_t, nominal_levels, widen

ARMS = (Arm(name="a", role=Role.CONTROL), Arm(name="b", role=Role.CANDIDATE))


@pytest.mark.parametrize(("degrees", "information"), [(7, 8.0), (11, 12.0), (39, 40.0), (6, 7.5)])
def test_at_the_bound_the_ratio_of_likelihoods_is_that_of_the_definition(degrees, information):
    """The oracle: the likelihood of t, averaged over the prior by numerical integration, against that of no effect."""
    t = anytime_t(0.05, degrees=degrees, information=information)

    def weighted(effect):
        return stats.nct.pdf(t, degrees, effect * math.sqrt(information)) * stats.norm.pdf(effect)

    average = integrate.quad(weighted, -8, 8, limit=400)[0]
    assert average / stats.t.pdf(t, degrees) == pytest.approx(20, rel=1e-4)


@pytest.mark.parametrize(("blocks", "width"), [(8, 1.50), (12, 1.06), (40, 0.53)])
def test_widths_are_the_published_ones(blocks, width):
    """In standard deviations of a block: reference figures of an independent implementation."""
    assert anytime_t(0.05, degrees=blocks - 1, information=blocks) / math.sqrt(blocks) == pytest.approx(
        width, abs=0.006
    )


@pytest.mark.parametrize("size", [0.0, 2.0])
def test_whoever_looks_after_each_block_is_fooled_as_rarely_as_promised(size):
    """Through the product's own schedule, with an effect of the place in the block or without."""
    rng, seeds, fooled, experiments = np.random.default_rng(3), random.Random(3), 0, 500
    for _ in range(experiments):
        slots = plan_schedule(ARMS, blocks=40, seed=seeds.randrange(2**31))
        after = np.array([slot.position == 2 for slot in slots if slot.arm == "b"])
        values = rng.normal(0, 1, 40) + size * np.where(after, 1, -1)
        for blocks in range(6, 41):
            fit = fit_crossover(values[:blocks], after[:blocks])
            bound = anytime_t(0.05, degrees=fit.degrees, information=fit.information)
            if abs(fit.effect) > bound * fit.sd / math.sqrt(fit.information):
                fooled += 1
                break

    assert fooled <= stats.binom.ppf(0.9999, experiments, 0.05)


@pytest.mark.simulated
@pytest.mark.parametrize(
    ("looks", "share"), [(range(6, 41), 0.059), ((8, 16, 24, 32, 40), 0.060), ((20, 40), 0.062), ((40,), 0.063)]
)
def test_whoever_takes_a_provisional_verdict_or_else_that_of_a_look_spends_more_than_one_error(looks, share):
    """As docs/statistics.md says; both kinds of intervals by themselves keep to 5 %."""
    rng, experiments, blocks = np.random.default_rng(5), 4000, np.arange(2, 41)
    values = rng.normal(size=(experiments, 40))
    sums, squares = np.cumsum(values, axis=1)[:, 1:], np.cumsum(values**2, axis=1)[:, 1:]
    t = np.abs(sums) / np.sqrt(blocks * (squares - sums**2 / blocks) / (blocks - 1))
    provisional = np.array(
        [anytime_t(0.05, degrees=n - 1, information=n) if 6 <= n < 40 else math.inf for n in blocks.tolist()]
    )
    planned = np.full(blocks.size, math.inf)
    for look, level in zip(looks, nominal_levels(tuple(looks), 40, alpha=0.05), strict=True):
        planned[look - 2] = t_quantile(1 - level / 2, look - 1)
    misled = [np.mean((t > bound).any(axis=1)) for bound in (planned, provisional, np.minimum(planned, provisional))]

    assert max(misled[:2]) <= stats.binom.ppf(0.9999, experiments, 0.05) / experiments
    assert misled[2] == pytest.approx(share, abs=0.012)
    assert misled[2] > max(misled[:2])


def test_too_few_blocks_have_no_interval():
    assert anytime_t(0.05, degrees=1, information=2) == math.inf
    found = widen(compare_blocks([100, 101], [110, 112]))
    assert (found.low, found.high, found.is_anytime) == (None, None, True)


def test_the_interval_is_wider_than_that_of_one_look():
    plain = compare_blocks([100, 101, 99, 102, 98, 100, 101, 100], [110, 112, 108, 111, 109, 113, 110, 112])
    wide = widen(plain)

    assert wide.low < plain.low < plain.high < wide.high
    assert (wide.ratio, wide.p_value) == (plain.ratio, plain.p_value)
