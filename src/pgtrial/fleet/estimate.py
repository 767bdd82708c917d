"""How long an experiment takes on several hosts, and how many blocks each of them gets: before the first block as if
all were equally fast, later by what each has shown.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pgtrial.design.plan import Plan
from pgtrial.fleet.hosts_file import Fleet

# Bytes on the machine that leads, for each host: a worker has some 60 MB, and an engine 170 MB, part of which are pages
# of libraries that it shares with the others.
MEMORY = 230 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShare:
    """Blocks of one host; ``where`` is its address, or "local"."""

    name: str
    where: str
    blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetEstimate:
    """``seconds`` of the whole, and those that it takes one such host ``alone``; ``loaded_here`` where the load of all
    hosts is made on this machine, which has workers and engines for them then.
    """

    shares: tuple[HostShare, ...]
    seconds: float
    alone: float
    loaded_here: bool

    @property
    def idle(self) -> tuple[str, ...]:
        """Hosts for which there is no block."""
        return tuple(share.name for share in self.shares if not share.blocks)

    @property
    def memory(self) -> int:
        """Bytes that workers and engines take on this machine, beside the generators of the load."""
        return len(self.shares) * MEMORY if self.loaded_here else 0

    @property
    def is_balanced(self) -> bool:
        """Whether every host gets equally many, so that the mean of hosts is the mean of blocks."""
        return len({share.blocks for share in self.shares}) == 1


def estimate_fleet(plan: Plan, fleet: Fleet, *, loaded_here: bool = True) -> FleetEstimate:
    """Of an experiment none of whose blocks is done. Each host prepares its data at the same time as the others."""
    each, more = divmod(plan.blocks, len(fleet.host))
    shares = tuple(
        HostShare(name=host.name, where=host.where, blocks=each + (number < more))
        for number, host in enumerate(fleet.host)
    )
    estimate = plan.estimate
    per_block = estimate.runs * estimate.run.total / plan.blocks if plan.blocks else 0.0
    most = max(share.blocks for share in shares)
    return FleetEstimate(
        shares=shares,
        seconds=estimate.prepare + most * per_block,
        alone=estimate.total,
        loaded_here=loaded_here,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork:
    """A host that gets blocks: the ``seconds`` that one has taken it, None if it has done none, and for how many it
    ``has_been`` at the one that it holds, None if it holds none.
    """

    seconds: float | None
    has_been: float | None


def seconds_left(waiting: int, hosts: Sequence[AtWork]) -> float | None:
    """Seconds until nothing is left of blocks that are ``waiting`` or held, as each goes to who is free first; None
    before any block is done.
    """
    known = [host.seconds for host in hosts if host.seconds is not None]
    if not known:
        return None
    usual = median(known)  # for those of which nothing is known
    end, free = 0.0, []
    for number, host in enumerate(hosts):
        pace = usual if host.seconds is None else host.seconds
        left = 0.0 if host.has_been is None else max(0.0, pace - host.has_been)
        end = max(end, left)
        free.append((left, number, pace))
    heapq.heapify(free)
    for _ in range(waiting):
        at, number, pace = heapq.heappop(free)
        end = max(end, at + pace)
        heapq.heappush(free, (at + pace, number, pace))
    return end
