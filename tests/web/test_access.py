from pathlib import Path

import pytest

from pgtrial.errors import SpecError
from pgtrial.web.access import Access, is_own_host, read_monitor_token

ACCESS = Access(8417, token="the-token", session="the-session")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", None),
        ("a=b", None),
        ("token=the-token", True),
        ("a=b&token=the-token", True),
        ("token=", False),
        ("token=the-toke", False),
        ("token=the-token2", False),
        ("token=the-token&token=the-token", False),
        ("token=\u00fc", False),
        ("token=%ff%00", False),
        ("&".join(f"a{n}=1" for n in range(100)), False),
    ],
)
def test_only_the_whole_token_opens_the_door(query: str, expected: bool | None) -> None:
    assert ACCESS.has_token(query) is expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], False),
        (["pgtrial-8417=the-session"], True),
        (["other=1; pgtrial-8417=the-session ;x"], True),
        (['broken="{; pgtrial-8417=the-session'], True),
        (["other=1", "pgtrial-8417=the-session"], True),
        (["pgtrial-8418=the-session"], False),
        (["pgtrial-8417=the-token"], False),
        (["pgtrial-8417="], False),
        (["pgtrial-8417"], False),
        (["\xff\xfe=\x00"], False),
    ],
)
def test_only_our_own_cookie_counts(headers: list[str], expected: bool) -> None:
    assert ACCESS.has_cookie(headers) is expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], False),
        (["Bearer the-token"], True),
        (["bearer  the-token "], True),
        (["Bearer the-monitors"], True),
        (["Bearer the-session"], False),
        (["Bearer"], False),
        (["Bearer "], False),
        (["the-token"], False),
        (["Basic the-token"], False),
        (["Bearer the-token, Bearer the-token"], False),
        (["Bearer the-token", "Bearer the-token"], False),
        (["Bearer \xff"], False),
    ],
)
def test_a_monitor_says_one_of_the_tokens(headers: list[str], expected: bool) -> None:
    assert (
        Access(8417, token="the-token", session="the-session", monitor="the-monitors").has_bearer(headers) is expected
    )


def test_no_token_for_a_monitor_is_none_that_is_empty() -> None:
    assert not ACCESS.has_bearer(["Bearer the-monitors"])
    assert not any(ACCESS.has_bearer([f"Bearer{end}"]) for end in ("", " ", " ="))


def test_a_monitors_token_is_that_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef0123456789ABCDEF\n")
    file.chmod(0o640)
    assert read_monitor_token(file) == "0123456789abcdef0123456789ABCDEF"


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (b"0123456789abcdef0123456789abcdef\n", 0o644, "everybody may read or write the token"),
        (b"short\n", 0o600, "has no token"),
        (b"", 0o600, "has no token"),
        (b"0123456789abcdef0123456789abcdef\nmore\n", 0o600, "has no token"),
        (b"0" * 5000, 0o600, "has no token"),
    ],
)
def test_what_is_no_token_of_a_monitor_is_said(tmp_path: Path, content: bytes, mode: int, said: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(mode)
    with pytest.raises(SpecError, match=said):
        read_monitor_token(file)
    with pytest.raises(SpecError, match="cannot read"):
        read_monitor_token(tmp_path / "none")


def test_secrets_are_long_different_and_not_shown() -> None:
    one, other = Access(1), Access(1)

    assert len({one.token, one.session, other.token, other.session}) == 4
    assert min(len(one.token), len(one.session)) >= 43  # 256 bits
    assert one.token not in repr(one)
    assert one.session not in repr(one)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8417", "localhost", "LocalHost:9000", "[::1]", "[::1]:8417", " localhost:1 "]
)
def test_names_of_this_machine_are_its_own(host: str) -> None:
    assert is_own_host([host])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [""],
        ["evil.example"],
        ["evil.example:8417"],
        ["127.0.0.1.evil.example:8417"],
        ["localhost.evil.example"],
        ["evil.example:80@localhost"],
        ["localhost:80:80"],
        ["localhost:x"],
        ["[::2]"],
        ["::1"],
        ["localhost", "localhost"],
        ["localhost", "evil.example"],
        ["192.168.0.1:8417"],
    ],
)
def test_other_names_are_not(headers: list[str]) -> None:
    assert not is_own_host(headers)
