"""What a run leaves for the next one, against least squares by hand and a machine of which the truth is known."""

import math

import numpy as np
import pytest

from pgtrial.stats.carry_over import (
    CarryOver,
    bound_carry_over,
    bound_in_use,
    find_among_arms,
    find_carry_over,
    find_left_by,
)
from pgtrial.stats.paired import compare_blocks

AFTER = np.array([True, False, False, True, True, False, True, False])


def runs_before(after):
    """Of two arms in blocks: nobody's run, then the last one of the block before."""
    found, last = [], 0
    for second in after:
        order = (-1, 1) if second else (1, -1)
        of_first, of_second = last, order[0]
        treated, control = (of_second, of_first) if second else (of_first, of_second)
        found.append((treated - control) / 2)
        last = order[1]
    return np.array(found)


BEFORE = runs_before(AFTER)


def test_runs_before_are_those_of_the_orders() -> None:
    # ab ba ba ab ab ba ab ba: the order repeats in the third and the fifth block.
    assert BEFORE.tolist() == [-0.5, 0, -1, 0, -1, 0, 0, 0]


def test_what_is_left_is_found_exactly_where_nothing_else_varies() -> None:
    found = find_carry_over(0.02 + np.where(AFTER, 0.01, -0.01) - 0.05 * BEFORE, AFTER, BEFORE)

    assert found is not None
    assert found.effect == pytest.approx(-0.05)
    assert found.error == pytest.approx(0, abs=1e-12)
    # The mean of both orders' means lacks what the arm does to itself, and has what it does to the control.
    plain = np.mean([BEFORE[AFTER].mean(), BEFORE[~AFTER].mean()])
    assert found.missing == pytest.approx(-0.05 * (1 - plain))
    assert found.is_seen


def test_error_is_that_of_the_test_of_two_nested_models() -> None:
    ratios = np.random.default_rng(4).normal(0, 0.03, AFTER.size)
    found = find_carry_over(ratios, AFTER, BEFORE)
    assert found is not None

    places = np.where(AFTER, 1.0, -1.0)
    squares = []
    for columns in ([np.ones(8), places], [np.ones(8), places, BEFORE]):
        design = np.column_stack(columns)
        left = ratios - design @ np.linalg.solve(design.T @ design, design.T @ ratios)
        squares.append(float(left @ left))
    f = (squares[0] - squares[1]) / (squares[1] / (8 - 3))
    assert (found.effect / found.error) ** 2 == pytest.approx(f)
    total = np.linalg.solve(design.T @ design, design.T @ ratios)
    assert found.missing == pytest.approx(total[0] + total[2] - np.mean([ratios[AFTER].mean(), ratios[~AFTER].mean()]))


def test_blocks_without_a_ratio_are_left_out() -> None:
    ratios = np.random.default_rng(5).normal(0, 0.03, AFTER.size)
    kept = np.arange(8) != 4
    ratios[4] = math.nan

    assert find_carry_over(ratios, AFTER, BEFORE) == find_carry_over(ratios[kept], AFTER[kept], BEFORE[kept])


def test_one_order_only_leaves_the_place_where_it_is() -> None:
    found = find_carry_over(np.array([0.1, 0.1, 0.2, 0.1]), np.ones(4, dtype=np.bool_), np.array([0.0, 0.0, 1.0, 0.0]))

    assert found is not None
    assert found.effect == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("after", "before"),
    [
        pytest.param([True, False], [0, -1], id="few-blocks"),
        pytest.param([True, False] * 4, [0] * 8, id="always-the-other-order"),
        pytest.param([True] * 4 + [False] * 4, [0.5] * 4 + [-0.5] * 4, id="in-step-with-the-place"),
    ],
)
def test_blocks_that_tell_nothing_of_it(after, before) -> None:
    ratios = np.linspace(0, 0.1, len(after))

    assert find_carry_over(ratios, np.array(after), np.array(before, dtype=np.float64)) is None


@pytest.mark.parametrize(
    ("found", "at_most", "down", "up"),
    [
        (None, True, 0, 0),
        (CarryOver(effect=-0.04, error=0.03, degrees=9, lacking=1.0), True, 0, 0),
        # The 95 % point of t with 9 degrees of freedom is 1.833113.
        (CarryOver(effect=-0.05, error=0.03, degrees=9, lacking=1.2), True, 0.06 + 1.833113 * 0.036, 0),
        (CarryOver(effect=0.05, error=0.03, degrees=9, lacking=1.0), True, 0, 0.05 + 1.833113 * 0.03),
        (CarryOver(effect=-0.05, error=0.03, degrees=9, lacking=1.2), False, 0.06, 0),
        (CarryOver(effect=0.05, error=0.03, degrees=9, lacking=1.0), False, 0, 0.05),
    ],
)
def test_interval_is_extended_at_the_side_where_the_effect_may_be(found, at_most, down, up) -> None:
    plain = compare_blocks([100] * 6, [101, 99, 100, 102, 98, 100])
    assert plain.low is not None
    assert plain.high is not None
    bounded = bound_carry_over(plain, found, at_most=at_most)

    assert bounded.ratio == plain.ratio
    assert bounded.hidden == pytest.approx((down, up), abs=1e-7)
    assert bounded.low == pytest.approx(plain.low * math.exp(-down))
    assert bounded.high == pytest.approx(plain.high * math.exp(up))


