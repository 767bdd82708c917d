import dataclasses

import pytest

from pgtrial.model.caveat import Severity
from pgtrial.postgres.existing.rights import PROVIDERS, probe_rights


def codes(rights):
    return [caveat.code for caveat in rights.caveats()]


def test_a_superuser_on_the_servers_machine_lacks_nothing(foreign, runner):
    rights = runner.run(probe_rights(runner.run(foreign.open()), ["work_mem", "no_such_setting"]))

    assert rights.superuser
    assert rights.create_database
    assert rights.checkpoint
    assert rights.settings == {"work_mem": True, "no_such_setting": True}
    assert rights.read_auto_conf
    assert rights.caveats() == ()


@pytest.mark.parametrize(
    ("user", "lacking"),
    [
        ("nobody_special", ["no-host", "no-monitor", "no-all-settings", "no-checkpoint", "no-file-settings"]),
        ("watcher", ["no-host", "no-checkpoint", "no-file-settings"]),
        ("tuner", ["no-host", "no-checkpoint", "no-file-settings"]),
        ("maker", ["no-host", "no-monitor", "no-all-settings", "no-checkpoint", "no-file-settings"]),
    ],
)
def test_each_right_that_a_role_lacks_is_said_once_with_its_cost(foreign, runner, user, lacking):
    server = runner.run(foreign.open(user, elsewhere=True))
    rights = runner.run(probe_rights(server, ["work_mem", "geqo"]))

    assert codes(rights) == lacking
    assert not rights.superuser
    assert rights.create_database is (user == "maker")
    assert rights.settings == {"work_mem": user == "tuner", "geqo": False}
    assert rights.reload is (user == "tuner")
    assert rights.read_auto_conf is (user == "tuner")
    assert all(caveat.text.endswith(".") and caveat.hint.endswith(".") for caveat in rights.caveats())
    assert {c.code for c in rights.caveats() if c.severity is Severity.WARNING} == {"no-checkpoint"}


def test_without_settings_to_change_their_files_do_not_matter(foreign, runner):
    rights = runner.run(probe_rights(runner.run(foreign.open("watcher"))))

    assert codes(rights) == ["no-checkpoint"]


def test_a_predefined_role_gives_the_right_that_its_hint_names(foreign, runner):
    foreign.sql("GRANT pg_checkpoint TO watcher")
    try:
        assert codes(runner.run(probe_rights(runner.run(foreign.open("watcher"))))) == []
    finally:
        foreign.sql("REVOKE pg_checkpoint FROM watcher")


@pytest.mark.parametrize("role", ["rds_superuser", "azure_pg_admin"])
def test_a_managed_server_is_known_by_its_roles(foreign, runner, role):
    foreign.sql(f"CREATE ROLE {role}")
    try:
        rights = runner.run(probe_rights(runner.run(foreign.open())))
    finally:
        foreign.sql(f"DROP ROLE {role}")

    assert rights.provider == PROVIDERS[role]
    assert codes(rights) == ["managed-server"]


def test_a_server_that_forbids_alter_system_is_known(foreign, runner):
    conf = foreign.data / "postgresql.conf"
    before = conf.read_text()
    can_forbid = foreign.programs.major >= 17  # allow_alter_system came with it
    if can_forbid:
        conf.write_text(before + "allow_alter_system = off\n")
        foreign.sql("SELECT pg_reload_conf()")
        while foreign.shown("allow_alter_system") == "on":
            pass
    try:
        assert runner.run(probe_rights(runner.run(foreign.open()))).alter_system_allowed is not can_forbid
    finally:
        conf.write_text(before)


def test_a_standby_is_known(foreign, runner):
    rights = runner.run(probe_rights(runner.run(foreign.open())))

    assert codes(dataclasses.replace(rights, in_recovery=True)) == ["standby"]
