"""The journal of blocks as a state machine: whatever happens in whatever order, no block is twice in any place."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pgtrial.fleet.dispatch import MOST_LOSSES, Dispatch, Handout, Standing

HOSTS = ("a", "b", "c", "d")
hosts = st.sampled_from(HOSTS)


class Fleet(RuleBasedStateMachine):
    """Hosts run blocks, are lost, fenced, given back, and come again; results come late, or twice."""

    @initialize(blocks=st.integers(1, 9), before=st.dictionaries(st.integers(1, 9), hosts, max_size=3))
    def begin(self, blocks: int, before: dict[int, str]) -> None:
        self.all = set(range(1, blocks + 1))
        self.before = {block: host for block, host in before.items() if block in self.all}
        self.dispatch = Dispatch(blocks=sorted(self.all), hosts=HOSTS[:2], done=self.before)
        self.running: dict[str, set[int]] = {host: set() for host in HOSTS}  # what can still go on there
        self.counted: list[int] = list(self.before)

    def _known(self, host: str) -> bool:
        try:
            self.dispatch.standing(host)
        except KeyError:
            return False
        return True

    @rule()
    def hand_out(self) -> None:
        for handout in self.dispatch.hand_out():
            assert all(handout.block not in blocks for blocks in self.running.values()), "two attempts at a time"
            assert handout.block not in self.counted
            assert not self.running[handout.host], "a host runs one block at a time"
            self.running[handout.host].add(handout.block)

    @rule(host=hosts, block=st.integers(1, 9))
    def finish(self, host: str, block: int) -> None:
        """A word that may be true, late, or made up; the host itself keeps running what it has when it is not heard."""
        if not self._known(host):
            return
        was_held = self.dispatch.held.get(block) == host
        if self.dispatch.finish(host, block):
            assert was_held
            assert block in self.running[host]
            self.running[host].discard(block)
            self.counted.append(block)

    @rule(host=hosts)
    def lose(self, host: str) -> None:
        if self._known(host):
            self.dispatch.lose(host, "lost")

    @rule(host=hosts)
    def set_aside(self, host: str) -> None:
        if self._known(host):
            self.dispatch.set_aside(host, "no space")

    @rule(host=hosts, returns=st.booleans(), is_whole=st.booleans())
    def fence(self, host: str, returns: bool, is_whole: bool) -> None:
        """Nothing goes on there; what it had may have come to its end before."""
        if self._known(host) and self.dispatch.standing(host) is Standing.FENCING:
            if is_whole:
                self.counted += self.running[host]
            self.running[host].clear()
            self.dispatch.fence(host, returns=returns, is_whole=is_whole)

    @rule(host=hosts)
    def join(self, host: str) -> None:
        self.dispatch.join(host)

    @precondition(lambda self: hasattr(self, "dispatch"))
    @invariant()
    def a_block_is_in_one_place(self) -> None:
        waiting, held, done = self.dispatch.waiting, self.dispatch.held, self.dispatch.counted
        assert sorted([*waiting, *held, *done]) == sorted(self.all)

    @precondition(lambda self: hasattr(self, "dispatch"))
    @invariant()
    def nothing_is_counted_twice(self) -> None:
        assert sorted(self.counted) == sorted(self.dispatch.counted)

    @precondition(lambda self: hasattr(self, "dispatch"))
    @invariant()
    def what_can_still_go_on_waits_nowhere(self) -> None:
        for blocks in self.running.values():
            assert not blocks & set(self.dispatch.waiting)

    def teardown(self) -> None:
        """Whatever has happened, hosts that work from now on come to an end."""
        if not hasattr(self, "dispatch"):
            return
        self.dispatch.join("spare")
        self.running["spare"] = set()
        for _ in range(100):
            for host in (*HOSTS, "spare"):
                if self._known(host) and self.dispatch.standing(host) is Standing.FENCING:
                    self.fence(host, returns=True, is_whole=False)
            self.hand_out()
            for block, host in self.dispatch.held.items():
                self.finish(host, block)
            if self.dispatch.is_over:
                break
        assert self.dispatch.is_over
        assert sorted(self.counted) == sorted(self.all)


Fleet.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)
TestFleet = Fleet.TestCase


def test_hosts_of_equal_speed_get_equally_many_blocks() -> None:
    dispatch = Dispatch(blocks=range(1, 13), hosts=HOSTS)
    while not dispatch.is_over:
        for handout in dispatch.hand_out():
            assert dispatch.finish(handout.host, handout.block)

    assert [list(dispatch.counted.values()).count(host) for host in HOSTS] == [3, 3, 3, 3]


def test_a_lost_block_is_not_handed_out_before_its_host_is_fenced() -> None:
    dispatch = Dispatch(blocks=[1], hosts=["a", "b"])
    assert dispatch.hand_out() == (Handout(block=1, host="a"),)
    assert dispatch.lose("a", "the worker has ended")

    assert dispatch.hand_out() == ()
    assert not dispatch.finish("a", 1)  # the word of a host that was given up comes too late

    assert dispatch.fence("a")
    (handout,) = dispatch.hand_out()
    assert handout.block == 1


def test_a_host_that_is_lost_again_and_again_gets_no_more() -> None:
    dispatch = Dispatch(blocks=[1], hosts=["a"])
    for number in range(1, MOST_LOSSES + 1):
        dispatch.hand_out()
        dispatch.lose("a", f"loss {number}")
        assert dispatch.fence("a") is (number < MOST_LOSSES)

    assert dispatch.away() == {"a": f"loss {MOST_LOSSES}"}
    assert dispatch.waiting == (1,)


def test_a_host_that_comes_back_is_still_known_to_have_been_lost() -> None:
    dispatch = Dispatch(blocks=[1], hosts=["a"])
    for number in range(1, MOST_LOSSES + 1):
        dispatch.hand_out()
        dispatch.lose("a", "lost")
        if dispatch.fence("a"):
            dispatch.set_aside("a", "waits")
            dispatch.fence("a")
            assert dispatch.join("a")
        assert dispatch.losses("a") == number

    assert dispatch.away().keys() == {"a"}
    assert dispatch.waiting == (1,)


def test_a_host_that_cannot_be_put_back_gets_no_more_and_its_block_goes_elsewhere() -> None:
    dispatch = Dispatch(blocks=[1, 2, 3], hosts=["a", "b"])
    dispatch.hand_out()
    dispatch.lose("a", "no route to host")
    assert not dispatch.fence("a", returns=False)

    assert dispatch.finish("b", 2)
    assert dispatch.hand_out() == (Handout(block=1, host="b"),)


def test_a_host_that_joins_late_is_given_the_blocks_of_others() -> None:
    dispatch = Dispatch(blocks=[1, 2, 3], hosts=["a"])
    dispatch.hand_out()
    assert dispatch.join("b")

    assert dispatch.hand_out() == (Handout(block=2, host="b"),)


def test_an_unknown_host_is_an_error_of_the_caller() -> None:
    with pytest.raises(KeyError):
        Dispatch(blocks=[1], hosts=["a"]).finish("z", 1)
