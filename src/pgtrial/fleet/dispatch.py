"""Which block goes to which host, and what becomes of it when the host is lost: pure, without clock, disk or network.

A block is always in one place: waiting, in the hands of one host, or done. A host that was lost keeps its block until
it is fenced, that is until nothing of it can go on there; only then the block waits again. What comes late, from a host
that no longer holds the block, does not count.

Which block a host gets is chosen by the order of its arms. Orders are drawn for the whole experiment, and hosts that
take blocks as they come have, by chance, the same arm first in most of theirs: what the place in the block does is then
in the effect on that host. So a host gets the order that it has had least.
"""

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

MOST_LOSSES = 3  # of a host, each block that it has done since less one, before it gets no more
Order = tuple[bool, ...]  # of the arms of a block: whether each of the others comes after the control


class Standing(StrEnum):
    """Of a host. ``fencing``: what it had begun is being ended and undone; ``away``: it gets no more blocks."""

    FREE = "free"
    BUSY = "busy"
    FENCING = "fencing"
    AWAY = "away"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handout:
    """A block that a host is to run now."""

    block: int
    host: str


@dataclass(slots=True, kw_only=True)
class _Hand:
    """A host: the ``block`` it holds, how many it has ``done``, how often it was ``lost``, and why it is away.

    ``losses`` are those that no block makes up for. ``balance``: of each arm beside the control, in how many more of
    its blocks it came after the control than before it.
    """

    standing: Standing = Standing.FREE
    block: int | None = None
    done: int = 0
    balance: tuple[int, ...] = ()
    lost: int = 0
    losses: int = 0
    reason: str = ""
    leaves: bool = False  # as soon as it is fenced

    def count(self, order: Order) -> None:
        """It has done a block of this order."""
        self.done += 1
        self.losses = max(0, self.losses - 1)
        balance = self.balance or (0,) * len(order)
        self.balance = tuple(each + (1 if is_after else -1) for each, is_after in zip(balance, order, strict=True))


