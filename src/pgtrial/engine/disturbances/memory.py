"""What would disturb a measurement: memory and swap."""

from collections.abc import Iterator

from pgtrial.engine.disturbances.base import Disturbance, Situation
from pgtrial.engine.fingerprint.limits import UNLIMITED
from pgtrial.model.caveat import Severity
from pgtrial.model.fingerprint import SWAP_USED
from pgtrial.units import format_bytes

SWAP_BYTES = 64 * 1024**2
SWAPPINESS = 10


def check_transparent_huge_pages(situation: Situation) -> Iterator[Disturbance]:
    if situation.facts.get("kernel/transparent_hugepage.enabled") == "always" and not situation.intent.varies(
        "transparent_huge_pages"
    ):
        yield Disturbance(
            code="transparent-huge-pages",
            severity=Severity.WARNING,
            text="Transparent huge pages are on for all memory (always).",
            why="The kernel compacts memory and collects pages in the background, at times that nobody chooses.",
            remedy="Leave them to programs that ask for them, until the next boot:",
            command="echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )


def check_swap_used(situation: Situation) -> Iterator[Disturbance]:
    used = situation.number(SWAP_USED)
    if used is not None and used > SWAP_BYTES:
        yield Disturbance(
            code="swap-in-use",
            severity=Severity.WARNING,
            text=f"{format_bytes(used)} of swap are in use.",
            why="What was swapped out comes back some time, perhaps while measuring.",
            remedy="Where memory suffices, bring it back now:",
            command="sudo swapoff --all && sudo swapon --all",
        )


def check_swappiness(situation: Situation) -> Iterator[Disturbance]:
    swap, swappiness = situation.facts.get("machine/swap", "0 B"), situation.number("kernel/vm.swappiness")
    if swap != "0 B" and (swappiness or 0) > SWAPPINESS and not situation.intent.varies("sysctl", "vm.swappiness"):
        yield Disturbance(
            code="swappiness",
            severity=Severity.INFO,
            text=f"vm.swappiness is {swappiness:g}, and there is swap ({swap}).",
            why="To have more page cache the kernel may swap out memory of the server.",
            remedy="Let it do so only when it must, until the next boot:",
            command="sudo sysctl vm.swappiness=1",
        )


def check_memory_limit(situation: Situation) -> Iterator[Disturbance]:
    limit = situation.facts.get("limits/memory", UNLIMITED)
    if limit != UNLIMITED:
        yield Disturbance(
            code="memory-limit",
            severity=Severity.INFO,
            text=f"A control group limits what runs here to {limit} of memory.",
            why="The page cache is part of it, so the machine's memory is not what caches the data.",
            remedy="Raise the limit of the container or the service, or choose sizes that suit it.",
        )


def check_numa(situation: Situation) -> Iterator[Disturbance]:
    nodes = situation.facts.get("machine/NUMA nodes", "0")
    if situation.number("kernel/vm.zone_reclaim_mode") and not situation.intent.varies(
        "sysctl", "vm.zone_reclaim_mode"
    ):
        yield Disturbance(
            code="zone-reclaim",
            severity=Severity.WARNING,
            text=f"vm.zone_reclaim_mode is {situation.facts['kernel/vm.zone_reclaim_mode']}.",
            why="A memory node drops its page cache although others have free memory.",
            remedy="Switch it off, until the next boot:",
            command="sudo sysctl vm.zone_reclaim_mode=0",
        )
    is_balanced = situation.number("kernel/kernel.numa_balancing") and nodes != "0"
    if is_balanced and not situation.intent.varies("sysctl", "kernel.numa_balancing"):
        yield Disturbance(
            code="numa-balancing",
            severity=Severity.INFO,
            text=f"The kernel moves memory between NUMA nodes ({nodes}) by itself.",
            why="It takes access away to see who uses a page; what that costs changes from run to run.",
            remedy="Switch it off, until the next boot:",
            command="sudo sysctl kernel.numa_balancing=0",
        )


CHECKS = (
    check_transparent_huge_pages,
    check_swap_used,
    check_swappiness,
    check_memory_limit,
    check_numa,
)
