"""What is said of arms whose disk is emulated, and of flushes that reach none."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.analysis.validity.machine import check_emulation, check_flushes
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.model.caveat import Severity
from pgtrial.model.fingerprint import Lost, LostFlushes, flush_facts

Assess = Callable[..., Assessment]
HEAD = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "select-only"}}
DISKS = {"slow": {"size": "1GB", "read_iops": 100}, "fast": {"size": "1GB"}, "real": {"data": "/mnt"}}


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        (["slow", "fast"], "All arms are on an emulated disk (slow, fast): "),
        (["slow", "real"], "disk=slow is on an emulated disk (slow): "),
        (["real", "slow", "fast"], "disk=slow and disk=fast are on an emulated disk (slow, fast): "),
    ],
)
def test_emulated_disks_are_a_caveat(assess: Assess, evidence: Evidence, levels: list[str], text: str) -> None:
    factor = {"knob": "storage", "levels": levels}
    experiment = Experiment.model_validate({**HEAD, "disks": DISKS, "factors": {"disk": factor}})
    changed = replace(evidence, experiment=experiment, arms=resolve_arms(experiment))
    (caveat,) = check_emulation(replace(assess(), evidence=changed))

    assert (caveat.code, caveat.severity) == ("emulated-disk", Severity.INFO)
    assert caveat.text.startswith(text)
    assert caveat.hint


def test_disks_that_are_there_are_none(assess: Assess) -> None:
    assert list(check_emulation(assess())) == []


def _flushed(evidence: Evidence, role: str, lost: LostFlushes | None, arms: set[str]) -> Evidence:
    """The same with flushes that are lost in the runs of these arms."""
    facts = {run.id: flush_facts(role, lost) if run.slot.arm in arms else {} for run in evidence.valid}
    return replace(evidence, fingerprints=facts)


@pytest.mark.parametrize(
    ("role", "lost", "text"),
    [
        (
            "data",
            LostFlushes(lost=Lost.LEFT_OUT, by="overlay, fsync=volatile"),
            "Flushes of data and WAL do not reach a disk: the file system leaves them out (overlay, fsync=volatile).",
        ),
        (
            "WAL",
            LostFlushes(lost=Lost.MEMORY, by="tmpfs"),
            "Flushes of the WAL do not reach a disk: what is written stays in memory (tmpfs).",
        ),
        (
            "data",
            LostFlushes(lost=Lost.CACHE, by="f2fs"),
            "Flushes of data and WAL do not reach a disk for good: they leave its write cache as it is (f2fs).",
        ),
    ],
)
def test_flushes_that_are_lost_in_all_arms_are_a_warning(
    assess: Assess, evidence: Evidence, role: str, lost: LostFlushes, text: str
) -> None:
    changed = _flushed(evidence, role, lost, {arm.name for arm in evidence.arms})
    (caveat,) = check_flushes(replace(assess(), evidence=changed))

    assert (caveat.code, caveat.severity) == ("flushes-lost", Severity.WARNING)
    assert caveat.text == text
    assert caveat.hint.startswith("A commit waits for no disk here")
    assert set(caveat.runs) == {run.id for run in evidence.valid}


def test_flushes_that_are_lost_in_some_arms_are_part_of_what_is_compared(assess: Assess, evidence: Evidence) -> None:
    lost = LostFlushes(lost=Lost.CACHE, by="ext4, nobarrier")
    (caveat,) = check_flushes(replace(assess(), evidence=_flushed(evidence, "data", lost, {"off"})))

    assert (caveat.code, caveat.severity) == ("flushes-lost", Severity.INFO)
    assert caveat.text == (
        "Flushes of data and WAL do not reach a disk in off (ext4, nobarrier); that is part of what is compared."
    )


def test_flushes_of_the_data_are_not_those_of_a_wal_elsewhere(assess: Assess, evidence: Evidence) -> None:
    facts = {**flush_facts("data", LostFlushes(lost=Lost.MEMORY, by="tmpfs")), "storage/WAL directory": "/wal"}
    changed = replace(evidence, fingerprints={run.id: facts for run in evidence.valid})
    (caveat,) = check_flushes(replace(assess(), evidence=changed))

    assert caveat.text.startswith("Flushes of the data do not reach a disk: ")


def test_nothing_is_said_of_flushes_that_are_not_known_to_be_lost(assess: Assess) -> None:
    assert list(check_flushes(assess())) == []
