"""How long an experiment takes on several hosts, and how many blocks each of them gets if all are equally fast."""

from dataclasses import dataclass

from pgtrial.design.plan import Plan
from pgtrial.fleet.hosts_file import Fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShare:
    """Blocks of one host; ``where`` is its address, or "local"."""

    name: str
    where: str
    blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetEstimate:
    """``seconds`` of the whole, and those that it takes one such host ``alone``; ``loaded_here`` where the load of all
    hosts is made on this machine.
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
