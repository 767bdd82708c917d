"""Which block goes to which host, and what becomes of it when the host is lost: pure, without clock, disk or network.

A block is always in one place: waiting, in the hands of one host, or done. A host that was lost keeps its block until
it is fenced, that is until nothing of it can go on there; only then the block waits again. What comes late, from a host
that no longer holds the block, does not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

MOST_LOSSES = 3  # of a host, before it gets no more


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
    """A host: the ``block`` it holds, how many it has ``done``, how often it was lost, and why it is away."""

    standing: Standing = Standing.FREE
    block: int | None = None
    done: int = 0
    losses: int = 0
    reason: str = ""
    leaves: bool = False  # as soon as it is fenced


@dataclass(slots=True, kw_only=True)
class Dispatch:
    """The blocks that are still to be run, in their order, and the hosts, in theirs.

    ``done`` are blocks that were run before, with their hosts, which need not be among those of today. Methods about a
    host that is not known raise KeyError.
    """

    blocks: Sequence[int]
    hosts: Iterable[str]
    done: Mapping[int, str] = field(default_factory=dict)
    _waiting: list[int] = field(init=False)
    _hands: dict[str, _Hand] = field(init=False)
    _done: dict[int, str] = field(init=False)

    def __post_init__(self) -> None:
        self._done = dict(self.done)
        self._waiting = [block for block in dict.fromkeys(self.blocks) if block not in self._done]
        self._hands = {}
        for host in self.hosts:
            self.join(host)

    # -- what is so ------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> tuple[int, ...]:
        return tuple(self._waiting)

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
        return not self._waiting and not self.held

    def standing(self, host: str) -> Standing:
        return self._hands[host].standing

    def block_of(self, host: str) -> int | None:
        """The block that a host holds."""
        return self._hands[host].block

    def is_free(self, host: str) -> bool:
        """Whether a host waits for a block; one that has not come yet does not."""
        return host in self._hands and self._hands[host].standing is Standing.FREE

    def losses(self, host: str) -> int:
        return self._hands[host].losses

    def away(self) -> dict[str, str]:
        """Hosts that get no more, each with the reason."""
        return {name: hand.reason for name, hand in self._hands.items() if hand.standing is Standing.AWAY}

    def present(self) -> tuple[str, ...]:
        """Hosts that get blocks."""
        return tuple(name for name, hand in self._hands.items() if hand.standing in (Standing.FREE, Standing.BUSY))

    # -- what happens ----------------------------------------------------------------------------------------

    def hand_out(self) -> tuple[Handout, ...]:
        """The next blocks for the hosts that are free, which hold them from now on.

        Among free hosts the one with the fewest blocks comes first, so that hosts of equal speed get equally many.
        """
        found = []
        free = [name for name, hand in self._hands.items() if hand.standing is Standing.FREE]
        for host in sorted(free, key=lambda name: self._hands[name].done):
            if not self._waiting:
                break
            hand = self._hands[host]
            hand.block, hand.standing = self._waiting.pop(0), Standing.BUSY
            found.append(Handout(block=hand.block, host=host))
        return tuple(found)

    def finish(self, host: str, block: int) -> bool:
        """A host says that it has run a block: whether that counts. If so, it is free again."""
        hand = self._hands[host]
        if hand.standing is not Standing.BUSY or hand.block != block:
            return False
        self._done[block] = host
        hand.block, hand.standing = None, Standing.FREE
        hand.done += 1
        return True

    def lose(self, host: str, reason: str) -> bool:
        """A host is gone: whether it has to be fenced now. It comes back afterwards, unless it was lost too often."""
        hand = self._hands[host]
        if hand.standing in (Standing.FENCING, Standing.AWAY):
            return False
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
        """Nothing of a host goes on any more: its block waits again, first of all, or is done if it was found to be
        whole there. Whether the host gets more blocks, which takes that it ``returns``.
        """
        hand = self._hands[host]
        if hand.standing is not Standing.FENCING:
            return False
        if hand.block is not None and is_whole:
            self._done[hand.block] = host
            hand.block = None
            hand.done += 1
        if hand.block is not None:
            self._waiting = sorted([hand.block, *self._waiting])
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
        done = sum(1 for name in self._done.values() if name == host)
        self._hands[host] = _Hand(done=done, losses=0 if known is None else known.losses)
        return True