@dataclass(slots=True, kw_only=True)
class Dispatch:
    """The blocks that are still to be run, in their order, and the hosts, in theirs.

    ``done`` are blocks that were run before, with their hosts, which need not be among those of today. ``orders`` says
    of every block which arms come after the control, as ``Plan.orders``; without it blocks are alike. Methods about a
    host that is not known raise KeyError.
    """

    blocks: Sequence[int]
    hosts: Iterable[str]
    done: Mapping[int, str] = field(default_factory=dict)
    orders: Mapping[int, Order] = field(default_factory=dict)
    _waiting: dict[Order, list[int]] = field(init=False)
    _hands: dict[str, _Hand] = field(init=False)
    _done: dict[int, str] = field(init=False)

    def __post_init__(self) -> None:
        self._done = dict(self.done)
        self._waiting = {}
        for block in dict.fromkeys(self.blocks):
            if block not in self._done:
                self._wait(block)
        self._hands = {}
        for host in self.hosts:
            self.join(host)

    # -- what is so ------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> tuple[int, ...]:
        return tuple(sorted(chain.from_iterable(self._waiting.values())))

    @property
    def held(self) -> dict[int, str]:
        """Blocks in the hands of a host, also of one that is being fenced."""
        return {hand.block: name for name, hand in self._hands.items() if hand.block is not None}

    @property
    def counted(self) -> dict[int, str]:
        """Blocks that are done, and where."""
        return dict(self._done)

    @property
    def is_over(self) -> bool:
        """Whether nothing is waiting and nothing in anybody's hands."""
        return not any(self._waiting.values()) and not self.held

    def standing(self, host: str) -> Standing:
        return self._hands[host].standing

    def block_of(self, host: str) -> int | None:
        """The block that a host holds."""
        return self._hands[host].block

    def is_free(self, host: str) -> bool:
        """Whether a host waits for a block; one that has not come yet does not."""
        return host in self._hands and self._hands[host].standing is Standing.FREE

    def losses(self, host: str) -> int:
        """How often a host was lost, less what it has done since: a cable that was loose in the morning is no reason in
        the evening, and who is lost more often than it comes to an end only costs time.
        """
        return self._hands[host].losses

    def lost(self, host: str) -> int:
        """How often a host was lost in all."""
        return self._hands[host].lost

    def away(self) -> dict[str, str]:
        """Hosts that get no more, each with the reason."""
        return {name: hand.reason for name, hand in self._hands.items() if hand.standing is Standing.AWAY}

    def present(self) -> tuple[str, ...]:
        """Hosts that get blocks."""
        return tuple(name for name, hand in self._hands.items() if hand.standing in (Standing.FREE, Standing.BUSY))

    # -- what happens ----------------------------------------------------------------------------------------

    def hand_out(self) -> tuple[Handout, ...]:
        """The next blocks for the hosts that are free, which hold them from now on.

        Among free hosts the one with the fewest blocks comes first, so that hosts of equal speed get equally many. Each
        gets, of those that wait, the first block of the order that it has had least.
        """
        found = []
        free = [name for name, hand in self._hands.items() if hand.standing is Standing.FREE]
        for host in sorted(free, key=lambda name: self._hands[name].done):
            if not any(self._waiting.values()):
                break
            hand = self._hands[host]
            hand.block, hand.standing = self._next_for(hand), Standing.BUSY
            found.append(Handout(block=hand.block, host=host))
        return tuple(found)

    def _next_for(self, hand: _Hand) -> int:
        """Take the block that makes up most for what the host's blocks have had too often; the first of several."""

        def adds(order: Order) -> tuple[int, int]:
            balance = hand.balance or (0,) * len(order)
            more = sum(each if is_after else -each for each, is_after in zip(balance, order, strict=True))
            return more, self._waiting[order][0]

        return self._waiting[min((order for order, blocks in self._waiting.items() if blocks), key=adds)].pop(0)

    def finish(self, host: str, block: int) -> bool:
        """A host says that it has run a block: whether that counts. If so, it is free again."""
        hand = self._hands[host]
        if hand.standing is not Standing.BUSY or hand.block != block:
            return False
        self._count(block, host)
        hand.block, hand.standing = None, Standing.FREE
        return True

    def lose(self, host: str, reason: str) -> bool:
        """A host is gone: whether it has to be fenced now. It comes back afterwards, unless it was lost too often."""
        hand = self._hands[host]
        if hand.standing in (Standing.FENCING, Standing.AWAY):
            return False
        hand.lost += 1
        hand.losses += 1
        hand.standing, hand.reason = Standing.FENCING, reason
        hand.leaves = hand.losses >= MOST_LOSSES
        return True

    def set_aside(self, host: str, reason: str) -> bool:
        """A host cannot run the experiment, or is given back: whether it has to be fenced now. It does not return."""
        hand = self._hands[host]
        if hand.standing is Standing.AWAY:
            return False
        hand.reason, hand.leaves = reason, True
        is_new = hand.standing is not Standing.FENCING
        hand.standing = Standing.FENCING
        return is_new

    def fence(self, host: str, *, returns: bool = True, is_whole: bool = False) -> bool:
        """Nothing of a host goes on any more: its block waits again, in its place, or is done if it was found to be
        whole there. Whether the host gets more blocks, which takes that it ``returns``.
        """
        hand = self._hands[host]
        if hand.standing is not Standing.FENCING:
            return False
        if hand.block is not None and is_whole:
            self._count(hand.block, host)
            hand.block = None
        if hand.block is not None:
            self._wait(hand.block)
            hand.block = None
        gets_more = returns and not hand.leaves
        hand.standing = Standing.FREE if gets_more else Standing.AWAY
        return gets_more

    def join(self, host: str) -> bool:
        """A host comes, late or again: whether that is new. One that is known, and not away, stays as it is; how often
        it was lost is not forgotten.
        """
        known = self._hands.get(host)
        if known is not None and known.standing is not Standing.AWAY:
            return False
        hand = self._hands[host] = _Hand()
        for block, name in self._done.items():
            if name == host:
                hand.count(self._order(block))
        if known is not None:
            hand.lost, hand.losses = known.lost, known.losses
        return True

    def _order(self, block: int) -> Order:
        return self.orders.get(block, ())

    def _wait(self, block: int) -> None:
        insort(self._waiting.setdefault(self._order(block), []), block)

    def _count(self, block: int, host: str) -> None:
        self._done[block] = host
        self._hands[host].count(self._order(block))
