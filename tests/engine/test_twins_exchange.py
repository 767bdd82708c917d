"""Copies of the data that are not put back change hands, so that no arm keeps the luck of one of them."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from pgtrial.engine.target.twins import Twins


def twins(*variants: str) -> Twins:
    arms = {f"arm{number}": SimpleNamespace(variant=SimpleNamespace(key=key)) for number, key in enumerate(variants)}
    made = Twins(base=SimpleNamespace(changes=None), arms=arms)
    made.members = {
        name: SimpleNamespace(clusters={arm.variant.key: SimpleNamespace(directory=Path(f"/{name}"))})
        for name, arm in arms.items()
    }
    return made


def held(made: Twins) -> list[str]:
    return [next(iter(member.clusters.values())).directory.name for member in made.members.values()]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_in_as_many_blocks_as_arms_each_has_each_copy_once(count):
    made, seen = twins(*["same"] * count), []

    for block in range(1, 2 * count + 1):
        made.exchange(block, seed=5)
        seen.append(held(made))

    for group in (seen[:count], seen[count:]):
        for one in zip(*group, strict=True):
            assert sorted(one) == sorted(made.members)


def test_a_block_that_is_repeated_has_the_same_copies():
    made = twins("same", "same", "same")
    made.exchange(2, seed=5)
    first = held(made)
    made.exchange(3, seed=5)
    made.exchange(2, seed=5)

    assert held(made) == first


def test_data_of_another_kind_stay_where_they_are():
    made = twins("16", "18")

    for block in range(1, 5):
        made.exchange(block, seed=5)
        assert held(made) == ["arm0", "arm1"]
