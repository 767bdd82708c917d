from collections.abc import Mapping
from dataclasses import replace

import pytest

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.world.settings import (
    DERIVED,
    KNOB_SETTINGS,
    VOLATILE,
    compare_settings,
    find_hidden,
    find_of_server,
    find_undeclared,
)
from pgtrial.experiment_file.arms import complete_arm
from pgtrial.findings.findings import Difference
from pgtrial.findings.message import say
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.model.run import RunRow


def with_setting(evidence: Evidence, name: str, values: Mapping[str, str]) -> Evidence:
    """The evidence with one setting that differs by arm."""
    settings = {
        run.id: {**evidence.settings[run.id], name: (values.get(run.slot.arm, values["on"]), "default")}
        for run in evidence.valid
    }
    return replace(evidence, settings=settings)


def declaring(evidence: Evidence, arm: str, **settings: str) -> Evidence:
    arms = tuple(
        complete_arm(evidence.experiment, arm, each.role, {POSTGRESQL: {**each.own_settings, **settings}})
        if each.name == arm
        else each
        for each in evidence.arms
    )
    return replace(evidence, arms=arms)


def by_arm(difference: Difference) -> dict[str, str]:
    return {say(placed.where): say(placed.value) for placed in difference.values}


def test_a_declared_difference_is_no_residue(evidence: Evidence) -> None:
    assert find_undeclared(evidence) == ()
    (setting,) = compare_settings(evidence)

    assert (setting.name, setting.declared, setting.differs) == ("synchronous_commit", True, True)
    assert setting.values == {"on": "on", "off": "off", "placebo": "on"}
    assert setting.source == "configuration file"


def test_an_undeclared_difference_is_found(evidence: Evidence) -> None:
    (difference,) = find_undeclared(with_setting(evidence, "work_mem", {"on": "4MB", "off": "8MB"}))

    assert (difference.name, difference.declared) == ("work_mem", False)
    assert by_arm(difference) == {"on": "4MB", "off": "8MB", "placebo": "4MB"}


def test_a_declared_setting_that_the_placebo_does_not_share_is_found(evidence: Evidence) -> None:
    changed = with_setting(evidence, "synchronous_commit", {"on": "on", "off": "off", "placebo": "off"})

    assert [difference.name for difference in find_undeclared(changed)] == ["synchronous_commit"]


def test_a_setting_that_changes_within_an_arm_is_found(evidence: Evidence) -> None:
    def value(run: RunRow) -> str:
        return "8MB" if run.slot.block == 2 else "4MB"

    settings = {run.id: {**evidence.settings[run.id], "work_mem": (value(run), "default")} for run in evidence.valid}
    (difference,) = find_undeclared(replace(evidence, settings=settings))

    assert by_arm(difference)["on"] == "4MB / 8MB"


@pytest.mark.parametrize("name", VOLATILE)
def test_a_volatile_setting_may_differ(evidence: Evidence, name: str) -> None:
    assert find_undeclared(with_setting(evidence, name, {"on": "a", "off": "b"})) == ()


@pytest.mark.parametrize("name", DERIVED)
def test_a_derived_setting_may_differ_where_its_cause_was_declared(evidence: Evidence, name: str) -> None:
    changed = with_setting(evidence, name, {"on": "1", "off": "2"})
    parent = DERIVED[name][0]

    assert [difference.name for difference in find_undeclared(changed)] == [name]
    assert find_undeclared(declaring(changed, "off", **{parent: "x"})) == ()


def test_names_are_compared_whatever_their_case(evidence: Evidence) -> None:
    changed = with_setting(evidence, "TimeZone", {"on": "UTC", "off": "CET"})

    assert find_undeclared(declaring(changed, "off", timezone="CET")) == ()


def test_a_setting_that_a_run_does_not_have_is_a_difference(evidence: Evidence) -> None:
    settings = {
        run.id: {**evidence.settings[run.id], **({"jit": ("on", "default")} if run.slot.arm == "off" else {})}
        for run in evidence.valid
    }
    (difference,) = find_undeclared(replace(evidence, settings=settings))

    assert by_arm(difference) == {"on": "(absent)", "off": "on", "placebo": "(absent)"}


def test_runs_without_recorded_settings_are_not_compared(evidence: Evidence) -> None:
    bare = replace(evidence, settings={})

    assert find_undeclared(bare) == ()
    assert compare_settings(bare) == ()


def with_knob(evidence: Evidence, arm: str, *knob: tuple[str, str, str]) -> Evidence:
    own: dict[str, dict[str, str]] = {}
    for name, key, value in knob:
        own.setdefault(name, {})[key] = value
    arms = tuple(
        complete_arm(evidence.experiment, arm, each.role, {POSTGRESQL: each.own_settings, **own})
        if each.name == arm
        else each
        for each in evidence.arms
    )
    return replace(evidence, arms=arms)


