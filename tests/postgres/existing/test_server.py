import pytest

from pgtrial.errors import PreflightError
from pgtrial.hosts.local import LocalHost
from pgtrial.postgres.connect import fetch
from pgtrial.postgres.existing import server as module
from pgtrial.postgres.existing.server import open_server, read_bytes

# What does not depend on the server's version.
on_one = pytest.mark.parametrize("each_programs", ["any"], indirect=True)


def test_a_server_on_this_machine_is_known_to_be_here(foreign, runner):
    server = runner.run(foreign.open())

    assert server.facts.version == foreign.programs.version
    assert server.facts.major == foreign.programs.major
    assert server.facts.data_directory == str(foreign.data)
    assert server.facts.local
    assert server.facts.files
    assert not server.facts.in_recovery
    assert server.directories == (str(foreign.data), f"{foreign.data}/pg_wal")
    assert runner.run(server.read_auto_conf()) == foreign.auto_conf.read_bytes()
    assert runner.run(fetch(server.conninfo("template1"), "SELECT current_database()")) == [("template1",)]
    assert server.environment("x")["PGDATABASE"] == "x"


def test_a_server_on_another_machine_is_known_not_to_be_here(foreign, runner):
    server = runner.run(foreign.open(elsewhere=True))

    assert not server.facts.local
    assert not server.facts.files
    assert server.directories == ()
    assert runner.run(server.read_auto_conf()) == foreign.auto_conf.read_bytes()  # through the server


def test_a_role_with_few_rights_sees_where_the_server_is_but_not_its_files(foreign, runner):
    server = runner.run(foreign.open("nobody_special"))

    assert server.facts.local
    assert server.facts.data_directory == ""
    assert not server.facts.files
    assert server.directories == ()
    assert runner.run(server.read_auto_conf()) is None


@on_one
def test_the_same_process_id_of_an_older_process_is_not_the_server(foreign, runner, monkeypatch):
    monkeypatch.setattr(module, "_NEW", -1.0)

    assert not runner.run(foreign.open()).facts.local


@on_one
def test_a_directory_of_the_same_name_that_is_another_servers_is_not_touched(foreign, runner):
    pid = foreign.data / "postmaster.pid"
    before = pid.read_text()
    pid.write_text("1\n" + before.partition("\n")[2])
    try:
        server = runner.run(foreign.open())
    finally:
        pid.write_text(before)

    assert server.facts.local
    assert not server.facts.files


@on_one
def test_a_server_that_is_too_old_is_refused(foreign, runner, monkeypatch):
    monkeypatch.setattr(module, "OLDEST_MAJOR", 99)

    with pytest.raises(PreflightError, match=rf"the server at 127\.0\.0\.1:{foreign.port} is PostgreSQL .* older than"):
        runner.run(
            open_server(
                LocalHost(), foreign.connection(), database=None, restart=(), caller={"PGPASSWORD": foreign.password}
            )
        )


def test_a_file_is_read_byte_for_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 7)
    content = bytes(range(256))
    (tmp_path / "f").write_bytes(content)

    assert read_bytes(LocalHost(), str(tmp_path / "f")) == content
