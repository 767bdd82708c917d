import pytest

from pgtrial.experiment_file.connection import SECRETS, is_elsewhere, read_connection


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("", {}),
        ("service=bench", {"service": "bench"}),
        (" host = db  user=me ", {"host": "db", "user": "me"}),
        (r"application_name='it\'s a \\ test' host=''", {"application_name": r"it's a \ test", "host": ""}),
        (r"user=a\ b", {"user": "a b"}),
        ("postgresql://", {}),
        ("postgres://me@db:5433/x?sslmode=require", {"user": "me", "host": "db", "sslmode": "require"}),
        ("postgresql://[::1]:5432,db%2Done/x", {"host": "::1,db-one"}),
        ("postgresql:///x?host=%2Frun%2Fpg&port=1", {"host": "/run/pg", "port": "1"}),
    ],
)
def test_a_connection_string_is_read_as_libpq_reads_it(text: str, parameters: dict[str, str]) -> None:
    assert read_connection(text) == parameters


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("form", ["host=db {}=hush", "{}='hush hush'", "postgresql://db?{}=hush", "{} = hush"])
def test_a_secret_is_refused_and_not_repeated(form: str, name: str) -> None:
    with pytest.raises(
        ValueError, match=r"no password belongs in a file or on a command line; put it in \.pgpass"
    ) as caught:
        read_connection(form.format(name))

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:hush@db/x",
        "postgres://me:hu%40sh@db",
        "postgresql://me:hu/sh@db",
        "postgresql://:hush@",
        "postgresql://db?pass%77ord=hush",
    ],
)
def test_a_password_in_a_uri_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no password belongs in a file"):
        read_connection(text)


def test_an_empty_password_is_no_password() -> None:
    assert read_connection("password='' host=db") == {"password": "", "host": "db"}


@pytest.mark.parametrize("text", ["db", "host=db me hush", "=x", "password='hush", "postgresql://db?hush", "a='b'c"])
def test_what_cannot_be_read_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match="of libpq; write") as caught:
        read_connection(text)

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "service=bench",
        "host=/run/postgresql",
        "host=localhost",
        "host=127.0.0.2",
        "postgresql://[::1]/x",
        "host=@a",
    ],
)
def test_a_server_is_taken_for_one_of_this_machine_unless_it_is_named_otherwise(text: str) -> None:
    assert not is_elsewhere(text)


@pytest.mark.parametrize(
    "text", ["host=db", "hostaddr=10.0.0.1", "host=localhost,db", "postgresql://db", "host=localhost hostaddr=10.0.0.1"]
)
def test_a_server_of_another_machine_is_known_by_its_host(text: str) -> None:
    assert is_elsewhere(text)


@pytest.mark.parametrize("form", ["host=db sslmode=require {}={}", "postgresql://db/x?{}={}"])
@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("sslkey", "/tmp/gift.so:key", "sslkey names an OpenSSL engine"),
        ("sslkeylogfile", "/etc/precious", "sslkeylogfile does not belong"),
        ("servicefile", "gift.conf", "servicefile does not belong"),
    ],
)
def test_a_connection_loads_no_library_and_writes_no_file(form: str, name: str, value: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_connection(form.format(name, value))


def test_the_file_of_a_key_may_be_named() -> None:
    assert read_connection("host=db sslkey=/home/me/key.pem")["sslkey"] == "/home/me/key.pem"