SERVER = ("server", "postgres", "18")


def test_another_default_of_a_declared_server_is_its_own(evidence: Evidence) -> None:
    changed = with_setting(evidence, "effective_io_concurrency", {"on": "1", "off": "16"})

    assert [difference.name for difference in find_undeclared(changed)] == ["effective_io_concurrency"]
    declared = with_knob(changed, "off", SERVER)
    assert find_undeclared(declared) == ()
    (difference,) = find_of_server(declared)
    assert (difference.name, difference.declared) == ("effective_io_concurrency", True)


def test_what_is_configured_everywhere_is_no_matter_of_the_server(evidence: Evidence) -> None:
    settings = {
        run.id: {
            **evidence.settings[run.id],
            "max_connections": ("40" if run.slot.arm == "off" else "100", "configuration file"),
        }
        for run in evidence.valid
    }
    changed = with_knob(replace(evidence, settings=settings), "off", SERVER)

    assert [difference.name for difference in find_undeclared(changed)] == ["max_connections"]
    assert find_of_server(changed) == ()


def test_a_setting_that_initdb_of_one_version_writes_is_its_own(evidence: Evidence) -> None:
    settings = {
        run.id: {
            **evidence.settings[run.id],
            **({"autovacuum_worker_slots": ("16", "configuration file")} if run.slot.arm == "off" else {}),
        }
        for run in evidence.valid
    }

    assert find_undeclared(with_knob(replace(evidence, settings=settings), "off", SERVER)) == ()


def test_a_default_must_be_the_same_in_all_runs_of_one_server(evidence: Evidence) -> None:
    settings = {
        run.id: {
            **evidence.settings[run.id],
            "jit": ("off" if run.slot.arm == "off" and run.slot.block == 2 else "on", "default"),
        }
        for run in evidence.valid
    }

    (difference,) = find_undeclared(with_knob(replace(evidence, settings=settings), "off", SERVER))
    assert difference.name == "jit"


@pytest.mark.parametrize(("knob", "name"), [(knob, name) for knob, names in KNOB_SETTINGS.items() for name in names])
def test_a_setting_that_a_knob_sets_is_declared_with_it(evidence: Evidence, knob: str, name: str) -> None:
    changed = with_setting(evidence, name, {"on": "a", "off": "b"})

    assert [difference.name for difference in find_undeclared(changed)] == [name]
    declared = with_knob(changed, "off", (knob, "any", "b"))
    assert find_undeclared(declared) == ()
    assert next(found for found in compare_settings(declared) if found.name == name).declared


def test_settings_of_a_library_come_with_it(evidence: Evidence) -> None:
    settings = {
        run.id: {
            **evidence.settings[run.id],
            **({"pg_stat_statements.max": ("5000", "default")} if run.slot.arm == "off" else {}),
        }
        for run in evidence.valid
    }
    changed = replace(evidence, settings=settings)

    assert [difference.name for difference in find_undeclared(changed)] == ["pg_stat_statements.max"]
    assert find_undeclared(with_knob(changed, "off", ("extensions", "preload", "pg_stat_statements"))) == ()
    assert find_undeclared(declaring(changed, "off", shared_preload_libraries="pg_stat_statements")) == ()


def _without_rights_from(evidence: Evidence, block: int) -> Evidence:
    """On an existing server, with pg_read_all_settings taken away before this block."""
    hidden = {"shared_preload_libraries": ("pg_stat_statements", "configuration file")}
    settings = {
        run.id: {**evidence.settings[run.id], **(hidden if run.slot.block < block else {})} for run in evidence.valid
    }
    target = evidence.experiment.target.model_copy(update={"kind": "server"})
    return replace(evidence, settings=settings, experiment=evidence.experiment.model_copy(update={"target": target}))


def test_what_an_existing_server_does_not_show_any_more_is_no_difference_of_the_arms(evidence: Evidence) -> None:
    changed = _without_rights_from(evidence, 3)

    assert find_undeclared(changed) == ()
    assert find_hidden(changed) == {
        "shared_preload_libraries": tuple(run.id for run in evidence.valid if run.slot.block >= 3)
    }


def test_what_it_shows_otherwise_meanwhile_is_one(evidence: Evidence) -> None:
    changed = _without_rights_from(evidence, 3)
    first = next(run.id for run in changed.valid if run.slot.block == 1)
    changed.settings[first]["shared_preload_libraries"] = ("auto_explain", "configuration file")  # type: ignore[index]

    assert [difference.name for difference in find_undeclared(changed)] == ["shared_preload_libraries"]


def test_a_server_of_the_experiments_own_hides_nothing(evidence: Evidence) -> None:
    changed = replace(_without_rights_from(evidence, 3), experiment=evidence.experiment)

    assert find_hidden(changed) == {}
    assert [difference.name for difference in find_undeclared(changed)] == ["shared_preload_libraries"]
