"""What becomes of the other servers when one of the twins cannot be stopped or removed in order."""

import asyncio
from types import SimpleNamespace

import pytest

from pgtrial.engine.target.twins import Twins
from pgtrial.errors import RestoreError


class Member:
    """A target whose control group, say, cannot be removed."""

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self.done: list[str] = []

    async def stop(self, *, immediate: bool) -> tuple[str, ...]:
        return self._do("stopped at once" if immediate else "stopped")

    async def remove(self) -> None:
        self._do("removed")

    def _do(self, what: str) -> tuple[str, ...]:
        self.done.append(what)
        if self.fails:
            raise RestoreError("a control group could not be removed")
        return (what,)


def twins_of(*members: Member) -> Twins:
    async def undo(_entries: object) -> tuple[str, ...]:
        return ("the host",)

    twins = Twins(base=SimpleNamespace(changes=SimpleNamespace(undo=undo)), arms={})
    twins.members = {str(number): member for number, member in enumerate(members)}
    return twins


def test_all_are_stopped_in_order_and_what_became_of_them_is_told():
    members = [Member(fails=False) for _ in range(2)]

    undone = asyncio.run(twins_of(*members).stop(immediate=False))

    assert undone == ["stopped", "stopped", "the host"]


def test_one_that_cannot_be_put_back_keeps_no_other_server_running():
    first, second = Member(fails=True), Member(fails=False)
    twins = twins_of(first, second)

    with pytest.raises(RestoreError):
        asyncio.run(twins.stop(immediate=True))
    with pytest.raises(RestoreError):
        asyncio.run(twins.remove())

    assert first.done == second.done == ["stopped at once", "removed"]
