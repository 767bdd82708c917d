from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pgtrial.design.plan import draw_seed, plan_schedule
from pgtrial.model.arm import Arm, Role

ARMS = tuple(Arm(name=name, role=Role.CANDIDATE) for name in ("a", "b", "c", "d", "e"))

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
    short = plan_schedule(ARMS, blocks=blocks, seed=seed)

    assert plan_schedule(ARMS, blocks=blocks + more, seed=seed)[: len(short)] == short


def test_the_order_of_a_seed_never_changes() -> None:
    slots = plan_schedule(ARMS[:3], blocks=4, seed=20260120)

    assert ["".join(slot.arm for slot in slots if slot.block == block) for block in (1, 2, 3, 4)] == FIXED


# Written down once: result folders and plans of the past rest on it.
FIXED = ["acb", "cba", "acb", "bca"]


@given(count=st.integers(2, 5), seed=seeds)
def test_each_arm_runs_before_and_after_the_control_in_two_of_the_first_six_blocks(count: int, seed: int) -> None:
    slots = plan_schedule(ARMS[:count], blocks=6, seed=seed)
    places = {(slot.block, slot.arm): slot.position for slot in slots}

    for arm in ARMS[1:count]:
        after = sum(places[block, arm.name] > places[block, ARMS[0].name] for block in range(1, 7))
        assert 2 <= after <= 4


@given(seed=seeds)
def test_two_arms_repeat_the_order_of_the_block_before_in_two_or_three_of_the_first_six(seed: int) -> None:
    slots = plan_schedule(ARMS[:2], blocks=6, seed=seed)
    orders = ["".join(slot.arm for slot in slots if slot.block == block) for block in range(1, 7)]

    assert sum(one == other for one, other in pairwise(orders)) in (2, 3)


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
