from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.design.plan import draw_seed, plan_pairs, plan_schedule
from pgtrial.model.arm import Arm, Role

ARMS = tuple(Arm(name=name, role=Role.CANDIDATE) for name in "abcdef")

seeds = st.integers(0, 2**63 - 1)


@given(count=st.integers(1, 5), blocks=st.integers(1, 30), seed=seeds)
def test_every_block_runs_every_arm_exactly_once(count: int, blocks: int, seed: int) -> None:
    slots = plan_schedule(ARMS[:count], blocks=blocks, seed=seed)

    assert [slot.number for slot in slots] == list(range(1, count * blocks + 1))
    for block in range(1, blocks + 1):
        inside = [slot for slot in slots if slot.block == block]
        assert {slot.arm for slot in inside} == {arm.name for arm in ARMS[:count]}
        assert [slot.position for slot in inside] == list(range(1, count + 1))


@given(blocks=st.integers(1, 20), more=st.integers(0, 20), seed=seeds)
def test_a_longer_schedule_begins_with_the_shorter_one(blocks: int, more: int, seed: int) -> None:
    short = plan_schedule(ARMS[:5], blocks=blocks, seed=seed)

    assert plan_schedule(ARMS[:5], blocks=blocks + more, seed=seed)[: len(short)] == short


def test_the_order_of_a_seed_never_changes() -> None:
    slots = plan_schedule(ARMS[:3], blocks=4, seed=20260120)

    assert ["".join(slot.arm for slot in slots if slot.block == block) for block in (1, 2, 3, 4)] == FIXED


# Result folders keep their orders; a plan that is shown and then run has the same.
FIXED = ["cba", "cab", "abc", "bac"]


@given(count=st.one_of(st.integers(2, 12), st.just(64)), seed=seeds)
def test_each_arm_runs_before_and_after_the_control_in_two_of_the_first_six_blocks(count: int, seed: int) -> None:
    arms = tuple(Arm(name=f"arm {number}", role=Role.CANDIDATE) for number in range(count))
    slots = plan_schedule(arms, blocks=6, seed=seed)
    places = {(slot.block, slot.arm): slot.position for slot in slots}

    for arm in arms[1:]:
        after = sum(places[block, arm.name] > places[block, arms[0].name] for block in range(1, 7))
        assert 2 <= after <= 4


@given(seed=seeds)
def test_of_three_arms_the_control_has_each_place_as_often_and_each_arm_comes_after_it_in_half(seed: int) -> None:
    places = {(slot.block, slot.arm): slot.position for slot in plan_schedule(ARMS[:3], blocks=6, seed=seed)}

    assert Counter(places[block, "a"] for block in range(1, 7)) == {1: 2, 2: 2, 3: 2}
    assert all(sum(places[block, arm] > places[block, "a"] for block in range(1, 7)) == 3 for arm in "bc")


@pytest.mark.parametrize(("count", "experiments"), [(3, 1000), (4, 600), (6, 600)])
def test_what_is_special_of_the_first_run_of_a_block_is_in_no_effect_on_average(count: int, experiments: int) -> None:
    effects = []
    for seed in range(experiments):
        slots = plan_schedule(ARMS[:count], blocks=6, seed=seed)
        places = {(slot.block, slot.arm): slot.position for slot in slots}
        pairs = [(places[block, "a"], places[block, "b"]) for block in range(1, 7)]
        gains = [(a == 1) - (b == 1) for a, b in pairs]  # the first run is slow
        sides = [[gain for gain, (a, b) in zip(gains, pairs, strict=True) if (b > a) == side] for side in (True, False)]
        effects.append(sum(map(np.mean, sides)) / 2)

    # It was 8 and 10 % of what the first run has, whatever the number of experiments.
    assert abs(np.mean(effects)) < 0.03


@given(count=st.integers(2, 3), seed=seeds)
def test_the_first_six_blocks_tell_what_a_run_leaves_for_the_next_one(count: int, seed: int) -> None:
    slots = plan_schedule(ARMS[:count], blocks=6, seed=seed)
    last = dict(zip((slot.number for slot in slots), ["", *(slot.arm for slot in slots)], strict=False))
    runs = {(slot.block, slot.arm): slot for slot in slots}
    control = ARMS[0].name

    for arm in (arm.name for arm in ARMS[1:count]):
        owners = {arm: 1, control: -1}
        design = np.array(
            [
                [
                    1,
                    1 if runs[block, arm].position > runs[block, control].position else -1,
                    (owners.get(last[runs[block, arm].number], 0) - owners.get(last[runs[block, control].number], 0))
                    / 2,
                ]
                for block in range(1, 7)
            ]
        )
        # By how much the effect with all that is left differs from the one without: linear in the log ratios.
        whole = np.array([1, 0, 1]) @ np.linalg.inv(design.T @ design) @ design.T
        plain = np.array([1, 0]) @ np.linalg.pinv(design[:, :2])
        assert ((whole - plain) ** 2).sum() <= 2.6


@given(count=st.integers(1, 5), blocks=st.integers(1, 20), more=st.integers(0, 5), seed=seeds)
def test_over_hosts_each_arm_runs_as_often_before_the_control_as_after_it(
    count: int, blocks: int, more: int, seed: int
) -> None:
    slots = plan_pairs(ARMS[:count], blocks=blocks, seed=seed)
    places = {(slot.block, slot.arm): slot.position for slot in slots}

    assert [slot.number for slot in slots] == list(range(1, count * blocks + 1))
    assert set(places.values()) == set(range(1, count + 1))
    for arm in ARMS[1:count]:
        after = sum(places[block, arm.name] > places[block, ARMS[0].name] for block in range(1, blocks + 1))
        assert abs(2 * after - blocks) == blocks % 2
    assert plan_pairs(ARMS[:count], blocks=blocks + more, seed=seed)[: len(slots)] == slots


def test_over_hosts_the_first_order_of_a_pair_is_drawn() -> None:
    slots = plan_pairs(ARMS[:3], blocks=12_000, seed=1)
    counts = Counter(tuple(slot.arm for slot in slots[at : at + 3]) for at in range(0, len(slots), 6))

    # As below.
    assert len(counts) == 6
    assert all(abs(count - 1000) < 130 for count in counts.values())


def test_a_seed_is_drawn_anew() -> None:
    assert len({draw_seed() for _ in range(50)}) == 50


def test_another_seed_gives_another_order() -> None:
    orders = {tuple(slot.arm for slot in plan_schedule(ARMS, blocks=2, seed=seed)) for seed in range(50)}

    assert len(orders) > 45


def test_all_orders_of_a_block_are_equally_likely() -> None:
    slots = plan_schedule(ARMS[:3], blocks=6000, seed=1)
    counts = Counter(tuple(slot.arm for slot in slots[at : at + 3]) for at in range(0, len(slots), 3))

    # 6 orders, 1000 expected each; 4.5 standard deviations of a binomial count are 130.
    assert len(counts) == 6
    assert all(abs(count - 1000) < 130 for count in counts.values())
