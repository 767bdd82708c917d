import contextlib
import json
import os
import socket
from contextlib import ExitStack

import psycopg
import pytest

from pgtrial.errors import ConnectError, PgTrialError, SpecError
from pgtrial.hosts.local import LocalHost
from pgtrial.postgres.connect import as_caller, fetch, forget_caller
from pgtrial.postgres.existing.address import find_again, find_server, variables_for
from pgtrial.postgres.existing.server import open_server

SECRET = "s3ntinel"
# What does not depend on the server's version.
on_one = pytest.mark.parametrize("each_programs", ["any"], indirect=True)
PASSWORD = {"PGPASSWORD": "s3cret"}


@pytest.fixture
def find(runner):
    """``find(connection, caller)``: the address, in a process that has forgotten its caller."""

    def finding(connection, caller=None, database=None):
        return runner.run(find_server(connection, database=database, caller=caller or {}))

    return finding


def reaches(runner, foreign, address, user="boss"):
    found = runner.run(fetch(address.conninfo(), "SELECT session_user::text, inet_server_port()"))
    return found == [(user, foreign.port)]


def pgpass(foreign, path):
    path.write_text(f"127.0.0.1:{foreign.port}:*:*:{foreign.password}\n")
    path.chmod(0o600)
    return str(path)


def service_file(path, text):
    path.write_text(text)
    return str(path)


@on_one
def test_a_string_and_a_password_file(foreign, runner, find, tmp_path):
    caller = {"PGPASSFILE": pgpass(foreign, tmp_path / "passwords")}

    address = find(foreign.connection(), caller)

    assert reaches(runner, foreign, address)
    assert address.place == f"127.0.0.1:{foreign.port}"
    assert (address.user, address.database) == ("boss", "postgres")
    assert address.secrets == {}
    assert foreign.password not in address.conninfo()
    assert address.environment("x")["PGPASSFILE"] == caller["PGPASSFILE"]
    assert "PGCONNECT_TIMEOUT" not in address.environment("x")  # ours, not the load's
    assert "connect_timeout=10" in address.conninfo()


@on_one
def test_a_password_file_in_the_home_directory(foreign, runner, find, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    pgpass(foreign, tmp_path / ".pgpass")

    assert reaches(runner, foreign, find(f"postgresql://boss@127.0.0.1:{foreign.port}"))


@on_one
def test_variables_alone(foreign, runner, find):
    caller = {
        "PGHOST": "127.0.0.1",
        "PGPORT": str(foreign.port),
        "PGUSER": "watcher",
        "PGPASSWORD": foreign.password,
        "PGOPTIONS": "-c work_mem=3MB",
    }

    address = find("", caller)

    assert reaches(runner, foreign, address, "watcher")
    assert runner.run(fetch(address.conninfo(), "SHOW work_mem")) == [("3MB",)]


@on_one
def test_a_service_wins_over_variables_and_the_string_over_both(foreign, runner, find, tmp_path):
    services = service_file(
        tmp_path / "services",
        f"[bench]\nhost=127.0.0.1\nport={foreign.port}\nuser=boss\npassword={foreign.password}\nkeepalives_idle=77\n",
    )
    caller = {"PGSERVICEFILE": services, "PGUSER": "maker", "PGPORT": "1"}

    assert reaches(runner, foreign, find("service=bench", caller))
    assert reaches(runner, foreign, find("", {**caller, "PGSERVICE": "bench"}))
    assert reaches(runner, foreign, find("service=bench user=watcher", caller), "watcher")


@pytest.mark.parametrize("way", ["variable", "service"])
def test_pgbench_and_a_later_process_reach_the_same_server(foreign, runner, find, tmp_path, way):
    caller = {"PGPASSWORD": foreign.password}
    connection = foreign.connection() + " keepalives_idle=77"
    if way == "service":
        text = f"[b]\nhost=127.0.0.1\nport={foreign.port}\nuser=boss\npassword={foreign.password}\nkeepalives_idle=77\n"
        connection, caller = "service=b", {"PGSERVICEFILE": service_file(tmp_path / "services", text)}
    address = find(connection, caller)

    environment = address.environment("postgres")
    pgbench = foreign.programs.path("pgbench")
    script = tmp_path / "s.sql"
    script.write_text("SELECT 1;")
    done = runner.run(LocalHost().run([pgbench, "-n", "-t", "1", "-f", script], environment=environment))
    assert "number of transactions actually processed: 1/1" in done.stdout
    assert environment["PGPASSWORD"] == foreign.password
    assert "keepalives_idle=77" in environment["PGDATABASE"]  # has no variable of its own
    assert foreign.password not in environment["PGDATABASE"]

    again = find_again(address.to_text(), {} if way == "service" else caller)
    assert reaches(runner, foreign, again)
    assert foreign.password not in address.to_text()
    assert "hostaddr" not in json.loads(address.to_text())["parameters"]


@on_one
def test_the_password_is_in_no_text(foreign, runner, find, tmp_path):
    address = find(foreign.connection(), {"PGPASSWORD": foreign.password})
    server = runner.run(
        open_server(
            LocalHost(), foreign.connection(), database=None, restart=(), caller={"PGPASSWORD": foreign.password}
        )
    )

    assert address.secrets == {"password": foreign.password}
    assert foreign.password not in f"{address} {address!r} {address.to_text()} {server} {server!r} {address.place}"


@on_one
@pytest.mark.parametrize(
    ("connection", "caller", "hint"),
    [
        ("host=127.0.0.1 port={port} user=boss", {"PGPASSWORD": SECRET}, "Correct the password in ~/.pgpass"),
        ("host=127.0.0.1 port={port} user=boss", {}, "Put the password into ~/.pgpass"),
        ("host=127.0.0.1 port={port} user=x", {"PGPASSWORD": SECRET}, "Correct the password in ~/.pgpass"),
        ("host=localhost port={closed} user=me dbname=d", {"PGPASSWORD": SECRET}, "Try the same connection with psql"),
        ("service=nowhere", {"PGPASSWORD": SECRET}, "The service file is ~/.pg_service.conf"),
        ("host=no-such-host.invalid", {"PGPASSWORD": SECRET, "PGUSER": "me"}, "Try the same connection with psql"),
        ("", {"PGHOST": "/nowhere", "PGPASSWORD": SECRET}, "Try the same connection with psql"),
    ],
)
def test_a_server_that_cannot_be_reached_is_named_without_a_password(foreign, find, connection, caller, hint):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectError) as error:
            find(connection.format(port=foreign.port, closed=unused.getsockname()[1]), caller)

    assert error.value.message.startswith("cannot connect to the server of [target]: host ")
    assert error.value.detail
    assert error.value.hint.startswith(hint)
    assert SECRET not in _everything(error.value)


