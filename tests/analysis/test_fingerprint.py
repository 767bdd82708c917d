from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.world.fingerprint import DifferenceKind, compare_facts, describe_world
from pgtrial.experiment_file.arms import complete_arm
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.findings import Fact, PlacedValue
from pgtrial.findings.message import say
from pgtrial.findings.naming import name_runs
from pgtrial.knobs import KnobTables
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.model.caveat import Severity
from pgtrial.model.run import RunRow

Value = Callable[[RunRow], str]


def with_fact(evidence: Evidence, name: str, value: Value, after: Value | None = None) -> Evidence:
    """The evidence with one fact in every run; ``after`` is its value after the load."""
    return replace(
        evidence,
        fingerprints={run.id: {name: value(run)} for run in evidence.valid},
        fingerprints_after={run.id: {name: (after or value)(run)} for run in evidence.valid},
    )


def declaring(evidence: Evidence, **arms: Mapping[str, Mapping[str, str]]) -> Evidence:
    """The evidence with knobs that arms declare; the placebo is as the control."""
    arms = {**arms, **({"placebo": arms["on"]} if "on" in arms else {})}
    changed = tuple(
        complete_arm(evidence.experiment, arm.name, arm.role, {POSTGRESQL: arm.own_settings, **arms.get(arm.name, {})})
        for arm in evidence.arms
    )
    return replace(evidence, arms=changed)


def said(values: Iterable[PlacedValue]) -> dict[str, str]:
    return {say(placed.where): say(placed.value) for placed in values}


def test_facts_have_a_group_and_a_name(evidence: Evidence) -> None:
    assert describe_world(evidence).facts == (
        Fact(group="PostgreSQL", name="version", value="15.7"),
        Fact(group="kernel", name="release", value="6.1.0"),
        Fact(group="machine", name="CPUs", value="2"),
    )


def test_a_fact_that_all_runs_agree_on_is_a_fact_of_the_experiment(evidence: Evidence) -> None:
    world = describe_world(with_fact(evidence, "kernel/vm.swappiness", lambda _: "60"))

    assert world.facts == (Fact(group="kernel", name="vm.swappiness", value="60"),)
    assert world.differences == ()


def test_what_was_read_in_the_runs_overrules_what_was_read_before_them(evidence: Evidence) -> None:
    changed = with_fact(evidence, "kernel/vm.swappiness", lambda _: "10")
    before = {None: {"kernel/vm.swappiness": "60"}, **changed.fingerprints}

    assert describe_world(replace(changed, fingerprints=before)).facts[0].value == "10"


def test_of_a_declared_difference_the_whole_is_told(evidence: Evidence) -> None:
    changed = declaring(
        with_fact(evidence, "PostgreSQL/version", lambda run: "18.1" if run.slot.arm == "off" else "16.4"),
        off={"server": {"postgres": "18"}},
    )
    whole = {None: {"PostgreSQL/version": "16.4, 18.1"}, **changed.fingerprints}
    world = describe_world(replace(changed, fingerprints=whole))

    assert world.facts == (Fact(group="PostgreSQL", name="version", value="16.4, 18.1"),)
    assert said(world.differences[0].values) == {"on": "16.4", "off": "18.1", "placebo": "16.4"}


def test_a_fact_that_changed_is_a_difference_and_no_fact(evidence: Evidence) -> None:
    changed = with_fact(evidence, "kernel/vm.swappiness", lambda run: "1" if run.id == 2 else "60")
    world = describe_world(changed)

    assert world.facts == ()
    (difference,) = world.differences
    assert (difference.name, difference.declared) == ("kernel: vm.swappiness", False)
    assert said(difference.values) == {"runs 1, 3–18": "60", "run 2": "1"}


def test_what_differs_between_the_arms_of_most_blocks_is_told_by_arm(evidence: Evidence) -> None:
    changed = with_fact(evidence, "kernel/vm.swappiness", lambda run: "1" if run.slot.arm == "off" else "60")
    (difference,) = compare_facts(changed)

    assert (difference.kind, difference.severity) == (DifferenceKind.ARMS, Severity.INVALID)
    assert said(difference.values()) == {"on": "60", "off": "1", "placebo": "60"}


@pytest.mark.parametrize(
    ("blocks", "kind"),
    [(1, DifferenceKind.RUNS), (2, DifferenceKind.RUNS), (3, DifferenceKind.ARMS), (6, DifferenceKind.ARMS)],
)
def test_half_of_the_blocks_make_a_difference_between_arms(
    evidence: Evidence, blocks: int, kind: DifferenceKind
) -> None:
    def value(run: RunRow) -> str:
        return "1" if run.slot.arm == "off" and run.slot.block <= blocks else "60"

    (difference,) = compare_facts(with_fact(evidence, "kernel/vm.swappiness", value))

    assert difference.kind is kind


def test_a_reboot_between_blocks_is_a_caveat_and_not_invalid(evidence: Evidence) -> None:
    changed = with_fact(evidence, "kernel/boot id", lambda run: "a" if run.slot.block <= 3 else "b")
    (difference,) = compare_facts(changed)

    assert (difference.kind, difference.severity) == (DifferenceKind.RUNS, Severity.WARNING)
    assert said(difference.values()) == {"runs 1–9": "a", "runs 10–18": "b"}


