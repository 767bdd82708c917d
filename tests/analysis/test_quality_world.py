from dataclasses import replace
from typing import Any

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.validity import world
from pgtrial.analysis.validity.check import check_quality
from pgtrial.analysis.validity.registration import check_registration
from pgtrial.experiment_file.arms import complete_arm
from pgtrial.experiment_file.cause_tables import WaiverTable
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.caveat import caveat_in_words
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.model.caveat import Severity
from pgtrial.model.rules import RULES

Assess = Any


def test_an_undeclared_difference_of_settings_is_invalid(assess: Assess, evidence: Evidence) -> None:
    settings = {
        run.id: {**evidence.settings[run.id], "work_mem": ("64MB" if run.slot.arm == "off" else "4MB", "default")}
        for run in evidence.valid
    }
    (caveat,) = world.check_settings(assess(settings=settings))

    assert (caveat.code, caveat.severity) == ("undeclared-difference", Severity.INVALID)
    assert "work_mem" in caveat.text
    assert "off: 64MB" in caveat.text


def test_runs_whose_settings_were_not_recorded_are_told(assess: Assess, evidence: Evidence) -> None:
    settings = {run: found for run, found in evidence.settings.items() if run != 4}
    (caveat,) = world.check_settings_read(assess(settings=settings))

    assert (caveat.code, caveat.runs) == ("settings-unknown", (4,))


def test_a_world_that_changed_is_told(assess: Assess, evidence: Evidence) -> None:
    fingerprints = {run.id: {"kernel/boot id": str(run.id > 9)} for run in evidence.valid}
    (caveat,) = world.check_fingerprint(assess(fingerprints=fingerprints, fingerprints_after={}))

    assert (caveat.code, caveat.severity) == ("fingerprint-differs", Severity.WARNING)
    assert caveat.text == "Not the same in all runs: kernel boot id (runs 1–9: False; runs 10–18: True)."


def test_a_world_that_differs_between_arms_is_invalid(assess: Assess, evidence: Evidence) -> None:
    fingerprints = {
        run.id: {
            "kernel/vm.swappiness": "1" if run.slot.arm == "off" else "60",
            "limits/memory": "1 GB" if run.slot.arm == "off" else "unlimited",
            "machine/memory": "8 GB",
        }
        for run in evidence.valid
    }
    (caveat,) = world.check_fingerprint(assess(fingerprints=fingerprints, fingerprints_after={}))

    assert (caveat.code, caveat.severity) == ("undeclared-difference", Severity.INVALID)
    assert caveat.text == (
        "The arms did not run under the same conditions, although none declares it: vm.swappiness (on: 60; off: 1; "
        "placebo: 60), limit of memory (on: unlimited; off: 1 GB; placebo: unlimited)."
    )


def test_of_many_facts_that_differ_some_are_named(assess: Assess, evidence: Evidence) -> None:
    fingerprints = {run.id: {f"kernel/vm.{name}": str(run.id > 9) for name in "abcdefgh"} for run in evidence.valid}
    (caveat,) = world.check_fingerprint(assess(fingerprints=fingerprints, fingerprints_after={}))

    assert "vm.e (runs 1–9: False; runs 10–18: True) and 3 more." in caveat.text
    assert "vm.f" not in caveat.text


def test_a_world_that_changes_under_load_is_told(assess: Assess, evidence: Evidence) -> None:
    before, after = (
        {run.id: {"machine/CPU highest frequency": value} for run in evidence.valid} for value in ("3000000", "2000000")
    )
    (caveat,) = world.check_fingerprint(assess(fingerprints=before, fingerprints_after=after))

    assert (caveat.code, caveat.severity) == ("fingerprint-changed", Severity.WARNING)
    assert caveat.text == "Changed while the load was on: CPU highest frequency (runs 1–18: 3000000, then 2000000)."


def of_servers(evidence: Evidence, **settings: tuple[str, str]) -> dict[str, Any]:
    """Arms that declare different servers, and settings with the value of the one and the other; "" is absent."""
    knobs = {"on": "16", "off": "18", "placebo": "16"}
    arms = tuple(
        complete_arm(
            evidence.experiment,
            arm.name,
            arm.role,
            {POSTGRESQL: arm.own_settings, "server": {"postgres": knobs[arm.name]}},
        )
        for arm in evidence.arms
    )
    read = {
        run.id: {
            **evidence.settings[run.id],
            **{
                name: (values[run.slot.arm == "off"], "default")
                for name, values in settings.items()
                if values[run.slot.arm == "off"]
            },
        }
        for run in evidence.valid
    }
    return {"arms": arms, "settings": read}