@pytest.mark.parametrize(
    "connection",
    [
        f"host=x password={SECRET}",
        f"host=x password=my {SECRET}",
        f"host=x password='{SECRET}",
        f"postgresql://u:{SECRET}@h/x",
        f"postgresql://u:%zz{SECRET}@h/x",
        f"postgresql://u@h/x?sslpassword={SECRET}",
        f"nonsense={SECRET}",
        f"{SECRET}",
    ],
)
def test_a_string_that_is_none_or_holds_a_password_is_refused_without_quoting_it(find, connection):
    with pytest.raises(SpecError, match=r"the connection of \[target\] cannot be used: ") as error:
        find(connection)

    assert SECRET not in _everything(error.value)


def _everything(error: PgTrialError) -> str:
    """All that could come to be printed, the traceback's causes included."""
    said = [error.message, error.detail, error.hint]
    cause: BaseException | None = error
    while cause is not None:
        said += [str(cause), repr(cause)]
        cause = cause.__cause__
    return " ".join(said)


def test_variables_of_the_caller_hold_for_one_connection_only(monkeypatch):
    monkeypatch.setenv("PGUSER", "own")
    with as_caller({"PGHOST": "theirs"}):
        assert {name for name in os.environ if name in ("PGHOST", "PGUSER")} == {"PGHOST"}

    assert os.environ["PGUSER"] == "own"
    assert "PGHOST" not in os.environ
    assert forget_caller()["PGUSER"] == "own"
    assert "PGUSER" not in os.environ


def test_the_variables_of_a_caller_hold_until_the_last_thread_that_has_them_is_done(monkeypatch):
    monkeypatch.setenv("PGHOST", "own")
    theirs = {"PGHOST": "theirs"}
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(as_caller(theirs))
        second.enter_context(as_caller(theirs))
        first.close()
        assert os.environ["PGHOST"] == "theirs"
        with as_caller({"PGPORT": "1"}):
            assert ("PGHOST" in os.environ, os.environ["PGPORT"]) == (False, "1")
        assert os.environ["PGHOST"] == "theirs"
    assert os.environ["PGHOST"] == "own"


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_no_variables_of_a_caller_stay_in_whatever_order_those_of_several_end(monkeypatch, first_to_end):
    """A password may be among them, which every program started later would have."""
    monkeypatch.setenv("PGHOST", "own")
    monkeypatch.delenv("PGPASSWORD", raising=False)
    callers = [ExitStack(), ExitStack()]
    for caller, variables in zip(callers, ({"PGPASSWORD": SECRET}, {"PGPORT": "1"}), strict=True):
        caller.enter_context(as_caller(variables))

    callers.pop(first_to_end).close()
    left = {name: os.environ.get(name) for name in ("PGHOST", "PGPASSWORD", "PGPORT")}
    callers.pop().close()

    only = {"PGPORT": "1"} if first_to_end == 0 else {"PGPASSWORD": SECRET}
    assert left == {"PGHOST": None, "PGPASSWORD": None, "PGPORT": None} | only
    assert (os.environ["PGHOST"], os.environ.get("PGPASSWORD"), os.environ.get("PGPORT")) == ("own", None, None)