def test_a_reboot_in_the_only_block_parts_the_arms(evidence: Evidence) -> None:
    one = replace(evidence, valid=evidence.valid[:3])
    (difference,) = compare_facts(with_fact(one, "kernel/boot id", lambda run: "a" if run.id < 3 else "b"))

    assert difference.kind is DifferenceKind.ARMS


def test_a_change_during_a_run_is_part_of_its_value(evidence: Evidence) -> None:
    changed = with_fact(
        evidence,
        "machine/CPU governor",
        lambda _: "performance",
        lambda run: "powersave" if run.id == 5 else "performance",
    )
    (difference,) = compare_facts(changed)

    assert difference.kind is DifferenceKind.RUNS
    assert said(difference.values()) == {"runs 1–4, 6–18": "performance", "run 5": "performance, then powersave"}


def test_a_change_during_every_run_is_found_too(evidence: Evidence) -> None:
    changed = with_fact(evidence, "machine/CPU highest frequency", lambda _: "3000000", lambda _: "2000000")
    (difference,) = compare_facts(changed)

    assert (difference.kind, difference.severity) == (DifferenceKind.WITHIN, Severity.WARNING)
    assert said(difference.values()) == {"runs 1–18": "3000000, then 2000000"}


def test_a_declared_difference_is_none_of_the_worlds(evidence: Evidence) -> None:
    changed = with_fact(evidence, "kernel/vm.swappiness", lambda run: "1" if run.slot.arm == "off" else "60")
    (difference,) = compare_facts(declaring(changed, off={"sysctl": {"vm.swappiness": "1"}}))

    assert (difference.kind, difference.severity) == (DifferenceKind.DECLARED, None)
    assert describe_world(declaring(changed, off={"sysctl": {"vm.swappiness": "1"}})).differences[0].declared


def test_what_goes_with_a_declared_difference_is_declared(evidence: Evidence) -> None:
    changed = with_fact(evidence, "kernel/vm.dirty_ratio", lambda run: "0" if run.slot.arm == "off" else "20")
    (difference,) = compare_facts(declaring(changed, off={"sysctl": {"vm.dirty_bytes": "1000000"}}))

    assert difference.kind is DifferenceKind.DECLARED


def test_the_placebo_must_be_as_the_control(evidence: Evidence) -> None:
    values = {"on": "60", "off": "1", "placebo": "10"}
    changed = with_fact(evidence, "kernel/vm.swappiness", lambda run: values[run.slot.arm])
    arms = {"on": {"sysctl": {"vm.swappiness": "60"}}, "off": {"sysctl": {"vm.swappiness": "1"}}}
    (difference,) = compare_facts(declaring(changed, **arms))

    assert (difference.kind, difference.severity) == (DifferenceKind.ARMS, Severity.INVALID)


def test_what_an_arm_declares_must_hold_in_all_its_runs(evidence: Evidence) -> None:
    def value(run: RunRow) -> str:
        return "60" if run.slot.arm != "off" or run.slot.block == 4 else "1"

    (difference,) = compare_facts(
        declaring(with_fact(evidence, "kernel/vm.swappiness", value), off={"sysctl": {"vm.swappiness": "1"}})
    )

    assert (difference.kind, difference.severity) == (DifferenceKind.RUNS, Severity.WARNING)


def test_a_knob_that_all_arms_share_explains_no_difference(evidence: Evidence) -> None:
    changed = with_fact(evidence, "kernel/vm.swappiness", lambda run: "1" if run.slot.arm == "off" else "60")
    target = evidence.experiment.target.model_copy(update={"sysctl": {"vm.swappiness": 60}})
    experiment: Experiment = evidence.experiment.model_copy(update={"target": target})
    (difference,) = compare_facts(replace(changed, experiment=experiment))

    assert isinstance(target, KnobTables)
    assert difference.kind is DifferenceKind.ARMS


@pytest.mark.parametrize(
    ("sizes", "is_same"),
    [(("15.6 GB", "15.5 GB"), True), (("15.6 GB", "7.8 GB"), False), (("15.6 GB", "not known"), False)],
)
def test_a_little_memory_more_or_less_is_no_difference(
    evidence: Evidence, sizes: tuple[str, str], is_same: bool
) -> None:
    changed = with_fact(evidence, "machine/memory", lambda run: sizes[run.slot.arm == "off"])

    assert (compare_facts(changed) == ()) is is_same
    assert (len(describe_world(changed).facts) == 1) is is_same


@pytest.mark.parametrize("name", ["now/swap used", "storage/data mount point", "PostgreSQL/programs"])
def test_moments_and_places_are_not_compared(evidence: Evidence, name: str) -> None:
    world = describe_world(with_fact(evidence, name, lambda run: str(run.id)))

    assert world.differences == ()
    assert world.facts == ()


def test_a_run_that_lacks_a_fact_says_nothing_about_it(evidence: Evidence) -> None:
    changed = with_fact(evidence, "kernel/vm.swappiness", lambda _: "60")
    without = {run: facts for run, facts in changed.fingerprints.items() if run != 2}

    assert compare_facts(replace(changed, fingerprints=without, fingerprints_after={})) == ()


@pytest.mark.parametrize(
    ("runs", "text"),
    [([3], "run 3"), ([1, 2], "runs 1–2"), ([2, 1, 5, 7, 8], "runs 1–2, 5, 7–8"), ([1, 9], "runs 1, 9")],
)
def test_runs_are_named_in_ranges(runs: list[int], text: str) -> None:
    assert name_runs(runs).say() == text
