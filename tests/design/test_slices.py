from collections import Counter
from itertools import pairwise

import pytest

from pgtrial.design.slices import interleave, pair_up, williams_square


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7])
def test_williams_squares_balance_places_and_successions(count):
    square = williams_square(count)
    times = 1 if count % 2 == 0 else 2

    assert len(square) == times * count
    for place in range(count):
        assert Counter(row[place] for row in square) == dict.fromkeys(range(count), times)
    after = Counter(pair for row in square for pair in pairwise(row))
    assert after == {(one, other): times for one in range(count) for other in range(count) if one != other}


def test_two_arms_take_turns_and_then_backwards():
    steps = interleave(["a", "b"], seconds=40, slice_length=1, guard=0.5, seed="1/1")

    names = [step.arms[0] for step in steps]
    assert len(steps) == 80
    assert all(one != other for one, other in pairwise(names[:40]))
    assert [(step.arms, step.length) for step in steps] == [(step.arms, step.length) for step in reversed(steps)]


def test_slices_are_of_many_lengths_which_all_arms_have():
    steps = interleave(["a", "b"], seconds=40, slice_length=1, guard=0.5, seed="1/1")

    lengths = {name: sorted(step.length for step in steps if step.arms == (name,)) for name in "ab"}
    assert lengths["a"] == lengths["b"]
    assert sum(lengths["a"]) == pytest.approx(40)
    assert len(set(lengths["a"])) == 20
    assert 0.5 < min(lengths["a"]) < max(lengths["a"]) < 1.5
    assert all(step.guard == pytest.approx(step.length / 2) for step in steps)


@pytest.mark.parametrize("seed", range(5))
def test_a_drift_along_a_line_favours_neither_of_two_arms(seed):
    steps, t, sums = interleave(["a", "b"], seconds=12, slice_length=1, guard=0.5, seed=f"{seed}"), 0.0, {}
    for step in steps:
        name, counted = step.arms[0], step.length - step.guard
        sums[name] = sums.get(name, 0.0) + counted * (t + step.guard + counted / 2)
        t += step.length

    # What counts is the second half of each slice, so the ends of the sequence leave a quarter of a slice.
    assert abs(sums["a"] - sums["b"]) / 6 < 0.3


@pytest.mark.parametrize("arms", ["ab", "abc", "abcd", "abcde"])
def test_every_arm_has_the_same_time(arms):
    steps = interleave(list(arms), seconds=30, slice_length=0.5, guard=0.1, seed="7/3")

    counts = Counter(step.arms[0] for step in steps)
    assert set(counts) == set(arms)
    assert len(set(counts.values())) == 1
    total = sum(step.length for step in steps if step.arms == ("a",))
    assert total == pytest.approx(30, abs=0.5 * 5)


def test_the_shortest_sequence_is_one_round():
    steps = interleave(["a", "b"], seconds=0.1, slice_length=1, guard=0.1, seed="")
    assert sorted(step.arms[0] for step in steps) == ["a", "a", "b", "b"]


def test_pairs_change_places():
    steps = pair_up(["a", "b"], seconds=10, slice_length=0.25, guard=0.05, seed="1")

    assert len(steps) == 50  # of 0.2 s that count
    assert all(first.arms == second.arms[::-1] for first, second in zip(steps[::2], steps[1::2], strict=True))
    assert {(step.length, step.guard) for step in steps} == {(0.25, 0.05)}
    assert {step.arms for step in steps[::2]} == {("a", "b"), ("b", "a")}  # at random


def test_each_of_four_has_each_set_once_in_a_round():
    steps = pair_up("abcd", seconds=8, slice_length=1.5, guard=0.5, seed="2")

    assert len(steps) == 8
    for first in (0, 4):
        for place in range(4):
            assert sorted(step.arms[place] for step in steps[first : first + 4]) == list("abcd")


def test_the_shortest_duet_is_one_round_of_shorter_slices():
    assert [step.length for step in pair_up("ab", seconds=2, slice_length=10, guard=0.1, seed="")] == [1.1, 1.1]


def test_the_seed_decides():
    def order(seed):
        return interleave(["a", "b"], seconds=30, slice_length=1, guard=0.1, seed=seed)

    assert order("1/1") == order("1/1")
    assert order("1/1") != order("1/2")
