"""The knobs of an existing server, as the engine and "pgtrial restore" use them."""

import pytest

from pgtrial.hosts.local import LocalHost
from pgtrial.knobs.base import KnobContext
from pgtrial.model.change import JournalEntry, Outcome
from pgtrial.postgres.connect import execute, fetch
from pgtrial.postgres.existing.knobs import ServerDatabase, ServerSettings
from pgtrial.postgres.existing.server import open_server


@pytest.fixture
def server(throwaway, runner):
    return runner.run(open_server(LocalHost(), throwaway.conninfo(), database=None, restart=(), caller={}))


@pytest.fixture
def context(throwaway):
    return KnobContext(host=LocalHost(), token="12ab", directory=str(throwaway.directory))


def entry_of(change, got=None):
    return JournalEntry(id=1, t=0.0, host="local", boot_id="x", folder="/results/x", run=1, change=change, got=got)


@pytest.mark.parametrize("known", [True, False], ids=["by the engine", "by a later process"])
def test_settings_are_planned_applied_watched_and_undone(server, context, throwaway, runner, known):
    knob = ServerSettings(server=server, database="postgres")
    auto_conf = throwaway.data / "postgresql.auto.conf"
    before = auto_conf.read_bytes()

    (change,) = runner.run(knob.plan(context, {"work_mem": "9MB"}))
    assert auto_conf.read_bytes() == before
    got = runner.run(knob.apply(context, change))
    entry = entry_of(change, got)
    assert entry.change.knob == knob.name == "server_settings"
    assert got.keys() == change.new.keys()
    assert runner.run(knob.still_applied(context.host, entry)) == ""
    runner.run(execute(server.conninfo(), "ALTER DATABASE postgres SET work_mem = '7MB'"))
    assert runner.run(knob.still_applied(context.host, entry)) == (
        'setting "work_mem" is 7MB (source: database), expected 9MB: somebody else has changed it meanwhile.'
    )
    runner.run(execute(server.conninfo(), "ALTER DATABASE postgres RESET work_mem"))
    undone = runner.run((knob if known else ServerSettings(caller={"PGUSER": "x"})).undo(context.host, entry))

    assert undone.outcome is Outcome.RESTORED
    assert auto_conf.read_bytes() == before
    assert runner.run(knob.plan(context, {"work_mem": "4MB"})) == ()


@pytest.mark.parametrize("known", [True, False], ids=["by the engine", "by a later process"])
def test_databases_are_planned_applied_and_undone(server, context, runner, known):
    knob = ServerDatabase(server=server)

    (change,) = runner.run(knob.plan(context, {"name": "pgtrial_12ab", "template": "template1"}))
    entry = entry_of(change, runner.run(knob.apply(context, change)))
    made = runner.run(fetch(server.conninfo("pgtrial_12ab"), "SELECT current_database()"))
    undone = runner.run((knob if known else ServerDatabase()).undo(context.host, entry))

    assert made == [("pgtrial_12ab",)]
    assert undone.outcome is Outcome.RESTORED
    assert runner.run(fetch(server.conninfo(), "SELECT 1 FROM pg_database WHERE datname = 'pgtrial_12ab'")) == []
