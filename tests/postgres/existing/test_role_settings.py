"""Settings of the load's role: what its sessions have, what is put back, and what is refused."""

import json

import psycopg
import pytest

from pgtrial.errors import SettingError
from pgtrial.model.change import JournalEntry, Outcome
from pgtrial.postgres.existing import role_settings
from pgtrial.postgres.existing.role_settings import apply_role, find_lost_role, plan_role, undo_role

ROLE = "nobody_special"
WANTED = {"work_mem": "7MB", "default_transaction_read_only": "on", "search_path": 'public, "A b"'}
pytestmark = pytest.mark.parametrize("each_programs", ["any"], indirect=True)


def shown(foreign) -> dict[str, str]:
    """What a new session of the role has."""
    with psycopg.connect(foreign.conninfo(ROLE)) as connection:
        rows = [(name, connection.execute("SELECT current_setting(%s)", [name]).fetchone()) for name in WANTED]
    return {name: row[0] for name, row in rows if row is not None}


@pytest.fixture
def role(foreign):
    """The role has a setting of its own in the database already."""
    foreign.sql(f"ALTER ROLE {ROLE} IN DATABASE postgres SET work_mem = '5MB'")
    yield
    foreign.sql(f"ALTER ROLE {ROLE} IN DATABASE postgres RESET ALL")


@pytest.fixture
def make(foreign, runner, role):
    """Give the role its settings, by itself; the server and the entry that the journal would have."""

    def change():
        server = runner.run(foreign.open(ROLE))
        planned = runner.run(plan_role(server, "postgres", WANTED))
        runner.run(apply_role(server, planned))
        return server, JournalEntry(
            id=1, t=0.0, host="local", boot_id="", folder="", run=None, change=planned, got=None
        )

    return change


def test_a_role_without_rights_gives_itself_its_settings_and_has_what_it_had_again(foreign, runner, make):
    before = shown(foreign)
    assert before["work_mem"] == "5MB"

    server, entry = make()

    assert shown(foreign) == WANTED
    assert runner.run(find_lost_role(server, entry.change)) == ""
    assert json.loads(entry.change.old["settings"])["work_mem"] == "5MB"
    assert runner.run(undo_role(server.control, entry)).outcome is Outcome.RESTORED
    assert shown(foreign) == before


def test_what_somebody_else_has_changed_meanwhile_is_left(foreign, runner, make):
    server, entry = make()
    foreign.sql(f"ALTER ROLE {ROLE} IN DATABASE postgres SET work_mem = '9MB'")

    assert runner.run(find_lost_role(server, entry.change)).startswith("work_mem of the load's role")
    assert runner.run(undo_role(server.control, entry)).outcome is Outcome.CHANGED
    assert shown(foreign)["work_mem"] == "9MB"
    assert shown(foreign)["default_transaction_read_only"] == "off"


def test_an_idle_session_of_before_is_ended(foreign, make):
    with psycopg.connect(foreign.conninfo(ROLE), autocommit=True) as old:
        old.execute("SELECT 1")
        make()

        with pytest.raises(psycopg.OperationalError):
            old.execute("SELECT 1")


def test_a_session_at_work_is_another_applications_and_is_refused(foreign, make, monkeypatch):
    monkeypatch.setattr(role_settings, "_PATIENCE", 0.5)
    with psycopg.connect(foreign.conninfo(ROLE)) as old:
        old.execute("SELECT 1")  # its transaction stays open

        with pytest.raises(SettingError, match="are at work, and keep"):
            make()
        assert old.execute("SELECT 1").fetchone() == (1,)


def test_what_a_role_may_not_set_is_refused_in_words(foreign, runner, role):
    server = runner.run(foreign.open(ROLE))
    planned = runner.run(plan_role(server, "postgres", {"log_statement": "all"}))

    with pytest.raises(SettingError, match='role "nobody_special" cannot be given log_statement') as caught:
        runner.run(apply_role(server, planned))

    assert 'settings = "session"' in caught.value.hint