@on_one
@pytest.mark.parametrize("way", ["string", "variable", "service"])
def test_all_hosts_that_are_named_are_known(foreign, find, runner, tmp_path, way):
    hosts, ports = "/nonexistent,127.0.0.1", f"1,{foreign.port}"
    caller = {"PGPASSWORD": foreign.password}
    if way == "string":
        address = find(f"host={hosts} port={ports} user=boss", caller)
    elif way == "variable":
        address = find("user=boss", {**caller, "PGHOST": hosts, "PGPORT": ports})
    else:
        services = service_file(tmp_path / "services", f"[b]\nhost={hosts}\nport={ports}\nuser=boss\n")
        address = find("service=b", {**caller, "PGSERVICEFILE": services})

    assert address.places == ("/nonexistent:1", f"127.0.0.1:{foreign.port}")
    assert address.place == address.places[1]
    assert reaches(runner, foreign, address)


@on_one
def test_the_database_to_connect_to(foreign, find):
    caller = {"PGPASSWORD": foreign.password}
    foreign.sql("CREATE DATABASE theirs")

    assert find(foreign.connection(), caller).database == "postgres"
    assert find(foreign.connection(), caller, database="theirs").database == "theirs"
    assert find(f"{foreign.connection()} dbname=template1", caller, database="theirs").database == "template1"


@on_one
def test_the_server_with_the_wanted_role_of_several_is_the_one_from_then_on(foreign, runner, find):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        connection = f"host=127.0.0.1,127.0.0.1 port={unused.getsockname()[1]},{foreign.port} user=boss"
        address = find(connection, {"PGPASSWORD": foreign.password})

    assert address.place == f"127.0.0.1:{foreign.port}"
    assert psycopg.conninfo.conninfo_to_dict(address.conninfo())["port"] == str(foreign.port)
    assert reaches(runner, foreign, address)


def given(**parameters: str) -> dict[str, str]:
    return parameters


@pytest.mark.parametrize("host", ["db.example", "203.0.113.7", "db1,db.example", "::ffff:203.0.113.7"])
def test_a_password_for_no_host_in_particular_is_withheld(host: str) -> None:
    assert "PGPASSWORD" not in variables_for(given(host=host), {**PASSWORD, "PGUSER": "me"})
    assert variables_for(given(host=host), {**PASSWORD, "PGUSER": "me"})["PGUSER"] == "me"
    assert "PGPASSWORD" not in variables_for(given(host=host), {**PASSWORD, "PGHOST": "other.example"})


@pytest.mark.parametrize(
    ("parameters", "caller"),
    [
        (given(), {"PGHOST": "db.example"}),
        (given(user="me"), {"PGSERVICE": "bench"}),
        (given(service="bench"), {}),
        (given(host="db.example"), {"PGHOST": "db.example"}),
        (given(hostaddr="203.0.113.7"), {"PGHOSTADDR": "203.0.113.7"}),
        (given(host="localhost"), {}),
        (given(host="/var/run/postgresql"), {}),
        (given(host="127.0.0.1", port="5433"), {}),
    ],
)
def test_what_is_the_callers_own_choice_gets_his_password(parameters: dict[str, str], caller: dict[str, str]) -> None:
    assert variables_for(parameters, {**PASSWORD, **caller}) == {**PASSWORD, **caller}


@pytest.mark.parametrize(
    ("lines", "is_used"),
    [
        ("db.example:5432:*:*:x\n", True),
        ("other:*:*:*:x\ndb.example:*:*:*:x\n*:*:*:*:x\n", True),
        ("# all\n*:*:*:*:x\ndb.example:*:*:*:x\n", False),
        ("\\*:*:*:*:x\n", True),  # a host of that name
        ("", True),
    ],
)
def test_a_password_file_is_used_for_the_hosts_that_it_names(tmp_path, lines: str, is_used: bool) -> None:
    (tmp_path / "passwords").write_text(lines)
    caller = {"PGPASSFILE": str(tmp_path / "passwords")}

    assert (variables_for(given(host="db.example"), caller) == caller) is is_used
    # The experiment file may name one, which counts more than a variable.
    with contextlib.nullcontext() if is_used else pytest.raises(SpecError, match="names a password file"):
        assert variables_for(given(host="db.example", passfile=caller["PGPASSFILE"]), {}) == {}


def test_a_name_in_the_password_file_does_not_stand_for_an_address_that_a_file_gives_it(tmp_path) -> None:
    (tmp_path / "passwords").write_text("db.example:*:*:*:x\n")
    caller = {"PGPASSFILE": str(tmp_path / "passwords")}

    assert variables_for(given(host="db.example", hostaddr="203.0.113.7"), caller) != caller
    assert variables_for(given(host="localhost", hostaddr="203.0.113.7"), caller) != caller


def test_a_service_and_a_host_of_its_own_are_refused() -> None:
    with pytest.raises(SpecError, match="to which the service's password would be sent"):
        variables_for(given(service="bench", host="evil.example"), {})
    assert "PGSERVICE" not in variables_for(given(host="evil.example"), {"PGSERVICE": "bench"})
