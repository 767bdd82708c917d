"""The published rule: what becomes of a fact of the world that is not the same everywhere.

docs/fingerprint.md shows it. Also which facts a knob changes: these may differ where arms set the knob differently.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pgtrial.model.caveat import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """``facts`` are patterns. ``arms`` is what a difference between arms is, ``runs`` what a change meanwhile is.

    None: it is not compared. ``tolerance`` is the relative difference of sizes that is none.
    """

    facts: tuple[str, ...]
    arms: Severity | None
    runs: Severity | None
    why: str
    tolerance: float = 0.0


# The first that fits a fact counts.
RULES: tuple[Rule, ...] = (
    Rule(
        facts=("now/*",),
        arms=None,
        runs=None,
        why="It changes by nature and is judged by thresholds, see below.",
    ),
    Rule(
        facts=(
            *("PostgreSQL/programs", "PostgreSQL/found by", "pgtrial/Python"),
            *("storage/* directory", "storage/* mount point", "storage/* source"),
        ),
        arms=None,
        runs=None,
        why="A name or a place; what is found there is compared itself.",
    ),
    Rule(
        facts=("PostgreSQL/*",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="Another server, or the same built in another way, or another load generator.",
    ),
    Rule(
        facts=("pgtrial/version",),
        arms=Severity.WARNING,
        runs=Severity.WARNING,
        why="Another pgtrial may measure in another way.",
    ),
    Rule(
        facts=("system/*",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="The C library sorts, copies and allocates for the server.",
    ),
    Rule(
        facts=("kernel/boot id",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="After a reboot memory is laid out anew, caches are empty, and a virtual machine may run elsewhere.",
    ),
    Rule(
        facts=("kernel/*",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="Version and settings of the kernel decide about memory, write-back, scheduling and clocks.",
    ),
    Rule(
        facts=("machine/memory", "machine/swap"),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="It decides what is cached. Less than 2 % is no difference: a hypervisor may take and give a little.",
        tolerance=0.02,
    ),
    Rule(
        facts=("machine/*",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="Other CPUs, or the same at another speed.",
    ),
    Rule(
        facts=("limits/*",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="Control groups limit CPU time, memory (with its page cache) and I/O of the server.",
    ),
    Rule(
        facts=("storage/*",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="Another device, file system, mount option or queue.",
    ),
    Rule(
        facts=("*",),
        arms=Severity.WARNING,
        runs=Severity.INFO,
        why="Facts that this pgtrial does not know, of a folder made by a newer one.",
    ),
)

# Knob to patterns of the facts that it changes. A kernel setting changes the fact of its name, see SYSCTL_PAIRS.
KNOB_FACTS: Mapping[str, tuple[str, ...]] = {
    "server": ("PostgreSQL/*",),
    "storage": ("storage/*", "limits/I/O"),
    "filesystem": ("storage/*",),
    "cgroup": ("limits/*",),
    # One value of a queue may bring others along: a scheduler has its own nr_requests, and bfq switches wbt off.
    "block_device": ("storage/* queue *", "storage/* read_ahead_kb"),
    # The kernel keeps more memory free where it may need huge pages (set_recommended_min_free_kbytes).
    "transparent_huge_pages": ("kernel/transparent_hugepage.*", "kernel/vm.min_free_kbytes"),
    "huge_pages": ("kernel/huge pages of *", "kernel/vm.nr_hugepages"),
}
# Kernel setting to what else it changes: of a pair of ratio and bytes the other is 0 as soon as one is set.
SYSCTL_PAIRS: Mapping[str, tuple[str, ...]] = {
    "kernel.watchdog": ("kernel/kernel.nmi_watchdog",),
    "vm.dirty_background_bytes": ("kernel/vm.dirty_background_ratio",),
    "vm.dirty_background_ratio": ("kernel/vm.dirty_background_bytes",),
    "vm.dirty_bytes": ("kernel/vm.dirty_ratio",),
    "vm.dirty_ratio": ("kernel/vm.dirty_bytes",),
    "vm.nr_hugepages": ("kernel/huge pages of *",),
    "vm.overcommit_kbytes": ("kernel/vm.overcommit_ratio",),
    "vm.overcommit_ratio": ("kernel/vm.overcommit_kbytes",),
}


def rule_of(fact: str) -> Rule:
    return next(rule for rule in RULES if any(fnmatchcase(fact, pattern) for pattern in rule.facts))


def changes(knob: str, name: str, fact: str) -> bool:
    """Whether setting ``name`` of a knob may change a fact."""
    if knob != "sysctl":
        return any(fnmatchcase(fact, pattern) for pattern in KNOB_FACTS.get(knob, ()))
    dotted = name.replace("/", ".")  # either separates the parts of a name, and the other may be in a part
    return fact.removeprefix("kernel/").replace("/", ".") == dotted or any(
        fnmatchcase(fact, pattern) for pattern in SYSCTL_PAIRS.get(dotted, ())
    )
