"""Which machine a host is, and what its clock shows: asked before its first block.

A list names addresses, and one machine may have several. Two blocks at a time on it would disturb each other, and count
as two hosts of which the effect is known.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from pgtrial.fleet.hosts_file import FleetHost
from pgtrial.hosts.base import Host
from pgtrial.hosts.clock import ClockOffset, measure_offset
from pgtrial.hosts.connect import open_host

NOTABLE = 1.0  # s that a clock is off: more than a network takes, and enough to mislead who compares logs
_SAME_BEGIN = 1.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMachine:
    """``boot`` is the identifier of the kernel's boot, ``begun`` when by our clock its steady clock was at zero (s
    since the epoch), ``network`` its network namespace, and ``clock`` how far its wall clock is ahead of the one by
    which its runs are recorded. That is ours, or that of a worker elsewhere, which is ``worker`` ahead of ours.
    """

    boot: str
    begun: float
    network: str
    clock: ClockOffset
    worker: ClockOffset | None = None

    def has_kernel_of(self, other: "HostMachine") -> bool:
        """Whether both are one kernel. Virtual machines that were made of one snapshot have one identifier, too, but
        were begun at different times.
        """
        return self.boot == other.boot and abs(self.begun - other.begun) < _SAME_BEGIN

    def is_same(self, other: "HostMachine") -> bool:
        """Whether both are one machine under two addresses, and not two containers of it."""
        return self.has_kernel_of(other) and self.network == other.network


async def ask_machine(host: FleetHost) -> HostMachine:
    """Connect to a host, and ask it. Raises ConnectError and PreflightError."""
    async with open_host(host.address) as connected:
        return read_machine(connected)


def read_machine(host: Host) -> HostMachine:
    """The same of one that is connected."""
    clock = measure_offset(host)
    wall, steady = host.ops.clock()
    return HostMachine(
        boot=host.ops.boot_id(),
        # By our own clock: that of the host may be set meanwhile.
        begun=wall - clock.offset - steady,
        network=PurePath(host.ops.resolve("/proc/self/ns/net")).name,
        clock=clock,
    )


def find_same(machine: HostMachine, others: Mapping[str, HostMachine]) -> str | None:
    """The name of a host that is the same machine."""
    return next((name for name, other in others.items() if machine.is_same(other)), None)


def describe(name: str, machine: HostMachine, others: Mapping[str, HostMachine]) -> Iterator[str]:
    """Sentences about what should be known of a host, beside the ``others`` that are known."""
    own = "this machine" if machine.worker is None else "its worker"
    if text := _off(machine.clock):
        yield (
            f"the clock of {name} is {text} that of {own}; times that are read"
            " there are put right by what is measured around each run."
        )
    if machine.worker is not None and (text := _off(machine.worker)):
        yield (
            f"the clock of the worker of {name} is {text} that of this machine; its runs are recorded by that clock,"
            " and how long they take is not touched by it."
        )
    if neighbours := sorted(_sharing(machine, others)):
        yield (
            f"{name} is on the same machine as {', '.join(neighbours)}, in a network of its own: what one of them does"
            " disturbs the others."
        )


def _off(clock: ClockOffset) -> str:
    """By how much a clock is off, where that is notable."""
    if abs(clock.offset) - clock.error <= NOTABLE:
        return ""
    return f"{abs(clock.offset):.1f} s {'ahead of' if clock.offset > 0 else 'behind'}"


def _sharing(machine: HostMachine, others: Mapping[str, HostMachine]) -> Iterable[str]:
    return (name for name, other in others.items() if machine.has_kernel_of(other))
