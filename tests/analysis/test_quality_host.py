from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.validity import machine, runs
from pgtrial.experiment_file.arms import complete_arm
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.model.caveat import Severity
from pgtrial.model.fingerprint import (
    CPU_ALL,
    CPU_KERNEL,
    CPU_OTHERS,
    CPU_OWN,
    CPU_STEAL,
    CPU_TASKS,
    FREE,
    OOM_KILLS,
    OTHERS,
    QUOTA,
    SIZE,
    SWAPPED,
    THERMAL,
    WAL_FREE,
    WAL_SIZE,
)

Assess = Any
Worlds = dict[str, dict[int | None, dict[str, str]]]

# 100 s of CPU time between the two moments.
BEFORE = {CPU_ALL: "1000", CPU_TASKS: "500", CPU_STEAL: "10", SWAPPED: "0", THERMAL: "3", OOM_KILLS: "1", QUOTA: "1.0"}
AFTER = {
    **BEFORE,
    CPU_ALL: "1100",
    CPU_TASKS: "590",
    CPU_OWN: "85",
    CPU_KERNEL: "3",
    CPU_OTHERS: "1",
    SIZE: "1000",
    FREE: "500",
    WAL_SIZE: "100",
    WAL_FREE: "90",
}


@pytest.fixture
def worlds(evidence: Evidence) -> Callable[..., Worlds]:
    """Fingerprints of an undisturbed machine, but for what run 5 has after its load."""

    def build(changed: Mapping[str, str]) -> Worlds:
        return {
            "fingerprints": {run.id: dict(BEFORE) for run in evidence.valid},
            "fingerprints_after": {run.id: {**AFTER, **(changed if run.id == 5 else {})} for run in evidence.valid},
        }

    return build


CHECKS = {name: check for name, check in vars(machine).items() if name.startswith("check_")}


def found_by(check: str, assessment: Any) -> CaveatFinding:
    """The caveat of one check, where no other has any."""
    (caveat,) = [caveat for each in CHECKS.values() for caveat in each(assessment)]
    assert list(CHECKS[check](assessment)) == [caveat]
    return caveat


@pytest.mark.parametrize("check", CHECKS)
def test_an_undisturbed_machine_has_no_caveat(check: str, assess: Assess, worlds: Callable[..., Worlds]) -> None:
    assert list(CHECKS[check](assess(**worlds({})))) == []


@pytest.mark.parametrize("check", CHECKS)
def test_what_was_not_read_is_no_caveat(check: str, assess: Assess) -> None:
    assert list(CHECKS[check](assess())) == []


def test_other_programs_are_named(assess: Assess, worlds: Callable[..., Worlds]) -> None:
    changed = {CPU_OTHERS: "12", CPU_OWN: "74", OTHERS: "restic 9.0 %, cron 3.0 %"}
    caveat = found_by("check_others", assess(**worlds(changed)))

    assert (caveat.code, caveat.runs) == ("other-programs", (5,))
    assert caveat.text == (
        "In 1 of 18 runs other programs used more than 3 % of the CPU time, up to 12.0 % "
        "(run 5: restic 9.0 %, cron 3.0 %)."
    )


def test_cpu_time_that_nobody_has_used_is_of_processes_that_cannot_be_seen(
    assess: Assess, worlds: Callable[..., Worlds]
) -> None:
    caveat = found_by("check_unseen", assess(**worlds({CPU_OWN: "60"})))

    assert (caveat.code, caveat.runs) == ("unseen-load", (5,))
    assert "up to 26.0 % of the CPU time" in caveat.text


def test_swapping_is_told(assess: Assess, worlds: Callable[..., Worlds]) -> None:
    caveat = found_by("check_swapping", assess(**worlds({SWAPPED: str(300 * 1024**2)})))

    assert (caveat.code, caveat.severity) == ("swapping", Severity.WARNING)
    assert "up to 300 MB in and out" in caveat.text


@pytest.mark.parametrize("knob", [{"memory_pressure": {"size": "2GB"}}, {"sysctl": {"vm.swappiness": "1"}}])
def test_swapping_that_is_looked_at_is_no_warning(
    knob: dict[str, dict[str, str]], assess: Assess, evidence: Evidence, worlds: Callable[..., Worlds]
) -> None:
    arms = tuple(complete_arm(evidence.experiment, arm.name, arm.role, knob) for arm in evidence.arms)
    (caveat,) = machine.check_swapping(assess(arms=arms, **worlds({SWAPPED: str(300 * 1024**2)})))

    assert caveat.severity is Severity.INFO


def test_throttling_by_heat_is_told(assess: Assess, worlds: Callable[..., Worlds]) -> None:
    assert found_by("check_throttling", assess(**worlds({THERMAL: "4"}))).runs == (5,)


def test_a_counter_that_was_reset_says_nothing(assess: Assess, worlds: Callable[..., Worlds]) -> None:
    assert list(machine.check_throttling(assess(**worlds({THERMAL: "0"})))) == []


def test_a_quota_is_told_but_where_the_arm_declares_it(
    assess: Assess, evidence: Evidence, worlds: Callable[..., Worlds]
) -> None:
    caveat = found_by("check_quota", assess(**worlds({QUOTA: "3.5"})))

    assert "for up to 2.5 s" in caveat.text
    arms = tuple(
        complete_arm(evidence.experiment, arm.name, arm.role, {"cgroup": {"cpus": "1"}}) for arm in evidence.arms
    )
    assert list(machine.check_quota(assess(arms=arms, **worlds({QUOTA: "3.5"})))) == []


def test_processes_killed_for_lack_of_memory_are_told(assess: Assess, worlds: Callable[..., Worlds]) -> None:
    assert found_by("check_oom", assess(**worlds({OOM_KILLS: "2"}))).code == "out-of-memory"


@pytest.mark.parametrize("changed", [{FREE: "20"}, {WAL_FREE: "2"}])
def test_little_space_is_told(changed: dict[str, str], assess: Assess, worlds: Callable[..., Worlds]) -> None:
    caveat = found_by("check_space", assess(**worlds(changed)))

    assert caveat.text.startswith("In 1 of 18 runs less than 5 % of the file system was free, down to 2.0 %")


def test_steal_is_known_without_samples(assess: Assess, worlds: Callable[..., Worlds]) -> None:
    assessment = assess(reduced={"increases": {}}, **worlds({CPU_STEAL: "25"}))
    (caveat,) = runs.check_steal(assessment)

    assert caveat.runs == (5,)
    assert "up to 15.0 %" in caveat.text
