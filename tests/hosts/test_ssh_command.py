import shlex

import pytest

from pgtrial.errors import PreflightError
from pgtrial.hosts.ssh.command import HostAddress, parse_host, ssh_command


def test_address_becomes_arguments_of_ssh(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PGTRIAL_SSH", raising=False)

    assert ssh_command("ssh://me@db1:2222").connect()[-6:] == ["-l", "me", "-p", "2222", "--", "db1"]
    assert ssh_command("ssh://[::1]").session()[-2:] == ["--", "::1"]
    assert ssh_command("ssh://me@db1:2222").by_hand() == "ssh -l me -p 2222 db1"


def test_nothing_is_asked_and_what_goes_over_the_connection_never_makes_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PGTRIAL_SSH", raising=False)
    command = ssh_command("ssh://db1")

    assert "BatchMode=yes" in command.connect()
    for argv in (command.session(), command.forward("/here", "/there")):
        assert "ProxyCommand=false" in argv
        assert "BatchMode=yes" in argv


def test_another_ssh_can_be_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PGTRIAL_SSH", shlex.join(["/opt/my ssh/ssh", "-F", "/etc/my config"]))

    assert ssh_command("ssh://db1").connect()[:3] == ["/opt/my ssh/ssh", "-F", "/etc/my config"]


@pytest.mark.parametrize("text", ["db1", "ssh://-oProxyCommand=id", "ssh://", "ssh://a;b", "ssh://me:secret@db1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(PreflightError, match="is not the address of a host"):
        ssh_command(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ssh://db", (None, "db", None)),
        ("ssh://db.example.org:2222", (None, "db.example.org", 2222)),
        ("ssh://postgres@10.0.0.7", ("postgres", "10.0.0.7", None)),
        ("ssh://some.one@example.org@my_alias:1", ("some.one@example.org", "my_alias", 1)),
        ("ssh://[2001:db8::1]", (None, "2001:db8::1", None)),
        ("ssh://me@[fe80::1%eth0]:65535", ("me", "fe80::1%eth0", 65535)),
    ],
)
def test_an_address_has_a_host_and_perhaps_a_user_and_a_port(
    text: str, address: tuple[str | None, str, int | None]
) -> None:
    assert parse_host(text) == HostAddress(*address)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("db", "expected an address"),
        ("http://db", "expected an address"),
        ("ssh://", '"" is not a name of a host'),
        ("ssh://@db", '"" is not a name of a user'),
        ("ssh://-oProxyCommand=x", "is not a name of a host"),
        ("ssh://-lroot@db", "is not a name of a user"),
        ("ssh://a b", '"a b" is not a name of a host'),
        ("ssh://db/path", "is not a name of a host"),
        ("ssh://me you@db", "is not a name of a user"),
        ("ssh://me:secret@db", "no password belongs in a file"),
        ("ssh://[db]", '"db" is not an IPv6 address'),
        ("ssh://[fe80::1%a b]", "is not an IPv6 address"),
        ("ssh://2001:db8::1", '"db8::1" is not a port'),
        ("ssh://db:", '"" is not a port'),
        ("ssh://db:0", '"0" is not a port'),
        ("ssh://db:65536", '"65536" is not a port'),
        ("ssh://db:22x", '"22x" is not a port'),
    ],
)
def test_what_ssh_would_misunderstand_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse_host(text)

    assert "; " in str(caught.value)
    assert "secret" not in str(caught.value)
