"""A server's end, of which its sessions hear before its process is over."""

import asyncio
from collections.abc import Callable

import pytest

from pgtrial.engine.target.base import is_ending


def seen_after(looks: int) -> tuple[Callable[[], bool], list[int]]:
    """(whether it is gone, the looks at it so far): it is from some look on."""
    taken: list[int] = []

    def has_died() -> bool:
        taken.append(len(taken))
        return len(taken) > looks

    return has_died, taken


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_an_end_that_shows_a_little_later_is_one(looks: int) -> None:
    has_died, taken = seen_after(looks)

    assert asyncio.run(is_ending(has_died))
    assert len(taken) == looks + 1


def test_a_server_that_stays_is_not_waited_for_for_long() -> None:
    has_died, taken = seen_after(1000)

    assert not asyncio.run(is_ending(has_died))
    assert 3 < len(taken) < 100