def test_what_is_left_by_an_arm_is_that_of_least_squares_with_a_mean_of_each_group() -> None:
    rng = np.random.default_rng(6)
    groups = ["a", "b", "c", "a", "b", "c", "b", "a", "c", "c", "b", "a"]
    after = np.array([False, *(name == "b" for name in groups[:-1])])
    values = rng.normal(0, 0.02, 12) + 0.1 * np.array([name == "c" for name in groups]) + 0.05 * after

    found = find_left_by(values, after, groups, share=0.25)

    assert found is not None
    design = np.column_stack([[name == each for name in groups] for each in "abc"] + [after]).astype(np.float64)
    solved = np.linalg.solve(design.T @ design, design.T @ values)
    noise = values - design @ solved
    covariance = float(noise @ noise) / (12 - 4) * np.linalg.inv(design.T @ design)
    assert (found.effect, found.error) == (pytest.approx(solved[3]), pytest.approx(math.sqrt(covariance[3, 3])))
    assert (found.degrees, found.lacking) == (8, 0.75)


def test_runs_of_which_none_came_after_the_arm_tell_nothing_of_what_it_leaves() -> None:
    assert find_left_by(np.ones(4), np.zeros(4, dtype=np.bool_), ["a", "b", "a", "b"], share=0.0) is None


def test_in_use_the_errors_add_up_as_squares_and_what_is_missing_widens_its_side() -> None:
    plain = compare_blocks(np.ones(8), np.exp(np.random.default_rng(7).normal(0, 0.03, 8)))
    assert plain.error is not None
    left = CarryOver(effect=0.5, error=2 * plain.error * 4 / 3, degrees=9, lacking=0.75)

    found = bound_in_use(plain, left)

    assert plain.low is not None
    assert plain.high is not None
    half = math.log(plain.high / plain.low) / 2
    more = half * (math.sqrt(5) - 1)
    assert found.hidden == pytest.approx((0.0, more + 0.375))
    untold = bound_in_use(plain, None)
    assert (untold.low, untold.high) == (None, None)


ORDERS = ("abc", "cba", "bac", "cab", "acb", "bca", "abc", "cba")


def among_arms(values, orders=ORDERS):
    """Of b against a, whose runs and those of c are in blocks with these orders."""
    arms = [arm for order in orders for arm in order]
    before = np.array([[last == name for last in ["", *arms[:-1]]] for name in "ba"], dtype=np.float64)
    blocks = [number for number, order in enumerate(orders) for _ in order]
    sides = [[3 * number + order.index(name) for number, order in enumerate(orders)] for name in "ba"]
    return find_among_arms(
        values(np.array(arms), before),
        before,
        [blocks, arms, [0, 1, 2] * len(orders)],
        pairs=before[:, sides[0]] - before[:, sides[1]],
        after=np.array([order.index("b") > order.index("a") for order in orders]),
    )


def test_among_arms_what_is_left_is_found_whatever_another_arm_leaves_and_who_pays() -> None:
    """c leaves 20 %, b 5 % and a 1 %; what is missing turns the mean of the pairs into the effect in use."""
    seen = {}

    def values(arms, before):
        after_c = np.roll(arms == "c", 1) & (np.arange(arms.size) > 0)
        logs = 0.03 * (arms == "b") + 0.07 * (arms == "c") + 0.05 * before[0] + 0.01 * before[1] + 0.2 * after_c
        logs = logs + 0.2 * (np.arange(arms.size) == 0)  # nobody's run leaves what those of c do: no other of b or a
        seen.update({name: [logs[3 * n + order.index(name)] for n, order in enumerate(ORDERS)] for name in "ba"})
        return logs

    found = among_arms(values)

    assert found is not None
    later = np.array([order.index("b") > order.index("a") for order in ORDERS])
    ratios = np.array(seen["b"]) - np.array(seen["a"])
    plain = (ratios[later].mean() + ratios[~later].mean()) / 2
    assert plain + found.missing == pytest.approx(0.03 + 0.05 - 0.01)
    assert found.error == pytest.approx(0, abs=1e-9)


def test_among_arms_blocks_that_do_not_tell_leave_none() -> None:
    assert among_arms(lambda arms, _: np.zeros(arms.size), ORDERS[:2]) is None
