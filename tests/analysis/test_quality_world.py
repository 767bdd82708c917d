from dataclasses import replace
from typing import Any

from pgtrial.analysis import quality_world
from pgtrial.analysis.evidence import Evidence
from pgtrial.model.caveat import Caveat, Severity

Assess = Any


def test_an_undeclared_difference_of_settings_is_invalid(assess: Assess, evidence: Evidence) -> None:
    settings = {
        run.id: {**evidence.settings[run.id], "work_mem": ("64MB" if run.slot.arm == "off" else "4MB", "default")}
        for run in evidence.valid
    }
    (caveat,) = quality_world.check_settings(assess(settings=settings))

    assert (caveat.code, caveat.severity) == ("undeclared-difference", Severity.INVALID)
    assert "work_mem" in caveat.text
    assert "off: 64MB" in caveat.text


def test_runs_whose_settings_were_not_recorded_are_told(assess: Assess, evidence: Evidence) -> None:
    settings = {run: found for run, found in evidence.settings.items() if run != 4}
    (caveat,) = quality_world.check_settings_read(assess(settings=settings))

    assert (caveat.code, caveat.runs) == ("settings-unknown", (4,))


def test_a_world_that_changed_is_told(assess: Assess, evidence: Evidence) -> None:
    fingerprints = {**evidence.fingerprints, **{run.id: {"kernel/boot id": str(run.id > 9)} for run in evidence.valid}}
    (caveat,) = quality_world.check_fingerprint(assess(fingerprints=fingerprints))

    assert caveat.code == "fingerprint-differs"
    assert caveat.text == "kernel: boot id was not the same in all runs (False, True)."


def test_what_was_noted_while_measuring_of_valid_runs_is_kept(assess: Assess, evidence: Evidence) -> None:
    noted = Caveat(code="no-pressure", severity=Severity.INFO, text="The kernel has no /proc/pressure.")
    found = list(
        quality_world.check_recorded(assess(valid=evidence.valid[1:], caveats=((None, noted), (1, noted), (2, noted))))
    )

    assert [caveat.runs for caveat in found] == [(), (2,)]


def test_a_clean_experiment_has_no_caveat_about_its_world(assess: Assess) -> None:
    clean = replace(assess())

    for check in (
        quality_world.check_settings,
        quality_world.check_settings_read,
        quality_world.check_fingerprint,
        quality_world.check_recorded,
    ):
        assert list(check(clean)) == []
