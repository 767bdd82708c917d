from pathlib import Path

import pytest

from pgtrial.analysis.validity import machine
from pgtrial.analysis.validity.runs import STEAL_SHARE
from pgtrial.analysis.world.fingerprint import RULES, changes, rule_of
from pgtrial.engine.fingerprint.read import read_machine
from pgtrial.hosts.operations import Operations
from pgtrial.model.caveat import Severity
from pgtrial.units import format_bytes, format_share

DOCUMENT = Path(__file__).parents[2] / "docs" / "fingerprint.md"


@pytest.mark.parametrize(
    ("fact", "arms", "runs"),
    [
        ("PostgreSQL/version", Severity.INVALID, Severity.WARNING),
        ("PostgreSQL/programs", None, None),
        ("kernel/boot id", Severity.INVALID, Severity.WARNING),
        ("kernel/vm.swappiness", Severity.INVALID, Severity.WARNING),
        ("kernel/transparent_hugepage.enabled", Severity.INVALID, Severity.WARNING),
        ("machine/CPU governor", Severity.INVALID, Severity.WARNING),
        ("limits/I/O", Severity.INVALID, Severity.WARNING),
        ("storage/data queue scheduler", Severity.INVALID, Severity.WARNING),
        ("storage/data mount options", Severity.INVALID, Severity.WARNING),
        ("storage/data mount point", None, None),
        ("pgtrial/version", Severity.WARNING, Severity.WARNING),
        ("now/swap used", None, None),
        ("weather/temperature", Severity.WARNING, Severity.INFO),
    ],
)
def test_the_first_rule_that_fits_counts(fact: str, arms: Severity | None, runs: Severity | None) -> None:
    assert (rule_of(fact).arms, rule_of(fact).runs) == (arms, runs)


def test_every_fact_that_is_read_of_this_machine_has_a_rule_of_its_own() -> None:
    facts = read_machine(Operations(), directories=("/var/tmp", "/dev/shm")).facts

    assert [fact for fact in facts if rule_of(fact) is RULES[-1]] == []


def test_every_rule_says_why() -> None:
    assert all(rule.why.endswith(".") for rule in RULES)


@pytest.mark.parametrize(
    ("knob", "name", "fact"),
    [
        ("sysctl", "vm.swappiness", "kernel/vm.swappiness"),
        ("sysctl", "vm/swappiness", "kernel/vm.swappiness"),
        ("sysctl", "net/ipv4/conf/eth0.1/rp_filter", "kernel/net.ipv4.conf.eth0/1.rp_filter"),
        ("sysctl", "vm/dirty_ratio", "kernel/vm.dirty_bytes"),
        ("sysctl", "vm.dirty_ratio", "kernel/vm.dirty_bytes"),
        ("sysctl", "vm.dirty_background_bytes", "kernel/vm.dirty_background_ratio"),
        ("block_device", "scheduler", "storage/data queue nr_requests"),
        ("block_device", "read_ahead_kb", "storage/data read_ahead_kb"),
        ("transparent_huge_pages", "enabled", "kernel/transparent_hugepage.enabled"),
        ("transparent_huge_pages", "enabled", "kernel/vm.min_free_kbytes"),
        ("huge_pages", "size", "kernel/huge pages of 2048kB"),
        ("cgroup", "memory", "limits/memory"),
        ("filesystem", "options", "storage/data mount options"),
        ("storage", "wal", "storage/WAL device"),
        ("server", "postgres", "PostgreSQL/version"),
    ],
)
def test_a_knob_changes_its_facts_and_what_goes_with_them(knob: str, name: str, fact: str) -> None:
    assert changes(knob, name, fact)


@pytest.mark.parametrize(
    ("knob", "name", "fact"),
    [
        ("sysctl", "vm.swappiness", "kernel/vm.dirty_ratio"),
        ("sysctl", "vm.dirty_ratio", "kernel/vm.dirty_background_ratio"),
        ("block_device", "scheduler", "storage/data mount options"),
        ("server", "postgres", "kernel/release"),
        ("memory_pressure", "size", "machine/memory"),
        ("sql", "apply", "storage/data device"),
    ],
)
def test_a_knob_changes_nothing_else(knob: str, name: str, fact: str) -> None:
    assert not changes(knob, name, fact)


def test_the_rules_are_published() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = [
        f"| {', '.join(f'`{fact}`' for fact in rule.facts)} | {rule.arms or 'not compared'} "
        f"| {rule.runs or 'not compared'} | {rule.why} |"
        for rule in RULES
    ]

    assert "\n".join(rows) in text


def test_the_thresholds_are_published() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")

    assert f"more than {format_share(machine.OTHERS_SHARE)} of the machine's" in text
    assert f"| more than {format_share(machine.UNSEEN_SHARE)} |" in text
    assert f"more than {format_share(STEAL_SHARE)} of a measured window" in text
    assert f"more than {format_bytes(machine.SWAPPED_BYTES)} in a run" in text
    assert f"more than {machine.QUOTA_SECONDS} s in a run" in text
    assert f"less than {format_share(machine.SPACE_SHARE)} of the file system" in text