def test_what_a_declared_version_brings_along_is_part_of_it(assess: Assess, evidence: Evidence) -> None:
    changes = of_servers(
        evidence,
        effective_io_concurrency=("1", "16"),
        io_method=("", "worker"),
        server_version=("16.4", "18.1"),
        work_mem=("4MB", "4MB"),
    )
    assessment = assess(**changes)
    (caveat,) = world.check_servers(assessment)

    assert list(world.check_settings(assessment)) == []
    assert (caveat.code, caveat.severity) == ("server-defaults", Severity.INFO)
    assert caveat.text == (
        "The servers of the arms have other defaults of effective_io_concurrency (on: 1; off: 16; placebo: 1) and 1 "
        "setting that not all of them have; that is part of what is compared."
    )


def test_checksums_of_one_version_only_are_a_warning(assess: Assess, evidence: Evidence) -> None:
    (caveat,) = world.check_servers(assess(**of_servers(evidence, data_checksums=("off", "on"))))

    assert (caveat.code, caveat.severity) == ("server-build", Severity.WARNING)
    assert "data_checksums (on: off; off: on; placebo: off)" in caveat.text


def test_assertions_are_told(assess: Assess, evidence: Evidence) -> None:
    read = {
        run.id: {**evidence.settings[run.id], "debug_assertions": ("on" if run.slot.arm == "off" else "off", "default")}
        for run in evidence.valid
    }
    (caveat,) = world.check_assertions(assess(settings=read))

    assert (caveat.code, caveat.severity) == ("assertions", Severity.WARNING)
    assert caveat.text.startswith("The server of off was built with assertions")


def test_what_was_noted_while_measuring_of_valid_runs_is_kept(assess: Assess, evidence: Evidence) -> None:
    noted = caveat_in_words("no-pressure", Severity.INFO, "The kernel has no /proc/pressure.")
    found = list(
        world.check_recorded(assess(valid=evidence.valid[1:], caveats=((None, noted), (1, noted), (2, noted))))
    )

    assert [caveat.runs for caveat in found] == [(), (2,)]


def test_other_rules_than_those_of_the_experiment_are_told(assess: Assess, evidence: Evidence) -> None:
    other = RULES[evidence.rules.version - 1]
    (caveat,) = check_registration(replace(assess(), evidence=replace(evidence, rules=other)))

    assert (caveat.code, caveat.severity) == ("other-rules", Severity.WARNING)
    assert caveat.text.startswith(f"Judged by rules {other.version}, not by rules {evidence.rules.version}")


def test_a_clean_experiment_has_no_caveat_about_its_world(assess: Assess) -> None:
    clean = replace(assess())

    for check in (
        world.check_settings,
        world.check_settings_read,
        world.check_servers,
        world.check_assertions,
        world.check_fingerprint,
        world.check_recorded,
    ):
        assert list(check(clean)) == []


DEBIAN = (
    "'--prefix=/usr' '--with-icu' '--with-llvm' 'LLVM_CONFIG=/usr/bin/llvm-config-14' '--with-lz4' '--with-openssl'"
)
WHEEL = " '--prefix=/project/pgbuild/../src' '--without-icu' 'PKG_CONFIG_PATH=/usr/local/lib/pkgconfig'"


def of_builds(evidence: Evidence, first: dict[str, str], second: dict[str, str]) -> dict[str, Any]:
    """Arms that declare different servers, with facts of the one and of the other in group PostgreSQL."""
    facts = {
        run.id: {f"PostgreSQL/{name}": value for name, value in (second if run.slot.arm == "off" else first).items()}
        for run in evidence.valid
    }
    return {**of_servers(evidence), "fingerprints": facts, "fingerprints_after": {}}


