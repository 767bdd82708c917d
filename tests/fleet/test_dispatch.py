"""The journal of blocks as a state machine: whatever happens in whatever order, no block is twice in any place."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pgtrial.fleet.dispatch import MOST_LOSSES, Dispatch, Handout, Standing

HOSTS = ("a", "b", "c", "d")
hosts = st.sampled_from(HOSTS)


class Fleet(RuleBasedStateMachine):
    """Hosts run blocks, are lost, fenced, given back, and come again; results come late, or twice."""

    @initialize(
        blocks=st.integers(1, 9),
        before=st.dictionaries(st.integers(1, 9), hosts, max_size=3),
        orders=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=9, max_size=9),
    )
    def begin(self, blocks: int, before: dict[int, str], orders: list[tuple[bool, bool]]) -> None:
        self.all = set(range(1, blocks + 1))
        self.before = {block: host for block, host in before.items() if block in self.all}
        self.dispatch = Dispatch(
            blocks=sorted(self.all), hosts=HOSTS[:2], done=self.before, orders=dict(enumerate(orders, start=1))
        )
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
        handouts = self.dispatch.hand_out()
        assert not self.dispatch.waiting or not any(self.dispatch.is_free(host) for host in HOSTS), "a host is idle"
        for handout in handouts:
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


LATE, EARLY = (True,), (False,)  # whether the arm comes after the control


def run_all(dispatch: Dispatch, *, slow: int = 1) -> dict[str, list[int]]:
    """The blocks of each host, the first of which has one while the others have ``slow``."""
    found: dict[str, list[int]] = {}
    turn = 0
    while not dispatch.is_over:
        dispatch.hand_out()
        turn += 1
        for block, host in sorted(dispatch.held.items(), key=lambda held: held[1]):
            if host != HOSTS[0] or turn % slow == 0:
                assert dispatch.finish(host, block)
                found.setdefault(host, []).append(block)
    return found


def differences(blocks: Mapping[str, Sequence[int]], orders: Mapping[int, tuple[bool, ...]]) -> dict[str, list[int]]:
    """Of each host, by arm, in how many more of its blocks it came after the control than before it."""
    return {
        host: [
            sum(1 if is_after else -1 for is_after in arm)
            for arm in zip(*(orders[block] for block in own), strict=True)
        ]
        for host, own in blocks.items()
    }


def test_a_host_gets_the_order_that_it_has_had_least() -> None:
    orders = {block: LATE if block % 2 == 0 else EARLY for block in range(1, 9)}
    blocks = run_all(Dispatch(blocks=sorted(orders), hosts=HOSTS[:2], orders=orders))

    # As they come a would have 1, 3, 5 and 7, and b the others.
    assert blocks == {"a": [1, 4, 5, 8], "b": [2, 3, 6, 7]}
    assert differences(blocks, orders) == {"a": [0], "b": [0]}


def test_a_slow_host_has_both_orders_too() -> None:
    orders = dict(enumerate([EARLY, LATE, LATE, EARLY] * 3, start=1))
    blocks = run_all(Dispatch(blocks=sorted(orders), hosts=HOSTS[:2], orders=orders), slow=2)

    assert {host: len(own) for host, own in blocks.items()} == {"a": 4, "b": 8}
    assert differences(blocks, orders) == {"a": [0], "b": [0]}


def test_orders_of_several_arms_are_told_apart_by_each_arm() -> None:
    orders = {1: (True, True), 2: (False, True), 3: (True, True), 4: (False, False)}
    blocks = run_all(Dispatch(blocks=sorted(orders), hosts=["a"], orders=orders))

    assert blocks == {"a": [1, 4, 2, 3]}


def test_a_resume_goes_on_with_the_orders_that_a_host_has_had() -> None:
    orders = {1: LATE, 2: LATE, 3: LATE, 4: EARLY}
    dispatch = Dispatch(blocks=sorted(orders), hosts=["a", "b"], done={1: "a", 2: "b"}, orders=orders)

    assert dispatch.hand_out() == (Handout(block=4, host="a"), Handout(block=3, host="b"))


def test_an_order_that_was_lost_with_its_block_was_not_had() -> None:
    orders = {1: LATE, 2: EARLY, 3: LATE}
    dispatch = Dispatch(blocks=sorted(orders), hosts=["a"], orders=orders)
    dispatch.hand_out()
    dispatch.lose("a", "lost")
    dispatch.fence("a")

    assert [handout.block for handout in dispatch.hand_out()] == [1]


def test_a_block_that_is_found_to_be_whole_counts_among_the_orders() -> None:
    orders = {1: LATE, 2: LATE, 3: EARLY}
    dispatch = Dispatch(blocks=sorted(orders), hosts=["a"], orders=orders)
    dispatch.hand_out()
    dispatch.lose("a", "lost")
    dispatch.fence("a", is_whole=True)

    assert [handout.block for handout in dispatch.hand_out()] == [3]


def test_a_host_that_comes_again_has_had_what_it_had() -> None:
    orders = {1: LATE, 2: LATE, 3: EARLY}
    dispatch = Dispatch(blocks=sorted(orders), hosts=["a"], orders=orders)
    dispatch.hand_out()
    dispatch.finish("a", 1)
    dispatch.set_aside("a", "given back")
    dispatch.fence("a")
    assert dispatch.join("a")

    assert [handout.block for handout in dispatch.hand_out()] == [3]


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


def test_a_loss_is_made_up_for_by_a_block_that_is_done_since() -> None:
    dispatch = Dispatch(blocks=range(1, 30), hosts=["a"])
    for _ in range(3 * MOST_LOSSES):  # hours lie between them
        dispatch.hand_out()
        dispatch.lose("a", "the cable")
        assert dispatch.fence("a")
        (handout,) = dispatch.hand_out()
        assert dispatch.finish("a", handout.block)

    assert dispatch.losses("a") == 0
    assert dispatch.lost("a") == 3 * MOST_LOSSES


def test_a_host_that_is_lost_more_often_than_it_does_blocks_gets_no_more() -> None:
    dispatch = Dispatch(blocks=range(1, 30), hosts=["a"])
    losses = 0
    while not dispatch.away():
        for _ in range(2):
            dispatch.hand_out()
            dispatch.lose("a", "lost")
            losses += 1
            if not dispatch.fence("a"):
                break
        else:
            (handout,) = dispatch.hand_out()
            dispatch.finish("a", handout.block)

    assert losses == 2 * MOST_LOSSES - 2
    assert dispatch.lost("a") == losses


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
