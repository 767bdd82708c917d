"""The published rule for facts of the environment that differ between runs.

docs/fingerprint.md shows it. Also which facts a knob changes: these may differ where arms set the knob differently.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.world.settings import find_undeclared
from pgtrial.findings.findings import Difference, Fact, Fingerprint, PlacedValue
from pgtrial.findings.message import Message, message
from pgtrial.findings.naming import name_runs
from pgtrial.knobs import KNOBS
from pgtrial.model.caveat import Severity
from pgtrial.model.fingerprint import NOW
from pgtrial.units import parse_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRule:
    """``facts`` are patterns. ``arms`` is what a difference between arms is, ``runs`` what a change meanwhile is.

    None: it is not compared. ``tolerance`` is the relative difference of sizes that is none.
    """

    facts: tuple[str, ...]
    arms: Severity | None
    runs: Severity | None
    why: str
    tolerance: float = 0.0


# The first that fits a fact counts.
RULES: tuple[FactRule, ...] = (
    FactRule(
        facts=("now/*",),
        arms=None,
        runs=None,
        why="It changes by nature and is judged by thresholds, see below.",
    ),
    FactRule(
        facts=(
            *("PostgreSQL/programs", "PostgreSQL/found by", "pgtrial/Python"),
            *("storage/* directory", "storage/* mount point", "storage/* source"),
        ),
        arms=None,
        runs=None,
        why="A name or a place; what is found there is compared itself.",
    ),
    FactRule(
        facts=("PostgreSQL/*",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="Another server, or the same built in another way, or another load generator.",
    ),
    FactRule(
        facts=("pgtrial/version",),
        arms=Severity.WARNING,
        runs=Severity.WARNING,
        why="Another pgtrial may measure in another way.",
    ),
    FactRule(
        facts=("system/*",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="The C library sorts, copies and allocates for the server.",
    ),
    FactRule(
        facts=("kernel/boot id",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="After a reboot memory is laid out anew, caches are empty, and a virtual machine may run elsewhere.",
    ),
    FactRule(
        facts=("kernel/*",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="Version and settings of the kernel decide about memory, write-back, scheduling and clocks.",
    ),
    FactRule(
        facts=("machine/memory", "machine/swap"),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="It decides what is cached. Less than 2 % is no difference: a hypervisor may take and give a little.",
        tolerance=0.02,
    ),
    FactRule(
        facts=("machine/*",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="Other CPUs, or the same at another speed.",
    ),
    FactRule(
        facts=("limits/*",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="Control groups limit CPU time, memory (with its page cache) and I/O of the server.",
    ),
    FactRule(
        facts=("storage/*",),
        arms=Severity.INVALID,
        runs=Severity.WARNING,
        why="Another device, file system, mount option or queue.",
    ),
    FactRule(
        facts=("*",),
        arms=Severity.WARNING,
        runs=Severity.INFO,
        why="Facts that this pgtrial does not know, of a folder made by a newer one.",
    ),
)


OF_EACH_HOST = frozenset({"kernel/boot id"})  # no two hosts have the same


def rule_of(fact: str) -> FactRule:
    return next(rule for rule in RULES if any(fnmatchcase(fact, pattern) for pattern in rule.facts))


def changes(knob: str, name: str, fact: str) -> bool:
    """Whether setting ``name`` of a knob may change a fact."""
    return knob in KNOBS and KNOBS[knob].changes_fact(name, fact)


# The world around the runs: facts of the machine and the server, and what was not the same in all runs.


Reading = tuple[str, str]  # a fact before and after the load of a run


class DifferenceKind(StrEnum):
    """``arms``: between arms, in half of the blocks or more; ``runs``: it was changed some time; ``within``: it changed
    while the load was on, in every run in the same way; ``hosts``: each host has its own, and always had; ``declared``:
    as the arms declare it.
    """

    DECLARED = "declared"
    HOSTS = "hosts"
    ARMS = "arms"
    RUNS = "runs"
    WITHIN = "within"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDifference:
    """A fact that was not the same everywhere; ``by_run`` has its readings in each valid run that has it.

    ``by_arm`` has the distinct ones of an arm's runs, ``by_host`` those of a host, where there are several.
    """

    name: str
    kind: DifferenceKind
    by_run: Mapping[int, Reading]
    by_arm: Mapping[str, tuple[Reading, ...]]
    by_host: Mapping[str, tuple[Reading, ...]]
    rule: FactRule

    @property
    def severity(self) -> Severity | None:
        """What the rule makes of it; None: nothing."""
        if self.kind is DifferenceKind.DECLARED:
            return None
        if self.kind is DifferenceKind.HOSTS:  # what hosts differ by is what the effect is to hold over
            return None if self.rule.runs is None or self.name in OF_EACH_HOST else Severity.INFO
        return self.rule.arms if self.kind is DifferenceKind.ARMS else self.rule.runs

    @property
    def label(self) -> str:
        return self.name.replace("/", ": ", 1)

    @property
    def phrase(self) -> str | Message:
        """As it reads in a sentence: "vm.swappiness", "kernel release", "limit of memory"."""
        group, _, name = self.name.partition("/")
        if group == "limits":
            return message("fact.limit", name=name)
        is_clear = group in ("machine", "storage", "system") or (group == "kernel" and "." in name)
        return name if is_clear else f"{group} {name}"

    def values(self) -> tuple[PlacedValue, ...]:
        """Where it had which value: by arm or host where they differ, otherwise by runs ("runs 1–3")."""
        if self.kind is DifferenceKind.HOSTS:
            return tuple(PlacedValue(where=host, value=_name_values(own)) for host, own in self.by_host.items())
        if self.kind in (DifferenceKind.DECLARED, DifferenceKind.ARMS):
            return tuple(PlacedValue(where=arm, value=_name_values(own)) for arm, own in self.by_arm.items())
        runs: dict[Reading, list[int]] = {}
        for run, reading in self.by_run.items():
            runs.setdefault(reading, []).append(run)
        return tuple(PlacedValue(where=name_runs(own), value=_name_value(reading)) for reading, own in runs.items())


def _name_value(reading: Reading) -> str | Message:
    before, after = reading
    return before if before == after else message("fact.changed", before=before, after=after)


def _name_values(readings: Sequence[Reading]) -> str | Message:
    """Several beside each other: "1 / 60"."""
    values = tuple(_name_value(reading) for reading in readings)
    return values[0] if len(values) == 1 else message("fact.several", values=values)


def describe_world(evidence: Evidence) -> Fingerprint:
    """Facts of the experiment as a whole and those that all valid runs agree on; differences of all others.

    Settings that differ without having been declared are among the differences.
    """
    return Fingerprint(
        facts=tuple(
            _fact(name, value) for name, value in collect_facts(evidence).items() if not name.startswith(f"{NOW}/")
        ),
        differences=(
            *(
                Difference(name=fact.label, values=fact.values(), declared=fact.kind is DifferenceKind.DECLARED)
                for fact in compare_facts(evidence)
            ),
            *find_undeclared(evidence),
        ),
    )


def collect_facts(evidence: Evidence) -> dict[str, str]:
    """Facts that hold for all valid runs, "group/name" to value; what was read in runs overrules what was before.

    Of what differs as declared there is what was noted of the experiment as a whole, all arms together.
    """
    facts = dict(evidence.fingerprints.get(None, {}))
    for name, by_run in _by_run(evidence).items():
        values = [value for values in by_run.values() for value in values]
        if is_same(values, rule_of(name).tolerance):
            facts[name] = values[0]
    for difference in compare_facts(evidence):
        if difference.kind is not DifferenceKind.DECLARED:
            facts.pop(difference.name, None)
    return facts


def compare_facts(evidence: Evidence) -> tuple[FactDifference, ...]:
    """Facts that were not the same in all valid runs, or not before and after their load, by name."""
    arms = {arm.name: arm.knobs for arm in evidence.arms}
    differences = []
    for name, by_run in _by_run(evidence).items():
        rule = rule_of(name)
        is_compared = rule.arms is not None or rule.runs is not None
        if not is_compared or is_same((value for values in by_run.values() for value in values), rule.tolerance):
            continue
        readings = {
            run: (before, before if is_same((before, after), rule.tolerance) else after)
            for run, (before, after) in by_run.items()
        }
        declared = {
            arm: tuple(
                (knob, key, value)
                for knob, table in knobs.items()
                for key, value in table.items()
                if changes(knob, key, name)
            )
            for arm, knobs in arms.items()
        }
        by_arm = {
            arm.name: tuple(dict.fromkeys(readings[run.id] for run in evidence.runs_of(arm.name) if run.id in readings))
            for arm in evidence.arms
        }
        differences.append(
            FactDifference(
                name=name,
                kind=_kind(evidence, readings, declared),
                by_run=readings,
                by_arm={arm: own for arm, own in by_arm.items() if own},
                by_host=_by_host(evidence, readings),
                rule=rule,
            )
        )
    return tuple(differences)


def _kind(
    evidence: Evidence, by_run: Mapping[int, Reading], declared: Mapping[str, tuple[tuple[str, str, str], ...]]
) -> DifferenceKind:
    """What arms declare the same must be the same in their runs of a block, and over the blocks."""
    overall: dict[object, set[Reading]] = {}
    blocks: dict[tuple[int, object], list[Reading]] = {}
    for run in evidence.valid:
        if run.id in by_run:
            key = declared[run.slot.arm]
            overall.setdefault(key, set()).add(by_run[run.id])
            blocks.setdefault((run.slot.block, key), []).append(by_run[run.id])
    if all(len(values) == 1 for values in overall.values()):
        return DifferenceKind.DECLARED if len(set(by_run.values())) > 1 else DifferenceKind.WITHIN
    by_host: dict[object, set[Reading]] = {}
    for run in evidence.valid:
        if evidence.is_spread and run.id in by_run:
            by_host.setdefault((evidence.hosts[run.slot.block], declared[run.slot.arm]), set()).add(by_run[run.id])
    if by_host and all(len(values) == 1 for values in by_host.values()):
        return DifferenceKind.HOSTS
    comparable = {block for (block, _), values in blocks.items() if len(values) > 1}
    different = {block for (block, _), values in blocks.items() if len(set(values)) > 1}
    return DifferenceKind.ARMS if different and 2 * len(different) >= len(comparable) else DifferenceKind.RUNS


def _by_host(evidence: Evidence, readings: Mapping[int, Reading]) -> dict[str, tuple[Reading, ...]]:
    found: dict[str, list[Reading]] = {}
    for run in evidence.valid:
        if evidence.is_spread and run.id in readings:
            found.setdefault(evidence.hosts[run.slot.block], []).append(readings[run.id])
    return {host: tuple(dict.fromkeys(found[host])) for host in sorted(found)}


def _by_run(evidence: Evidence) -> dict[str, dict[int, Reading]]:
    """Fact to valid run to value before and after its load, by name; where only one was read, it is taken for both."""
    facts: dict[str, dict[int, Reading]] = {}
    for run in evidence.valid:
        after = evidence.fingerprints_after.get(run.id, {})
        for name, value in evidence.fingerprints.get(run.id, {}).items():
            facts.setdefault(name, {})[run.id] = value, after.get(name, value)
    return dict(sorted(facts.items()))


def is_same(values: Iterable[str], tolerance: float) -> bool:
    """Whether all values of a fact are equal, or sizes within ``tolerance`` (a share) of the largest."""
    distinct = set(values)
    if len(distinct) < 2 or not tolerance:
        return len(distinct) < 2
    try:
        sizes = [parse_bytes(value) for value in distinct]
    except ValueError:
        return False
    return max(sizes) - min(sizes) <= tolerance * max(sizes)


def _fact(name: str, value: str) -> Fact:
    group, _, rest = name.partition("/")
    return Fact(group=group, name=rest, value=value)
