import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.stats.equivalence import decide, judge
from pgtrial.stats.interval import mean_and_sd, t_interval
from pgtrial.stats.paired import compare_blocks
from pgtrial.stats.power import (
    MoreBlocks,
    blocks_needed,
    detectable_ratio,
    find_equivalence_power,
    find_power,
)
from support.comparisons import make_comparison

within = CURRENT.log_bounds


def observed(ratio, sd, *, blocks=6):
    """What was seen, with an interval that decides nothing."""
    return make_comparison(ratio, 0.01, 100, sd=sd, blocks=blocks)


def test_power_agrees_with_r():
    # Dalgaard, "Introductory Statistics with R", section on one-sample problems and paired tests:
    # power.t.test(delta = 10, sd = 10 * sqrt(2), power = 0.85, type = "paired") gives n = 19.96892.
    pairs = 19.96892

    assert find_power(10 / (10 * math.sqrt(2)) * math.sqrt(pairs), degrees=pairs - 1, alpha=0.05) == pytest.approx(
        0.85, abs=1e-6
    )


@pytest.mark.parametrize("degrees", [1, 2, 3, 5, 19, 199])
@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.001])
@pytest.mark.parametrize("shift", [0, 0.5, 2, 3.5])
def test_power_agrees_with_the_noncentral_t_of_scipy(degrees, alpha, shift):
    cut = stats.t.ppf(1 - alpha / 2, degrees)
    upper = stats.nct.sf(cut, degrees, shift) if shift else alpha / 2
    lower = stats.nct.cdf(-cut, degrees, shift) if shift else alpha / 2

    assert find_power(shift, degrees=degrees, alpha=alpha) == pytest.approx(upper + lower, abs=1e-6)


@given(st.integers(1, 999), st.sampled_from([0.2, 0.05, 1e-3, 1e-6]), st.floats(0, 1e4), st.floats(1, 2))
def test_power_grows_with_the_effect_and_stays_a_probability(degrees, alpha, shift, factor):
    small, large = (find_power(s, degrees=degrees, alpha=alpha) for s in (shift, shift * factor))

    assert alpha - 1e-9 <= small <= large + 1e-9 <= 1 + 2e-9


# PowerTOST (R): sampleN.TOST(CV = 0.2) reports power 0.834680 with n = 20, and CV = 0.3 power 0.815845 with n = 40:
# crossover, true ratio 0.95, bounds 0.8 and 1.25, standard error sqrt(2 log(1 + CV²) / n), n - 2 degrees of freedom.
@pytest.mark.parametrize(("cv", "n", "power"), [(0.2, 20, 0.834680), (0.3, 40, 0.815845)])
def test_power_of_two_one_sided_tests_agrees_with_powertost(cv, n, power):
    error = math.sqrt(2 * math.log1p(cv**2) / n)
    lower, upper = np.log([[0.8], [1.25]]) / error - math.log(0.95) / error

    assert find_equivalence_power(lower, upper, degrees=n - 2, alpha=0.05) == pytest.approx([power], abs=1e-6)


def test_equivalence_has_no_power_without_room_between_the_bounds():
    assert find_equivalence_power(np.array(-0.01), np.array(0.01), degrees=50, alpha=0.05) < 1e-6
    assert find_equivalence_power(np.array(0.0), np.array(0.0), degrees=5, alpha=0.05) == 0


def test_detectable_effect_is_the_one_that_is_found_with_that_power():
    change = detectable_ratio(0.06, 8, confidence=0.95, power=0.9, comparisons=2)

    shift = math.log1p(change) / 0.06 * math.sqrt(8)
    assert find_power(shift, degrees=7, alpha=0.025) == pytest.approx(0.9, abs=1e-6)


def test_detectable_effect_of_r():
    # The same numbers as in Dalgaard's example, solved for the effect instead of the number of pairs.
    assert math.log1p(detectable_ratio(0.1, 20, power=find_power(3.0, degrees=19, alpha=0.05))) == pytest.approx(
        3.0 * 0.1 / math.sqrt(20), rel=1e-6
    )


def test_detectable_effect_shrinks_with_blocks_and_grows_with_noise_and_comparisons():
    assert detectable_ratio(0.05, 20) < detectable_ratio(0.05, 6) < detectable_ratio(0.05, 6, comparisons=4)
    assert detectable_ratio(0.05, 6) < detectable_ratio(0.1, 6)


@pytest.mark.parametrize(("sd", "blocks"), [(None, 6), (0.0, 6), (0.05, 1), (0.05, 0), (3.0, 2)])
def test_without_known_noise_or_within_reason_nothing_is_detectable(sd, blocks):
    assert detectable_ratio(sd, blocks) is None


def simulated_power(ratio, sd, *, seen, blocks, is_decided):
    """Share of 2000 experiments that decide, each on a truth drawn from those that go with ``seen`` blocks."""
    rng, found = np.random.default_rng(11), 0
    for _ in range(2000):
        true_sd = sd * math.sqrt((seen - 1) / rng.chisquare(seen - 1))
        truth = rng.normal(math.log(ratio), true_sd / math.sqrt(seen))
        mean, spread = mean_and_sd(rng.normal(truth, true_sd, blocks))
        interval = t_interval(mean, spread, blocks, confidence=0.95)
        shown = observed(math.exp(mean), spread, blocks=blocks)
        found += is_decided(replace(shown, low=math.exp(interval.low), high=math.exp(interval.high)))
    return found / 2000


