import pytest

from pgtrial.hosts.address import HostAddress, parse_host


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
