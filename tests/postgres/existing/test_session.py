import psycopg
import pytest

from pgtrial.errors import SettingError
from pgtrial.postgres.existing.session import find_refused, options_of, read_session, split_settings
from pgtrial.postgres.settings import read_settings

ODD = {"application_name": r"a 'b' \ c", "search_path": 'public, "A b"', "work_mem": "7MB"}


@pytest.mark.parametrize("each_programs", ["any"], indirect=True)
def test_any_value_reaches_the_session_as_it_is(foreign):
    with psycopg.connect(foreign.conninfo("nobody_special"), options=options_of(ODD)) as connection:
        shown = {name: (connection.execute(f"SHOW {name}").fetchone() or ("",))[0] for name in ODD}  # type: ignore[call-overload]

    assert shown == ODD


def test_a_session_has_what_the_server_lets_it_have(foreign, runner):
    server = runner.run(foreign.open("nobody_special"))
    wanted = {"jit": "off", "log_statement": "all", "max_wal_size": "2GB", "shared_buffers": "1GB", "mine.own": "x"}

    own, shared = split_settings(wanted, runner.run(read_settings(server.conninfo())))

    assert list(own) == ["jit", "log_statement", "mine.own"]
    assert list(shared) == ["max_wal_size", "shared_buffers"]
    assert split_settings(wanted) == (own, shared)  # the same without a server


def test_what_a_role_may_not_set_is_found_without_setting_it(foreign, runner):
    server = runner.run(foreign.open("nobody_special"))
    wanted = {"jit": "off", "log_statement": "all", "log_connections": "on", "track_functions": "all"}

    assert runner.run(find_refused(server, "postgres", wanted)) == ["log_statement", "track_functions"]
    foreign.sql("GRANT SET ON PARAMETER log_statement TO nobody_special")
    try:
        assert runner.run(find_refused(server, "postgres", wanted)) == ["track_functions"]
        session = {"log_statement": "all", "jit": "off"}
        actual = runner.run(read_session(server, "postgres", session))
        assert {name: actual[name].source for name in session} == dict.fromkeys(session, "client")
    finally:
        foreign.sql("REVOKE SET ON PARAMETER log_statement FROM nobody_special")


@pytest.mark.parametrize("each_programs", ["any"], indirect=True)
def test_a_value_that_the_server_does_not_take_is_told_in_its_words(foreign, runner):
    server = runner.run(foreign.open("nobody_special"))

    with pytest.raises(SettingError, match='the server refuses work_mem = "nonsense": invalid value for parameter'):
        runner.run(find_refused(server, "postgres", {"work_mem": "nonsense"}))
    with pytest.raises(SettingError, match="the server does not begin a session with work_mem"):
        runner.run(read_session(server, "postgres", {"work_mem": "nonsense"}))
