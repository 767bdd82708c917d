"""What is said of arms whose disk is emulated."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.analysis.validity.machine import check_emulation
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.model.caveat import Severity

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
