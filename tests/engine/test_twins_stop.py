"""What becomes of the other servers when one of the twins cannot be stopped or removed in order."""

import asyncio
import itertools
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from pgtrial.engine.target.base import RunningServer
from pgtrial.engine.target.twins import Twins
from pgtrial.errors import RestoreError
from pgtrial.model.arm import Arm, Role


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


class Started(Member):
    """A target that tells in ``told`` when it is stopped."""

    def __init__(self, name: str, told: list[str]) -> None:
        super().__init__(fails=False)
        self.name, self.told = name, told

    def cluster(self, _arm: Arm) -> None:
        return None

    def context(self, _cluster: object, _settings: object) -> None:
        return None

    async def start_with(self, _arm: Arm, _knobs: object, *, run: int) -> RunningServer:
        return RunningServer(
            settings={},
            changes=(),
            version="18.1",
            version_num=180000,
            database="pgtrial",
            control="",
            conninfo=str,
            environment={},
            directories=(),
            groups=(),
            confirmed=frozenset(),
        )

    def _do(self, what: str) -> tuple[str, ...]:
        self.told.append(self.name)
        return super()._do(what)


class NoChanges:
    """Of a host on which the arms change nothing."""

    host = SimpleNamespace(ops=None)

    async def make(self, *_what: object, run: int | None) -> tuple[()]:
        return ()

    async def undo(self, _entries: object) -> tuple[()]:
        return ()

    def confirmed(self, _knobs: object) -> frozenset[tuple[str, str]]:
        return frozenset()

    def leave_open(self, _entries: object) -> None:
        pass


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_the_last_one_that_was_started_is_the_first_to_be_stopped(order: tuple[str, ...]) -> None:
    """What servers have in common on the host, each puts back as it found it."""
    told: list[str] = []
    twins = Twins(
        base=SimpleNamespace(changes=NoChanges()), arms={name: Arm(name=name, role=Role.CANDIDATE) for name in "abc"}
    )
    twins.members = {name: Started(name, told) for name in "abc"}

    async def run() -> None:
        await twins.start(order, dict.fromkeys("abc", 1))
        await twins.stop(immediate=False)
        await twins.remove()

    asyncio.run(run())

    assert told == [*reversed(order)] * 2


def test_the_control_group_of_an_arm_is_made_while_its_own_swappiness_is_in_force() -> None:
    """It begins with that, and keeps it while others have their turn (version 1)."""
    told: list[str] = []

    class Changes(NoChanges):
        async def make(self, _context: object, knobs: Mapping[str, Mapping[str, str]], *, run: int | None) -> tuple[()]:
            told.extend(table["vm.swappiness"] for table in knobs.values())
            return ()

    class Grouped(Started):
        async def start_with(self, _arm: Arm, knobs: Mapping[str, object], *, run: int) -> RunningServer:
            told.append(f"{self.name}: {', '.join(knobs)}")
            return await super().start_with(_arm, knobs, run=run)

    arms = {
        name: Arm(
            name=name,
            role=Role.CANDIDATE,
            knobs={"sysctl": {"vm.swappiness": value}, "cgroup": {"memory": "1GB"}},
        )
        for name, value in (("a", "1"), ("b", "100"))
    }
    twins = Twins(base=SimpleNamespace(changes=Changes()), arms=arms)
    twins.members = {name: Grouped(name, []) for name in arms}

    asyncio.run(twins.start(("b", "a"), dict.fromkeys(arms, 1)))

    assert told == ["100", "b: cgroup", "1", "a: cgroup"]
