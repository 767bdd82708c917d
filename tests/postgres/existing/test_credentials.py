"""A server on another machine that a file names is sent no password but what the caller has for it."""

import contextlib

import pytest

from pgtrial.errors import SpecError
from pgtrial.postgres.existing.credentials import variables_for

PASSWORD = {"PGPASSWORD": "s3cret"}


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