def test_servers_that_were_built_in_different_ways_are_a_warning(assess: Assess, evidence: Evidence) -> None:
    debian = {"configured with": DEBIAN, "compiler flags": "-g -O2 -fstack-protector", "version": "15.18"}
    wheel = {"configured with": WHEEL, "compiler flags": "-O0 -O3", "version": "18.4"}
    (caveat,) = world.check_servers(assess(**of_builds(evidence, debian, wheel)))

    assert (caveat.code, caveat.severity) == ("server-build", Severity.WARNING)
    assert caveat.text == (
        "The servers of the arms were built in different ways, which an effect contains: JIT (LLVM) (on: with; off: "
        "without; placebo: with); ICU (on: with; off: without; placebo: with); LZ4 (on: with; off: without; placebo: "
        "with); OpenSSL (on: with; off: without; placebo: with); optimization (on: -O2; off: -O3; placebo: -O2)."
    )


def test_icu_that_is_the_default_of_a_version_is_no_difference(assess: Assess, evidence: Evidence) -> None:
    old, new = {"configured with": "'--with-icu'", "version": "15.18"}, {"configured with": "''", "version": "18.4"}

    assert list(world.check_servers(assess(**of_builds(evidence, old, new)))) == []


def test_servers_that_do_not_tell_how_they_were_built_are_not_compared(assess: Assess, evidence: Evidence) -> None:
    silent, told = {"configured with": "", "version": "17.0"}, {"configured with": DEBIAN, "version": "18.4"}

    assert list(world.check_servers(assess(**of_builds(evidence, silent, told)))) == []


def waiving(evidence: Evidence, *codes: Any) -> Experiment:
    waive = tuple(WaiverTable(caveat=code, reason="the runner is shared") for code in codes)
    return evidence.experiment.model_copy(update={"waive": waive})


def test_a_disturbance_from_outside_can_be_waived_and_stays_to_be_read(assess: Assess, evidence: Evidence) -> None:
    facts = {run.id: {"limits/memory": "1 GB" if run.slot.arm == "off" else "2 GB"} for run in evidence.valid}
    changes: dict[str, Any] = {"fingerprints": facts, "fingerprints_after": {}}

    before = {caveat.code: caveat for caveat in check_quality(assess(**changes))}
    after = {
        caveat.code: caveat
        for caveat in check_quality(assess(**changes, experiment=waiving(evidence, "undeclared-difference")))
    }

    assert before["undeclared-difference"].severity is Severity.INVALID
    assert "undeclared-difference" not in after
    assert after["waived"].severity is Severity.WARNING
    assert after["waived"].text.startswith(
        "Waived in the file, because the runner is shared: The arms did not run under the same conditions"
    )


def test_a_setting_that_differs_cannot_be_waived(assess: Assess, evidence: Evidence) -> None:
    settings = {
        run.id: {**evidence.settings[run.id], "work_mem": ("64MB" if run.slot.arm == "off" else "4MB", "default")}
        for run in evidence.valid
    }
    found = check_quality(assess(settings=settings, experiment=waiving(evidence, "undeclared-difference")))

    assert any(caveat.code == "undeclared-difference" and caveat.severity is Severity.INVALID for caveat in found)


def test_a_soak_which_compares_no_arms_has_no_caveat_that_speaks_of_what_differs_between_them(
    assess: Assess, evidence: Evidence, reduction: Reduction
) -> None:
    design = evidence.experiment.design.model_copy(update={"soak": 3600.0})
    soak = evidence.experiment.model_copy(update={"design": design})
    slow = {run.id for run in evidence.runs_of("off")}
    changes: dict[str, Any] = {
        "settings": {
            run.id: {**evidence.settings[run.id], "work_mem": ("64MB" if run.id in slow else "4MB", "default")}
            for run in evidence.valid
        },
        "fingerprints": {run.id: {"machine/memory": "1 GB" if run.id in slow else "2 GB"} for run in evidence.valid},
        "fingerprints_after": {},
        "reduced": {
            "increases": {
                **reduction.increases,
                **{(run, 0, "pg_stat_checkpointer.num_done"): {"": 2.0} for run in slow},
            }
        },
    }
    of_arms = {"undeclared-difference", "unequal-checkpoints", "not-engaged", "torn-blocks"}

    compared = {caveat.code for caveat in check_quality(assess(**changes))}
    alone = {caveat.code for caveat in check_quality(assess(**changes, experiment=soak))}

    assert {"undeclared-difference", "unequal-checkpoints"} <= compared
    assert alone.isdisjoint(of_arms)