@pytest.mark.parametrize(
    ("ratio", "sd", "expect", "better"),
    [
        (1.12, 0.06, None, Better.HIGHER),
        (0.90, 0.06, None, Better.HIGHER),
        (1.005, 0.05, None, Better.NEITHER),
        (1.12, 0.06, "better", Better.HIGHER),
        (0.99, 0.04, "better", Better.HIGHER),
        (0.90, 0.06, "better", Better.LOWER),
        (1.02, 0.06, "not-worse", Better.HIGHER),
        (1.10, 0.06, "worse", Better.LOWER),
        (1.005, 0.05, "equivalent", Better.LOWER),
        (1.10, 0.06, "different", Better.NEITHER),
    ],
)
def test_the_forecast_number_of_blocks_decides_with_the_promised_power(ratio, sd, expect, better):
    needed = blocks_needed(observed(ratio, sd, blocks=8), expect=expect, bounds=within(0.03), better=better)

    def is_decided(comparison):
        if expect is None:
            return decide(comparison, bounds=within(0.03), better=better) is not Decision.INCONCLUSIVE
        return judge(comparison, expect=expect, bounds=within(0.03), better=better) is not Verdict.INCONCLUSIVE

    assert needed.reachable
    # A whole number of blocks exceeds 0.8 a little; four standard errors of the simulation are 0.035.
    found = simulated_power(ratio, sd, seen=8, blocks=8 + needed.blocks, is_decided=is_decided)
    assert 0.765 <= found <= 0.85


def test_another_attempt_needs_what_its_own_confidence_asks_for():
    seen = observed(1.06, 0.05)

    again = blocks_needed(seen, bounds=within(0.03), better=Better.HIGHER, confidence=0.975)

    stricter = replace(seen, confidence=0.975)
    assert again == blocks_needed(stricter, bounds=within(0.03), better=Better.HIGHER)
    assert again.blocks > blocks_needed(seen, bounds=within(0.03), better=Better.HIGHER).blocks


def test_decided_already_and_out_of_reach_are_told_apart():
    decided = compare_blocks([100] * 6, [150, 151, 149, 150, 152, 148])

    assert blocks_needed(decided, bounds=within(0.03), better=Better.HIGHER) == MoreBlocks(blocks=None, reachable=True)
    assert blocks_needed(decided, expect="worse", bounds=within(0.03), better=Better.HIGHER) == MoreBlocks(
        blocks=None, reachable=True
    )
    on_the_bound = observed(1.03, 0.05)
    assert blocks_needed(on_the_bound, bounds=within(0.03), better=Better.HIGHER, cap=300) == MoreBlocks(
        blocks=None, reachable=False
    )


def test_the_range_of_what_is_needed_holds_what_four_of_five_truths_need():
    needed = blocks_needed(observed(1.06, 0.05), bounds=within(0.03), better=Better.HIGHER, in_range=True)

    rng, each = np.random.default_rng(5), []
    for _ in range(200):
        sd = 0.05 * math.sqrt(5 / rng.chisquare(5))
        mean = rng.normal(math.log(1.06), sd / math.sqrt(6))
        blocks = next((n for n in range(7, 1001) if power_of(mean, sd, n) >= 0.8), math.inf)
        each.append(blocks - 6)
    assert 0.02 <= np.mean(np.array(each) < needed.low) <= 0.2
    assert needed.low < needed.blocks
    assert needed.high is None or 0.02 <= np.mean(np.array(each) > needed.high) <= 0.2


def power_of(mean, sd, blocks):
    """Of deciding better, worse or equivalent, from the published functions for one truth."""
    error = sd / math.sqrt(blocks)
    lower, upper = ((np.array(bound) - mean) / error for bound in within(0.03))
    inside = find_equivalence_power(lower, upper, degrees=blocks - 1, alpha=0.05)
    cut = stats.t.isf(0.025, blocks - 1)
    return inside + stats.nct.sf(cut, blocks - 1, -upper) + stats.nct.sf(cut, blocks - 1, lower)


@pytest.mark.parametrize(
    "comparison",
    [compare_blocks([100], [110]), compare_blocks([], []), compare_blocks([100, 100], [110, 110])],
)
def test_without_an_interval_there_is_no_forecast(comparison):
    assert blocks_needed(comparison, bounds=within(0.03), better=Better.HIGHER) == MoreBlocks(
        blocks=None, reachable=False
    )


def test_what_cannot_be_decided_is_out_of_reach():
    apart = observed(1.5, 0.05)

    assert not blocks_needed(apart, expect="better", bounds=within(0.03), better=Better.NEITHER).reachable
    assert not blocks_needed(apart, bounds=within(0.03), better=Better.NEITHER).reachable
    assert not blocks_needed(observed(1, 0.05), bounds=within(0), better=Better.HIGHER, cap=200).reachable


def test_cap_counts_all_blocks():
    comparison = observed(1.05, 0.06, blocks=6)
    needed = blocks_needed(comparison, bounds=within(0.03), better=Better.HIGHER).blocks

    exactly = blocks_needed(comparison, bounds=within(0.03), better=Better.HIGHER, cap=6 + needed)
    below = blocks_needed(comparison, bounds=within(0.03), better=Better.HIGHER, cap=5 + needed)
    assert exactly == MoreBlocks(blocks=needed, reachable=True)
    assert below == MoreBlocks(blocks=None, reachable=False)
    assert not blocks_needed(comparison, bounds=within(0.03), better=Better.HIGHER, cap=3).reachable


def test_comparisons_are_those_of_the_comparison_unless_given():
    comparison = observed(1.06, 0.06)
    several = replace(comparison, comparisons=5)

    assert blocks_needed(several, bounds=within(0.03), better=Better.HIGHER) == blocks_needed(
        comparison, bounds=within(0.03), better=Better.HIGHER, comparisons=5
    )
    assert (
        blocks_needed(several, bounds=within(0.03), better=Better.HIGHER).blocks
        > blocks_needed(comparison, bounds=within(0.03), better=Better.HIGHER).blocks
    )
